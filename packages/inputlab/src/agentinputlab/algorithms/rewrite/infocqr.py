"""InfoCQR: a question out of a conversation, rewritten so that it stands alone and says everything it means."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from agentinputlab.algorithms._shared import InterventionBase, MethodRun, cached, conversation_text, require_query
from agentinputlab.contracts._checks import flag, frozen, put, text, whole
from agentinputlab.contracts.enums import PatchOp, SemanticFamily
from agentinputlab.contracts.errors import ValidationError
from agentinputlab.contracts.lifecycle import InterventionContext
from agentinputlab.contracts.patch import InputPatch, PatchOperation
from agentinputlab.contracts.state import FrozenAgentState

__all__ = ["CachedInformativeRewrite", "InformativeRewrite"]

_SYSTEM = "You rewrite the last question of a conversation. Reply with the rewritten question only, on one line."
_PROMPT = (
    "Rewrite the question so that somebody who has not read the conversation understands it. The rewrite must\n"
    "- ask exactly what the question asks (correct),\n"
    "- replace every pronoun and every left-out part by what it stands for (clear),\n"
    "- carry over the facts of the conversation that narrow the answer down (informative),\n"
    "- not ask again what has been answered (not redundant).\n\n"
    "Conversation:\n{conversation}\n\nQuestion:\n{query}"
)
_EDIT_PROMPT = (
    "Here is a draft of such a rewrite. Check it against the conversation: is it correct, clear, informative and not "
    "redundant? Reply with the improved rewrite, or with the draft itself when nothing can be improved.\n\n"
    "Conversation:\n{conversation}\n\nQuestion:\n{query}\n\nDraft:\n{draft}"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class InformativeRewrite(InterventionBase):
    """Replaces the query by a self-contained rewrite that a model makes of query and conversation.

    Paper: Ye et al., *Enhancing Conversational Search: Large Language Model-Aided Informative Query Rewriting*,
    Findings of EMNLP 2023 ("rewrite, then edit"). Needs a language model: one call, with ``edit`` two. Changes the
    query only.

    Attributes:
        edit: let the model check and improve its first rewrite.
        max_tokens: longest rewrite.
    """

    method_id: ClassVar[str] = "rewrite.infocqr"
    release_id: ClassVar[str] = "rewrite.infocqr.zero_shot"
    family: ClassVar[SemanticFamily] = SemanticFamily.REFORMULATE
    prompts: ClassVar[tuple[str, ...]] = (_SYSTEM, _PROMPT, _EDIT_PROMPT)

    edit: bool = False
    max_tokens: int = 256

    def __post_init__(self) -> None:
        flag(self.edit, "edit")
        whole(self.max_tokens, "max_tokens", minimum=1)

    def propose(self, state: FrozenAgentState, context: InterventionContext) -> InputPatch:
        """Give the patch that replaces the query by its rewrite.

        Raises:
            ValidationError: the state has no query.
            ExternalDependencyError: the context has no language model.
            BudgetExceededError: the budget has no call or token left.
            AlgorithmOutputError: a rewrite is empty or longer than one line.
        """
        run = MethodRun(self, state, context)
        query = require_query(self, state)
        conversation = conversation_text(state) or "(nothing was said before)"
        prompt = _PROMPT.format(conversation=conversation, query=query)
        rewrite = run.ask("rewrite", prompt, system=_SYSTEM, max_tokens=self.max_tokens).line()
        if self.edit:
            prompt = _EDIT_PROMPT.format(conversation=conversation, query=query, draft=rewrite)
            rewrite = run.ask("edit", prompt, system=_SYSTEM, max_tokens=self.max_tokens).line()
        return _replaced_query(run, rewrite)


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedInformativeRewrite(InterventionBase):
    """Replaces the query by a rewrite that was made before.

    Paper: as `InformativeRewrite`. Needs no model. Changes the query only. Rewrites are found by task, because the
    same words ("and the other one?") mean different things in different conversations.

    Attributes:
        cache: rewrite by task id.
    """

    method_id: ClassVar[str] = "rewrite.infocqr"
    release_id: ClassVar[str] = "rewrite.infocqr.cache_replay"
    family: ClassVar[SemanticFamily] = SemanticFamily.REFORMULATE

    cache: Mapping[str, str] = field(default_factory=dict[str, str])

    def __post_init__(self) -> None:
        cache = frozen(self.cache, "cache")
        for rewrite in cache.values():
            text(rewrite, "every rewrite of cache")
        put(self, cache=cache)

    def propose(self, state: FrozenAgentState, context: InterventionContext) -> InputPatch:
        """Give the patch that replaces the query by its rewrite.

        Raises:
            ValidationError: the state has no query or no task id.
            ArtifactError: the cache has no rewrite for the task.
        """
        run = MethodRun(self, state, context)
        require_query(self, state)
        if not state.task_id.strip():
            raise ValidationError(f"{self.release_id} finds rewrites by task id, which is blank in the state")
        return _replaced_query(run, cached(self, self.cache, state.task_id, "rewrite"))


def _replaced_query(run: MethodRun, rewrite: str) -> InputPatch:
    if rewrite == run.state.query:
        return run.no_op("the rewrite is the query itself")
    return run.patch(PatchOperation(PatchOp.REPLACE_QUERY, rewrite, rationale="self-contained rewrite of the query"))
