"""The audit of a detector: its threshold, its p-value, its record."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ripieno.receipts import check_sealed
from scpn_phase_orchestrator.evaluation import alarm_threshold, audit_detector_scores, detector_audit_record

scores = st.lists(st.floats(-100, 100), min_size=1, max_size=60)


@given(scores, st.floats(0.001, 0.999))
def test_false_alarms_never_exceed_their_budget(null: list[float], target: float) -> None:
    threshold = alarm_threshold(null, target)
    assert sum(score >= threshold for score in null) <= int(target * len(null) + 1e-9)


@given(st.lists(st.floats(-100, 100), min_size=1, max_size=60, unique=True), st.floats(0.001, 0.999))
def test_without_ties_the_whole_budget_is_used(null: list[float], target: float) -> None:
    threshold = alarm_threshold(null, target)
    assert sum(score >= threshold for score in null) == int(target * len(null) + 1e-9)


def test_the_budget_is_counted_as_people_count() -> None:
    null = [float(score) for score in range(100)]
    assert sum(score >= alarm_threshold(null, 0.29) for score in null) == 29


def test_the_threshold_is_just_above_a_null_score() -> None:
    assert alarm_threshold([1.0, 2.0, 3.0], 0.1) == np.nextafter(3.0, np.inf)
    assert alarm_threshold([1.0, 2.0, 3.0], 0.4) == np.nextafter(2.0, np.inf)


def test_a_perfect_detector_finds_everything_and_is_no_chance() -> None:
    audit = audit_detector_scores([10.0 + i for i in range(20)], [float(i) for i in range(10)], n_permutations=999)
    assert (audit.detection_rate, audit.p_value, audit.significant) == (1.0, 0.001, True)
    assert audit.detection_rate_interval[0] > 0.8


def test_a_blind_detector_is_chance() -> None:
    audit = audit_detector_scores([0.0] * 5, [0.0] * 5, n_permutations=99)
    assert (audit.detections, audit.p_value, audit.significant) == (0, 1.0, False)


def test_equal_arguments_give_equal_numbers_and_another_seed_another_sample() -> None:
    rng = np.random.default_rng(5)
    event, null = rng.normal(0.7, 1, 30).tolist(), rng.normal(0, 1, 40).tolist()
    first = audit_detector_scores(event, null, n_permutations=2000)
    assert audit_detector_scores(event, null, n_permutations=2000) == first
    assert audit_detector_scores(event, null, n_permutations=2000, seed=1).p_value != first.p_value


def test_the_p_value_agrees_with_all_relabellings() -> None:
    from itertools import combinations

    event, null = [2.0, 5.0, 6.0], [0.0, 1.0, 3.0, 4.0]
    pooled = [*event, *null]

    def detections(places: tuple[int, ...]) -> int:
        rest = [pooled[i] for i in range(7) if i not in places]
        threshold = alarm_threshold(rest, 0.3)
        return sum(pooled[i] >= threshold for i in places)

    observed = detections((0, 1, 2))
    exact = np.mean([detections(places) >= observed for places in combinations(range(7), 3)])
    sampled = audit_detector_scores(event, null, target_false_alarm=0.3, n_permutations=40_000).p_value
    assert sampled == pytest.approx(exact, abs=0.01)


def test_the_test_keeps_its_level_when_there_is_nothing_to_find() -> None:
    rng = np.random.default_rng(7)
    found = [
        audit_detector_scores(rng.normal(size=12), rng.normal(size=15), n_permutations=199, seed=i).significant
        for i in range(300)
    ]
    assert np.mean(found) <= 0.05 + 3 * (0.05 * 0.95 / 300) ** 0.5


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"event_scores": []}, "event_scores must be non-empty"),
        ({"event_scores": [float("nan")]}, r"event_scores\[0\] must be finite"),
        ({"null_scores": [1.0, True]}, r"null_scores\[1\] must be a number"),
        ({"null_scores": "12"}, "null_scores must be an array"),
        ({"target_false_alarm": 0.0}, "target_false_alarm must lie between 0 and 1"),
        ({"alpha": 1}, "alpha must lie between 0 and 1"),
        ({"n_permutations": 0}, "n_permutations must be an integer >= 1"),
        ({"seed": -1}, "seed must be an integer >= 0"),
    ],
)
def test_arguments_out_of_range_are_refused_by_name(changes: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {"event_scores": [1.0], "null_scores": [0.0], **changes}
    with pytest.raises(ValueError, match=message):
        audit_detector_scores(arguments.pop("event_scores"), arguments.pop("null_scores"), **arguments)


def test_the_record_is_sealed_and_depends_on_the_scores() -> None:
    audit = audit_detector_scores([1.0], [0.0], n_permutations=9)
    record = detector_audit_record(audit, [1.0], [0.0], corpus_id="c", captured_at="2024-05-01")
    other = detector_audit_record(audit, [1.5], [0.0], corpus_id="c", captured_at="2024-05-01")
    check_sealed(record)
    assert record["scores_sha256"] != other["scores_sha256"]
    with pytest.raises(ValueError, match="corpus_id must be a non-empty string"):
        detector_audit_record(audit, [1.0], [0.0], corpus_id=" ", captured_at="2024")


def test_scores_beyond_doubles_are_refused() -> None:
    with pytest.raises(ValueError, match=r"event_scores\[0\] must be finite and within the range of doubles"):
        audit_detector_scores([10**400], [0.0])
    with pytest.raises(ValueError, match="null_scores reach the largest double"):
        audit_detector_scores([0.0], [1.7976931348623157e308])
