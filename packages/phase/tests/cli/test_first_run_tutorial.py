"""Every command of the tutorial does what the page says."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[4] / "docs" / "tutorials" / "phase-first-run.md"


@pytest.mark.slow
def test_commands_of_the_page_run_in_order(tmp_path):
    blocks = re.findall(r"```console\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    commands = [line[2:] for block in blocks for line in block.splitlines()]
    assert len(commands) > 10
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    for command in commands:
        done = subprocess.run(
            shlex.split(command), cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, (command, done.stdout, done.stderr)
    again = "spo run queuewaves --audit queues.jsonl"
    refused = subprocess.run(
        shlex.split(again), cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert refused.returncode == 1
    assert "queues.jsonl" in refused.stderr
