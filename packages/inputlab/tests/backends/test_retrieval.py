"""Retrievers: BM25 against the formula written out, the disk index, functions."""

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentinputlab.backends.retrieval import (
    Document,
    FunctionRetriever,
    InMemoryBM25Retriever,
    RetrievalResult,
    Retriever,
    SQLiteFTS5Retriever,
    default_tokenize,
)
from agentinputlab.contracts import AlgorithmOutputError, ArtifactError, ValidationError

CAPITALS = [
    Document("de", "Berlin is the capital of Germany."),
    Document("fr", "Paris is the capital of France."),
]


def ids(results):
    return [result.document.doc_id for result in results]


def giving(results):
    """A search that always gives the same."""

    def search(query, *, top_k):
        return results

    return search


def written_out(documents, query, *, k1=1.2, b=0.75):
    """The documented formula, term by term: document id to score."""

    def words(text):
        return re.findall(r"\w+", text.lower())

    texts = {document.doc_id: words(f"{document.title} {document.text}") for document in documents}
    average = sum(len(tokens) for tokens in texts.values()) / len(texts)
    scores = {}
    for doc_id, tokens in texts.items():
        score = 0.0
        for word in words(query):
            holders = sum(word in others for others in texts.values())
            idf = math.log(1 + (len(texts) - holders + 0.5) / (holders + 0.5))
            count = tokens.count(word)
            if count:
                score += idf * count * (k1 + 1) / (count + k1 * (1 - b + b * len(tokens) / average))
        scores[doc_id] = score
    return scores


def test_the_documented_scores_of_two_capitals():
    results = InMemoryBM25Retriever(CAPITALS).retrieve("capital france")
    assert [(r.document.doc_id, round(r.score, 6), r.rank) for r in results] == [
        ("fr", 0.875469, 1),
        ("de", 0.182322, 2),
    ]
    assert results[0].features == {"bm25_score": results[0].score}


WORDS = st.sampled_from(["a", "B", "c_1", "é", "Straße", "2", "long"])
TEXTS = st.lists(WORDS, min_size=1, max_size=8).map(" ".join)
LIBRARIES = st.lists(st.tuples(TEXTS, TEXTS | st.just("")), min_size=1, max_size=12).map(
    lambda rows: [Document(f"d{number}", text, title) for number, (text, title) in enumerate(rows)]
)


@given(LIBRARIES, TEXTS, st.integers(1, 15), st.floats(0, 3), st.floats(0, 1))
def test_bm25_equals_the_formula_written_out_in_scores_and_in_order(documents, query, top_k, k1, b):
    results = InMemoryBM25Retriever(documents, k1=k1, b=b).retrieve(query, top_k=top_k)
    expected = written_out(documents, query, k1=k1, b=b)
    assert len(results) == min(top_k, len(documents))
    assert [result.rank for result in results] == list(range(1, len(results) + 1))
    for result in results:
        assert result.score == pytest.approx(expected[result.document.doc_id], rel=1e-12, abs=1e-15)
    order = [(-result.score, result.document.doc_id) for result in results]
    assert order == sorted(order)
    left_out = [score for doc_id, score in expected.items() if doc_id not in ids(results)]
    assert all(score <= results[-1].score + 1e-12 for score in left_out)


@given(LIBRARIES, TEXTS, st.randoms())
def test_the_order_in_which_documents_are_given_does_not_matter(documents, query, random):
    shuffled = random.sample(documents, len(documents))
    one, two = InMemoryBM25Retriever(documents), InMemoryBM25Retriever(shuffled)
    assert one.retrieve(query, top_k=20) == two.retrieve(query, top_k=20)
    assert one.fingerprint() == two.fingerprint()


def test_equal_scores_are_ordered_by_id_and_zero_scores_come_last():
    documents = [Document(name, "same words") for name in ("c", "a", "b")] + [Document("0", "nothing")]
    assert ids(InMemoryBM25Retriever(documents).retrieve("words", top_k=9)) == ["a", "b", "c", "0"]
    assert ids(InMemoryBM25Retriever(documents).retrieve("words", top_k=2)) == ["a", "b"]
    assert ids(InMemoryBM25Retriever(documents).retrieve("absent")) == ["0", "a", "b", "c"]


def test_a_repeated_query_word_counts_each_time():
    retriever = InMemoryBM25Retriever(CAPITALS)
    once, twice = (retriever.retrieve(query, top_k=1)[0].score for query in ("france", "france France"))
    assert twice == 2 * once


@pytest.mark.parametrize("top_k", [0, -1])
def test_asking_for_nothing_gives_nothing(top_k, tmp_path):
    function = FunctionRetriever(giving(CAPITALS), {"implementation": "f", "revision": "1"})
    disk = SQLiteFTS5Retriever.build(tmp_path / "i.db", CAPITALS)
    for retriever in (InMemoryBM25Retriever(CAPITALS), function, disk):
        assert isinstance(retriever, Retriever)
        assert retriever.retrieve("capital", top_k=top_k) == ()
    disk.close()


def test_documents_without_any_token_are_found_last():
    documents = [Document("a", "!!!"), Document("b", "???")]
    assert ids(InMemoryBM25Retriever(documents).retrieve("x")) == ["a", "b"]


def test_another_tokenizer_needs_its_own_id():
    with pytest.raises(ValidationError, match="tokenizer_id"):
        InMemoryBM25Retriever(CAPITALS, tokenizer=str.split)
    with pytest.raises(ValidationError, match="tokenizer_id"):
        InMemoryBM25Retriever(CAPITALS, tokenizer_id="mine")
    own = InMemoryBM25Retriever(CAPITALS, tokenizer=str.split, tokenizer_id="split")
    assert ids(own.retrieve("France.", top_k=1)) == ["fr"]
    assert own.fingerprint() != InMemoryBM25Retriever(CAPITALS).fingerprint()


@pytest.mark.parametrize(
    ("fields", "named"),
    [({"k1": -1}, "k1"), ({"b": 1.1}, "b must"), ({"k1": float("nan")}, "k1"), ({"retriever_id": ""}, "retriever_id")],
)
def test_a_wrong_argument_is_named(fields, named):
    with pytest.raises(ValidationError, match=named):
        InMemoryBM25Retriever(CAPITALS, **fields)


def test_wrong_documents_are_named():
    with pytest.raises(ValidationError, match="'fr' twice"):
        InMemoryBM25Retriever([*CAPITALS, CAPITALS[1]])
    with pytest.raises(ValidationError, match="at least one"):
        InMemoryBM25Retriever([])
    with pytest.raises(ValidationError, match=r"documents\[0\] must be a Document"):
        InMemoryBM25Retriever(["text"])
    with pytest.raises(ValidationError, match=r"Document\.text"):
        Document("a", " ")
    with pytest.raises(ValidationError, match="rank"):
        RetrievalResult(CAPITALS[0], 1.0, 0)


def test_a_function_is_held_to_what_it_promised():
    identity = {"implementation": "f", "revision": "1"}
    good = [RetrievalResult(CAPITALS[0], 1.0, 1)]
    assert FunctionRetriever(giving(good), identity).retrieve("x") == tuple(good)
    for wrong, said in (
        (None, "list of results"),
        (good * 2, "ranked from 1, place 2"),
        ([1], "place 1"),
        (good * 6, "more than top_k"),
    ):
        with pytest.raises(AlgorithmOutputError, match=said):
            FunctionRetriever(giving(wrong), identity).retrieve("x")
    with pytest.raises(ValidationError, match="revision"):
        FunctionRetriever(giving(good), {"implementation": "f"})


def test_the_disk_index_finds_by_any_word_and_keeps_the_whole_document(tmp_path):
    documents = [*CAPITALS, Document("es", "Nothing here.", "Spain", "r1", {"year": 1})]
    with SQLiteFTS5Retriever.build(tmp_path / "index.db", iter(documents)) as retriever:
        assert ids(retriever.retrieve("capital france")) == ["fr", "de"]
        assert retriever.retrieve("SPAIN")[0].document == documents[2]
        assert retriever.retrieve("absent !") == retriever.retrieve("?") == ()
        assert [r.rank for r in retriever.retrieve("capital")] == [1, 2]
        assert ids(retriever.retrieve("capital")) == ["de", "fr"]
        fingerprint = retriever.fingerprint()
    with SQLiteFTS5Retriever(tmp_path / "index.db") as again:
        assert again.fingerprint() == fingerprint
    with SQLiteFTS5Retriever.build(tmp_path / "other.db", CAPITALS) as other:
        assert other.fingerprint() != fingerprint


@given(st.text(max_size=40))
def test_no_query_is_read_as_an_expression(query):
    path = PATHS["index"]
    with SQLiteFTS5Retriever(path) as retriever:
        found = set(ids(retriever.retrieve(query)))
    assert found <= {"de", "fr"}


PATHS = {}


@pytest.fixture(scope="module", autouse=True)
def index(tmp_path_factory):
    PATHS["index"] = tmp_path_factory.mktemp("fts5") / "index.db"
    SQLiteFTS5Retriever.build(PATHS["index"], CAPITALS).close()


def test_a_query_of_many_words_is_cut_to_256(tmp_path):
    query = " ".join(f"w{number}" for number in range(256))
    with SQLiteFTS5Retriever(PATHS["index"]) as retriever:
        assert retriever.retrieve(query + " france") == ()
        assert ids(retriever.retrieve("france " + query)) == ["fr"]


def test_an_index_is_written_once_and_whole(tmp_path):
    path = tmp_path / "index.db"
    with pytest.raises(ValidationError, match="'fr' twice"):
        SQLiteFTS5Retriever.build(path, [*CAPITALS, CAPITALS[1]])
    with pytest.raises(ValidationError, match="at least one"):
        SQLiteFTS5Retriever.build(path, [])
    assert list(tmp_path.iterdir()) == []
    SQLiteFTS5Retriever.build(path, CAPITALS).close()
    before = path.read_bytes()
    with pytest.raises(FileExistsError):
        SQLiteFTS5Retriever.build(path, CAPITALS)
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["index.db"]


@pytest.mark.parametrize("content", [b"", b"no database", b"SQLite format 3\0" + b"\0" * 200])
def test_another_file_is_no_index(tmp_path, content):
    (tmp_path / "x.db").write_bytes(content)
    with pytest.raises(ArtifactError, match=r"x\.db"):
        SQLiteFTS5Retriever(tmp_path / "x.db")
    with pytest.raises(ArtifactError, match="is no file"):
        SQLiteFTS5Retriever(tmp_path / "absent.db")


def test_tokens_are_lowercase_words():
    assert default_tokenize("Ünder_score, 3.5 ok") == ["ünder_score", "3", "5", "ok"]
