"""A small run of the cell of the package, made once; and tests that render are skipped where nobody can."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from chamber.cell.config import Cell
from chamber.cell.loading import default_cell_text, parse_cell
from chamber.cell.record import CellRecord
from chamber.cell.runner import run_cell
from chamber.cell_report import render_cell_page

EPISODES = 3

os.environ.setdefault("MUJOCO_GL", "egl")  # before a test imports MuJoCo: it chooses how to render on import


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """`make test` needs no system packages; continuous integration has them, and skips nothing."""
    if item.get_closest_marker("egl") and not os.environ.get("CI") and not _can_render():
        pytest.skip("needs off-screen rendering (Debian: libegl1 libgl1-mesa-dri)")


@cache
def _can_render() -> bool:
    command = [sys.executable, "-c", "import mujoco; mujoco.GLContext(8, 8)"]
    done = subprocess.run(command, env={**os.environ, "MUJOCO_GL": "egl"}, capture_output=True, check=False)
    return done.returncode == 0


@dataclass(frozen=True)
class SmallRun:
    """The cell of the package with three episodes, run into a folder."""

    cell: Cell
    folder: Path
    record: CellRecord
    digest: str


@pytest.fixture(scope="session")
def small_cell() -> Cell:
    return parse_cell(default_cell_text(), source="planar_push.yaml").model_copy(update={"episodes": EPISODES})


@pytest.fixture(scope="session")
def small_run(small_cell: Cell, tmp_path_factory: pytest.TempPathFactory) -> SmallRun:
    folder = tmp_path_factory.mktemp("cell") / "run"
    result = run_cell(small_cell, folder, cell_text=default_cell_text(), pages={"index.html": render_cell_page})
    return SmallRun(small_cell, folder, result.record, result.digest)
