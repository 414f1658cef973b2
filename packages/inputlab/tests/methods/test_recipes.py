"""Recipes: applied texts are pinned, a playbook is learned by small edits, a tree of queries is bounded."""

import hashlib
import json

import pytest

from agentinputlab.algorithms.recipes.ace import (
    Playbook,
    PlaybookApplication,
    PlaybookExample,
    PlaybookLearning,
)
from agentinputlab.algorithms.recipes.mce import ContextArtifactApplication
from agentinputlab.algorithms.recipes.rqrag import QueryRefinementTree
from agentinputlab.algorithms.recipes.skillopt import SkillApplication
from agentinputlab.backends.llm import CallableBackend
from agentinputlab.contracts import (
    AlgorithmOutputError,
    ArtifactError,
    BudgetExceededError,
    ContextBlock,
    ExternalDependencyError,
    FrozenAgentState,
    InterventionContext,
    OfflineRecipe,
    ValidationError,
)

STATE = FrozenAgentState(
    query="Which is longer?", instruction="Be brief.", context=(ContextBlock("old", block_id="o"),)
)
TEXT = "Read the order before you change it.\n"
SHA256 = hashlib.sha256(TEXT.encode()).hexdigest()
APPLIED = [
    (PlaybookApplication, "playbook"),
    (ContextArtifactApplication, "artifact"),
    (SkillApplication, "skill"),
]


# --- applying a text ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "name"), APPLIED)
def test_a_text_is_applied_word_for_word_and_named_by_its_hash(kind, name, bench):
    record = bench.run(kind(**{name: TEXT, "sha256": SHA256}), STATE, backend=None)
    after = record.patch.apply(STATE)
    assert TEXT.strip() in after.instruction + "".join(block.text for block in after.context)
    assert after.instruction.startswith("Be brief.")
    assert after.context[-1] == STATE.context[0]
    assert record.patch.metadata["artifact_sha256"] == SHA256


@pytest.mark.parametrize(("kind", "name"), APPLIED)
def test_another_text_than_the_pinned_one_is_refused(kind, name, bench):
    with pytest.raises(ArtifactError, match=f"{name} has SHA-256 .*, pinned is {SHA256}"):
        kind(**{name: TEXT + " ", "sha256": SHA256})
    with pytest.raises(ValidationError, match="64 lowercase hex digits"):
        kind(**{name: TEXT, "sha256": "abc"})
    with pytest.raises(ValidationError, match="at most 200000"):
        kind(**{name: "x" * 200_001})
    with pytest.raises(ArtifactError, match=f"give {name}="):
        bench.run(kind(), STATE)


def test_a_text_with_braces_is_no_template(bench):
    record = bench.run(SkillApplication(skill="Use {skill} and {0} and {"), STATE)
    assert "Use {skill} and {0} and {" in record.patch.apply(STATE).instruction


# --- the playbook -------------------------------------------------------------------------------------------


def test_edits_are_small_and_ids_are_never_used_again():
    playbook = (
        Playbook().add("Orders", "Read first.").add("Refunds", "Ask  for\nthe method.").add("Orders", "Check stock.")
    )
    assert playbook.text == (
        "## Orders\n- [p001] Read first.\n- [p003] Check stock.\n\n## Refunds\n- [p002] Ask for the method."
    )
    assert playbook.add("Else", "READ FIRST.") is playbook
    shorter = playbook.remove("p003").add("Orders", "New.")
    assert shorter.ids == ("p001", "p002", "p004")
    assert shorter.revise("p001", "Read twice.").text.startswith("## Orders\n- [p001] Read twice.")
    with pytest.raises(ValidationError, match="no entry 'p003'"):
        shorter.revise("p003", "x")
    assert Playbook.from_dict(shorter.as_dict()) == shorter


def test_what_misled_most_goes_first_and_of_equals_the_oldest():
    playbook = Playbook().add("s", "a").add("s", "b").add("s", "c").mark(helpful=["p001", "p001"], harmful=["p003"])
    assert [(e.helpful, e.harmful) for e in playbook.entries] == [(1, 0), (0, 0), (0, 1)]
    assert playbook.prune(2).ids == ("p001", "p002")
    assert playbook.prune(1).ids == ("p001",)
    assert Playbook().add("s", "a").add("s", "b").prune(1).ids == ("p002",)


# --- learning one -------------------------------------------------------------------------------------------


def answer(text, *used):
    return json.dumps({"answer": text, "used": used})


def reflection(insight="Read it.", helpful=(), harmful=()):
    return json.dumps({"insight": insight, "helpful": helpful, "harmful": harmful})


def edits(*rows):
    names = ("edit", "id", "section", "advice")
    return json.dumps({"edits": [dict(zip(names, row, strict=True)) for row in rows]})


ADD = edits(("add", "", "Rivers", "Compare the lengths."))
NO_EDIT = edits()
TRAIN = [{"task": "Seine or Spree?", "reference": "The Seine"}]


def test_a_playbook_is_learned_and_can_be_applied(bench):
    context = bench.context(answer("Spree"), reflection(), ADD, answer("the seine!", "p001"),
                            reflection(helpful=["p001"]), NO_EDIT)  # fmt: skip
    recipe = PlaybookLearning(epochs=2)
    assert isinstance(recipe, OfflineRecipe)
    learned = recipe.fit(TRAIN, context=context)
    assert learned.text == "## Rivers\n- [p001] Compare the lengths."
    assert learned.playbook.entries[0].helpful == 1
    assert (learned.train_correct, learned.validation_correct) == ((0, 1), ())
    assert learned.trace.counters["model_calls"] == 6
    record = bench.run(PlaybookApplication(playbook=learned.text, sha256=learned.sha256), STATE)
    assert "Compare the lengths." in record.patch.apply(STATE).instruction


def test_the_best_round_on_validation_wins_even_if_it_is_the_empty_playbook(bench):
    held_out = [PlaybookExample("Longest of all?", "Nile")]
    worse = bench.context(answer("Nile"), answer("x"), reflection(), ADD, answer("Seine", "p001"))
    learned = PlaybookLearning().fit(TRAIN, validation_examples=held_out, context=worse)
    assert (learned.text, learned.validation_correct) == ("", (1, 0))
    better = bench.context(answer("Seine"), answer("x"), reflection(), ADD, answer("Nile", "p001"))
    learned = PlaybookLearning().fit(TRAIN, validation_examples=held_out, context=better)
    assert (learned.playbook.ids, learned.validation_correct) == (("p001",), (0, 1))


def test_a_longer_playbook_that_is_no_better_does_not_win(bench):
    context = bench.context(answer("Nile"), answer("x"), reflection(), ADD, answer("Nile", "p001"))
    held_out = [PlaybookExample("Longest of all?", "Nile")]
    learned = PlaybookLearning().fit(TRAIN, validation_examples=held_out, context=context)
    assert (learned.text, learned.validation_correct) == ("", (1, 1))


def test_validation_answers_reach_neither_reflector_nor_curator(bench):
    prompts = []

    def reply(request):
        prompts.append(request.prompt)
        texts = [answer("x"), answer("x"), reflection(), NO_EDIT, answer("x")]
        return bench.context(texts[len(prompts) - 1]).backend.generate(request)

    backend = CallableBackend(reply, model_id="probe", revision="1", callable_id="test")
    PlaybookLearning().fit(
        TRAIN, validation_examples=[PlaybookExample("held out", "zebra")], context=InterventionContext(backend=backend)
    )
    assert len(prompts) == 5
    assert not any("zebra" in prompt for prompt in prompts)
    assert not any("held out" in prompt for prompt in prompts[1:4])


@pytest.mark.parametrize(
    "replies",
    [
        ("no json",),
        (answer("x", "p009"),),
        (answer("x"), reflection(helpful=["p001"])),
        (answer("x"), reflection(), edits(("revise", "p001", "", "x"))),
        (answer("x"), reflection(), edits(("add", "", "", "x"))),
        (answer("x"), reflection(), edits(("merge", "", "", ""))),
        (answer("x"), reflection(), edits(*[("add", "", "s", str(n)) for n in range(4)])),
    ],
)
def test_replies_that_do_not_fit_the_playbook_are_refused(replies, bench):
    with pytest.raises(AlgorithmOutputError, match=r"recipe\.ace\.offline"):
        PlaybookLearning().fit(TRAIN, context=bench.context(*replies))


def test_learning_is_bounded_and_checks_its_examples_first(bench):
    context = bench.context(answer("x"), reflection(), ADD)
    with pytest.raises(BudgetExceededError, match="model_calls 3, allowed 2"):
        PlaybookLearning(max_model_calls=2).fit(TRAIN, context=context)
    untouched = bench.context(answer("x"))
    with pytest.raises(ValidationError, match="at least one example"):
        PlaybookLearning().fit([], context=untouched)
    with pytest.raises(ValidationError, match=r"train_examples\[1\] has the unknown field 'gold'"):
        PlaybookLearning().fit([*TRAIN, {"task": "t", "gold": "x"}], context=untouched)
    with pytest.raises(ValidationError, match=r"validation_examples\[0\].*task must not be blank"):
        PlaybookLearning().fit(TRAIN, validation_examples=[{"task": " ", "reference": "x"}], context=untouched)
    with pytest.raises(ExternalDependencyError, match="needs a language model"):
        PlaybookLearning().fit(TRAIN, context=InterventionContext())
    assert untouched.backend.remaining == 1


def test_the_same_examples_and_replies_give_the_same_playbook(bench):
    replies = (answer("Spree"), reflection(), ADD)
    first, second = (PlaybookLearning().fit(TRAIN, context=bench.context(*replies)) for _ in range(2))
    assert first == second


# --- the tree of queries ------------------------------------------------------------------------------------


def step(action, *queries):
    return json.dumps({"action": action, "queries": queries})


def found(record):
    return [block.block_id for block in record.patch.apply(STATE).context[1:]]


def test_parts_of_a_request_are_one_branch_and_need_no_choice(bench):
    replies = (step("decompose", "Seine Channel", "Spree Berlin"), step("stop"))
    record = bench.run(QueryRefinementTree(top_k=1), STATE, *replies)
    assert found(record) == ["seine", "berlin"]
    assert record.patch.metadata["search_queries"] == ("Seine Channel", "Spree Berlin")
    assert (record.usage.model_calls, record.usage.retrieval_calls) == (2, 2)


def test_meanings_of_a_request_are_branches_of_which_one_is_chosen(bench):
    replies = (step("disambiguate", "Seine Channel", "Spree Berlin"), step("stop"), step("stop"), '{"way": 2}')
    assert found(bench.run(QueryRefinementTree(top_k=1), STATE, *replies)) == ["berlin"]


def test_a_branch_keeps_what_it_found_on_its_way_each_document_once(bench):
    replies = (step("rewrite", "Spree Berlin"), step("rewrite", "capital Berlin Paris"))
    assert found(bench.run(QueryRefinementTree(top_k=2), STATE, *replies)) == ["berlin", "eiffel", "paris"]


def test_a_document_found_twice_is_shown_to_the_model_once(bench):
    replies = [step("decompose", "Spree", "Berlin Spree"), step("stop")]
    prompts = []

    def reply(request):
        prompts.append(request.prompt)
        return bench.context(replies[len(prompts) - 1]).backend.generate(request)

    backend = CallableBackend(reply, model_id="probe", revision="1", callable_id="test")
    bench.run(QueryRefinementTree(top_k=1), STATE, backend=backend)
    assert prompts[1].count("Berlin is the capital of Germany") == 1


def test_the_tree_stops_at_its_bounds(bench):
    split = step("disambiguate", "Seine", "Spree")
    bounded = bench.run(QueryRefinementTree(max_depth=9, max_expansions=3), STATE, split, split, split, '{"way": 4}')
    assert bounded.patch.metadata["branches"] == 4
    assert (bounded.usage.model_calls, bounded.usage.retrieval_calls) == (4, 6)
    shallow = bench.run(QueryRefinementTree(max_depth=1), STATE, split, '{"way": 1}')
    assert (shallow.usage.model_calls, shallow.usage.retrieval_calls) == (2, 2)


def test_stopping_at_once_changes_nothing(bench):
    record = bench.run(QueryRefinementTree(), STATE, step("stop"))
    assert (record.status, record.usage.retrieval_calls) == ("no_op", 0)


@pytest.mark.parametrize(
    "replies",
    [
        (step("guess", "x"),),
        (step("rewrite", "a", "b"),),
        (step("stop", "a"),),
        (step("decompose"),),
        (step("decompose", "a", "b", "c"),),
        (step("disambiguate", "a", "b"), step("stop"), step("stop"), '{"way": 3}'),
    ],
)
def test_steps_that_were_not_offered_are_refused(replies, bench):
    with pytest.raises(AlgorithmOutputError, match=r"recipe\.rqrag"):
        bench.run(QueryRefinementTree(), STATE, *replies)


def test_it_says_which_part_is_missing(bench):
    with pytest.raises(ExternalDependencyError, match="needs a retriever"):
        bench.run(QueryRefinementTree(), STATE, step("stop"), retriever=None)
    with pytest.raises(ValidationError, match="works on the query"):
        bench.run(QueryRefinementTree(), FrozenAgentState(query="", instruction="x"), step("stop"))
