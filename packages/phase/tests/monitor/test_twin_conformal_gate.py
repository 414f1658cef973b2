"""Admission by conformal calibration."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ripieno.canonical import ASCII
from scpn_phase_orchestrator.monitor.twin_confidence import (
    TwinConfidenceBaseline,
    TwinDivergence,
    score_twin_confidence,
)
from scpn_phase_orchestrator.monitor.twin_conformal_gate import (
    ConformalGateConfig,
    TwinConformalGate,
    confidence_nonconformity,
)


def _gate(scores: Any, **settings: Any) -> TwinConformalGate:
    gate = TwinConformalGate(ConformalGateConfig(**settings))
    gate.calibrate(scores)
    return gate


def test_the_documented_run_of_three_ticks() -> None:
    gate = _gate(range(1, 20))
    decisions = [gate.update(score) for score in (5, 25, 18)]
    assert [decision.admitted for decision in decisions] == [True, False, True]
    assert [decision.threshold for decision in decisions] == [18.0, 18.0, 19.0]
    assert [decision.effective_miscoverage for decision in decisions] == pytest.approx([0.1, 0.102, 0.084])
    assert decisions[-1].empirical_coverage == gate.empirical_coverage() == pytest.approx(2 / 3)
    assert [decision.tick for decision in decisions] == [1, 2, 3]


def test_documented_thresholds_of_small_calibrations() -> None:
    assert _gate(range(1, 11)).update(0).threshold == 10.0
    assert math.isinf(_gate(range(4)).update(1e9).threshold)
    assert _gate(range(4)).update(1e9).admitted


@pytest.mark.parametrize(("miscoverage", "k"), [(0.7, 3), (0.1, 9), (0.9, 1), (0.3, 7), (0.65, 4)])
def test_products_that_are_whole_numbers_are_not_rounded_up(miscoverage: float, k: int) -> None:
    assert _gate(range(1, 10), target_miscoverage=miscoverage).update(0).threshold == k


def test_the_order_of_calibration_scores_does_not_matter() -> None:
    assert _gate([3, 1, 2] * 5).update(2).to_audit_record() == _gate(sorted([3, 1, 2] * 5)).update(2).to_audit_record()


def test_miscoverage_stays_within_its_bounds_and_thresholds_follow() -> None:
    refusing = _gate(range(1, 11), adaptation_rate=1.0)
    thresholds = [refusing.update(1e9).threshold for _ in range(3)]
    assert thresholds[0] == 10.0
    assert math.isinf(thresholds[1])  # alpha fell to 0, so everything is admitted
    admitting = _gate(range(1, 11), adaptation_rate=1.0, target_miscoverage=0.5)
    assert [admitting.update(0).effective_miscoverage for _ in range(3)] == [0.5, 1.0, 1.0]
    assert admitting.update(0).threshold == 1.0


def test_coverage_stays_at_the_target_while_the_scores_drift_within_the_calibration() -> None:
    rng = np.random.default_rng(3)
    calibration = rng.exponential(size=500)
    scores = rng.exponential(scale=np.linspace(1.0, 1.8, 4000))
    gate = _gate(calibration)
    fixed = float(np.quantile(calibration, 0.9))
    for score in scores:
        gate.update(float(score))
    assert gate.empirical_coverage() == pytest.approx(0.9, abs=0.01)
    assert float(np.mean(scores <= fixed)) < 0.87  # what a threshold that does not adapt would admit


@given(st.lists(st.floats(0.0, 1e6), min_size=1, max_size=30), st.floats(0.0, 1e6), st.floats(0.01, 0.99))
def test_the_threshold_is_the_kth_smallest_score(scores: list[float], score: float, alpha: float) -> None:
    decision = _gate(scores, target_miscoverage=alpha).update(score)
    k = math.ceil(round((1.0 - alpha) * (len(scores) + 1), 9))
    assert decision.threshold == (math.inf if k > len(scores) else sorted(scores)[k - 1])
    assert decision.admitted == (score <= decision.threshold)


def test_regimes_with_a_calibration_of_their_own_adapt_by_themselves() -> None:
    gate = _gate([1.0] * 20)
    gate.calibrate([9.0] * 20, regime="critical")
    assert not gate.update(5.0).admitted
    assert gate.update(5.0, regime="critical").regime == "critical"
    assert gate.update(5.0, regime="critical").effective_miscoverage == pytest.approx(0.102)
    decision = gate.update(0.5, regime="nominal")
    assert (decision.regime, decision.effective_miscoverage) == ("default", pytest.approx(0.082))
    unconditioned = _gate([1.0] * 20, regime_conditioned=False)
    unconditioned.calibrate([9.0] * 20, regime="critical")
    assert unconditioned.update(5.0, regime="critical").regime == "default"


def test_a_gate_without_calibration_refuses_to_judge() -> None:
    gate = TwinConformalGate()
    with pytest.raises(ValueError, match="the gate must be calibrated first: regime 'default' has no scores"):
        gate.update(1.0)
    gate.calibrate([1.0], regime="critical")
    with pytest.raises(ValueError, match="regime 'nominal' has no scores"):
        gate.update(1.0, regime="nominal")
    assert gate.empirical_coverage() == 1.0


def test_calibrating_again_starts_the_miscoverage_anew() -> None:
    gate = _gate([1.0] * 20)
    gate.update(5.0)
    gate.calibrate([1.0] * 20)
    assert gate.update(0.0).effective_miscoverage == 0.1


@pytest.mark.parametrize("score", [float("nan"), float("inf"), True, "1", None, 1j])
def test_scores_must_be_finite_numbers(score: Any) -> None:
    gate = _gate([1.0])
    with pytest.raises(ValueError, match="score must be"):
        gate.update(score)
    with pytest.raises(ValueError, match="calibration score must be"):
        gate.calibrate([score])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"target_miscoverage": 0.0}, r"target_miscoverage must be in \(0, 1\)"),
        ({"target_miscoverage": 1.0}, r"target_miscoverage must be in \(0, 1\)"),
        ({"target_miscoverage": True}, "target_miscoverage must be a number"),
        ({"adaptation_rate": 0.0}, r"adaptation_rate must be in \(0, 1\]"),
        ({"adaptation_rate": 1.1}, r"adaptation_rate must be in \(0, 1\]"),
        ({"regime_conditioned": "yes"}, "regime_conditioned must be true or false"),
    ],
)
def test_bad_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ConformalGateConfig(**settings)


def test_bad_calibrations_and_regimes_are_refused() -> None:
    gate = _gate([1.0])
    with pytest.raises(ValueError, match="regime 'x' needs at least one score"):
        gate.calibrate([], regime="x")
    for regime in ("", 3):
        with pytest.raises(ValueError, match="regime must be a non-empty name"):
            gate.calibrate([1.0], regime=regime)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="regime must be a non-empty name"):
            gate.update(1.0, regime=regime)  # type: ignore[arg-type]


def test_a_refused_score_changes_nothing() -> None:
    gate = _gate(range(1, 20))
    with pytest.raises(ValueError, match="finite"):
        gate.update(float("nan"))
    assert gate.update(5).to_audit_record() == _gate(range(1, 20)).update(5).to_audit_record()


def test_the_hash_covers_every_other_field_and_infinity_is_null() -> None:
    for decision in (_gate(range(1, 20)).update(5), _gate([1.0]).update(5)):
        record = decision.to_audit_record()
        json.dumps(record, allow_nan=False)
        assert record.pop("decision_hash") == ASCII.hash(record)
    assert record["threshold"] is None


def test_nonconformity_is_the_composite_z() -> None:
    score = score_twin_confidence(TwinDivergence(0.1, 0.2, 36, "numpy"), TwinConfidenceBaseline(0.0, 0.1, 0.0, 0.1))
    assert confidence_nonconformity(score) == score.composite_z == pytest.approx(math.sqrt(5.0))
