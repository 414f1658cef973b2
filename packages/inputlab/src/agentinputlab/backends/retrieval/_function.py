"""A function as retriever."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from agentinputlab.backends.retrieval._types import RetrievalResult
from agentinputlab.contracts._checks import exact_fields, frozen, text
from agentinputlab.contracts.errors import AlgorithmOutputError, ValidationError
from agentinputlab.contracts.serialization import content_hash

__all__ = ["FunctionRetriever"]


class FunctionRetriever:
    """Ask a function for documents.

    Args:
        fn: called with the query and, by keyword, ``top_k``.
        identity: ``implementation`` and ``revision`` of the function; code has no stable identity by itself.
        retriever_id: name of the retriever.

    Raises:
        ValidationError: an argument is wrong.
    """

    def __init__(
        self,
        fn: Callable[..., Sequence[RetrievalResult]],
        identity: Mapping[str, str],
        *,
        retriever_id: str = "function",
    ) -> None:
        if not callable(cast("object", fn)):
            raise ValidationError(f"FunctionRetriever.fn must be callable, got {type(fn).__name__}")
        names = ("implementation", "revision")
        exact_fields(identity, "FunctionRetriever.identity", allowed=names, required=names)
        for name in names:
            text(identity[name], f"FunctionRetriever.identity.{name}")
        self.identity: Mapping[str, Any] = frozen(identity, "FunctionRetriever.identity")
        self.retriever_id = text(retriever_id, "FunctionRetriever.retriever_id")
        self._fn = fn

    def retrieve(self, query: str, *, top_k: int = 5) -> tuple[RetrievalResult, ...]:
        """Call the function once; none when ``top_k`` is below 1.

        Raises:
            AlgorithmOutputError: it gave something else than at most ``top_k`` results, ranked from 1.
        """
        if top_k < 1:
            return ()
        results = cast("object", self._fn(query, top_k=top_k))
        if not isinstance(results, list | tuple):
            raise AlgorithmOutputError(f"{self.retriever_id} must give a list of results, got {type(results).__name__}")
        if len(cast("list[object]", results)) > top_k:
            raise AlgorithmOutputError(f"{self.retriever_id} gave more than top_k = {top_k} results")
        for rank, result in enumerate(cast("list[object]", results), start=1):
            if not isinstance(result, RetrievalResult) or result.rank != rank:
                raise AlgorithmOutputError(f"{self.retriever_id} must give results ranked from 1, place {rank} is not")
        return tuple(cast("list[RetrievalResult]", results))

    def fingerprint(self) -> str:
        """Give the content hash of the identity."""
        return content_hash({"retriever": "function", "retriever_id": self.retriever_id, "identity": self.identity})
