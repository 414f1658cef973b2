"""The first minute: a bundled example from its spec to its report, or a sealed record checked without trust."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ripieno._verdict import VerifyStatus
from ripieno.errors import IntegrityError
from ripieno.files import open_regular
from ripieno.signing import algorithm_of, check_detached_signature, load_public_key
from scpn_phase_orchestrator.binding.loader import load_binding_spec
from scpn_phase_orchestrator.binding.validator import binding_warnings, validate_binding_spec
from scpn_phase_orchestrator.domainpacks import resolve_spec_path
from scpn_phase_orchestrator.exceptions import AuditError
from scpn_phase_orchestrator.runtime._audit_check import LogCheck, check_log
from scpn_phase_orchestrator.runtime.audit_signing import audit_verification_keys

__all__ = ["EVIDENCE", "LOG", "PACKS", "PUBLIC_KEY", "RECORDS", "SIGNATURE", "Stage", "check_record", "run_pack"]

PACKS = {"power": "power_grid", "eeg": "neuroscience_eeg"}
"""Examples that run a pack."""
RECORDS = ("evidence", "auditor")
"""Examples that check the bundled record."""

EVIDENCE = Path(__file__).parent.parent / "examples" / "evidence"
"""The folder with the bundled record, its signature and the public key."""
LOG, SIGNATURE, PUBLIC_KEY = "run.jsonl", "run.jsonl.sig", "signer.pub"
_LARGEST_SIGNATURE = 2**16
_NO_PROGRESS = nullcontext[Callable[[object], None] | None](None)


@dataclass(frozen=True)
class Stage:
    """One of four things that were done.

    Attributes:
        title: what.
        is_ok: whether it holds.
        detail: the result in one line.
        lines: more of it, for the report.
        record: JSON-safe values behind it.
    """

    title: str
    is_ok: bool
    detail: str
    lines: tuple[str, ...] = ()
    record: Any = None


def run_pack(
    pack: str,
    *,
    steps: int,
    seed: int,
    progress: AbstractContextManager[Callable[[object], None] | None] = _NO_PROGRESS,
) -> Iterator[Stage]:
    """Validate a pack, run it with an audit log that is thrown away, check the log, and summarise it.

    Stops after the first stage that does not hold.

    Args:
        pack: name of the pack.
        steps: how many steps, at least 1.
        seed: of the initial phases.
        progress: entered around the run, gives what is told of every step.

    Raises:
        BindingError: the pack cannot be found or read.
        AuditError: the log cannot be written.
        EngineError: the run diverged.
    """
    from scpn_phase_orchestrator.runtime.audit_logger import AuditLogger
    from scpn_phase_orchestrator.runtime.replay import ReplayEngine
    from scpn_phase_orchestrator.runtime.simulation import simulate

    path = resolve_spec_path(pack)
    spec = load_binding_spec(path)
    problems = validate_binding_spec(spec)
    count = sum(len(layer.oscillator_ids) for layer in spec.layers)
    words = f"{spec.name}: {count} oscillators in {len(spec.layers)} layers, {len(binding_warnings(spec))} warnings"
    yield Stage("validate", not problems, "; ".join(problems) or words, record={"errors": problems})
    if problems:
        return
    with TemporaryDirectory(prefix="spo-quickstart-") as scratch:
        log = Path(scratch) / LOG
        with AuditLogger(log, create_only=True) as logger, progress as on_step:
            result = simulate(
                spec, steps=steps, seed=seed, audit_logger=logger, binding_spec_path=path, on_step=on_step
            )
        verdict = "" if result.verdict is None else f" {result.verdict.sentence}"
        detail = f"{steps} steps, seed {seed}, {result.action_total} actions.{verdict}"
        yield Stage("run", True, detail, record=result.to_record())
        replay = ReplayEngine(log).verify()
        how = "bit for bit" if replay.is_bit_identical else "within 1e-12"
        detail = replay.problem or (
            f"{replay.check.records} records linked and closed, {replay.transitions} transitions re-executed {how}"
        )
        yield Stage("check the audit chain", replay.ok, detail, record=replay.to_record() | {"path": LOG})
        if replay.ok:
            yield _report(log)


def check_record(folder: Path, *, reexecute: bool) -> Iterator[Stage]:
    """Check a signed audit log of somebody else.

    Args:
        folder: holds ``run.jsonl``, ``run.jsonl.sig`` and ``signer.pub``.
        reexecute: ``False``: chain, closing record, signature, report. ``True``: chain and closing record, signature,
            every step executed again, and proof on a copy that one flipped bit is found.

    What follows a broken chain says nothing, so that the check stops there.

    Raises:
        AuditError: keys are configured, with which an unsigned log never verifies.
        InputError: the public key cannot be read.
        OSError: the log or the signature cannot be read.
    """
    if audit_verification_keys():
        raise AuditError(
            "the bundled record is vouched for by ML-DSA and holds no HMAC signatures, which SPO_AUDIT_KEY and "
            "SPO_AUDIT_KEYRING ask for; unset them for this command"
        )
    log = folder / LOG
    check = check_log(log)
    chain = check.problem or f"{check.records} records, each holds the hash of the one before; head {check.head[:12]}"
    if not reexecute:
        yield Stage("hash chain", not check.problem, chain, record=_check_record(check))
        if not check.problem:
            yield _closing(check)
            yield _signature(folder, check)
            yield _report(log)
        return
    is_whole = check.status is VerifyStatus.COMPLETE
    detail = chain if is_whole or check.problem else check.status.meaning
    yield Stage("hash chain and closing record", is_whole, detail, record=_check_record(check))
    if check.problem:
        return
    yield _signature(folder, check)
    yield _reexecution(log)
    yield _flipped(log)


def _check_record(check: LogCheck) -> dict[str, Any]:
    return {"status": check.status.value, "records": check.records, "head": check.head, "problem": check.problem}


def _closing(check: LogCheck) -> Stage:
    is_complete = check.status is VerifyStatus.COMPLETE
    detail = "the log was closed by its run; no record is missing at its end" if is_complete else check.status.meaning
    return Stage("closing record", is_complete, detail, record={"status": check.status.value})


def _signature(folder: Path, check: LogCheck) -> Stage:
    """Check who vouches for the last hash, and with it for every line."""
    key = load_public_key(folder / PUBLIC_KEY)
    try:
        with open_regular(folder / SIGNATURE) as stream:
            name = check_detached_signature(stream.read(_LARGEST_SIGNATURE), check.head, key)
    except IntegrityError as error:
        return Stage("signature", False, str(error), record={"problem": str(error)})
    algorithm = algorithm_of(key).value
    detail = f"{algorithm} signature over the head holds, key {name}"
    return Stage("signature", True, detail, record={"algorithm": algorithm, "key_id": name})


def _reexecution(log: Path) -> Stage:
    from scpn_phase_orchestrator.runtime.replay import ReplayEngine

    replay = ReplayEngine(log).verify()
    how = "bit for bit" if replay.is_bit_identical else "R within 1e-12 (another machine than the one that recorded)"
    detail = replay.problem or f"{replay.transitions} transitions executed again: {how}"
    return Stage("re-execution", replay.ok, detail, record=replay.to_record() | {"path": LOG})


def _flipped(log: Path) -> Stage:
    """Flip one bit in the middle of a copy; holds when that is found."""
    data = bytearray(log.read_bytes())
    position = len(data) // 2
    data[position] ^= 1
    with TemporaryDirectory(prefix="spo-quickstart-") as scratch:
        copy = Path(scratch) / LOG
        copy.write_bytes(data)
        problem = check_log(copy).problem
    found = f"found in {problem.partition(': ')[0]}" if problem else "NOT found"
    detail = f"one bit of byte {position} flipped in a copy: {found}"
    return Stage("tampering", bool(problem), detail, record={"byte": position, "found": problem})


def _report(log: Path) -> Stage:
    from scpn_phase_orchestrator.reporting.summary import build_audit_report_summary, format_audit_report

    summary = build_audit_report_summary(log)
    return Stage("report", summary["hash_chain_ok"], "", tuple(format_audit_report(summary)), summary)
