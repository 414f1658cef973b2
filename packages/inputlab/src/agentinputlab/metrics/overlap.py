"""How many words two texts share."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

__all__ = ["Overlap", "jaccard", "overlap_of_tokens", "token_overlap", "words"]

_WORD = re.compile(r"\w+")


class Overlap(NamedTuple):
    """Shared tokens of a text and a reference, each in [0, 1].

    Attributes:
        precision: share of the text's tokens that the reference has.
        recall: share of the reference's tokens that the text has.
        f1: harmonic mean of the two.
    """

    precision: float
    recall: float
    f1: float


def words(text: str) -> list[str]:
    r"""Give the case-folded ``\w+`` tokens of a text."""
    return _WORD.findall(text.casefold())


def overlap_of_tokens(tokens: Sequence[str], reference: Sequence[str]) -> Overlap:
    r"""Compare two lists of tokens as multisets.

    With $m$ the size of the multiset intersection: precision $m/|t|$, recall $m/|r|$, F1 $2m/(|t|+|r|)$. Two empty
    lists agree (1), one empty list does not (0).
    """
    if not tokens and not reference:
        return Overlap(1.0, 1.0, 1.0)
    if not tokens or not reference:
        return Overlap(0.0, 0.0, 0.0)
    shared = (Counter(tokens) & Counter(reference)).total()
    return Overlap(shared / len(tokens), shared / len(reference), 2.0 * shared / (len(tokens) + len(reference)))


def token_overlap(text: str, reference: str) -> Overlap:
    """Compare the words of two texts, repeats counted.

    Examples:
        >>> token_overlap("Paris is big", "Paris is the capital").recall
        0.5
    """
    return overlap_of_tokens(words(text), words(reference))


def jaccard(text: str, other: str) -> float:
    """Give the share of distinct words that two texts have in common; 1 when neither has any.

    Examples:
        >>> jaccard("red blue", "blue green")
        0.3333333333333333
    """
    first, second = set(words(text)), set(words(other))
    return len(first & second) / len(first | second) if first | second else 1.0
