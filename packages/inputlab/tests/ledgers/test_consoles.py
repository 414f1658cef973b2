"""Answers of the workers on consoles that are full, closed, gone or not UTF-8."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from workers.official_arenas._console import say

WORKERS = ("driver", "retail_driver")


def answered(
    worker: str, *, redirection: str, options: str = "--doctor", **variables: str
) -> subprocess.CompletedProcess[bytes]:
    command = f'exec "$0" -m workers.official_arenas.{worker} {options} {redirection}'
    return subprocess.run(
        ["/bin/sh", "-c", command, sys.executable],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        env={**os.environ, **variables},
        timeout=60,
    )


@pytest.mark.parametrize("worker", WORKERS)
@pytest.mark.parametrize("redirection", [">/dev/full", ">&-"])
def test_an_answer_that_cannot_be_written_is_a_refusal_in_one_line(worker: str, redirection: str) -> None:
    done = answered(worker, redirection=redirection)
    assert done.returncode == 2
    assert json.loads(done.stderr)["message"] == "The answer could not be written to stdout"


@pytest.mark.parametrize("worker", WORKERS)
@pytest.mark.parametrize("redirection", ["2>/dev/full", "2>&-"])
def test_a_refusal_that_cannot_be_written_still_has_its_exit_code(worker: str, redirection: str) -> None:
    done = answered(worker, redirection=redirection, options="")
    assert (done.returncode, done.stdout) == (2, b"")


@pytest.mark.parametrize("redirection", [">/dev/full", ">&-"])
def test_a_draft_whose_answer_cannot_be_written_is_no_traceback(redirection: str, tmp_path: Path) -> None:
    (tmp_path / "root").mkdir(mode=0o700)
    options = f"--draft-scope '{tmp_path}/scope.json' --root '{tmp_path}/root'"
    done = answered("retail_capture", redirection=redirection, options=options)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("worker", ["retail_driver", "retail_capture"])
def test_what_is_said_is_utf8_and_json_in_every_locale(worker: str, tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"r\xc3\xa9cit \xff")
    folder.mkdir(mode=0o700)
    (folder / "root").mkdir(mode=0o700)
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii:strict"}
    if worker == "retail_driver":
        options = f"--verify '{folder}'"
    else:
        options = f"--draft-scope '{folder}/scope.json' --root '{folder}/root'"
    done = answered(worker, redirection="", options=options, **ascii_only)
    assert done.returncode in {0, 1, 2}
    assert b"Traceback" not in done.stderr
    assert isinstance(json.loads(done.stdout or done.stderr), dict)


def test_a_path_that_is_not_utf8_is_said_as_json(tmp_path: Path) -> None:
    with (tmp_path / "out").open("w", encoding="ascii") as stream:
        assert say(stream, {"path": os.fsdecode(b"\xff/r\xc3\xa9cit")})
    assert json.loads((tmp_path / "out").read_bytes().decode()) == {"path": "\udcff/r\xe9cit"}
