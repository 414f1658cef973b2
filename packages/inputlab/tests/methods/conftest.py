"""A recorded model, a small library and the runner, for tests of single methods."""

from dataclasses import dataclass

import pytest
from agentinputlab.backends.embedding import DeterministicHashEmbeddingBackend, EmbeddingRequest
from agentinputlab.runner import InterventionRunner

from agentinputlab.backends.llm import GenerationResponse, ReplayBackend, Usage
from agentinputlab.backends.retrieval import Document, InMemoryBM25Retriever, RetrievalResult
from agentinputlab.backends.tokens import count_tokens
from agentinputlab.contracts import InterventionContext

LIBRARY = {
    "eiffel": "The Eiffel Tower stands in Paris and was finished in 1889.",
    "paris": "Paris is the capital of France and lies on the Seine.",
    "berlin": "Berlin is the capital of Germany and lies on the Spree.",
    "seine": "The Seine flows into the English Channel at Le Havre.",
}


def recorded(*texts):
    """A model that gives these answers, in order, and fails when asked more often."""
    return ReplayBackend(
        [
            GenerationResponse(
                text=text, model="recorded", finish_reason="stop", usage=Usage(20, count_tokens(text), cost_usd=0.0)
            )
            for text in texts
        ]
    )


@dataclass(frozen=True)
class Bench:
    """Runs a method against recorded answers."""

    library: InMemoryBM25Retriever

    def context(self, *texts, **fields):
        return InterventionContext(**{"backend": recorded(*texts), "retriever": self.library, **fields})

    def run(self, method, state, *texts, **fields):
        return InterventionRunner().run(method, state, self.context(*texts, **fields))


@pytest.fixture(scope="session")
def library():
    return InMemoryBM25Retriever([Document(doc_id, text) for doc_id, text in LIBRARY.items()])


@pytest.fixture(scope="session")
def bench(library):
    return Bench(library)


@pytest.fixture(scope="session")
def embedder():
    return DeterministicHashEmbeddingBackend()


class NearestDocuments:
    """The documents of the library by cosine with their own embeddings."""

    def __init__(self, embedder):
        self.documents = [Document(doc_id, text) for doc_id, text in LIBRARY.items()]
        self.vectors = embedder.embed(EmbeddingRequest(texts=tuple(LIBRARY.values()))).vectors

    def search(self, vector, *, top_k=5):
        scores = [sum(a * b for a, b in zip(vector, own, strict=True)) for own in self.vectors]
        order = sorted(range(len(scores)), key=lambda index: (-scores[index], index))[:top_k]
        return tuple(
            RetrievalResult(self.documents[index], scores[index], rank) for rank, index in enumerate(order, start=1)
        )

    def fingerprint(self):
        return "library by cosine"


@pytest.fixture(scope="session")
def searcher(embedder):
    return NearestDocuments(embedder)
