"""A study in this process: balanced before anything runs, failures counted, equal seeds give equal digits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from agentinputlab.backends.llm import CallableBackend, GenerationRequest
from agentinputlab.contracts import (
    BalanceError,
    ExecutionTrace,
    FrozenAgentState,
    InputPatch,
    InterventionContext,
    PatchOp,
    PatchOperation,
    ProfileKind,
    SemanticFamily,
    ValidationError,
)
from agentinputlab.observability import BudgetLedger
from agentinputlab.selectors import NoOpIntervention
from agentinputlab.studies import PairedStudy


@dataclass(frozen=True)
class Lengthens:
    fails_on: str = ""
    method_id: str = "test"
    release_id: str = "test.lengthens"
    family: SemanticFamily = SemanticFamily.REFORMULATE

    def propose(self, state: FrozenAgentState, context: InterventionContext) -> InputPatch:
        text = context.backend.generate(GenerationRequest(prompt="more")).text
        if state.task_id == self.fails_on:
            raise KeyError("cannot")
        return InputPatch(
            self.method_id,
            self.release_id,
            state.state_hash,
            (PatchOperation(PatchOp.APPEND_QUERY, text),),
            ExecutionTrace(self.method_id, self.release_id),
            "test@1",
            ProfileKind.CONTROLLED_ADAPTER,
        )


def model(revision: str = "1") -> CallableBackend:
    return CallableBackend(lambda _request: "words", model_id="m", revision=revision, callable_id="c")


def length(before: FrozenAgentState, after: FrozenAgentState) -> float:
    return float(len(after.query) > len(before.query))


STATES = [FrozenAgentState(f"query {index}", task_id=f"q{index}") for index in range(6)]
CONTEXT = InterventionContext(backend=model())


def test_a_treatment_that_helps_wins_every_pair_and_its_usage_is_its_own() -> None:
    result = PairedStudy(NoOpIntervention(), Lengthens(), length, CONTEXT).run(STATES)
    assert (result.summary.wins, result.summary.expected, result.summary.difference) == (6, 6, 1.0)
    assert result.summary.p_value == pytest.approx(2 / 2**6)
    assert (result.baseline_usage.model_calls, result.treatment_usage.model_calls) == (0, 6)
    assert result.balance.is_balanced


def test_a_failure_stays_in_the_denominator_with_what_it_used() -> None:
    result = PairedStudy(NoOpIntervention(), Lengthens(fails_on="q2"), length, CONTEXT).run(STATES)
    assert (result.summary.unresolved, result.summary.expected) == (1, 6)
    assert result.summary.difference == pytest.approx(5 / 6)
    failed = result.pairs[2].treatment
    assert (failed.score, failed.failure, failed.usage.model_calls) == (None, "KeyError", 1)


def test_an_arm_that_never_began_has_used_nothing_whatever_the_other_one_used() -> None:
    hidden: Any = model()
    result = PairedStudy(Lengthens(), Lengthens(fails_on=hidden), length, CONTEXT).run(STATES[:2])
    assert (result.baseline_usage.model_calls, result.treatment_usage.model_calls) == (2, 0)
    assert {pair.treatment.failure for pair in result.pairs} == {"ValidationError"}


def test_equal_seeds_give_equal_digits() -> None:
    study = PairedStudy(NoOpIntervention(), Lengthens(fails_on="q2"), length, CONTEXT)
    assert study.run(STATES, seed=3).summary == study.run(STATES, seed=3).summary


@pytest.mark.parametrize(
    ("other", "slot"),
    [
        (InterventionContext(backend=model("2")), "backend"),
        (InterventionContext(backend=model(), seed=1), "seed"),
        (InterventionContext(backend=model(), run_config={"a": 1}), "run_config"),
    ],
)
def test_arms_that_differ_in_something_else_are_refused_before_anything_runs(
    other: InterventionContext, slot: str
) -> None:
    backend: Any = other.backend
    study = PairedStudy(NoOpIntervention(), Lengthens(), length, CONTEXT, other)
    with pytest.raises(BalanceError, match=slot):
        study.run(STATES)
    assert backend.calls == []
    declared = PairedStudy(NoOpIntervention(), Lengthens(), length, CONTEXT, other, (slot,))
    assert declared.run(STATES).summary.wins == 6


@pytest.mark.parametrize("states", [[], [FrozenAgentState("q")], [STATES[0], STATES[0]]])
def test_units_need_names_of_their_own(states: list[FrozenAgentState]) -> None:
    with pytest.raises(ValidationError, match="task_id"):
        PairedStudy(NoOpIntervention(), NoOpIntervention(), length).run(states)


@pytest.mark.parametrize("score", [float("nan"), True, "1", None])
def test_a_score_that_is_no_number_is_refused(score: Any) -> None:
    with pytest.raises(ValidationError, match="score of unit 'q0'"):
        PairedStudy(NoOpIntervention(), NoOpIntervention(), lambda _before, _after: score).run(STATES)


def test_a_ledger_cannot_be_shared_between_runs() -> None:
    context = InterventionContext(budget_ledger=BudgetLedger(STATES[0].budget))
    with pytest.raises(ValidationError, match="baseline_context"):
        PairedStudy(NoOpIntervention(), NoOpIntervention(), length, context)
