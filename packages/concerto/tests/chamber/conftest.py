"""What tests share: a small run of the cell of the package, a policy's checkpoint, and who can render."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Protocol

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


class SavePolicy(Protocol):
    """Saves a policy of the given widths with drawn parameters, as a training run would, and gives the payload."""

    def __call__(self, root: Path, *, obs_dim: int, action_dim: int, run_id: str = "0123456789abcdef") -> Path: ...


@pytest.fixture(scope="session")
def save_policy() -> SavePolicy:
    torch = pytest.importorskip("torch")
    from chamber.learning import GaussianPolicy
    from concerto.training.checkpoints import CheckpointMetadata, save_checkpoint

    def save(root: Path, *, obs_dim: int, action_dim: int, run_id: str = "0123456789abcdef") -> Path:
        policy = GaussianPolicy(obs_dim=obs_dim, hidden_dim=16, action_dim=action_dim)
        draws = torch.Generator().manual_seed(1)
        state = {name: torch.randn(value.shape, generator=draws) for name, value in policy.state_dict().items()}
        return save_checkpoint(
            state_dict={"actor": state},
            uri=f"local://artifacts/{run_id}_step100.pt",
            metadata=CheckpointMetadata(run_id, 0, 100, "unknown", "0" * 64, ""),
            artifacts_root=root,
        )

    return save


@pytest.fixture(scope="session")
def push_checkpoint(save_policy: SavePolicy, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint of a policy for the planar task: not trained, but it moves, and differently in every state."""
    return save_policy(tmp_path_factory.mktemp("checkpoint"), obs_dim=10, action_dim=2)
