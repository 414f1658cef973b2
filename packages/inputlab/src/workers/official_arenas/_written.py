"""JSON objects whose every byte is as receipts are written, each looked at once for all that is asked of it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, cast

from ripieno.canonical import canonical_json, strict_loads
from workers.official_arenas._errors import OfficialArenaError
from workers.official_arenas._evidence import (
    MAX_EVIDENCE_BYTES,
    evidence_bytes,
    is_plain,
    parse_object,
    plain_hash,
    sha256_bytes,
)
from workers.official_arenas._reading import written_value
from workers.official_arenas.protocol import content_hash, materialized_state

__all__ = ["RequestReading", "Written", "read_request", "written_object"]

REQUEST_HASH = "request_hash"


@dataclass(frozen=True, slots=True)
class Written:
    """An object as it was written.

    Attributes:
        value: the object.
        content_hash: of it, without the member that was left out.
        is_plain: whether all of it is plain, see `workers.official_arenas._evidence.is_plain`.
    """

    value: dict[str, Any]
    content_hash: str
    is_plain: bool


def written_object(data: bytes, *, without: str | None = None) -> Written:
    """Read an object that must be byte for byte as `evidence_bytes` writes it.

    Args:
        data: all bytes of the file.
        without: the member that holds the hash of the others; it is left out of `Written.content_hash`.

    Raises:
        OfficialArenaError: no JSON object, or a byte is not as it is written.
    """
    found = written_value(data, max_bytes=MAX_EVIDENCE_BYTES)
    value = cast("dict[str, Any]", found) if isinstance(found, dict) else parse_object(data)
    content = {name: item for name, item in value.items() if name != without}
    canonical = canonical_json(content)
    plain = is_plain(content, canonical) and isinstance(value.get(without or "", ""), str)
    # Of a plain value orjson writes the bytes of a receipt, and `written_value` has compared them.
    if not (plain and value is found) and evidence_bytes(value) != data:
        raise OfficialArenaError("Retail evidence is not as it was written")
    return Written(value, sha256_bytes(canonical), plain)


@dataclass(frozen=True)
class RequestReading:
    """The request of a pair, read once.

    Attributes:
        data: all bytes of the file.
        envelope: what it says.
        written: the same with its hash; None when a byte is not as it is written.
    """

    data: bytes
    envelope: Any
    written: Written | None

    @cached_property
    def identity(self) -> dict[str, Any]:
        """What makes the pair the pair that it is, see `workers.official_arenas.retail_driver.cell_identity`.

        Raises:
            OfficialArenaError: a state has another hash than the request says.
            LookupError, TypeError, AttributeError: it has not the shape of a request.
        """
        from workers.official_arenas import retail_driver

        if self.written is None or not self.written.is_plain:
            return retail_driver.cell_identity(self.envelope)
        atomic = self.envelope.get("atomic_request", self.envelope)
        state_of = partial(materialized_state, hash_of=plain_hash)
        return retail_driver._identity_with(atomic, state_of)  # pyright: ignore[reportPrivateUsage] - same package

    @cached_property
    def cell_id(self) -> str:
        """The name of the pair's ledger; raises as `identity`."""
        is_plain_one = self.written is not None and self.written.is_plain
        return plain_hash(self.identity) if is_plain_one else content_hash(self.identity)


def read_request(data: bytes) -> RequestReading:
    """Read a request.

    Raises:
        InputError: no JSON, or JSON that two readers could understand differently.
    """
    try:
        written = written_object(data, without=REQUEST_HASH)
    except OfficialArenaError:
        return RequestReading(data, strict_loads(data, max_bytes=MAX_EVIDENCE_BYTES), None)
    return RequestReading(data, written.value, written)
