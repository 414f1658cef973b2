"""What `ripieno verify` looks at in the folder of a campaign: everything, and whether it follows from the receipts."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentinputlab.contracts.errors import AgentInputLabError
from ripieno._verdict import Check, VerifyOptions, VerifyReport, VerifyStatus
from ripieno.canonical import INDENTED_UNICODE_LINE
from ripieno.chain import verify_chain
from ripieno.errors import IntegrityError, RipienoError
from ripieno.files import inventory, list_tree
from ripieno.receipts import check_sealed
from workers.official_arenas._evidence import is_leftover, read_regular
from workers.official_arenas._modes import is_file_or_directory, mode_problem, modes_row
from workers.official_arenas._pair_ledger import OUTCOME, RESPONSE, ROLES, TERMINAL
from workers.official_arenas._written import RequestReading, read_request
from workers.official_arenas.campaign._record_check import record_problems
from workers.official_arenas.campaign._request_check import planned_parameters, request_problem
from workers.official_arenas.campaign.collect import Place, collect_rows, ended_pair, execution_of
from workers.official_arenas.campaign.folder import CAMPAIGN, COMMAND, EVENTS, PLAN, read_events, read_json
from workers.official_arenas.campaign.plan import CampaignPlan, parse_plan
from workers.official_arenas.campaign.results import PairResult
from workers.official_arenas.protocol import OfficialArenaError, content_hash

__all__ = ["CAMPAIGN_VERIFIER", "CampaignVerifier"]

FORMAT = "input-lab campaign"
_PRIVATE = frozenset({"capture", "pairs", "requests", "scopes", PLAN, COMMAND})
"""Everything else holds identities, counts and scores, and may be shown to anybody."""
_Rows = list[Check]
_SHAPES = (
    RipienoError,
    OfficialArenaError,
    OSError,
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,
    StopIteration,
)
"""What reading a record raises whose shape was changed."""


class CampaignVerifier:
    """The folder that `agentinputlab retail run` and `agentinputlab campaign run` make."""

    @property
    def name(self) -> str:
        """Name of the format."""
        return FORMAT

    def recognises(self, path: Path) -> bool:
        """Tell whether two of the four files that make a campaign are there."""
        return path.is_dir() and sum((path / name).is_file() for name in (CAMPAIGN, PLAN, EVENTS, COMMAND)) >= 2

    def verify(self, path: Path, options: VerifyOptions) -> VerifyReport:
        """Check the seal, every file, every receipt, and derive results and analysis again."""
        rows: _Rows = []
        try:
            plan, events = _read_plan_and_log(path, rows)
            is_complete = _log_is_closed(path)
            if is_complete or (path / CAMPAIGN).exists():  # a log can be cut behind a seal
                _check_seal(path, plan, events, rows)
            _check_modes(path, rows)
            ended = _check_receipts(path, plan, events, rows)
            _check_records(path, plan, events, rows)
            _check_derived(path, plan, rows, ended, is_complete=is_complete)
        except _SHAPES as error:
            rows.append(Check("campaign", ok=False, detail=_reason(error)))
            is_complete = False
        problem = next((f"{row.name}: {row.detail}" for row in rows if not row.ok), "")
        status = VerifyStatus.COMPLETE if is_complete else VerifyStatus.INTERRUPTED
        digest = _digest(path) if is_complete and not problem else ""
        return VerifyReport(
            path=str(path),
            format=FORMAT,
            status=VerifyStatus.TAMPERED if problem else status,
            digest=digest,
            checks=rows,
            first_problem=problem,
        )


CAMPAIGN_VERIFIER = CampaignVerifier()


def _read_plan_and_log(path: Path, rows: _Rows) -> tuple[CampaignPlan, dict[str, Mapping[str, Any]]]:
    with _naming(PLAN):
        plan = parse_plan(read_json(path / PLAN))
    with _naming(EVENTS):
        events = read_events(path / EVENTS)
    planned = events.get("planned", {}).get("plan_hash")
    rows.append(
        _check("plan", planned in (None, plan.plan_hash), f"hash {plan.plan_hash}", "the log names another plan")
    )
    # Nothing is derived before every step is recorded, so a log that knows less was cut.
    steps = ("planned", *(f"captured:{slot.name}" for slot in plan.slots), "interventions", "pairs")
    lost = [step for step in steps if step not in events and (path / "results.json").exists()]
    rows.append(_check("log", not lost, f"{len(events)} steps", f"{EVENTS} does not know the step {', '.join(lost)}"))
    return plan, events


@contextmanager
def _naming(name: str) -> Generator[None]:
    """Put the name of a file before what is wrong with it."""
    try:
        yield
    except RipienoError as error:
        raise IntegrityError(f"{name}: {error}") from error
    except AgentInputLabError as error:  # its text may quote a prompt
        raise IntegrityError(f"{name}: has another shape than it should") from error


def _log_is_closed(path: Path) -> bool:
    return verify_chain(path / EVENTS).closing is not None


def _check_seal(path: Path, plan: CampaignPlan, events: Mapping[str, Mapping[str, Any]], rows: _Rows) -> None:
    """The seal, what the log says of it, and every file that it lists, and no other."""
    sealed = read_json(path / CAMPAIGN)
    with _naming(CAMPAIGN):
        check_sealed(sealed)
    named = events.get("complete", {}).get("receipt_sha256")
    detail = "fits, and the log names it" if named else "fits; the log has no end yet"
    agrees = named in (None, sealed["receipt_sha256"])
    rows.append(_check("seal", agrees, detail, f"the log names another seal than {CAMPAIGN}"))
    command = content_hash(read_json(path / COMMAND))
    same = (sealed["plan_hash"], sealed["command_sha256"]) == (plan.plan_hash, command)
    rows.append(_check("what was sealed", same, "this plan and this command", "the seal is of another plan or command"))
    for name in ("results", "analysis"):
        agrees = sealed[f"{name}_sha256"] == content_hash(read_json(path / f"{name}.json"))
        rows.append(_check(f"{name}.json in the seal", agrees, "the same", "the seal is of another one"))
    files: Mapping[str, str] = sealed["files"]
    found = {
        record.path: record.sha256
        for record in inventory(path)
        if record.path not in (CAMPAIGN, EVENTS)
        # A kill between seal and end leaves the hidden name under which the seal was written.
        and (named or record.path in files or not is_leftover(record.path))
    }
    rows.append(_file_row(files, found))


def _file_row(sealed: Mapping[str, str], found: Mapping[str, str]) -> Check:
    for name in sorted({*sealed, *found}):
        if name not in found:
            return Check("files", ok=False, detail=f"{name} is missing")
        if name not in sealed:
            return Check("files", ok=False, detail=f"{name} was added")
        if sealed[name] != found[name]:
            return Check("files", ok=False, detail=f"{name} was changed")
    return Check("files", ok=True, detail=f"{len(found)} files, each as it was sealed")


def _check_modes(path: Path, rows: _Rows) -> None:
    """Receipts hold what a simulated customer said, a plan may hold prompts: say who else may read them."""
    problems: list[str] = []
    for name, status in list_tree(path):
        if name.split("/")[0] not in _PRIVATE:
            continue
        if not is_file_or_directory(status):
            rows.append(Check("files", ok=False, detail=f"{name} is a link or a special file"))
            return
        problems.append(mode_problem(name, status))
    rows.append(modes_row(path, [problem for problem in problems if problem]))


def _check_receipts(
    path: Path, plan: CampaignPlan, events: Mapping[str, Mapping[str, Any]], rows: _Rows
) -> dict[Place, PairResult]:
    """Every capture root and every pair of the ledgers, each by its own rules.

    Returns:
        The results of the pairs that hold and have an end.
    """
    from workers.official_arenas.verification import verify_capture_root

    for slot in plan.slots:
        root = path / "capture" / slot.name
        if root.exists():
            report = verify_capture_root(root)
            rows.append(Check(f"capture {slot.name}", ok=report.ok, detail=report.first_problem or report.status.value))
        name = f"captured:{slot.name}"
        if name in events and not (root / str(events[name]["snapshot"])).is_dir():
            rows.append(Check(f"capture {slot.name}", ok=False, detail="the snapshot that the log names is missing"))
    index = path / "requests" / "index.json"
    indexed: list[Mapping[str, str]] = read_json(index) if index.exists() else []
    checkpoints = {slot.name: _checkpoints(path, slot.name, events) for slot in plan.slots}
    pairs = _Pairs(path, planned_parameters(plan), checkpoints, rows)
    for row in indexed:
        pairs.check(row)
    detail = f"{pairs.checked} of {len(indexed)} indexed pairs have a ledger; each was read, its patch applied again"
    rows.append(Check("pairs", ok=True, detail=detail))
    _check_ended(path, indexed, rows)
    return pairs.ended


@dataclass
class _Pairs:
    """The indexed pairs, one after the other: what is read of one is used for all that is asked of it."""

    root: Path
    planned: Mapping[str, Any]
    checkpoints: Mapping[str, Mapping[str, Mapping[str, Any]]]
    rows: _Rows
    checked: int = 0
    ended: dict[Place, PairResult] = field(default_factory=dict[Place, PairResult])

    def check(self, row: Mapping[str, str]) -> None:
        """The request of a pair, and its ledger if it has one."""
        from workers.official_arenas.verification import verified_cell

        request: RequestReading | None = None
        try:
            checkpoint = self.checkpoints.get(row["slot"], {}).get(row["task"])
            file = self.root.joinpath("requests", row["slot"], row["treatment"], f"{row['task']}.json")
            request = read_request(read_regular(file))
            problem = request_problem(self.planned, row, checkpoint, request, root=self.root)
        except _SHAPES:
            problem = "its request cannot be read, or has another shape than it should"
        if problem:
            self.rows.append(Check(_pair_name(row), ok=False, detail=problem))
        cell = self.root / "pairs" / row["slot"] / row["cell_id"]
        if not cell.exists():
            return
        report, found = verified_cell(cell, request=request)
        self.checked += 1
        if not report.ok:
            self.rows.append(Check(_pair_name(row), ok=False, detail=report.first_problem or report.status.value))
        elif request is not None and not problem and report.status is not VerifyStatus.INTERRUPTED:
            self._note_end(row, request, found.values)

    def _note_end(self, row: Mapping[str, str], request: RequestReading, values: Mapping[str, Any]) -> None:
        place = (row["slot"], row["treatment"], row["task"])
        with suppress(*_SHAPES):  # raised again when the results are derived
            self.ended[place] = ended_pair(
                place,
                row["cell_id"],
                execution_of(request.envelope),
                terminal=values[TERMINAL],
                outcomes={role: values[f"{role}/{OUTCOME}"] for role in ROLES},
                response=values.get(RESPONSE),
            )


def _pair_name(row: Mapping[str, str]) -> str:
    return f"pair {row['treatment']} on task {row['task']} ({row['slot']})"


def _checkpoints(path: Path, slot: str, events: Mapping[str, Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Give the captured rows of a slot by task, from the snapshot that the log names."""
    captured = events.get(f"captured:{slot}")
    if captured is None:
        return {}
    file = path / "capture" / slot / str(captured["snapshot"]) / "checkpoints.json"
    return {row["checkpoint_id"]: row for row in read_json(file)["checkpoints"]} if file.exists() else {}


def _check_ended(path: Path, indexed: list[Mapping[str, str]], rows: _Rows) -> None:
    """A pair whose end was recorded has a ledger, unless the driver refused it."""
    ledger = path / "cells.jsonl"
    if not ledger.exists():
        return
    from ripieno.chain import walk_chain

    with _naming(ledger.name):
        entries = list(walk_chain(ledger))
    for entry in entries:
        index = entry.payload.get("index")
        if not isinstance(index, int) or entry.payload.get("value") == "refused":
            continue
        row = indexed[index]
        cell = path / "pairs" / row["slot"] / row["cell_id"]
        if not cell.is_dir():
            rows.append(Check(_pair_name(row), ok=False, detail="it was played and its ledger is missing"))
        elif entry.payload.get("value") in ("scored", "failed") and not (cell / "terminal.json").is_file():
            rows.append(
                Check(_pair_name(row), ok=False, detail="it was played to its end and terminal.json is missing")
            )


def _check_records(path: Path, plan: CampaignPlan, events: Mapping[str, Mapping[str, Any]], rows: _Rows) -> None:
    """Log, scopes, requests and ledgers speak of the same work."""
    problems = list(record_problems(path, plan, events))
    rows.extend(Check("records", ok=False, detail=str(problem)) for problem in problems)
    if not problems:
        rows.append(Check("records", ok=True, detail="log, scopes, requests and ledgers speak of the same work"))


def _check_derived(
    path: Path, plan: CampaignPlan, rows: _Rows, ended: Mapping[Place, PairResult], *, is_complete: bool
) -> None:
    """Results and analysis, made again from the receipts, have the same bytes; before the end, those that exist."""
    from workers.official_arenas.campaign.results import analyse

    if not is_complete and not (path / "results.json").exists() and not (path / "analysis.json").exists():
        return
    results = collect_rows(path, plan, ended)
    for name, value in (
        ("results.json", [row.as_dict() for row in results]),
        ("analysis.json", analyse(plan, results)),
    ):
        if not is_complete and not (path / name).exists():
            continue
        same = (path / name).read_bytes() == INDENTED_UNICODE_LINE.dumps(value)
        rows.append(_check(name, same, "follows from the receipts", "does not follow from the receipts"))


def _check(name: str, ok: bool, detail: str, problem: str) -> Check:
    return Check(name, ok=ok, detail=detail if ok else problem)


def _digest(path: Path) -> str:
    return str(read_json(path / CAMPAIGN)["receipt_sha256"])


def _reason(error: Exception) -> str:
    """Name what could not be read, without quoting what it says."""
    if isinstance(error, OSError):
        return f"{Path(str(error.filename)).name} cannot be read: {error.strerror}"
    if isinstance(error, RipienoError):
        return str(error)
    return f"a record has another shape than it should ({type(error).__name__})"
