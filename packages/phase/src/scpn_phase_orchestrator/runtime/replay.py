"""Read an audit log back: check it, and execute every recorded step again."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NoReturn, cast

import numpy as np

from ripieno.canonical import strict_loads
from ripieno.chain import GENESIS, Entry, require_torn
from ripieno.errors import IntegrityError
from ripieno.files import open_regular
from scpn_phase_orchestrator._arrays import FloatArray
from scpn_phase_orchestrator.exceptions import AuditError
from scpn_phase_orchestrator.runtime._array_references import ReferenceTable
from scpn_phase_orchestrator.runtime._audit_check import LogCheck, check_closing, check_log
from scpn_phase_orchestrator.runtime._audit_lines import (
    MAX_RECORD_BYTES,
    RecordKind,
    check_record,
    parse_record,
    record_kind,
)
from scpn_phase_orchestrator.runtime._platform import platform_identity
from scpn_phase_orchestrator.runtime._reexecution import (
    DeterminismReport,
    Mismatch,
    Reexecution,
    StepEngine,
    recorded_arrays,
)
from scpn_phase_orchestrator.runtime.audit_signing import audit_verification_keys
from scpn_phase_orchestrator.upde.engine import ACTIVE_BACKEND, UPDEEngine
from scpn_phase_orchestrator.upde.metrics import LayerState, UPDEState
from scpn_phase_orchestrator.upde.stuart_landau import StuartLandauEngine

__all__ = ["DeterminismReport", "ReplayEngine", "ReplayReport"]

METHODS = ("euler", "rk4", "rk45")


@dataclass(frozen=True)
class ReplayReport:
    """What a log is worth.

    Attributes:
        path: the log.
        check: lines, hashes, signatures and the closing record.
        determinism: one report per header, of the steps that follow it; empty when nothing was executed.
        final_regime: regime after the last step; ``None`` without steps.
        final_stability: mean order parameter of the layers after the last step; ``None`` without steps.
        problem: the first thing that does not hold; empty when all holds.
    """

    path: str
    check: LogCheck
    determinism: Sequence[DeterminismReport] = field(default_factory=tuple[DeterminismReport, ...])
    final_regime: str | None = None
    final_stability: float | None = None
    problem: str = ""

    @property
    def ok(self) -> bool:
        """Whether every line holds and every step that was executed again led to the next one."""
        return not self.problem

    @property
    def transitions(self) -> int:
        """Transitions that were confirmed."""
        return sum(report.transitions for report in self.determinism)

    @property
    def is_bit_identical(self) -> bool:
        """Whether every number that was compared was equal to the last bit, and there was one."""
        is_any = any(report.transitions or report.outputs for report in self.determinism)
        return is_any and all(report.is_bit_identical for report in self.determinism)

    def to_record(self) -> dict[str, Any]:
        """Give the report as JSON values."""
        check = self.check
        return {
            "path": self.path,
            "ok": self.ok,
            "status": check.status.value,
            "meaning": check.status.meaning,
            "problem": self.problem,
            "records": check.records,
            "steps": check.counts.get(RecordKind.STEP, 0),
            "events": check.counts.get(RecordKind.EVENT, 0),
            "head": check.head,
            "signed_records": check.signatures,
            "signatures_checked": check.are_signatures_checked,
            "torn_bytes": check.torn_bytes,
            "final_regime": self.final_regime,
            "final_stability": self.final_stability,
            "transitions": self.transitions,
            "bit_identical": self.is_bit_identical,
            "determinism": [asdict(report) for report in self.determinism],
        }


class ReplayEngine:
    """Reads one log.

    Args:
        path: the log.

    Attributes:
        closing: the closing record that `load` found, ``None`` before, or when the log was interrupted.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self.closing: dict[str, Any] | None = None
        self._entries: list[dict[str, Any]] | None = None

    # --- reading --------------------------------------------------------------------------------------------

    def load(self) -> list[dict[str, Any]]:
        """Read all records as they are stored, without the closing record; nothing is verified.

        A half-written last line is left out.

        Raises:
            ValueError: a line is no JSON object, or one that two readers could understand differently.
            IntegrityError: the path is no regular file.
            OSError: it cannot be read.
        """
        entries: list[dict[str, Any]] = []
        self.closing = None
        for number, record in self._records():
            if self.closing is not None:
                raise ValueError(f"line {number} follows the closing record")
            if record_kind(record) is RecordKind.CLOSING:
                self.closing = record
            else:
                entries.append(record)
        self._entries = entries
        return list(entries)

    def _records(self) -> Iterator[tuple[int, dict[str, Any]]]:
        with open_regular(self.path) as raw, io.BufferedReader(raw, 2**17) as stream:
            number = 0
            while line := stream.readline(MAX_RECORD_BYTES + 1):
                number += 1
                try:
                    if not line.endswith(b"\n") and len(line) <= MAX_RECORD_BYTES:
                        require_torn(line, ('{"',))
                        return
                    yield number, _loaded(line)
                except (ValueError, IntegrityError) as error:
                    raise ValueError(f"line {number}: {error}") from error

    def _loaded_entries(self) -> list[dict[str, Any]]:
        return self.load() if self._entries is None else self._entries

    def load_header(self, entries: Sequence[Mapping[str, Any]] | None = None) -> dict[str, Any]:
        """Give the first header; ``binding_summary`` is filled in from ``binding_config``, which it equals.

        Raises:
            AuditError: there is none.
        """
        for record in self._loaded_entries() if entries is None else entries:
            if record_kind(record) is RecordKind.HEADER:
                header = dict(record)
                if "binding_summary_ref" in header and "binding_config" in header:
                    header["binding_summary"] = header["binding_config"]
                return header
        raise AuditError(f"no header record in {self.path}")

    def step_entries(self, entries: Sequence[Mapping[str, Any]] | None = None) -> list[dict[str, Any]]:
        """Give the step records that can be executed again: those with phases."""
        records = self._loaded_entries() if entries is None else entries
        return [dict(record) for record in records if _is_executable(record)]

    # --- executing ------------------------------------------------------------------------------------------

    def build_engine(self, header: Mapping[str, Any]) -> UPDEEngine | StuartLandauEngine:
        """Make the engine that a header describes.

        Raises:
            ValueError: the header does not describe one.
        """
        n, dt, method = header.get("n_oscillators"), header.get("dt"), header.get("method", "euler")
        substeps = header.get("substeps", 1)
        if type(n) is not int or n < 1:
            raise ValueError(f"n_oscillators must be a positive integer, got {n!r:.40}")
        if isinstance(dt, bool) or not isinstance(dt, int | float) or not 0 < dt < float("inf"):
            raise ValueError(f"dt must be a positive finite number, got {dt!r:.40}")
        if type(substeps) is not int or substeps < 1:
            raise ValueError(f"substeps must be a positive integer, got {substeps!r:.40}")
        if method not in METHODS:
            raise ValueError(f"method must be one of {', '.join(METHODS)}, got {method!r:.40}")
        if header.get("amplitude_mode") is True:
            return StuartLandauEngine(n, float(dt), method, substeps=substeps)
        return UPDEEngine(n, float(dt), method, substeps=substeps)

    def replay_step(self, record: Mapping[str, Any]) -> UPDEState:
        """Give the state that a step record says came out.

        Raises:
            ValueError: it is no step record.
        """
        try:
            layers = [LayerState(float(layer["R"]), float(layer["psi"])) for layer in record["layers"]]
            stability, regime = float(record["stability"]), str(record["regime"])
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"not a step record: {type(error).__name__} {error}") from error
        return UPDEState(layers, np.zeros((len(layers), len(layers))), stability, regime)

    # --- verifying ------------------------------------------------------------------------------------------

    def verify_integrity(self, entries: Sequence[Mapping[str, Any]]) -> tuple[bool, int]:
        """Check hashes, order and, when a key is configured, signatures of loaded records.

        When these are all records that `load` gave, the closing record must fit as well.

        Returns:
            Whether all hold, and how many hold from the first on. ``(False, 0)`` when the keys are unusable.
        """
        verified, previous = 0, GENESIS
        try:
            keys = audit_verification_keys()
            for record in entries:
                previous = check_record(record, previous, verified, keys)
                verified += 1
            if self.closing is not None and self._entries is not None and len(entries) == len(self._entries):
                check_record(self.closing, previous, verified, keys)
                check_closing(self.closing, _counted(entries), verified + 1)
        except (ValueError, IntegrityError):
            return False, verified
        return True, verified

    def verify_determinism_chained(
        self, engine: StepEngine, entries: Sequence[Mapping[str, Any]], atol: float | None = None
    ) -> tuple[bool, int]:
        """Execute each step again and compare with the phases that the next record starts from.

        A pair whose second record says that a hook set the phases (``phases_overridden``) is executed, not compared.
        Records that are no executable steps are passed over; a header among them starts afresh.

        Args:
            engine: from `build_engine`.
            entries: records, in order.
            atol: largest deviation of a phase (rad) or amplitude. Without it, all bits must agree when the run was
                made by this backend on a machine like this one, else R within 1e-12.

        Returns:
            Whether all transitions hold, and how many hold from the first on; ``(True, 0)`` for fewer than two steps.

        Raises:
            ValueError: a record cannot be executed.
        """
        done = 0
        execution: Reexecution | None = None
        table = self._table_before(entries)
        header = self._header_of(entries)
        for record in entries:
            if record_kind(record) is RecordKind.HEADER:
                header, execution = record, None
            if not _is_executable(record):
                continue
            if execution is None:
                execution = _reexecution(engine, header, table, atol)
            before = execution.report.transitions
            try:
                execution.take(record)
            except Mismatch:
                return False, done
            done += execution.report.transitions - before
        return True, done

    def verify_determinism_sl_chained(
        self, engine: StepEngine, entries: Sequence[Mapping[str, Any]], atol: float | None = None
    ) -> tuple[bool, int]:
        """Do what `verify_determinism_chained` does, on phases and amplitudes.

        Raises:
            ValueError: a record cannot be executed, or has no amplitudes.
        """
        for record in entries:
            if _is_executable(record) and "amplitudes" not in record:
                raise ValueError(f"step {record.get('step')!r:.20} has no amplitudes")
        return self.verify_determinism_chained(engine, entries, atol)

    def _header_of(self, entries: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
        try:
            return self.load_header(entries)
        except AuditError:
            return next((r for r in self._entries or () if record_kind(r) is RecordKind.HEADER), {})

    def _table_before(self, entries: Sequence[Mapping[str, Any]]) -> ReferenceTable[FloatArray]:
        """Give the arrays that loaded records before the first of these have made known."""
        table = ReferenceTable[FloatArray]()
        first = next((record.get("_hash") for record in entries), None)
        known = self._entries or []
        position = next((i for i, record in enumerate(known) if record.get("_hash") == first), 0)
        for record in known[:position]:
            if _is_executable(record):
                recorded_arrays(record, table)
        return table

    def verify(self, *, reexecute: bool = True, atol: float | None = None) -> ReplayReport:
        """Check the whole log line by line, in memory that does not grow with it.

        Args:
            reexecute: also execute every step again.
            atol: as in `verify_determinism_chained`.

        Raises:
            ValueError: the keys in the environment are unusable.
            IntegrityError: the path is no regular file.
            OSError: it cannot be read.
        """
        pass_ = _Pass(self, reexecute=reexecute, atol=atol)
        check = check_log(self.path, visit=pass_.take)
        problem = check.problem or pass_.problem
        if not problem and reexecute and not check.counts.get(RecordKind.HEADER):
            problem = "no header record in log"
        if not problem and pass_.reports and all(r.unexecuted and r.first_step is None for r in pass_.reports):
            problem = "no step record has inputs to execute it with"
        return ReplayReport(
            path=str(self.path),
            check=check,
            determinism=tuple(pass_.reports),
            final_regime=pass_.final_regime,
            final_stability=pass_.final_stability,
            problem=problem,
        )


class _Pass:
    """What `ReplayEngine.verify` notes while it goes through a log."""

    def __init__(self, replay: ReplayEngine, *, reexecute: bool, atol: float | None) -> None:
        self._replay, self._reexecute, self._atol = replay, reexecute, atol
        self._table = ReferenceTable[FloatArray]()
        self._execution: Reexecution | None = None
        self.reports: list[DeterminismReport] = []
        self.final_regime: str | None = None
        self.final_stability: float | None = None
        self.problem = ""

    def take(self, entry: Entry) -> None:
        """Note one record, and execute it if it is a step."""
        record = entry.payload
        kind = record_kind(record)
        if kind is RecordKind.STEP:
            regime = record.get("regime_decided", record["regime"])
            self.final_regime, self.final_stability = str(regime), float(record.get("stability", 0.0))
        if not self._reexecute or self.problem:
            return
        try:
            if kind is RecordKind.HEADER:
                _check_continuation(record, len(self.reports))
                engine = self._replay.build_engine(record)
                self._execution = _reexecution(engine, record, self._table, self._atol)
                self.reports.append(self._execution.report)
            elif kind is RecordKind.STEP and "phases" not in record and self.reports:
                self.reports[-1].unexecuted += 1
            elif _is_executable(record):
                if self._execution is None:
                    _no_header()
                self._execution.take(record)
        except Mismatch as error:
            self.problem = f"line {entry.sequence + 1}: {error}"
        except (ValueError, KeyError, TypeError, RuntimeError, OverflowError) as error:
            self.problem = f"line {entry.sequence + 1} cannot be executed: {error}"


def _check_continuation(header: Mapping[str, Any], headers_before: int) -> None:
    continuation = header.get("continuation", headers_before)
    if continuation != headers_before:
        raise ValueError(f"continuation must be {headers_before}, got {continuation!r:.40}")


def _no_header() -> NoReturn:
    raise ValueError("no header record in log")


def _loaded(line: bytes) -> dict[str, Any]:
    text = line.removesuffix(b"\n")
    try:
        return parse_record(text)
    except IntegrityError:  # another spelling of the same values: their hashes decide
        value = strict_loads(text, max_bytes=MAX_RECORD_BYTES)
        if not isinstance(value, dict):
            raise ValueError(f"a record is a JSON object, got {type(value).__name__}") from None  # noqa: TRY004 - documented
        return cast("dict[str, Any]", value)


def _is_executable(record: Mapping[str, Any]) -> bool:
    return record_kind(record) is RecordKind.STEP and "phases" in record


def _counted(entries: Iterable[Mapping[str, Any]]) -> dict[RecordKind, int]:
    counts = dict.fromkeys(RecordKind, 0)
    for record in entries:
        counts[record_kind(record)] += 1
    return counts


def _reexecution(
    engine: StepEngine, header: Mapping[str, Any], table: ReferenceTable[FloatArray], atol: float | None
) -> Reexecution:
    is_same_backend = header.get("backend") == ACTIVE_BACKEND and header.get("platform") == platform_identity()
    return Reexecution(
        engine,
        header,
        table=table,
        is_exact=is_same_backend,
        atol=atol,
    )
