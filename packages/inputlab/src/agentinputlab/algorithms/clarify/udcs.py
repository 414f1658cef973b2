"""Uncertainty, split by what would resolve it: ask the user, look something up, or go ahead."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from agentinputlab.algorithms._shared import InterventionBase, MethodRun, cached, state_text
from agentinputlab.contracts._checks import exact_fields, finite, frozen, put, text, whole
from agentinputlab.contracts.enums import PatchOp, SemanticFamily, StrEnum
from agentinputlab.contracts.errors import AlgorithmOutputError, ValidationError
from agentinputlab.contracts.lifecycle import InterventionContext
from agentinputlab.contracts.patch import InputPatch, PatchOperation
from agentinputlab.contracts.state import FrozenAgentState

__all__ = [
    "LOOK_UP_INSTRUCTION",
    "PromptedUncertaintyRoute",
    "Route",
    "ScoredUncertaintyRoute",
    "Uncertainty",
    "choose_route",
]

LOOK_UP_INSTRUCTION = (
    "The request is clear, but facts needed to carry it out are uncertain. Look them up with the tools you have before "
    "you rely on them; do not ask the user for what you can find out yourself."
)
"""What is appended when facts, not wishes, are uncertain."""

_SYSTEM = "You judge how uncertain a task is before an assistant starts on it. Reply with one JSON object only."
_PROMPT = (
    "Judge the task below by two separate scores from 0 (certain) to 1 (a guess).\n"
    '- "request_uncertainty": how unsure it is what the user wants. Only the user could resolve it.\n'
    '- "action_uncertainty": how unsure the facts and steps are that carrying it out needs. Looking them up would '
    "resolve it.\n"
    'Give as "question" the one question to the user that would resolve most of the first kind, or "" if there is '
    "none.\n\n"
    "Tools of the assistant: {tools}\n\n{state}\n\n"
    'Reply: {{"request_uncertainty": <0..1>, "action_uncertainty": <0..1>, "question": "<text>"}}'
)
_SCORES = ("request_uncertainty", "action_uncertainty", "question")


class Route(StrEnum):
    """What to do about the uncertainty of a task."""

    ASK = "ask"
    LOOK_UP = "look_up"
    PROCEED = "proceed"


@dataclass(frozen=True, slots=True)
class Uncertainty:
    """How unsure a task is, by what would resolve it.

    Attributes:
        request_uncertainty: about what is wanted, 0 to 1; the user could resolve it.
        action_uncertainty: about facts and steps, 0 to 1; looking up could resolve it.
        question: what to ask the user; may be empty.
    """

    request_uncertainty: float
    action_uncertainty: float
    question: str = ""

    def __post_init__(self) -> None:
        for name in ("request_uncertainty", "action_uncertainty"):
            _share(getattr(self, name), name)
        text(self.question, "question", blank=True)


def choose_route(uncertainty: Uncertainty, *, ask_threshold: float, look_up_threshold: float) -> Route:
    """Give the route: ask when the request itself is too uncertain, else look up when facts are, else proceed.

    The question comes first because facts about the wrong request are worth nothing. A threshold is reached by a score
    that equals it.
    """
    if uncertainty.request_uncertainty >= ask_threshold:
        return Route.ASK
    if uncertainty.action_uncertainty >= look_up_threshold:
        return Route.LOOK_UP
    return Route.PROCEED


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptedUncertaintyRoute(InterventionBase):
    """Asks back, has facts looked up, or changes nothing, by two uncertainty scores that a model gives.

    Needs a language model: one call. The model gives the scores, `choose_route` decides; so one threshold means the
    same for every task.

    Attributes:
        ask_threshold: request uncertainty from which the user is asked, 0 to 1.
        look_up_threshold: action uncertainty from which the agent is told to look facts up, 0 to 1.
        max_tokens: longest reply.
    """

    method_id: ClassVar[str] = "clarify.udcs"
    release_id: ClassVar[str] = "clarify.udcs.repo_native_prompt_route"
    family: ClassVar[SemanticFamily] = SemanticFamily.CLARIFY
    prompts: ClassVar[tuple[str, ...]] = (_SYSTEM, _PROMPT, LOOK_UP_INSTRUCTION)

    ask_threshold: float = 0.5
    look_up_threshold: float = 0.5
    max_tokens: int = 256

    def __post_init__(self) -> None:
        _share(self.ask_threshold, "ask_threshold")
        _share(self.look_up_threshold, "look_up_threshold")
        whole(self.max_tokens, "max_tokens", minimum=1)

    def propose(self, state: FrozenAgentState, context: InterventionContext) -> InputPatch:
        """Give the patch of the route that the scores lead to.

        Raises:
            ExternalDependencyError: the context has no language model.
            BudgetExceededError: the budget has no call or token left.
            AlgorithmOutputError: the reply does not hold the two scores, or none of the questions to ask.
        """
        run = MethodRun(self, state, context)
        prompt = _PROMPT.format(tools=", ".join(state.tool_names) or "none", state=state_text(state))
        answer = run.ask("scores", prompt, system=_SYSTEM, max_tokens=self.max_tokens).json_object().only(*_SCORES)
        uncertainty = Uncertainty(
            request_uncertainty=answer.number("request_uncertainty", low=0, high=1),
            action_uncertainty=answer.number("action_uncertainty", low=0, high=1),
            question=answer.text("question", may_be_empty=True),
        )
        return _routed(run, uncertainty, ask_threshold=self.ask_threshold, look_up_threshold=self.look_up_threshold)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredUncertaintyRoute(InterventionBase):
    """Asks back, has facts looked up, or changes nothing, by uncertainty scores that were given before.

    Needs no model. Scores are found by task id.

    Attributes:
        scores: by task id, a mapping with ``request_uncertainty``, ``action_uncertainty`` and optionally ``question``.
        ask_threshold: request uncertainty from which the user is asked, 0 to 1.
        look_up_threshold: action uncertainty from which the agent is told to look facts up, 0 to 1.
    """

    method_id: ClassVar[str] = "clarify.udcs"
    release_id: ClassVar[str] = "clarify.udcs.score_route"
    family: ClassVar[SemanticFamily] = SemanticFamily.CLARIFY
    prompts: ClassVar[tuple[str, ...]] = (LOOK_UP_INSTRUCTION,)

    scores: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    ask_threshold: float = 0.5
    look_up_threshold: float = 0.5

    def __post_init__(self) -> None:
        _share(self.ask_threshold, "ask_threshold")
        _share(self.look_up_threshold, "look_up_threshold")
        scores = frozen(self.scores, "scores")
        for entry in scores.values():
            _read_scores(entry)
        put(self, scores=scores)

    def propose(self, state: FrozenAgentState, context: InterventionContext) -> InputPatch:
        """Give the patch of the route that the scores of the task lead to.

        Raises:
            ValidationError: the state has no task id.
            ArtifactError: there are no scores for the task.
            AlgorithmOutputError: the route is to ask, and the scores come without a question.
        """
        run = MethodRun(self, state, context)
        if not state.task_id.strip():
            raise ValidationError(f"{self.release_id} finds scores by task id, which is blank in the state")
        uncertainty = _read_scores(cached(self, self.scores, state.task_id, "uncertainty scores"))
        return _routed(run, uncertainty, ask_threshold=self.ask_threshold, look_up_threshold=self.look_up_threshold)


def _read_scores(entry: object) -> Uncertainty:
    return Uncertainty(**exact_fields(entry, "every entry of scores", allowed=_SCORES, required=_SCORES[:2]))


def _share(value: object, name: str) -> float:
    share = finite(value, name, minimum=0)
    if share > 1:
        raise ValidationError(f"{name} must be from 0 to 1, got {share!r}")
    return share


def _routed(run: MethodRun, uncertainty: Uncertainty, *, ask_threshold: float, look_up_threshold: float) -> InputPatch:
    route = choose_route(uncertainty, ask_threshold=ask_threshold, look_up_threshold=look_up_threshold)
    scores = {
        "request_uncertainty": uncertainty.request_uncertainty,
        "action_uncertainty": uncertainty.action_uncertainty,
    }
    run.decide("route", route=route, **scores)
    metadata = {"route": route, **scores}
    if route is Route.PROCEED:
        return run.no_op("both uncertainties are below their thresholds", metadata=metadata)
    if route is Route.LOOK_UP:
        operation = PatchOperation(
            PatchOp.APPEND_INSTRUCTION, LOOK_UP_INSTRUCTION, rationale="facts are uncertain, the request is not"
        )
        return run.patch(operation, metadata=metadata)
    if not uncertainty.question.strip():
        raise AlgorithmOutputError(
            f"{run.method.release_id}: request_uncertainty reaches ask_threshold, but there is no question to ask"
        )
    operation = PatchOperation(
        PatchOp.REQUEST_CLARIFICATION, uncertainty.question, rationale="the request itself is uncertain"
    )
    return run.patch(operation, metadata=metadata)
