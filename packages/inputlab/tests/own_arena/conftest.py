"""The example arena, as a package that is installed beside Input lab: its files and its entry points on the path."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[4]
EXAMPLE = REPOSITORY / "examples" / "own_arena"
sys.path.insert(0, str(EXAMPLE))

Run = Callable[..., subprocess.CompletedProcess[str]]


def lay_on_path(project: Path, folder: Path) -> None:
    """What `pip install` leaves behind: the package, and metadata with its entry points."""
    settings = tomllib.loads((project / "pyproject.toml").read_text(encoding="utf-8"))
    name, version = settings["project"]["name"], settings["project"]["version"]
    for package in settings["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]:
        shutil.copytree(project / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    metadata = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    lines: list[str] = []
    for group, entries in settings["project"]["entry-points"].items():
        lines += [f"[{group}]", *(f"{key} = {value}" for key, value in entries.items()), ""]
    (metadata / "entry_points.txt").write_text("\n".join(lines))


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    folder = tmp_path / "site"
    folder.mkdir()
    lay_on_path(EXAMPLE, folder)
    return folder


@pytest.fixture
def run(installed: Path, tmp_path: Path) -> Run:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AILAB_")}
    environment |= {"PYTHONPATH": str(installed), "COLUMNS": "100"}

    def start(*words: str, module: str = "agentinputlab") -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", module, *words]
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)

    return start
