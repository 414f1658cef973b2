"""The command twin-confidence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from ripieno.canonical import ASCII
from scpn_phase_orchestrator.runtime.cli import main


def _tick(rng: np.random.Generator, drift: float = 0.0) -> dict[str, Any]:
    phases = rng.uniform(0.0, 6.28, 200)
    observed = phases + drift + rng.normal(0.0, 0.05, 200)
    order = rng.uniform(0.6, 0.7, 10)
    return {
        "model_phases": phases.tolist(),
        "observed_phases": (observed * (1.0 - 0.5 * drift)).tolist(),
        "model_order": order.tolist(),
        "observed_order": (order - 0.4 * drift + rng.normal(0.0, 0.01, 10)).tolist(),
    }


@pytest.fixture
def good(tmp_path: Path) -> Path:
    rng = np.random.default_rng(1)
    file = tmp_path / "good.jsonl"
    file.write_text("\n".join(json.dumps(_tick(rng)) for _ in range(20)) + "\n\n")
    return file


@pytest.fixture
def drifted(tmp_path: Path) -> Path:
    rng = np.random.default_rng(1)
    file = tmp_path / "drifted.jsonl"
    file.write_text("\n".join(json.dumps(_tick(rng, drift)) for drift in (0.0, 0.0, 1.0)))
    return file


def _spo(calibration: Path, observations: Path, *options: object) -> Result:
    arguments = ["twin-confidence", "--calibration", str(calibration), "--observations", str(observations)]
    return CliRunner().invoke(main, [*arguments, *map(str, options)])


def test_the_text_gives_counts_statuses_and_confidences(good: Path, drifted: Path) -> None:
    result = _spo(good, drifted)
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0] == "Ticks scored: 3"
    assert lines[1] == "Status: worst=critical latest=critical"
    assert lines[2].endswith("latest=0.0000")
    assert lines[3] == "Counts: healthy=2 warning=0 critical=1"


def test_the_json_holds_summary_baseline_and_scores_with_their_hashes(good: Path, drifted: Path) -> None:
    record = json.loads(_spo(good, drifted, "--json-out").stdout)
    scores, baseline = record.pop("scores"), record.pop("baseline")
    assert record.pop("summary_hash") == ASCII.hash(record)
    assert record["tick_count"] == len(scores) == 3
    assert baseline["count"] == 20
    for score in scores:
        assert score.pop("score_hash") == ASCII.hash(score)


def test_prometheus_text_is_printed_as_it_is(good: Path, drifted: Path) -> None:
    result = _spo(good, drifted, "--prometheus")
    assert result.stdout.startswith("# HELP spo_twin_confidence_mean ")
    assert 'spo_twin_confidence_status_total{status="critical"} 1\n' in result.stdout
    assert _spo(good, drifted, "--prometheus", "--json-out").exit_code == 2


def test_a_critical_tick_fails_only_on_request(good: Path, drifted: Path) -> None:
    assert _spo(good, drifted).exit_code == 0
    assert _spo(good, good, "--fail-on-critical").exit_code == 0
    result = _spo(good, drifted, "--fail-on-critical")
    assert result.exit_code == 2
    assert result.stdout.startswith("Ticks scored: 3\n")


def test_options_reach_the_score(good: Path, drifted: Path) -> None:
    def scores(*options: object) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(_spo(good, drifted, "--json-out", *options).stdout)["scores"]
        return found

    default = scores()
    assert scores("--sensitivity", 6)[2]["confidence"] == pytest.approx(default[2]["confidence"] ** 0.5)
    assert scores("--n-bins", 4)[2]["phase_js_divergence"] < default[2]["phase_js_divergence"]
    assert scores("--warning-confidence", 1, "--critical-confidence", 1)[2]["status"] == "critical"
    assert scores("--band-z", 1e9)[2]["order_w1_within_band"] is True
    assert default[2]["order_w1_within_band"] is False


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "malformed JSON"),
        ('{"model_phases": [NaN]}', "malformed JSON"),
        ('{"a": 1, "a": 2}', "malformed JSON"),
        ("\ud800", "malformed JSON"),
        ("[]", "tick must be a JSON object"),
        ("3", "tick must be a JSON object"),
        ('{"model_phases": [1]}', "missing field 'observed_phases'"),
        (
            '{"model_phases": 1, "observed_phases": [1], "model_order": [0], "observed_order": [0]}',
            "non-numeric tick field",
        ),
        (
            '{"model_phases": ["1"], "observed_phases": [1], "model_order": [0], "observed_order": [0]}',
            "non-numeric tick field",
        ),
        (
            '{"model_phases": [true], "observed_phases": [1], "model_order": [0], "observed_order": [0]}',
            "non-numeric tick",
        ),
        (
            '{"model_phases": [], "observed_phases": [], "model_order": [0], "observed_order": [0]}',
            "must be a non-empty",
        ),
        (
            '{"model_phases": [1], "observed_phases": [1, 2], "model_order": [0], "observed_order": [0]}',
            "equal lengths",
        ),
        (
            '{"model_phases": [1], "observed_phases": [1], "model_order": [2], "observed_order": [0]}',
            "must lie in [0, 1]",
        ),
        (
            f'{{"model_phases": [1{"0" * 400}], "observed_phases": [1], "model_order": [0], "observed_order": [0]}}',
            "number",
        ),
    ],
    ids=lambda text: ascii(text)[:40],
)
def test_bad_lines_are_named_by_file_and_number(line: str, message: str, good: Path, tmp_path: Path) -> None:
    file = tmp_path / "bad.jsonl"
    first = good.read_bytes().splitlines()[0]
    file.write_bytes(first + b"\n\n" + line.encode("utf-8", "surrogatepass") + b"\n")
    for pair in ((good, file), (file, good)):
        result = _spo(*pair)
        assert result.exit_code == 1
        assert result.stdout == ""
        assert result.stderr.startswith(f"Error: {file}:3: ")
        assert message in result.stderr
        assert result.stderr.count("\n") == 1


def test_files_without_ticks_and_without_existence_are_refused(good: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty.jsonl"
    empty.write_text("\n  \n")
    result = _spo(good, empty)
    assert (result.exit_code, result.stderr) == (1, f"Error: {empty}: no ticks found\n")
    assert _spo(empty, good).exit_code == 1
    assert _spo(good, tmp_path / "nothing.jsonl").exit_code == 2


@pytest.mark.parametrize(
    "options",
    [("--n-bins", 0), ("--sensitivity", 0), ("--warning-confidence", 1.5), ("--band-z", -1)],
)
def test_options_out_of_range_are_usage_errors(options: tuple[object, ...], good: Path) -> None:
    assert _spo(good, good, *options).exit_code == 2


def test_limits_out_of_order_are_refused(good: Path) -> None:
    result = _spo(good, good, "--critical-confidence", 0.9)
    assert result.exit_code == 1
    assert "critical_confidence and warning_confidence must be ordered" in result.stderr


def test_a_line_without_end_is_refused_before_it_fills_the_memory(good: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scpn_phase_orchestrator.runtime.cli._twin.MAX_BYTES", 5000)
    result = CliRunner().invoke(main, ["twin-confidence", "--calibration", str(good), "--observations", str(good)])
    assert result.exit_code == 1
    assert f"{good}:1: malformed JSON" in result.output
