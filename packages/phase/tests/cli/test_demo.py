"""The demo runs a pack open loop and supervised, and vouches for both logs."""

import json
import subprocess
import sys

from click.testing import CliRunner

from ripieno.cli import cli
from ripieno.verify import verify
from scpn_phase_orchestrator.runtime.doctor_checks import checks


def demo(*arguments):
    return CliRunner().invoke(cli, ["demo", "phase", *map(str, arguments)])


def test_folder_verifies_and_the_page_shows_both_runs(tmp_path):
    out = tmp_path / "run"
    result = demo("--out", out, "--steps", 200, "--json")
    assert result.exit_code == 0, result.output
    summary = json.loads(result.stdout)
    assert verify(out, expect=summary["digest"]).ok
    assert verify(out / "supervised.jsonl").ok
    page = (out / "index.html").read_text()
    assert "Open loop" in page
    assert "Supervised" in page


def test_a_flipped_byte_of_a_log_is_found_in_the_folder_and_in_the_log(tmp_path):
    out = tmp_path / "run"
    assert demo("--out", out, "--steps", 50).exit_code == 0
    log = out / "open_loop.jsonl"
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 1
    log.write_bytes(bytes(data))
    assert not verify(out).ok
    assert not verify(log).ok


def test_bad_input_ends_with_one_line_and_no_folder(tmp_path):
    out = tmp_path / "run"
    command = [sys.executable, "-m", "ripieno", "demo", "phase", "--pack", "power_gird", "--out", str(out)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert "did you mean 'power_grid'?" in result.stderr
    assert result.stderr.count("\n") == 1
    assert not out.exists()


def test_a_spec_of_another_tier_is_not_simulated_unasked(s1_path, tmp_path):
    spec, out = tmp_path / "production.yaml", tmp_path / "run"
    spec.write_text(s1_path.read_text().replace("safety_tier: research", "safety_tier: production"))
    result = demo("--pack", spec, "--out", out, "--steps", 5)
    assert result.exit_code != 0
    assert "safety_tier='production' is not enforced here" in str(result.exception)
    assert not out.exists()


def test_doctor_rows_hold_here():
    assert [row.name for row in checks() if row.ok] == [
        "phase engine (Numba)",
        "domain packs",
        "Parquet files (pyarrow)",
    ]
