"""What the ledgers of Input lab cost beside the model, how many pairs a campaign plays, and how soon commands answer.

Floors, written before anything was measured. A pair leaves 8 files in 3 directories (12 files in the embedded arena,
which keeps four more). A file appears whole or not at all, so it needs open, write, close, link and unlink; a
directory mkdir, open and close. Before the terminal is written, the other files of the cell are read once more:
3 x scandir, 7 x (open, fstat, read, close). Durable, each file adds 2 x fsync (itself, its name) and each
directory 1: 19 per pair. A captured task leaves 2 files: 10 calls and, durable, 4 x fsync. The floor of a row is
measured: exactly these calls, with as many bytes as a pair left, on the same file system, by the same interpreter,
plus SHA-256 of every byte once when it is written and once when it is read.
"""

from __future__ import annotations

import atexit
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any

import click
import numpy as np
from _common import pin_to_one_core, write_results

TREATMENT = "plan.plan_and_solve.ps_prompt"
SPLIT = "train"
LEDGER_FILES = {"pair-start.json", "request.json", "trace.json", "arm-outcome.json", "response.json", "terminal.json"}
"""What the ledger writes; all else in a cell is the arena's, whose time is not counted."""
REPEATS = 5
STARTS = 5
FIXTURE_PAIRS = 1_000
EMBEDDED_PAIRS = 16
DURABLE_PAIRS = 100
HERE = Path(__file__).resolve().parent
STAGES = {
    "Recording": "capture",
    "Running": "interventions",
    "Playing": "pairs",
    "Analysing": "analysis, page and seal",
}
SHOWN = ("what", "where", "median", "quartiles", "floor", "share of the floor", "limit")
COMMANDS_LIMIT_S = 0.3


# --- rows ---------------------------------------------------------------------------------------------------


def row(
    what: str, where: str, samples: Sequence[float], unit: str, *, limit: str = "", floor: float | None = None,
    is_rate: bool = False,
) -> dict[str, object]:  # fmt: skip
    """Give median and quartiles of what was measured; a floor is in the same unit."""
    low, median, high = (float(value) for value in np.percentile(samples, [25, 50, 75]))
    share = None if floor is None else (median / floor if is_rate else floor / median)
    return {
        "what": what,
        "where": where,
        "median": f"{_number(median)} {unit}",
        "quartiles": f"{_number(low)} to {_number(high)} {unit}",
        "floor": "" if floor is None else f"{_number(floor)} {unit}",
        "share of the floor": "" if share is None else f"{share:.2f}",
        "limit": limit,
        "samples": [float(f"{value:.6g}") for value in samples],
        "unit": unit,
    }


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


# --- floors -------------------------------------------------------------------------------------------------

_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
Tree = Mapping[str, int]
"""Relative path of a file -> its bytes."""


def create_whole(directory: int, name: str, data: bytes, *, durable: bool) -> None:
    """Write a file that appears whole or not at all, with nothing but system calls."""
    partial = f".{name}.partial"
    descriptor = os.open(partial, _CREATE, 0o600, dir_fd=directory)
    os.write(descriptor, data)
    if durable:
        os.fsync(descriptor)
    os.close(descriptor)
    os.link(partial, name, src_dir_fd=directory, dst_dir_fd=directory)
    os.unlink(partial, dir_fd=directory)
    if durable:
        os.fsync(directory)


def pair_floor(root: int, name: str, tree: Tree, *, durable: bool) -> None:
    """Leave the files of one pair and read them once more."""
    opened = {"": _make_directory(root, name, durable=durable)}
    for path, size in tree.items():
        folder, _, file = path.rpartition("/")
        if folder not in opened:
            opened[folder] = _make_directory(opened[""], folder, durable=durable)
        data = bytes(size)
        sha256(data)
        create_whole(opened[folder], file, data, durable=durable)
    for descriptor in opened.values():
        with os.scandir(descriptor) as entries:
            names = [entry.name for entry in entries if not entry.is_dir(follow_symlinks=False)]
        for file in names:
            handle = os.open(file, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=descriptor)
            data = os.read(handle, os.fstat(handle).st_size + 1)
            os.close(handle)
            sha256(data)
    for descriptor in opened.values():
        os.close(descriptor)


def _make_directory(parent: int, name: str, *, durable: bool) -> int:
    os.mkdir(name, 0o700, dir_fd=parent)
    if durable:
        os.fsync(parent)
    return os.open(name, _DIRECTORY, dir_fd=parent)


def scratch(base: Path) -> Path:
    """Give a private directory on the file system to be measured; it is removed when everything was measured.

    ext4 does not use a deleted inode again for some seconds, and walks past all of them whenever a file is made:
    removing one campaign would make the next one up to twenty times slower.
    """
    folder = Path(tempfile.mkdtemp(prefix="inputlab-speed-", dir=base)).resolve()
    atexit.register(shutil.rmtree, folder)
    return folder


def floor_seconds(base: Path, call: Callable[[int, int], object], count: int) -> tuple[float, float]:
    """Give processor and wall seconds of one call, median of the repeats, each in a fresh directory."""
    cpu: list[float] = []
    wall: list[float] = []
    for _ in range(REPEATS):
        descriptor = os.open(scratch(base), _DIRECTORY)
        used, began = time.process_time(), time.perf_counter()
        for index in range(count):
            call(descriptor, index)
        cpu.append((time.process_time() - used) / count)
        wall.append((time.perf_counter() - began) / count)
        os.close(descriptor)
    return float(np.median(cpu)), float(np.median(wall))


def sizes(cell: Path) -> Tree:
    """Give the files of a cell in the order in which they were written, the terminal last."""
    files = sorted((path for path in cell.rglob("*") if path.is_file()), key=lambda path: path.stat().st_mtime_ns)
    return {path.relative_to(cell).as_posix(): path.stat().st_size for path in files}


# --- campaigns ----------------------------------------------------------------------------------------------


def campaign(arena: str, tasks: int, folder: Path, note: Callable[[str], None] | None = None) -> None:
    """Run one treatment without fsync on the first tasks of the train split."""
    from workers.official_arenas.campaign.plan import parse_plan
    from workers.official_arenas.campaign.run import run_campaign

    plan = {"arena": arena, "split": SPLIT, "tasks": tasks, "treatments": [TREATMENT], "durable": False}
    run_campaign(parse_plan(plan), folder, command=["benchmark"], note=note, progress=False)


def stage_seconds(arena: str, tasks: int, folder: Path) -> dict[str, float]:
    """Give the processor seconds of every stage of one campaign, whatever it imports included."""
    marks: list[tuple[str, float]] = [("preflight", time.process_time())]
    campaign(arena, tasks, folder, note=lambda text: marks.append((STAGES[text.split()[0]], time.process_time())))
    marks.append(("end", time.process_time()))
    return {name: after - before for (name, before), (_, after) in pairwise(marks)}


def campaign_rows(
    arena: str, tasks: int, base: Path, where: str, limit: float, *, plays: bool
) -> list[dict[str, object]]:
    """Give pairs per processor second: for each stage, for all of it, and for a whole process with its imports.

    The limit is on the stage that plays and ledgers; on the whole campaign too where the arena plays something.
    """
    stages: list[dict[str, float]] = []
    verified: list[float] = []
    tree: Tree = {}
    for repeat in range(REPEATS + 1):  # the first one imports what is needed
        run = scratch(base) / "run"
        seconds = stage_seconds(arena, tasks, run)
        if repeat:
            stages.append(seconds)
            tree = sizes(next((run / "pairs/scripted").iterdir()))
            verified.append(tasks / verify_seconds(run))
    cpu, _ = floor_seconds(base, lambda root, k: pair_floor(root, f"{k:064x}", tree, durable=False), tasks)
    whole = [tasks / sum(seconds.values()) for seconds in stages]
    name = arena.partition(".")[0]
    asked = f"{limit:,.0f}/CPU s"
    measured = "interventions and pairs"
    both = [tasks / (seconds["interventions"] + seconds["pairs"]) for seconds in stages]
    rates = {stage: [tasks / seconds[stage] for seconds in stages] for stage in STAGES.values()}
    return [
        row(
            f"{name}: pairs stage", where, rates["pairs"], "pairs/CPU s", limit=asked, floor=1 / cpu, is_rate=True
        ),
        row(f"{name}: {measured}", where, both, "pairs/CPU s"),
        row(f"{name}: whole campaign, warm process", where, whole, "pairs/CPU s", limit=asked if plays else ""),
        row(f"{name}: whole campaign, new process", where, process_rates(arena, tasks, base), "pairs/CPU s"),
        *(row(f"{name}: {stage} stage", where, rates[stage], "pairs/CPU s") for stage in rates if stage != "pairs"),
        row(f"{name}: verification of the folder", where, verified, "pairs/CPU s"),
    ]  # fmt: skip


def process_rates(arena: str, tasks: int, base: Path) -> list[float]:
    """Give pairs per processor second of a process that does nothing else, from its start to its end."""
    rates: list[float] = []
    for _ in range(REPEATS):
        used = _children_s()
        command = [sys.executable, __file__, "campaign", arena, str(tasks), str(scratch(base) / "run")]
        subprocess.run(command, check=True, capture_output=True)
        rates.append(tasks / (_children_s() - used))
    return rates


def verify_seconds(folder: Path) -> float:
    """Give the processor seconds that `ripieno verify` needs for a folder once its verifier is loaded."""
    from ripieno._verdict import VerifyOptions
    from workers.official_arenas.campaign.verification import CAMPAIGN_VERIFIER

    began = time.process_time()
    report = CAMPAIGN_VERIFIER.verify(folder, VerifyOptions())
    seconds = time.process_time() - began
    if not report.ok:
        raise SystemExit(report.first_problem)
    return seconds


# --- ledgers with fsync -------------------------------------------------------------------------------------


class _Clock:
    """Time spent inside the arena, which is the model's and not the ledger's."""

    def __init__(self) -> None:
        self.cpu = self.wall = 0.0

    def around(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """Give a function that does the same and is timed."""

        def timed_call(*arguments: Any, **named: Any) -> Any:
            cpu, wall = time.process_time(), time.perf_counter()
            try:
                return call(*arguments, **named)
            finally:
                self.cpu += time.process_time() - cpu
                self.wall += time.perf_counter() - wall

        return timed_call


@contextmanager
def arena_time(arena: str, method: str) -> Iterator[_Clock]:
    """Time a method of an arena; what it takes is subtracted from what is measured."""
    from workers.official_arenas.campaign.preflight import resolve_arena

    kind = type(resolve_arena(arena))
    clock, original = _Clock(), getattr(kind, method)
    setattr(kind, method, clock.around(original))
    try:
        yield clock
    finally:
        setattr(kind, method, original)


def pair_rows(arena: str, tasks: int, base: Path, where: str) -> list[dict[str, object]]:
    """Give what driver and ledger add to one pair, forced to disk, the arena's own time excluded."""
    from workers.official_arenas import retail_driver
    from workers.official_arenas.campaign import steps

    folder = scratch(base)
    campaign(arena, tasks, folder / "run")
    run = folder / "run"
    scope = json.loads((run / "scopes/execution-scripted.json").read_bytes())
    (folder / "pairs").mkdir(mode=0o700)
    path = folder / "scope.json"
    path.write_text(json.dumps({**scope, "output_root": str(folder / "pairs")}))
    replays = steps.snapshot_of(run, "scripted") / "replays.json"
    environment = {
        retail_driver.SCOPE_PATH_ENV: str(path),
        retail_driver.SCOPE_SHA256_ENV: _sha256(path),
        steps.REPLAYS_PATH_ENV: str(replays),
        steps.REPLAYS_SHA256_ENV: _sha256(replays),
    }
    index = json.loads((run / "requests/index.json").read_bytes())
    requests = [
        json.loads((run / "requests/scripted" / cell["treatment"] / f"{cell['task']}.json").read_bytes())
        for cell in index
    ]
    wall: list[float] = []
    cpu: list[float] = []
    with arena_time(arena, "run_arm") as clock, retail_driver.PairSession(environment, durable=True) as session:
        session.run(requests[0])
        for request in requests[1:]:
            clock.cpu = clock.wall = 0.0
            used, began = time.process_time(), time.perf_counter()
            session.run(request)
            wall.append(1e3 * (time.perf_counter() - began - clock.wall))
            cpu.append(1e3 * (time.process_time() - used - clock.cpu))
    tree = sizes(folder / "pairs" / index[-1]["cell_id"])
    own = {path: size for path, size in tree.items() if path.rpartition("/")[2] in LEDGER_FILES}
    floor_cpu, floor_wall = floor_seconds(
        base, lambda root, k: pair_floor(root, f"{k:064x}", own, durable=True), len(requests)
    )
    name = arena.partition(".")[0]
    text = f"{name}: ledger and driver per pair, fsync"
    return [
        row(f"{text}, by the clock", where, wall, "ms", limit="25 ms", floor=1e3 * floor_wall),
        row(f"{text}, on a processor", where, cpu, "ms", floor=1e3 * floor_cpu),
        row(f"{name}: bytes per pair, {len(tree)} files", where, [sum(tree.values())], "bytes"),
    ]


def capture_rows(arena: str, tasks: int, base: Path, where: str) -> list[dict[str, object]]:
    """Give what the ledger adds to one captured task, forced to disk, the arena's own time excluded."""
    from workers.official_arenas._first_capture import capture_batch
    from workers.official_arenas.campaign.plan import parse_plan
    from workers.official_arenas.campaign.preflight import resolve_arena, slot_config

    plan = parse_plan({"arena": arena, "split": SPLIT, "tasks": tasks, "treatments": [TREATMENT]})
    marks: list[tuple[float, float]] = []
    folder = scratch(base)
    with arena_time(arena, "_first_turn") as clock:

        def note(_task: str, _status: str) -> None:
            marks.append((time.perf_counter() - clock.wall, time.process_time() - clock.cpu))

        capture_batch(resolve_arena(arena), slot_config(plan, plan.slots[0]), output_root=folder, on_task=note)
        tree = list(sizes(folder).values())[-2:]

    def floor(root: int, k: int) -> None:
        for name, size in zip(("start", "receipt"), tree, strict=True):
            data = bytes(size)
            sha256(data)
            create_whole(root, f"{k}-{name}", data, durable=True)

    floor_cpu, floor_wall = floor_seconds(base, floor, tasks)
    steps_of_both = 1e3 * np.diff(np.array(marks), axis=0)
    text = f"{arena.partition('.')[0]}: ledger per captured task, fsync"
    return [
        row(
            f"{text}, by the clock", where, steps_of_both[:, 0].tolist(), "ms", limit="5 ms", floor=1e3 * floor_wall
        ),
        row(f"{text}, on a processor", where, steps_of_both[:, 1].tolist(), "ms", floor=1e3 * floor_cpu),
    ]  # fmt: skip


def _sha256(path: Path) -> str:
    return sha256(path.read_bytes()).hexdigest()


# --- starts -------------------------------------------------------------------------------------------------


def command_paths() -> list[tuple[str, ...]]:
    """Give every command and group of agentinputlab."""
    from agentinputlab.cli._app import agentinputlab

    return list(_paths(agentinputlab, ()))


def _paths(command: click.Command, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    yield path
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            if found is not None:
                yield from _paths(found, (*path, name))


def start_rows() -> list[dict[str, object]]:
    """Time whole processes with warm caches."""
    starter = [sys.executable, "-c", "from agentinputlab.cli.main import main; main()"]
    floor = float(np.median(starts([sys.executable, "-c", "pass"])[0]))
    rows: list[dict[str, object]] = []
    for path in command_paths():
        wall, _ = starts([*starter, *path, "--help"])
        text = " ".join(("agentinputlab", *path, "--help"))
        rows.append(row(text, "process", wall, "s", limit=f"{COMMANDS_LIMIT_S} s", floor=floor))
    for module in ("agentinputlab", "agentinputlab.contracts", "workers.official_arenas.retail_driver"):
        wall, _ = starts([sys.executable, "-c", f"import {module}"])
        rows.append(row(f"import {module}", "process", wall, "s", floor=floor))
    return rows


def starts(command: Sequence[str]) -> tuple[list[float], list[float]]:
    """Give wall and processor seconds of a process, started again and again."""
    wall: list[float] = []
    cpu: list[float] = []
    for start in range(STARTS + 1):
        began, used = time.perf_counter(), _children_s()
        subprocess.run(command, check=True, capture_output=True)
        if start:
            wall.append(time.perf_counter() - began)
            cpu.append(_children_s() - used)
    return wall, cpu


def _children_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


# --- main ---------------------------------------------------------------------------------------------------


def places() -> list[tuple[Path, str]]:
    """Give the file systems that are measured: the one below this directory, and memory where there is one."""
    HERE.joinpath("results").mkdir(exist_ok=True)
    memory = Path("/dev/shm")
    disk = (HERE / "results", f"disk ({file_system(HERE)})")
    return [disk, *([(memory, "memory (tmpfs)")] if memory.is_dir() and file_system(memory) == "tmpfs" else [])]


def file_system(path: Path) -> str:
    """Give the type of the file system that holds a path, from the list of mounts."""
    mounts = [line.split()[1:3] for line in Path("/proc/mounts").read_text().splitlines()]
    holding = [(len(where), kind) for where, kind in mounts if path.is_relative_to(where)]
    return max(holding, default=(0, "unknown"))[1]


def main() -> None:
    """Measure and write the table."""
    rows = start_rows()
    pin_to_one_core()
    where, name = places()[0]
    for arena, tasks in (("fixture.common_support", DURABLE_PAIRS), ("embedded.retail", EMBEDDED_PAIRS)):
        rows += pair_rows(arena, tasks, where, name)
        rows += capture_rows(arena, tasks, where, name)
    for where, name in places():
        rows += campaign_rows("fixture.common_support", FIXTURE_PAIRS, where, name, 1_000, plays=False)
        rows += campaign_rows("embedded.retail", EMBEDDED_PAIRS, where, name, 40, plays=True)
    write_results(
        "inputlab_speed",
        title="Speed of the ledgers and campaigns of Input lab",
        method=(
            f"Campaigns: {FIXTURE_PAIRS:,} pairs of the fixture arena (which plays nothing) or {EMBEDDED_PAIRS} of "
            "the embedded arena (whose agent and customer follow written rules and are part of the figure), one "
            "treatment, without fsync, serial, on one core; median and quartiles of "
            f"{REPEATS} campaigns after one to warm up. A rate is pairs divided by the processor seconds, system "
            "calls included, of the named stage alone. The *whole campaign* is preflight, capture, interventions, "
            "pairs, analysis, page and seal together; in a *new process* the start of Python and all imports count "
            "too. The limit of the fixture arena is on the stage that runs and ledgers its cells, not on the stages "
            "around it. Ledgers with fsync: single pairs and single tasks, the time inside the arena subtracted. "
            f"Processes: {STARTS} starts with warm caches, by the clock, which other load lengthens. A *floor* is the "
            "same system calls with the same bytes and their SHA-256, and nothing else (of a start: `python -c "
            "pass`), of a pair with fsync those of the ledger's own 8 files; it is "
            "measured in the same place; the first lines of the script say which calls."
            " On ext4 files are slower to make for a while after others on that disk were deleted; the floor shows it "
            "too."
        ),
        columns=SHOWN,
        rows=rows,
    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["campaign"]:
        campaign(sys.argv[2], int(sys.argv[3]), Path(sys.argv[4]))
    else:
        main()
