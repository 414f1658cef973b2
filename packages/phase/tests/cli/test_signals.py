"""spo extract, fit, auto-bind and auto-coupling-estimation through their public door."""

import json
import os
import re

import numpy as np
import pytest
from click.testing import CliRunner
from scipy.io import wavfile

from scpn_phase_orchestrator.binding.loader import load_binding_spec, parse_binding_spec
from scpn_phase_orchestrator.binding.validator import validate_binding_spec
from scpn_phase_orchestrator.runtime.cli import main
from scpn_phase_orchestrator.runtime.cli._app import COMMANDS

NAMES = ("extract", "fit", "auto-bind", "auto-coupling-estimation")
TIME = np.arange(2000) / 20.0
RNG = np.random.default_rng(0)


def spo(*arguments):
    return CliRunner().invoke(main, [str(a) for a in arguments])


def refused(result, message, code=1):
    assert result.exit_code == code, result.output
    assert re.search(message, result.stderr), result.stderr
    assert "Traceback" not in result.output
    return result


@pytest.fixture
def signals(tmp_path):
    path = tmp_path / "plant.csv"
    rows = np.column_stack([TIME, np.cos(2 * np.pi * 0.8 * TIME), 2 * np.sin(2 * np.pi * 1.1 * TIME) + 5])
    rows[:, 1:] += 0.05 * RNG.normal(size=(TIME.size, 2))
    np.savetxt(path, rows, delimiter=",", header="time,pump,valve", comments="", fmt="%.6f")
    return path


@pytest.mark.parametrize("name", NAMES)
def test_help_has_the_line_of_the_table_and_an_example(name):
    result = spo(name, "--help")
    assert result.exit_code == 0
    assert COMMANDS[name][2] in " ".join(result.output.split())
    assert f"spo {name} " in result.output


def test_extract_prints_table_chart_and_findings(signals):
    result = spo("extract", signals)
    assert result.exit_code == 0, result.output
    assert re.search(r"pump +0\.8\d* +0\.[78]", result.output)
    assert re.search(r"valve +1\.(1|09)", result.output)
    assert "▄" in result.output or "▅" in result.output
    assert "time column 'time' was recognised" in result.output
    assert "pump: " in result.output


@pytest.mark.parametrize("suffix", ["csv", "json", "parquet"])
def test_extract_writes_series(signals, tmp_path, suffix):
    out = tmp_path / f"phases.{suffix}"
    result = spo("extract", signals, "--column", "pump", "--out", out)
    assert result.exit_code == 0, result.output
    assert f"Wrote {out}" in result.output.replace("\n", "")
    if suffix == "csv":
        header = out.read_text().splitlines()[0]
        names = ("phase", "unwrapped", "frequency", "amplitude", "quality", "state")
        assert header == "time_s," + ",".join(f"pump:{name}" for name in names)
    if suffix == "json":
        record = json.loads(out.read_text())
        assert record["channels"][0]["mean_frequency"] == pytest.approx(0.8, rel=0.01)
        assert len(record["columns"]["pump:phase"]) == TIME.size


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_extract_draws_the_same_picture_twice(signals, tmp_path, suffix):
    first, second = tmp_path / f"a.{suffix}", tmp_path / f"b.{suffix}"
    for path in (first, second):
        assert spo("extract", signals, "--plot", path).exit_code == 0
    assert first.read_bytes() == second.read_bytes()
    assert first.stat().st_size > 5000


def test_extract_json_is_a_summary(signals):
    record = json.loads(spo("extract", signals, "--json").output)
    assert [c["channel"] for c in record["channels"]] == ["pump", "valve"]
    assert record["channels"][0]["samples"]["gap"] == 0
    assert record["refused"] == []


def test_quiet_prints_no_notes_about_files(signals, tmp_path):
    assert "Wrote" not in spo("--quiet", "extract", signals, "--out", tmp_path / "x.csv").output


def test_extract_reads_a_channel_of_a_wav_in_a_band(tmp_path):
    path = tmp_path / "tone.wav"
    time = np.arange(8000) / 4000.0
    tones = np.column_stack([np.sin(2 * np.pi * 110 * time), np.sin(2 * np.pi * 220 * time)])
    wavfile.write(path, 4000, (tones * 30000).astype(np.int16))
    result = json.loads(spo("extract", path, "--channels", "ch2", "--band", "180:260", "--json").output)
    (channel,) = result["channels"]
    assert channel["channel"] == "ch2"
    assert channel["mean_frequency"] == pytest.approx(220.0, rel=1e-3)
    assert channel["band"] == [180.0, 260.0]


@pytest.mark.parametrize(
    ("arguments", "message", "code"),
    [
        (["--column", "pmp"], "did you mean 'pump'", 1),
        (["--band", "2:1"], "must rise", 2),
        (["--band", "fast"], "two numbers like", 2),
        (["--band", "1:11"], "below the Nyquist frequency 10", 1),
        (["--out", "x.xls"], "must end in .csv", 2),
        (["--plot", "x.gif"], "must end in .png", 2),
        (["--sample-rate", "0"], "sample_rate must be a positive", 1),
        (["--method", "magic"], "not one of", 2),
        (["--method", "event", "--band", "1:2"], "no meaning", 1),
        (["--out", "/nowhere/x.csv"], "No such file", 1),
    ],
)
def test_extract_refuses_in_one_line(signals, arguments, message, code):
    refused(spo("extract", signals, *arguments), message, code)


def test_a_missing_file_is_a_usage_error(tmp_path):
    refused(spo("extract", tmp_path / "no.csv"), "does not exist", 2)


@pytest.fixture
def network_file(tmp_path):
    rng, theta, rows = np.random.default_rng(1), np.zeros(3), []
    omegas, coupling = np.array([5.0, 6.1, 7.3]), np.array([[0, 0.8, 0], [0, 0, 0], [0, 0, 0.0]])
    for _ in range(3000):
        rows.append(theta)
        for _ in range(4):
            push = (coupling * np.sin(theta[None, :] - theta[:, None])).sum(axis=1)
            theta = theta + 0.0125 * (omegas + push) + 0.2 * np.sqrt(0.0125) * rng.normal(size=3)
    path = tmp_path / "machines.csv"
    np.savetxt(path, np.cos(rows), delimiter=",", header="a,b,c", comments="")
    return path


def test_fit_finds_the_one_coupling_from_signals_and_writes_a_valid_spec(network_file, tmp_path):
    spec_path = tmp_path / "machines.yaml"
    result = spo("fit", network_file, "--sample-rate", "20", "--spec-out", spec_path)
    assert result.exit_code == 0, result.output
    assert "1 of 6 differ from zero" in result.output
    assert re.search(r"b -> a +0\.[78]\d* ", result.output)
    spec = load_binding_spec(spec_path)
    assert validate_binding_spec(spec) == []
    assert spec.get_omegas() == pytest.approx([5.0, 6.1, 7.3], abs=0.1)


def test_fit_from_written_phases_equals_fit_from_signals(network_file, tmp_path):
    phases = tmp_path / "phases.csv"
    assert spo("extract", network_file, "--sample-rate", "20", "--out", phases).exit_code == 0
    read = json.loads(spo("fit", phases, "--json").output)
    direct = json.loads(spo("fit", network_file, "--sample-rate", "20", "--json").output)
    assert (read["input"], direct["input"]) == ("phases", "signals")
    for one, other in zip(read["fit"]["edges"], direct["fit"]["edges"], strict=True):
        assert one["strength"] == pytest.approx(other["strength"], abs=1e-9)


def test_fit_with_lags_shows_them(network_file):
    result = spo("fit", network_file, "--sample-rate", "20", "--max-lag", "1.0", "--bootstrap", "200", "--seed", "3")
    assert "lag (rad)" in result.output
    assert "200 replicates, seed 3" in result.output


@pytest.mark.parametrize(
    ("arguments", "message", "code"),
    [
        (["--max-lag", "2"], "not in the range", 2),
        (["--bootstrap", "10"], "not in the range", 2),
        (["--column", "a"], "n_oscillators >= 2", 1),
        (["--spec-out", "x.txt"], "must end in .yaml", 2),
    ],
)
def test_fit_refuses_in_one_line(network_file, arguments, message, code):
    refused(spo("fit", network_file, "--sample-rate", "20", *arguments), message, code)


def test_auto_bind_prints_yaml_whose_first_line_is_a_comment(network_file):
    result = spo("auto-bind", "time-series-csv", network_file, "--project-name", "plant", "--sample-rate-hz", "20")
    assert result.exit_code == 0, result.output
    assert result.output.startswith("# ")
    assert "review only" in result.output.splitlines()[0]
    spec = parse_binding_spec(result.output)
    assert spec.name == "plant"
    assert validate_binding_spec(spec) == []


def test_auto_bind_prints_equations_and_the_audit_record(network_file):
    start = ("auto-bind", "time-series-csv", network_file, "--project-name", "plant", "--sample-rate-hz", "20")
    equations = spo(*start, "--emit-equations", "--sindy-min-r-squared", "0.3", "--sindy-threshold", "0.2").output
    assert [line.split(" = ")[0] for line in equations.splitlines()] == ["dθ[a]/dt", "dθ[b]/dt", "dθ[c]/dt"]
    assert "sin(θ[b] - θ[a])" in equations.splitlines()[0]
    record = json.loads(spo(*start, "--json-out").output)
    assert record["record"] == "auto_bind_proposal"
    assert record["review_required"] is True
    assert record["spec_errors"] == []


def test_auto_bind_reads_logs_and_graphs(tmp_path):
    log = tmp_path / "log.json"
    log.write_text(json.dumps([{"source": "s", "time": k / 4} for k in range(9)]))
    assert "events_1" in spo("auto-bind", "event-log-json", log, "--project-name", "x").output
    graph = tmp_path / "graph.json"
    graph.write_text('{"nodes": ["a", "b"], "edges": [{"source": "a", "target": "b"}]}')
    assert "component_1" in spo("auto-bind", "graph-json", graph, "--project-name", "x").output
    refused(spo("auto-bind", "graph-json", log, "--project-name", "x"), "must be an object with")
    refused(spo("auto-bind", "graph-json", graph, "--project-name", "x", "--emit-equations"), "time series", 2)
    refused(spo("auto-bind", "time-series-csv", graph, "--project-name", "x"), "graph.json")
    refused(spo("auto-bind", "graph-json", graph), "--project-name", 2)
    refused(spo("auto-bind", "graph-json", graph, "--project-name", " "), "name")


def test_auto_coupling_prints_a_header_and_rows_that_read_back_exactly(tmp_path):
    phases = np.random.default_rng(0).uniform(0, 2 * np.pi, (3, 500))
    np.save(tmp_path / "p.npy", phases)
    np.savetxt(tmp_path / "p.csv", phases.T, delimiter=",", fmt="%.17g")
    result = spo("auto-coupling-estimation", tmp_path / "p.npy")
    assert result.exit_code == 0, result.output
    header, warning, *rows = result.output.splitlines()
    assert header.startswith("# phase transfer entropy, row drives column: 3 oscillators, 8 bins")
    assert warning.startswith("# Warning: 2 of 2 kept scores may be chance")
    matrix = np.array([[float(cell) for cell in row.split(",")] for row in rows])
    record = json.loads(spo("auto-coupling-estimation", tmp_path / "p.npy", "--json-out").output)
    assert matrix.tolist() == record["coupling"]
    transposed = spo("auto-coupling-estimation", tmp_path / "p.csv", "--orientation", "time-by-oscillator")
    assert transposed.output == result.output


@pytest.mark.parametrize(
    ("arguments", "message", "code"),
    [
        (["--n-bins", "1"], "not in the range", 2),
        (["--threshold-quantile", "2"], "not in the range", 2),
        (["--threshold-absolute", "-1"], "not in the range", 2),
        (["--normalisation", "sum"], "not one of", 2),
    ],
)
def test_auto_coupling_refuses_in_one_line(tmp_path, arguments, message, code):
    np.save(tmp_path / "p.npy", np.zeros((2, 50)))
    refused(spo("auto-coupling-estimation", tmp_path / "p.npy", *arguments), message, code)


def test_auto_coupling_refuses_wrong_files(tmp_path):
    np.save(tmp_path / "one.npy", np.zeros((1, 50)))
    refused(spo("auto-coupling-estimation", tmp_path / "one.npy"), "n_oscillators >= 2")
    (tmp_path / "bad.npy").write_bytes(b"\x93NUMPY garbage")
    refused(spo("auto-coupling-estimation", tmp_path / "bad.npy"), "no readable NPY file")


def test_extract_never_writes_over_its_input(signals, tmp_path):
    before = signals.read_bytes()
    refused(spo("extract", signals, "--out", signals), "is read by this command")
    link = tmp_path / "link.csv"
    link.hardlink_to(signals)
    refused(spo("extract", signals, "--out", link), "is read by this command")
    assert signals.read_bytes() == before


def test_an_output_that_cannot_be_written_is_named(signals, tmp_path):
    for option, name in (("--out", "x.csv"), ("--plot", "x.png")):
        result = refused(
            spo("extract", signals, option, tmp_path / "none" / name), f"cannot write .*none/{name}: No such"
        )
        assert ".tmp" not in result.stderr


def test_extract_and_bind_wait_for_no_pipe(tmp_path):
    for name in ("f.csv", "f.wav", "f.parquet"):
        os.mkfifo(tmp_path / name)
        refused(spo("extract", tmp_path / name), "not a regular file|no readable")
    os.mkfifo(tmp_path / "f.json")
    refused(spo("auto-bind", "graph-json", tmp_path / "f.json", "--project-name", "x"), "not a regular file")
    os.mkfifo(tmp_path / "f.npy")
    refused(spo("auto-coupling-estimation", tmp_path / "f.npy"), "not a regular file")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--sample-rate", "1e-320"], "sample_rate must lie between"),
        (["--sample-rate", "1e308"], "sample_rate must lie between"),
        (["--band", "1e-9:2"], "starts too close to zero to be filtered"),
    ],
)
def test_rates_and_bands_beyond_arithmetic_are_refused(signals, arguments, message):
    refused(spo("extract", signals, *arguments), message)


def test_auto_coupling_reads_what_extract_wrote_and_says_what_it_dropped(network_file, tmp_path):
    phases = tmp_path / "phases.csv"
    assert spo("extract", network_file, "--sample-rate", "20", "--out", phases).exit_code == 0
    result = spo("auto-coupling-estimation", phases)
    assert result.exit_code == 0, result.output
    assert "3 oscillators" in result.output
    assert "# Note: time column(s) skipped: time_s" in result.output
    dropped = re.search(r"# Note: (\d+) of 3000 rows dropped", result.output)
    assert dropped is not None
    assert 0 < int(dropped[1]) < 300


def test_auto_coupling_skips_time_and_incomplete_rows(tmp_path):
    phases = np.random.default_rng(0).uniform(0, 2 * np.pi, (100, 2))
    rows = [f"2026-11-30T10:{k // 60:02}:{k % 60:02},{a},{b}" for k, (a, b) in enumerate(phases)]
    rows[7] = rows[7].rsplit(",", 1)[0] + ","
    path = tmp_path / "p.csv"
    path.write_text("\n".join(["time,a,b", *rows]))
    record = json.loads(spo("auto-coupling-estimation", path, "--json-out").output)
    assert len(record["coupling"]) == 2
    assert any("1 of 100 rows dropped" in note for note in record["notes"])
    path.write_text("\n".join(["time,a,b", *rows[:10]]))
    refused(spo("auto-coupling-estimation", path), "9 of 10 rows have a phase of every oscillator; 16 are needed")


@pytest.mark.parametrize("stamp", ["11/30/2026 10:{:02}", "30.11.2026 10:{:02}", "2026-11-30T10:{:02}:00", "10:{:02}"])
def test_dates_that_are_not_used_are_refused_with_advice(tmp_path, stamp):
    path = tmp_path / "d.csv"
    rows = [f"{stamp.format(k)},{np.cos(k):.4f}" for k in range(60)]
    path.write_text("\n".join(["when,x", *rows]))
    result = refused(spo("extract", path), "column 'when' looks like dates")
    for advice in ("2026-11-30T10:00:00", "--time-column when", "--sample-rate"):
        assert advice in result.stderr
    assert spo("extract", path, "--sample-rate", "1").exit_code == 0


def test_a_column_that_rises_like_time_is_pointed_out(tmp_path):
    path = tmp_path / "h.csv"
    path.write_text("\n".join(["hour,x", *(f"{k / 10},{np.cos(k):.4f}" for k in range(200))]))
    assert "give --time-column hour" in " ".join(spo("extract", path).output.split())
    assert "give --time-column" not in spo("extract", path, "--time-column", "hour").output


def test_fit_says_that_columns_look_like_phases(tmp_path):
    time, path = np.arange(2000) / 20.0, tmp_path / "w.csv"
    noise = np.cumsum(0.05 * np.random.default_rng(0).normal(size=(2000, 2)), axis=0)
    phases = np.outer(time, [5.0, 6.1]) + noise
    np.savetxt(path, phases % (2 * np.pi), delimiter=",", header="a,b", comments="")
    said = "give --input phases if they are"
    assert said in " ".join(spo("fit", path, "--sample-rate", "20").output.split())
    assert said not in spo("fit", path, "--sample-rate", "20", "--input", "phases").output
    np.savetxt(path, 3.1 * np.cos(phases), delimiter=",", header="a,b", comments="")
    assert said not in spo("fit", path, "--sample-rate", "20").output


def test_a_fitted_spec_has_the_name_of_its_file_and_asks_what_should_lock(network_file, tmp_path):
    path = tmp_path / "plant two.yaml"
    result = spo("fit", network_file, "--sample-rate", "20", "--spec-out", path)
    assert "Note: intervals from extracted phases do not include the error of the extraction" in result.output
    text = path.read_text()
    assert load_binding_spec(path).name == "plant_two"
    assert "base_strength is unused" in text
    assert "Question for you: which rhythms should lock" in text


def test_the_table_of_extract_fits_80_columns_without_broken_numbers(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    time, path = np.arange(4000) / 44100.0, tmp_path / "s.csv"
    signals = np.column_stack([np.cos(2 * np.pi * f * time) for f in (1234.567, 2345.678)])
    np.savetxt(path, signals, delimiter=",", header="temperature_in,temperature_out", comments="", fmt="%.5f")
    output = spo("extract", path, "--sample-rate", "44100").output
    rows = [line for line in output.splitlines() if line.strip().startswith("temperature_")]
    assert re.search(r"temperature_in +123\d +123\d +31\d:31\d0 +0\.9\d +0 +0", rows[0]), output
    assert max(map(len, output.split("Frequency over")[0].splitlines())) <= 80
