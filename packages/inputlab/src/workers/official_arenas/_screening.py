"""What must never be visible to an intervention: privileged fields, and the gold texts of the record itself."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from workers.official_arenas.protocol import OfficialArenaError

__all__ = ["GOLD_TEXT_MIN_LENGTH", "PRIVILEGED_KEYS", "gold_texts", "screen_visible_state"]

GOLD_TEXT_MIN_LENGTH = 12
"""Shorter gold texts (``yes``, an order id) turn up in honest text by accident, so they are not searched for."""

_GOLD_KEYS = frozenset(
    {
        "answer",
        "answers",
        "correct_answer",
        "criteria",
        "criterion",
        "evaluation_criteria",
        "expected_answer",
        "expected_outcome",
        "gold",
        "gold_answer",
        "gold_answers",
        "grader",
        "label",
        "labels",
        "nl_assertions",
        "reference",
        "reference_answer",
        "references",
        "required_document",
        "required_documents",
        "requirement",
        "requirements",
        "simulator_prompt",
    }
)
# Privileged, but what lies below them is data that the user may rightly mention (an email, an order).
_DATA_KEYS = frozenset(
    {
        "database",
        "evaluator",
        "expected_actions",
        "gold_action",
        "gold_actions",
        "gold_documents",
        "reward",
        "reward_basis",
        "rewards",
        "target_action",
        "target_actions",
        "user_scenario",
    }
)
PRIVILEGED_KEYS = _GOLD_KEYS | _DATA_KEYS
"""Names, in snake case, that no key of a visible state may have; any name that starts with ``gold`` is one too."""

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_SEPARATOR = re.compile(r"[^a-z0-9]+")


def _snake_case(key: str) -> str:
    return _SEPARATOR.sub("_", _CAMEL.sub("_", key).casefold()).strip("_")


def _is_privileged(key: str) -> bool:
    name = _snake_case(key)
    return name in PRIVILEGED_KEYS or name.startswith("gold_")


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in cast("Mapping[str, object]", value).values():
            yield from _texts(item)
    elif isinstance(value, list | tuple):
        for item in cast("Sequence[object]", value):
            yield from _texts(item)


def gold_texts(protected: object) -> frozenset[str]:
    """Give the gold texts of a record: those below a gold field, long enough to be no accident."""
    found: set[str] = set()
    if isinstance(protected, Mapping):
        for key, item in cast("Mapping[str, object]", protected).items():
            name = _snake_case(key)
            if name in _GOLD_KEYS or (name.startswith("gold_") and name not in _DATA_KEYS):
                found.update(text.strip() for text in _texts(item) if len(text.strip()) >= GOLD_TEXT_MIN_LENGTH)
            else:
                found |= gold_texts(item)
    elif isinstance(protected, list | tuple):
        for item in cast("Sequence[object]", protected):
            found |= gold_texts(item)
    return frozenset(found)


def screen_visible_state(visible_state: Mapping[str, Any], *, gold: frozenset[str] = frozenset()) -> None:
    """Check that a visible state has no privileged key at any depth, and none of the gold texts in a value.

    Raises:
        OfficialArenaError: it has; the message names the key and never a text.
    """
    _refuse_privileged_keys(visible_state)
    if not gold:
        return
    folded = [text.casefold() for text in gold]
    for text in _texts(visible_state):
        seen = text.casefold()
        if any(secret in seen for secret in folded):
            raise OfficialArenaError("Visible state holds a gold text of its record")


def _refuse_privileged_keys(value: object) -> None:
    if isinstance(value, Mapping):
        for key, item in cast("Mapping[str, object]", value).items():
            if _is_privileged(key):
                raise OfficialArenaError(f"Visible state has the privileged key {_snake_case(key)!r}")
            _refuse_privileged_keys(item)
    elif isinstance(value, list | tuple):
        for item in cast("Sequence[object]", value):
            _refuse_privileged_keys(item)
