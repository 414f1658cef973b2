"""Texts as vectors: by hashing words, by a function, or recorded before."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, cast, runtime_checkable

from agentinputlab.backends.llm._types import Usage
from agentinputlab.backends.tokens import TOKEN_COUNTER, count_tokens
from agentinputlab.contracts._checks import Record, entries, finite, frozen, put, text, texts, whole
from agentinputlab.contracts.errors import AlgorithmOutputError, ArtifactError, ValidationError
from agentinputlab.contracts.serialization import content_hash

__all__ = [
    "CallableEmbeddingBackend",
    "DenseEmbedder",
    "DeterministicHashEmbeddingBackend",
    "EmbeddingRequest",
    "EmbeddingResponse",
    "ReplayEmbeddingBackend",
]

_WORD = re.compile(r"\w+")
Vector = tuple[float, ...]


@dataclass(frozen=True, slots=True)
class EmbeddingRequest(Record):
    """Texts to embed.

    Attributes:
        texts: at least one text; none is blank.
        metadata: JSON values for the caller's own use; part of the hash.
    """

    texts: tuple[str, ...] = field(repr=False)
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def __post_init__(self) -> None:
        put(self, texts=texts(self.texts, "EmbeddingRequest.texts"))
        if not self.texts:
            raise ValidationError("EmbeddingRequest.texts must hold at least one text")
        put(self, metadata=frozen(self.metadata, "EmbeddingRequest.metadata"))

    @property
    def request_hash(self) -> str:
        """The content hash of all fields."""
        return content_hash(self)


@dataclass(frozen=True, slots=True)
class EmbeddingResponse(Record):
    """Vectors, one per text.

    Attributes:
        vectors: all of one dimension, entries finite.
        model: the model that made them.
        usage: tokens read, or None when nobody counted.
    """

    vectors: tuple[Vector, ...] = field(repr=False)
    model: str
    usage: Usage | None = None

    def __post_init__(self) -> None:
        rows = cast("object", self.vectors)
        if not isinstance(rows, list | tuple) or not rows:
            raise ValidationError("EmbeddingResponse.vectors must be a list of at least one vector")
        put(self, vectors=tuple(_vector(row, index) for index, row in enumerate(cast("list[object]", rows))))
        if len({len(vector) for vector in self.vectors}) != 1:
            raise ValidationError("EmbeddingResponse.vectors must all have one dimension")
        text(self.model, "EmbeddingResponse.model")


@runtime_checkable
class DenseEmbedder(Protocol):
    """Something that turns texts into vectors."""

    @property
    def model_id(self) -> str:
        """The model."""
        ...

    def embed(self, request: EmbeddingRequest) -> EmbeddingResponse:
        """Give one vector per text."""
        ...

    def fingerprint(self) -> str:
        """Give a content hash of everything that decides its vectors."""
        ...


class DeterministicHashEmbeddingBackend:
    """Hash every word to a coordinate and a sign, add up, and scale to length 1 (feature hashing).

    No model: texts are near when they share words. The same text gives the same vector on every machine (Weinberger et
    al., *Feature Hashing for Large Scale Multitask Learning*, ICML 2009, [arXiv 0902.2206](https://arxiv.org/abs/0902.2206)).
    A text without words gives the first unit vector.

    Args:
        dimension: length of the vectors.
    """

    token_counter = TOKEN_COUNTER

    def __init__(self, dimension: int = 64) -> None:
        self.dimension = whole(dimension, "DeterministicHashEmbeddingBackend.dimension", minimum=1)
        self.model_id = f"agentinputlab.hash_embedding.v1.{self.dimension}"

    def embed(self, request: EmbeddingRequest) -> EmbeddingResponse:
        """Give one vector of length 1 per text."""
        vectors = tuple(self._embedded(item) for item in request.texts)
        usage = Usage(sum(count_tokens(item) for item in request.texts), 0)
        return EmbeddingResponse(vectors, self.model_id, usage)

    def fingerprint(self) -> str:
        """Give the content hash of method and dimension."""
        return content_hash({"embedder": "hash", "model_id": self.model_id})

    def _embedded(self, value: str) -> Vector:
        sums = [0] * self.dimension
        for word in _WORD.findall(value.lower()):
            number = int.from_bytes(hashlib.sha256(word.encode()).digest()[:8])
            sums[(number >> 1) % self.dimension] += 1 if number & 1 else -1
        length = math.sqrt(sum(entry * entry for entry in sums))
        if not length:
            return (1.0, *[0.0] * (self.dimension - 1))
        return tuple(entry / length for entry in sums)


class CallableEmbeddingBackend:
    """Ask a function for vectors.

    Args:
        fn: from texts to one vector per text.
        model_id: name of the model it stands for.
        revision: version of the function; code has no stable identity by itself.
    """

    def __init__(
        self, fn: Callable[[Sequence[str]], Iterable[Sequence[float]]], *, model_id: str, revision: str
    ) -> None:
        if not callable(cast("object", fn)):
            raise ValidationError(f"CallableEmbeddingBackend.fn must be callable, got {type(fn).__name__}")
        self.model_id = text(model_id, "CallableEmbeddingBackend.model_id")
        self.revision = text(revision, "CallableEmbeddingBackend.revision")
        self._fn = fn

    def embed(self, request: EmbeddingRequest) -> EmbeddingResponse:
        """Call the function once.

        Raises:
            AlgorithmOutputError: it did not give one vector per text.
        """
        vectors = tuple(tuple(float(entry) for entry in vector) for vector in self._fn(request.texts))
        if len(vectors) != len(request.texts):
            raise AlgorithmOutputError(f"{self.model_id} gave {len(vectors)} vectors for {len(request.texts)} texts")
        return EmbeddingResponse(vectors, self.model_id)

    def fingerprint(self) -> str:
        """Give the content hash of name and version."""
        return content_hash({"embedder": "callable", "model_id": self.model_id, "revision": self.revision})


class ReplayEmbeddingBackend:
    """Give the recorded vector of each text.

    Args:
        vectors: text to vector.
        model_id: name of the model that made them.
    """

    def __init__(self, vectors: Mapping[str, Sequence[float]], *, model_id: str) -> None:
        self.model_id = text(model_id, "ReplayEmbeddingBackend.model_id")
        known = entries(list(vectors), "ReplayEmbeddingBackend.vectors", str)
        checked = EmbeddingResponse(tuple(tuple(vectors[item]) for item in known), self.model_id)
        self._vectors = dict(zip(known, checked.vectors, strict=True))

    def embed(self, request: EmbeddingRequest) -> EmbeddingResponse:
        """Give one recorded vector per text.

        Raises:
            ArtifactError: a text was never recorded; the message has its hash.
        """
        for item in request.texts:
            if item not in self._vectors:
                raise ArtifactError(f"no vector is recorded for the text with content hash {content_hash(item)}")
        return EmbeddingResponse(tuple(self._vectors[item] for item in request.texts), self.model_id)

    def fingerprint(self) -> str:
        """Give the content hash of all recorded vectors."""
        return content_hash({"embedder": "replay", "model_id": self.model_id, "vectors": self._vectors})


def _vector(value: object, index: int) -> Vector:
    name = f"EmbeddingResponse.vectors[{index}]"
    if not isinstance(value, list | tuple) or not value:
        raise ValidationError(f"{name} must be a list of at least one number")
    return tuple(finite(entry, f"{name}[{place}]") for place, entry in enumerate(cast("list[object]", value)))
