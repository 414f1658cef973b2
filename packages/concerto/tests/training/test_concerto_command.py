"""The command ``concerto``."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from concerto import __version__
from concerto.cli import main


def test_it_prints_the_version_and_returns(capsys: pytest.CaptureFixture[str]) -> None:
    main()  # the arguments of this test run are not its own
    assert capsys.readouterr().out == f"CONCERTO {__version__}\n"


@pytest.mark.parametrize("name", ["api", "policies"])
def test_the_empty_homes_export_nothing(name: str) -> None:
    home = importlib.import_module(f"concerto.{name}")
    assert [member for member in vars(home) if not member.startswith("_")] == []


def test_help_and_usage_errors(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--help"])
    assert "chamber-spike train --config mpe_cooperative_push" in capsys.readouterr().out
    with pytest.raises(SystemExit) as end:
        main(["nope"])
    assert end.value.code == 2
    assert "unexpected extra argument (nope)" in capsys.readouterr().err


def test_the_console_script() -> None:
    script = Path(sys.executable).with_name("concerto")
    done = subprocess.run([script], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == (f"CONCERTO {__version__}\n", "")
    assert subprocess.run([script, "nope"], capture_output=True, check=False).returncode == 2
