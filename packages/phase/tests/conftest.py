"""What the tests of several folders share."""

from pathlib import Path

import pytest
from hypothesis import settings

# The first example of a test may compile its kernels, and no timing is ever asserted.
settings.register_profile("no-deadline", deadline=None)
settings.load_profile("no-deadline")


@pytest.fixture
def s1_path() -> Path:
    """The spec S1 of the acceptance cases."""
    return Path(__file__).parent / "s1.yaml"
