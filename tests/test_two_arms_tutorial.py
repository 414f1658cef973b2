"""The tutorial on two arms and the how-to on judging tasks do what they say."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TUTORIAL = (ROOT / "docs/tutorials/two-arms.md").read_text(encoding="utf-8")
HOW_TO = (ROOT / "docs/how-to/judge-your-own-task.md").read_text(encoding="utf-8")


def python_blocks(text: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)


def run_python(code: str, *, cwd: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], cwd=cwd, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_every_command_of_the_tutorial_runs_in_order(tmp_path: Path):
    commands = re.findall(r"^\.venv/bin/((?:chamber|ripieno) .*)$", TUTORIAL, re.MULTILINE)
    assert len(commands) == 12
    (tmp_path / "lazy.py").write_text(python_blocks(TUTORIAL)[0])
    for command in commands:
        program, _, rest = command.partition(" ")
        done = subprocess.run(
            [str(Path(sys.executable).parent / program), *rest.split()],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{command}: {done.stderr}"
        if command.startswith("chamber run cocarry --episodes 5"):
            said = TUTORIAL.partition("```text\n")[2].partition("\nVideo")[0]
            assert said in done.stdout
        if command.startswith("chamber run cocarry --import lazy"):
            assert TUTORIAL.split("```text\n")[3].partition("```")[0] in done.stdout
        if command == "chamber replay runs/first":
            assert done.stdout == TUTORIAL.split("```text\n")[2].partition("```")[0]
    assert (tmp_path / "first.mp4").stat().st_size > 50_000


def test_the_lazy_partner_does_what_the_tutorial_says(tmp_path: Path):
    lazy, played, environment = python_blocks(TUTORIAL)
    (tmp_path / "lazy.py").write_text(lazy)
    said = TUTORIAL.split("```text\n")[3].partition("```")[0]
    assert run_python(played, cwd=tmp_path) == said
    assert run_python(environment, cwd=tmp_path) == "(1, 9)\n"


def test_the_how_to_judges_a_task(tmp_path: Path):
    first, second = python_blocks(HOW_TO)
    assert run_python(first, cwd=tmp_path) == ""
    rows = run_python(second, cwd=tmp_path).splitlines()
    assert all(row.startswith("ok ") for row in rows)
    assert len(rows) == 16
