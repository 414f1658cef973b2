"""What holds for every release that rewrites, plans or brings documents: ids, determinism, budget, missing parts."""

import copy
import inspect
import pickle
import re
from pathlib import Path

import pytest

from agentinputlab.contracts import (
    AlgorithmOutputError,
    BudgetExceededError,
    ContextBlock,
    ExecutionBudget,
    ExternalDependencyError,
    FrozenAgentState,
    InputPatch,
    Message,
    ProfileKind,
)
from agentinputlab.registry import AlgorithmRegistry

FAMILIES = ("rewrite.", "plan.", "acquire.")
QUERY = "Is the Seine longer than the Spree?"
SECRET = "zebra-4711"
STATE = FrozenAgentState(
    query=QUERY,
    task_id="t1",
    instruction="Answer briefly.",
    context=(ContextBlock("known", block_id="k"),),
    messages=(Message("user", "Hi"), Message("assistant", "Hello"), Message("user", QUERY)),
    tool_names=("get_order", "exchange"),
    metadata={"a": [1]},
)
# release -> (parameters, answers of the model)
CASES = {
    "rewrite.query2doc.official_cached": ({"cache": {QUERY: "A passage."}}, ()),
    "rewrite.query2doc.querygym_live": ({}, ("A passage.",)),
    "rewrite.rrr.common_support": ({}, ("length of the Seine\nlength of the Spree",)),
    "rewrite.reformer.pattern_concat": ({}, ('{"pattern": "add_facets"}', "lengths of Seine and Spree")),
    "rewrite.infocqr.zero_shot": ({"edit": True}, ("a draft", "a rewrite")),
    "rewrite.infocqr.cache_replay": ({"cache": {"t1": "A rewrite."}}, ()),
    "plan.plan_and_solve.ps_prompt": ({}, ()),
    "plan.plan_and_solve.ps_plus_prompt": ({}, ()),
    "plan.plan_and_solve.plan_call": ({}, ("1. look\n2. tell",)),
    "plan.decomp.common_support": ({}, ("How long is the Seine?\nHow long is the Spree?",)),
    "plan.decomp.full": ({}, ('{"steps": [{"question": "How long?", "module": "look_up"}]}', "777 km")),
    "plan.self_ask.prompt": ({}, ()),
    "plan.self_ask.full_loop": ({}, ("Follow up: How long?", "777 km", "Final answer: yes")),
    "plan.plan_and_budget.native_cached_soft_budget": (
        {"plans": {QUERY: [{"text": "look", "difficulty": 1}]}},
        (),
    ),
    "plan.plan_and_budget.live_soft_budget": ({}, ('{"parts": [{"text": "look", "difficulty": 5}]}',)),
    "plan.llm_compiler.planner": (
        {},
        ('{"calls": [{"id": 1, "tool": "get_order", "arguments": {}, "depends_on": []}]}',),
    ),
    "acquire.hyde.paper_reimplementation": ({"samples": 2}, ("A passage.", "Another passage.")),
    "acquire.ircot.controlled": ({}, ("The Seine is long.", "So the answer is: yes.")),
    "acquire.adaptive_rag.common_support": ({}, ("The Seine is long.", "So the answer is: yes.")),
}
WITH_MODEL = sorted(release_id for release_id, (_, answers) in CASES.items() if answers)

registry = AlgorithmRegistry.default()


def make(release_id):
    parameters, answers = CASES[release_id]
    return registry.resolve_entrypoint(release_id)(**parameters), answers


@pytest.fixture
def run(bench, embedder, searcher):
    def run(method, *answers, state=STATE, **fields):
        return bench.run(method, state, *answers, **{"dense_embedder": embedder, "vector_searcher": searcher} | fields)

    return run


def test_every_implemented_release_of_these_families_is_covered():
    implemented = {
        release.id
        for method in registry.list_methods()
        if method.method_id.startswith(FAMILIES)
        for release in method.releases
        if release.entrypoint is not None and not release.id.startswith("acquire.qrag.")
    }
    assert implemented == set(CASES)


@pytest.mark.parametrize("release_id", sorted(CASES))
def test_the_patch_applies_has_the_ids_of_the_registry_and_is_the_same_twice(release_id, run):
    method, answers = make(release_id)
    state_hash = STATE.state_hash
    first, second = run(method, *answers), run(make(release_id)[0], *answers)
    patch = first.patch
    assert patch.release_id == method.release_id == release_id
    assert release_id.startswith(patch.method_id + ".")
    assert patch.method_id == method.method_id
    assert method.implementation_id == method.method_id.split(".")[1]
    assert patch.implementation_identity.startswith(f"{release_id}@")
    assert patch.profile_kind is ProfileKind.CONTROLLED_ADAPTER
    assert patch.patch_hash == second.patch.patch_hash
    assert first.status == "success"
    assert first.output_state_hash == patch.apply(STATE).state_hash != state_hash == STATE.state_hash
    assert InputPatch.from_dict(patch.as_dict()) == patch


@pytest.mark.parametrize("release_id", sorted(CASES))
def test_the_usage_of_the_run_is_what_the_model_said(release_id, run):
    method, answers = make(release_id)
    record = run(method, *answers)
    assert record.usage.model_calls == len(answers) == record.patch.trace.counters.get("model_calls", 0)
    assert record.usage.input_tokens == 20 * len(answers)
    assert record.usage.output_tokens == record.patch.trace.counters.get("output_tokens", 0)


@pytest.mark.parametrize("release_id", WITH_MODEL)
def test_without_a_model_the_error_says_what_to_give(release_id, run):
    method, _ = make(release_id)
    with pytest.raises(ExternalDependencyError, match=rf"{re.escape(release_id)} needs a language model: .*backend="):
        run(method, backend=None)


@pytest.mark.parametrize("release_id", WITH_MODEL)
@pytest.mark.parametrize("answer", ["", " \n ", "half \ud800"])
def test_an_answer_that_is_no_text_is_refused(release_id, answer, run):
    method, _ = make(release_id)
    with pytest.raises(AlgorithmOutputError, match=re.escape(release_id)):
        run(method, *[answer] * 4)


@pytest.mark.parametrize("release_id", WITH_MODEL)
@pytest.mark.parametrize(
    "budget", [ExecutionBudget(max_model_calls=0), ExecutionBudget(max_output_tokens=0)], ids=["calls", "tokens"]
)
def test_a_cap_of_0_means_none(release_id, budget, run, bench, embedder, searcher):
    method, answers = make(release_id)
    state = FrozenAgentState(query=QUERY, tool_names=("get_order",), budget=budget)
    with pytest.raises(BudgetExceededError):
        run(method, *answers, state=state)
    context = bench.context(*answers, dense_embedder=embedder, vector_searcher=searcher)
    with pytest.raises(BudgetExceededError):
        method.propose(state, context)
    assert context.backend.remaining == len(answers)


@pytest.mark.parametrize("release_id", WITH_MODEL)
def test_neither_trace_nor_error_repeats_what_user_or_model_said(release_id, run):
    method, answers = make(release_id)
    state = FrozenAgentState(
        query=f"Is {SECRET} longer than the Spree?",
        tool_names=("get_order",),
        budget=ExecutionBudget(max_output_tokens=10**6),
    )
    record = run(method, *answers, state=state)
    assert SECRET not in str(record.patch.trace.as_dict())
    endless = f"{SECRET}\n" * 20_000
    with pytest.raises(AlgorithmOutputError) as caught:
        run(method, endless, state=state)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("release_id", sorted(CASES))
def test_a_method_can_be_copied_to_another_process(release_id):
    method, _ = make(release_id)
    assert pickle.loads(pickle.dumps(method)) == method == copy.deepcopy(method)


@pytest.mark.parametrize("release_id", sorted(CASES))
def test_parameters_are_keywords_with_defaults_and_stand_on_the_card(release_id):
    kind = registry.resolve_entrypoint(release_id)
    parameters = inspect.signature(kind).parameters.values()
    assert all(one.kind is one.KEYWORD_ONLY and one.default is not one.empty for one in parameters)
    kind()
    cards = Path(__file__).parents[4] / "docs" / "reference" / "interventions"
    card = (cards / f"{kind.method_id}.md").read_text()
    section = card.split(f"## {release_id}\n")[1].split("\n## ")[0]
    for name in [one.name for one in parameters]:
        assert f"`{name}`" in section, f"the card of {release_id} does not explain {name}"
    for heading in ("**Idea.**", "| Needs |", "| Writes into the patch |", "| Parameters |", "| Budget |"):
        assert heading in section
    assert "| Fails with |" in section
    assert "**Limits.**" in section
