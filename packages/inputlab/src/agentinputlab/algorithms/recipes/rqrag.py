"""RQ-RAG: search with a small tree of refined queries and keep the evidence of the best branch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from agentinputlab.algorithms._shared import InterventionBase, MethodRun, add_documents, require_query
from agentinputlab.contracts._checks import whole
from agentinputlab.contracts.enums import SemanticFamily, StrEnum
from agentinputlab.contracts.lifecycle import InterventionContext
from agentinputlab.contracts.patch import InputPatch
from agentinputlab.contracts.state import FrozenAgentState

if TYPE_CHECKING:
    from agentinputlab.backends.retrieval import RetrievalResult

__all__ = ["QueryRefinementTree", "Refinement"]

_SYSTEM = "You refine search queries step by step. Reply with one JSON object only."
_REFINE_PROMPT = (
    "A request has to be answered from documents. Choose what to do next.\n"
    '- "rewrite": one better query for the same thing.\n'
    '- "decompose": up to {most} queries, each for one part of the request.\n'
    '- "disambiguate": up to {most} queries, each for one meaning the request may have.\n'
    '- "stop": the documents found suffice, or no query would find more; no queries then.\n\n'
    "Request:\n{query}\n\nQueries that led here:\n{path}\n\nDocuments found:\n{documents}\n\n"
    'Reply: {{"action": "rewrite" | "decompose" | "disambiguate" | "stop", "queries": ["<query>"]}}'
)
_SELECT_PROMPT = (
    "A request was searched for in several ways. Which way found the documents that answer it best?\n\n"
    "Request:\n{query}\n\n{ways}\n\n"
    'Reply: {{"way": <number>}}'
)
_EXCERPT_CHARACTERS = 600


class Refinement(StrEnum):
    """What a node of the tree does with its query."""

    REWRITE = "rewrite"
    DECOMPOSE = "decompose"
    DISAMBIGUATE = "disambiguate"
    STOP = "stop"


@dataclass(frozen=True, slots=True)
class _Branch:
    """A way from the request to a node: its queries, and every document found on it, each once."""

    queries: tuple[str, ...] = ()
    results: tuple[RetrievalResult, ...] = ()

    def extended(self, queries: Sequence[str], found: Sequence[RetrievalResult]) -> _Branch:
        known = {result.document.doc_id for result in self.results}
        new: list[RetrievalResult] = []
        for result in found:
            if result.document.doc_id not in known:
                known.add(result.document.doc_id)
                new.append(result)
        return _Branch((*self.queries, *queries), (*self.results, *new))


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryRefinementTree(InterventionBase):
    """Adds the documents of the best branch of a bounded tree of rewritten, split and disambiguated queries.

    Paper: Chan et al., *RQ-RAG: Learning to Refine Queries for Retrieval Augmented Generation*, COLM 2024. The tree is
    the paper's; a prompted model takes the place of the trained one, and a judgement that of perplexities. Needs a
    language model and a retriever: at most ``max_expansions + 1`` model calls and ``max_expansions * max_branches``
    retrievals. The parts of a split request belong together and stay one branch; meanings of an ambiguous one become a
    branch each. Changes the context only.

    Attributes:
        max_depth: refinements on one branch at most.
        max_branches: queries of one refinement at most.
        max_expansions: refinements in the whole tree at most; shallow ones first.
        top_k: documents per query.
        max_tokens: longest reply.
    """

    method_id: ClassVar[str] = "recipe.rqrag"
    release_id: ClassVar[str] = "recipe.rqrag.method_tree"
    family: ClassVar[SemanticFamily] = SemanticFamily.ACQUIRE
    prompts: ClassVar[tuple[str, ...]] = (_SYSTEM, _REFINE_PROMPT, _SELECT_PROMPT)

    max_depth: int = 2
    max_branches: int = 2
    max_expansions: int = 4
    top_k: int = 3
    max_tokens: int = 256

    def __post_init__(self) -> None:
        for name in ("max_depth", "max_branches", "max_expansions", "top_k", "max_tokens"):
            whole(getattr(self, name), name, minimum=1)

    def propose(self, state: FrozenAgentState, context: InterventionContext) -> InputPatch:
        """Give the patch that adds the documents of the best branch.

        Raises:
            ValidationError: the state has no query.
            ExternalDependencyError: the context has no language model or no retriever.
            BudgetExceededError: the budget has no call or token left.
            AlgorithmOutputError: a reply is not in the form asked for.
        """
        run = MethodRun(self, state, context)
        query = require_query(self, state)
        run.require(backend="a language model", retriever="a retriever")
        leaves = self._grow(run, query)
        best = leaves[0] if len(leaves) == 1 else leaves[self._select(run, query, leaves)]
        metadata = {"branches": len(leaves), "search_queries": list(best.queries)}
        return add_documents(run, best.results, metadata=metadata)

    def _grow(self, run: MethodRun, query: str) -> list[_Branch]:
        """Give the ends of the tree, breadth first, in the order in which they were reached."""
        leaves: list[_Branch] = []
        level = [_Branch()]
        expansions = 0
        for depth in range(self.max_depth):
            below: list[_Branch] = []
            for branch in level:
                if expansions == self.max_expansions:
                    leaves.append(branch)
                    continue
                expansions += 1
                children = self._expand(run, query, branch, place=f"{depth + 1}_{expansions}")
                below += children
                if not children:
                    leaves.append(branch)
            level = below
        return leaves + level

    def _expand(self, run: MethodRun, query: str, branch: _Branch, *, place: str) -> list[_Branch]:
        """Give the branches that one refinement leads to; none when it stops."""
        prompt = _REFINE_PROMPT.format(
            most=self.max_branches,
            query=query,
            path="\n".join(branch.queries) or "none yet",
            documents=_excerpts(branch.results),
        )
        reply = run.ask(f"refine_{place}", prompt, system=_SYSTEM, max_tokens=self.max_tokens)
        answer = reply.json_object().only("action", "queries")
        action = Refinement(answer.choice("action", tuple(Refinement)))
        most = {Refinement.REWRITE: 1, Refinement.STOP: 0}.get(action, self.max_branches)
        least = 0 if action is Refinement.STOP else 1
        queries = answer.texts("queries", at_least=least, at_most=most, max_characters=400)
        run.decide(f"refine_{place}", action=action, queries=len(queries))
        found = [
            run.retrieve(f"{place}_{number}", refined, top_k=self.top_k)
            for number, refined in enumerate(queries, start=1)
        ]
        if action is Refinement.DECOMPOSE:
            return [branch.extended(queries, [result for results in found for result in results])]
        return [branch.extended([refined], results) for refined, results in zip(queries, found, strict=True)]

    def _select(self, run: MethodRun, query: str, leaves: Sequence[_Branch]) -> int:
        """Give the place of the branch that a model finds best."""
        ways = "\n\n".join(
            f"Way {number} ({'; '.join(leaf.queries) or 'no search'}):\n{_excerpts(leaf.results)}"
            for number, leaf in enumerate(leaves, start=1)
        )
        prompt = _SELECT_PROMPT.format(query=query, ways=ways)
        reply = run.ask("select", prompt, system=_SYSTEM, max_tokens=self.max_tokens)
        chosen = reply.json_object().only("way").integer("way", low=1, high=len(leaves)) - 1
        run.decide("select", branches=len(leaves), chosen=chosen)
        return chosen


def _excerpts(results: Sequence[RetrievalResult]) -> str:
    return "\n".join(f"- {result.document.text[:_EXCERPT_CHARACTERS]}" for result in results) or "none"
