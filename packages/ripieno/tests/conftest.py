"""Fixtures for everything that needs a run folder."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))  # test modules share helpers by name

from _runs import write_small_run


@pytest.fixture
def small_run(tmp_path: Path) -> Path:
    """A complete run with three events and two artifacts."""
    return write_small_run(tmp_path / "run")
