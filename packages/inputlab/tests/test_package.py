"""The package is importable alone and stands on ripieno only."""

import subprocess
import sys


def test_import_needs_no_other_system():
    code = (
        "import sys, agentinputlab as p, workers; print(p.__version__); "
        "print(sorted(m for m in ('concerto', 'chamber', 'scpn_phase_orchestrator') if m in sys.modules))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split("\n")
    assert out[:2] == ["0.1.0", "[]"]
