"""The words that contracts, registry and runners share; every one is its own text."""

from __future__ import annotations

import enum

from agentinputlab.contracts.errors import ValidationError

__all__ = [
    "DependencyRole",
    "EvidenceKind",
    "ExecutionKind",
    "ImplementationKind",
    "PatchOp",
    "ProfileKind",
    "ReleaseTier",
    "RunnerKind",
    "SemanticFamily",
    "StrEnum",
    "SupportStatus",
    "TracePhase",
]


class StrEnum(enum.StrEnum):
    """A string enumeration whose ``str()`` is the value."""

    @classmethod
    def _missing_(cls, value: object) -> StrEnum | None:
        allowed = ", ".join(member.value for member in cls)
        raise ValidationError(f"{cls.__name__} must be one of {allowed}; got {value!r:.80}")


class SemanticFamily(StrEnum):
    """What an intervention changes about the input."""

    REFORMULATE = "reformulate"
    DECOMPOSE = "decompose"
    ACQUIRE = "acquire"
    CLARIFY = "clarify"
    CURATE = "curate"
    COMPOSITE = "composite"
    NO_OP = "no_op"


class ReleaseTier(StrEnum):
    """Whether a method belongs to the core roster."""

    CORE = "core"
    OPTIONAL = "optional"


class ExecutionKind(StrEnum):
    """How a release is executed."""

    RUNTIME = "runtime"
    COMPONENT = "component"
    COMPOSITE = "composite"
    TRAINING_RECIPE = "training_recipe"
    ARTIFACT_REPLAY = "artifact_replay"


class ImplementationKind(StrEnum):
    """Where the implementation of a release comes from."""

    OFFICIAL_ADAPTER = "official_adapter"
    COMMUNITY_IMPLEMENTATION = "community_implementation"
    PAPER_REIMPLEMENTATION = "paper_reimplementation"
    THIN_EXTERNAL_WRAPPER = "thin_external_wrapper"
    ARTIFACT_REPLAY = "artifact_replay"


class ProfileKind(StrEnum):
    """How close to its origin a release runs in an experiment."""

    OFFICIAL_NATIVE = "official_native"
    CONTROLLED_ADAPTER = "controlled_adapter"
    FACTORIAL_ADAPTER = "factorial_adapter"


class SupportStatus(StrEnum):
    """How far the support of a method or release has come."""

    SOURCE_AUDITED = "source_audited"
    PLANNED = "planned"
    EXTERNAL_ONLY = "external_only"
    NATIVE_ONLY = "native_only"
    RETRAIN_REQUIRED = "retrain_required"
    BLOCKED = "blocked"
    EXPERIMENTAL = "experimental"
    SUPPORTED = "supported"


class PatchOp(StrEnum):
    """One kind of change to a visible state."""

    REPLACE_QUERY = "replace_query"
    APPEND_QUERY = "append_query"
    REPLACE_INSTRUCTION = "replace_instruction"
    APPEND_INSTRUCTION = "append_instruction"
    ADD_CONTEXT = "add_context"
    REPLACE_CONTEXT = "replace_context"
    ADD_MESSAGE = "add_message"
    REPLACE_MESSAGES = "replace_messages"
    SET_METADATA = "set_metadata"
    REQUEST_CLARIFICATION = "request_clarification"
    NO_OP = "no_op"


class TracePhase(StrEnum):
    """Where in a run an event happened."""

    PREPARE = "prepare"
    PROPOSE = "propose"
    OBSERVE = "observe"
    FINALIZE = "finalize"
    ERROR = "error"


class DependencyRole(StrEnum):
    """What part a dependency plays in a comparison."""

    TREATMENT = "treatment"
    NUISANCE = "nuisance"
    CROSSED = "crossed"


class EvidenceKind(StrEnum):
    """What a piece of evidence is."""

    RETRIEVED_DOCUMENT = "retrieved_document"
    SYNTHETIC_QUERY_SURROGATE = "synthetic_query_surrogate"
    TOOL_OBSERVATION = "tool_observation"


class RunnerKind(StrEnum):
    """What a release needs to run."""

    CORE = "core"
    OPTIONAL_EXTRA = "optional_extra"
    EXTERNAL_WORKER = "external_worker"
    REPLAY_ONLY = "replay_only"
