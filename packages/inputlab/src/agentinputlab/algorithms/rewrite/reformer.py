"""ReFormeR: choose a way to reformulate from a small library, then apply it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from agentinputlab.algorithms._shared import InterventionBase, MethodRun, require_query
from agentinputlab.contracts._checks import frozen, put, text, whole
from agentinputlab.contracts.enums import PatchOp, SemanticFamily
from agentinputlab.contracts.errors import ValidationError
from agentinputlab.contracts.lifecycle import InterventionContext
from agentinputlab.contracts.patch import InputPatch, PatchOperation
from agentinputlab.contracts.state import FrozenAgentState

__all__ = ["PATTERNS", "PatternReformulation"]

PATTERNS: Mapping[str, str] = {
    "name_the_entity": "Replace descriptions by the proper names of the people, places or things they describe.",
    "spell_out": "Write out abbreviations and technical short forms next to their short form.",
    "add_facets": "Add the two or three aspects that a good answer would have to treat.",
    "state_the_need": "Say explicitly what kind of answer is wanted: a cause, a number, a procedure, a comparison.",
    "narrow_the_domain": "Add the field of knowledge in which the words have the meaning intended here.",
    "drop_the_noise": "Keep the words that carry meaning and leave out politeness, repetition and side remarks.",
}
"""Ways to reformulate a query, our own wording, by name."""

_SYSTEM = "You improve search queries. Reply in exactly the form asked for."
_CHOOSE_PROMPT = (
    "Which one of these ways to reformulate would help this query most?\n\n{library}\n\nQuery: {query}\n\n"
    'Reply with a JSON object {{"pattern": "<name>"}}.'
)
_APPLY_PROMPT = (
    "Reformulate the query in this way and in no other: {pattern}\nKeep its meaning. Reply with the reformulated query "
    "only, on one line.\n\nQuery: {query}"
)


def _packaged_patterns() -> Mapping[str, str]:
    return PATTERNS


@dataclass(frozen=True, slots=True, kw_only=True)
class PatternReformulation(InterventionBase):
    """Appends to the query a reformulation by one pattern that the model chose from a library.

    The idea of ReFormeR, explicit patterns of reformulation in a library, with a library of our own instead of a
    learned one. Needs a language model: two calls, one to choose and one to apply. Changes the query only; original
    and reformulation stand together, so that no word of the user is lost.

    Attributes:
        patterns: instruction by name of the pattern.
        max_tokens: longest reply.
    """

    method_id: ClassVar[str] = "rewrite.reformer"
    release_id: ClassVar[str] = "rewrite.reformer.pattern_concat"
    family: ClassVar[SemanticFamily] = SemanticFamily.REFORMULATE
    prompts: ClassVar[tuple[str, ...]] = (_SYSTEM, _CHOOSE_PROMPT, _APPLY_PROMPT)

    patterns: Mapping[str, str] = field(default_factory=_packaged_patterns)
    max_tokens: int = 128

    def __post_init__(self) -> None:
        whole(self.max_tokens, "max_tokens", minimum=1)
        patterns = frozen(self.patterns, "patterns")
        if not patterns:
            raise ValidationError("patterns must not be empty: the model chooses one of them")
        for name, pattern in patterns.items():
            text(pattern, f"patterns[{name!r}]")
        put(self, patterns=patterns)

    def propose(self, state: FrozenAgentState, context: InterventionContext) -> InputPatch:
        """Give the patch that appends the reformulation to the query.

        Raises:
            ValidationError: the state has no query.
            ExternalDependencyError: the context has no language model.
            BudgetExceededError: the budget has no call or token left.
            AlgorithmOutputError: the model chose no pattern of the library, or gave no one-line reformulation.
        """
        run = MethodRun(self, state, context)
        query = require_query(self, state)
        library = "\n".join(f"- {name}: {pattern}" for name, pattern in self.patterns.items())
        prompt = _CHOOSE_PROMPT.format(library=library, query=query)
        answer = run.ask("choose", prompt, system=_SYSTEM, max_tokens=self.max_tokens).json_object().only("pattern")
        chosen = answer.choice("pattern", tuple(self.patterns))
        run.decide("pattern", name=chosen)
        prompt = _APPLY_PROMPT.format(pattern=self.patterns[chosen], query=query)
        reformulation = run.ask("apply", prompt, system=_SYSTEM, max_tokens=self.max_tokens).line()
        return run.patch(
            PatchOperation(PatchOp.APPEND_QUERY, reformulation, rationale=f"reformulated by pattern {chosen}"),
            metadata={"pattern": chosen},
        )
