"""Methods that bring documents, against recorded models, a small library and a hash embedder."""

import pytest

from agentinputlab.algorithms.acquire._complexity import judge_complexity
from agentinputlab.algorithms.acquire.adaptive_rag import AdaptiveRetrieval
from agentinputlab.algorithms.acquire.hyde import HypotheticalDocuments
from agentinputlab.algorithms.acquire.ircot import InterleavedRetrieval
from agentinputlab.backends.embedding import (
    DeterministicHashEmbeddingBackend,
    EmbeddingRequest,
    ReplayEmbeddingBackend,
)
from agentinputlab.contracts import (
    AlgorithmOutputError,
    BudgetExceededError,
    ExecutionBudget,
    ExternalDependencyError,
    FrozenAgentState,
    ValidationError,
)

STATE = FrozenAgentState(query="In which sea ends the river of the town with the Eiffel Tower?")


def found(record, state=STATE):
    return [block.block_id for block in record.patch.apply(state).context]


# --- interleaved retrieval ----------------------------------------------------------------------------------


def test_each_sentence_searches_for_what_the_next_one_needs(bench):
    record = bench.run(
        InterleavedRetrieval(top_k=1),
        STATE,
        "The Eiffel Tower was finished in Paris.",
        "Paris, the capital of France, lies on the Seine.",
        "So the answer is: the English Channel.",
    )
    assert found(record) == ["eiffel", "paris"]
    assert record.patch.metadata["concluded"] is True
    assert (record.usage.model_calls, record.usage.retrieval_calls) == (3, 3)


def test_the_reasoning_does_not_reach_the_agent(bench):
    record = bench.run(InterleavedRetrieval(top_k=1), STATE, "So the answer is: zebra-4711.")
    assert "zebra-4711" not in str(record.patch.as_dict())


def test_the_loop_ends_after_its_steps_and_says_that_it_did_not_conclude(bench):
    record = bench.run(InterleavedRetrieval(max_steps=2), STATE, "Hm.", "Well.")
    assert record.patch.metadata["concluded"] is False
    assert record.patch.trace.warnings == ("no conclusion after 2 sentences",)


def test_no_more_documents_than_allowed_are_kept(bench):
    record = bench.run(InterleavedRetrieval(top_k=4, max_documents=2), STATE, "So the answer is: x.")
    assert len(found(record)) == 2


def test_a_sentence_that_is_a_paragraph_is_refused(bench):
    with pytest.raises(AlgorithmOutputError, match="must be one line, got 2"):
        bench.run(InterleavedRetrieval(), STATE, "First.\nSecond.")


def test_retrieval_beyond_the_budget_is_refused(bench):
    state = FrozenAgentState(query="q", budget=ExecutionBudget(max_retrieval_calls=1))
    with pytest.raises(BudgetExceededError, match="retrieval_calls 2, allowed 1"):
        bench.run(InterleavedRetrieval(), state, "Hm.", "Well.")


# --- hypothetical documents ---------------------------------------------------------------------------------


def test_what_the_model_makes_up_decides_which_documents_are_near(bench, embedder, searcher):
    state = FrozenAgentState(query="Where does the government of that country meet?")
    vectors = {"dense_embedder": embedder, "vector_searcher": searcher}
    method = HypotheticalDocuments(samples=2, top_k=1)
    german = bench.run(method, state, "In Berlin, capital of Germany.", "Berlin lies on the Spree.", **vectors)
    french = bench.run(method, state, "In Paris, capital of France.", "Paris lies on the Seine.", **vectors)
    assert (found(german, state), found(french, state)) == (["berlin"], ["paris"])
    assert (german.usage.model_calls, german.usage.embedding_calls, german.usage.retrieval_calls) == (2, 1, 1)
    assert "lies on the Spree." not in str(french.patch.as_dict())


def test_the_search_is_near_the_mean_of_query_and_hypothetical_documents(bench):
    asked = []

    class Listening:
        searcher_id = "listening"

        def search(self, vector, *, top_k):
            asked.append(vector)
            return ()

        def fingerprint(self):
            return self.searcher_id

    embedder = ReplayEmbeddingBackend({STATE.query: [3.0, 0.0], "a": [0.0, 6.0], "b": [0.0, 3.0]}, model_id="m")
    method = HypotheticalDocuments(samples=2)
    record = bench.run(method, STATE, "a", "b", dense_embedder=embedder, vector_searcher=Listening())
    assert asked == [(1.0, 3.0)]
    assert record.status == "no_op"


@pytest.mark.parametrize("missing", ["backend", "dense_embedder", "vector_searcher"])
def test_a_missing_part_is_named_before_anything_is_spent(bench, embedder, searcher, missing):
    fields = {"backend": bench.context("a").backend, "dense_embedder": embedder, "vector_searcher": searcher}
    with pytest.raises(ExternalDependencyError, match=rf"InterventionContext\({missing}=\.\.\.\)"):
        bench.run(HypotheticalDocuments(samples=1), STATE, **{**fields, missing: None})
    assert fields["backend"].remaining == 1


def test_an_embedder_that_loses_a_text_is_named(bench, searcher):
    class Losing(DeterministicHashEmbeddingBackend):
        def embed(self, request):
            return super().embed(EmbeddingRequest(request.texts[1:]))

    with pytest.raises(ExternalDependencyError, match="gave 1 vectors for 2 texts"):
        bench.run(HypotheticalDocuments(samples=1), STATE, "a", dense_embedder=Losing(), vector_searcher=searcher)


# --- adaptive retrieval -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("question", "complexity", "rule"),
    [
        ("Thanks a lot!", "A", "small_talk"),
        ("Hello, who wrote Middlemarch?", "B", "otherwise"),
        ("Please translate this sentence into French: good night", "A", "transformation"),
        ("Who wrote Middlemarch?", "B", "otherwise"),
        ("Which is older, the Prado or the Louvre? Compare both.", "C", "comparison"),
        ("Is Lyon larger than Nice?", "C", "comparison"),
        ("Who is the mother of the director who made Jaws?", "C", "nested"),
        ("Where does it end? Where does it begin?", "C", "several_questions"),
        ("Tell me who built it and when it was finished", "C", "several_questions"),
    ],
)
def test_rules_judge_how_complex_a_question_is(question, complexity, rule):
    judged = judge_complexity(question)
    assert (judged.complexity.value, judged.rule) == (complexity, rule)


def test_small_talk_gets_no_documents_and_needs_nothing(bench):
    record = bench.run(AdaptiveRetrieval(), FrozenAgentState(query="Thank you!"), backend=None, retriever=None)
    assert record.status == "no_op"
    assert dict(record.patch.metadata) == {
        "complexity": "A",
        "rule": "small_talk",
        "no_op_reason": "rule small_talk: the question needs no documents",
    }


def test_a_simple_question_gets_one_retrieval_without_a_model(bench):
    state = FrozenAgentState(query="Where is the Eiffel Tower?")
    record = bench.run(AdaptiveRetrieval(top_k=1), state, backend=None)
    assert found(record, state) == ["eiffel"]
    assert (record.usage.model_calls, record.usage.retrieval_calls) == (0, 1)


def test_a_comparison_gets_several_steps(bench):
    state = FrozenAgentState(query="Is the Seine longer than the Spree?")
    record = bench.run(AdaptiveRetrieval(top_k=1), state, "Berlin lies on the Spree.", "So the answer is: yes.")
    assert record.patch.metadata["complexity"] == "C"
    assert record.usage.model_calls == record.usage.retrieval_calls == 2
    with pytest.raises(ExternalDependencyError, match="needs a language model"):
        bench.run(AdaptiveRetrieval(), state, backend=None)


@pytest.mark.parametrize("name", ["top_k", "max_steps", "max_documents", "max_tokens"])
@pytest.mark.parametrize("method", [AdaptiveRetrieval, InterleavedRetrieval])
def test_wrong_parameters_are_named(method, name):
    with pytest.raises(ValidationError, match=f"{name} must be an integer >= 1, got 0"):
        method(**{name: 0})
