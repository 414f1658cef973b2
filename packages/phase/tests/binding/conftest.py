"""What the tests of binding specs share."""

from pathlib import Path

import pytest

FULL_PATH = Path(__file__).parent / "full_spec.yaml"


@pytest.fixture(scope="session")
def full_path() -> Path:
    """A spec that uses every key of the format."""
    return FULL_PATH


@pytest.fixture(scope="session")
def full_text() -> str:
    """Its text."""
    return FULL_PATH.read_text(encoding="utf-8")
