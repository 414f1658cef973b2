"""A small run of the cell of the package, made once."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from chamber.cell.config import Cell
from chamber.cell.loading import default_cell_text, parse_cell
from chamber.cell.record import CellRecord
from chamber.cell.runner import run_cell
from chamber.cell_report import render_cell_page

EPISODES = 3

os.environ.setdefault("MUJOCO_GL", "egl")  # before a test imports MuJoCo: it chooses how to render on import


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
