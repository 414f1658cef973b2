"""A scripted model asked in this process, with the rules and the failures it would have over HTTP."""

from __future__ import annotations

import time

from agentinputlab.backends.chat import ChatReply, Fault, FaultKind, completion_body
from agentinputlab.backends.llm._completion import parse_completion
from agentinputlab.backends.llm._errors import OpenAICompatibleResponseError, OpenAICompatibleTransportError
from agentinputlab.backends.llm._protocol import CAPABILITIES, Capability, require_capabilities
from agentinputlab.backends.llm._types import GenerationRequest, GenerationResponse
from agentinputlab.backends.scripted import ScriptedRules
from agentinputlab.backends.tokens import TOKEN_COUNTER
from agentinputlab.contracts.serialization import content_hash

__all__ = ["ScriptedBackend"]

_NO_ANSWER = (FaultKind.DROP_CONNECTION, FaultKind.TRUNCATED)


class ScriptedBackend:
    """Answer by the rules of a script (`agentinputlab.backends.scripted`).

    A rule that injects a fault raises the same exception here as `OpenAICompatibleBackend` raises when a server with
    the same rules answers it.

    Args:
        rules: the script.
        model_id: name of the model that is asked for; by default the script's.
    """

    capabilities = CAPABILITIES - {Capability.STREAMING, Capability.LOGPROBS}
    token_counter = TOKEN_COUNTER

    def __init__(self, rules: ScriptedRules, *, model_id: str | None = None) -> None:
        self.model_id = rules.model if model_id is None else model_id
        self._rules = rules

    def generate(self, request: GenerationRequest) -> GenerationResponse:
        """Answer by the first rule that fits.

        Raises:
            ChatRefusalError: no rule fits.
            OpenAICompatibleTransportError: the rule injects an HTTP error or a lost connection.
            OpenAICompatibleResponseError: the rule injects an answer that cannot be used.
            CapabilityError: the request needs log probabilities.
        """
        require_capabilities(self, request.required_capabilities)
        body = request.chat_body(self.model_id)
        reply = self._rules.respond(body)
        time.sleep(reply.delay_seconds)
        if reply.fault is not None:
            raise _error(reply.fault)
        return _response(reply, body)

    def fingerprint(self) -> str:
        """Give the content hash of the script and the model's name."""
        return content_hash({"backend": "scripted", "model_id": self.model_id, "rules": self._rules.rules_hash})


def _response(reply: ChatReply, body: dict[str, object]) -> GenerationResponse:
    return parse_completion(completion_body(reply, body), model_id=str(body["model"]))


def _error(fault: Fault) -> OpenAICompatibleTransportError | OpenAICompatibleResponseError:
    if fault.kind is FaultKind.HTTP_ERROR:
        return OpenAICompatibleTransportError(
            f"model endpoint answered with HTTP status {fault.status}", http_status=fault.status
        )
    if fault.kind in _NO_ANSWER:
        return OpenAICompatibleTransportError("model endpoint did not answer")
    return OpenAICompatibleResponseError(f"model endpoint gave an unusable answer: {fault.kind}")
