"""HyDE: search near documents that a model made up, because they look more like relevant ones than a question does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from agentinputlab.algorithms._shared import InterventionBase, MethodRun, add_documents, require_query
from agentinputlab.contracts._checks import finite, whole
from agentinputlab.contracts.enums import SemanticFamily
from agentinputlab.contracts.lifecycle import InterventionContext
from agentinputlab.contracts.patch import InputPatch
from agentinputlab.contracts.state import FrozenAgentState

__all__ = ["HypotheticalDocuments"]

_SYSTEM = "You write short passages of reference works. Reply with the passage only."
_PROMPT = "Write a passage of about four sentences that answers the question.\n\nQuestion: {query}"


@dataclass(frozen=True, slots=True, kw_only=True)
class HypotheticalDocuments(InterventionBase):
    """Adds the documents nearest to the mean embedding of query and hypothetical answers.

    Paper: Gao et al., *Precise Zero-Shot Dense Retrieval without Relevance Labels*, ACL 2023. Needs a language model
    (one call a sample), an embedder (one call) and a vector search (one retrieval call). Changes the context only; the
    made-up documents never reach the agent.

    Attributes:
        samples: hypothetical documents.
        temperature: of the sampling.
        top_k: documents to add.
        max_tokens: longest hypothetical document.
    """

    method_id: ClassVar[str] = "acquire.hyde"
    release_id: ClassVar[str] = "acquire.hyde.paper_reimplementation"
    family: ClassVar[SemanticFamily] = SemanticFamily.ACQUIRE
    prompts: ClassVar[tuple[str, ...]] = (_SYSTEM, _PROMPT)

    samples: int = 4
    temperature: float = 0.7
    top_k: int = 4
    max_tokens: int = 192

    def __post_init__(self) -> None:
        for name in ("samples", "top_k", "max_tokens"):
            whole(getattr(self, name), name, minimum=1)
        finite(self.temperature, "temperature", minimum=0)

    def propose(self, state: FrozenAgentState, context: InterventionContext) -> InputPatch:
        """Give the patch that adds the documents found.

        Raises:
            ValidationError: the state has no query.
            ExternalDependencyError: the context has no language model, embedder or vector search.
            BudgetExceededError: the budget has no call or token left.
            AlgorithmOutputError: a hypothetical document is empty.
        """
        run = MethodRun(self, state, context)
        query = require_query(self, state)
        run.require(
            backend="a language model", dense_embedder="an embedder", vector_searcher="a search over document vectors"
        )
        hypothetical = [
            run.ask(
                f"document_{number}",
                _PROMPT.format(query=query),
                system=_SYSTEM,
                max_tokens=self.max_tokens,
                temperature=self.temperature,
                sample=number - 1,
            ).text()
            for number in range(1, self.samples + 1)
        ]
        vectors = run.embed("documents", [query, *hypothetical])
        return add_documents(run, run.search("nearest", _mean(vectors), top_k=self.top_k))


def _mean(vectors: Sequence[Sequence[float]]) -> tuple[float, ...]:
    r"""Give $\frac{1}{N+1}\left(f(q) + \sum_{k=1}^{N} f(\hat d_k)\right)$ (Gao et al. 2023, equation 8)."""
    return tuple(sum(values) / len(vectors) for values in zip(*vectors, strict=True))
