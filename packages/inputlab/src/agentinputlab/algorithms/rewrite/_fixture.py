"""The tiny query, passage and documents of `agentinputlab smoke`: everything but a model, in one place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Final

from agentinputlab.algorithms.rewrite.query2doc import CachedQuery2Doc
from agentinputlab.contracts.state import FrozenAgentState

__all__ = ["FIXTURE_DOCUMENTS", "FIXTURE_PROFILE", "FIXTURE_STATE", "FixtureQuery2Doc"]

FIXTURE_STATE: Final = FrozenAgentState(query="capital france", task_id="tiny-q1")
FIXTURE_DOCUMENTS: Final[Mapping[str, str]] = {
    "fr": "Paris is the capital of France.",
    "de": "Berlin is the capital of Germany.",
}
"""Documents by id; the expanded query must find ``fr`` first."""
FIXTURE_PROFILE: Final = "fixture_unverified"
"""What a result of the fixture may be called: it proves that the parts fit together and nothing else."""

_PASSAGE = "Paris, on the river Seine, is the capital and largest city of France."


def _fixture_cache() -> Mapping[str, str]:
    return {FIXTURE_STATE.query: _PASSAGE}


@dataclass(frozen=True, slots=True, kw_only=True)
class FixtureQuery2Doc(CachedQuery2Doc):
    """`CachedQuery2Doc` with the one passage that `FIXTURE_STATE` needs."""

    release_id: ClassVar[str] = "fixture.query2doc.cached"

    cache: Mapping[str, str] = field(default_factory=_fixture_cache)
