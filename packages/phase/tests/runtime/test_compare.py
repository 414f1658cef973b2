"""Open loop beside supervised."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from scpn_phase_orchestrator.binding.loader import load_binding_spec
from scpn_phase_orchestrator.binding.types import ActuatorMapping, BindingSpec, SupervisorSpec
from scpn_phase_orchestrator.runtime.compare import Comparison, Effect, SeedComparison, compare
from scpn_phase_orchestrator.runtime.simulation import simulate


@pytest.fixture
def s1(s1_path: Path) -> BindingSpec:
    return load_binding_spec(s1_path)


def aware(spec: BindingSpec) -> BindingSpec:
    return replace(
        spec,
        supervisor=SupervisorSpec(strategy="objectives"),
        coupling=replace(spec.coupling, base_strength=2.0),
        actuators=[ActuatorMapping("apart", "K", "layer_1", (0.0, 1.5), 0.5)],
    )


def test_both_runs_of_a_seed_are_those_of_simulate(s1: BindingSpec) -> None:
    (pair,) = compare(s1, steps=40, seeds=[5]).pairs
    assert pair.open_loop.to_record() == simulate(s1, steps=40, seed=5, policy_enabled=False).to_record()
    assert pair.supervised.to_record() == simulate(s1, steps=40, seed=5).to_record()


def test_blind_supervision_locks_the_bad_layer_and_is_called_worse(s1: BindingSpec) -> None:
    comparison = compare(s1, steps=1000)
    assert comparison.effect is Effect.WORSE
    assert comparison.mean_uplift < 0
    assert comparison.sentence.startswith("Supervision gave a worse outcome on 3 of 3 seeds (")


def test_supervision_by_objectives_is_called_better(s1: BindingSpec) -> None:
    comparison = compare(aware(s1), steps=1000)
    assert comparison.effect is Effect.BETTER
    assert all(pair.effect is Effect.BETTER for pair in comparison.pairs)


def test_a_higher_score_of_the_same_outcome_is_not_called_a_better_outcome(s1: BindingSpec) -> None:
    comparison = compare(aware(s1), steps=60)
    gains = [pair.verdicts for pair in comparison.pairs if pair.effect is Effect.BETTER]
    outcomes = sum(after.outcome.rank > before.outcome.rank for before, after in gains)
    assert (f"a better outcome on {outcomes} of 3 seeds" in comparison.sentence) == (outcomes > 0)
    assert ("the same outcome with a higher score" in comparison.sentence) == (len(gains) > outcomes)


def test_a_supervisor_without_knobs_is_called_equal(s1: BindingSpec) -> None:
    idle = replace(s1, supervisor=SupervisorSpec(strategy="objectives"), actuators=[])
    comparison = compare(idle, steps=100)
    assert comparison.effect is Effect.EQUAL
    assert comparison.mean_uplift == 0.0


def test_the_record_is_json(s1: BindingSpec) -> None:
    record = compare(s1, steps=20, seeds=[1, 2]).to_record()
    assert json.loads(json.dumps(record, allow_nan=False)) == record
    assert [entry["seed"] for entry in record["seeds"]] == [1, 2]


def test_effects_that_balance_are_decided_by_a_clear_mean(s1: BindingSpec) -> None:
    worse = compare(s1, steps=1000, seeds=[42]).pairs[0]
    better = SeedComparison(42, worse.supervised, worse.open_loop)
    assert Comparison("s1", 1000, (worse, better)).effect is Effect.EQUAL
    assert Comparison("s1", 1000, (worse, worse, better)).effect is Effect.WORSE


@pytest.mark.parametrize(("arguments", "words"), [({"steps": 0}, "at least 1"), ({"seeds": []}, "at least one seed")])
def test_a_comparison_of_nothing_is_refused(s1: BindingSpec, arguments: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        compare(s1, **arguments)  # type: ignore[arg-type]
