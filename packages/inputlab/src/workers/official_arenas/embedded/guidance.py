"""What the scripted agent takes from its system message: the policy rules it can see, and how it was asked to work.

Every habit below is switched on by text alone, wherever in the materialized instruction or context it stands. Rules
of the policy are looked up where the agent has its reference text: in the context, and in the instruction only when
there is no context. So a context that was curated until a rule is gone makes the agent forget the rule.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

__all__ = ["Guidance", "read_guidance", "render_system_message"]

_NATIVE = """<instructions>
You are the customer service agent of a retail shop. Help the customer by the policy and the input that you are given.
In each turn either write one message to the customer or call tools, never both.
</instructions>"""
_VISIBLE = re.compile(r"<optimizer_visible_input>\n(.*)\n</optimizer_visible_input>", re.DOTALL)
_INSTRUCTION = re.compile(r"\A<instruction>\n(.*?)\n</instruction>", re.DOTALL)

_PLAN = re.compile(
    r"\b(?:make|write|devise|draw up|work out|follow)\s+(?:a|the|this|your)\s+(?:step-by-step\s+)?plan\b", re.IGNORECASE
)
_SPLIT = re.compile(
    r"\bsub-?(?:question|task|problem|request|goal)s?\b"
    r"|\bsimpler questions\b"
    r"|\b(?:handle|list|answer|settle|cover)\s+(?:all|every|each)\s+(?:the\s+|single\s+)?(?:request|part|thing|wish)",
    re.IGNORECASE,
)
_NUMBERED = re.compile(r"^\s*\d+[.)]\s+\S", re.MULTILINE)
_AVAILABILITY = re.compile(r"\b(?:check|verify|make sure|look up)\b[^.\n]{0,80}\b(?:availab|in stock)", re.IGNORECASE)
_BALANCE = re.compile(r"\b(?:check|verify|compare)\b[^.\n]{0,80}\bbalance", re.IGNORECASE)
_TOGETHER = re.compile(
    r"\ball\b[^.\n]{0,60}\bitems?\b[^.\n]{0,60}\b(?:one|a single|the same)\s+(?:tool\s+)?call\b", re.IGNORECASE
)
_ASK = re.compile(
    r"\bask\b[^.\n]{0,80}\b(?:which|ambiguous|unclear|unsure|more than one|several)\b"
    r"|\b(?:ambiguous|unclear|unsure|more than one|several)\b[^.\n]{0,80}\bask\b",
    re.IGNORECASE,
)

_RULES = {
    "own_orders": re.compile(r"\b(?:another|other)\s+(?:person|customer|user)", re.IGNORECASE),
    "cancel_reason": re.compile(
        r"\bdeny\b[^.\n]{0,80}\breason|\breason\b[^.\n]{0,120}\bordered by mistake", re.IGNORECASE
    ),
    "status": re.compile(r"\bonly\s+(?:a\s+|an\s+)?(?:pending|delivered)\b", re.IGNORECASE),
    "transfer": re.compile(r"\btransfer\b", re.IGNORECASE),
}


@dataclass(frozen=True, slots=True)
class Guidance:
    """Habits and known rules of the agent in one conversation.

    Attributes:
        gathers_all: reads everything that could matter before it acts, all in one step.
        splits: finds several wishes in one sentence; otherwise only the first.
        checks_availability: looks whether a variant can be had before it offers it.
        checks_balance: compares a gift card with the amount before it uses the card.
        merges_items: changes all items of an order in one call.
        asks_which: asks when several items fit what the customer said; otherwise takes the first.
        knows_own_orders: refuses requests about somebody else's order.
        knows_cancel_reason: refuses to cancel for other reasons than the two allowed.
        knows_status: refuses what an order's status does not allow, without trying.
        knows_transfer: hands over what its tools cannot do.
    """

    gathers_all: bool
    splits: bool
    checks_availability: bool
    checks_balance: bool
    merges_items: bool
    asks_which: bool
    knows_own_orders: bool
    knows_cancel_reason: bool
    knows_status: bool
    knows_transfer: bool


def render_system_message(instruction: str, context: tuple[str, ...]) -> str:
    """Give the agent's system message: the native prompt, then what an intervention could have changed."""
    blocks = "".join(f"\n<context>\n{text}\n</context>" for text in context)
    return (
        f"{_NATIVE}\n<optimizer_visible_input>\n<instruction>\n{instruction}\n</instruction>{blocks}\n"
        "</optimizer_visible_input>"
    )


@lru_cache(maxsize=256)
def read_guidance(system_message: str) -> Guidance:
    """Read a system message; one without the visible section counts as instruction as a whole."""
    visible = _VISIBLE.search(system_message)
    text = visible[1] if visible else system_message
    instruction = _INSTRUCTION.search(text)
    context = text[instruction.end() :] if instruction else ""
    rules_text = context if context.strip() else text
    plans = _PLAN.search(text) is not None
    return Guidance(
        gathers_all=plans,
        splits=plans or _SPLIT.search(text) is not None or len(_NUMBERED.findall(context)) > 1,
        checks_availability=plans or _AVAILABILITY.search(text) is not None,
        checks_balance=plans or _BALANCE.search(text) is not None,
        merges_items=plans or _TOGETHER.search(text) is not None,
        asks_which=_ASK.search(text) is not None,
        knows_own_orders=_RULES["own_orders"].search(rules_text) is not None,
        knows_cancel_reason=_RULES["cancel_reason"].search(rules_text) is not None,
        knows_status=_RULES["status"].search(rules_text) is not None,
        knows_transfer=_RULES["transfer"].search(rules_text) is not None,
    )
