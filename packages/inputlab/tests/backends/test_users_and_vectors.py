"""Simulated users, embedders and vector search."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentinputlab.backends.embedding import (
    CallableEmbeddingBackend,
    DenseEmbedder,
    DeterministicHashEmbeddingBackend,
    EmbeddingRequest,
    EmbeddingResponse,
    ReplayEmbeddingBackend,
)
from agentinputlab.backends.retrieval import Document, RetrievalResult
from agentinputlab.backends.user import (
    CallableUserResponder,
    ReplayUserResponder,
    UserRequest,
    UserResponder,
    UserResponse,
)
from agentinputlab.backends.vector import (
    CallableVectorSearcher,
    InMemoryVectorSearcher,
    ReplayVectorSearcher,
    VectorSearcher,
    vector_hash,
)
from agentinputlab.contracts import AlgorithmOutputError, ArtifactError, Message, ValidationError

DOCUMENTS = [Document("de", "Berlin Germany"), Document("fr", "Paris France"), Document("it", "Rome Italy")]


def giving(results):
    """A search that always gives the same."""

    def search(vector, *, top_k):
        return results

    return search


def test_a_function_answers_as_user():
    user = CallableUserResponder(lambda request: request.question.upper(), responder_id="u", revision="1")
    assert isinstance(user, UserResponder)
    assert user.respond(UserRequest("size?")).text == "SIZE?"
    assert user.fingerprint() != CallableUserResponder(str, responder_id="u", revision="2").fingerprint()
    with pytest.raises(AlgorithmOutputError, match="not blank"):
        CallableUserResponder(lambda _: " ", responder_id="u", revision="1").respond(UserRequest("size?"))


def test_recorded_user_answers_come_once_and_to_their_question():
    request = UserRequest("size?", (Message("user", "a shirt"),))
    user = ReplayUserResponder([UserResponse("M")], strict_request_hashes=[request.request_hash])
    with pytest.raises(ArtifactError, match=f"belongs to request {request.request_hash}"):
        user.respond(UserRequest("colour?"))
    assert user.respond(request) == UserResponse("M")
    with pytest.raises(ArtifactError, match="used up"):
        user.respond(request)
    with pytest.raises(ValidationError, match="as many as"):
        ReplayUserResponder([], strict_request_hashes=["0" * 64])


def test_what_users_say_is_not_printed():
    assert "secret" not in repr(UserRequest("secret?")) + repr(UserResponse("secret"))


@given(st.text(min_size=1).filter(str.strip), st.integers(1, 200))
def test_hash_vectors_have_length_1_and_depend_on_the_words_alone(text, dimension):
    embedder = DeterministicHashEmbeddingBackend(dimension)
    one, two = embedder.embed(EmbeddingRequest((text, f"  {text}! "))).vectors
    assert len(one) == dimension
    assert math.sqrt(sum(entry * entry for entry in one)) == pytest.approx(1)
    assert one == two


def test_hash_vectors_are_the_same_everywhere():
    vector = DeterministicHashEmbeddingBackend(4).embed(EmbeddingRequest(("Paris",))).vectors[0]
    # SHA-256 of "paris" begins with 1670f2e42fefa504: the last of these bits is 0 (minus), those before it are 2 mod 4.
    assert vector == (0.0, 0.0, -1.0, 0.0)


def test_embedders_have_their_protocol_and_fingerprints():
    hashed = DeterministicHashEmbeddingBackend(8)
    function = CallableEmbeddingBackend(lambda texts: [[1, 2]] * len(texts), model_id="f", revision="1")
    recorded = ReplayEmbeddingBackend({"a": [1.0, 0.0], "b": [0.0, 1.0]}, model_id="m")
    assert all(isinstance(embedder, DenseEmbedder) for embedder in (hashed, function, recorded))
    assert len({embedder.fingerprint() for embedder in (hashed, function, recorded)}) == 3
    assert function.embed(EmbeddingRequest(("x", "y"))).vectors == ((1.0, 2.0), (1.0, 2.0))
    assert recorded.embed(EmbeddingRequest(("b", "a"))).vectors == ((0.0, 1.0), (1.0, 0.0))
    with pytest.raises(ArtifactError) as error:
        recorded.embed(EmbeddingRequest(("my secret",)))
    assert "secret" not in str(error.value)
    with pytest.raises(AlgorithmOutputError, match="1 vectors for 2 texts"):
        CallableEmbeddingBackend(lambda _: [[1]], model_id="f", revision="1").embed(EmbeddingRequest(("x", "y")))


@pytest.mark.parametrize("vectors", [[], [[]], [[1.0], [1.0, 2.0]], [[float("nan")]], [["x"]], [[True]], "x"])
def test_wrong_vectors_are_refused(vectors):
    with pytest.raises(ValidationError, match=r"EmbeddingResponse\.vectors"):
        EmbeddingResponse(vectors, "m")


@pytest.mark.parametrize("texts", [(), ("",), "text"])
def test_there_must_be_texts_to_embed(texts):
    with pytest.raises(ValidationError, match=r"EmbeddingRequest\.texts"):
        EmbeddingRequest(texts)


def test_the_nearest_document_comes_first_and_equal_ones_by_id():
    embedder = DeterministicHashEmbeddingBackend(256)
    searcher = InMemoryVectorSearcher(reversed(DOCUMENTS), embedder)
    assert isinstance(searcher, VectorSearcher)
    vector = embedder.embed(EmbeddingRequest(("france paris",))).vectors[0]
    results = searcher.search(vector, top_k=3)
    assert results[0].document.doc_id == "fr"
    assert results[0].score == pytest.approx(1)
    assert [r.rank for r in results] == [1, 2, 3]
    nowhere = searcher.search([0.0] * 256, top_k=3)
    assert [r.document.doc_id for r in nowhere] == ["de", "fr", "it"]
    assert searcher.search(vector, top_k=0) == ()
    for wrong in ([1.0], [float("nan")] * 256):
        with pytest.raises(ValidationError, match="vector"):
            searcher.search(wrong)


def test_recorded_searches_answer_only_their_vector():
    results = [RetrievalResult(DOCUMENTS[0], 0.5, 1), RetrievalResult(DOCUMENTS[1], 0.25, 2)]
    searcher = ReplayVectorSearcher({vector_hash([1, 0]): results})
    assert searcher.search([1.0, 0.0], top_k=1) == tuple(results[:1])
    with pytest.raises(ArtifactError, match="no search is recorded"):
        searcher.search([0.0, 1.0])


def test_a_function_searches_and_is_held_to_top_k():
    identity = {"implementation": "f", "revision": "1"}
    result = RetrievalResult(DOCUMENTS[0], 0.5, 1)
    searcher = CallableVectorSearcher(giving([result]), identity)
    assert searcher.search([1.0], top_k=1) == (result,)
    assert searcher.fingerprint() != ReplayVectorSearcher({}).fingerprint()
    with pytest.raises(AlgorithmOutputError, match="more than top_k"):
        CallableVectorSearcher(giving([result] * 2), identity).search([1.0], top_k=1)
