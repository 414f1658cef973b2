"""What the guide and the example show is what happens."""

from __future__ import annotations

import contextlib
import io
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parents[4]
GUIDE = REPOSITORY / "docs" / "how-to" / "wrap-your-environment.md"
EXAMPLE = REPOSITORY / "examples" / "safe_wrapper.py"

_BLOCK = re.compile(r"^```(python|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_blocks_of_the_guide_run_and_print_what_it_says() -> None:
    namespace: dict[str, Any] = {"__name__": "guide"}
    printed = ""
    n_outputs = 0
    for kind, content in _BLOCK.findall(GUIDE.read_text(encoding="utf-8")):
        if kind == "python":
            with contextlib.redirect_stdout(io.StringIO()) as output:
                exec(compile(content, str(GUIDE), "exec"), namespace)
            printed = output.getvalue()
        else:
            assert content == printed
            n_outputs += 1
    assert n_outputs == 2


def test_the_guide_describes_every_key_of_the_safety_info() -> None:
    namespace: dict[str, Any] = {"__name__": "guide"}
    text = GUIDE.read_text(encoding="utf-8")
    for _, content in _BLOCK.findall(text)[:2]:
        with contextlib.redirect_stdout(io.StringIO()):
            exec(compile(content, str(GUIDE), "exec"), namespace)
    assert {key for key in namespace["safety"] if f"`{key}`" not in text} == set()


def test_the_example_shows_the_difference_the_stack_makes() -> None:
    result = subprocess.run([sys.executable, str(EXAMPLE)], check=True, capture_output=True, text=True)
    without, with_stack = (float(gap) for gap in re.findall(r"(-?\d+\.\d+) m$", result.stdout, re.MULTILINE))
    assert without < -0.5
    assert with_stack > 0.0
    assert len(EXAMPLE.read_text(encoding="utf-8").splitlines()) < 60
