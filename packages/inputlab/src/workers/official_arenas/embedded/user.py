"""``scripted-user.v1``: a customer with a goal who tells what is asked, agrees to what fits, and then hangs up.

The answer is a function of the script and of what was said so far. Nothing of the script is said before the agent
asks for it, and whatever an agent says, the customer answers with something sensible and stops after `MAX_TURNS`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from workers.official_arenas.embedded.task_model import UserScript

__all__ = ["MAX_TURNS", "STOP_TOKENS", "USER_ID", "reply"]

USER_ID = "scripted-user.v1"
MAX_TURNS = 12
"""Most messages of one customer."""
STOP, TRANSFER, OUT_OF_SCOPE = "###STOP###", "###TRANSFER###", "###OUT-OF-SCOPE###"
STOP_TOKENS = (STOP, TRANSFER, OUT_OF_SCOPE)
"""A customer's text with one of these ends the conversation."""

_PATIENCE = 3
"""How often a customer explains that something was not understood."""


def _words(*alternatives: str) -> re.Pattern[str]:
    return re.compile("|".join(alternatives), re.IGNORECASE)


_TRANSFERRED = _words(
    r"\btransferr?ed\b", r"\btransferring you\b", r"\bhold on\b.*\bhuman\b", r"\bhuman\b.*\b(?:take over|assist you)\b"
)
_PROPOSES = _words(
    r"\bconfirm\b",
    r"\bproceed\b",
    r"\bgo ahead\b",
    r"\byes\s*/\s*no\b",
    r"\byes or no\b",
    r"\b(?:shall|should|may) I\b",
    r"\b(?:would|do) you (?:like|want) me to\b",
    r"\b(?:is|are) (?:this|that|these|those)(?: details?)? (?:right|correct|ok)",
)
_REFUSES = _words(
    r"\b(?:cannot|can't|can not|unable to|not able to|not possible|not allowed|not permitted|do not have permission)\b",
    r"\bagainst (?:our|the) policy\b",
)
_CLOSES = _words(
    r"\banything else\b",
    r"\bgood ?bye\b",
    r"\bhave a (?:nice|great|good|wonderful)\b",
    r"\b(?:has|have) been (?:successfully )?(?:cancell?ed|returned|exchanged|changed|modified|updated)\b",
    r"\b(?:has|have) been (?:successfully )?(?:processed|completed)\b",
    r"\b(?:all set|all done|successfully|completed)\b",
)
_ASKS = _words(
    r"\?",
    r"\bplease\b",
    r"\bcould you\b",
    r"\bcan you\b",
    r"\bI need\b",
    r"\bI(?:'ll| will) need\b",
    r"\bprovide\b",
    r"\btell me\b",
    r"\blet me know\b",
    r"\bwhat is\b",
)
# Order matters: answers are given in this order.
_SLOTS = {
    "email": _words(r"\be-?mail\b"),
    "name_zip": _words(r"\bzip\b", r"\bpost(?:al)? ?code\b", r"\b(?:full|first|last) name\b", r"\byour name\b"),
    "order_id": _words(
        r"\border (?:number|id)\b", r"\bwhich order\b", r"\border #", r"\bnumber of (?:the|your) order\b"
    ),
    "reason": _words(r"\breason\b", r"\bwhy\b"),
    "address": _words(
        r"\bnew address\b", r"\bfull address\b", r"\bshipping address\b", r"\bwhich address\b", r"\bstreet\b"
    ),
    "payment": _words(
        r"\bpayment method\b", r"\bpay with\b", r"\bcredit card\b", r"\bgift card\b", r"\bpaypal\b", r"\brefund to\b"
    ),
    "option": _words(
        r"\b(?:which|what) (?:\w+ )?(?:options?|variants?|version|replacement|new item)\b",
        r"\bnew (?:colou?r|size|variant)\b",
    ),
    "item": _words(
        r"\bwhich (?:one|item|product|of (?:the|these|them))\b",
        r"\bwhich (?:\w+ ){1,3}(?:do|did|would) you\b",
        r"\bdo you mean\b",
        r"\bspecif(?:y|ic|ically)\b",
        r"\bclarif(?:y|ication)\b",
        r"\bexact(?:ly)?\b",
        r"\bdescribe\b",
        r"\bmore details?\b",
        r"\b(?:colou?r|size|model)\b",
    ),
}


@dataclass(frozen=True, slots=True)
class _Heard:
    """One message of the agent, by what it does."""

    transferred: bool
    proposes: bool
    refuses: bool
    closes: bool
    slots: tuple[str, ...]


def _hear(text: str) -> _Heard:
    asks = _ASKS.search(text) is not None
    return _Heard(
        transferred=_TRANSFERRED.search(text) is not None,
        proposes=_PROPOSES.search(text) is not None,
        refuses=_REFUSES.search(text) is not None,
        closes=_CLOSES.search(text) is not None,
        slots=tuple(name for name, pattern in _SLOTS.items() if pattern.search(text)) if asks else (),
    )


def reply(script: UserScript, turns: Sequence[tuple[str, str]]) -> str:  # noqa: PLR0911 - one line per kind of turn
    """Give the customer's next message.

    Args:
        script: what this customer wants and knows.
        turns: ``(role, text)`` of the conversation so far; roles are ``assistant`` and ``user``.

    Returns:
        A text that is never empty; one with a token of `STOP_TOKENS` ends the conversation.
    """
    own = [text for role, text in turns if role == "user"]
    if not own:
        return script.opening
    if len(own) >= MAX_TURNS - 1:
        return f"I have to go now. {STOP}"
    said = next((text for role, text in reversed(turns) if role == "assistant"), "")
    heard = _hear(said)
    if heard.transferred:
        return TRANSFER
    agreed = any(_fits(approval.require, approval.forbid, said) for approval in script.approvals)
    if heard.proposes and agreed:
        return "Yes, please go ahead."
    if heard.proposes and not heard.slots and not (heard.refuses or heard.closes):
        return _once_more(script.correction, own)
    if heard.closes or (heard.refuses and not heard.slots):
        return f"I see. That is all, thank you. {STOP}"
    answers = [script.answers[name] for name in _asked_slots(heard.slots, script) if name in script.answers]
    if answers:
        return " ".join(dict.fromkeys(answers))
    if heard.slots:
        return _once_more("I am sorry, I do not know that.", own)
    return _once_more(script.correction, own)


def _fits(require: Sequence[str], forbid: Sequence[str], text: str) -> bool:
    return all(re.search(pattern, text, re.IGNORECASE) for pattern in require) and not any(
        re.search(pattern, text, re.IGNORECASE) for pattern in forbid
    )


def _asked_slots(slots: Sequence[str], script: UserScript) -> list[str]:
    """A customer who is asked for one of two ways to be identified gives one; a zip code is part of an address."""
    if "address" in slots:
        return [name for name in slots if name != "name_zip"]
    if {"email", "name_zip"} <= set(slots):
        other = "name_zip" if script.identify_by == "email" else "email"
        return [name for name in slots if name != other]
    return list(slots)


def _once_more(text: str, own: Sequence[str]) -> str:
    """Say something again, but not for ever."""
    if own.count(text) >= _PATIENCE:
        return f"This is not getting anywhere. Goodbye. {STOP}"
    return text
