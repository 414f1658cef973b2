"""Language models: what is asked, what is answered, and the backends that answer.

A backend makes exactly one attempt per call, says what the call used, and has a fingerprint that changes whenever its
answers could. Nothing here opens a connection unless an `OpenAICompatibleBackend` is asked.
"""

from agentinputlab.backends.llm._http import (
    ContextLengthExceededError,
    OpenAICompatibleBackend,
    OpenAICompatibleError,
    OpenAICompatibleResponseError,
    OpenAICompatibleTransportError,
)
from agentinputlab.backends.llm._local import CallableBackend, ReplayBackend
from agentinputlab.backends.llm._protocol import CAPABILITIES, Capability, LLMBackend, require_capabilities
from agentinputlab.backends.llm._scripted import ScriptedBackend
from agentinputlab.backends.llm._types import GenerationRequest, GenerationResponse, Usage

__all__ = [
    "CAPABILITIES",
    "CallableBackend",
    "Capability",
    "ContextLengthExceededError",
    "GenerationRequest",
    "GenerationResponse",
    "LLMBackend",
    "OpenAICompatibleBackend",
    "OpenAICompatibleError",
    "OpenAICompatibleResponseError",
    "OpenAICompatibleTransportError",
    "ReplayBackend",
    "ScriptedBackend",
    "Usage",
    "require_capabilities",
]
