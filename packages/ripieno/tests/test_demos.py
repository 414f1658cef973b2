"""Demos of packages that break while they are loaded."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize("body", ["raise RuntimeError('private')", "raise SystemExit(7)", "import no_such_module"])
def test_a_demo_that_cannot_be_loaded_leaves_the_others_their_help(body: str, tmp_path: Path) -> None:
    (tmp_path / "broken_demo.py").write_text(body)
    about = tmp_path / "broken_demo-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: broken-demo\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[ripieno.demos]\na-broken = broken_demo:run\n")
    codes: dict[str, int] = {}
    for argument in ("--help", "a-broken"):
        done = subprocess.run(
            [sys.executable, "-m", "ripieno", "demo", argument],
            capture_output=True,
            check=False,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])},
            timeout=120,
        )
        codes[argument] = done.returncode
        said = done.stdout + done.stderr
        assert b"a-broken" in said
        assert b"Traceback" not in said
        assert b"private" not in said
    assert codes == {"--help": 0, "a-broken": 2}
