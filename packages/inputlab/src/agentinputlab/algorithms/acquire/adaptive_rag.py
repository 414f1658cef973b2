"""Adaptive-RAG: retrieve not at all, once, or step by step, depending on how complex the question is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from agentinputlab.algorithms._shared import InterventionBase, MethodRun, add_documents, require_query
from agentinputlab.algorithms.acquire._complexity import Complexity, judge_complexity
from agentinputlab.algorithms.acquire._interleave import INTERLEAVE_PROMPTS, interleave
from agentinputlab.contracts._checks import whole
from agentinputlab.contracts.enums import SemanticFamily
from agentinputlab.contracts.lifecycle import InterventionContext
from agentinputlab.contracts.patch import InputPatch
from agentinputlab.contracts.state import FrozenAgentState

__all__ = ["AdaptiveRetrieval"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AdaptiveRetrieval(InterventionBase):
    """Adds as many documents as the question needs: none (A), those of one search (B), or of several steps (C).

    Paper: Jeong et al., *Adaptive-RAG: Learning to Adapt Retrieval-Augmented Large Language Models through Question
    Complexity*, NAACL 2024. The paper trains a classifier; here `judge_complexity` decides by documented rules, and
    the trace names the rule. Needs nothing for A, a retriever for B (one call), and a language model and a retriever
    for C (one call of each a step). Changes the context only.

    Attributes:
        top_k: documents per retrieval.
        max_steps: most steps of class C.
        max_documents: most documents added in class C.
        max_tokens: longest sentence of the reasoning of class C.
    """

    method_id: ClassVar[str] = "acquire.adaptive_rag"
    release_id: ClassVar[str] = "acquire.adaptive_rag.common_support"
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
        """Give the patch that adds the documents found, or changes nothing for class A.

        Raises:
            ValidationError: the state has no query.
            ExternalDependencyError: the context lacks what the class needs.
            BudgetExceededError: the budget has no call or token left.
            AlgorithmOutputError: a reply is not one line.
        """
        run = MethodRun(self, state, context)
        query = require_query(self, state)
        complexity, rule = judge_complexity(query)
        run.decide("route", complexity=complexity.value, rule=rule)
        route = {"complexity": complexity.value, "rule": rule}
        if complexity is Complexity.NONE:
            return run.no_op(f"rule {rule}: the question needs no documents", metadata=route)
        if complexity is Complexity.SINGLE:
            return add_documents(run, run.retrieve("single", query, top_k=self.top_k), metadata=route)
        found = interleave(
            run,
            query,
            top_k=self.top_k,
            max_steps=self.max_steps,
            max_documents=self.max_documents,
            max_tokens=self.max_tokens,
        )
        return add_documents(run, found.results, metadata={**route, "concluded": found.concluded})
