"""Who answers a question back: a function, or answers recorded before."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, cast, runtime_checkable

from agentinputlab.backends._recorded_order import RecordedOrder
from agentinputlab.contracts._checks import Record, entries, frozen, put, text
from agentinputlab.contracts.errors import AlgorithmOutputError, ValidationError
from agentinputlab.contracts.serialization import content_hash
from agentinputlab.contracts.state import Message

__all__ = ["CallableUserResponder", "ReplayUserResponder", "UserRequest", "UserResponder", "UserResponse"]


@dataclass(frozen=True, slots=True)
class UserRequest(Record):
    """A question to the user.

    Attributes:
        question: what is asked.
        messages: the conversation so far.
        metadata: JSON values, such as a task id.
    """

    question: str = field(repr=False)
    messages: tuple[Message, ...] = field(default=(), repr=False)
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def __post_init__(self) -> None:
        text(self.question, "UserRequest.question")
        put(
            self,
            messages=entries(self.messages, "UserRequest.messages", Message),
            metadata=frozen(self.metadata, "UserRequest.metadata"),
        )

    @property
    def request_hash(self) -> str:
        """The content hash of all fields."""
        return content_hash(self)


@dataclass(frozen=True, slots=True)
class UserResponse(Record):
    """What the user said.

    Attributes:
        text: the answer; not blank.
        metadata: JSON values.
    """

    text: str = field(repr=False)
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def __post_init__(self) -> None:
        text(self.text, "UserResponse.text")
        put(self, metadata=frozen(self.metadata, "UserResponse.metadata"))


@runtime_checkable
class UserResponder(Protocol):
    """Something that answers in the place of a user."""

    @property
    def responder_id(self) -> str:
        """Its name."""
        ...

    def respond(self, request: UserRequest) -> UserResponse:
        """Answer one question."""
        ...

    def fingerprint(self) -> str:
        """Give a content hash of everything that decides its answers."""
        ...


class CallableUserResponder:
    """Ask a function in place of a user.

    Args:
        fn: from a question to a `UserResponse` or a text.
        responder_id: name of the function.
        revision: version of the function; code has no stable identity by itself.
    """

    def __init__(self, fn: Callable[[UserRequest], UserResponse | str], *, responder_id: str, revision: str) -> None:
        if not callable(cast("object", fn)):
            raise ValidationError(f"CallableUserResponder.fn must be callable, got {type(fn).__name__}")
        self.responder_id = text(responder_id, "CallableUserResponder.responder_id")
        self.revision = text(revision, "CallableUserResponder.revision")
        self._fn = fn

    def respond(self, request: UserRequest) -> UserResponse:
        """Call the function once.

        Raises:
            AlgorithmOutputError: it gave neither a response nor a text with something in it.
        """
        answer = cast("object", self._fn(request))
        if isinstance(answer, UserResponse):
            return answer
        if not isinstance(answer, str) or not answer.strip():
            raise AlgorithmOutputError(f"{self.responder_id} must give a UserResponse or a text that is not blank")
        return UserResponse(answer)

    def fingerprint(self) -> str:
        """Give the content hash of name and version."""
        return content_hash({"user": "callable", "responder_id": self.responder_id, "revision": self.revision})


class ReplayUserResponder:
    """Give recorded answers in their order, each once.

    Args:
        responses: the answers.
        strict_request_hashes: hash of the question that each answer belongs to; empty accepts any question.
        responder_id: name of the recording.
    """

    def __init__(
        self,
        responses: Sequence[UserResponse],
        *,
        strict_request_hashes: Sequence[str] = (),
        responder_id: str = "replay-user",
    ) -> None:
        self._recorded = RecordedOrder(responses, UserResponse, strict_request_hashes, owner="ReplayUserResponder")
        self.responder_id = text(responder_id, "ReplayUserResponder.responder_id")

    def respond(self, request: UserRequest) -> UserResponse:
        """Give the next answer; a refused question takes none.

        Raises:
            ArtifactError: no answer is left, or the next one belongs to another question.
        """
        return self._recorded.take(request.request_hash)

    def fingerprint(self) -> str:
        """Give the content hash of all answers and of the questions they belong to."""
        recorded = self._recorded
        return content_hash(
            {"user": "replay", "responses": recorded.answers, "request_hashes": recorded.request_hashes}
        )
