"""The counting arena, installed the way an arena of another package is: by its entry point."""

import sys
from pathlib import Path

import pytest

PLUGIN = Path(__file__).parent / "arena_plugin"
sys.path.insert(0, str(PLUGIN))

from ledger_lab import Lab  # noqa: E402

from workers.official_arenas.providers import installed_providers  # noqa: E402

installed_providers.cache_clear()


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    tmp_path.chmod(0o700)
    return Lab(tmp_path)


@pytest.fixture
def paired(lab: Lab) -> Lab:
    """A lab whose captures are done and whose calls are counted from now on."""
    lab.prepare()
    return lab


@pytest.fixture
def plugin_path() -> str:
    return str(PLUGIN)
