"""The tutorial of Input lab does what it says: every block runs, in order, and prints what is shown."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parent.parent / "docs/tutorials/measure-your-prompt-change.md"
PATH = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])


def test_every_block_of_the_tutorial_runs_and_prints_what_it_shows(tmp_path: Path) -> None:
    output, count = "", 0
    for kind, block in re.findall(
        r"^```(bash|text)\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    ):
        if kind == "text":
            for line in block.splitlines():
                assert " ".join(line.split()) in " ".join(output.split()), line
            continue
        done = subprocess.run(
            ["bash", "-euc", block],
            cwd=tmp_path,
            env={**os.environ, "PATH": PATH, "COLUMNS": "200"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == 0, (block, done.stdout)
        output, count = done.stdout, count + 1
    assert count >= 9
