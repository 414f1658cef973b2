"""How far a model has drifted from what it models."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import jensenshannon
from scipy.stats import wasserstein_distance

from ripieno.canonical import ASCII
from scpn_phase_orchestrator.monitor.twin_confidence import (
    TwinConfidenceBaseline,
    TwinConfidenceCalibrator,
    TwinConfidenceScore,
    TwinDivergence,
    phase_order_divergence,
    score_twin_confidence,
    summarise_twin_confidence,
    twin_confidence_prometheus_text,
)

_BASELINE = TwinConfidenceBaseline(0.05, 0.02, 0.03, 0.01)
_PHASES = st.lists(st.floats(-50.0, 50.0), min_size=1, max_size=40)


def test_the_documented_divergence_and_score() -> None:
    divergence = phase_order_divergence((0, 1, 2, 3), (0, 1, 2, 4), (0.5, 0.6), (0.4, 0.8))
    assert divergence.phase_js_divergence == pytest.approx(0.17328679513998632, abs=1e-15)
    assert divergence.order_wasserstein == pytest.approx(0.15, abs=1e-15)
    assert divergence.n_bins == 36
    score = score_twin_confidence(divergence, _BASELINE)
    assert score.composite_z == pytest.approx(13.4907, abs=5e-5)
    assert score.confidence == pytest.approx(0.011143, abs=5e-7)
    assert score.status == "critical"
    assert not score.phase_js_within_band
    assert not score.order_w1_within_band


@given(_PHASES, st.data(), st.integers(1, 60))
def test_the_divergence_is_that_of_scipy_on_the_same_histograms(
    model: list[float], data: st.DataObject, n_bins: int
) -> None:
    observed = data.draw(st.lists(st.floats(-50.0, 50.0), min_size=len(model), max_size=len(model)))
    window = data.draw(st.lists(st.floats(0.0, 1.0), min_size=2, max_size=9))
    other = data.draw(st.permutations(window))
    result = phase_order_divergence(model, observed, window, other[::-1], n_bins=n_bins)
    edges = np.linspace(0.0, 2.0 * np.pi, n_bins + 1)
    counts = [np.histogram(np.mod(phases, 2.0 * np.pi) % (2.0 * np.pi), edges)[0] for phases in (model, observed)]
    on_an_edge = any(
        np.min(np.abs(np.mod(p, 2 * np.pi) - edges[:, None])) < 1e-9 for p in (np.array(model), np.array(observed))
    )
    if not on_an_edge:
        assert result.phase_js_divergence == pytest.approx(jensenshannon(*counts) ** 2, abs=1e-12)
    assert 0.0 <= result.phase_js_divergence <= math.log(2.0)
    assert result.order_wasserstein == 0.0


@given(st.lists(st.tuples(st.floats(0.0, 1.0), st.floats(0.0, 1.0)), min_size=1, max_size=30))
def test_the_distance_of_windows_is_that_of_scipy(pairs: list[tuple[float, float]]) -> None:
    one, other = zip(*pairs, strict=True)
    result = phase_order_divergence([0.0], [0.0], one, other)
    assert result.order_wasserstein == pytest.approx(wasserstein_distance(one, other), abs=1e-12)
    assert phase_order_divergence([0.0], [0.0], other, one).order_wasserstein == result.order_wasserstein


def test_whole_turns_change_nothing_and_opposite_phases_differ_most() -> None:
    phases = np.array([0.1, 2.0, 5.9])
    turned = phase_order_divergence(phases, phases + 2.0 * np.pi * np.array([1, -3, 7]), [0.5], [0.5])
    assert turned.phase_js_divergence == 0.0
    assert phase_order_divergence([0.1], [3.1], [0.5], [0.5]).phase_js_divergence == pytest.approx(math.log(2.0))
    assert phase_order_divergence([-1e-18], [0.0], [1], [1]).phase_js_divergence == 0.0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_phases": []}, "model_phases must be a non-empty"),
        ({"model_phases": [1.0]}, "model_phases and observed_phases must have equal lengths, got 1 and 2"),
        ({"observed_order": [0.5, 0.6]}, "model_order and observed_order must have equal lengths"),
        ({"model_phases": [1.0, float("nan")]}, "model_phases must be finite"),
        ({"observed_phases": [1.0, float("inf")]}, "observed_phases must be finite"),
        ({"model_phases": [1.0, True]}, "model_phases must be a non-empty one-dimensional array of real numbers"),
        ({"model_phases": [True, False]}, "array of real numbers"),
        ({"model_phases": [1j, 2.0]}, "array of real numbers"),
        ({"model_phases": ["1", "2"]}, "array of real numbers"),
        ({"model_phases": [[1.0, 2.0]]}, "array of real numbers"),
        ({"model_phases": [[1.0], 2.0]}, "model_phases must be a one-dimensional array"),
        ({"model_order": [1.5]}, r"model_order must lie in \[0, 1\]"),
        ({"observed_order": [-0.1]}, r"observed_order must lie in \[0, 1\]"),
        ({"n_bins": 0}, "n_bins must be an integer >= 1"),
        ({"n_bins": 3.0}, "n_bins must be an integer >= 1"),
        ({"n_bins": True}, "n_bins must be an integer >= 1"),
    ],
)
def test_bad_ticks_are_refused_by_name(changes: dict[str, Any], message: str) -> None:
    tick: dict[str, Any] = {
        "model_phases": [0.0, 1.0],
        "observed_phases": [0.0, 1.0],
        "model_order": [0.5],
        "observed_order": [0.5],
    }
    with pytest.raises(ValueError, match=message):
        phase_order_divergence(**{**tick, **changes})


def test_the_baseline_is_mean_and_population_deviation() -> None:
    calibrator = TwinConfidenceCalibrator(band_z=2.0)
    for js, w1 in ((0.1, 0.2), (0.3, 0.2)):
        calibrator.observe(TwinDivergence(js, w1, 36, "numpy"))
    baseline = calibrator.baseline()
    assert baseline.phase_js_mean == pytest.approx(0.2)
    assert baseline.phase_js_std == pytest.approx(0.1)
    assert (baseline.order_w1_mean, baseline.order_w1_std) == pytest.approx((0.2, 0.0))
    assert (baseline.count, baseline.band_z) == (2, 2.0)


def test_an_empty_or_spoilt_calibration_is_refused() -> None:
    calibrator = TwinConfidenceCalibrator()
    with pytest.raises(ValueError, match="at least one observed divergence"):
        calibrator.baseline()
    with pytest.raises(ValueError, match="phase_js_divergence must be finite and >= 0"):
        calibrator.observe(TwinDivergence(-0.1, 0.0, 36, "numpy"))
    with pytest.raises(ValueError, match="divergence must be a TwinDivergence"):
        calibrator.observe(0.1)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="band_z must be finite"):
        TwinConfidenceCalibrator(band_z=float("nan"))
    with pytest.raises(ValueError, match="order_w1_std must be a number"):
        TwinConfidenceBaseline(0.1, 0.1, 0.1, True)


@pytest.mark.parametrize(
    ("composite_z", "status"), [(0.0, "healthy"), (1.5, "healthy"), (1.6, "warning"), (3.7, "critical")]
)
def test_status_follows_the_confidence(composite_z: float, status: str) -> None:
    baseline = TwinConfidenceBaseline(0.0, 0.1, 0.0, 0.1)
    score = score_twin_confidence(TwinDivergence(0.1 * composite_z, 0.0, 36, "numpy"), baseline)
    assert score.confidence == pytest.approx(math.exp(-composite_z / 3.0))
    assert score.status == status


def test_confidence_on_a_limit_belongs_to_the_better_status() -> None:
    divergence = TwinDivergence(0.0, 0.0, 36, "numpy")
    limits = {"warning_confidence": 1.0, "critical_confidence": 1.0}
    assert score_twin_confidence(divergence, _BASELINE, **limits).status == "healthy"


def test_below_the_baseline_is_no_drift_and_a_flat_baseline_forgives_nothing() -> None:
    assert score_twin_confidence(TwinDivergence(0.0, 0.0, 36, "numpy"), _BASELINE).confidence == 1.0
    flat = TwinConfidenceBaseline(0.0, 0.0, 0.0, 0.0)
    score = score_twin_confidence(TwinDivergence(1e-6, 0.0, 36, "numpy"), flat)
    assert score.phase_js_z == pytest.approx(1e6)
    assert score.confidence == 0.0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"sensitivity": 0.0}, "sensitivity must be above 0"),
        ({"sensitivity": float("inf")}, "sensitivity must be finite"),
        ({"warning_confidence": 1.1}, "must be ordered within"),
        ({"critical_confidence": 0.7}, "must be ordered within"),
        ({"critical_confidence": True}, "critical_confidence must be a number"),
    ],
)
def test_bad_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        score_twin_confidence(TwinDivergence(0.0, 0.0, 36, "numpy"), _BASELINE, **settings)


def _score(confidence: float, status: str) -> TwinConfidenceScore:
    return TwinConfidenceScore(confidence, status, 0.0, 0.0, 0.0, 0.0, 0.0, True, True, "numpy", "")


def test_hashes_cover_every_other_field() -> None:
    score = score_twin_confidence(TwinDivergence(0.06, 0.03, 36, "numpy"), _BASELINE)
    record = score.to_audit_record()
    assert record == asdict(score)
    digest = record.pop("score_hash")
    assert digest == ASCII.hash(record)
    assert ASCII.hash(replace(score, status="warning").to_audit_record()) != digest
    summary = summarise_twin_confidence([score]).to_audit_record()
    assert summary.pop("summary_hash") == ASCII.hash(summary)
    json.dumps(record, allow_nan=False)


def test_a_summary_counts_and_keeps_the_worst_and_the_latest() -> None:
    scores = [_score(0.9, "healthy"), _score(0.2, "critical"), _score(0.5, "warning"), _score(0.8, "healthy")]
    summary = summarise_twin_confidence(scores)
    assert (summary.tick_count, summary.healthy_count, summary.warning_count, summary.critical_count) == (4, 2, 1, 1)
    assert (summary.min_confidence, summary.latest_confidence) == (0.2, 0.8)
    assert summary.mean_confidence == pytest.approx(0.6)
    assert (summary.worst_status, summary.latest_status) == ("critical", "healthy")
    with pytest.raises(ValueError, match="at least one score"):
        summarise_twin_confidence([])
    with pytest.raises(ValueError, match="status must be one of healthy, warning, critical, got 'odd'"):
        summarise_twin_confidence([_score(0.9, "odd")])


def test_the_metrics_are_what_a_prometheus_scraper_reads() -> None:
    summary = summarise_twin_confidence([_score(0.25, "critical"), _score(0.75, "healthy")])
    text = twin_confidence_prometheus_text(summary, prefix="plant")
    samples = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    assert {name: float(value) for name, value in samples.items()} == {
        "plant_twin_confidence_mean": 0.5,
        "plant_twin_confidence_min": 0.25,
        "plant_twin_confidence_latest": 0.75,
        "plant_twin_confidence_tick_count": 2.0,
        'plant_twin_confidence_status_total{status="healthy"}': 1.0,
        'plant_twin_confidence_status_total{status="warning"}': 0.0,
        'plant_twin_confidence_status_total{status="critical"}': 1.0,
        "plant_twin_confidence_worst_status_level": 2.0,
    }
    for name in ("mean", "min", "latest", "tick_count", "worst_status_level"):
        assert f"# TYPE plant_twin_confidence_{name} gauge\n" in text
    assert "# TYPE plant_twin_confidence_status_total counter\n" in text
    assert text.count("# HELP ") == text.count("# TYPE ") == 6
    assert text.endswith("\n")
    for prefix in ("", "9a", "a b", "a\n"):
        with pytest.raises(ValueError, match="prefix must be"):
            twin_confidence_prometheus_text(summary, prefix=prefix)
