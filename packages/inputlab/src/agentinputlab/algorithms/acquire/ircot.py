"""IRCoT: let every sentence of reasoning search for what the next one needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from agentinputlab.algorithms._shared import InterventionBase, MethodRun, add_documents, require_query
from agentinputlab.algorithms.acquire._interleave import INTERLEAVE_PROMPTS, interleave
from agentinputlab.contracts._checks import whole
from agentinputlab.contracts.enums import SemanticFamily
from agentinputlab.contracts.lifecycle import InterventionContext
from agentinputlab.contracts.patch import InputPatch
from agentinputlab.contracts.state import FrozenAgentState

__all__ = ["InterleavedRetrieval"]


@dataclass(frozen=True, slots=True, kw_only=True)
class InterleavedRetrieval(InterventionBase):
    """Adds the documents that interleaved reasoning and retrieval find; the caller's model reads them.

    Paper: Trivedi et al., *Interleaving Retrieval with Chain-of-Thought Reasoning for Knowledge-Intensive Multi-Step
    Questions*, ACL 2023. Controlled: the reasoning itself does not reach the agent, so that both arms reason for
    themselves and differ in documents only. Needs a language model and a retriever, one call of each a sentence.
    Changes the context only.

    Attributes:
        top_k: documents per retrieval.
        max_steps: most sentences.
        max_documents: most documents added.
        max_tokens: longest sentence.
    """

    method_id: ClassVar[str] = "acquire.ircot"
    release_id: ClassVar[str] = "acquire.ircot.controlled"
    family: ClassVar[SemanticFamily] = SemanticFamily.ACQUIRE
    prompts: ClassVar[tuple[str, ...]] = INTERLEAVE_PROMPTS

    top_k: int = 4
    max_steps: int = 4
    max_documents: int = 15
    max_tokens: int = 96

    def __post_init__(self) -> None:
        for name in ("top_k", "max_steps", "max_documents", "max_tokens"):
            whole(getattr(self, name), name, minimum=1)

    def propose(self, state: FrozenAgentState, context: InterventionContext) -> InputPatch:
        """Give the patch that adds the documents found.

        Raises:
            ValidationError: the state has no query.
            ExternalDependencyError: the context has no language model or no retriever.
            BudgetExceededError: the budget has no call or token left.
            AlgorithmOutputError: a reply is not one line.
        """
        run = MethodRun(self, state, context)
        found = interleave(
            run,
            require_query(self, state),
            top_k=self.top_k,
            max_steps=self.max_steps,
            max_documents=self.max_documents,
            max_tokens=self.max_tokens,
        )
        return add_documents(run, found.results, metadata={"concluded": found.concluded})
