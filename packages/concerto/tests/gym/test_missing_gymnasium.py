"""Without Gymnasium the package says what to install."""

from __future__ import annotations

import subprocess
import sys

_WITHOUT_GYMNASIUM = """
import sys
sys.modules["gymnasium"] = None  # how Python marks a module that cannot be imported
import concerto.safety, concerto.testing
try:
    import concerto.gym
except ImportError as error:
    print(error)
"""


def test_importing_concerto_gym_without_gymnasium_names_the_extra() -> None:
    answer = subprocess.run([sys.executable, "-c", _WITHOUT_GYMNASIUM], check=True, capture_output=True, text=True)
    assert answer.stdout == "concerto.gym needs gymnasium: pip install 'ripieno-concerto[chamber]'\n"
