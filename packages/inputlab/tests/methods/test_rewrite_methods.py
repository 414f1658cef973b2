"""Rewriting methods against recorded models: what reaches the query or the context, and what is refused."""

import pytest

from agentinputlab.algorithms.rewrite._fixture import FIXTURE_DOCUMENTS, FIXTURE_STATE, FixtureQuery2Doc
from agentinputlab.algorithms.rewrite.infocqr import CachedInformativeRewrite, InformativeRewrite
from agentinputlab.algorithms.rewrite.query2doc import CachedQuery2Doc, LiveQuery2Doc
from agentinputlab.algorithms.rewrite.reformer import PATTERNS, PatternReformulation
from agentinputlab.algorithms.rewrite.rrr import RewriteRetrieveRead
from agentinputlab.backends.retrieval import Document, InMemoryBM25Retriever
from agentinputlab.contracts import (
    AlgorithmOutputError,
    ArtifactError,
    ContextBlock,
    FrozenAgentState,
    InterventionContext,
    Message,
    ValidationError,
)

STATE = FrozenAgentState(query="capital france", task_id="t1")
NO_QUERY = FrozenAgentState(query="", instruction="Help.")


def applied(record, state):
    assert record.status == "success"
    return record.patch.apply(state)


def test_the_smoke_fixture_expands_the_query_so_that_the_french_document_comes_first():
    state = FIXTURE_STATE
    assert state.state_hash == "8189b53b726c198fd6b5f100a833987d525773707bd03184fad7277f11189817"
    patch = FixtureQuery2Doc().propose(state, InterventionContext())
    assert patch.release_id == "fixture.query2doc.cached"
    library = InMemoryBM25Retriever([Document(doc_id, text) for doc_id, text in FIXTURE_DOCUMENTS.items()])
    assert library.retrieve(patch.apply(state).query, top_k=2)[0].document.doc_id == "fr"
    assert FixtureQuery2Doc().propose(state, InterventionContext()).patch_hash == patch.patch_hash


def test_query2doc_repeats_the_query_five_times_before_the_passage(bench):
    record = bench.run(LiveQuery2Doc(), STATE, "Paris is\nthe capital. ")
    assert applied(record, STATE).query == "capital france " * 5 + "Paris is the capital."
    assert record.patch.metadata["evidence_kind"] == "synthetic_query_surrogate"
    assert record.usage.model_calls == 1


def test_cached_and_live_query2doc_expand_alike(bench):
    cached = CachedQuery2Doc(cache={"capital france": "Paris."}, repeats=2)
    record = bench.run(cached, STATE)
    assert applied(record, STATE).query == "capital france capital france Paris."
    assert record.usage.model_calls == 0
    assert applied(bench.run(LiveQuery2Doc(repeats=2), STATE, "Paris."), STATE).query == applied(record, STATE).query


def test_a_query_without_cached_passage_is_an_error_that_does_not_quote_it(bench):
    with pytest.raises(ArtifactError, match="has no cached passage") as caught:
        bench.run(CachedQuery2Doc(), STATE)
    assert STATE.query not in str(caught.value)


def test_another_cache_is_another_implementation_identity():
    empty, full = CachedQuery2Doc(), CachedQuery2Doc(cache={"q": "p"})
    assert empty.implementation_identity != full.implementation_identity
    assert full.implementation_identity == CachedQuery2Doc(cache={"q": "p"}).implementation_identity


def test_changing_the_callers_cache_afterwards_changes_nothing():
    cache = {"capital france": "Paris."}
    method = CachedQuery2Doc(cache=cache)
    cache["capital france"] = "Lyon."
    assert "Paris." in method.propose(STATE, InterventionContext()).apply(STATE).query


def test_rewrite_retrieve_read_adds_what_the_models_queries_find_and_keeps_the_query(bench):
    state = FrozenAgentState(
        query="which town has the big iron tower", context=(ContextBlock("known", block_id="paris"),)
    )
    record = bench.run(RewriteRetrieveRead(top_k=2), state, "1. Eiffel Tower location\n2. capital of France")
    result = applied(record, state)
    assert result.query == state.query
    found = [block.block_id for block in result.context]
    assert found[:2] == ["paris", "eiffel"]
    assert len(found) == len(set(found))
    assert (record.usage.model_calls, record.usage.retrieval_calls) == (1, 2)


def test_rewrite_retrieve_read_with_nothing_new_changes_nothing_and_says_so(bench, library):
    blocks = tuple(ContextBlock("known", block_id=name) for name in ("eiffel", "paris", "berlin", "seine"))
    record = bench.run(RewriteRetrieveRead(), FrozenAgentState(query="q", context=blocks), "capital")
    assert record.status == "no_op"
    assert "already in the context" in record.patch.metadata["no_op_reason"]


def test_more_queries_than_allowed_are_refused(bench):
    with pytest.raises(AlgorithmOutputError, match="must list 1 to 2 entries, got 3"):
        bench.run(RewriteRetrieveRead(), STATE, "a\nb\nc")


def test_infocqr_shows_the_model_the_conversation_and_replaces_the_query(bench):
    state = FrozenAgentState(
        query="And how long is it?",
        messages=(Message("user", "Which river flows through Paris?"), Message("assistant", "The Seine.")),
    )
    record = bench.run(InformativeRewrite(), state, "How long is the river Seine?")
    assert applied(record, state).query == "How long is the river Seine?"
    edited = bench.run(InformativeRewrite(edit=True), state, "How long is it?", "How long is the Seine in France?")
    assert applied(edited, state).query == "How long is the Seine in France?"
    assert edited.usage.model_calls == 2


def test_infocqr_that_gives_the_query_back_changes_nothing(bench):
    assert bench.run(InformativeRewrite(), STATE, "capital france").status == "no_op"


def test_cached_rewrites_are_found_by_task(bench):
    method = CachedInformativeRewrite(cache={"t1": "What is the capital of France?"})
    assert applied(bench.run(method, STATE), STATE).query == "What is the capital of France?"
    with pytest.raises(ArtifactError, match="no cached rewrite"):
        bench.run(method, FrozenAgentState(query="capital france", task_id="t2"))
    with pytest.raises(ValidationError, match="task id, which is blank"):
        bench.run(method, FrozenAgentState(query="capital france"))


def test_reformer_appends_the_reformulation_by_the_chosen_pattern(bench):
    record = bench.run(PatternReformulation(), STATE, '{"pattern": "spell_out"}', "capital city of France")
    assert applied(record, STATE).query == "capital france\n\ncapital city of France"
    assert record.patch.metadata["pattern"] == "spell_out"
    assert "spell_out" in PATTERNS


def test_a_pattern_outside_the_library_is_refused(bench):
    with pytest.raises(AlgorithmOutputError, match="must have one of only_this in pattern"):
        bench.run(PatternReformulation(patterns={"only_this": "Do it."}), STATE, '{"pattern": "spell_out"}')


@pytest.mark.parametrize(
    "method",
    [
        FixtureQuery2Doc(),
        LiveQuery2Doc(),
        RewriteRetrieveRead(),
        InformativeRewrite(),
        CachedInformativeRewrite(),
        PatternReformulation(),
    ],
    ids=lambda method: method.release_id,
)
def test_a_state_without_query_is_refused_before_the_model_is_asked(method, bench):
    with pytest.raises(ValidationError, match="works on the query of the state, which is blank"):
        bench.run(method, NO_QUERY)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: CachedQuery2Doc(repeats=0), "repeats must be an integer >= 1, got 0"),
        (lambda: CachedQuery2Doc(cache={"q": " "}), "every passage of cache must not be blank"),
        (lambda: CachedQuery2Doc(cache={"q": 1}), "every passage of cache must be a string"),
        (lambda: LiveQuery2Doc(max_tokens=True), "max_tokens must be an integer >= 1"),
        (lambda: RewriteRetrieveRead(top_k=0), "top_k must be an integer >= 1"),
        (lambda: InformativeRewrite(edit="yes"), "edit must be true or false"),
        (lambda: CachedInformativeRewrite(cache=["x"]), "cache must be a mapping"),
        (lambda: PatternReformulation(patterns={}), "patterns must not be empty"),
    ],
)
def test_wrong_parameters_are_named(make, message):
    with pytest.raises(ValidationError, match=message):
        make()
