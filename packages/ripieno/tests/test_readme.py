"""What the README tells a newcomer to type works."""

import os
import re
import subprocess
import sys
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)


def test_the_quick_start_runs_as_written(tmp_path: Path) -> None:
    (program,) = blocks("python")
    (session,) = blocks("console")
    binaries = Path(sys.executable).parent
    environment = {**os.environ, "HOME": str(tmp_path), "PATH": f"{binaries}:{os.environ['PATH']}"}
    subprocess.run([sys.executable, "-c", program], check=True, cwd=tmp_path, env=environment)
    commands = [line.removeprefix("$ ") for line in session.splitlines()]
    assert len(commands) == 4
    for command in commands:
        done = subprocess.run(
            ["bash", "-c", command], check=True, cwd=tmp_path, env=environment, capture_output=True, text=True
        )
    assert "complete: " in done.stdout
    assert "signed by the given key" in done.stdout
