"""The steps that ask models: capture, interventions, pairs. Each slot is started once, and what it left is kept."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from agentinputlab.backends.answered import noting_answers
from agentinputlab.contracts.errors import ValidationError
from ripieno.canonical import INDENTED_UNICODE_LINE
from ripieno.errors import InputError, IntegrityError
from ripieno.parallel import CellOutcome, Executor, run_cells
from workers.official_arenas import retail_capture, retail_driver
from workers.official_arenas._console import quiet_console
from workers.official_arenas._evidence import EvidenceStorageError, sha256_bytes
from workers.official_arenas._payloads import Arm, build_payloads
from workers.official_arenas.campaign._record_check import (
    answered_by_hash,
    authorizations,
    intervention_start,
    requests_hash,
)
from workers.official_arenas.campaign._stopping import CampaignStoppedError, FailuresInARow, stopped_message
from workers.official_arenas.campaign.environment import ANSWERED_BY
from workers.official_arenas.campaign.folder import (
    EVENTS,
    PLAN,
    CampaignFolder,
    read_events,
    read_json,
    write_json,
    write_new,
)
from workers.official_arenas.campaign.plan import CampaignPlan, ModelSlot, parse_plan
from workers.official_arenas.campaign.preflight import build_intervention, resolve_arena, rules_file, slot_config
from workers.official_arenas.protocol import OfficialArenaError
from workers.official_arenas.verification import verify_snapshot

__all__ = ["capture_slot", "prepare_pairs", "run_interventions", "run_pairs"]

REPLAYS_PATH_ENV = "AILAB_CAMPAIGN_REPLAYS"
REPLAYS_SHA256_ENV = "AILAB_CAMPAIGN_REPLAYS_SHA256"
BRIDGE = ("agentinputlab.campaign", "1")
_SLOTS_KEPT = 8
"""Of so many slots a process keeps what it read; cells come slot by slot."""
_SPEAKING = frozenset(f"{kind.__module__}.{kind.__qualname__}" for kind in (OfficialArenaError, IntegrityError))
"""Errors whose texts are fixed sentences that quote neither a request nor a conversation."""
MadeRequest = tuple[str, str] | tuple[()]
"""SHA-256 and cell id of a request; empty when nothing is known of it but that it is there."""


def capture_slot(folder: CampaignFolder, slot: ModelSlot, on_task: Callable[[str, str], None]) -> None:
    """Record the first customer message of every task of a slot, and freeze the inventory.

    Does nothing when the log says that it is done.
    """
    name = f"captured:{slot.name}"
    if name in folder.events:
        return
    plan = folder.plan
    root = folder.directory("capture", slot.name)
    scope_path = folder.place("scopes", f"capture-{slot.name}.json")
    if not scope_path.exists():
        draft = retail_capture.draft_scope(
            resolve_arena(plan.arena), slot_config(plan, slot), output_root=root, phase=plan.phase, model_slot=slot.name
        )
        _bind_scope(folder, scope_path, draft)
    _require_in_place(scope_path, root)
    with quiet_console():  # what an arena prints may hold what a customer said
        done = retail_capture.run(
            scope_path, _sha256(scope_path), durable=plan.durable, provider=resolve_arena(plan.arena), on_task=on_task
        )
    folder.record(
        name,
        {
            "snapshot": Path(done["snapshot"]).name,
            "expected": done["disposition"]["expected_denominator"],
            "captured": len(done["disposition"]["captured_task_ids"]),
        },
    )


def run_interventions(
    folder: CampaignFolder, executor: Executor, workers: int | None, *, progress: bool | None
) -> dict[str, str]:
    """Run every treatment once on every captured task and keep the request that a pair will be played from.

    Returns:
        SHA-256 -> cell id of the requests that were just made, for `prepare_pairs`.
    """
    if "interventions" in folder.events:
        return {}
    cells = [
        {**bound, "treatment": treatment.name, "task": task}
        for bound in (_bound_to(folder, slot.name) for slot in folder.plan.slots)
        for treatment in folder.plan.treatments
        for task in captured_tasks(folder.root, bound["slot"])
    ]
    for slot, treatment in dict.fromkeys((cell["slot"], cell["treatment"]) for cell in cells):
        folder.directory("requests", slot, treatment)
    labels = [f"{cell['treatment']} on task {cell['task']}" for cell in cells]
    outcomes: list[CellOutcome[MadeRequest | None]] = run_cells(
        intervene,
        cells,
        executor=executor,
        workers=workers,
        progress=progress,
        labels=labels,
    )
    died = [outcome for outcome in outcomes if not outcome.ok]
    if died:
        reason = _public_reason(died[0].error)
        raise OfficialArenaError(f"{len(died)} interventions could not be run; first: {died[0].label}: {reason}")
    made = [
        (cell["slot"], cell["treatment"], cell["task"])
        for cell, outcome in zip(cells, outcomes, strict=True)
        if outcome.value is not None
    ]
    done: dict[str, Any] = {"requested": len(made), "requests_sha256": requests_hash(folder.root, made)}
    answered = answered_by_hash(folder.root)
    folder.record("interventions", done if answered is None else {**done, "answered_by_sha256": answered})
    return dict(outcome.value for outcome in outcomes if outcome.value)


def intervene(cell: Mapping[str, str]) -> MadeRequest | None:
    """Run one treatment on one task unless it was started before; give None when there is no request."""
    slot_name, task = cell["slot"], cell["task"]
    place = f"{cell['root']}/requests/{slot_name}/{cell['treatment']}"
    request, start = Path(f"{place}/{task}.json"), Path(f"{place}/{task}-start.json")
    if request.exists():
        return ()
    if start.exists():
        return None  # started once; whether a model was asked is unknown, so it is never asked again
    bound = _bound_slot(Path(cell["root"]), slot_name, cell["plan"], cell["snapshot"])
    treatment, row = bound.treatments[cell["treatment"]], bound.checkpoints[task]
    write_json(start, intervention_start(task, treatment.name), durable=bound.plan.durable)
    arms = (
        Arm("baseline.unchanged", _no_op(), {}, _context(None)),
        Arm(
            f"treatment.{treatment.name}",
            build_intervention(treatment),
            bound.parameters[treatment.name],
            _context(bound.backend),
        ),
    )
    with noting_answers() as answered:
        baseline, treated = build_payloads(row, arms, model_slot=slot_name)
    if answered:
        write_json(Path(f"{place}/{task}-{ANSWERED_BY}"), answered.record(), durable=bound.plan.durable)
    envelope = retail_driver.build_envelope(
        bound.arena,
        bound.config,
        row,
        baseline_payload=baseline,
        treatment_payload=treated,
        bridge_id=BRIDGE[0],
        bridge_revision=BRIDGE[1],
        replay_inventory_environment=REPLAYS_PATH_ENV,
        replay_inventory_sha256_environment=REPLAYS_SHA256_ENV,
        expected_replay_inventory_sha256=bound.replays_sha256,
    )
    data = INDENTED_UNICODE_LINE.dumps(envelope)
    write_new(request, data, durable=bound.plan.durable)
    try:
        return sha256_bytes(data), retail_driver.cell_id(envelope)
    except OfficialArenaError:
        return ()  # the index will say what is wrong with it


def prepare_pairs(folder: CampaignFolder, known: Mapping[str, str] = MappingProxyType({})) -> list[dict[str, str]]:
    """Name the pairs that can be played and bind one execution scope per slot to exactly them.

    Args:
        folder: the campaign.
        known: SHA-256 of a request -> its cell id; of any other request it is worked out.
    """
    index_path = folder.place("requests", "index.json")
    if not index_path.exists():
        write_json(index_path, _index(folder, known))
    index: list[dict[str, str]] = read_json(index_path)
    for slot in folder.plan.slots:
        cell_ids = [row["cell_id"] for row in index if row["slot"] == slot.name]
        if not cell_ids or "pairs" in folder.events:
            continue
        root = folder.directory("pairs", slot.name)
        scope_path = folder.place("scopes", f"execution-{slot.name}.json")
        if not scope_path.exists():
            draft = retail_driver.draft_scope(
                resolve_arena(folder.plan.arena),
                slot_config(folder.plan, slot),
                output_root=root,
                phase=folder.plan.phase,
                cell_ids=cell_ids,
            )
            _bind_scope(folder, scope_path, draft)
        _require_in_place(scope_path, root)
    return index


def run_pairs(
    folder: CampaignFolder,
    index: Sequence[Mapping[str, str]],
    executor: Executor,
    workers: int | None,
    *,
    progress: bool | None,
    stop_after_failures: int | None = None,
) -> None:
    """Play every pair that has no end yet. A pair that was started before is not started again.

    Raises:
        CampaignStoppedError: so many pairs in a row had no score; the same call plays the others later.
        OfficialArenaError: pairs could not be started, say because the disk is full; the same call tries them later.
    """
    if "pairs" in folder.events:
        return
    bound = {name: _bound_to(folder, name) for name in {row["slot"] for row in index}}
    scopes = {name: _sha256(folder.root / "scopes" / f"execution-{name}.json") for name in bound}
    cells = [{**bound[row["slot"]], "scope_sha256": scopes[row["slot"]], **row} for row in index]
    labels = [f"{row['treatment']} on task {row['task']}" for row in index]
    outcomes = run_cells(
        play,
        cells,
        executor=executor,
        workers=workers,
        resume=folder.root / "cells.jsonl",
        progress=progress,
        labels=labels,
        until=None if stop_after_failures is None else FailuresInARow(stop_after_failures),
    )
    if len(outcomes) < len(index):
        raise CampaignStoppedError(stopped_message(folder.root, index, [outcome.index for outcome in outcomes]))
    unstarted = [
        outcome
        for outcome, row in zip(outcomes, index, strict=True)
        if not outcome.ok and not (folder.root / "pairs" / row["slot"] / row["cell_id"]).exists()
    ]
    if unstarted:  # nothing was asked for these: the same call tries them later
        reason = _public_reason(unstarted[0].error)
        raise OfficialArenaError(
            f"{len(unstarted)} of {len(index)} pairs could not be started; first: {unstarted[0].label}: {reason}"
        )
    folder.record("pairs", {"ended": sum(outcome.ok for outcome in outcomes), "indexed": len(index)})


def play(cell: Mapping[str, str]) -> str:
    """Play one pair, or look at what an earlier start left.

    Returns:
        ``scored``, ``failed`` (it has an end and no score), ``interrupted`` (it has no end), or ``refused``.

    Raises:
        EvidenceStorageError: the disk refused a write.
    """
    root = cell["root"]
    request = read_json(f"{root}/requests/{cell['slot']}/{cell['treatment']}/{cell['task']}.json")
    session = _pair_session(root, cell["slot"], cell["plan"], cell["snapshot"], cell["scope_sha256"])
    try:
        with quiet_console():
            session.run(request)
    except retail_driver.RetailAttemptUnavailable:
        has_end = Path(root, "pairs", cell["slot"], cell["cell_id"], "terminal.json").exists()
        return "failed" if has_end else "interrupted"
    except EvidenceStorageError:
        raise  # the disk refused, not the driver; a pair without a ledger can be started later
    except OfficialArenaError:
        return "refused"
    return "scored"


def _public_reason(error: str) -> str:
    """Give the kind of an error, and its text where that is a sentence of ours: others may quote a conversation."""
    kind = error.partition(":")[0]
    return error if kind in _SPEAKING else kind


def captured_tasks(root: Path, slot_name: str) -> list[str]:
    """Give the ids of the tasks that a slot's snapshot holds, in order."""
    snapshot = snapshot_of(root, slot_name)
    return [] if not (snapshot / "units.json").exists() else list(read_json(snapshot / "units.json"))


def snapshot_of(root: Path, slot_name: str) -> Path:
    """Give the inventory snapshot of a slot that the campaign's log names."""
    return root / "capture" / slot_name / str(read_events(root / EVENTS)[f"captured:{slot_name}"]["snapshot"])


def _bound_to(folder: CampaignFolder, slot_name: str) -> dict[str, str]:
    """Give where a cell of a slot belongs: the folder, and what was decided in it.

    A process that outlives the folder (a notebook, a worker of a cluster) tells by it that another campaign took the
    folder's place.

    Raises:
        IntegrityError: the snapshot was changed; nobody is asked from a state that was not captured.
    """
    snapshot = snapshot_of(folder.root, slot_name)
    report = verify_snapshot(snapshot, require_private=True)
    if not report.ok:
        raise IntegrityError(f"the inventory of slot {slot_name} was changed: {report.first_problem}")
    return {
        "root": str(folder.root),
        "slot": slot_name,
        "plan": folder.plan.plan_hash,
        "snapshot": snapshot.name,
    }


class _BoundSlot:
    """What the cells of one slot share: read once per process."""

    def __init__(self, root: Path, slot_name: str, snapshot_name: str) -> None:
        self.plan: CampaignPlan = parse_plan(read_json(root / PLAN))
        self.slot = next(slot for slot in self.plan.slots if slot.name == slot_name)
        self.arena = resolve_arena(self.plan.arena)
        self.treatments = {treatment.name: treatment for treatment in self.plan.treatments}
        self.config = slot_config(self.plan, self.slot)
        snapshot = root / "capture" / slot_name / snapshot_name
        self.replays = snapshot / "replays.json"
        self.replays_sha256 = _sha256(self.replays)
        self.checkpoints = {
            row["checkpoint_id"]: row for row in read_json(snapshot / "checkpoints.json")["checkpoints"]
        }
        self.backend = _intervention_backend(self.plan, self.slot)
        self.parameters = {
            treatment.name: {"members": [member.model_dump(mode="json") for member in treatment.members]}
            for treatment in self.plan.treatments
        }


@lru_cache(maxsize=_SLOTS_KEPT)
def _bound_slot(root: Path, slot_name: str, plan_hash: str, snapshot_name: str) -> _BoundSlot:
    bound = _BoundSlot(root, slot_name, snapshot_name)
    if bound.plan.plan_hash != plan_hash:
        raise IntegrityError(f"{PLAN} says something else than it did when the campaign was opened")
    return bound


@lru_cache(maxsize=_SLOTS_KEPT)
def _pair_session(
    root: str, slot_name: str, plan_hash: str, snapshot_name: str, scope_sha256: str
) -> retail_driver.PairSession:
    bound = _bound_slot(Path(root), slot_name, plan_hash, snapshot_name)
    environment = {
        retail_driver.SCOPE_PATH_ENV: str(Path(root, "scopes", f"execution-{slot_name}.json")),
        retail_driver.SCOPE_SHA256_ENV: scope_sha256,
        REPLAYS_PATH_ENV: str(bound.replays),
        REPLAYS_SHA256_ENV: bound.replays_sha256,
    }
    return retail_driver.PairSession(environment, durable=bound.plan.durable)


def _index(folder: CampaignFolder, known: Mapping[str, str]) -> list[dict[str, str]]:
    rows: list[dict[str, str]] = []
    for slot in folder.plan.slots:
        for treatment in folder.plan.treatments:
            for task in captured_tasks(folder.root, slot.name):
                request = Path(f"{folder.root}/requests/{slot.name}/{treatment.name}/{task}.json")
                if request.exists():
                    cell_id = known.get(_sha256(request)) or retail_driver.cell_id(read_json(request))
                    rows.append({"slot": slot.name, "treatment": treatment.name, "task": task, "cell_id": cell_id})
    return rows


def _bind_scope(folder: CampaignFolder, path: Path, draft: Mapping[str, Any]) -> None:
    """Keep the disabled draft, and enable it in the name of the command that a person gave."""
    draft_path = path.with_suffix(".draft.json")
    if not draft_path.exists():
        write_json(draft_path, dict(draft))
    write_json(path, {**draft, "execution_enabled": True, "authorizations": authorizations(folder.command_sha256)})


def _require_in_place(scope_path: Path, root: Path) -> None:
    """Refuse to go on in a copy: its scope names a place in the first folder, and everything would be written there."""
    named = Path(str(read_json(scope_path)["output_root"]))
    if named == root:
        return
    parts = len(root.parts) - len(scope_path.parent.parent.parts)
    first = named.parents[parts - 1] if len(named.parts) > parts else named
    raise InputError(
        f"{scope_path.parent.parent} was begun as {first}, and its scopes name that place: move it back to go on, or "
        "begin a new folder; a copy cannot be gone on with"
    )


def _intervention_backend(plan: CampaignPlan, slot: ModelSlot) -> Any:
    model = slot.intervention_model
    rules = rules_file(plan, slot)
    if rules is not None:
        from agentinputlab.backends.llm import ScriptedBackend
        from agentinputlab.backends.scripted import load_rules

        if _sha256(rules) != model.rules_sha256:
            raise OfficialArenaError(f"Rules of slot {slot.name} were changed since the plan was made")
        return ScriptedBackend(load_rules(rules))
    if model.kind == "agent" and slot.agent.backend == "openai":
        return _endpoint_of_agent(slot)
    return None


def _endpoint_of_agent(slot: ModelSlot) -> Any:
    from agentinputlab.backends.llm import OpenAICompatibleBackend

    args = slot.agent.args
    try:
        return OpenAICompatibleBackend(
            slot.agent.model,
            str(args["api_base"]),
            deployment_identity={"revision": str(args.get("revision", "unstated"))},
            api_key_env=args.get("api_key_env"),
            timeout_seconds=float(args.get("timeout", 120.0)),
        )
    except ValidationError as error:  # said of the plan, before anything was read that a customer wrote
        raise OfficialArenaError(f"the model of slot {slot.name} cannot be asked: {error}") from error


def _context(backend: Any) -> Any:
    from agentinputlab.contracts import InterventionContext

    return InterventionContext(backend=backend, seed=17)


def _no_op() -> Any:
    from agentinputlab.selectors import NoOpIntervention

    return NoOpIntervention()


def _sha256(path: Path) -> str:
    from ripieno.files import open_regular

    with open_regular(path) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
