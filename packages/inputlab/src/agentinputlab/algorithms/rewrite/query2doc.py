"""Query2doc: the query, five times, followed by a passage that could answer it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from agentinputlab.algorithms._shared import InterventionBase, MethodRun, cached, require_query
from agentinputlab.contracts._checks import frozen, put, text, whole
from agentinputlab.contracts.enums import EvidenceKind, PatchOp, SemanticFamily
from agentinputlab.contracts.lifecycle import InterventionContext
from agentinputlab.contracts.patch import InputPatch, PatchOperation
from agentinputlab.contracts.state import FrozenAgentState

__all__ = ["REPEATS", "CachedQuery2Doc", "LiveQuery2Doc", "expand_query"]

REPEATS = 5
"""How often the paper repeats the query for sparse retrieval, so that its own words keep their weight."""

_SYSTEM = "You write short reference passages. Reply with the passage only."
_PROMPT = (
    "Write one passage of two to four sentences, as a reference work would, that answers this query. "
    "Use the words a relevant document would use.\n\nQuery: {query}"
)


def expand_query(query: str, passage: str, *, repeats: int = REPEATS) -> str:
    """Give the expanded query: the query ``repeats`` times, then the passage (Wang et al. 2023, equation 1).

    Examples:
        >>> expand_query("capital france", "Paris.", repeats=2)
        'capital france capital france Paris.'
    """
    return " ".join([query] * repeats + [passage])


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedQuery2Doc(InterventionBase):
    """Expands the query with a passage that was generated before.

    Paper: Wang, Yang and Wei, *Query2doc: Query Expansion with Large Language Models*, EMNLP 2023. Needs no model.
    Changes the query only.

    Attributes:
        cache: passage by exact query.
        repeats: how often the query stands before the passage.
    """

    method_id: ClassVar[str] = "rewrite.query2doc"
    release_id: ClassVar[str] = "rewrite.query2doc.official_cached"
    family: ClassVar[SemanticFamily] = SemanticFamily.REFORMULATE

    cache: Mapping[str, str] = field(default_factory=dict[str, str])
    repeats: int = REPEATS

    def __post_init__(self) -> None:
        whole(self.repeats, "repeats", minimum=1)
        cache = frozen(self.cache, "cache")
        for passage in cache.values():
            text(passage, "every passage of cache")
        put(self, cache=cache)

    def propose(self, state: FrozenAgentState, context: InterventionContext) -> InputPatch:
        """Give the patch that replaces the query by its expansion.

        Raises:
            ValidationError: the state has no query.
            ArtifactError: the cache has no passage for it.
        """
        run = MethodRun(self, state, context)
        query = require_query(self, state)
        passage: str = cached(self, self.cache, query, "passage")
        run.decide("expand", source="cache", passage_characters=len(passage), repeats=self.repeats)
        return _expansion(run, passage, self.repeats)


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveQuery2Doc(InterventionBase):
    """Expands the query with a passage that a language model writes now.

    Paper: as `CachedQuery2Doc`. Needs a language model; one call. Changes the query only.

    Attributes:
        repeats: how often the query stands before the passage.
        max_tokens: longest passage.
    """

    method_id: ClassVar[str] = "rewrite.query2doc"
    release_id: ClassVar[str] = "rewrite.query2doc.querygym_live"
    family: ClassVar[SemanticFamily] = SemanticFamily.REFORMULATE
    prompts: ClassVar[tuple[str, ...]] = (_SYSTEM, _PROMPT)

    repeats: int = REPEATS
    max_tokens: int = 256

    def __post_init__(self) -> None:
        whole(self.repeats, "repeats", minimum=1)
        whole(self.max_tokens, "max_tokens", minimum=1)

    def propose(self, state: FrozenAgentState, context: InterventionContext) -> InputPatch:
        """Give the patch that replaces the query by its expansion.

        Raises:
            ValidationError: the state has no query.
            ExternalDependencyError: the context has no language model.
            BudgetExceededError: the budget has no call or token left.
            AlgorithmOutputError: the model gave no passage.
        """
        run = MethodRun(self, state, context)
        query = require_query(self, state)
        reply = run.ask("passage", _PROMPT.format(query=query), system=_SYSTEM, max_tokens=self.max_tokens)
        passage = " ".join(reply.text().split())
        run.decide("expand", source="model", passage_characters=len(passage), repeats=self.repeats)
        return _expansion(run, passage, self.repeats)


def _expansion(run: MethodRun, passage: str, repeats: int) -> InputPatch:
    return run.patch(
        PatchOperation(
            PatchOp.REPLACE_QUERY,
            expand_query(run.state.query, passage, repeats=repeats),
            rationale="query repeated, then a passage that could answer it",
        ),
        metadata={"evidence_kind": EvidenceKind.SYNTHETIC_QUERY_SURROGATE},
    )
