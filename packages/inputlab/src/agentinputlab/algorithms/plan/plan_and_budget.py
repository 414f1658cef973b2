"""Plan-and-Budget: split the task, and tell the agent about how many tokens each part deserves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

from agentinputlab.algorithms._shared import InterventionBase, MethodRun, cached, require_query, state_text
from agentinputlab.algorithms.plan._soft_budget import SCHEDULES, divide_tokens
from agentinputlab.algorithms.plan.plan_and_solve import PLAN_HEADING
from agentinputlab.contracts._checks import entries, exact_fields, finite, frozen, put, text, whole
from agentinputlab.contracts.enums import PatchOp, SemanticFamily
from agentinputlab.contracts.errors import BudgetExceededError, ValidationError
from agentinputlab.contracts.lifecycle import InterventionContext
from agentinputlab.contracts.patch import InputPatch, PatchOperation
from agentinputlab.contracts.state import ContextBlock, FrozenAgentState

__all__ = ["CachedSoftBudget", "LiveSoftBudget", "PlannedPart"]

_STEP = "{number}. {text} (about {tokens} tokens)"
_REMINDER = "These token counts are a guide, not a limit: spend no more thought on a part than it deserves."
_SYSTEM = "You plan work and judge how hard its parts are. Reply in exactly the form asked for."
_PROMPT = (
    "Split the request below into at most {max_parts} parts, in the order in which they have to be done, and say for "
    "each how hard it is, from 1 (obvious) to 10 (very hard).\n\n{state}\n\n"
    'Reply with a JSON object {{"parts": [{{"text": "...", "difficulty": 3}}]}}.'
)


class PlannedPart(NamedTuple):
    """One part of a task.

    Attributes:
        text: what is to be done.
        difficulty: how hard it is, positive.
    """

    text: str
    difficulty: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedSoftBudget(InterventionBase):
    """Adds a plan that was made before, with a token count beside each part.

    Paper: Lin et al., *Plan and Budget: Effective and Efficient Test-Time Scaling on Large Language Model Reasoning*,
    2025. Needs no model. Changes the context only. The budget is soft: the agent is told, nothing is cut off.

    Attributes:
        plans: by exact query, a list of ``{"text": ..., "difficulty": ...}``.
        total_tokens: what is divided; None takes the output tokens of the state's budget.
        schedule: how early parts are favoured: uniform, linear, polynomial, exponential or cosine.
    """

    method_id: ClassVar[str] = "plan.plan_and_budget"
    release_id: ClassVar[str] = "plan.plan_and_budget.native_cached_soft_budget"
    family: ClassVar[SemanticFamily] = SemanticFamily.DECOMPOSE
    prompts: ClassVar[tuple[str, ...]] = (PLAN_HEADING, _STEP, _REMINDER)

    plans: Mapping[str, Any] = field(default_factory=dict[str, Any])
    total_tokens: int | None = None
    schedule: str = "polynomial"

    def __post_init__(self) -> None:
        _check_division(self.total_tokens, self.schedule)
        plans = frozen(self.plans, "plans")
        for plan in plans.values():
            _read_plan(plan)
        put(self, plans=plans)

    def propose(self, state: FrozenAgentState, context: InterventionContext) -> InputPatch:
        """Give the patch that adds the plan with its token counts.

        Raises:
            ValidationError: the state has no query.
            ArtifactError: there is no plan for it.
            BudgetExceededError: there are fewer tokens than parts.
        """
        run = MethodRun(self, state, context)
        parts = _read_plan(cached(self, self.plans, require_query(self, state), "plan"))
        return _budgeted_plan(run, parts, self.total_tokens, self.schedule)


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveSoftBudget(InterventionBase):
    """Lets a model split the task and judge its parts, and adds the plan with a token count beside each part.

    Paper: as `CachedSoftBudget`. Needs a language model; one call. Changes the context only.

    Attributes:
        max_parts: most parts.
        total_tokens: what is divided; None takes the output tokens of the state's budget.
        schedule: how early parts are favoured: uniform, linear, polynomial, exponential or cosine.
        max_tokens: longest reply.
    """

    method_id: ClassVar[str] = "plan.plan_and_budget"
    release_id: ClassVar[str] = "plan.plan_and_budget.live_soft_budget"
    family: ClassVar[SemanticFamily] = SemanticFamily.DECOMPOSE
    prompts: ClassVar[tuple[str, ...]] = (PLAN_HEADING, _STEP, _REMINDER, _SYSTEM, _PROMPT)

    max_parts: int = 5
    total_tokens: int | None = None
    schedule: str = "polynomial"
    max_tokens: int = 384

    def __post_init__(self) -> None:
        whole(self.max_parts, "max_parts", minimum=1)
        whole(self.max_tokens, "max_tokens", minimum=1)
        _check_division(self.total_tokens, self.schedule)

    def propose(self, state: FrozenAgentState, context: InterventionContext) -> InputPatch:
        """Give the patch that adds the plan with its token counts.

        Raises:
            ExternalDependencyError: the context has no language model.
            BudgetExceededError: the budget has no call or token left, or there are fewer tokens than parts.
            AlgorithmOutputError: the reply is not the list of parts asked for.
        """
        run = MethodRun(self, state, context)
        prompt = _PROMPT.format(max_parts=self.max_parts, state=state_text(state))
        reply = run.ask("split", prompt, system=_SYSTEM, max_tokens=self.max_tokens).json_object().only("parts")
        parts = tuple(
            PlannedPart(part.text("text", max_characters=1_000), part.number("difficulty", low=1, high=10))
            for part in reply.objects("parts", at_most=self.max_parts)
        )
        return _budgeted_plan(run, parts, self.total_tokens, self.schedule)


def _check_division(total_tokens: int | None, schedule: str) -> None:
    if total_tokens is not None:
        whole(total_tokens, "total_tokens", minimum=1)
    if schedule not in SCHEDULES:
        raise ValidationError(f"schedule must be one of {', '.join(SCHEDULES)}, got {schedule!r:.80}")


def _read_plan(value: object) -> tuple[PlannedPart, ...]:
    rows: tuple[object, ...] = entries(value, "every plan of plans", object)
    if not rows:
        raise ValidationError("every plan of plans must have at least one part")
    parts: list[PlannedPart] = []
    for row in rows:
        names = ("text", "difficulty")
        fields = exact_fields(row, "every part of a plan", allowed=names, required=names)
        difficulty = finite(fields["difficulty"], "difficulty of a part")
        if difficulty <= 0:
            raise ValidationError(f"difficulty of a part must be positive, got {difficulty!r}")
        parts.append(PlannedPart(text(fields["text"], "text of a part"), difficulty))
    return tuple(parts)


def _budgeted_plan(
    run: MethodRun, parts: tuple[PlannedPart, ...], total_tokens: int | None, schedule: str
) -> InputPatch:
    total = run.state.budget.max_output_tokens if total_tokens is None else total_tokens
    if total < len(parts):
        raise BudgetExceededError(
            f"{run.method.release_id}: {total} tokens cannot be divided among {len(parts)} parts of the plan"
        )
    tokens = divide_tokens(total, [part.difficulty for part in parts], schedule=schedule)
    run.decide("divide", schedule=schedule, total_tokens=total, tokens=list(tokens))
    steps = [
        _STEP.format(number=number, text=part.text, tokens=share)
        for number, (part, share) in enumerate(zip(parts, tokens, strict=True), start=1)
    ]
    block = ContextBlock(
        "\n".join([PLAN_HEADING, *steps, _REMINDER]),
        block_id="plan",
        source=run.method.release_id,
        metadata={"tokens": list(tokens)},
    )
    return run.patch(PatchOperation(PatchOp.ADD_CONTEXT, block, rationale="plan with a token guide for each part"))
