"""What every language model backend is, and what it may be able to do."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, runtime_checkable

from agentinputlab.backends.llm._types import GenerationRequest, GenerationResponse
from agentinputlab.contracts.enums import StrEnum
from agentinputlab.contracts.errors import CapabilityError, ValidationError

__all__ = ["CAPABILITIES", "Capability", "LLMBackend", "capability_set", "require_capabilities"]


class Capability(StrEnum):
    """What a backend may be able to do."""

    CHAT = "chat"
    COMPLETION = "completion"
    JSON_OBJECT = "json_object"
    JSON_SCHEMA = "json_schema"
    TOOL_CALLING = "tool_calling"
    LOGPROBS = "logprobs"
    SEED = "seed"
    STREAMING = "streaming"


CAPABILITIES = frozenset(item.value for item in Capability)
"""Every capability that has a name."""


@runtime_checkable
class LLMBackend(Protocol):
    """Something that answers a `GenerationRequest`, in one attempt."""

    @property
    def model_id(self) -> str:
        """The model it asks."""
        ...

    @property
    def capabilities(self) -> frozenset[str]:
        """What it can do, names of `Capability`."""
        ...

    def generate(self, request: GenerationRequest) -> GenerationResponse:
        """Answer one request."""
        ...

    def fingerprint(self) -> str:
        """Give a content hash of everything that decides its answers."""
        ...


def require_capabilities(backend: LLMBackend, required: Iterable[str]) -> None:
    """Check that a backend can do what will be asked of it.

    Raises:
        CapabilityError: it cannot; the message names what is missing.
        ValidationError: a name is no capability.
    """
    missing = sorted(capability_set(required, "required") - backend.capabilities)
    if missing:
        raise CapabilityError(f"backend {backend.model_id} cannot do {', '.join(missing)}, which the request needs")


def capability_set(names: Iterable[str], field: str) -> frozenset[str]:
    """Give names of capabilities as a set of plain strings."""
    if isinstance(names, str):
        raise ValidationError(f"{field} must be a collection of capabilities, got a string")
    chosen = frozenset(str(name) for name in names)
    unknown = sorted(chosen - CAPABILITIES)
    if unknown:
        raise ValidationError(f"{field} has the unknown {unknown[0]!r:.80}; known: {', '.join(sorted(CAPABILITIES))}")
    return chosen
