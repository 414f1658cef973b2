"""How interventions are called: what they get, what they are, what they give."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeGuard, cast, runtime_checkable

from agentinputlab.contracts._checks import Record, digest, entries, flag, frozen, put, text
from agentinputlab.contracts.enums import ProfileKind, SemanticFamily
from agentinputlab.contracts.errors import ValidationError
from agentinputlab.contracts.evidence import Evidence
from agentinputlab.contracts.intent import IntentContract
from agentinputlab.contracts.patch import InputPatch
from agentinputlab.contracts.serialization import content_hash, field_names, to_jsonable
from agentinputlab.contracts.state import FrozenAgentState
from agentinputlab.contracts.trace import ExecutionTrace

__all__ = [
    "Clarifier",
    "CompositeIntervention",
    "CompositeResult",
    "ContextCurator",
    "Decomposer",
    "EvidenceAcquirer",
    "Intervention",
    "InterventionContext",
    "OfflineRecipe",
    "Reformulator",
]


@dataclass(frozen=True, slots=True)
class InterventionContext:
    """Everything executable that an intervention may use; nothing else may reach a model, a file or a socket.

    Attributes:
        backend: language model (`agentinputlab.backends.llm.LLMBackend`), or None.
        dense_embedder: embedder, or None.
        retriever: retriever (`agentinputlab.backends.retrieval.Retriever`), or None.
        vector_searcher: vector search, or None.
        tools: name to callable.
        external_runtime: worker outside this process, or None.
        artifact_manager: source of pinned artifacts, or None.
        seed: seed of everything random.
        run_config: JSON values that a run was configured with.
        intent_contract: what the patch must keep, or None.
        budget_ledger: what the run is charged to, or None (the runner makes one of the state's budget).
        monitor: where events go, or None.
        pricing_catalog: prices of models, or None.
        strict_intent: whether a broken intent contract ends the run.
    """

    backend: Any = None
    dense_embedder: Any = None
    retriever: Any = None
    vector_searcher: Any = None
    tools: Mapping[str, Any] = field(default_factory=dict[str, Any])
    external_runtime: Any = None
    artifact_manager: Any = None
    seed: int = 0
    run_config: Mapping[str, Any] = field(default_factory=dict[str, Any])
    intent_contract: IntentContract | None = None
    budget_ledger: Any = None
    monitor: Any = None
    pricing_catalog: Any = None
    strict_intent: bool = True

    def __post_init__(self) -> None:
        if type(self.seed) is not int:
            raise ValidationError(f"InterventionContext.seed must be an integer, got {self.seed!r:.80}")
        flag(self.strict_intent, "InterventionContext.strict_intent")
        contract = cast("object", self.intent_contract)
        if contract is not None and not isinstance(contract, IntentContract):
            raise ValidationError(
                f"InterventionContext.intent_contract must be an IntentContract, got {type(contract).__name__}"
            )
        put(self, run_config=frozen(self.run_config, "InterventionContext.run_config"))

    def with_services(self, **services: Any) -> InterventionContext:
        """Give a context with other services; as `dataclasses.replace`, for every run needs one.

        Args:
            services: field, such as ``backend``, to what takes its place.
        """
        if type(self) is not InterventionContext:  # one that adds to it knows itself how it is copied
            return replace(self, **services)
        made = object.__new__(InterventionContext)
        put(made, **{name: getattr(self, name) for name in field_names(InterventionContext)} | services)
        made.__post_init__()
        return made


class _Release(Protocol):
    """What every release is called by."""

    @property
    def method_id(self) -> str:
        """The registry's id of the method."""
        ...

    @property
    def release_id(self) -> str:
        """The registry's id of the release."""
        ...


@runtime_checkable
class Intervention(_Release, Protocol):
    """Something that looks at a visible state and proposes a patch."""

    @property
    def family(self) -> SemanticFamily:
        """What it changes about the input."""
        ...

    def propose(self, state: FrozenAgentState, context: InterventionContext) -> InputPatch:
        """Give the patch for a state."""
        ...


_MEMBERS = ("method_id", "release_id", "family", "propose")


def is_intervention(value: object) -> TypeGuard[Intervention]:
    """Tell what ``isinstance(value, Intervention)`` tells, mostly without its search for the members of a protocol."""
    kind = type(value)
    if all([hasattr(kind, name) and getattr(value, name, None) is not None for name in _MEMBERS]):  # noqa: C419 - hot
        return True
    return isinstance(value, Intervention)


@runtime_checkable
class Reformulator(Intervention, Protocol):
    """An intervention that rewrites the query."""


@runtime_checkable
class Decomposer(Intervention, Protocol):
    """An intervention that splits the task or plans it."""


@runtime_checkable
class EvidenceAcquirer(Intervention, Protocol):
    """An intervention that brings evidence."""


@runtime_checkable
class Clarifier(Intervention, Protocol):
    """An intervention that may ask the user back."""


@runtime_checkable
class ContextCurator(Intervention, Protocol):
    """An intervention that selects or shortens context."""


@dataclass(frozen=True, slots=True)
class CompositeResult(Record):
    """What a composite intervention gives: an answer with its evidence, not a patch.

    Attributes:
        method_id: the method.
        release_id: the release of it.
        source_state_hash: hash of the state it ran on.
        final_answer: the answer; may be empty.
        evidence: what it stands on.
        trace: what was done; of the same method and release.
        implementation_identity: which code ran.
        profile_kind: how close to its origin that code is.
        metadata: JSON values.
    """

    method_id: str
    release_id: str
    source_state_hash: str
    final_answer: str
    evidence: tuple[Evidence, ...]
    trace: ExecutionTrace
    implementation_identity: str
    profile_kind: ProfileKind
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def __post_init__(self) -> None:
        for name in ("method_id", "release_id", "implementation_identity"):
            text(getattr(self, name), f"CompositeResult.{name}")
        digest(self.source_state_hash, "CompositeResult.source_state_hash")
        text(self.final_answer, "CompositeResult.final_answer", blank=True)
        if not isinstance(cast("object", self.trace), ExecutionTrace):
            raise ValidationError(f"CompositeResult.trace must be an ExecutionTrace, got {type(self.trace).__name__}")
        if (self.trace.method_id, self.trace.release_id) != (self.method_id, self.release_id):
            raise ValidationError(
                f"CompositeResult.trace is of {self.trace.method_id}/{self.trace.release_id}, "
                f"the result of {self.method_id}/{self.release_id}"
            )
        put(
            self,
            evidence=entries(self.evidence, "CompositeResult.evidence", Evidence),
            profile_kind=ProfileKind(self.profile_kind),
            metadata=frozen(self.metadata, "CompositeResult.metadata"),
        )

    def as_dict(self) -> dict[str, Any]:
        """Give the result as JSON values."""
        return to_jsonable(self)

    @property
    def result_hash(self) -> str:
        """The content hash of `as_dict`."""
        return content_hash(self)


@runtime_checkable
class CompositeIntervention(_Release, Protocol):
    """Something that carries a task to an answer by itself."""

    @property
    def family(self) -> SemanticFamily:
        """What it changes about the input."""
        ...

    def run(self, state: FrozenAgentState, context: InterventionContext) -> CompositeResult:
        """Give the answer for a state."""
        ...


@runtime_checkable
class OfflineRecipe(_Release, Protocol):
    """Something that learns an artifact from examples before any state is seen."""

    def fit(
        self,
        train_examples: Sequence[Any],
        *,
        validation_examples: Sequence[Any] = (),
        context: InterventionContext,
    ) -> Any:
        """Give the artifact learned from examples."""
        ...
