"""One request to, and one answer of, a worker that runs one method."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, cast

from agentinputlab.contracts._checks import Record, digest, exact_fields, flag, frozen, put, text
from agentinputlab.contracts.errors import ValidationError
from agentinputlab.contracts.protocols import METHOD_WORKER_PROTOCOL
from agentinputlab.contracts.serialization import content_hash, to_jsonable
from agentinputlab.observability.resources import ResourceReceipt
from agentinputlab.observability.usage import ResourceUsage, normalize_external_usage

__all__ = ["MethodWorkerRequest", "MethodWorkerResponse"]


_FAILURE_CODE = re.compile(r"[A-Z][A-Z0-9_]{0,63}")


@dataclass(frozen=True, slots=True)
class MethodWorkerRequest(Record):
    """What a worker is asked to do.

    Attributes:
        method_id: the method.
        release_id: the release of it.
        upstream_commit: revision of the code that the worker runs.
        state_hash: hash of the state that the method runs on.
        payload: what the method needs, JSON values.
        dependency_fingerprints: slot to identity of what fills it.
        minimum_reservation: what the call will use at the least; held on the budget until the worker reports.
        protocol_version: version of the protocol.
    """

    method_id: str
    release_id: str
    upstream_commit: str
    state_hash: str
    payload: Mapping[str, Any] = field(default_factory=dict[str, Any])
    dependency_fingerprints: Mapping[str, str] = field(default_factory=dict[str, Any])
    minimum_reservation: ResourceUsage = field(default_factory=ResourceUsage)
    protocol_version: str = METHOD_WORKER_PROTOCOL

    def __post_init__(self) -> None:
        for name in ("method_id", "release_id", "upstream_commit", "protocol_version"):
            text(getattr(self, name), f"MethodWorkerRequest.{name}")
        digest(self.state_hash, "MethodWorkerRequest.state_hash")
        if not isinstance(cast("object", self.minimum_reservation), ResourceUsage):
            raise ValidationError(
                "MethodWorkerRequest.minimum_reservation must be a ResourceUsage, "
                f"got {type(self.minimum_reservation).__name__}"
            )
        identities = frozen(self.dependency_fingerprints, "MethodWorkerRequest.dependency_fingerprints")
        for slot, identity in identities.items():
            text(identity, f"MethodWorkerRequest.dependency_fingerprints[{slot!r}]")
        payload = frozen(self.payload, "MethodWorkerRequest.payload")
        put(self, payload=payload, dependency_fingerprints=identities)

    @property
    def request_id(self) -> str:
        """The content hash of all fields."""
        return content_hash(self)

    def as_dict(self) -> dict[str, Any]:
        """Give the request with its id as JSON values, as it goes to the worker."""
        return {**to_jsonable(self), "request_id": self.request_id}

    @classmethod
    def from_dict(cls, value: object) -> MethodWorkerRequest:
        """Give the request that `as_dict` described, for the worker's side.

        Raises:
            ValidationError: a field is unknown, missing or wrong, or the id is not that of the fields.
        """
        names = [field.name for field in fields(cls)]
        mapping: dict[str, Any] = dict(
            exact_fields(value, "method worker request", allowed=(*names, "request_id"), required=names)
        )
        reservation = exact_fields(
            mapping["minimum_reservation"],
            "method worker request.minimum_reservation",
            allowed=[field.name for field in fields(ResourceUsage)],
        )
        request_id = mapping.pop("request_id", None)
        mapping["minimum_reservation"] = ResourceUsage(**reservation)
        request = cls(**mapping)
        if request_id != request.request_id:
            raise ValidationError("method worker request.request_id is not the content hash of the fields")
        return request


@dataclass(frozen=True, slots=True)
class MethodWorkerResponse(Record):
    """What a worker answered.

    Attributes:
        request_id: id of the request.
        status: ``ok`` or ``error``.
        payload: the result, JSON values; empty for an error.
        usage: what it used, as `agentinputlab.observability.normalize_external_usage` reads it; None when unknown.
        failure_code: which error; None when all is well.
        message: what a person should know about the error.
        consumed: whether an error came after something was used.
        protocol_version: version of the protocol.
        resource_receipt: what the process took; made on this side, never read from the worker.
    """

    request_id: str
    status: Literal["ok", "error"]
    payload: Mapping[str, Any] = field(default_factory=dict[str, Any])
    usage: Mapping[str, Any] | None = None
    failure_code: str | None = None
    message: str = ""
    consumed: bool = True
    protocol_version: str = METHOD_WORKER_PROTOCOL
    resource_receipt: ResourceReceipt | None = None

    def __post_init__(self) -> None:
        digest(self.request_id, "MethodWorkerResponse.request_id")
        text(self.message, "MethodWorkerResponse.message", blank=True)
        text(self.protocol_version, "MethodWorkerResponse.protocol_version")
        flag(self.consumed, "MethodWorkerResponse.consumed")
        put(self, payload=frozen(self.payload, "MethodWorkerResponse.payload"))
        if self.usage is not None:
            usage = frozen(self.usage, "MethodWorkerResponse.usage")
            normalize_external_usage(usage)
            put(self, usage=usage)
        if self.status not in ("ok", "error"):
            raise ValidationError(f"MethodWorkerResponse.status must be ok or error, got {self.status!r:.80}")
        if self.status == "error":
            if not _FAILURE_CODE.fullmatch(text(self.failure_code, "MethodWorkerResponse.failure_code of an error")):
                raise ValidationError("MethodWorkerResponse.failure_code must be a code like UPSTREAM_OUTPUT_INVALID")
            if self.payload:
                raise ValidationError("MethodWorkerResponse.payload of an error must be empty")
        elif self.failure_code is not None or self.message:
            raise ValidationError("MethodWorkerResponse.failure_code and .message belong to errors only")

    @classmethod
    def from_dict(cls, value: object) -> MethodWorkerResponse:
        """Give the answer that a mapping describes.

        Raises:
            ValidationError: a field is unknown, missing or wrong; it is named.
        """
        names = [field.name for field in fields(cls) if field.name != "resource_receipt"]
        return cls(**exact_fields(value, "method worker response", allowed=names, required=("request_id", "status")))

    def as_dict(self) -> dict[str, Any]:
        """Give the answer as JSON values, as it comes from the worker."""
        return {name: value for name, value in to_jsonable(self).items() if name != "resource_receipt"}
