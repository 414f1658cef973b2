"""How a call of a model over HTTP fails. No text carries a body, an address or a key."""

from agentinputlab.contracts.errors import ExternalDependencyError

__all__ = [
    "ContextLengthExceededError",
    "OpenAICompatibleError",
    "OpenAICompatibleResponseError",
    "OpenAICompatibleTransportError",
    "status_text",
]


def status_text(status: int) -> str:
    """Give the text of the error for an answer with this HTTP status; receipts keep its hash."""
    return f"model endpoint answered with HTTP status {status}"


class OpenAICompatibleError(ExternalDependencyError):
    """A model endpoint gave no usable answer."""


class OpenAICompatibleTransportError(OpenAICompatibleError):
    """No answer came, or one with a status other than 200.

    Attributes:
        http_status: the status, or None when the connection failed.
    """

    def __init__(self, message: str, *, http_status: int | None = None) -> None:
        super().__init__(message)
        self.http_status = http_status


class ContextLengthExceededError(OpenAICompatibleTransportError):
    """The endpoint refused a request because it is longer than what the model can read."""


class OpenAICompatibleResponseError(OpenAICompatibleError):
    """An answer came and cannot be used: no strict JSON, a field missing, too long, or it repeats the key."""
