"""The documents nearest to a vector: in memory, by a function, or recorded before."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, cast, runtime_checkable

from agentinputlab.backends.embedding import DenseEmbedder, EmbeddingRequest
from agentinputlab.backends.retrieval import Document, FunctionRetriever, RetrievalResult
from agentinputlab.backends.retrieval._types import distinct_documents
from agentinputlab.contracts._checks import digest, entries, finite, text
from agentinputlab.contracts.errors import ArtifactError, ValidationError
from agentinputlab.contracts.serialization import content_hash

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["CallableVectorSearcher", "InMemoryVectorSearcher", "ReplayVectorSearcher", "VectorSearcher", "vector_hash"]


@runtime_checkable
class VectorSearcher(Protocol):
    """Something that finds the documents nearest to a vector."""

    @property
    def searcher_id(self) -> str:
        """Its name."""
        ...

    def search(self, vector: Sequence[float], *, top_k: int = 5) -> Sequence[RetrievalResult]:
        """Give the nearest documents, nearest first."""
        ...

    def fingerprint(self) -> str:
        """Give a content hash of everything that decides its results."""
        ...


def vector_hash(vector: Sequence[float]) -> str:
    """Give the content hash of a vector, the name under which a search for it is recorded."""
    return content_hash([float(entry) for entry in vector])


class InMemoryVectorSearcher:
    """Rank documents by the cosine between their vectors and the one that is asked for; equal ones by document id.

    Args:
        documents: what can be found; at least one, ids distinct.
        embedder: makes the vectors of title and text, once, here.
        searcher_id: name of the searcher.
    """

    def __init__(
        self, documents: Iterable[Document], embedder: DenseEmbedder, *, searcher_id: str = "memory-cosine"
    ) -> None:
        self.documents = distinct_documents(documents, "InMemoryVectorSearcher.documents")
        if not self.documents:
            raise ValidationError("InMemoryVectorSearcher.documents must hold at least one document")
        self.searcher_id = text(searcher_id, "InMemoryVectorSearcher.searcher_id")
        self._embedder_identity = embedder.fingerprint()
        response = embedder.embed(EmbeddingRequest(tuple(item.searched_text.strip() for item in self.documents)))
        self._vectors = _unit(response.vectors)

    def search(self, vector: Sequence[float], *, top_k: int = 5) -> tuple[RetrievalResult, ...]:
        """Give the ``top_k`` nearest documents; none when ``top_k`` is below 1.

        Raises:
            ValidationError: the vector has another dimension or an entry that is not finite.
        """
        import numpy as np

        dimension = self._vectors.shape[1]
        if len(vector) != dimension:
            raise ValidationError(f"vector must have dimension {dimension}, got {len(vector)}")
        wanted = _unit([[finite(float(entry), "vector") for entry in vector]])[0]
        if top_k < 1:
            return ()
        # Rounded, so that documents with the same direction tie whatever the order in which a sum was taken.
        cosines = np.round(self._vectors @ wanted, 12)
        order = np.argsort(-cosines, kind="stable")[:top_k]
        return tuple(
            RetrievalResult(self.documents[index], float(cosines[index]), rank, {"cosine": float(cosines[index])})
            for rank, index in enumerate(order.tolist(), start=1)
        )

    def fingerprint(self) -> str:
        """Give the content hash of documents and embedder."""
        return self._fingerprint

    @cached_property
    def _fingerprint(self) -> str:
        return content_hash(
            {
                "searcher": "cosine",
                "searcher_id": self.searcher_id,
                "embedder": self._embedder_identity,
                "documents": self.documents,
            }
        )


class CallableVectorSearcher:
    """Ask a function for the nearest documents.

    Args:
        fn: called with the vector and, by keyword, ``top_k``.
        identity: ``implementation`` and ``revision`` of the function.
        searcher_id: name of the searcher.
    """

    def __init__(
        self,
        fn: Callable[..., Sequence[RetrievalResult]],
        identity: Mapping[str, str],
        *,
        searcher_id: str = "callable-vector",
    ) -> None:
        self._function = FunctionRetriever(cast("Callable[..., Any]", fn), identity, retriever_id=searcher_id)
        self.searcher_id = searcher_id

    def search(self, vector: Sequence[float], *, top_k: int = 5) -> tuple[RetrievalResult, ...]:
        """Call the function once; none when ``top_k`` is below 1.

        Raises:
            AlgorithmOutputError: it gave something else than at most ``top_k`` results, ranked from 1.
        """
        return self._function.retrieve(cast("Any", vector), top_k=top_k)

    def fingerprint(self) -> str:
        """Give the content hash of the identity."""
        return content_hash({"searcher": "callable", "function": self._function.fingerprint()})


class ReplayVectorSearcher:
    """Give the recorded results of each vector.

    Args:
        results: `vector_hash` to the results, nearest first.
        searcher_id: name of the recording.
    """

    def __init__(self, results: Mapping[str, Sequence[RetrievalResult]], *, searcher_id: str = "replay-vector") -> None:
        self.searcher_id = text(searcher_id, "ReplayVectorSearcher.searcher_id")
        self._results = {
            digest(key, "ReplayVectorSearcher.results"): entries(
                list(rows), "ReplayVectorSearcher.results", RetrievalResult
            )
            for key, rows in results.items()
        }

    def search(self, vector: Sequence[float], *, top_k: int = 5) -> tuple[RetrievalResult, ...]:
        """Give the first ``top_k`` recorded results.

        Raises:
            ArtifactError: nothing is recorded for this vector.
        """
        key = vector_hash(vector)
        if key not in self._results:
            raise ArtifactError(f"no search is recorded for the vector with content hash {key}")
        return self._results[key][: max(top_k, 0)]

    def fingerprint(self) -> str:
        """Give the content hash of all recorded results."""
        return content_hash({"searcher": "replay", "results": self._results})


def _unit(rows: Sequence[Sequence[float]]) -> NDArray[np.float64]:
    """Scale rows to length 1; a row of zeros stays, and is near to nothing."""
    import numpy as np

    vectors = np.asarray(rows, dtype=np.float64)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(lengths == 0, 1, lengths)
