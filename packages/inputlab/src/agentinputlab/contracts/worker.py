"""One request to, and one answer from, a worker outside this process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from agentinputlab.contracts._checks import Record, digest, frozen, load, optional_text, put, text
from agentinputlab.contracts.errors import ValidationError

__all__ = ["SCHEMA_VERSION", "WorkerRequest", "WorkerResponse"]

SCHEMA_VERSION = 1
"""The version of requests and answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerRequest(Record):
    """What a worker is asked to do.

    Attributes:
        schema_version: 1.
        release_id: the release to run.
        request_id: name of the request, which the answer repeats.
        payload: what the release needs, JSON values.
        dependency_hashes: slot to SHA-256 of what fills it.
    """

    schema_version: int = SCHEMA_VERSION
    release_id: str
    request_id: str
    payload: Mapping[str, Any] = field(default_factory=dict[str, Any])
    dependency_hashes: Mapping[str, str] = field(default_factory=dict[str, Any])

    def __post_init__(self) -> None:
        _version(self.schema_version, "WorkerRequest.schema_version")
        text(self.release_id, "WorkerRequest.release_id")
        text(self.request_id, "WorkerRequest.request_id")
        hashes = frozen(self.dependency_hashes, "WorkerRequest.dependency_hashes")
        for slot, value in hashes.items():
            digest(value, f"WorkerRequest.dependency_hashes[{slot!r}]")
        put(self, payload=frozen(self.payload, "WorkerRequest.payload"), dependency_hashes=hashes)

    @classmethod
    def from_dict(cls, value: object) -> WorkerRequest:
        """Give the request that a mapping describes.

        Raises:
            ValidationError: an unknown, missing or wrong field, which is named.
        """
        return load(cls, value, "worker request")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerResponse(Record):
    """What a worker answered.

    Attributes:
        schema_version: 1.
        request_id: name of the request.
        status: ``ok`` or ``error``.
        payload: the result, JSON values; empty for an error.
        error_code: which error; None when all is well.
        error_message: what a person should know about it; None when all is well.
    """

    schema_version: int = SCHEMA_VERSION
    request_id: str
    status: Literal["ok", "error"]
    payload: Mapping[str, Any] = field(default_factory=dict[str, Any])
    error_code: str | None = None
    error_message: str | None = None

    def __post_init__(self) -> None:
        _version(self.schema_version, "WorkerResponse.schema_version")
        text(self.request_id, "WorkerResponse.request_id")
        put(self, payload=frozen(self.payload, "WorkerResponse.payload"))
        optional_text(self.error_code, "WorkerResponse.error_code")
        optional_text(self.error_message, "WorkerResponse.error_message")
        if self.status not in ("ok", "error"):
            raise ValidationError(f"WorkerResponse.status must be ok or error, got {self.status!r:.80}")
        if self.status == "ok" and (self.error_code is not None or self.error_message is not None):
            raise ValidationError("WorkerResponse.error_code and .error_message belong to errors only")
        if self.status == "error" and (self.error_code is None or self.payload):
            raise ValidationError("WorkerResponse of an error must have an error_code and no payload")

    @classmethod
    def from_dict(cls, value: object) -> WorkerResponse:
        """Give the answer that a mapping describes.

        Raises:
            ValidationError: an unknown, missing or wrong field, which is named.
        """
        return load(cls, value, "worker response")


def _version(value: object, name: str) -> None:
    if type(value) is not int or value != SCHEMA_VERSION:
        raise ValidationError(f"{name} must be {SCHEMA_VERSION}, got {value!r:.80}")
