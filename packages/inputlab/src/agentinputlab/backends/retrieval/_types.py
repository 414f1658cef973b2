"""Documents, results, and what a retriever is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Protocol, cast, runtime_checkable

from agentinputlab.contracts._checks import Record, entries, finite, frozen, put, text, whole
from agentinputlab.contracts.errors import ValidationError

__all__ = ["Document", "RetrievalResult", "Retriever", "distinct_documents"]


@dataclass(frozen=True, slots=True)
class Document(Record):
    """A text that can be found.

    Attributes:
        doc_id: its name, unique in its collection.
        text: its text.
        title: its title; searched together with the text.
        corpus_revision: version of the collection.
        metadata: JSON values; not searched.
    """

    doc_id: str
    text: str
    title: str = ""
    corpus_revision: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def __post_init__(self) -> None:
        text(self.doc_id, "Document.doc_id")
        text(self.text, "Document.text")
        text(self.title, "Document.title", blank=True)
        text(self.corpus_revision, "Document.corpus_revision", blank=True)
        put(self, metadata=frozen(self.metadata, "Document.metadata"))

    @property
    def searched_text(self) -> str:
        """Title and text."""
        return f"{self.title} {self.text}"


@dataclass(frozen=True, slots=True)
class RetrievalResult(Record):
    """A document that was found.

    Attributes:
        document: the document.
        score: how well it fits, larger is better.
        rank: its place, from 1.
        features: further numbers about the match.
    """

    document: Document
    score: float
    rank: int
    features: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def __post_init__(self) -> None:
        if not isinstance(cast("object", self.document), Document):
            raise ValidationError(f"RetrievalResult.document must be a Document, got {type(self.document).__name__}")
        finite(self.score, "RetrievalResult.score")
        whole(self.rank, "RetrievalResult.rank", minimum=1)
        put(self, features=frozen(self.features, "RetrievalResult.features"))


@runtime_checkable
class Retriever(Protocol):
    """Something that finds documents for a query."""

    @property
    def retriever_id(self) -> str:
        """Its name."""
        ...

    def retrieve(self, query: str, *, top_k: int = 5) -> Sequence[RetrievalResult]:
        """Give the best documents, best first."""
        ...

    def fingerprint(self) -> str:
        """Give a content hash of everything that decides its results."""
        ...


def distinct_documents(documents: Iterable[Document], name: str) -> tuple[Document, ...]:
    """Give documents in the order of their ids; no id stands twice."""
    ordered = sorted(entries(list(documents), name, Document), key=lambda document: document.doc_id)
    for first, second in pairwise(ordered):
        if first.doc_id == second.doc_id:
            raise ValidationError(f"{name} has the doc_id {first.doc_id!r:.80} twice")
    return tuple(ordered)
