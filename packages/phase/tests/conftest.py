"""What the tests of several folders share."""

from pathlib import Path

import pytest


@pytest.fixture
def s1_path() -> Path:
    """The spec S1 of the acceptance cases."""
    return Path(__file__).parent / "s1.yaml"
