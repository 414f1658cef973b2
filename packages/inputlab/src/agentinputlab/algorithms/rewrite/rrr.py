"""Rewrite, retrieve, read: search with queries that a model wrote, not with the user's words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from agentinputlab.algorithms._shared import InterventionBase, MethodRun, add_documents, require_query, state_text
from agentinputlab.contracts._checks import whole
from agentinputlab.contracts.enums import SemanticFamily
from agentinputlab.contracts.lifecycle import InterventionContext
from agentinputlab.contracts.patch import InputPatch
from agentinputlab.contracts.state import FrozenAgentState

if TYPE_CHECKING:
    from agentinputlab.backends.retrieval import RetrievalResult

__all__ = ["RewriteRetrieveRead"]

_SYSTEM = "You turn requests into search queries. Reply with the queries only, one a line."
_PROMPT = (
    "What has to be looked up to handle the request below? Write at most {max_queries} short search queries, "
    "the most useful one first.\n\n{state}"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteRetrieveRead(InterventionBase):
    """Adds the documents that a model's own search queries find; the caller's model reads them.

    Paper: Ma et al., *Query Rewriting for Retrieval-Augmented Large Language Models*, EMNLP 2023. Needs a language
    model (one call) and a retriever (one call a query). Changes the context only: the query stays as it is, so that
    both arms answer the same question.

    Attributes:
        max_queries: most search queries.
        top_k: documents per query.
        max_tokens: longest reply of the model.
    """

    method_id: ClassVar[str] = "rewrite.rrr"
    release_id: ClassVar[str] = "rewrite.rrr.common_support"
    family: ClassVar[SemanticFamily] = SemanticFamily.REFORMULATE
    prompts: ClassVar[tuple[str, ...]] = (_SYSTEM, _PROMPT)

    max_queries: int = 2
    top_k: int = 3
    max_tokens: int = 128

    def __post_init__(self) -> None:
        for name in ("max_queries", "top_k", "max_tokens"):
            whole(getattr(self, name), name, minimum=1)

    def propose(self, state: FrozenAgentState, context: InterventionContext) -> InputPatch:
        """Give the patch that adds the documents found.

        Raises:
            ValidationError: the state has no query.
            ExternalDependencyError: the context has no language model or no retriever.
            BudgetExceededError: the budget has no call or token left.
            AlgorithmOutputError: the model did not list one to ``max_queries`` queries.
        """
        run = MethodRun(self, state, context)
        require_query(self, state)
        run.require(backend="a language model", retriever="a retriever")
        prompt = _PROMPT.format(max_queries=self.max_queries, state=state_text(state, context=False))
        reply = run.ask("queries", prompt, system=_SYSTEM, max_tokens=self.max_tokens)
        queries = reply.lines(at_most=self.max_queries, max_characters=400)
        results: list[RetrievalResult] = []
        for number, query in enumerate(queries, start=1):
            results += run.retrieve(f"query_{number}", query, top_k=self.top_k)
        return add_documents(run, results, metadata={"search_queries": list(queries)})
