"""BM25 in memory: an inverted index whose entries are finished score contributions."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from agentinputlab.backends.retrieval._types import Document, RetrievalResult, distinct_documents
from agentinputlab.contracts._checks import finite, text
from agentinputlab.contracts.errors import ValidationError
from agentinputlab.contracts.serialization import content_hash

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["DEFAULT_TOKENIZER_ID", "InMemoryBM25Retriever", "default_tokenize"]

DEFAULT_TOKENIZER_ID = "agentinputlab.default_tokenize.v1"
_WORD = re.compile(r"\w+")


def default_tokenize(value: str) -> list[str]:
    r"""Give the runs of word characters (``\w+``) of the lowercase text.

    Examples:
        >>> default_tokenize("Paris, the capital!")
        ['paris', 'the', 'capital']
    """
    return _WORD.findall(value.lower())


class InMemoryBM25Retriever:
    r"""Rank documents by BM25 with an idf that is never negative.

    For a query :math:`q` (repeated tokens count each time) and a document :math:`d` of :math:`|d|` tokens,

    .. math::
        s(q, d) = \sum_{t \in q} \ln\!\left(1 + \frac{N - n_t + 1/2}{n_t + 1/2}\right)
        \frac{f_{t,d}\,(k_1 + 1)}{f_{t,d} + k_1\,(1 - b + b\,|d| / \overline{|d|})}

    with :math:`N` documents, :math:`n_t` of them with token :math:`t`, and :math:`f_{t,d}` occurrences (Robertson and
    Zaragoza, *The Probabilistic Relevance Framework: BM25 and Beyond*, 2009, eq. 3.15 with the idf of Lucene). Equal
    scores are ordered by document id, and documents that share no token with the query come last with score 0.

    Args:
        documents: what can be found; at least one, ids distinct.
        retriever_id: name of the retriever.
        k1: how soon repeated tokens stop to count, >= 0.
        b: how much long documents are discounted, 0 to 1.
        tokenizer: from a text to its tokens.
        tokenizer_id: identity of the tokenizer; another tokenizer than the default one needs its own.

    Raises:
        ValidationError: an argument is wrong.
    """

    def __init__(
        self,
        documents: Iterable[Document],
        *,
        retriever_id: str = "memory-bm25",
        k1: float = 1.2,
        b: float = 0.75,
        tokenizer: Callable[[str], Sequence[str]] = default_tokenize,
        tokenizer_id: str = DEFAULT_TOKENIZER_ID,
    ) -> None:
        self.documents = distinct_documents(documents, "InMemoryBM25Retriever.documents")
        if not self.documents:
            raise ValidationError("InMemoryBM25Retriever.documents must hold at least one document")
        self.retriever_id = text(retriever_id, "InMemoryBM25Retriever.retriever_id")
        self.k1 = finite(k1, "InMemoryBM25Retriever.k1", minimum=0)
        self.b = finite(b, "InMemoryBM25Retriever.b", minimum=0)
        if self.b > 1:
            raise ValidationError(f"InMemoryBM25Retriever.b must be <= 1, got {b!r}")
        self.tokenizer_id = text(tokenizer_id, "InMemoryBM25Retriever.tokenizer_id")
        if (tokenizer is default_tokenize) != (tokenizer_id == DEFAULT_TOKENIZER_ID):
            raise ValidationError(
                "InMemoryBM25Retriever.tokenizer_id must name the tokenizer: "
                f"{DEFAULT_TOKENIZER_ID} is default_tokenize, any other tokenizer needs an id of its own"
            )
        self._tokenize = tokenizer
        self._postings = self._index()

    def retrieve(self, query: str, *, top_k: int = 5) -> tuple[RetrievalResult, ...]:
        """Give the ``top_k`` best documents, fewer only if there are fewer; none when ``top_k`` is below 1."""
        if top_k < 1:
            return ()
        scores = self.scores(query)
        results: list[RetrievalResult] = []
        for rank, index in enumerate(_best(scores, min(top_k, len(scores))), start=1):
            score = float(scores[index])
            results.append(RetrievalResult(self.documents[index], score, rank, {"bm25_score": score}))
        return tuple(results)

    def scores(self, query: str) -> NDArray[np.float64]:
        """Give the score of every document in the order of `documents`, shape ``(n_documents,)``."""
        import numpy as np

        scores = np.zeros(len(self.documents))
        for token in self._tokenize(query):
            posting = self._postings.get(token)
            if posting is not None:
                indices, contributions = posting
                scores[indices] += contributions  # a document stands once in a posting
        return scores

    def fingerprint(self) -> str:
        """Give the content hash of formula, parameters, tokenizer and documents."""
        return self._fingerprint

    @cached_property
    def _fingerprint(self) -> str:
        return content_hash(
            {
                "retriever": "bm25",
                "retriever_id": self.retriever_id,
                "k1": self.k1,
                "b": self.b,
                "tokenizer_id": self.tokenizer_id,
                "documents": self.documents,
            }
        )

    def _index(self) -> dict[str, tuple[NDArray[np.intp], NDArray[np.float64]]]:
        """Give for every token the documents that hold it, ascending, and what it adds to their scores."""
        import numpy as np

        occurrences: dict[str, list[tuple[int, int]]] = {}
        lengths = np.empty(len(self.documents))
        for index, document in enumerate(self.documents):
            tokens = self._tokenize(document.searched_text)
            lengths[index] = len(tokens)
            for token, count in Counter(tokens).items():
                occurrences.setdefault(token, []).append((index, count))
        mean_length = float(lengths.mean()) or 1.0  # without any token no score is ever computed
        damping = self.k1 * (1 - self.b + self.b * lengths / mean_length)
        postings: dict[str, tuple[NDArray[np.intp], NDArray[np.float64]]] = {}
        for token, pairs in occurrences.items():
            table: NDArray[Any] = np.array(pairs, dtype=np.intp)
            indices, counts = np.ascontiguousarray(table[:, 0]), table[:, 1].astype(np.float64)
            idf = math.log(1 + (len(self.documents) - len(pairs) + 0.5) / (len(pairs) + 0.5))
            postings[token] = (indices, idf * counts * (self.k1 + 1) / (counts + damping[indices]))
        return postings


def _best(scores: NDArray[np.float64], count: int) -> list[int]:
    """Give the indices of the ``count`` largest scores, largest first, equal ones by index."""
    import numpy as np

    candidates = np.flatnonzero(scores)
    if len(candidates) < count:  # the rest are zeros, in the order of their index
        candidates = np.arange(len(scores))
    found = scores[candidates]
    if len(candidates) > count:
        threshold = np.partition(found, len(found) - count)[len(found) - count]
        keep = np.flatnonzero(found >= threshold)
        candidates, found = candidates[keep], found[keep]
    order = np.argsort(-found, kind="stable")[:count]
    return cast("list[int]", candidates[order].tolist())
