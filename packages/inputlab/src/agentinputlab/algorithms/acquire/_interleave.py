"""The loop of IRCoT: a sentence of reasoning finds documents, documents give the next sentence."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from agentinputlab.algorithms._shared import MethodRun, state_text

if TYPE_CHECKING:
    from agentinputlab.backends.retrieval import RetrievalResult

__all__ = ["INTERLEAVE_PROMPTS", "Interleaved", "interleave"]

_SYSTEM: Final = "You reason one sentence at a time. Reply with exactly one sentence on one line."
_PROMPT: Final = (
    "Passages found so far:\n\n{passages}\n\n{state}\n\nReasoning so far:\n{reasoning}\n\nWrite the next sentence of "
    'the reasoning. When the reasoning is complete, write a sentence that begins with "So the answer is:".'
)
_CONCLUSION: Final = re.compile(r"\b(so|thus|therefore),?\s+the\s+answer\s+is\b", re.IGNORECASE)

INTERLEAVE_PROMPTS: Final = (_SYSTEM, _PROMPT)
"""The texts a model reads; part of the identity of every method that uses the loop."""


class Interleaved(NamedTuple):
    """What the loop found.

    Attributes:
        results: documents in the order found, each once.
        concluded: the model wrote a conclusion before the steps ran out.
        sentences: how many sentences it wrote.
    """

    results: tuple[RetrievalResult, ...]
    concluded: bool
    sentences: int


def interleave(
    run: MethodRun, query: str, *, top_k: int, max_steps: int, max_documents: int, max_tokens: int
) -> Interleaved:
    """Retrieve for the query, then alternate reasoning sentence and retrieval (Trivedi et al. 2023, section 3).

    At most ``max_steps`` model calls and as many retrieval calls: the last sentence is not looked up when no further
    one would read what it finds.

    Args:
        run: the running method.
        query: what the first retrieval looks for.
        top_k: documents per retrieval.
        max_steps: most sentences.
        max_documents: most documents kept; the first ones stay.
        max_tokens: longest sentence.

    Raises:
        ExternalDependencyError: the context has no language model or no retriever.
        BudgetExceededError: the budget has no call or token left.
        AlgorithmOutputError: a reply is not one line.
    """
    run.require(backend="a language model", retriever="a retriever")
    found: dict[str, RetrievalResult] = {}
    sentences: list[str] = []
    concluded = False
    search = query
    for number in range(1, max_steps + 1):
        for result in run.retrieve(f"step_{number}", search, top_k=top_k):
            if len(found) < max_documents:
                found.setdefault(result.document.doc_id, result)
        passages = "\n\n".join(result.document.text for result in found.values()) or "(none)"
        prompt = _PROMPT.format(
            passages=passages,
            state=state_text(run.state, context=False),
            reasoning="\n".join(sentences) or "(nothing yet)",
        )
        search = run.ask(f"sentence_{number}", prompt, system=_SYSTEM, max_tokens=max_tokens).line()
        sentences.append(search)
        concluded = _CONCLUSION.search(search) is not None
        if concluded:
            break
    if not concluded:
        run.warn(f"no conclusion after {max_steps} sentences")
    run.decide("interleave", sentences=len(sentences), concluded=concluded, documents=len(found))
    return Interleaved(tuple(found.values()), concluded, len(sentences))
