"""Whether log, scopes, requests and ledgers of a campaign speak of the same work, and none of it is missing."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from ripieno.canonical import INDENTED_UNICODE_LINE
from ripieno.chain import walk_chain
from ripieno.files import sha256_file
from workers.official_arenas._drafts import blank_authorizations
from workers.official_arenas._evidence import is_leftover
from workers.official_arenas._pair_ledger import PAIR_START
from workers.official_arenas._rejections import REJECTION_NAME
from workers.official_arenas.campaign.environment import ANSWERED_BY, ENVIRONMENT, environment_problem
from workers.official_arenas.campaign.folder import COMMAND, read_json
from workers.official_arenas.campaign.plan import CampaignPlan
from workers.official_arenas.protocol import content_hash

__all__ = [
    "RecordProblem",
    "answered_by_hash",
    "authorizations",
    "intervention_start",
    "record_problems",
    "requests_hash",
]

AUTHORIZATION_THREAD = "agentinputlab.command.v1"
CELLS = "cells.jsonl"
INDEX = "index.json"


@dataclass(frozen=True, slots=True)
class RecordProblem:
    """What is missing, was added, or belongs to other work.

    Attributes:
        place: path of a file below the campaign.
        detail: what is wrong with it.
    """

    place: str
    detail: str

    def __str__(self) -> str:
        return f"{self.place} {self.detail}"


def record_problems(
    root: Path, plan: CampaignPlan, events: Mapping[str, Mapping[str, Any]]
) -> Generator[RecordProblem]:
    """Give what does not fit between the records of a campaign, whether it is complete or not.

    Args:
        root: of the campaign.
        plan: of the campaign.
        events: payloads of the steps that its log says are done.
    """
    yield from _strangers(root, plan)
    problem = environment_problem(root, events.get("planned"))
    if problem is not None:
        yield RecordProblem(ENVIRONMENT, problem)
    requests = root / "requests"
    index: list[Mapping[str, str]] | None = read_json(requests / INDEX) if (requests / INDEX).exists() else None
    yield from _requests(root, plan, events, index)
    said = events.get("interventions")
    if said is not None and said.get("answered_by_sha256") != answered_by_hash(root):
        yield RecordProblem("requests", "say something else of who answered the interventions than the log")
    command = content_hash(read_json(root / COMMAND))
    for slot in plan.slots:
        yield from _capture(root, plan, slot.name, events.get(f"captured:{slot.name}"), command)
        rows = [row for row in index or () if row["slot"] == slot.name]
        yield from _pairs(root, slot.name, rows, command)
        yield from _drafts(root, slot.name)
    if "pairs" in events:
        yield from _ends(root, events["pairs"], index or ())


def _names(folder: Path) -> list[str]:
    """What lies in a folder and is no leftover of an interrupted write."""
    return sorted(entry.name for entry in folder.iterdir() if not is_leftover(entry.name)) if folder.is_dir() else []


def _strangers(root: Path, plan: CampaignPlan) -> Generator[RecordProblem]:
    slots = {slot.name for slot in plan.slots}
    for folder, known in (("capture", slots), ("pairs", slots), ("requests", {*slots, INDEX})):
        for name in _names(root / folder):
            if name not in known:
                yield RecordProblem(f"{folder}/{name}", "was added")


# --- requests -----------------------------------------------------------------------------------------------


def _requests(
    root: Path, plan: CampaignPlan, events: Mapping[str, Mapping[str, Any]], index: Sequence[Mapping[str, str]] | None
) -> Generator[RecordProblem]:
    """Every request is in the index, every intervention has a start, and as many gave a request as the log says."""
    made: list[tuple[str, str, str]] = []
    for slot in plan.slots:
        captured = _captured_tasks(root, slot.name, events)
        for treatment in plan.treatments:
            place = f"requests/{slot.name}/{treatment.name}"
            folder = root / place
            names = set(_names(folder))
            for task in captured:
                request, start = f"{task}.json", f"{task}-start.json"
                if request in names:
                    made.append((slot.name, treatment.name, task))
                if start in names:
                    written = INDENTED_UNICODE_LINE.dumps(intervention_start(task, treatment.name))
                    if folder.joinpath(start).read_bytes() != written:
                        yield RecordProblem(f"{place}/{start}", "was changed")
                elif request in names or "interventions" in events:
                    yield RecordProblem(f"{place}/{start}", "is missing")
                names -= {request, start, f"{task}-{ANSWERED_BY}"}
            for name in sorted(names):
                yield RecordProblem(f"{place}/{name}", "was added")
    said = events.get("interventions")
    if said is not None and said["requested"] != len(made):
        yield RecordProblem(
            "requests", f"hold {len(made)} requests, and the log says that {said['requested']} were made"
        )
    elif said is not None and said["requests_sha256"] != requests_hash(root, made):
        yield RecordProblem("requests", "hold another request than the log says was made")
    if index is not None and [(row["slot"], row["treatment"], row["task"]) for row in index] != made:
        yield RecordProblem(f"requests/{INDEX}", "lists other pairs than there are requests")


def authorizations(command_sha256: str) -> dict[str, Any]:
    """Give the reference to the command that a person gave, which is what enables the scopes of a campaign."""
    reference = {
        "source_kind": "human_message",
        "thread_id": AUTHORIZATION_THREAD,
        "message_sha256": command_sha256,
    }
    return {"scope": reference, "environment_models": dict(reference)}


def intervention_start(task: str, treatment: str) -> dict[str, Any]:
    """Give what is written before an intervention is run."""
    return {"task_id": task, "treatment": treatment, "retry_permitted": False}


def requests_hash(root: Path, made: Sequence[tuple[str, str, str]]) -> str:
    """Give the hash of ``{place: SHA-256}`` of all requests.

    Args:
        root: of the campaign.
        made: slot, treatment and task of every request.
    """
    requests = f"{root}/requests"
    return content_hash({name: sha256_file(f"{requests}/{name}.json") for name in map("/".join, made)})


def answered_by_hash(root: Path) -> str | None:
    """Give the hash of ``{SLOT/TREATMENT/TASK: SHA-256}`` of all files that say who answered an intervention.

    Without such a file it is None: no endpoint was asked.
    """
    end, requests = f"-{ANSWERED_BY}", root / "requests"
    files = requests.glob(f"*/*/*{end}") if requests.is_dir() else ()
    answered = {str(path.relative_to(requests)).removesuffix(end): sha256_file(path) for path in files}
    return content_hash(answered) if answered else None


def _captured_tasks(root: Path, slot: str, events: Mapping[str, Mapping[str, Any]]) -> list[str]:
    captured = events.get(f"captured:{slot}")
    if captured is None:
        return []
    units = root / "capture" / slot / str(captured["snapshot"]) / "units.json"
    return read_json(units) if units.exists() else []


# --- captures and pairs -------------------------------------------------------------------------------------


def _capture(
    root: Path, plan: CampaignPlan, slot: str, captured: Mapping[str, Any] | None, command: str
) -> Generator[RecordProblem]:
    """The snapshot that the log names is of this slot and plan, and was made under the scope that lies here."""
    name = f"scopes/capture-{slot}.json"
    scope = root / name
    if captured is None:
        if scope.exists():
            yield from _authorization(scope, name, command)
        return
    if not scope.exists():
        yield RecordProblem(name, "is missing")
        return
    yield from _authorization(scope, name, command)
    place = f"capture/{slot}/{captured['snapshot']}/dispositions.json"
    if not (root / place).exists():
        return  # another check names a missing snapshot
    document = read_json(root / place)
    if document["scope_sha256"] != sha256_file(scope):
        yield RecordProblem(name, "is another one than the captures were made under")
    if (document["model_slot"], document["phase"]) != (slot, plan.phase):
        yield RecordProblem(place, "is of another slot or split than the plan's")
    tasks = document["expected_denominator"]
    if plan.tasks not in (None, tasks) or captured["expected"] != tasks:
        yield RecordProblem(place, "has another number of tasks than the plan or the log")
    if captured["captured"] != len(document["captured_task_ids"]):
        yield RecordProblem(place, "has another number of captured tasks than the log")


def _pairs(root: Path, slot: str, rows: Sequence[Mapping[str, str]], command: str) -> Generator[RecordProblem]:
    """Every ledger is of an indexed pair, and was begun under the scope that lies here, which allows exactly those."""
    name = f"scopes/execution-{slot}.json"
    scope = root / name
    indexed = [row["cell_id"] for row in rows]
    played = [cell for cell in _names(root / "pairs" / slot) if cell != REJECTION_NAME]
    known = frozenset(cell for cell in cast("list[object]", indexed) if isinstance(cell, str))
    for cell in played:
        if cell not in known:
            yield RecordProblem(f"pairs/{slot}/{cell}", "was added: no request is of that pair")
    if not scope.exists():
        if played:
            yield RecordProblem(name, "is missing")
        return
    yield from _authorization(scope, name, command)
    if read_json(scope)["allowed_cell_ids"] != indexed:
        yield RecordProblem(name, "allows other pairs than there are requests")
    bound, pairs = sha256_file(scope), root / "pairs" / slot
    for cell in played:
        start = pairs.joinpath(cell, PAIR_START)
        if start.exists() and read_json(start)["scope_sha256"] != bound:
            yield RecordProblem(name, f"is another one than pair {cell} was begun under")


def _authorization(scope: Path, name: str, command: str) -> Generator[RecordProblem]:
    """A scope was enabled by the command that lies here."""
    if read_json(scope)["authorizations"] != authorizations(command):
        yield RecordProblem(COMMAND, f"is another command than {name} refers to")


def _drafts(root: Path, slot: str) -> Generator[RecordProblem]:
    """A scope is its draft, but for what enables it."""
    for kind in ("capture", "execution"):
        scope = root / "scopes" / f"{kind}-{slot}.json"
        if not scope.exists():
            continue
        draft = scope.with_suffix(".draft.json")
        blank = {**read_json(scope), "execution_enabled": False, "authorizations": blank_authorizations()}
        if not draft.exists():
            yield RecordProblem(f"scopes/{draft.name}", "is missing")
        elif draft.read_bytes() != INDENTED_UNICODE_LINE.dumps(blank):
            yield RecordProblem(f"scopes/{draft.name}", f"is the draft of another scope than {scope.name}")


def _ends(root: Path, played: Mapping[str, Any], index: Sequence[Mapping[str, str]]) -> Generator[RecordProblem]:
    """When the log says that the pairs are played, their ends are recorded, as many as it says."""
    if played["indexed"] != len(index):
        yield RecordProblem(f"requests/{INDEX}", f"lists {len(index)} pairs, and the log says {played['indexed']}")
    if not index:
        return
    if not (root / CELLS).exists():
        yield RecordProblem(CELLS, "is missing")
        return
    ended = {entry.payload["index"] for entry in walk_chain(root / CELLS) if entry.payload.get("status") == "ok"}
    if played["ended"] != len(ended):
        yield RecordProblem(CELLS, f"knows the end of {len(ended)} pairs, and the log says {played['ended']}")
