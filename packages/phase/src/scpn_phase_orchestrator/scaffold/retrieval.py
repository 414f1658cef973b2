"""Which pack speaks about what somebody wrote: words, weighted by how rare they are.

Packs are ranked by BM25 (Robertson and Zaragoza, The Probabilistic Relevance Framework, 2009) with ``k1 = 1.2`` and
``b = 0.75`` over their name and README; words of the name count `NAME_WEIGHT` times. The *confidence* is another
number, because a rank always has a first place: the share of the information in the sentence that the best pack knows,
``sum idf(known words) / sum idf(all words)``, with a word that no pack knows as rare as one that occurs in one pack.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from scpn_phase_orchestrator.scaffold.catalogue import Pack

__all__ = ["CONFIDENCE_DEFINITION", "Match", "Retrieval", "retrieve", "words_of"]

CONFIDENCE_DEFINITION = (
    "share of the idf-weighted words of the intent that occur in name or README of the best pack, 0 to 1"
)
NAME_WEIGHT = 4
K1, B = 1.2, 0.75
HIGH, LOW = 0.6, 0.35
MAX_MATCHES = 3

_WORD = re.compile(r"[a-z]{3,}")
_COMMON = frozenset(
    _WORD.findall(
        """and are but can for from has have her his how into its may not one our out should shall some such than that
        the their them then there these they this those too two use was were what when where which while who will with
        would you your want wants need needs make keep kept like about between many each other all any during after
        must never without because
        apart together layer layers oscillator oscillators phase phases coupling supervisor spo run compare seeds steps
        model models"""
    )
)
"""Words that say nothing about a subject; the last two lines stand in every README."""


@dataclass(frozen=True)
class Match:
    """A pack, its score, and the words that it shares with the sentence."""

    pack: str
    score: float
    words: tuple[str, ...]


@dataclass(frozen=True)
class Retrieval:
    """What was found.

    Attributes:
        matches: packs with a score above 0, best first, at most `MAX_MATCHES`.
        confidence: of the first one, 0 to 1; 0 without a match.
        unknown_words: words of the sentence that the best pack does not know.
    """

    matches: tuple[Match, ...]
    confidence: float
    unknown_words: tuple[str, ...]

    @property
    def in_words(self) -> str:
        """What the confidence means."""
        if not self.matches:
            return "none: no pack knows a word of it, and the structure is only an example"
        best, unknown = self.matches[0].pack, ", ".join(self.unknown_words)
        if self.confidence >= HIGH:
            return (
                f"high: {best} speaks about most of it, not about {unknown}"
                if unknown
                else f"high: {best} speaks about all of it"
            )
        if self.confidence >= LOW:
            return f"middling: {best} speaks about part of it, not about {unknown}"
        return f"low: {best} is the nearest pack, but knows nothing of {unknown}; take its structure as a guess"


def words_of(text: str) -> list[str]:
    """Give the words of a text that can tell subjects apart, in lower case, without endings (s, ies, ing).

    Examples:
        >>> words_of("Keep the grids of two hunting batteries apart")
        ['grid', 'hunt', 'battery']
    """
    found = _WORD.findall(text.lower().replace("_", " "))
    return [_stem(word) for word in found if word not in _COMMON]


def _stem(word: str) -> str:
    if word.endswith("ies") and len(word) > 4:
        return f"{word[:-3]}y"
    if word.endswith("ing") and len(word) > 5:
        return word[:-3]
    return word[:-1] if word.endswith("s") and not word.endswith(("ss", "us", "is")) and len(word) > 3 else word


def retrieve(sentence: str, packs: Sequence[Pack]) -> Retrieval:
    """Rank packs by what they say about the words of a sentence.

    Raises:
        ValueError: no pack.
    """
    if not packs:
        raise ValueError("there is no pack to compare with")
    documents = [Counter(words_of(pack.name) * NAME_WEIGHT + words_of(pack.readme)) for pack in packs]
    wanted = list(dict.fromkeys(words_of(sentence)))
    count = len(documents)
    occurs = {word: sum(word in document for document in documents) for word in wanted}
    rarity = {word: math.log1p((count - max(1, n) + 0.5) / (max(1, n) + 0.5)) for word, n in occurs.items()}
    mean_length = sum(document.total() for document in documents) / count
    matches: list[Match] = []
    for pack, document in zip(packs, documents, strict=True):
        shared = tuple(word for word in wanted if word in document)
        length = K1 * (1.0 - B + B * document.total() / mean_length) if mean_length else K1
        score = sum(rarity[word] * document[word] * (K1 + 1.0) / (document[word] + length) for word in shared)
        if shared:
            matches.append(Match(pack.name, round(score, 4), shared))
    matches.sort(key=lambda match: (-match.score, match.pack))
    known = set(matches[0].words) if matches else set[str]()
    total = sum(rarity.values())
    confidence = sum(rarity[word] for word in known) / total if total > 0.0 else 0.0
    unknown = tuple(word for word in wanted if word not in known)
    return Retrieval(tuple(matches[:MAX_MATCHES]), round(confidence, 4), unknown)
