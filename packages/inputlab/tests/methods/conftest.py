"""A recorded model, a small library and the runner, for tests of single methods."""

from dataclasses import dataclass

import pytest

from agentinputlab.backends.embedding import DeterministicHashEmbeddingBackend
from agentinputlab.backends.llm import GenerationResponse, ReplayBackend, Usage
from agentinputlab.backends.retrieval import Document, InMemoryBM25Retriever
from agentinputlab.backends.tokens import count_tokens
from agentinputlab.backends.vector import InMemoryVectorSearcher
from agentinputlab.contracts import InterventionContext
from agentinputlab.runner import InterventionRunner

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


@pytest.fixture(scope="session")
def searcher(embedder):
    return InMemoryVectorSearcher([Document(doc_id, text) for doc_id, text in LIBRARY.items()], embedder)
