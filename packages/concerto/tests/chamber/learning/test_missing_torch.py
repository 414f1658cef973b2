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


@pytest.mark.parametrize(
    "use",
    [
        "chamber.learning.load_policy",
        "chamber.utils.device.torch_device()",
        "import chamber.benchmarks.ego_ppo_trainer",
    ],
)
def test_using_it_names_the_extra(use: str) -> None:
    answer = subprocess.run(
        [sys.executable, "-c", _WITHOUT.format(use=use)], check=True, capture_output=True, text=True
    )
    assert answer.stdout == "learning needs PyTorch; install it with: pip install 'ripieno-concerto[train]'\n"
