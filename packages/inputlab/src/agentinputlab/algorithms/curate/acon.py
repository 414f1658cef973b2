"""ACON: shorten what an agent has seen, by a guideline that says what must survive."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from agentinputlab.algorithms._shared import InterventionBase, MethodRun
from agentinputlab.contracts._checks import text, whole
from agentinputlab.contracts.enums import PatchOp, SemanticFamily
from agentinputlab.contracts.lifecycle import InterventionContext
from agentinputlab.contracts.patch import InputPatch, PatchOperation
from agentinputlab.contracts.state import FrozenAgentState, Message

__all__ = ["HISTORY_GUIDELINE", "OBSERVATION_GUIDELINE", "HistoryCompression", "ObservationCompression"]

OBSERVATION_GUIDELINE = (
    "Keep every identifier, name, number, date, price, status and option exactly as it stands, and everything that "
    "limits what may be done. Keep error messages whole. Leave out layout, repetition and fields that cannot matter "
    "for the task."
)
"""What must survive in a shortened observation; our own, not an optimised one."""
HISTORY_GUIDELINE = (
    "Keep what the user wants and has agreed to or refused, every identifier and value that was found, what has been "
    "done with which outcome, and what is still open. Leave out greetings, repetition and abandoned ways."
)
"""What must survive in a shortened history; our own, not an optimised one."""

_SYSTEM = "You shorten what an assistant has seen so that it can go on with less text. You add nothing of your own."
_OBSERVATION_PROMPT = (
    "Guideline: {guideline}\n\nTask of the assistant:\n{task}\n\nShorten this observation by the guideline. Reply with "
    "the shortened observation only.\n\nObservation:\n{observation}"
)
_HISTORY_PROMPT = (
    "Guideline: {guideline}\n\nTask of the assistant:\n{task}\n\nShorten this part of the conversation by the "
    "guideline. Reply with the summary only.\n\nConversation:\n{history}"
)
_HISTORY_HEADING = "Summary of the conversation before this point:"


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservationCompression(InterventionBase):
    """Shortens long tool results and context blocks by a guideline, the longest first.

    Paper: Kang et al., *ACON: Optimizing Context Compression for Long-horizon LLM Agents*, 2025. Needs a language
    model: one call for each long observation. Changes tool messages and context only; what users and assistants said
    stays word for word. An observation that would not become shorter stays as it is.

    Attributes:
        guideline: what must survive.
        min_tokens: observations with fewer tokens stay as they are (word and punctuation tokens).
        max_observations: most observations shortened.
        max_tokens: longest shortened observation.
    """

    method_id: ClassVar[str] = "curate.acon"
    release_id: ClassVar[str] = "curate.acon.observation"
    family: ClassVar[SemanticFamily] = SemanticFamily.CURATE
    prompts: ClassVar[tuple[str, ...]] = (_SYSTEM, _OBSERVATION_PROMPT)

    guideline: str = OBSERVATION_GUIDELINE
    min_tokens: int = 200
    max_observations: int = 4
    max_tokens: int = 512

    def __post_init__(self) -> None:
        text(self.guideline, "guideline")
        for name in ("min_tokens", "max_observations", "max_tokens"):
            whole(getattr(self, name), name, minimum=1)

    def propose(self, state: FrozenAgentState, context: InterventionContext) -> InputPatch:
        """Give the patch that replaces the long observations by shorter ones.

        Raises:
            ExternalDependencyError: the context has no language model.
            BudgetExceededError: the budget has no call or token left.
            AlgorithmOutputError: a shortened observation is empty.
        """
        run = MethodRun(self, state, context)
        run.require(backend="a language model")
        messages = {index: message.content for index, message in enumerate(state.messages) if message.role == "tool"}
        blocks = {index: block.text for index, block in enumerate(state.context)}
        places = [("message", index, seen) for index, seen in messages.items()]
        places += [("context", index, seen) for index, seen in blocks.items()]
        long = [(kind, index, seen) for kind, index, seen in places if _tokens(seen) >= self.min_tokens]
        long.sort(key=lambda place: -_tokens(place[2]))  # stable: of equals the earlier one
        shorter: dict[tuple[str, int], str] = {}
        for kind, index, seen in long[: self.max_observations]:
            result = self._shortened(run, f"{kind}_{index}", seen)
            if result is not None:
                shorter[kind, index] = result
        metadata = {"long_observations": len(long), "shortened": len(shorter)}
        operations: list[PatchOperation] = []
        if any(kind == "message" for kind, _ in shorter):
            conversation = [
                replace(message, content=shorter.get(("message", index), message.content))
                for index, message in enumerate(state.messages)
            ]
            operations.append(
                PatchOperation(PatchOp.REPLACE_MESSAGES, conversation, rationale="tool results shortened by guideline")
            )
        if any(kind == "context" for kind, _ in shorter):
            context_blocks = [
                replace(block, text=shorter.get(("context", index), block.text))
                for index, block in enumerate(state.context)
            ]
            operations.append(
                PatchOperation(PatchOp.REPLACE_CONTEXT, context_blocks, rationale="context shortened by guideline")
            )
        if not operations:
            return run.no_op("no observation is long, or none became shorter", metadata=metadata)
        return run.patch(*operations, metadata=metadata)

    def _shortened(self, run: MethodRun, place: str, observation: str) -> str | None:
        """Give the shortened observation, or None when it did not become shorter."""
        prompt = _OBSERVATION_PROMPT.format(guideline=self.guideline, task=_task(run.state), observation=observation)
        result = run.ask(place, prompt, system=_SYSTEM, max_tokens=self.max_tokens).text()
        before, after = _tokens(observation), _tokens(result)
        run.decide(f"shorten.{place}", tokens_before=before, tokens_after=after, kept_original=after >= before)
        return None if after >= before else result


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryCompression(InterventionBase):
    """Replaces the older part of a long conversation by a summary that follows a guideline.

    Paper: as `ObservationCompression`. Needs a language model: one call when the older part is long, else none.
    Changes the messages only; the latest ones stay word for word.

    Attributes:
        guideline: what must survive.
        keep_last: messages at the end that stay as they are.
        min_tokens: an older part with fewer tokens stays as it is (word and punctuation tokens).
        max_tokens: longest summary.
    """

    method_id: ClassVar[str] = "curate.acon"
    release_id: ClassVar[str] = "curate.acon.history"
    family: ClassVar[SemanticFamily] = SemanticFamily.CURATE
    prompts: ClassVar[tuple[str, ...]] = (_SYSTEM, _HISTORY_PROMPT, _HISTORY_HEADING)

    guideline: str = HISTORY_GUIDELINE
    keep_last: int = 4
    min_tokens: int = 400
    max_tokens: int = 512

    def __post_init__(self) -> None:
        text(self.guideline, "guideline")
        for name in ("keep_last", "min_tokens", "max_tokens"):
            whole(getattr(self, name), name, minimum=1)

    def propose(self, state: FrozenAgentState, context: InterventionContext) -> InputPatch:
        """Give the patch that replaces the older messages by one summary.

        Raises:
            ExternalDependencyError: the context has no language model.
            BudgetExceededError: the budget has no call or token left.
            AlgorithmOutputError: the summary is empty, or not shorter than what it replaces.
        """
        run = MethodRun(self, state, context)
        run.require(backend="a language model")
        older, latest = state.messages[: -self.keep_last], state.messages[-self.keep_last :]
        history = "\n".join(f"{message.role}: {message.content}" for message in older)
        before = _tokens(history)
        if before < self.min_tokens:
            return run.no_op("the older part of the conversation is short", metadata={"tokens_before": before})
        prompt = _HISTORY_PROMPT.format(guideline=self.guideline, task=_task(state), history=history)
        reply = run.ask("history", prompt, system=_SYSTEM, max_tokens=self.max_tokens)
        summary = Message(role="system", content=f"{_HISTORY_HEADING}\n{reply.text()}")
        after = _tokens(summary.content)
        if after >= before:
            reply.fail(f"makes a summary of {after} tokens out of {before}")
        run.decide("summarize", messages=len(older), tokens_before=before, tokens_after=after)
        return run.patch(
            PatchOperation(
                PatchOp.REPLACE_MESSAGES, [summary, *latest], rationale="older messages summarised by a guideline"
            ),
            metadata={"messages_summarized": len(older), "tokens_before": before, "tokens_after": after},
        )


def _task(state: FrozenAgentState) -> str:
    return state.query if state.query.strip() else state.instruction


def _tokens(seen: str) -> int:
    from agentinputlab.backends.tokens import count_tokens

    return count_tokens(seen)
