"""The command ``chamber`` in a subprocess."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

COMMAND = [sys.executable, "-c", "from chamber.cli.main import main; main()"]


def run(*arguments: str | Path, cwd: Path, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        timeout=300,
        env={**os.environ, **(env or {})},
    )


def assert_refused(done: subprocess.CompletedProcess[str], said: str) -> None:
    assert done.returncode == 2, (done.stdout, done.stderr)
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert said in done.stderr, done.stderr
    assert len([line for line in done.stderr.splitlines() if line.startswith("chamber: ")]) <= 1
