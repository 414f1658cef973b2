"""What every method stands on: its identities, and one `MethodRun` through which it reaches model and retriever.

A method is a small frozen dataclass on `InterventionBase`: its fields are its parameters, its prompts are constants,
and its `propose` reads top to bottom like the paper. Everything it uses comes from the `InterventionContext`; whatever
is missing, wrong or not affordable is a typed error, never a silent way round.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, cast

from agentinputlab.algorithms._replies import Reply, ReplyObject
from agentinputlab.contracts._checks import Record
from agentinputlab.contracts.enums import PatchOp, ProfileKind, SemanticFamily, TracePhase
from agentinputlab.contracts.errors import ArtifactError, ExternalDependencyError, ValidationError
from agentinputlab.contracts.lifecycle import InterventionContext
from agentinputlab.contracts.patch import InputPatch, PatchOperation
from agentinputlab.contracts.serialization import content_hash
from agentinputlab.contracts.state import ContextBlock, FrozenAgentState
from agentinputlab.contracts.trace import ExecutionTrace, TraceEvent
from agentinputlab.observability.instrumentation import has_meter, priced_call
from agentinputlab.observability.ledger import BudgetLedger
from agentinputlab.observability.pricing import PricingCatalog
from agentinputlab.observability.usage import ResourceUsage

if TYPE_CHECKING:
    from agentinputlab.backends.retrieval import RetrievalResult

__all__ = [
    "InterventionBase",
    "MethodRun",
    "Reply",
    "ReplyObject",
    "add_documents",
    "cached",
    "conversation_text",
    "document_block",
    "require_query",
    "state_text",
]


_CALL_MINIMUM = ResourceUsage(model_calls=1, input_tokens=1, output_tokens=1)


class InterventionBase(Record):
    """Base of every method. A method is a frozen dataclass whose fields are its parameters, each with a default.

    Attributes:
        method_id: the registry's id of the method.
        release_id: the registry's id of this release of it.
        family: what it changes about the input.
        profile_kind: how close it is to the published system.
        version: raised whenever the same parameters and prompts would give another patch.
        prompts: every text of ours that a model or an agent reads; part of the identity.
    """

    __slots__ = ()

    method_id: ClassVar[str]
    release_id: ClassVar[str]
    family: ClassVar[SemanticFamily]
    profile_kind: ClassVar[ProfileKind] = ProfileKind.CONTROLLED_ADAPTER
    version: ClassVar[int] = 1
    prompts: ClassVar[tuple[str, ...]] = ()

    @property
    def implementation_id(self) -> str:
        """The short name of the method, without its family."""
        return self.method_id.rpartition(".")[2]

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters of this object by name."""
        return {field.name: getattr(self, field.name) for field in fields(cast("Any", self))}

    @property
    def implementation_identity(self) -> str:
        """Release, version, and the content hash of parameters and prompts."""
        digest = content_hash({"parameters": self.parameters, "prompts": self.prompts})
        return f"{self.release_id}@{self.version}:{digest}"


class MethodRun:
    """One `propose` call: asks, retrieves, counts and traces, and ends in a patch.

    The trace holds hashes, identities and counts, never texts. The meters of a runner charge every call to its ledger;
    what comes without a meter is charged here, to the budget of the state and to the ledger of the context, if any.
    """

    def __init__(self, method: InterventionBase, state: FrozenAgentState, context: InterventionContext) -> None:
        self.method = method
        self.state = state
        self.context = context
        self._ledger = BudgetLedger(state.budget, parent=context.budget_ledger)
        self._events: list[TraceEvent] = []
        self._counters: dict[str, int] = {}
        self._warnings: list[str] = []

    # --- what a method may use ------------------------------------------------------------------------------

    def ask(
        self,
        stage: str,
        prompt: str,
        *,
        system: str,
        max_tokens: int = 512,
        temperature: float = 0.0,
        sample: int = 0,
        stop: Sequence[str] = (),
    ) -> Reply:
        """Ask the model once.

        Args:
            stage: what is asked for; names the call in trace and errors.
            prompt: the user message.
            system: the system message.
            max_tokens: longest answer; shortened to what the budget has left.
            temperature: of the sampling.
            sample: number of the sample where a stage draws several; each has a seed of its own, where the model
                takes one.
            stop: texts that end the answer.

        Raises:
            ExternalDependencyError: the context has no language model.
            BudgetExceededError: no model call or output token is left.
        """
        from agentinputlab.backends.llm import GenerationRequest

        backend = self.context.backend
        if backend is None:
            self._lacks("a language model", "backend")
        seed = self.context.seed + sample if "seed" in backend.capabilities else None
        tokens_left = cast("int", self._ledger.remaining("output_tokens"))
        request = GenerationRequest(
            prompt=prompt,
            system=system,
            temperature=temperature,
            max_tokens=max(1, min(max_tokens, tokens_left)),  # with none left, the reservation below refuses the call
            seed=seed,
            stop=tuple(stop),
        )
        promise = None if has_meter(backend) else self._ledger.reserve_pending(_CALL_MINIMUM)
        response = backend.generate(request)
        if promise is not None:
            pricing = self.context.pricing_catalog or PricingCatalog()
            self._ledger.commit_pending(promise, priced_call(pricing, backend.model_id, response.usage))
        self.count("model_calls")
        self.count("input_tokens", response.usage.input_tokens)
        self.count("output_tokens", response.usage.output_tokens)
        self.observe(
            f"ask.{stage}",
            request_hash=request.request_hash,
            model=response.model,
            seed=seed,
            finish_reason=response.finish_reason,
            reply_characters=len(response.text),
            input_tokens=response.usage.input_tokens,
            output_tokens=response.usage.output_tokens,
        )
        return Reply(self.method.release_id, stage, response.text)

    def retrieve(self, stage: str, query: str, *, top_k: int) -> tuple[RetrievalResult, ...]:
        """Give the best documents for a query, best first.

        Raises:
            ExternalDependencyError: the context has no retriever.
            BudgetExceededError: no retrieval call is left.
        """
        retriever = self.context.retriever
        if retriever is None:
            self._lacks("a retriever", "retriever")
        self._count_retrieval(retriever)
        results = tuple(retriever.retrieve(query, top_k=top_k))
        self.observe(
            f"retrieve.{stage}",
            retriever_id=retriever.retriever_id,
            query_hash=content_hash(query),
            doc_ids=[result.document.doc_id for result in results],
        )
        return results

    def embed(self, stage: str, texts: Sequence[str]) -> tuple[tuple[float, ...], ...]:
        """Give the vectors of texts, one a text.

        Raises:
            ExternalDependencyError: the context has no embedder, or it gave another number of vectors.
        """
        from agentinputlab.backends.embedding import EmbeddingRequest

        embedder = self.context.dense_embedder
        if embedder is None:
            self._lacks("an embedder", "dense_embedder")
        response = embedder.embed(EmbeddingRequest(texts=tuple(texts)))
        self.count("embedding_calls")
        vectors: tuple[tuple[float, ...], ...] = response.vectors
        if len(vectors) != len(texts):
            raise ExternalDependencyError(
                f"{self.method.release_id}: the embedder gave {len(vectors)} vectors for {len(texts)} texts"
            )
        self.observe(f"embed.{stage}", model=response.model, texts=len(texts), dimension=len(vectors[0]))
        return vectors

    def search(self, stage: str, vector: Sequence[float], *, top_k: int) -> tuple[RetrievalResult, ...]:
        """Give the documents whose vectors are nearest, nearest first.

        Raises:
            ExternalDependencyError: the context has no vector searcher.
            BudgetExceededError: no retrieval call is left.
        """
        searcher = self.context.vector_searcher
        if searcher is None:
            self._lacks("a vector searcher", "vector_searcher")
        self._count_retrieval(searcher)
        results = tuple(searcher.search(vector, top_k=top_k))
        self.observe(
            f"search.{stage}",
            searcher_id=searcher.searcher_id,
            doc_ids=[result.document.doc_id for result in results],
        )
        return results

    # --- what the trace says --------------------------------------------------------------------------------

    def count(self, name: str, amount: int = 1) -> None:
        """Add to a counter of the trace."""
        self._counters[name] = self._counters.get(name, 0) + amount

    def observe(self, name: str, /, **payload: object) -> None:
        """Note something that came back; the payload is JSON without texts of user or model."""
        self._events.append(TraceEvent(TracePhase.OBSERVE, name, payload))

    def decide(self, name: str, /, **payload: object) -> None:
        """Note what the method decided; the payload is JSON without texts of user or model."""
        self._events.append(TraceEvent(TracePhase.PROPOSE, name, payload))

    def warn(self, text: str) -> None:
        """Leave a sentence for whoever reads the trace."""
        self._warnings.append(text)

    # --- how a run ends -------------------------------------------------------------------------------------

    def patch(self, *operations: PatchOperation, metadata: Mapping[str, Any] | None = None) -> InputPatch:
        """Give the patch of these operations with the trace so far."""
        self._events.append(
            TraceEvent(TracePhase.FINALIZE, "patch", {"operations": [operation.op for operation in operations]})
        )
        return InputPatch(
            method_id=self.method.method_id,
            release_id=self.method.release_id,
            source_state_hash=self.state.state_hash,
            operations=operations,
            trace=ExecutionTrace(
                method_id=self.method.method_id,
                release_id=self.method.release_id,
                events=tuple(self._events),
                counters=self._counters,
                warnings=tuple(self._warnings),
            ),
            implementation_identity=self.method.implementation_identity,
            profile_kind=self.method.profile_kind,
            metadata={} if metadata is None else metadata,
        )

    def no_op(self, reason: str, *, metadata: Mapping[str, Any] | None = None) -> InputPatch:
        """Give the patch that changes nothing and says why."""
        return self.patch(PatchOperation(PatchOp.NO_OP), metadata={**(metadata or {}), "no_op_reason": reason})

    def require(self, **wanted: str) -> None:
        """Check before the first call that the context has everything a method will use.

        Args:
            wanted: what each field of the context is for the reader, such as ``retriever="a retriever"``.

        Raises:
            ExternalDependencyError: a field is None.
        """
        for name, description in wanted.items():
            if getattr(self.context, name) is None:
                self._lacks(description, name)

    def _lacks(self, description: str, name: str) -> NoReturn:
        raise ExternalDependencyError(
            f"{self.method.release_id} needs {description}: give InterventionContext({name}=...)"
        )

    def _count_retrieval(self, dependency: object) -> None:
        if not has_meter(dependency):
            self._ledger.reserve(ResourceUsage(retrieval_calls=1))
        self.count("retrieval_calls")


def require_query(method: InterventionBase, state: FrozenAgentState) -> str:
    """Give the query of a state for a method that works on queries.

    Raises:
        ValidationError: it is blank.
    """
    if not state.query.strip():
        raise ValidationError(f"{method.release_id} works on the query of the state, which is blank")
    return state.query


def conversation_text(state: FrozenAgentState) -> str:
    """Give the conversation as one line per message, ``role: content``; empty when there is none."""
    return "\n".join(f"{message.role}: {message.content}" for message in state.messages)


def state_text(state: FrozenAgentState, *, context: bool = True, conversation: bool = True) -> str:
    """Give the visible state as headed sections for a prompt; empty parts are left out.

    Args:
        state: what the agent can see.
        context: with the context blocks.
        conversation: with the messages, unless the only one repeats the query.
    """
    repeats_query = len(state.messages) == 1 and state.messages[0].content == state.query
    sections = (
        ("Instruction", state.instruction),
        ("Context", "\n\n".join(block.text for block in state.context) if context else ""),
        ("Conversation", conversation_text(state) if conversation and not repeats_query else ""),
        ("Request", state.query),
    )
    return "\n\n".join(f"{heading}:\n{body}" for heading, body in sections if body.strip())


def document_block(result: RetrievalResult) -> ContextBlock:
    """Give a retrieved document as a block of context, with its rank and title beside it."""
    document = result.document
    return ContextBlock(
        text=document.text,
        block_id=document.doc_id,
        source="retrieved_document",
        score=result.score,
        metadata={"rank": result.rank, "title": document.title, "corpus_revision": document.corpus_revision},
    )


def add_documents(
    run: MethodRun, results: Sequence[RetrievalResult], *, metadata: Mapping[str, Any] | None = None
) -> InputPatch:
    """Give the patch that adds the documents which are not yet in the context, each once, in the order given.

    Nothing new gives a patch without effect that says so.
    """
    known = {block.block_id for block in run.state.context}
    blocks: list[ContextBlock] = []
    for result in results:
        if result.document.doc_id not in known:
            known.add(result.document.doc_id)
            blocks.append(document_block(result))
    if not blocks:
        return run.no_op("retrieval gave no document that is not already in the context", metadata=metadata)
    return run.patch(
        PatchOperation(PatchOp.ADD_CONTEXT, blocks, rationale="retrieved documents, best first"), metadata=metadata
    )


def cached(method: InterventionBase, cache: Mapping[str, Any], key: str, what: str) -> Any:
    """Give what a cache holds for a key.

    Raises:
        ArtifactError: nothing; the message has the hash of the key, which may be a user's text.
    """
    if key not in cache:
        raise ArtifactError(
            f"{method.release_id} has no cached {what} for the key with content hash {content_hash(key)}; "
            f"the cache holds {len(cache)}"
        )
    return cache[key]
