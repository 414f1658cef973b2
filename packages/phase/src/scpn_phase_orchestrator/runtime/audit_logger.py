"""The audit log of a run: a hash-chained file of JSON lines from which every step can be executed again.

    header     what was run: size, step, method, spec
    step       what went into one step, the state that came out of it, and what the supervisor decided
    event      anything else worth keeping
    closing    the last line; a log without it was interrupted

The lines are described in `scpn_phase_orchestrator.runtime._audit_lines`. Arrays that seldom change (``knm``,
``alpha``, ``omegas``, ``mu``, ``knm_r``) are written in full when they are new; afterwards ``<name>_ref`` names them,
see `array_reference`.
"""

from __future__ import annotations

import hashlib
import json
import math
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np
import orjson
from numpy.typing import NDArray

from ripieno.chain import ChainWriter, Entry, FsyncPolicy, verify_chain
from ripieno.errors import RipienoError, StorageError
from scpn_phase_orchestrator.exceptions import AuditError
from scpn_phase_orchestrator.runtime._array_references import REFERENCED_ARRAYS, ReferenceTable, array_reference
from scpn_phase_orchestrator.runtime._audit_lines import (
    MAX_ORDER_PARAMETER,
    SIGNED,
    AuditLines,
    Encoded,
    RecordKind,
    compact_json,
    is_event_name,
    is_reserved,
    record_kind,
)
from scpn_phase_orchestrator.runtime._platform import platform_identity
from scpn_phase_orchestrator.runtime.audit_signing import audit_signer, audit_verification_keys, is_production_audit
from scpn_phase_orchestrator.runtime.audit_stream import EventStreamWriter, stream_integrity

if TYPE_CHECKING:
    from scpn_phase_orchestrator.actuation.mapper import ControlAction
    from scpn_phase_orchestrator.coupling.modulation import Modulation
    from scpn_phase_orchestrator.upde.metrics import LayerState, UPDEState

__all__ = ["AuditLogger", "AuditStreamIntegrityResult"]

CONTROL_MODE = "supervisor_policy"
METHODS = ("euler", "rk4", "rk45")


@dataclass(frozen=True)
class AuditStreamIntegrityResult:
    """What the check of an event stream found.

    Attributes:
        event_stream_path: the stream.
        ok: whether every event holds.
        verified_events: how many hold from the first on.
    """

    event_stream_path: str
    ok: bool
    verified_events: int

    def to_audit_record(self) -> dict[str, Any]:
        """Give the fields as JSON values."""
        return asdict(self)


class AuditLogger:
    """Write an audit log; every record is handed to the operating system before the call returns.

    A new path is created. An existing log that was interrupted is verified and continued: the next record names the
    last whole one as its predecessor, and half a line is overwritten. A log that was closed, or that another process
    is writing, is refused.

    Used as a context manager, the log is closed at the end of the block; an exception is recorded in the closing
    record, and an interrupt (Ctrl-C) leaves the log open, so that it can be continued.

    Args:
        path: the log.
        event_stream: also send every record there: the path of an event stream, which then belongs to this logger,
            or a writer, which stays the caller's.
        create_only: refuse any existing file.
        fsync: when lines are made durable, as in `ripieno.chain.ChainWriter`.

    Raises:
        AuditError: the log cannot be written, continued or signed as the environment asks; names the line.

    Examples:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "run.jsonl"
        >>> with AuditLogger(path) as log:
        ...     log.log_header(n_oscillators=2, dt=0.01, seed=7)
        ...     log.log_event("note", {"text": "nothing happened"})
        >>> len(path.read_text().splitlines())
        3
    """

    def __init__(
        self,
        path: Path | str,
        *,
        event_stream: EventStreamWriter | Path | str | None = None,
        create_only: bool = False,
        fsync: FsyncPolicy = "batch",
    ) -> None:
        if not isinstance(cast("object", path), str | Path) or not str(path):
            raise AuditError(f"path must be a path, got {path!r}")
        if not isinstance(cast("object", event_stream), EventStreamWriter | Path | str | None):
            raise AuditError(f"event_stream must be a path or an EventStreamWriter, got {event_stream!r}")
        # Reentrant: an interrupt between taking and entering must not lock its own thread out.
        self._lock = threading.RLock()
        self._references = ReferenceTable[bool]()
        self._latest: dict[str, tuple[NDArray[np.float64], bytes, str]] = {}
        self._counts = dict.fromkeys(RecordKind, 0)
        self._is_continued = False
        self._lost: StorageError | None = None
        self._integrity: AuditStreamIntegrityResult | None = None
        self._stream: EventStreamWriter | None = None
        self._owns_stream = not isinstance(event_stream, EventStreamWriter)
        self._lines = _configured_lines()
        self._chain = self._open(Path(path), create_only=create_only, fsync=fsync)
        try:
            self._stream = _open_stream(event_stream, fsync)
        except BaseException:
            self._chain.abandon()
            raise
        self._latest_name = ""
        self._records_before = self._chain.sequence
        self._events_before = 0 if self._stream is None else self._stream.sequence

    def _open(self, path: Path, *, create_only: bool, fsync: FsyncPolicy) -> ChainWriter:
        try:
            return ChainWriter(path, fsync, line_format=self._lines)
        except FileExistsError as error:
            if create_only:
                raise AuditError(f"{path} exists already; two runs never share an audit log") from error
        except (RipienoError, OSError) as error:
            raise AuditError(f"cannot write the audit log {path}: {_reason(error)}") from error
        try:
            return ChainWriter.resume(path, fsync, line_format=self._lines, visit=self._take_existing)
        except (RipienoError, OSError) as error:
            raise AuditError(f"cannot continue the audit log {path}: {_reason(error)}") from error

    def _take_existing(self, entry: Entry) -> None:
        """Learn from a record that is there already what the next ones build on."""
        record = entry.payload
        kind = record_kind(record)
        if kind is RecordKind.CLOSING:
            return
        if record["_audit_mode"] == SIGNED and not self._lines.is_signing:
            raise AuditError(f"line {entry.sequence + 1} of the log is signed; set SPO_AUDIT_KEY to continue it")
        self._counts[kind] += 1
        self._is_continued = True
        for name in REFERENCED_ARRAYS:
            if name in record:
                self._references.use(name, array_reference(np.asarray(record[name], dtype=np.float64)), value=True)
            elif f"{name}_ref" in record:
                self._references.use(name, record[f"{name}_ref"], value=True)

    @property
    def path(self) -> Path:
        """The log."""
        return self._chain.path

    @property
    def records(self) -> int:
        """Number of lines in the log."""
        return self._chain.sequence

    @property
    def event_stream_integrity(self) -> AuditStreamIntegrityResult | None:
        """What the last check of the event stream found; ``None`` before one, or without a stream."""
        return self._integrity

    # --- records --------------------------------------------------------------------------------------------

    def log_header(
        self,
        n_oscillators: int,
        dt: float,
        method: str = "euler",
        seed: int | None = None,
        *,
        amplitude_mode: bool = False,
        control_mode: str = CONTROL_MODE,
        binding_config: Mapping[str, Any] | None = None,
        substeps: int | None = None,
        backend: str | None = None,
        layer_sizes: Sequence[int] | None = None,
    ) -> None:
        """Record what is run.

        In a log that is continued, the header also gets ``continuation``, the number of headers before it.

        Args:
            n_oscillators: number of oscillators.
            dt: integration step, in s.
            method: euler, rk4 or rk45.
            seed: of the run.
            amplitude_mode: whether amplitudes are simulated too.
            control_mode: what decided.
            binding_config: the resolved spec; ``binding_summary_ref``, its hash, stands for ``binding_summary``.
            substeps: integration steps per ``dt``.
            backend: what computes, `scpn_phase_orchestrator.upde.engine.ACTIVE_BACKEND`; the header also gets
                ``platform``. A replay where both are the same is compared bit by bit.
            layer_sizes: oscillators per layer, in the order of the spec; needed to replay modulated couplings.

        Raises:
            AuditError: a value is not what a header holds, or the log cannot be written.
        """
        _require(_is_integer(n_oscillators, 1), "n_oscillators must be a positive integer", n_oscillators)
        _require(_is_number(dt) and dt > 0, "dt must be positive and finite", dt)
        _require(method in METHODS, f"method must be one of {', '.join(METHODS)}", method)
        record: dict[str, Any] = {
            "header": True,
            "n_oscillators": n_oscillators,
            "dt": dt,
            "method": method,
            "control_mode": control_mode,
        }
        if seed is not None:
            _require(_is_integer(seed), "seed must be an integer", seed)
            record["seed"] = seed
        if amplitude_mode:
            record["amplitude_mode"] = True
        if binding_config is not None:
            record["binding_config"] = dict(binding_config)
            record["binding_summary_ref"] = hashlib.sha256(self._compact(binding_config)).hexdigest()
        if substeps is not None:
            _require(_is_integer(substeps, 1), "substeps must be a positive integer", substeps)
            record["substeps"] = substeps
        if backend is not None:
            record["backend"] = backend
            record["platform"] = platform_identity()
        if layer_sizes is not None:
            sizes = [int(size) for size in layer_sizes]
            _require(sum(sizes) == n_oscillators, f"layer_sizes must add up to {n_oscillators}", sizes)
            record["layer_sizes"] = sizes
        if self._is_continued and self._counts[RecordKind.HEADER]:
            record["continuation"] = self._counts[RecordKind.HEADER]
        self._append(RecordKind.HEADER, record)

    def log_step(
        self,
        step: int,
        state: UPDEState,
        actions: Sequence[ControlAction],
        *,
        phases: NDArray[np.float64] | None = None,
        omegas: NDArray[np.float64] | None = None,
        knm: NDArray[np.float64] | None = None,
        alpha: NDArray[np.float64] | None = None,
        zeta: float | NDArray[np.float64] = 0.0,
        psi_drive: float | NDArray[np.float64] = 0.0,
        channel_runtime: Mapping[str, Any] | None = None,
        amplitudes: NDArray[np.float64] | None = None,
        mu: NDArray[np.float64] | None = None,
        knm_r: NDArray[np.float64] | None = None,
        epsilon: float | None = None,
        modulation: Modulation | Mapping[str, Any] | None = None,
        regime_decided: str | None = None,
        phases_overridden: bool = False,
    ) -> None:
        """Record one step: its inputs as the engine got them, and what came out.

        Args:
            step: number of the step.
            state: the state after it; ``regime_id`` is the regime before the decision.
            actions: what the supervisor decided.
            phases: phases before the step, ``(n,)``, in rad; without them the step cannot be executed again, and the
                inputs that follow are not recorded.
            omegas: natural frequencies, ``(n,)``, in rad/s.
            knm: base coupling, ``(n, n)``.
            alpha: base lags, ``(n, n)``, in rad.
            zeta: drive strength; ``(n,)`` when it differs between oscillators.
            psi_drive: drive phase, likewise.
            channel_runtime: evidence of delayed and uncertain channels, when they changed something.
            amplitudes: amplitudes before the step, ``(n,)`` (amplitude mode).
            mu: base bifurcation parameters, ``(n,)`` (amplitude mode).
            knm_r: amplitude coupling, ``(n, n)`` (amplitude mode).
            epsilon: strength of the amplitude coupling (amplitude mode).
            modulation: how the effective matrices differ from the base.
            regime_decided: the regime after the decision.
            phases_overridden: a hook set the phases or amplitudes: they are not what the step before led to.

        Raises:
            AuditError: a value is not finite, an input is missing, or the log cannot be written.
        """
        record: dict[str, Any] = {
            "ts": time.time(),
            "step": step,
            "regime": state.regime_id,
            "stability": float(state.stability_proxy),
            "layers": _layer_list(state.layers),
            "actions": [_action_record(action) for action in actions],
        }
        if channel_runtime is not None:
            record["channel_runtime"] = dict(channel_runtime)
        if regime_decided is not None:
            record["regime_decided"] = regime_decided
        used: dict[str, tuple[NDArray[np.float64], bytes, str]] = {}
        with self._lock:
            if phases is not None:
                if omegas is None or knm is None or alpha is None:
                    raise AuditError("a step with phases needs omegas, knm and alpha as well")
                record["phases"] = _number_list("phases", phases)
                record["zeta"] = _number_or_list("zeta", zeta)
                record["psi_drive"] = _number_or_list("psi_drive", psi_drive)
                if amplitudes is not None:
                    record["amplitudes"] = _number_list("amplitudes", amplitudes)
                if epsilon is not None:
                    record["epsilon"] = float(epsilon)
                for name, array in zip(REFERENCED_ARRAYS, (knm, alpha, omegas, knm_r, mu), strict=True):
                    if array is not None:
                        used[name] = self._refer(record, name, array)
                if modulation is not None and (text := _modulation_record(modulation)):
                    record["modulation"] = text
                if phases_overridden:
                    record["phases_overridden"] = True
            self._write(RecordKind.STEP, record)
            for name, latest in used.items():
                self._latest[name] = latest
                self._references.use(name, latest[2], value=True)

    def log_event(self, event: str, data: Mapping[str, Any] | None = None) -> None:
        """Record something else.

        Args:
            event: what it is.
            data: further fields, JSON-safe; a ``step`` among them does not make it a step.

        Raises:
            AuditError: a name that is reserved, data that JSON cannot say, or the log cannot be written.
        """
        _require(is_event_name(event), "event must be a printable name of at most 128 characters", event)
        fields = dict(data or {})
        reserved = [key for key in fields if is_reserved(str(key))]
        _require(not reserved, "an event cannot have a field of that name", reserved)
        self._append(RecordKind.EVENT, {"ts": time.time(), "event": event, **fields})

    def _append(self, kind: RecordKind, record: dict[str, Any]) -> None:
        with self._lock:
            self._write(kind, record)

    def _write(self, kind: RecordKind, record: dict[str, Any]) -> None:
        try:
            self._catch_up()
            self._latest_name = record.get("event", kind.value)
            self._chain.append(record)
            self._counts[kind] += 1
            if self._stream is not None:
                self._stream.write_encoded(self._latest_name, Encoded(self._lines.last_stored))
        except (RipienoError, OSError, ValueError) as error:
            if isinstance(error, StorageError):
                self._lost = error
            raise AuditError(f"cannot record a {kind} in {self.path}: {_reason(error)}") from error

    def _catch_up(self) -> None:
        """Send the last record to the stream, if an interrupt or the file system came between log and stream."""
        if self._stream is None or not self._owns_stream:
            return
        if self._stream.sequence - self._events_before < self._chain.sequence - self._records_before:
            self._stream.write_encoded(self._latest_name, Encoded(self._lines.last_stored))

    def _compact(self, value: Mapping[str, Any]) -> bytes:
        try:
            return compact_json(value)
        except RipienoError as error:
            raise AuditError(f"cannot record a header in {self.path}: {error}") from error

    def _refer(
        self, record: dict[str, Any], name: str, array: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], bytes, str]:
        """Put an array into a record, in full or by reference; gives what is known about it."""
        latest = self._latest.get(name)
        if latest is not None and array is latest[0] and not array.flags.writeable:
            record[f"{name}_ref"] = latest[2]  # the very same array, and nobody can have changed it
            return latest
        values = np.ascontiguousarray(array, dtype="<f8")
        data = values.tobytes()
        if latest is not None and data == latest[1] and values.shape == latest[0].shape:
            record[f"{name}_ref"] = latest[2]
            return array, latest[1], latest[2]
        reference = array_reference(values)
        if self._references.find(name, reference) is None:
            record[name] = _number_list(name, values)
        else:
            record[f"{name}_ref"] = reference
        return array, data, reference

    # --- the end --------------------------------------------------------------------------------------------

    def verify_event_stream_integrity(self) -> AuditStreamIntegrityResult | None:
        """Read the event stream back and check it; ``None`` without a stream."""
        if self._stream is None:
            return None
        ok, verified = stream_integrity(self._stream.path)
        self._integrity = AuditStreamIntegrityResult(str(self._stream.path), ok, verified)
        return self._integrity

    def close(self) -> None:
        """Write the closing record, make everything durable and let go of the files; once is enough.

        A log that lost a record because the file system refused it is closed as failed.

        Raises:
            AuditError: the log cannot be written.
        """
        self._end({"status": "complete"} if self._lost is None else _failure(self._lost))

    def abandon(self) -> None:
        """Let go of the files without a closing record: the log counts as interrupted and can be continued."""
        with self._lock:
            self._chain.abandon()
            if self._stream is not None and self._owns_stream:
                self._stream.close()

    def _end(self, outcome: dict[str, Any]) -> None:
        with self._lock:
            if not self._chain.is_open:
                return
            try:
                self._catch_up()
                if self._integrity is None:
                    self.verify_event_stream_integrity()
                counts = self._counted()
                entry = self._chain.close({"ts": time.time(), "closing": {**counts, **outcome}})
                if self._stream is not None and self._owns_stream:
                    self._stream.end({**outcome, "log_head": entry.hash})
            except (RipienoError, OSError) as error:
                raise AuditError(f"cannot close the audit log {self.path}: {_reason(error)}") from error

    def _counted(self) -> dict[str, int]:
        """Give the counts of the closing record."""
        if sum(self._counts.values()) != self._chain.sequence:  # an interrupt came between a record and its count
            self._counts = dict.fromkeys(RecordKind, 0)
            verify_chain(self.path, line_format=self._lines, visit=self._count)
        return {
            "records": self._chain.sequence,
            "steps": self._counts[RecordKind.STEP],
            "events": self._counts[RecordKind.EVENT],
        }

    def _count(self, entry: Entry) -> None:
        self._counts[record_kind(entry.payload)] += 1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        elif not isinstance(error, Exception):
            self.abandon()
        else:
            try:
                self._end(_failure(error))
            except AuditError as problem:
                self.abandon()
                error.add_note(f"The end of the run could not be recorded: {problem}")


def _configured_lines() -> AuditLines:
    try:
        signer, keys = audit_signer(), audit_verification_keys()
    except ValueError as error:
        raise AuditError(str(error)) from error
    if signer is None and is_production_audit():
        raise AuditError("an audit log must be signed in production: set SPO_AUDIT_KEY")
    return AuditLines(signer=signer, keys=keys)


def _open_stream(event_stream: EventStreamWriter | Path | str | None, fsync: FsyncPolicy) -> EventStreamWriter | None:
    if event_stream is None or isinstance(event_stream, EventStreamWriter):
        return event_stream
    try:
        return EventStreamWriter(event_stream, fsync=fsync)
    except (RipienoError, OSError, ValueError) as error:
        raise AuditError(f"cannot write the event stream {event_stream}: {_reason(error)}") from error


def _failure(error: Exception) -> dict[str, Any]:
    message = str(error).encode("ascii", "backslashreplace").decode()
    return {"status": "failed", "error": {"type": type(error).__name__, "message": message}}


def _reason(error: Exception) -> str:
    return error.strerror or type(error).__name__ if isinstance(error, OSError) else str(error)


def _require(holds: bool, expectation: str, value: object) -> None:
    if not holds:
        raise AuditError(f"{expectation}, got {value!r:.80}")


def _is_integer(value: object, minimum: int | None = None) -> bool:
    return type(value) is int and (minimum is None or value >= minimum)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _action_record(action: ControlAction) -> dict[str, Any]:
    return {
        "knob": action.knob,
        "scope": action.scope,
        "value": float(action.value),
        "ttl_s": float(action.ttl_s),
        "justification": action.justification,
    }


def _layer_list(layers: Sequence[LayerState]) -> Encoded:
    for layer in layers:
        if not 0.0 <= layer.R <= MAX_ORDER_PARAMETER:
            raise AuditError(f"R of a layer must be finite and between 0 and 1, got {layer.R!r}")
    text = ",".join([f'{{"R":{float(layer.R)!r},"psi":{float(layer.psi)!r}}}' for layer in layers])
    if "n" in text:  # as in nan and inf
        raise AuditError(f"R and psi of every layer must be finite, got [{text}]")
    return Encoded(f"[{text}]".encode())


def _number_list(name: str, array: NDArray[np.float64]) -> Encoded:
    """Write an array as JSON, with Python's text for every number.

    From 1e-4 to 1e16 orjson writes the same digits; its text shows when there is a number beyond, or none at all.
    """
    values = np.ascontiguousarray(array, dtype=np.float64)
    text = orjson.dumps(values, option=orjson.OPT_SERIALIZE_NUMPY)
    if b"e" not in text and b"n" not in text and b"0.0000" not in text:
        return Encoded(text)
    if not np.isfinite(values).all():
        raise AuditError(f"{name} must be finite, got {values[~np.isfinite(values)][0]}")
    return Encoded(json.dumps(values.tolist(), separators=(",", ":")).encode())


def _number_or_list(name: str, value: float | NDArray[np.float64]) -> float | Encoded:
    return _number_list(name, value) if isinstance(value, np.ndarray) and value.ndim else float(value)


def _modulation_record(modulation: Modulation | Mapping[str, Any]) -> Mapping[str, Any]:
    return dict(modulation) if isinstance(modulation, Mapping) else modulation.to_record()
