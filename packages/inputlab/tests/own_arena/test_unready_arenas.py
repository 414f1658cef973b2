"""An arena that cannot give figures is refused before anything is written, in one sentence that names why."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from workers.official_arenas.providers import installed_providers
from workers.official_arenas.testing import check_arena

MODULE = """
from workers.official_arenas.own_arena import OwnArena, Played, Task


class EchoArena(OwnArena):
    benchmark_id = "my.echo"
    scorer_id = "my.echo.v1"

    def tasks(self):
        splits = ["train", "test"] * 2
        return [Task(task_id=str(n), split=splits[n], query=f"Say the word {n}.") for n in range(4)]

    def play(self, task, state, agent):
        answer = agent.ask([{"role": "user", "content": state.query}], system=state.instruction)
        return Played(answer.text == "yes", agent.transcript)
"""
SCRIPTED = """
    def scripted_agent(self, request):
        return "yes"
"""


class Place:
    """A folder on the path of new processes, with an arena that is installed in it."""

    def __init__(self, folder: Path) -> None:
        self.site = folder / "site"
        self.work = folder / "work"
        self.site.mkdir()
        self.work.mkdir()
        (self.work / "change.txt").write_text("Be brief.\n")

    def install(self, text: str, *, name: str = "my.echo") -> None:
        (self.site / "echo_arena.py").write_text(text)
        metadata = self.site / "echo_arena-1.0.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: echo-arena\nVersion: 1.0\n")
        (metadata / "entry_points.txt").write_text(f"[agentinputlab.arenas]\n{name} = echo_arena:EchoArena\n")

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("AILAB_")}
        environment |= {"PYTHONPATH": str(self.site), "COLUMNS": "100"}
        command = [sys.executable, "-m", "agentinputlab", *words]
        return subprocess.run(command, cwd=self.work, env=environment, capture_output=True, text=True, check=False)

    def run_change(self, name: str, *before: str) -> subprocess.CompletedProcess[str]:
        words = ("retail", "run", "--arena", name, "--append-instruction", "change.txt", "--out", "out")
        return self.run(*before, *words)

    def wrote_nothing(self) -> bool:
        return [path.name for path in self.work.iterdir()] == ["change.txt"]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def arena_line(done: subprocess.CompletedProcess[str], name: str) -> str:
    (line,) = [line for line in done.stdout.splitlines() if f"arena {name}:" in line]
    return line


def test_entry_point_with_another_name_than_the_arena_is_refused_by_run_and_doctor(place: Place) -> None:
    place.install(MODULE + SCRIPTED, name="my.other")
    done = place.run_change("my.other")
    assert done.returncode == 2
    assert "Arena my.other has the benchmark_id my.echo; give its entry point and benchmark_id the same name" in (
        done.stderr
    )
    assert place.wrote_nothing()
    line = arena_line(place.run("doctor"), "my.other")
    assert "its benchmark_id is my.echo; give its entry point the same name" in line


@pytest.fixture
def arenas_looked_up_again() -> Iterator[None]:
    installed_providers.cache_clear()
    yield
    installed_providers.cache_clear()


@pytest.mark.usefixtures("arenas_looked_up_again")
@pytest.mark.parametrize("name", ["my.other", "my.echo"])
def test_entry_point_with_another_name_than_the_arena_is_found_by_the_checks(
    name: str, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.install(MODULE + SCRIPTED, name=name)
    monkeypatch.syspath_prepend(place.site)
    monkeypatch.delitem(sys.modules, "echo_arena", raising=False)
    arena = importlib.import_module("echo_arena").EchoArena
    found = [finding for finding in check_arena(arena, limit=1) if not finding.ok]
    assert [finding.check for finding in found] == (["identities_are_fixed"] if name == "my.other" else [])
    assert all("Arena my.other has the benchmark_id my.echo" in finding.problem for finding in found)


def test_arena_without_a_scripted_agent_and_a_model_is_not_started(place: Place) -> None:
    place.install(MODULE)
    done = place.run_change("my.echo")
    assert done.returncode == 2
    assert "This arena has no scripted agent; give a model with --model-url and --model" in done.stderr
    assert place.wrote_nothing()
    assert arena_line(place.run("doctor"), "my.echo").endswith("can run here beside a model server")


def test_missing_module_is_named_and_debug_shows_who_imports_it(place: Place) -> None:
    place.install("import no_such_table.units\n" + MODULE + SCRIPTED)
    done = place.run_change("my.echo")
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        "agentinputlab: Provider entry point echo_arena:EchoArena cannot be loaded: no module named no_such_table"
    ]
    shown = place.run_change("my.echo", "--debug").stderr
    assert "ModuleNotFoundError: No module named 'no_such_table'" in shown
    assert 'echo_arena.py", line 1' in shown
    assert place.wrote_nothing()


def test_other_failures_of_a_module_keep_their_text_to_the_traceback(place: Place) -> None:
    place.install("raise RuntimeError('my private text')\n")
    done = place.run_change("my.echo")
    assert done.stderr.strip() == "agentinputlab: Provider entry point echo_arena:EchoArena cannot be loaded"
    assert "RuntimeError: my private text" in place.run_change("my.echo", "--debug").stderr
