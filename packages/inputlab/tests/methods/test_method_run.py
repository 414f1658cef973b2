"""How a method reaches its model: what is asked, with which seed and how many tokens, and what is charged."""

from dataclasses import dataclass, replace

import pytest

from agentinputlab.algorithms._shared import MethodRun, state_text
from agentinputlab.algorithms.acquire.hyde import HypotheticalDocuments
from agentinputlab.algorithms.plan.plan_and_solve import PlanAndSolvePrompt, PlanCall
from agentinputlab.algorithms.recipes.ace import PlaybookLearning
from agentinputlab.algorithms.rewrite.infocqr import InformativeRewrite
from agentinputlab.algorithms.rewrite.query2doc import LiveQuery2Doc
from agentinputlab.algorithms.rewrite.rrr import RewriteRetrieveRead
from agentinputlab.backends.llm import (
    CallableBackend,
    GenerationResponse,
    OpenAICompatibleTransportError,
    ScriptedBackend,
    Usage,
)
from agentinputlab.backends.scripted import parse_rules
from agentinputlab.contracts import (
    BudgetExceededError,
    ContextBlock,
    ExecutionBudget,
    FrozenAgentState,
    InterventionContext,
    Message,
)
from agentinputlab.observability import BudgetLedger, ModelPrice, PricingCatalog
from agentinputlab.runner import InterventionRunner

STATE = FrozenAgentState(query="Where does it end?", instruction="Be brief.", context=(ContextBlock("A map."),))


def listening(answer="one line", **fields):
    def reply(request):
        return GenerationResponse(text=answer, model="m", finish_reason="stop", usage=Usage(3, 2, cost_usd=0.0))

    return CallableBackend(reply, model_id="m", revision="1", callable_id="test.listening", **fields)


def test_a_scripted_model_sees_system_and_state_and_its_answer_reaches_the_agent():
    rules = {
        "rules": [
            {"when": {"system": "You plan work", "last_user": r"Be brief\.[\s\S]*A map\.[\s\S]*Where does it end"},
             "reply": "1. look at the map\n2. tell"},
        ]
    }  # fmt: skip
    context = InterventionContext(backend=ScriptedBackend(parse_rules(rules)))
    record = InterventionRunner().run(PlanCall(), STATE, context)
    assert record.patch.apply(STATE).context[-1].text.endswith("1. look at the map\n2. tell")


def test_what_the_endpoint_raises_reaches_the_caller_unchanged():
    rules = {"rules": [{"error": {"status": 503, "body": {"error": {"message": "overloaded"}}}}]}
    context = InterventionContext(backend=ScriptedBackend(parse_rules(rules)))
    with pytest.raises(OpenAICompatibleTransportError) as caught:
        InterventionRunner().run(PlanCall(), STATE, context)
    assert caught.value.http_status == 503


def test_every_sample_has_a_seed_of_its_own(embedder, searcher):
    backend = listening()
    context = InterventionContext(backend=backend, dense_embedder=embedder, vector_searcher=searcher, seed=17)
    HypotheticalDocuments(samples=3).propose(STATE, context)
    assert [call.seed for call in backend.calls] == [17, 18, 19]
    assert {call.temperature for call in backend.calls} == {0.7}


def test_a_model_without_seeds_is_asked_without_one_and_the_trace_says_so():
    backend = listening(capabilities={"chat"})
    patch = LiveQuery2Doc().propose(STATE, InterventionContext(backend=backend, seed=17))
    assert backend.calls[0].seed is None
    assert patch.trace.events[0].payload["seed"] is None


def test_no_more_tokens_are_asked_for_than_the_budget_has_left():
    backend = listening()
    state = FrozenAgentState(query="q", budget=ExecutionBudget(max_output_tokens=7))
    context = InterventionContext(backend=backend)
    InterventionRunner().run(InformativeRewrite(edit=True), state, context)
    InformativeRewrite(edit=True).propose(state, context)
    assert [call.max_tokens for call in backend.calls] == [7, 5, 7, 5]


def test_without_a_runner_the_budget_of_the_state_holds_too(bench):
    backend = listening("a\nb")
    state = FrozenAgentState(query="q", budget=ExecutionBudget(max_retrieval_calls=1))
    with pytest.raises(BudgetExceededError, match="retrieval_calls 2, allowed 1"):
        RewriteRetrieveRead().propose(state, InterventionContext(backend=backend, retriever=bench.library))
    costly = FrozenAgentState(query="q", budget=ExecutionBudget(max_output_tokens=1))
    with pytest.raises(BudgetExceededError, match="output_tokens 2, allowed 1"):
        LiveQuery2Doc().propose(costly, InterventionContext(backend=backend))


def test_without_a_runner_a_ledger_of_the_context_holds_too_and_hears_of_every_call(bench):
    backend = listening()
    ledger = BudgetLedger(ExecutionBudget(max_model_calls=1))
    context = InterventionContext(backend=backend, retriever=bench.library, budget_ledger=ledger)
    RewriteRetrieveRead().propose(STATE, context)
    assert (ledger.usage.model_calls, ledger.usage.retrieval_calls, ledger.usage.output_tokens) == (1, 1, 2)
    with pytest.raises(BudgetExceededError, match="model_calls 2, allowed 1"):
        LiveQuery2Doc().propose(STATE, context)
    assert len(backend.calls) == 1


def test_learning_keeps_its_own_bound_beside_a_ledger_of_the_context():
    context = InterventionContext(
        backend=listening('{"answer": "a", "used": []}'), budget_ledger=BudgetLedger(ExecutionBudget())
    )
    with pytest.raises(BudgetExceededError, match="model_calls 2, allowed 1"):
        PlaybookLearning(max_model_calls=1).fit([{"task": "t", "reference": "r"}], context=context)


def test_without_a_runner_prices_of_the_context_count():
    unpriced = CallableBackend(lambda _: "one line", model_id="m", revision="1", callable_id="c")
    state = FrozenAgentState(query="q", budget=ExecutionBudget(max_cost_usd=1.0))
    prices = PricingCatalog({"m": ModelPrice(1.0, 1.0)})
    assert LiveQuery2Doc().propose(state, InterventionContext(backend=unpriced, pricing_catalog=prices))
    with pytest.raises(BudgetExceededError, match="unknown_cost"):
        LiveQuery2Doc().propose(state, InterventionContext(backend=unpriced))


def test_inside_a_run_every_call_is_charged_once_even_when_tools_are_taken_away(bench):
    @dataclass(frozen=True)
    class WithoutTools:
        method_id = LiveQuery2Doc.method_id
        release_id = LiveQuery2Doc.release_id
        family = LiveQuery2Doc.family

        def propose(self, state, context):
            return LiveQuery2Doc().propose(state, replace(context, tools={}))

    record = bench.run(WithoutTools(), STATE, "a passage")
    assert record.usage.model_calls == 1


def test_a_method_remembers_nothing_from_one_run_to_the_next():
    backend = listening("1. a step")
    method = PlanCall()
    first = method.propose(STATE, InterventionContext(backend=backend))
    second = method.propose(STATE, InterventionContext(backend=backend))
    assert first.patch_hash == second.patch_hash


def test_the_visible_state_is_shown_in_headed_sections():
    state = FrozenAgentState(
        query="And then?",
        instruction="Help.",
        context=(ContextBlock("A."), ContextBlock("B.")),
        messages=(Message("user", "Hi"), Message("user", "And then?")),
    )
    assert state_text(state) == (
        "Instruction:\nHelp.\n\nContext:\nA.\n\nB.\n\nConversation:\nuser: Hi\nuser: And then?\n\nRequest:\nAnd then?"
    )
    assert state_text(state, context=False, conversation=False) == "Instruction:\nHelp.\n\nRequest:\nAnd then?"
    alone = FrozenAgentState(query="Hi", messages=(Message("user", "Hi"),))
    assert state_text(alone) == "Request:\nHi"


def test_texts_with_braces_reach_the_model_as_they_are():
    backend = listening()
    state = FrozenAgentState(query="What is {query} and {0} and {{x}}?")
    LiveQuery2Doc().propose(state, InterventionContext(backend=backend))
    assert "What is {query} and {0} and {{x}}?" in backend.calls[0].prompt


def test_other_words_or_parameters_are_another_identity():
    class Reworded(PlanAndSolvePrompt):
        prompts = ("Other words.",)

    assert PlanCall().implementation_identity == PlanCall().implementation_identity
    assert PlanCall().implementation_identity != PlanCall(max_steps=3).implementation_identity
    assert Reworded().implementation_identity != PlanAndSolvePrompt().implementation_identity


def test_a_patch_that_changes_nothing_says_why():
    patch = MethodRun(PlanAndSolvePrompt(), STATE, InterventionContext()).no_op("nothing to do")
    assert patch.changes_nothing
    assert patch.metadata["no_op_reason"] == "nothing to do"
