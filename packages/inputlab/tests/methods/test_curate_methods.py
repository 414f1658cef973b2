"""What the curating methods leave out, what they never touch, and that they only ever shorten."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentinputlab.algorithms.curate.acon import HistoryCompression, ObservationCompression
from agentinputlab.algorithms.curate.recomp import LexicalExtraction, PromptedSummary, assemble, split_sentences
from agentinputlab.contracts import AlgorithmOutputError, ContextBlock, FrozenAgentState, Message

CONTEXT = (
    ContextBlock("Paris lies on the Seine. It rains there. The capital is Paris.", block_id="fr", score=0.5),
    ContextBlock("Berlin lies on the Spree! Nobody asked.", block_id="de"),
    ContextBlock("Bread needs flour.", block_id="bread"),
)
STATE = FrozenAgentState(query="Which capital lies on the Seine?", context=CONTEXT)


# --- extraction ---------------------------------------------------------------------------------------------


def test_the_telling_sentences_stay_in_their_order_and_blocks(bench):
    record = bench.run(LexicalExtraction(sentences=3), STATE)
    kept = record.patch.apply(STATE).context
    assert [block.block_id for block in kept] == ["fr", "de"]
    assert kept[0].text == "Paris lies on the Seine. The capital is Paris."
    assert kept[0].score == 0.5
    assert record.usage.model_calls == 0


def test_a_context_without_a_word_of_the_query_is_emptied(bench):
    state = FrozenAgentState(query="quantum", context=CONTEXT)
    assert bench.run(LexicalExtraction(), state).patch.apply(state).context == ()


def test_nothing_is_changed_when_every_sentence_stays_or_there_is_none(bench):
    whole = FrozenAgentState(query="flour", context=CONTEXT[2:])
    assert bench.run(LexicalExtraction(), whole).status == "no_op"
    assert bench.run(LexicalExtraction(), FrozenAgentState(query="flour")).status == "no_op"


def test_sentences_end_at_marks_and_lines():
    assert split_sentences('One. Two! "Three?" Four\nfive  \n\n six.') == (
        "One.",
        "Two!",
        '"Three?"',
        "Four",
        "five",
        "six.",
    )


@given(
    scores=st.lists(st.floats(0, 10), max_size=12),
    at_most=st.integers(1, 12),
    min_score=st.floats(0, 10),
)
def test_assembly_keeps_the_best_in_order(scores, at_most, min_score):
    kept = assemble([""] * len(scores), scores, at_most=at_most, min_score=min_score)
    left = [score for index, score in enumerate(scores) if index not in kept and score > 0 and score >= min_score]
    assert list(kept) == sorted(set(kept))
    assert len(kept) <= at_most
    assert all(scores[index] > 0 and scores[index] >= min_score for index in kept)
    assert not left or len(kept) == at_most
    assert all(scores[index] >= score for index in kept for score in left)


# --- prompted summary ---------------------------------------------------------------------------------------


def test_a_summary_takes_the_place_of_the_context(bench):
    record = bench.run(PromptedSummary(), STATE, "Paris lies on the Seine.")
    (block,) = record.patch.apply(STATE).context
    assert (block.text, block.source) == ("Paris lies on the Seine.", "curate.recomp.abstractive_prompted")


@pytest.mark.parametrize("reply", ["NOTHING", "nothing.", " Nothing \n"])
def test_a_context_that_does_not_help_goes(reply, bench):
    assert bench.run(PromptedSummary(), STATE, reply).patch.apply(STATE).context == ()


def test_a_summary_that_is_not_shorter_is_refused(bench):
    with pytest.raises(AlgorithmOutputError, match="the context it should shorten"):
        bench.run(PromptedSummary(), STATE, "word " * 200)


def test_without_context_no_call_is_made(bench):
    record = bench.run(PromptedSummary(), FrozenAgentState(query="q"))
    assert (record.status, record.usage.model_calls) == ("no_op", 0)


# --- acon ---------------------------------------------------------------------------------------------------

LONG, LONGER = "order " * 30, "item " * 40
CONVERSATION = (
    Message("user", "hello " * 50),
    Message("tool", LONG, name="get_order"),
    Message("tool", "ok"),
    Message("assistant", "let me see " * 50),
)


def test_long_observations_are_shortened_the_longest_first(bench):
    state = FrozenAgentState(query="q", messages=CONVERSATION, context=(ContextBlock(LONGER, block_id="c"),))
    record = bench.run(ObservationCompression(min_tokens=20), state, "short context", "short order")
    after = record.patch.apply(state)
    assert after.context == (ContextBlock("short context", block_id="c"),)
    assert [message.content for message in after.messages[1:3]] == ["short order", "ok"]
    assert after.messages[1].name == "get_order"
    assert (after.messages[0], after.messages[3]) == (CONVERSATION[0], CONVERSATION[3])
    only_one = bench.run(ObservationCompression(min_tokens=20, max_observations=1), state, "short context")
    assert only_one.patch.apply(state).messages == CONVERSATION


def test_an_observation_that_does_not_become_shorter_stays(bench):
    state = FrozenAgentState(query="q", messages=CONVERSATION)
    record = bench.run(ObservationCompression(min_tokens=20), state, "word " * 60)
    assert (record.status, record.usage.model_calls) == ("no_op", 1)


def test_short_observations_cost_nothing(bench):
    record = bench.run(ObservationCompression(), FrozenAgentState(query="q", messages=CONVERSATION))
    assert (record.status, record.usage.model_calls) == ("no_op", 0)


def test_the_older_part_of_a_conversation_becomes_one_summary(bench):
    state = FrozenAgentState(query="q", messages=CONVERSATION)
    record = bench.run(HistoryCompression(keep_last=2, min_tokens=20), state, "The user greeted.")
    summary, *latest = record.patch.apply(state).messages
    assert summary.role == "system"
    assert summary.content.endswith("The user greeted.")
    assert tuple(latest) == CONVERSATION[2:]


def test_a_short_or_absent_older_part_costs_nothing(bench):
    for messages in ((), CONVERSATION, CONVERSATION[2:3] * 6):
        record = bench.run(HistoryCompression(), FrozenAgentState(query="q", messages=messages))
        assert (record.status, record.usage.model_calls) == ("no_op", 0)


def test_a_history_that_does_not_become_shorter_is_refused(bench):
    state = FrozenAgentState(query="q", messages=CONVERSATION)
    with pytest.raises(AlgorithmOutputError, match="makes a summary of"):
        bench.run(HistoryCompression(keep_last=2, min_tokens=20), state, "word " * 200)
