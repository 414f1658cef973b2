"""A chain of interventions is one intervention: one budget, one patch, one trace, all or nothing."""

import copy
import pickle
from dataclasses import dataclass, replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentinputlab.algorithms.composition import ComposedIntervention, member_changes
from agentinputlab.algorithms.plan.plan_and_solve import PlanAndSolvePrompt
from agentinputlab.algorithms.recipes.skillopt import SkillApplication
from agentinputlab.contracts import (
    AlgorithmOutputError,
    BudgetExceededError,
    ExecutionBudget,
    ExternalDependencyError,
    FrozenAgentState,
    InputPatch,
    Intervention,
    InterventionContext,
    SemanticFamily,
    StateConflictError,
    TraceEvent,
    TracePhase,
    ValidationError,
    content_hash,
)
from agentinputlab.runner import InterventionRunner

TEXTS = st.text(min_size=1, max_size=8).filter(lambda text: bool(text.strip()))
OPERATIONS = st.one_of(
    st.tuples(st.sampled_from(["replace_query", "append_query", "append_instruction", "replace_instruction"]), TEXTS),
    st.tuples(st.sampled_from(["add_context", "replace_context"]), st.lists(TEXTS, max_size=2)),
    st.tuples(
        st.sampled_from(["add_message", "replace_messages"]),
        st.lists(st.fixed_dictionaries({"role": st.just("user"), "content": TEXTS}), max_size=2),
    ),
    st.tuples(st.just("set_metadata"), st.dictionaries(st.sampled_from("abc"), st.integers(0, 3), max_size=2)),
    st.tuples(st.just("request_clarification"), TEXTS),
    st.tuples(st.just("no_op"), st.none()),
)
CONTEXT = InterventionContext()
properties = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def chain(*members):
    return ComposedIntervention(members)


def result(intervention, state, context=CONTEXT):
    return intervention.propose(state, context).apply(state)


# --- what comes out -----------------------------------------------------------------------------------------


@properties
@given(rows=st.lists(OPERATIONS, min_size=1, max_size=6))
def test_the_patch_on_the_original_state_gives_what_the_members_give_in_turn(rows, state, edit):
    members = [edit(*row) for row in rows]
    expected = state
    for member in members:
        expected = result(member, expected)
    patch = chain(*members).propose(state, CONTEXT)
    assert patch.apply(state) == expected
    assert patch.source_state_hash == state.state_hash
    assert InputPatch.from_dict(patch.as_dict()).apply(state) == expected
    changes = member_changes(patch, state)
    assert [change.before for change in changes[1:]] == [change.after for change in changes[:-1]]
    assert (changes[0].before, changes[-1].after) == (state, expected)


@properties
@given(rows=st.lists(OPERATIONS, min_size=2, max_size=6), data=st.data())
def test_a_chain_can_be_cut_anywhere(rows, data, state, edit):
    members = [edit(*row) for row in rows]
    cut = data.draw(st.integers(1, len(rows) - 1))
    whole, first, second = chain(*members), chain(*members[:cut]), chain(*members[cut:])
    assert result(second, result(first, state)) == result(whole, state)
    nested = chain(first, second)
    assert nested == whole
    assert nested.propose(state, CONTEXT).patch_hash == whole.propose(state, CONTEXT).patch_hash


def test_order_matters_where_it_should(state, edit):
    replaced, appended = edit("replace_query", "new"), edit("append_query", "more")
    assert result(chain(replaced, appended), state).query == "new\n\nmore"
    assert result(chain(appended, replaced), state).query == "new"
    block = edit("add_context", "block")
    assert result(chain(appended, block), state) == result(chain(block, appended), state)


def test_members_that_change_nothing_make_a_patch_that_changes_nothing(state, edit):
    record = InterventionRunner().run(chain(edit(), edit()), state, CONTEXT)
    assert record.status == "no_op"
    assert record.output_state_hash == state.state_hash
    assert [change.operations for change in member_changes(record.patch, state)] == [(), ()]


def test_the_agent_sees_the_budget_of_the_whole(state, ask, model_context):
    after = result(chain(ask(), ask()), state, model_context("one", "two"))
    assert after.budget == state.budget
    assert after.query == "where is it\n\none\n\ntwo"


# --- one budget ---------------------------------------------------------------------------------------------


def seen(patch):
    return [dict(event.payload["event"]) for event in patch.trace.events if event.name == "seen"]


@pytest.mark.parametrize("through_runner", [True, False])
def test_the_budget_is_shared(through_runner, state, ask, model_context):
    def propose(budget):
        context = model_context("one", "two", "three")
        limited = replace(state, budget=budget)
        if through_runner:
            return InterventionRunner().run(chain(ask(1), ask(2)), limited, context).patch
        return chain(ask(1), ask(2)).propose(limited, context)

    patch = propose(ExecutionBudget(max_model_calls=3, max_output_tokens=9))
    assert seen(patch) == [
        {"model_calls_left": 3, "tokens_left": 9},
        {"model_calls_left": 2, "tokens_left": 6},
    ]
    for budget in (ExecutionBudget(max_model_calls=2), ExecutionBudget(max_output_tokens=6)):
        with pytest.raises(BudgetExceededError):
            propose(budget)


def test_the_usage_of_the_run_is_the_sum_over_the_members(state, ask, model_context):
    record = InterventionRunner().run(chain(ask(1), ask(2)), state, model_context("one", "two", "three"))
    assert (record.usage.model_calls, record.usage.input_tokens, record.usage.output_tokens) == (3, 60, 9)
    assert dict(record.patch.trace.counters) == {"model_calls": 3, "input_tokens": 60, "output_tokens": 9}
    assert [change.counters["model_calls"] for change in member_changes(record.patch, state)] == [1, 2]


def test_a_member_that_overdraws_what_is_left_fails_the_chain(state, ask, edit, model_context):
    @dataclass(frozen=True)
    class Greedy:
        method_id: str = "test.greedy"
        release_id: str = "test.greedy.one"
        family: SemanticFamily = SemanticFamily.REFORMULATE

        def propose(self, state, context):
            patch = InputPatch.no_op(state, method_id=self.method_id, release_id=self.release_id)
            return replace(patch, trace=replace(patch.trace, counters={"retrieval_calls": 9}))

    with pytest.raises(BudgetExceededError, match="used 9 where max_retrieval_calls is 8"):
        chain(edit(), Greedy()).propose(state, CONTEXT)


# --- one trace ----------------------------------------------------------------------------------------------


def test_every_event_says_whose_it_is(state, ask, edit, model_context):
    patch = chain(ask(), edit("append_query", "x"), ask()).propose(state, model_context("one", "two"))
    names = [(event.payload["member"], event.name) for event in patch.trace.events]
    assert names == [
        (0, "member_started"), (0, "seen"), (0, "ask.n0"), (0, "patch"), (0, "member_applied"),
        (1, "member_started"), (1, "patch"), (1, "member_applied"),
        (2, "member_started"), (2, "seen"), (2, "ask.n0"), (2, "patch"), (2, "member_applied"),
    ]  # fmt: skip
    releases = ["test.ask.model", "test.edit.one", "test.ask.model"]
    assert all(event.payload["release_id"] == releases[event.payload["member"]] for event in patch.trace.events)
    hashes = [event.payload["output_state_hash"] for event in patch.trace.events if event.name == "member_applied"]
    assert hashes == [change.after.state_hash for change in member_changes(patch, state)]


def test_warnings_name_the_member_and_a_lost_question_is_one(state, edit):
    patch = chain(edit("request_clarification", "a?"), edit(), edit("request_clarification", "b?")).propose(
        state, CONTEXT
    )
    assert patch.trace.warnings == ("member 3 (test.edit.one) replaced a clarification request made before",)
    assert patch.apply(state).metadata["clarification_request"] == "b?"


def test_what_a_member_says_about_its_outcome_reaches_the_runner(state, edit):
    @dataclass(frozen=True)
    class FellBack:
        method_id: str = "test.fallback"
        release_id: str = "test.fallback.one"
        family: SemanticFamily = SemanticFamily.REFORMULATE

        def propose(self, state, context):
            return InputPatch.no_op(
                state, method_id=self.method_id, release_id=self.release_id, metadata={"fallback": True}
            )

    assert InterventionRunner().run(chain(edit("append_query", "x"), FellBack()), state, CONTEXT).status == "fallback"


# --- all or nothing -----------------------------------------------------------------------------------------


def test_a_failing_member_fails_the_chain_with_its_own_error_and_leaves_nothing(state, edit, ask):
    before = copy.deepcopy(state)
    composed = chain(edit("replace_query", "changed"), ask(), edit("append_query", "never"))
    with pytest.raises(ExternalDependencyError, match=r"test\.ask\.model needs a language model") as caught:
        InterventionRunner().run(composed, state, CONTEXT)
    assert caught.value.__notes__[0] == f"member 2 of 3 of {composed.release_id}: test.ask.model"
    assert state == before
    assert state.state_hash == before.state_hash


def test_a_member_must_give_a_patch_of_its_own_for_its_state(state, edit):
    @dataclass(frozen=True)
    class Wrong:
        answer: object = None
        method_id: str = "test.wrong"
        release_id: str = "test.wrong.one"
        family: SemanticFamily = SemanticFamily.REFORMULATE

        def propose(self, state, context):
            return self.answer

    foreign = edit("append_query", "x").propose(state, CONTEXT)
    stale = InputPatch.no_op(state, method_id="test.wrong", release_id="test.wrong.one")
    for answer, message in (
        ("text", "must propose an InputPatch, got str"),
        (foreign, "gave a patch of test.edit.one"),
        (stale, "another state than the one it was given"),
    ):
        with pytest.raises(AlgorithmOutputError, match=message):
            chain(edit("append_query", "x"), Wrong(answer=answer)).propose(state, CONTEXT)


def test_the_patch_fits_its_state_only(state, edit):
    patch = chain(edit("append_query", "x")).propose(state, CONTEXT)
    other = FrozenAgentState(query="other")
    with pytest.raises(StateConflictError):
        patch.apply(other)
    with pytest.raises(StateConflictError):
        member_changes(patch, other)
    with pytest.raises(ValidationError, match="not one of a composition"):
        member_changes(edit("append_query", "x").propose(state, CONTEXT), state)
    dropped = replace(patch, operations=(*patch.operations, *patch.operations))
    with pytest.raises(ValidationError, match="do not add up"):
        member_changes(dropped, state)


# --- identity -----------------------------------------------------------------------------------------------


def test_the_release_is_the_hash_of_ordered_members_and_parameters():
    skill, plan = SkillApplication(skill="Count twice."), PlanAndSolvePrompt()
    composed = chain(skill, plan)
    members = [
        {"release_id": "recipe.skillopt.apply", "parameters": {"skill": "Count twice.", "sha256": ""}},
        {"release_id": "plan.plan_and_solve.ps_prompt", "parameters": {}},
    ]
    assert composed.parameters == {"members": members}
    assert composed.release_id == f"composite.{content_hash({'members': members})[:12]}"
    assert composed.release_id == chain(SkillApplication(skill="Count twice."), plan).release_id
    others = {
        chain(plan, skill),
        chain(SkillApplication(skill="Count once."), plan),
        chain(skill),
        chain(skill, plan, plan),
    }
    assert composed.release_id not in {other.release_id for other in others}
    assert len({other.release_id for other in others}) == 4
    assert isinstance(composed, Intervention)
    assert pickle.loads(pickle.dumps(composed)) == composed


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ((), "at least one"),
        (("plan",), r"members\[0\] must be an intervention, got str"),
        ((PlanAndSolvePrompt,), "must be an intervention, got type"),
        (PlanAndSolvePrompt(), "must be a list or tuple"),
    ],
)
def test_members_must_be_interventions(members, message):
    with pytest.raises(ValidationError, match=message):
        ComposedIntervention(members)


def test_phases_of_the_members_events_are_kept(state, edit):
    patch = chain(edit("append_query", "x")).propose(state, CONTEXT)
    assert patch.trace.events[1] == TraceEvent(
        TracePhase.FINALIZE,
        "patch",
        {"member": 0, "release_id": "test.edit.one", "event": {"operations": ["append_query"]}},
    )
