"""RECOMP: keep of the context only what the query needs, which may be nothing."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from agentinputlab.algorithms._shared import InterventionBase, MethodRun, require_query
from agentinputlab.contracts._checks import finite, whole
from agentinputlab.contracts.enums import PatchOp, SemanticFamily
from agentinputlab.contracts.lifecycle import InterventionContext
from agentinputlab.contracts.patch import InputPatch, PatchOperation
from agentinputlab.contracts.state import ContextBlock, FrozenAgentState

__all__ = ["LexicalExtraction", "PromptedSummary", "assemble", "split_sentences"]

_SENTENCE_END = re.compile(r"(?:(?<=[.!?])|(?<=[.!?][\"')\]]))\s+|\s*\n\s*")
_NOTHING = "NOTHING"
_SYSTEM = "You condense documents for a reader who has one request. You add nothing of your own."
_PROMPT = (
    "Condense the documents below to what helps with the request, in at most {words} words. Keep names, numbers and "
    "conditions exactly as they stand. If nothing in them helps, reply with the one word {nothing}.\n\n"
    "Request:\n{query}\n\nDocuments:\n{documents}"
)


def split_sentences(text: str) -> tuple[str, ...]:
    """Give the sentences of a text in order: pieces that end in ``.``, ``!`` or ``?``, and lines."""
    return tuple(piece.strip() for piece in _SENTENCE_END.split(text) if piece and piece.strip())


def assemble(sentences: Sequence[str], scores: Sequence[float], *, at_most: int, min_score: float) -> tuple[int, ...]:
    """Give which sentences to keep: those with the best scores, in the order in which they stand.

    A sentence with a score of 0, or below ``min_score``, is never kept, so that the result can be empty; of equal
    scores the earlier sentence wins.

    Args:
        sentences: of all context, in order.
        scores: one per sentence.
        at_most: most sentences.
        min_score: least score.

    Reference:
        Xu, Shi and Choi, *RECOMP*, ICLR 2024, section 2 (extractive compression, selective augmentation).
    """
    eligible = [index for index in range(len(sentences)) if scores[index] > 0 and scores[index] >= min_score]
    best = sorted(eligible, key=lambda index: (-scores[index], index))[:at_most]
    return tuple(sorted(best))


@dataclass(frozen=True, slots=True, kw_only=True)
class LexicalExtraction(InterventionBase):
    """Keeps the sentences of the context that share the most telling words with the query.

    Paper: Xu, Shi and Choi, *RECOMP: Improving Retrieval-Augmented LMs with Compression and Selective Augmentation*,
    ICLR 2024. The rule that puts the compressed context together is the paper's; the scores are BM25 over the
    sentences, not the trained encoder's. Needs no model. Changes the context only.

    Attributes:
        sentences: most sentences kept, over all blocks.
        min_score: least BM25 score of a kept sentence; one without a word of the query is never kept.
    """

    method_id: ClassVar[str] = "curate.recomp"
    release_id: ClassVar[str] = "curate.recomp.extractive_lexical"
    family: ClassVar[SemanticFamily] = SemanticFamily.CURATE

    sentences: int = 5
    min_score: float = 0.0

    def __post_init__(self) -> None:
        whole(self.sentences, "sentences", minimum=1)
        finite(self.min_score, "min_score", minimum=0)

    def propose(self, state: FrozenAgentState, context: InterventionContext) -> InputPatch:
        """Give the patch that replaces the context by its telling sentences, each in its block.

        Raises:
            ValidationError: the state has no query.
        """
        run = MethodRun(self, state, context)
        query = require_query(self, state)
        places = [(place, piece) for place, block in enumerate(state.context) for piece in split_sentences(block.text)]
        if not places:
            return run.no_op("the state has no context")
        pieces = [piece for _, piece in places]
        kept = assemble(pieces, _bm25_scores(query, pieces), at_most=self.sentences, min_score=self.min_score)
        by_block: dict[int, list[str]] = {}
        for index in kept:
            by_block.setdefault(places[index][0], []).append(pieces[index])
        blocks = [replace(state.context[place], text=" ".join(texts)) for place, texts in by_block.items()]
        run.decide(
            "extract", sentences=len(pieces), kept=list(kept), blocks=len(state.context), blocks_kept=len(blocks)
        )
        metadata = {"sentences": len(pieces), "sentences_kept": len(kept)}
        if len(kept) == len(pieces):
            return run.no_op("every sentence is kept", metadata=metadata)
        return run.patch(
            PatchOperation(PatchOp.REPLACE_CONTEXT, blocks, rationale="the sentences that share words with the query"),
            metadata=metadata,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptedSummary(InterventionBase):
    """Replaces the context by a summary that a model writes for the query; by nothing when nothing helps.

    Paper: as `LexicalExtraction`; this is the abstractive compressor with a prompted model in place of the distilled
    one. Needs a language model: one call. Changes the context only.

    Attributes:
        max_words: length asked of the summary.
        max_tokens: longest reply.
    """

    method_id: ClassVar[str] = "curate.recomp"
    release_id: ClassVar[str] = "curate.recomp.abstractive_prompted"
    family: ClassVar[SemanticFamily] = SemanticFamily.CURATE
    prompts: ClassVar[tuple[str, ...]] = (_SYSTEM, _PROMPT, _NOTHING)

    max_words: int = 120
    max_tokens: int = 400

    def __post_init__(self) -> None:
        whole(self.max_words, "max_words", minimum=1)
        whole(self.max_tokens, "max_tokens", minimum=1)

    def propose(self, state: FrozenAgentState, context: InterventionContext) -> InputPatch:
        """Give the patch that replaces the context by the summary.

        Raises:
            ValidationError: the state has no query.
            ExternalDependencyError: the context has no language model.
            BudgetExceededError: the budget has no call or token left.
            AlgorithmOutputError: the summary is empty, or not shorter than what it replaces.
        """
        run = MethodRun(self, state, context)
        query = require_query(self, state)
        run.require(backend="a language model")
        if not state.context:
            return run.no_op("the state has no context")
        documents = "\n\n".join(block.text for block in state.context)
        prompt = _PROMPT.format(words=self.max_words, nothing=_NOTHING, query=query, documents=documents)
        reply = run.ask("summary", prompt, system=_SYSTEM, max_tokens=self.max_tokens)
        summary = reply.text()
        if summary.rstrip(".").upper() == _NOTHING:
            operation = PatchOperation(PatchOp.REPLACE_CONTEXT, [], rationale="nothing in the context helps")
            return run.patch(operation, metadata={"characters_before": len(documents), "characters_after": 0})
        if len(summary) >= len(documents):
            reply.fail(f"has {len(summary)} characters, the context it should shorten has {len(documents)}")
        block = ContextBlock(text=summary, block_id="summary", source=self.release_id)
        return run.patch(
            PatchOperation(PatchOp.REPLACE_CONTEXT, [block], rationale="summary of the context for the query"),
            metadata={"characters_before": len(documents), "characters_after": len(summary)},
        )


def _bm25_scores(query: str, sentences: Sequence[str]) -> list[float]:
    from agentinputlab.backends.retrieval import Document, InMemoryBM25Retriever

    documents = [Document(doc_id=str(index), text=sentence) for index, sentence in enumerate(sentences)]
    results = InMemoryBM25Retriever(documents).retrieve(query, top_k=len(documents))
    scores: Mapping[str, float] = {result.document.doc_id: result.score for result in results}
    return [scores[str(index)] for index in range(len(sentences))]
