"""Which selectors exist, which have an artifact here, and reading one whose bytes are the pinned ones."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any

from agentinputlab.contracts._checks import Record
from agentinputlab.contracts.errors import ArtifactError, RegistryError
from agentinputlab.contracts.serialization import to_jsonable
from agentinputlab.selectors.features import FEATURES_ID
from agentinputlab.selectors.rules import RuleSelector
from ripieno.canonical import strict_loads
from ripieno.errors import RipienoError
from ripieno.files import open_regular

__all__ = ["SelectorCard", "get_selector", "inspect_selector", "list_selectors", "load_selector"]

MAX_BYTES = 2**20
"""Longest artifact that is read."""
_DATA = Path(__file__).parent / "data"
_NEEDS_SCORES = "Learns from scored pairs of many tasks, which come from experiments of your own; none is shipped."


@dataclass(frozen=True, slots=True)
class SelectorCard(Record):
    """What is known about a selector.

    Attributes:
        selector_id: its name.
        kind: how it chooses.
        description: in one sentence.
        available: whether an artifact of it is here.
        blocker: why not; empty when it is.
        features_id: the measures it looks at.
        artifact: file name of its artifact, or None.
    """

    selector_id: str
    kind: str
    description: str
    available: bool
    blocker: str = ""
    features_id: str = FEATURES_ID
    artifact: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """Give the card as JSON values."""
        return to_jsonable(self)


_CARDS = (
    SelectorCard(
        "rules.visible_state",
        "rules",
        "Compares measures of the visible state with thresholds; the first rule that holds decides.",
        available=True,
        artifact="rules.visible_state.json",
    ),
    *(
        SelectorCard(f"learned.{kind}", kind, text, available=False, blocker=_NEEDS_SCORES)
        for kind, text in (
            ("ridge", "Predicts each release's gain by ridge regression and takes the largest."),
            ("logistic", "Predicts by logistic regression whether a release helps."),
            ("gbdt", "Predicts each release's gain by boosted trees."),
            ("knn", "Takes what helped most on the nearest states."),
            ("guardrail", "Keeps a learned choice only when its harm is bounded; otherwise leaves the input alone."),
        )
    ),
)


def list_selectors() -> tuple[SelectorCard, ...]:
    """Give the card of every selector."""
    return _CARDS


def get_selector(selector_id: str) -> SelectorCard:
    """Give the card of one selector.

    Raises:
        RegistryError: there is none; the text names near matches.
    """
    cards = {card.selector_id: card for card in _CARDS}
    if selector_id not in cards:
        near = get_close_matches(selector_id, cards, n=3)
        hint = f"did you mean {', '.join(near)}?" if near else f"there are {', '.join(cards)}"
        raise RegistryError(f"unknown selector ID: {selector_id}; {hint}")
    return cards[selector_id]


@cache
def load_selector(selector_id: str = "rules.visible_state") -> RuleSelector:
    """Give a shipped selector, ready to choose.

    Raises:
        RegistryError: there is no such selector.
        ArtifactError: it has no artifact here.
    """
    return RuleSelector.from_dict(_read(get_selector(selector_id))[0])


def inspect_selector(selector_id: str, *, revision: str | None = None, sha256: str | None = None) -> dict[str, Any]:
    """Give a selector's card with its artifact, the revision and the SHA-256 of its bytes.

    Args:
        selector_id: its name.
        revision: the revision it must have.
        sha256: the hash its bytes must have.

    Raises:
        RegistryError: there is no such selector.
        ArtifactError: it has no artifact here, or another revision or other bytes.
    """
    card = get_selector(selector_id)
    value, found = _read(card)
    selector = RuleSelector.from_dict(value)
    for name, wanted, actual in (("revision", revision, selector.revision), ("sha256", sha256, found)):
        if wanted is not None and wanted != actual:
            raise ArtifactError(f"{name} of {selector_id} must be {wanted:.80}, it is {actual}")
    return {"card": card.as_dict(), "revision": selector.revision, "sha256": found, "artifact": selector.as_dict()}


def _read(card: SelectorCard) -> tuple[Any, str]:
    if card.artifact is None:
        raise ArtifactError(f"{card.selector_id} has no artifact here: {card.blocker}")
    try:
        with open_regular(_DATA / card.artifact) as stream:
            data = stream.read(MAX_BYTES + 1)
        return strict_loads(data, max_bytes=MAX_BYTES), hashlib.sha256(data).hexdigest()
    except (OSError, RipienoError) as error:
        raise ArtifactError(f"cannot read the artifact of {card.selector_id}: {error}") from error
