"""One run: what may enter it, what it is charged, and what comes out."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import pytest

from agentinputlab.algorithms.recipes.ace import PlaybookLearning
from agentinputlab.backends.embedding import EmbeddingResponse
from agentinputlab.backends.llm import CallableBackend, GenerationRequest, GenerationResponse, Usage
from agentinputlab.contracts import (
    AlgorithmOutputError,
    BudgetExceededError,
    CompositeResult,
    ExecutionBudget,
    ExecutionTrace,
    FrozenAgentState,
    InputPatch,
    IntentContract,
    IntentViolationError,
    InterventionContext,
    PatchOp,
    PatchOperation,
    ProfileKind,
    SemanticFamily,
    StateConflictError,
    ValidationError,
)
from agentinputlab.observability import (
    BudgetLedger,
    ComputePrice,
    EventKind,
    ModelPrice,
    MonitorEvent,
    PricingCatalog,
    ResourceUsage,
    RunMonitor,
    RunStatus,
    is_metered,
)
from agentinputlab.runner import CompositeInterventionRunner, InterventionRunner, InterventionStatus
from agentinputlab.selectors import NoOpIntervention

STATE = FrozenAgentState("trip to New York", budget=ExecutionBudget(max_model_calls=2, max_output_tokens=10))
Steps = Callable[[FrozenAgentState, InterventionContext], "InputPatch"]


def patch(state: FrozenAgentState, *, query: str = "changed", **changes: Any) -> InputPatch:
    values: dict[str, Any] = {
        "method_id": "test",
        "release_id": "test.release",
        "source_state_hash": state.state_hash,
        "operations": (PatchOperation(PatchOp.REPLACE_QUERY, query),),
        "implementation_identity": "test@1",
        "profile_kind": ProfileKind.CONTROLLED_ADAPTER,
    }
    counters = changes.pop("counters", {})
    values.update(changes)
    trace = ExecutionTrace(values["method_id"], values["release_id"], counters=counters)
    return InputPatch(**values, trace=trace)


class Probe:
    """An intervention whose class holds what it does, as written code would."""

    method_id = "test"
    release_id = "test.release"
    family = SemanticFamily.REFORMULATE
    implementation_identity = "test@1"
    profile_kind = ProfileKind.CONTROLLED_ADAPTER
    steps: ClassVar[Any]

    def propose(self, state: FrozenAgentState, context: InterventionContext) -> InputPatch:
        return type(self).steps(state, context)


def does(steps: Steps) -> Probe:
    return type("Probe", (Probe,), {"steps": staticmethod(steps)})()


def model(text: str = "one two", usage: Usage | None = None) -> CallableBackend:
    def answer(request: GenerationRequest) -> GenerationResponse | str:
        return text if usage is None else GenerationResponse(text, "m", "stop", usage)

    return CallableBackend(answer, model_id="m", revision="1", callable_id="test")


def ask(context: InterventionContext) -> GenerationResponse:
    return context.backend.generate(GenerationRequest(prompt="hello", max_tokens=5))


def run(steps: Steps, state: FrozenAgentState = STATE, **context: Any) -> Any:
    return InterventionRunner().run(does(steps), state, InterventionContext(**context))


# --- what comes out -----------------------------------------------------------------------------------------


def test_a_run_gives_the_patch_with_hashes_status_and_usage() -> None:
    def steps(state: FrozenAgentState, context: InterventionContext) -> InputPatch:
        ask(context)
        return patch(state)

    record = run(steps, backend=model())
    assert record.status is InterventionStatus.SUCCESS
    assert record.input_state_hash == STATE.state_hash
    assert record.output_state_hash == record.patch.apply(STATE).state_hash != STATE.state_hash
    assert (record.usage.model_calls, record.usage.output_tokens, record.usage.unpriced_model_calls) == (1, 2, 1)
    assert record.usage.cpu_seconds > 0
    assert record.as_dict()["patch_hash"] == record.patch.patch_hash


def test_token_counts_stand_beside_the_identity_of_their_counter() -> None:
    def steps(state: FrozenAgentState, context: InterventionContext) -> InputPatch:
        ask(context)
        return patch(state)

    (counter,) = run(steps, backend=model()).token_counters.items()
    assert counter[0] == "agentinputlab.word_punctuation.v1"
    assert counter[1].output_tokens == 2


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"operations": (PatchOperation(PatchOp.NO_OP),)}, "no_op"),
        ({"metadata": {"fallback": True}}, "fallback"),
        ({"metadata": {"budget_exhausted": True}}, "budget_exhausted"),
        ({"metadata": {"fallback": False}}, "success"),
    ],
)
def test_the_status_says_what_the_intervention_came_to(changes: dict[str, Any], status: str) -> None:
    assert run(lambda state, _context: patch(state, **changes)).status == status


def test_the_baseline_is_a_no_op() -> None:
    assert InterventionRunner().run(NoOpIntervention(), STATE, InterventionContext()).status == "no_op"


@pytest.mark.parametrize("output", [None, {"operations": []}, "text"])
def test_anything_but_a_patch_is_refused(output: Any) -> None:
    with pytest.raises(AlgorithmOutputError, match=r"test\.release must give one InputPatch"):
        run(lambda _state, _context: output)


@pytest.mark.parametrize("name", ["method_id", "release_id"])
def test_a_patch_of_somebody_else_is_refused(name: str) -> None:
    with pytest.raises(AlgorithmOutputError, match=f"{name} .*other"):
        run(lambda state, _context: patch(state, **{name: "other"}))


def test_a_patch_for_another_state_is_refused() -> None:
    with pytest.raises(StateConflictError):
        run(lambda _state, _context: patch(FrozenAgentState("another")))


def test_an_error_of_the_intervention_reaches_the_caller_unchanged() -> None:
    error = KeyError("deep inside")

    def steps(state: FrozenAgentState, context: InterventionContext) -> InputPatch:
        raise error

    monitor = RunMonitor()
    with pytest.raises(KeyError) as caught:
        InterventionRunner(monitor=monitor).run(does(steps), STATE, InterventionContext())
    assert caught.value is error
    assert monitor.list_snapshots()[0].status is RunStatus.FAILED


# --- budget -------------------------------------------------------------------------------------------------


def test_a_call_beyond_the_cap_is_not_made_and_hiding_the_refusal_does_not_help() -> None:
    backend = model()

    def steps(state: FrozenAgentState, context: InterventionContext) -> InputPatch:
        for _ in range(3):
            try:
                ask(context)
            except BudgetExceededError:
                break
        return patch(state)

    monitor = RunMonitor()
    with pytest.raises(BudgetExceededError, match="model_calls 3, allowed 2"):
        InterventionRunner(monitor=monitor).run(does(steps), STATE, InterventionContext(backend=backend))
    assert len(backend.calls) == 2
    (snapshot,) = monitor.list_snapshots()
    assert snapshot.status is RunStatus.BUDGET_EXHAUSTED
    assert snapshot.usage.model_calls == 2


def test_what_a_call_really_used_counts_even_when_it_is_too_much() -> None:
    monitor = RunMonitor()
    with pytest.raises(BudgetExceededError, match="output_tokens 12, allowed 10"):
        InterventionRunner(monitor=monitor).run(
            does(lambda state, context: ask(context) and patch(state)),
            STATE,
            InterventionContext(backend=model(usage=Usage(3, 12))),
        )
    assert monitor.list_snapshots()[0].usage.output_tokens == 12


@pytest.mark.parametrize("cap", ["max_model_calls", "max_output_tokens", "max_context_tokens"])
def test_with_a_cap_of_zero_no_model_is_called(cap: str) -> None:
    backend = model()
    state = replace(STATE, budget=replace(STATE.budget, **{cap: 0}))
    with pytest.raises(BudgetExceededError):
        run(lambda state, context: ask(context) and patch(state), state, backend=backend)
    assert backend.calls == []


def test_a_failed_model_call_counts_as_one_unpriced_call_and_its_error_comes_through() -> None:
    def fail(request: GenerationRequest) -> str:
        raise ConnectionError("gone")

    backend = CallableBackend(fail, model_id="m", revision="1", callable_id="fails")

    def steps(state: FrozenAgentState, context: InterventionContext) -> InputPatch:
        with pytest.raises(ConnectionError):
            ask(context)
        return patch(state)

    usage = run(steps, backend=backend).usage
    assert (usage.model_calls, usage.unpriced_model_calls, usage.input_tokens) == (1, 1, 0)


def test_prices_come_from_the_catalogue_unless_the_backend_says_its_own() -> None:
    catalog = PricingCatalog({"m": ModelPrice(1_000_000, 2_000_000)})

    def steps(state: FrozenAgentState, context: InterventionContext) -> InputPatch:
        ask(context)
        return patch(state)

    priced = run(steps, backend=model(usage=Usage(3, 2)), pricing_catalog=catalog).usage
    assert (priced.cost_usd, priced.unpriced_model_calls) == (7.0, 0)
    own = run(steps, backend=model(usage=Usage(3, 2, cost_usd=0.5)), pricing_catalog=catalog).usage
    assert own.cost_usd == 0.5


def test_under_a_cost_cap_a_call_without_a_price_is_an_unknown_cost() -> None:
    state = replace(STATE, budget=ExecutionBudget(max_cost_usd=5.0))
    with pytest.raises(BudgetExceededError, match="unknown_cost"):
        run(lambda state, context: ask(context) and patch(state), state, backend=model())


def test_a_priced_call_that_cannot_fit_a_cost_cap_of_zero_is_not_made() -> None:
    backend = model()
    state = replace(STATE, budget=ExecutionBudget(max_cost_usd=0))
    catalog = PricingCatalog({"m": ModelPrice(1.0, 1.0)})
    with pytest.raises(BudgetExceededError, match="cost_usd"):
        run(lambda state, context: ask(context) and patch(state), state, backend=backend, pricing_catalog=catalog)
    assert backend.calls == []


def test_machine_time_with_a_price_counts_against_the_cost_cap() -> None:
    state = replace(STATE, budget=ExecutionBudget(max_cost_usd=0))
    with pytest.raises(BudgetExceededError, match="cost_usd"):
        run(lambda state, _context: patch(state), state, pricing_catalog=PricingCatalog(compute=ComputePrice(1.0, 0)))


def test_counters_charge_only_what_the_ledger_did_not_see_and_once() -> None:
    def steps(state: FrozenAgentState, context: InterventionContext) -> InputPatch:
        ask(context)
        return patch(state, counters={"model_calls": 2, "input_tokens": 40, "sub_questions": 3})

    usage = run(steps, backend=model(usage=Usage(30, 2))).usage
    assert (usage.model_calls, usage.input_tokens, usage.output_tokens) == (2, 40, 2)
    assert usage.unpriced_model_calls == 2


def test_counters_beyond_the_budget_end_the_run() -> None:
    with pytest.raises(BudgetExceededError, match="model_calls 3"):
        run(lambda state, _context: patch(state, counters={"model_calls": 3}))


def test_a_fraction_of_a_call_is_refused() -> None:
    with pytest.raises(AlgorithmOutputError, match="model_calls"):
        run(lambda state, _context: patch(state, counters={"model_calls": 0.5}))


def test_tools_retriever_searcher_and_embedder_are_counted_before_they_run() -> None:
    used: list[str] = []

    class Everything:
        retriever_id = "everything"

        def retrieve(self, query: str, *, top_k: int = 5) -> list[str]:
            used.append("retrieve")
            return [query]

        def search(self, vector: list[float], *, top_k: int = 5) -> list[str]:
            used.append("search")
            return []

        def embed(self, request: object) -> object:
            used.append("embed")
            return request

        def fingerprint(self) -> str:
            return "everything@1"

    def steps(state: FrozenAgentState, context: InterventionContext) -> InputPatch:
        context.retriever.retrieve("q", top_k=1)
        context.vector_searcher.search([1.0])
        context.dense_embedder.embed("text")
        assert context.tools["add"](2, 3) == 5
        assert context.retriever.retriever_id == "everything"
        assert context.retriever.fingerprint() == "everything@1"
        with pytest.raises(AttributeError, match="past the budget"):
            _ = context.retriever.embed
        return patch(state)

    thing = Everything()
    context = InterventionContext(
        retriever=thing, vector_searcher=thing, dense_embedder=thing, tools={"add": lambda a, b: a + b}
    )
    usage = InterventionRunner().run(does(steps), STATE, context).usage
    assert (usage.retrieval_calls, usage.tool_calls, usage.embedding_calls) == (2, 1, 1)
    tight = replace(STATE, budget=ExecutionBudget(max_retrieval_calls=1))
    used.clear()
    with pytest.raises(BudgetExceededError):
        InterventionRunner().run(does(steps), tight, context)
    assert used == ["retrieve"]


def test_what_an_embedder_costs_is_money_and_its_tokens_are_no_context() -> None:
    class Embedder:
        def embed(self, _request: object) -> EmbeddingResponse:
            return EmbeddingResponse(((1.0,),), "e", Usage(50, 0, cost_usd=0.25))

    state = replace(STATE, budget=ExecutionBudget(max_context_tokens=0, max_cost_usd=0.4))
    steps = does(lambda state, context: context.dense_embedder.embed("x") and patch(state))
    usage = InterventionRunner().run(steps, state, InterventionContext(dense_embedder=Embedder())).usage
    assert (usage.embedding_calls, usage.cost_usd, usage.input_tokens) == (1, 0.25, 0)
    twice = does(lambda state, context: [context.dense_embedder.embed("x") for _ in "ab"] and patch(state))
    with pytest.raises(BudgetExceededError, match=r"cost_usd 0\.5, allowed 0\.4"):
        InterventionRunner().run(twice, state, InterventionContext(dense_embedder=Embedder()))


def test_a_backend_kept_after_the_run_cannot_be_called() -> None:
    kept: list[InterventionContext] = []
    backend = model()
    run(lambda state, context: kept.append(context) or patch(state), backend=backend)
    with pytest.raises(ValidationError, match="is over"):
        ask(kept[0])
    assert backend.calls == []


def test_a_ledger_of_the_caller_is_used_when_it_fits_the_state() -> None:
    ledger = BudgetLedger(STATE.budget)
    run(lambda state, context: ask(context) and patch(state), backend=model(), budget_ledger=ledger)
    assert ledger.usage.model_calls == 1
    with pytest.raises(ValidationError, match="belongs to run"):
        run(lambda state, _context: patch(state), budget_ledger=ledger)
    with pytest.raises(ValidationError, match="another budget"):
        run(lambda state, _context: patch(state), budget_ledger=BudgetLedger(ExecutionBudget()))


# --- runs inside runs ---------------------------------------------------------------------------------------


class Inner(Probe):
    release_id = "test.inner"

    def propose(self, state: FrozenAgentState, context: InterventionContext) -> InputPatch:
        ask(context)
        return patch(state, query=state.query + " inner", release_id="test.inner")


def nested(state: FrozenAgentState, context: InterventionContext) -> InputPatch:
    assert is_metered(context)
    ask(context)
    record = InterventionRunner().run(Inner(), state, context)
    return patch(state, query=record.patch.apply(state).query)


def test_a_run_inside_a_run_is_charged_once_to_both() -> None:
    backend = model()
    monitor = RunMonitor()
    record = InterventionRunner(monitor=monitor).run(does(nested), STATE, InterventionContext(backend=backend))
    assert record.usage.model_calls == len(backend.calls) == 2
    outer, inner = monitor.list_snapshots()
    assert (outer.usage.model_calls, inner.usage.model_calls) == (2, 1)
    assert inner.tags == {"parent_run_id": outer.run_id}
    assert outer.token_counters["agentinputlab.word_punctuation.v1"].output_tokens == 4


def test_a_run_inside_a_run_cannot_spend_what_the_outer_one_has_spent() -> None:
    backend = model()
    state = replace(STATE, budget=replace(STATE.budget, max_model_calls=1))
    with pytest.raises(BudgetExceededError):
        run(nested, state, backend=backend)
    assert len(backend.calls) == 1


def test_members_that_share_a_context_share_one_account() -> None:
    def steps(state: FrozenAgentState, context: InterventionContext) -> InputPatch:
        for _ in range(2):
            Inner().propose(state, context)
        return patch(state, counters={"model_calls": 2})

    assert run(steps, backend=model()).usage.model_calls == 2


# --- intent -------------------------------------------------------------------------------------------------


def test_a_lost_entity_ends_a_strict_run_and_is_reported_by_a_lenient_one() -> None:
    contract = IntentContract(required_entities=("New York",))
    events: list[MonitorEvent] = []
    monitor = RunMonitor(sinks=(events.append,))
    steps = does(lambda state, _context: patch(state, query="trip to new yorker"))
    with pytest.raises(IntentViolationError, match="1 required entities missing") as caught:
        InterventionRunner(monitor=monitor).run(steps, STATE, InterventionContext(intent_contract=contract))
    assert "York" not in str(caught.value)
    assert monitor.list_snapshots()[0].status is RunStatus.INTENT_REJECTED
    assert EventKind.INTENT_CHECKED in [event.kind for event in events]
    lenient = InterventionContext(intent_contract=contract, strict_intent=False)
    record = InterventionRunner().run(steps, STATE, lenient)
    assert record.intent_check is not None
    assert record.intent_check.missing_entities == ("New York",)


# --- what may enter -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Holder:
    held: Any
    method_id: str = "test"
    release_id: str = "test.release"
    family: SemanticFamily = SemanticFamily.REFORMULATE

    def propose(self, state: FrozenAgentState, context: InterventionContext) -> InputPatch:
        raise AssertionError("propose must not be reached")


@dataclass(frozen=True)
class Settings:
    depth: int = 3
    inner: Any = None


class Slotted:
    __slots__ = ("backend", "empty")
    method_id = "test"
    release_id = "test.release"

    def __init__(self) -> None:
        self.backend = model()

    def propose(self, state: FrozenAgentState, context: InterventionContext) -> InputPatch:
        raise AssertionError("propose must not be reached")


@pytest.mark.parametrize(
    ("held", "name"),
    [
        (model(), "field held of"),
        ([{"deep": (model(),)}], r"field held\[0\]\['deep'\]\[0\] of"),
        (Holder(model()), r"field held\.held of"),
        (Settings(inner=Settings(inner=model())), r"field held\.inner\.inner of"),
        (lambda text: text, "field held of"),
        (functools.partial(len, "x"), "field held of"),
        ("x".upper, "field held of"),
        (InterventionRunner().run, "field held of"),
    ],
)
def test_something_executable_on_the_intervention_is_refused_by_field_before_propose(held: Any, name: str) -> None:
    with pytest.raises(ValidationError, match=name):
        InterventionRunner().run(Holder(held), STATE, InterventionContext())


def test_a_backend_in_a_slot_is_found() -> None:
    with pytest.raises(ValidationError, match="field backend of"):
        InterventionRunner().run(Slotted(), STATE, InterventionContext())


def deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def cyclic() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


@pytest.mark.parametrize(
    "held",
    [deep(5000), list(range(20_000)), cyclic(), re.compile("x"), len, Settings, deep, Settings(), {1: {"a": b"x"}}],
    ids=["deep", "long", "cyclic", "pattern", "builtin", "class", "function", "dataclass", "mapping"],
)
def test_deep_long_or_plain_values_are_harmless(held: Any) -> None:
    with pytest.raises(AssertionError, match="must not be reached"):
        InterventionRunner().run(Holder(held), STATE, InterventionContext())


def test_a_wrong_argument_is_named() -> None:
    with pytest.raises(ValidationError, match="state must be a FrozenAgentState"):
        InterventionRunner().run(NoOpIntervention(), "state", InterventionContext())  # type: ignore[arg-type]
    with pytest.raises(ValidationError, match="context must be"):
        InterventionRunner().run(NoOpIntervention(), STATE, None)  # type: ignore[arg-type]
    nothing_to_run: Any = PlaybookLearning()
    with pytest.raises(ValidationError, match=r"recipe\.ace\.offline cannot be run here: it has no propose"):
        InterventionRunner().run(nothing_to_run, STATE, InterventionContext())
    for unfit, reason in ((NoOpIntervention, "got the class NoOpIntervention"), (object(), "a object cannot be run")):
        other: Any = unfit
        with pytest.raises(ValidationError, match=reason):
            InterventionRunner().run(other, STATE, InterventionContext())
    no_composite: Any = NoOpIntervention()
    with pytest.raises(ValidationError, match=r"baseline\.no_op cannot be run here: it has no run"):
        CompositeInterventionRunner().run(no_composite, STATE, InterventionContext())
    with pytest.raises(ValidationError, match="budget_ledger must be"):
        InterventionRunner().run(NoOpIntervention(), STATE, InterventionContext(budget_ledger=3))


# --- composites ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Answers:
    state_hash: str = ""
    counters: dict[str, int] = field(default_factory=dict)
    method_id: str = "test"
    release_id: str = "test.composite"
    family: SemanticFamily = SemanticFamily.COMPOSITE

    def run(self, state: FrozenAgentState, context: InterventionContext) -> CompositeResult:
        answer = ask(context).text
        return CompositeResult(
            self.method_id,
            self.release_id,
            self.state_hash or state.state_hash,
            answer,
            (),
            ExecutionTrace(self.method_id, self.release_id, counters=self.counters),
            "test@1",
            ProfileKind.CONTROLLED_ADAPTER,
        )


def test_a_composite_is_run_charged_and_recorded_like_an_intervention() -> None:
    record = CompositeInterventionRunner().run(
        Answers(counters={"tool_calls": 1}), STATE, InterventionContext(backend=model())
    )
    assert record.result.final_answer == "one two"
    assert (record.usage.model_calls, record.usage.tool_calls) == (1, 1)
    assert record.as_dict()["result_hash"] == record.result.result_hash
    with pytest.raises(StateConflictError):
        CompositeInterventionRunner().run(Answers("f" * 64), STATE, InterventionContext(backend=model()))


def test_usage_of_the_record_is_that_of_the_monitor() -> None:
    monitor = RunMonitor()
    record = InterventionRunner(monitor=monitor).run(
        does(lambda state, context: ask(context) and patch(state, counters={"tool_calls": 1})),
        STATE,
        InterventionContext(backend=model()),
    )
    assert monitor.snapshot(record.monitor_run_id).usage == record.usage
    assert record.usage + ResourceUsage() == record.usage


def test_a_run_can_give_the_patched_state_with_its_record() -> None:
    runner = InterventionRunner()
    record, output = runner.run_applied(does(lambda state, _context: patch(state)), STATE, InterventionContext())
    assert output == record.patch.apply(STATE)
    assert output.state_hash == record.output_state_hash


def test_a_run_never_gets_the_configuration_of_the_context_itself() -> None:
    context = InterventionContext(run_config={"a": [1]})
    kept: list[Any] = []
    InterventionRunner().run(does(lambda state, given: kept.append(given.run_config) or patch(state)), STATE, context)
    assert kept == [context.run_config]
    assert kept[0] is not context.run_config
