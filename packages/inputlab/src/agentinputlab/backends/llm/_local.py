"""Backends without a model: a function, and answers recorded before."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import cast

from agentinputlab.backends._recorded_order import RecordedOrder
from agentinputlab.backends.llm._protocol import CAPABILITIES, Capability, capability_set, require_capabilities
from agentinputlab.backends.llm._types import GenerationRequest, GenerationResponse, Usage
from agentinputlab.backends.tokens import TOKEN_COUNTER, count_prompt_tokens, count_tokens
from agentinputlab.contracts._checks import text
from agentinputlab.contracts.errors import AlgorithmOutputError, ValidationError
from agentinputlab.contracts.serialization import content_hash

__all__ = ["CallableBackend", "ReplayBackend"]

_ANSWERABLE = CAPABILITIES - {Capability.STREAMING}


class CallableBackend:
    """Ask a function in place of a model.

    The function gives a `GenerationResponse`, or a text whose tokens are then counted as words and punctuation. Code
    has no stable identity by itself, so the caller names it: change ``revision`` whenever the function changes.

    Args:
        fn: from a request to its answer.
        model_id: name of the model it stands for.
        revision: version of the function.
        callable_id: name of the function.
        capabilities: what it can do.

    Attributes:
        calls: the requests so far, in order.
        token_counter: who counts the tokens of texts.
    """

    token_counter = TOKEN_COUNTER

    def __init__(
        self,
        fn: Callable[[GenerationRequest], GenerationResponse | str],
        *,
        model_id: str,
        revision: str,
        callable_id: str,
        capabilities: Iterable[str] = _ANSWERABLE,
    ) -> None:
        if not callable(cast("object", fn)):
            raise ValidationError(f"CallableBackend.fn must be callable, got {type(fn).__name__}")
        self.model_id = text(model_id, "CallableBackend.model_id")
        self.revision = text(revision, "CallableBackend.revision")
        self.callable_id = text(callable_id, "CallableBackend.callable_id")
        self.capabilities = capability_set(capabilities, "CallableBackend.capabilities")
        self.calls: list[GenerationRequest] = []
        self._fn = fn

    def generate(self, request: GenerationRequest) -> GenerationResponse:
        """Call the function once; whatever it raises reaches the caller.

        Raises:
            CapabilityError: the request needs something that the backend does not claim.
            AlgorithmOutputError: the function gave neither a response nor a text.
        """
        require_capabilities(self, request.required_capabilities)
        self.calls.append(request)
        answer = cast("object", self._fn(request))
        if isinstance(answer, GenerationResponse):
            return answer
        if not isinstance(answer, str):
            raise AlgorithmOutputError(
                f"{self.callable_id} must give a GenerationResponse or a string, got {type(answer).__name__}"
            )
        body = request.chat_body(self.model_id)
        usage = Usage(count_prompt_tokens(body["messages"], body.get("tools", ())), count_tokens(answer))
        return GenerationResponse(text=answer, model=self.model_id, finish_reason="stop", usage=usage)

    def fingerprint(self) -> str:
        """Give the content hash of the names and the version that the caller gave."""
        return content_hash(
            {
                "backend": "callable",
                "model_id": self.model_id,
                "revision": self.revision,
                "callable_id": self.callable_id,
                "capabilities": sorted(self.capabilities),
            }
        )


class ReplayBackend:
    """Give recorded answers in their order, each once.

    Args:
        responses: the answers.
        strict_request_hashes: hash of the request that each answer belongs to; empty accepts any request.
        model_id: name of the recorded model; by default that of the first answer.
    """

    capabilities = _ANSWERABLE

    def __init__(
        self,
        responses: Sequence[GenerationResponse],
        *,
        strict_request_hashes: Sequence[str] = (),
        model_id: str | None = None,
    ) -> None:
        self._recorded = RecordedOrder(responses, GenerationResponse, strict_request_hashes, owner="ReplayBackend")
        first = self._recorded.answers[0].model if self._recorded.answers else "replay"
        self.model_id = first if model_id is None else text(model_id, "ReplayBackend.model_id")

    @property
    def remaining(self) -> int:
        """How many answers are left."""
        return self._recorded.remaining

    def generate(self, request: GenerationRequest) -> GenerationResponse:
        """Give the next answer; a refused request takes none.

        Raises:
            ArtifactError: no answer is left, or the next one belongs to another request.
        """
        return self._recorded.take(request.request_hash)

    def fingerprint(self) -> str:
        """Give the content hash of all recorded answers and of the requests they belong to."""
        recorded = self._recorded
        return content_hash(
            {"backend": "replay", "responses": recorded.answers, "request_hashes": recorded.request_hashes}
        )
