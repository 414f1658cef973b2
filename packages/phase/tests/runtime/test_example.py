"""The example of the critical coupling, small: it runs, resumes, and its theory is the textbook's."""

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

EXAMPLE = Path(__file__).parents[4] / "examples" / "phase_critical_coupling.py"


@pytest.fixture(scope="module")
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("phase_critical_coupling", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_theory_starts_at_the_critical_coupling_as_a_square_root(example: ModuleType) -> None:
    critical = np.sqrt(8 / np.pi)
    assert example.order_of_theory(critical) == 0.0
    # R is close to sqrt(16 (K - Kc) / (-pi Kc^4 g''(0))) just above (Strogatz 2000), with -g''(0) = 1/sqrt(2 pi).
    above = critical * 1.001
    expected = np.sqrt(16 * (above - critical) / (np.pi * critical**4 / np.sqrt(2 * np.pi)))
    assert example.order_of_theory(above) == pytest.approx(expected, rel=0.01)


def test_a_small_network_follows_theory_and_the_script_resumes(example: ModuleType, tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", str(EXAMPLE), "--oscillators", "500", "--points", "3", "--seeds", "1"]
    out = tmp_path / "out"
    first, second = (
        subprocess.run([*command, "--out", str(out)], capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    )
    assert first == second
    rows = [line.split() for line in first.splitlines()[1:4]]
    assert [row[0] for row in rows] == ["0.80", "1.80", "2.80"]
    assert float(rows[0][1]) < 0.2
    assert float(rows[2][1]) == pytest.approx(float(rows[2][2]), abs=0.05)
    assert (out / "critical_coupling.png").stat().st_size > 10_000
