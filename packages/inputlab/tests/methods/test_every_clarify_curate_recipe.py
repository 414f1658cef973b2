"""What holds for every release that asks back, shortens, or applies a recipe: ids, budget, missing parts."""

import copy
import inspect
import json
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

FAMILIES = ("clarify.", "curate.", "recipe.")
SECRET = "zebra-4711"
STATE = FrozenAgentState(
    query=f"Is the Seine longer than the Spree, {SECRET}?",
    task_id="t1",
    instruction="Answer briefly.",
    context=(ContextBlock("The Seine is long. It rains.", block_id="k"),),
    messages=(Message("user", "Hi there " * 20), Message("tool", "seen " * 20), Message("user", "Go on")),
    tool_names=("get_order",),
    metadata={"a": [1]},
)
SCORES = {"request_uncertainty": 0.9, "action_uncertainty": 0.1, "question": "Which one?"}
# release -> (parameters, answers of the model)
CASES = {
    "clarify.udcs.repo_native_prompt_route": ({}, (json.dumps(SCORES),)),
    "clarify.udcs.score_route": ({"scores": {"t1": SCORES}}, ()),
    "clarify.future_turns.simulated": (
        {"futures": 1},
        ("Which one?", "Yes.", '{"answers": ["both"]}', "Yes, both.", '{"a": 1, "b": 9}'),
    ),
    "clarify.active_task_disambiguation.information_gain": (
        {},
        (
            '{"readings": [{"reading": "length", "weight": 1}, {"reading": "time", "weight": 1}]}',
            '{"questions": [{"question": "Which one?", "answers": ["a", "b"]}]}',
        ),
    ),
    "clarify.ask_or_assume.monitor": ({}, ('{"verdict": "blocking", "text": "Which one?"}',)),
    "curate.recomp.extractive_lexical": ({"sentences": 1}, ()),
    "curate.recomp.abstractive_prompted": ({}, ("Seine is long.",)),
    "curate.acon.observation": ({"min_tokens": 10}, ("seen",)),
    "curate.acon.history": ({"min_tokens": 10, "keep_last": 1}, ("Greeted.",)),
    "recipe.rqrag.method_tree": (
        {},
        ('{"action": "rewrite", "queries": ["Seine"]}', '{"action": "stop", "queries": []}'),
    ),
    "recipe.ace.apply": ({"playbook": "Read first."}, ()),
    "recipe.mce.apply": ({"artifact": "Read first."}, ()),
    "recipe.skillopt.apply": ({"skill": "Read first."}, ()),
}
LEARNING = {"recipe.ace.offline"}
WITH_MODEL = sorted(release_id for release_id, (_, answers) in CASES.items() if answers)

registry = AlgorithmRegistry.default()


def make(release_id):
    parameters, answers = CASES[release_id]
    return registry.resolve_entrypoint(release_id)(**parameters), answers


def test_every_implemented_release_of_these_families_is_covered():
    releases = [
        r for method in registry.list_methods() if method.method_id.startswith(FAMILIES) for r in method.releases
    ]
    assert {release.id for release in releases if release.entrypoint is not None} == set(CASES) | LEARNING
    for release in releases:
        assert release.entrypoint is not None or release.blocking_reasons, (
            f"{release.id} does not say why it is missing"
        )


@pytest.mark.parametrize("release_id", sorted(CASES))
def test_the_patch_applies_has_the_ids_of_the_registry_and_is_the_same_twice(release_id, bench):
    method, answers = make(release_id)
    first, second = bench.run(method, STATE, *answers), bench.run(make(release_id)[0], STATE, *answers)
    patch = first.patch
    assert patch.release_id == method.release_id == release_id
    assert patch.method_id == method.method_id == registry.get_release(release_id).method_id
    assert method.family == registry.get_method(method.method_id).semantic_family
    assert patch.implementation_identity.startswith(f"{release_id}@")
    assert patch.profile_kind is ProfileKind.CONTROLLED_ADAPTER
    assert patch.patch_hash == second.patch.patch_hash
    assert first.status == "success"
    assert first.output_state_hash == patch.apply(STATE).state_hash != STATE.state_hash
    assert InputPatch.from_dict(patch.as_dict()) == patch


@pytest.mark.parametrize("release_id", sorted(CASES))
def test_the_usage_of_the_run_is_what_the_model_said(release_id, bench):
    method, answers = make(release_id)
    record = bench.run(method, STATE, *answers)
    assert record.usage.model_calls == len(answers) == record.patch.trace.counters.get("model_calls", 0)
    assert record.usage.input_tokens == 20 * len(answers)
    assert record.usage.output_tokens == record.patch.trace.counters.get("output_tokens", 0)


@pytest.mark.parametrize("release_id", WITH_MODEL)
def test_without_a_model_the_error_says_what_to_give(release_id, bench):
    method, _ = make(release_id)
    with pytest.raises(ExternalDependencyError, match=rf"{re.escape(release_id)} needs a language model: .*backend="):
        bench.run(method, STATE, backend=None)


@pytest.mark.parametrize("release_id", WITH_MODEL)
@pytest.mark.parametrize("answer", ["", " \n ", "half \ud800"])
def test_an_answer_that_is_no_text_is_refused(release_id, answer, bench):
    method, _ = make(release_id)
    with pytest.raises(AlgorithmOutputError, match=re.escape(release_id)):
        bench.run(method, STATE, answer)


@pytest.mark.parametrize("release_id", WITH_MODEL)
@pytest.mark.parametrize(
    "budget", [ExecutionBudget(max_model_calls=0), ExecutionBudget(max_output_tokens=0)], ids=["calls", "tokens"]
)
def test_a_cap_of_0_means_none(release_id, budget, bench):
    method, answers = make(release_id)
    state = FrozenAgentState.from_dict({**STATE.canonical_dict(), "budget": budget.__reduce__()[1][1]})
    with pytest.raises(BudgetExceededError):
        bench.run(method, state, *answers)
    context = bench.context(*answers)
    with pytest.raises(BudgetExceededError):
        method.propose(state, context)
    assert context.backend.remaining == len(answers)


@pytest.mark.parametrize("release_id", WITH_MODEL)
def test_neither_trace_nor_error_repeats_what_user_or_model_said(release_id, bench):
    method, answers = make(release_id)
    assert SECRET not in str(bench.run(method, STATE, *answers).patch.trace.as_dict())
    with pytest.raises(AlgorithmOutputError) as caught:
        bench.run(method, STATE, "", f"{SECRET}\n" * 40)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("release_id", sorted(CASES))
def test_a_method_can_be_copied_to_another_process(release_id):
    method, _ = make(release_id)
    assert pickle.loads(pickle.dumps(method)) == method == copy.deepcopy(method)


@pytest.mark.parametrize("release_id", sorted(CASES))
def test_parameters_and_prompts_are_part_of_the_identity(release_id):
    method, _ = make(release_id)
    kind = type(method)
    other = type(kind.__name__, (kind,), {"prompts": (*kind.prompts, "more")})
    parameters, _ = CASES[release_id]
    assert other(**parameters).implementation_identity != method.implementation_identity
    if parameters:
        assert kind().implementation_identity != method.implementation_identity


@pytest.mark.parametrize("release_id", sorted(set(CASES) | LEARNING))
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


@pytest.mark.parametrize("release_id", sorted(set(CASES) | LEARNING))
def test_a_whole_number_of_0_is_refused_by_name(release_id):
    kind = registry.resolve_entrypoint(release_id)
    names = [one.name for one in inspect.signature(kind).parameters.values() if type(one.default) is int]
    for name in names:
        with pytest.raises(ValueError, match=f"{name} must be an integer >= "):
            kind(**{name: 0})
        with pytest.raises(ValueError, match=f"{name} must be an integer >= "):
            kind(**{name: True})
