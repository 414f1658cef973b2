"""``spo sweep``, through the door of the command."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from ripieno.verify import VerifyStatus, verify
from scpn_phase_orchestrator.runtime.cli import main


def spo(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def test_a_sweep_prints_means_and_writes_a_run_that_verifies(s1_path: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = spo("sweep", s1_path, "--vary", "coupling.base_strength=0:2:3", "--seeds", 2, "--steps", 40, "--out", out)
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["coupling.base_strength", "R_good", "R_bad", "lock_bad", "score", "achieved"]
    assert [line.split()[0] for line in lines[1:]] == ["0", "1", "2"]
    assert verify(out / "run").status is VerifyStatus.COMPLETE
    again = spo("sweep", s1_path, "--vary", "coupling.base_strength=0:2:3", "--seeds", 2, "--steps", 40, "--out", out)
    assert again.exit_code == 1
    assert "name another folder" in again.stderr


def test_json_gives_the_rows(s1_path: Path, tmp_path: Path) -> None:
    result = spo(
        "sweep", s1_path, "--vary", "coupling.base_strength=0.6", "--seeds", 2, "--steps", 40, "--open-loop", "--json",
        "--out", tmp_path / "out",
    )  # fmt: skip
    record = json.loads(result.stdout)
    assert [row["seed"] for row in record["rows"]] == [42, 43]
    assert record["rows"][0]["actions"] == 0
    assert record["failures"] == []


def test_cells_that_fail_are_named_and_end_with_1(s1_path: Path, tmp_path: Path) -> None:
    result = spo(
        "sweep", s1_path, "--vary", "layers.storms.omegas.0=1,1000", "--seeds", 1, "--steps", 2, "--out", tmp_path / "o"
    )
    assert result.exit_code == 1
    assert "ERROR: layers.storms.omegas.0 = 1000, seed 42: " in result.stderr
    assert "1 cells failed; the same command tries them again." in result.stderr


@pytest.mark.parametrize(
    ("vary", "code", "words"),
    [
        ("coupling.base_strength", 2, "PATH=START:STOP:COUNT"),
        ("coupling.base_strenght=1", 1, "did you mean 'base_strength'"),
        ("coupling.base_strength=-1", 1, "the spec is invalid"),
    ],
)
def test_what_cannot_be_varied_is_refused(s1_path: Path, tmp_path: Path, vary: str, code: int, words: str) -> None:
    result = spo("sweep", s1_path, "--vary", vary, "--out", tmp_path / "out")
    assert result.exit_code == code
    assert words in result.stderr
    assert not (tmp_path / "out").exists()


def test_another_tier_is_refused(s1_path: Path, tmp_path: Path) -> None:
    path = tmp_path / "clinical.yaml"
    path.write_text(s1_path.read_text().replace("safety_tier: research", "safety_tier: clinical"))
    result = spo("sweep", path, "--vary", "coupling.base_strength=1", "--out", tmp_path / "out")
    assert result.exit_code == 1
    assert "--acknowledge-tier clinical" in result.stderr


@pytest.mark.slow
def test_a_cluster_gives_the_rows_that_one_process_gives(s1_path: Path, tmp_path: Path) -> None:
    records: list[object] = []
    for executor in ("serial", "ray"):
        code = "from scpn_phase_orchestrator.runtime.cli import main; main()"
        words = ["sweep", s1_path, "--vary", "coupling.base_strength=0:2:3", "--seeds", "2", "--steps", "40"]
        words += ["--json", "--executor", executor, "--out", tmp_path / executor]
        done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        records.append(json.loads(done.stdout)["rows"])
        assert verify(tmp_path / executor / "run").status is VerifyStatus.COMPLETE
    assert records[0] == records[1]
