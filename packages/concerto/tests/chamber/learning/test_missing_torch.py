"""Without PyTorch the package imports, and says what to install when it is used."""

from __future__ import annotations

import subprocess
import sys

import pytest

_WITHOUT = """
import sys
sys.modules["torch"] = None  # how Python marks a module that cannot be imported
import chamber, chamber.benchmarks, chamber.learning, chamber.utils.device
try:
    {use}
except ImportError as error:
    print(error)
"""


def _said_without(use: str) -> str:
    command = [sys.executable, "-c", _WITHOUT.format(use=use)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_the_best_device_is_the_cpu() -> None:
    assert _said_without("print(chamber.utils.device.torch_device())") == "cpu\n"


@pytest.mark.parametrize(
    "use",
    [
        "chamber.learning.load_policy",
        "import chamber.benchmarks.ego_ppo_trainer",
    ],
)
def test_using_it_names_the_extra(use: str) -> None:
    assert _said_without(use) == "learning needs PyTorch; install it with: pip install 'ripieno-concerto[train]'\n"
