"""The statistics of the slack, and the gate that reads them from a log."""

from __future__ import annotations

import json
import math
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from concerto.training.logging import RunContext, bind_run_logger
from concerto.training.safety_telemetry import FINAL_EVENT, AuditExit, SafetyAggregator, audit_gate

PAIR = ("ego", "partner")


def aggregator(n_pairs: int = 1, **settings: Any) -> SafetyAggregator:
    return SafetyAggregator(n_pairs=n_pairs, cartesian_accel_capacity=10.0, **settings)


def observed(values: list[float], **settings: Any) -> SafetyAggregator:
    result = aggregator(**settings)
    for value in values:
        result.observe({PAIR: value})
    return result


# --- statistics ---------------------------------------------------------------------------------------------


def test_acceptance_23_a_slack_that_falls_to_its_clamp() -> None:
    final = observed([0.0, -1.0, -2.0, -3.0, -4.0, -5.0, -6.0, -7.0, -7.0, -7.0]).finalise(safety_enabled=True)
    assert final["lambda_mean"] == pytest.approx(-4.2)
    assert final["lambda_var"] == pytest.approx(6.16)
    assert (final["lambda_max_observed"], final["lambda_min_observed"]) == (0.0, -7.0)
    assert (final["lambda_steady_state"], final["saturated"]) == (-7.0, False)


def test_acceptance_23_a_slack_that_rises() -> None:
    final = observed([0.1 * i for i in range(20)]).finalise(safety_enabled=True)
    assert final["lambda_mean"] == pytest.approx(0.95)
    assert final["lambda_var"] == pytest.approx(0.3325)
    assert final["lambda_steady_state"] == pytest.approx(1.85)


def test_the_summary_has_the_documented_fields() -> None:
    result = aggregator(lambda_clamp_bound=7.0)
    result.observe({PAIR: -0.5}, fallback_fired=True)
    result.observe({PAIR: -0.5}, qp_infeasible=True, braking_fired=True)
    result.observe({PAIR: -0.5}, braking_fired=np.bool_(True))  # type: ignore[arg-type]
    result.observe({PAIR: -0.5})
    assert result.finalise(safety_enabled=True) == {
        "event": "safety_telemetry_final",
        "safety_enabled": True,
        "predictor_kind": "constant_velocity",
        "n_filter_calls": 4,
        "n_fallback_fires": 1,
        "n_qp_infeasible": 1,
        "n_braking_fires": 2,
        "braking_fire_rate": 0.5,
        "cartesian_accel_capacity": 10.0,
        "saturation_threshold": 0.9,
        "lambda_clamp_bound": 7.0,
        "lambda_mean": -0.5,
        "lambda_var": 0.0,
        "lambda_max_observed": -0.5,
        "lambda_min_observed": -0.5,
        "lambda_steady_state": -0.5,
        "saturated": False,
    }


def test_a_window_ends_with_its_flush_and_the_run_goes_on() -> None:
    result = aggregator(n_pairs=2)
    other = ("ego", "third")
    result.observe({PAIR: 1.0, other: 3.0}, braking_fired=True)
    result.observe({PAIR: 4.0, other: 4.0})
    assert result.flush_window_stats() == {
        "n_obs": 2,
        "lambda_mean": 3.0,
        "lambda_var": 1.0,
        "lambda_max": 4.0,
        "lambda_min": 1.0,
        "n_fallback_fires": 0,
        "n_qp_infeasible": 0,
        "n_braking_fires": 1,
    }
    assert set(result.flush_window_stats().values()) == {0}
    result.observe({PAIR: -9.0, other: 9.0}, fallback_fired=True)
    window, final = result.flush_window_stats(), result.finalise(safety_enabled=True)
    assert (window["lambda_mean"], window["lambda_max"], window["n_fallback_fires"]) == (0.0, 9.0, 1)
    assert (final["n_filter_calls"], final["n_braking_fires"], final["n_fallback_fires"]) == (3, 1, 1)
    assert (final["lambda_mean"], final["lambda_min_observed"]) == (pytest.approx(2.0), -9.0)


@pytest.mark.parametrize("window", [1, 7, 100, 10_000])
def test_statistics_are_those_of_the_whole_series_however_it_is_cut(window: int) -> None:
    values = np.random.default_rng(3).normal(-6.9999, 1e-7, size=2000)
    result = aggregator()
    for step, value in enumerate(values, start=1):
        result.observe({PAIR: float(value)})
        if step % window == 0:
            result.flush_window_stats()
    final = result.finalise(safety_enabled=True)
    # The sum of squares of such values has no digit left of a variance of 1e-14.
    assert final["lambda_var"] == pytest.approx(values.var(), rel=1e-6, abs=0.0)
    assert final["lambda_mean"] == pytest.approx(values.mean(), rel=1e-14)
    assert final["lambda_steady_state"] == pytest.approx(values[-200:].mean(), rel=1e-14)


@pytest.mark.parametrize("window", [13, 10**6])
def test_a_slack_pinned_at_its_clamp_has_no_variance_at_all(window: int) -> None:
    result = aggregator()
    for step in range(1000):
        result.observe({PAIR: -6.9999999})
        if step % window == 0:
            result.flush_window_stats()
    final = result.finalise(safety_enabled=True)
    assert (final["lambda_mean"], final["lambda_var"]) == (-6.9999999, 0.0)


def test_the_steady_state_is_the_mean_of_the_last_tenth_at_every_length() -> None:
    values = np.random.default_rng(5).normal(size=400).tolist()
    result = aggregator()
    for n, value in enumerate(values, start=1):
        result.observe({PAIR: value})
        tail = values[n - max(1, math.floor(0.10 * n)) : n]
        assert result.finalise(safety_enabled=True)["lambda_steady_state"] == pytest.approx(sum(tail) / len(tail))


def test_the_history_is_not_kept() -> None:
    n = 60_000
    result = observed([float(i) for i in range(n)])
    assert result.finalise(safety_enabled=True)["lambda_steady_state"] == pytest.approx(n - 1 - (n // 10 - 1) / 2)
    assert len(pickle.dumps(result)) < 8 * n / 2


@pytest.mark.parametrize("value", [9.0, -9.0, -12.5, math.nan])
def test_saturation_is_seen_on_both_sides(value: float) -> None:
    assert observed([value] * 3).finalise(safety_enabled=True)["saturated"] is True
    if not math.isnan(value):
        below = observed([math.copysign(8.999, value)] * 3)
        assert below.finalise(safety_enabled=True)["saturated"] is False


def test_nothing_observed_is_zero_and_not_saturated() -> None:
    final = aggregator().finalise(safety_enabled=False)
    assert (final["safety_enabled"], final["saturated"]) == (False, False)
    numbers = {name: value for name, value in final.items() if name.startswith(("n_", "lambda_", "braking"))}
    assert set(numbers.values()) == {0, None}
    assert [name for name, value in numbers.items() if value is None] == ["lambda_clamp_bound"]


def test_without_pairs_steps_are_counted_and_extremes_are_null(tmp_path: Path) -> None:
    result = aggregator(n_pairs=0)
    result.observe({}, braking_fired=True)
    window = result.flush_window_stats()
    final = result.finalise(safety_enabled=True)
    assert (window["n_obs"], window["lambda_mean"], window["lambda_max"], window["lambda_min"]) == (1, 0.0, None, None)
    assert (final["n_filter_calls"], final["n_braking_fires"], final["lambda_max_observed"]) == (1, 1, None)
    json.dumps([window, final], allow_nan=False)


@pytest.mark.parametrize("n_pairs", [0, 2])
def test_another_number_of_pairs_is_refused(n_pairs: int) -> None:
    with pytest.raises(ValueError, match=f"lambda_ must have {n_pairs} pairs, got 1"):
        aggregator(n_pairs=n_pairs).observe({PAIR: 0.0})


@pytest.mark.parametrize("settings", [{"n_pairs": -1}, {"saturation_threshold": math.nan}])
def test_settings_that_are_no_numbers_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(settings))):
        aggregator(**settings)


# --- resuming -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cut", [0, 1, 9, 10, 155, 300])
def test_a_restored_aggregator_goes_on_to_the_same_numbers(cut: int) -> None:
    values = np.random.default_rng(7).normal(size=300).tolist()
    whole, restored = aggregator(), aggregator()
    for step, value in enumerate(values):
        if step == cut:
            restored.load_state(whole.state())
        for each in (whole, restored) if step >= cut else (whole,):
            each.observe({PAIR: value}, braking_fired=value > 1.0)
            if step % 64 == 0:
                each.flush_window_stats()
    if cut == len(values):
        restored.load_state(whole.state())
    assert restored.flush_window_stats() == whole.flush_window_stats()
    assert restored.finalise(safety_enabled=True) == whole.finalise(safety_enabled=True)


def test_a_state_is_plain_data_and_another_thing_is_refused() -> None:
    state = observed([1.0, 2.0]).state()
    assert all(type(value) in {int, float} for part in ("earlier", "window") for value in state[part].values())
    for wrong in ({}, {**state, "tail": None}, {**state, "tail": [1.0] * 5}, {**state, "window": {"x": 1}}):
        with pytest.raises(ValueError, match="not the state of a SafetyAggregator"):
            aggregator().load_state(wrong)


# --- the gate -----------------------------------------------------------------------------------------------


def log_of(tmp_path: Path, *finals: dict[str, Any], name: str = FINAL_EVENT) -> Path:
    """A log as a run writes it."""
    path = tmp_path / "run.jsonl"
    with bind_run_logger(RunContext("ab", 0, "unknown", "e3b0", "x"), jsonl_path=path) as logger:
        logger.info("training_start")
        for final in finals:
            logger.info(name, **final)
        logger.info("training_end")
    return path


PINNED: dict[str, Any] = {
    "safety_enabled": True,
    "cartesian_accel_capacity": 10.0,
    "saturation_threshold": 0.9,
    "lambda_clamp_bound": 7.0,
    "lambda_mean": -7.0,
    "lambda_var": 0.0,
    "lambda_steady_state": -7.0,
}


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({}, 0),
        ({"lambda_clamp_bound": None}, 9),
        ({"lambda_steady_state": -9.0}, 8),
        ({"safety_enabled": False}, 0),
        ({"lambda_steady_state": 9.0, "lambda_clamp_bound": None}, 8),
        ({"safety_enabled": False, "lambda_steady_state": -9.0}, 0),
        ({"lambda_mean": 7.0}, 0),
        ({"lambda_mean": -6.99}, 9),
        ({"lambda_mean": -6.99, "lambda_var": 1e-11}, 0),
        ({"lambda_mean": 1e-7}, 0),
        ({"lambda_mean": 1e-5}, 9),
        ({"lambda_mean": math.nan, "lambda_var": 1.0}, 9),
        ({"lambda_var": math.nan, "lambda_mean": 1.0}, 9),
        ({"lambda_steady_state": math.nan}, 8),
        ({"cartesian_accel_capacity": None}, 8),
        ({"lambda_steady_state": True}, 8),
    ],
)
def test_acceptance_24_the_gate_judges_in_the_documented_order(
    tmp_path: Path, changed: dict[str, Any], code: int
) -> None:
    verdict = audit_gate(log_of(tmp_path, {**PINNED, **changed}))
    assert (verdict.exit_code, int(verdict.exit_code)) == (AuditExit(code), code)
    assert "λ" in verdict.reason or "off" in verdict.reason


def test_acceptance_24_without_a_summary_or_a_log(tmp_path: Path) -> None:
    assert audit_gate(log_of(tmp_path, PINNED, name="safety_telemetry")).exit_code == 3
    assert audit_gate(tmp_path / "missing.jsonl").exit_code == audit_gate(tmp_path).exit_code == 2
    assert audit_gate(None) == (2, "no log was named")


def test_the_last_summary_counts_and_torn_lines_do_not(tmp_path: Path) -> None:
    path = log_of(tmp_path, {**PINNED, "lambda_steady_state": -9.0}, PINNED)
    with path.open("ab") as stream:
        stream.write(b'{"event": "other", "text": "safety_telemetry_final"}\n["safety_telemetry_final"]\n')
        stream.write(b'{"event": "safety_telemetry_final", "lambda_st')
    assert audit_gate(path).exit_code == 0


def test_the_gate_reads_the_bare_tokens_of_old_archives(tmp_path: Path) -> None:
    path = tmp_path / "old.jsonl"
    path.write_text(json.dumps({"event": FINAL_EVENT, **PINNED, "lambda_steady_state": -math.inf}))
    assert "-Infinity" in path.read_text()
    assert audit_gate(path).exit_code == 8


def test_what_a_run_writes_passes_the_gate_or_not(tmp_path: Path) -> None:
    def gate(values: list[float], **settings: Any) -> int:
        path = log_of(
            tmp_path,
            {k: v for k, v in observed(values, **settings).finalise(safety_enabled=True).items() if k != "event"},
        )
        verdict = audit_gate(path)
        path.unlink()
        return int(verdict.exit_code)

    assert gate([-0.0005 * step for step in range(1000)]) == 0
    assert gate([-0.05] * 100) == 9
    assert gate([-7.0] * 100, lambda_clamp_bound=7.0) == 0
    assert gate([-0.1 * step for step in range(200)]) == 8
