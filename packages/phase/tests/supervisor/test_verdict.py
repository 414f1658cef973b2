"""A verdict looks at good and at bad layers, and says in words what was achieved."""

from dataclasses import replace

import numpy as np
import pytest

from scpn_phase_orchestrator.binding import load_binding_spec
from scpn_phase_orchestrator.binding.types import ObjectivePartition
from scpn_phase_orchestrator.supervisor.verdict import Outcome, judge


@pytest.fixture
def spec(s1_path):
    return load_binding_spec(s1_path)


def constant(good, bad, steps=100):
    return np.tile([good, bad], (steps, 1))


@pytest.mark.parametrize(
    ("good", "bad", "outcome"),
    [
        (0.95, 0.60, Outcome.ACHIEVED),
        (0.95, 0.99, Outcome.GOOD_TOGETHER_ONLY),
        (0.40, 0.60, Outcome.BAD_APART_ONLY),
        (0.40, 0.99, Outcome.NEITHER),
    ],
)
def test_outcome_and_sentence_name_what_holds_and_what_does_not(spec, good, bad, outcome):
    verdict = judge(spec, constant(good, bad))
    assert verdict.outcome is outcome
    assert ("feeders should hold together" in verdict.sentence) == (good < 0.8)
    assert ("storms should stay apart but is locked" in verdict.sentence) == (bad > 0.9)
    assert verdict.to_record()["sentence"] == verdict.sentence


def test_only_the_last_quarter_counts(spec):
    history = constant(0.1, 0.99, steps=1_000)
    history[-250:] = [0.95, 0.5]
    assert judge(spec, history).outcome is Outcome.ACHIEVED
    history[-251:] = [0.95, 0.5]
    history[-250:] = [0.1, 0.99]
    assert judge(spec, history).outcome is Outcome.NEITHER


def test_a_short_run_is_judged_over_a_whole_beat_of_the_bad_layer(spec):
    spec = replace(spec, layers=[replace(spec.layers[0], omegas=[0.0, 5.0, 10.0]), spec.layers[1]])
    time_s = 0.01 * np.arange(200)
    beat = np.column_stack([np.full(200, 0.95), np.abs(np.cos(2.5 * time_s))])  # storms turn at 3 and -2 rad/s
    verdict = judge(spec, beat)
    assert verdict.judged_steps == 126
    assert verdict.outcome is Outcome.ACHIEVED
    assert not verdict.is_short
    cut = judge(spec, beat[:100])
    assert cut.is_short
    assert "less than one beat of a layer: run it longer" in cut.sentence


def test_frequencies_that_hardly_differ_make_any_run_short_and_break_none(spec):
    feeders, storms = spec.layers
    slow = replace(spec, layers=[feeders, replace(storms, omegas=[0.0, 1e-300])])
    verdict = judge(slow, constant(0.95, 0.6))
    assert (verdict.judged_steps, verdict.is_short, verdict.outcome) == (100, True, Outcome.ACHIEVED)


def test_several_locked_layers_are_named_in_the_plural(spec):
    both = replace(spec, objectives=ObjectivePartition([], [layer.index for layer in spec.layers]))
    assert "feeders, storms should stay apart but are locked (1.00)" in judge(both, constant(1.0, 1.0)).sentence


def test_a_good_layer_on_its_way_in_a_run_shorter_than_its_beat_is_said_to_be(spec):
    rising = np.column_stack([np.linspace(0.2, 0.95, 1_000), np.full(1_000, 0.5)])
    assert judge(spec, rising).is_short  # feeders beat once in 31 s, the run lasts 10
    assert not judge(spec, constant(0.95, 0.5, steps=1_000)).is_short
    assert not judge(spec, np.repeat(rising, 4, axis=0)).is_short


def test_a_locked_bad_layer_is_never_made_good_by_a_perfect_good_layer(spec):
    locked = judge(spec, constant(1.0, 1.0))
    loose = judge(spec, constant(0.81, 0.7))
    assert loose.better_than(locked)
    assert not locked.better_than(loose)


def test_equal_outcomes_need_a_clear_difference(spec):
    one, other = judge(spec, constant(0.90, 0.5)), judge(spec, constant(0.93, 0.5))
    assert not other.better_than(one)
    assert judge(spec, constant(1.0, 0.5)).better_than(judge(spec, constant(0.85, 0.5)))


def test_weights_shift_the_score(spec):
    objectives = ObjectivePartition(good_layers=[0], bad_layers=[1], good_weight=3.0, bad_weight=1.0)
    weighted = judge(replace(spec, objectives=objectives), constant(1.0, 1.0))
    assert weighted.score == pytest.approx(0.75)
    assert judge(spec, constant(1.0, 1.0)).score == pytest.approx(0.5)


def test_a_spec_with_bad_layers_only_achieves_or_does_not(spec):
    only_bad = replace(spec, objectives=ObjectivePartition(good_layers=[], bad_layers=[1]))
    assert judge(only_bad, constant(0.0, 0.5)).outcome is Outcome.ACHIEVED
    assert judge(only_bad, constant(1.0, 1.0)).outcome is Outcome.NEITHER


def test_what_cannot_be_judged_is_refused(spec):
    with pytest.raises(ValueError, match="without a step"):
        judge(spec, np.zeros((0, 2)))
    with pytest.raises(ValueError, match="2 columns, got 3"):
        judge(spec, np.zeros((5, 3)))
