"""How the scripted agent understands a customer: wishes in sentences, and details anywhere in what was said."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = [
    "Wish",
    "affirms",
    "find_address",
    "find_cancel_reason",
    "find_email",
    "find_name_and_zip",
    "find_order_ids",
    "find_payment_sources",
    "find_wishes",
    "mentions",
    "split_alternatives",
]

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z#])|\n+")
_TO_END = r"(?:(?!\band\b)[^.!?])*"  # up to the end of a clause
_WISHES = re.compile(
    r"(?P<cancel>\bcancel\b)"
    r"|(?P<return>\breturn\b|\bsend(?:ing)?\b(?:\s+\w+){0,7}?\s+back\b|\bgive back\b)"
    rf"|(?P<user_address>\b(?:change|update|set|correct)\b{_TO_END}\baccount\b{_TO_END}\baddress\b"
    rf"|\b(?:change|update|set|correct)\b{_TO_END}\b(?:default|profile)\s+address\b)"
    rf"|(?P<order_address>\b(?:ship|deliver)\b{_TO_END}\bto\b|\b(?:change|update|set|correct)\b{_TO_END}\baddress\b)"
    rf"|(?P<payment>\bpay\b(?!{_TO_END}\bdifference\b){_TO_END}\bwith\b|\bchange\b{_TO_END}\bpayment\b)"
    r"|(?P<change>\b(?:exchange|swap|replace|change|modify|switch)\b)",
    re.IGNORECASE,
)
_STOCK = re.compile(r"\bhow many\b", re.IGNORECASE)
_TOTAL = re.compile(r"\bhow much\b", re.IGNORECASE)
_HUMAN = re.compile(r"\b(?:human|real person|supervisor|manager)\b|\bcompensation\b", re.IGNORECASE)
_ORDER_ID = re.compile(r"#?\bW\d{7}\b")
_SAME_ORDER = re.compile(r"\b(?:that|the same|this) order\b", re.IGNORECASE)
_EMAIL = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_NAME = re.compile(r"\b(?:name is|name's|I am|I'm|this is)\s+([A-Z][\w'-]+)\s+([A-Z][\w'-]+)", re.IGNORECASE)
_ZIP = re.compile(r"(?<![\d#W])\d{5}(?!\d)")
_ADDRESS = re.compile(r"(?<![\w#])(\d+ [^,.;#]+), ([^,;]+), ([^,;]+), ([A-Z]{2}), ([A-Za-z ]+), (\d{5})\b")
_SOURCES = re.compile(r"\b(gift card|credit card|paypal)\b", re.IGNORECASE)
_FALLBACK = re.compile(
    r",?\s*(?:\bor\b|\botherwise\b)?,?\s*\bif (?:that|this|it)(?: one)? is (?:not available|unavailable|sold out|out "
    r"of stock),?\s*",
    re.IGNORECASE,
)
_NO_LONGER = re.compile(r"\bno longer (?:need|want)|\bnot need(?:ed)? any ?more", re.IGNORECASE)
_MISTAKE = re.compile(r"\bby (?:mistake|accident)\b|\baccidentally\b", re.IGNORECASE)
_OTHER_REASON = re.compile(r"\b(?:because|since|cheaper|reason|changed my mind)\b", re.IGNORECASE)
_YES = re.compile(r"\s*(?:yes|yeah|sure|correct|go ahead|please do|okay|ok)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Wish:
    """One thing that a customer wants.

    Attributes:
        kind: ``cancel``, ``return``, ``change``, ``order_address``, ``user_address``, ``payment``, ``stock``,
            ``total`` or ``human``.
        text: the words it was found in.
        order_id: the order it is about, or None when the words do not say.
    """

    kind: str
    text: str
    order_id: str | None


def find_wishes(text: str, *, splits: bool) -> tuple[Wish, ...]:
    """Give the wishes in what a customer said, in order, repetitions once.

    Args:
        text: what was said.
        splits: find every wish of a sentence; otherwise a sentence gives its first wish only.
    """
    found: dict[tuple[str, str], Wish] = {}
    order_id: str | None = None
    for sentence in _SENTENCE_END.split(text):
        for kind, clause in _clauses(sentence, splits=splits):
            named = find_order_ids(clause)
            order_id = named[0] if named else order_id if _SAME_ORDER.search(clause) else None
            found.setdefault((kind, " ".join(clause.casefold().split())), Wish(kind, clause, order_id))
            order_id = order_id or _last_order(found)
    return tuple(found.values())


def _last_order(found: dict[tuple[str, str], Wish]) -> str | None:
    return next((wish.order_id for wish in reversed(found.values()) if wish.order_id), None)


def _clauses(sentence: str, *, splits: bool) -> list[tuple[str, str]]:
    if _HUMAN.search(sentence):
        return [("human", sentence)]
    if _STOCK.search(sentence):
        return [("stock", sentence)]
    if _TOTAL.search(sentence):
        return [("total", sentence)]
    matches = list(_WISHES.finditer(sentence))
    if not matches:
        return []
    if not splits:
        return [(matches[0].lastgroup or "", sentence)]
    ends = [match.start() for match in matches[1:]] + [len(sentence)]
    return [(match.lastgroup or "", sentence[match.start() : end]) for match, end in zip(matches, ends, strict=True)]


def find_order_ids(text: str) -> list[str]:
    """Give the order ids in a text, with their hash sign."""
    return [f"#{match.lstrip('#')}" for match in _ORDER_ID.findall(text)]


def find_email(text: str) -> str | None:
    """Give the first email address in a text."""
    match = _EMAIL.search(text)
    return match[0] if match else None


def find_name_and_zip(text: str) -> tuple[str, str, str] | None:
    """Give first name, last name and zip code, when a text has all three."""
    name, zip_code = _NAME.search(text), _ZIP.search(text)
    return (name[1], name[2], zip_code[0]) if name and zip_code else None


def find_address(text: str) -> dict[str, str] | None:
    """Give the postal address in a text (``12 Elm Road, Apt 3, Town, OR, USA, 97000``)."""
    match = _ADDRESS.search(text)
    if match is None:
        return None
    names = ("address1", "address2", "city", "state", "country", "zip")
    return {name: value.strip() for name, value in zip(names, match.groups(), strict=True)}


def find_payment_sources(text: str) -> list[str]:
    """Give the kinds of payment method that a text names, in order, each once."""
    return list(dict.fromkeys(match.casefold().replace(" ", "_") for match in _SOURCES.findall(text)))


def find_cancel_reason(texts: Sequence[str]) -> str | None:
    """Give the allowed reason that was said, ``other`` for another one, None when none was said."""
    text = "\n".join(texts)
    if _NO_LONGER.search(text):
        return "no longer needed"
    if _MISTAKE.search(text):
        return "ordered by mistake"
    return "other" if _OTHER_REASON.search(text) else None


def split_alternatives(text: str) -> list[str]:
    """Give what is wanted and, after words like "if that is not available", what is wanted instead."""
    return [part for part in _FALLBACK.split(text) if part.strip()]


def mentions(text: str, phrase: str) -> bool:
    """Tell whether a text holds a phrase as whole words, whatever its case."""
    return re.search(rf"(?<![\w.]){re.escape(phrase)}s?(?!\w)", text, re.IGNORECASE) is not None


def affirms(text: str) -> bool:
    """Tell whether an answer starts with a yes."""
    return _YES.match(text) is not None
