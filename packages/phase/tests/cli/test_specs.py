"""The commands validate, inspect and schema."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from jsonschema import Draft202012Validator

from scpn_phase_orchestrator.binding import (
    binding_document,
    binding_schema,
    format_resolved_binding_config,
    load_binding_spec,
    resolved_binding_config,
)
from scpn_phase_orchestrator.runtime.cli import main
from scpn_phase_orchestrator.runtime.cli._app import COMMANDS

_FOUR_FAULTS = """\
name: four
version: "1"
safety_tier: research
sample_period_s: 0.1
control_period_s: 0.05
layers: []
oscillator_families: {}
coupling: {base_strength: 0.6, decay_alpha: 0.25}
drivers: {}
objectives: {good_layers: [0], bad_layers: []}
"""


def _spo(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def _write(folder: Path, text: str, name: str = "binding_spec.yaml") -> Path:
    file = folder / name
    file.write_text(text, encoding="utf-8")
    return file


def test_four_faults_are_four_lines(tmp_path: Path) -> None:
    result = _spo("validate", _write(tmp_path, _FOUR_FAULTS))
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.splitlines() == [
        "ERROR: version must be three numbers such as 0.1.0, got '1' (line 2)",
        "ERROR: control_period_s must be >= sample_period_s 0.1, got 0.05 (line 5)",
        "ERROR: layers must hold at least one layer (line 6)",
        "ERROR: objectives.good_layers names layer 0, which does not exist (declared indices: none) (line 10)",
    ]


def test_a_valid_spec_is_said_to_be_valid_and_resolved(s1_path: Path) -> None:
    result = _spo("validate", s1_path)
    assert result.exit_code == 0
    resolved = format_resolved_binding_config(resolved_binding_config(load_binding_spec(s1_path)))
    assert result.stdout.splitlines() == ["Valid", *resolved]


def test_warnings_go_to_stderr_leave_the_spec_valid_and_keep_quiet_on_request(s1_path: Path) -> None:
    result = _spo("validate", s1_path)
    assert result.stderr.startswith("WARNING: supervisor.strategy mean_coherence")
    assert _spo("--quiet", "validate", s1_path).stderr == ""


_RULE = """\
rules:
  - name: soften
    regime: [NOMINAL]
    condition: {metric: %s, op: ">", threshold: 0.5}
    action: {knob: K, scope: %s, value: -0.2, ttl_s: 5.0}
"""


@pytest.mark.parametrize("name", ["policy.yaml", "mine.yaml"])
def test_faults_of_the_rule_file_are_errors_with_file_and_line(name: str, s1_path: Path, tmp_path: Path) -> None:
    named = "" if name == "policy.yaml" else f"policy: {name}\n"
    spec = _write(tmp_path, s1_path.read_text() + named)
    if named:
        missing = _spo("validate", spec)
        assert missing.exit_code == 1
        assert f"ERROR: policy names '{name}', but {tmp_path} holds no such file (line" in missing.stderr
    rules = _write(
        tmp_path, _RULE.replace("knob: K", "knob: Q").replace("NOMINAL", "NOMINEL") % ("R_good", "global"), name
    )
    for command in ("validate", "run", "compare"):
        result = _spo(command, spec)
        assert result.exit_code == 1
        assert result.stdout == ""
        first, second = (line for line in result.stderr.splitlines() if line.startswith("ERROR"))
        assert first.startswith(f"ERROR: invalid policy rules: {rules}: rules[].regime[] must be one of NOMINAL")
        assert "did you mean 'NOMINAL'?" in first
        assert "(line 3)" in first
        assert "(line 5)" in second


@pytest.mark.parametrize(
    ("metric", "scope", "message"),
    [
        ("R_god", "global", "never holds: metric 'R_god' does not exist (did you mean 'R_good'?) (line 4)"),
        ("R", "global", "never holds: metric 'R' needs a layer (line 4)"),
        (
            "R, layer: 7",
            "global",
            "never holds: layer 7 of metric 'R' does not exist (declared indices: 0, 1) (line 4)",
        ),
        (
            "R_bad, layer: 1",
            "global",
            (
                "never holds: layer 1 of metric 'R_bad' does not exist: it is the position among the bad layers, "
                "0 to 0 (line 4)"
            ),
        ),
        (
            "pac_max",
            "global",
            "never holds: metric 'pac_max' is always 0 without a block 'amplitude', never > 0.5 (line 4)",
        ),
    ],
)
def test_a_rule_that_can_never_act_is_a_warning(
    metric: str, scope: str, message: str, s1_path: Path, tmp_path: Path
) -> None:
    spec = _write(tmp_path, s1_path.read_text())
    rules = _write(tmp_path, _RULE % (metric, scope), "policy.yaml")
    for command in (["validate", spec], ["run", spec, "--steps", 1]):
        result = _spo(*command)
        assert result.exit_code == 0
        warning = next(line for line in result.stderr.splitlines() if "rule 'soften'" in line)
        assert warning.startswith(f"WARNING: {rules}: ")
        assert warning.endswith(message)
    assert "WARNING" not in _spo("--quiet", "validate", spec).stderr


@pytest.mark.parametrize("condition", ["R, layer: 1", "R_bad, layer: 0", "R_good", "boundary_violation_count"])
def test_a_rule_that_can_act_is_no_warning(condition: str, s1_path: Path, tmp_path: Path) -> None:
    spec = _write(tmp_path, s1_path.read_text())
    _write(tmp_path, _RULE % (condition, "layer_1"), "policy.yaml")
    assert "soften" not in _spo("validate", spec).stderr


def test_a_rule_that_acts_on_no_layer_is_an_error_as_in_a_run(s1_path: Path, tmp_path: Path) -> None:
    spec = _write(tmp_path, s1_path.read_text())
    rules = _write(tmp_path, _RULE % ("R_bad", "layer_4"), "policy.yaml")
    for command in ("validate", "run", "sweep"):
        options = ["--vary", "coupling.base_strength=0.1,0.2", "--out", tmp_path / "out"] if command == "sweep" else []
        result = _spo(command, spec, *options)
        assert result.exit_code == 1
        assert result.stderr == (
            f"ERROR: {rules}: rule 'soften' acts on scope 'layer_4', which is no layer "
            "(declared indices: 0, 1) (line 5)\n"
        )


@pytest.mark.parametrize(
    ("right", "wrong", "message"),
    [
        (
            "sample_period_s: 0.01",
            "sample_period_s: 0,01",
            "a decimal comma is no part of a number: write 0.01 (line 5)",
        ),
        (
            "base_strength: 0.6",
            "base_strength: 0,6",
            "quote it (or write a decimal point, if it follows a decimal comma)",
        ),
        (
            "bad_layers: [1]",
            "bad_layers: [storms]",
            "'storms' is layer 1: write 1 [objectives.bad_layers[0]] (line 18)",
        ),
        ("scope: global", "scope: storms", "'storms' is layer 1: write layer_1 [actuators[0].scope] (line 22)"),
        ("  - {name: storms", "\t- {name: storms", "a tab in the indentation; use spaces (line 9)"),
        ("version:", "\tversion:", "a tab in the indentation; use spaces (line 3)"),
    ],
    ids=["number", "flow", "index", "scope", "tab", "tab at key"],
)
def test_slips_of_the_pen_are_answered_with_what_to_write(
    right: str, wrong: str, message: str, s1_path: Path, tmp_path: Path
) -> None:
    result = _spo("validate", _write(tmp_path, s1_path.read_text().replace(right, wrong, 1)))
    assert result.exit_code == 1
    assert message in result.stderr


def test_names_of_layers_in_rules_are_answered_with_their_index(s1_path: Path, tmp_path: Path) -> None:
    spec = _write(tmp_path, s1_path.read_text())
    _write(tmp_path, _RULE % ("R, layer: storms", "storms"), "policy.yaml")
    first, second = _spo("validate", spec).stderr.splitlines()
    assert "'storms' is layer 1: write 1 [" in first
    assert "'storms' is layer 1: write layer_1 [" in second


def test_a_rule_file_in_place_of_a_spec_is_known(tmp_path: Path) -> None:
    rules = _write(tmp_path, _RULE % ("R_bad", "global"), "policy.yaml")
    for command in ("validate", "run"):
        result = _spo(command, rules)
        assert result.exit_code == 1
        assert result.stderr == (
            f"ERROR: {rules}: this looks like a rule file; give the spec that it belongs to (line 1)\n"
        )


def test_a_threshold_out_of_reach_is_a_warning(s1_path: Path, tmp_path: Path) -> None:
    spec = _write(tmp_path, s1_path.read_text())
    _write(tmp_path, (_RULE % ("R_bad", "global")).replace("0.5", "1.5"), "policy.yaml")
    assert "metric 'R_bad' lies between 0 and 1, never > 1.5" in _spo("validate", spec).stderr


@pytest.mark.parametrize(
    ("flags", "lines"),
    [
        (["--security"], ["Valid", "Security checks passed"]),
        (["--hard"], ["Valid", "Security checks passed", "Hard scan: no dangerous patterns found"]),
        (["--security", "--hard"], ["Valid", "Security checks passed", "Hard scan: no dangerous patterns found"]),
    ],
)
def test_security_checks_are_said_in_this_order(
    flags: list[str], lines: list[str], s1_path: Path, tmp_path: Path
) -> None:
    result = _spo("validate", _write(tmp_path, s1_path.read_text()), *flags)
    assert result.exit_code == 0
    assert result.stdout.splitlines()[: len(lines) + 1] == [*lines, "Resolved configuration:"]


def test_the_hard_scan_covers_the_folder_of_the_spec(s1_path: Path, tmp_path: Path) -> None:
    spec = _write(tmp_path, s1_path.read_text())
    script = _write(tmp_path, "import os\nos.system('ls')\n", "run.py")
    assert _spo("validate", spec).exit_code == 0
    assert _spo("validate", spec, "--security").exit_code == 0
    result = _spo("validate", tmp_path, "--hard")
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr == f"ERROR: hard scan: {script}:2 [shell-exec] os.system('ls')\n"


@pytest.mark.parametrize("flag", ["--security", "--hard"])
def test_executable_markers_are_refused_on_request(flag: str, s1_path: Path, tmp_path: Path) -> None:
    spec = _write(tmp_path, s1_path.read_text().replace("name: floor", "name: eval(x)"))
    assert _spo("validate", spec).exit_code == 0
    result = _spo("validate", spec, flag)
    assert result.exit_code == 1
    assert result.stderr == "ERROR: boundaries[0].name holds the executable marker 'eval(' (line 20)\n"


def test_every_structural_error_is_a_line_with_the_file(s1_path: Path, tmp_path: Path) -> None:
    spec = _write(tmp_path, s1_path.read_text().replace("research", "reserch").replace("knob: K", "knob: Q"))
    for command in ("validate", "inspect"):
        result = _spo(command, spec)
        assert result.exit_code == 1
        assert result.stdout == ""
        first, second = result.stderr.splitlines()
        assert first.startswith(f"ERROR: {spec}: safety_tier must be one of")
        assert first.endswith("did you mean 'research'? (line 4)")
        assert second.endswith("[actuators[0].knob] (line 22)")


@pytest.mark.parametrize("command", ["validate", "inspect"])
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no_such_pack", "no pack, file or folder is named 'no_such_pack'; "),
        ("missing.yaml", "no spec file or folder at 'missing.yaml'"),
        ("\x1b[31m", "is named '\\x1b[31m'"),
    ],
    ids=["name", "file", "escape"],
)
def test_what_is_nowhere_is_a_usage_error(command: str, name: str, message: str) -> None:
    result = _spo(command, name)
    assert result.exit_code == 2
    assert message in result.stderr
    assert "\x1b" not in result.stderr


def test_names_in_a_spec_cannot_add_lines_to_the_output(s1_path: Path, tmp_path: Path) -> None:
    spec = _write(tmp_path, s1_path.read_text().replace("name: s1", 'name: "a\\nValid\\u202e"'))
    result = _spo("inspect", spec)
    assert result.stdout.splitlines()[1] == "  domain: a\\nValid\\u202e v0.1.0 (research)"


@pytest.mark.parametrize("flag", ["--json-out", "--json"])
def test_inspect_prints_the_summary_as_sorted_json(flag: str, s1_path: Path) -> None:
    result = _spo("inspect", s1_path, flag)
    assert result.exit_code == 0
    assert result.stderr == ""
    summary = resolved_binding_config(load_binding_spec(s1_path))
    assert result.stdout == json.dumps(summary, indent=2, sort_keys=True) + "\n"


def test_inspect_prints_the_text(s1_path: Path) -> None:
    result = _spo("inspect", s1_path)
    assert result.exit_code == 0
    assert result.stdout.startswith("Resolved configuration:\n  domain: s1 v0.1.0 (research)\n")


def test_the_printed_schema_accepts_what_the_loader_accepts(s1_path: Path, tmp_path: Path) -> None:
    file = tmp_path / "schema.json"
    result = _spo("schema", "--output", file)
    assert result.exit_code == 0
    assert file.read_text() == result.stdout
    schema = json.loads(result.stdout)
    assert schema == binding_schema()
    assert Draft202012Validator(schema).is_valid(binding_document(load_binding_spec(s1_path)))


@pytest.mark.parametrize("name", ["validate", "inspect", "schema", "twin-confidence"])
def test_help_starts_with_the_line_of_the_table_and_holds_an_example(name: str) -> None:
    result = _spo(name, "--help")
    assert result.exit_code == 0
    assert " ".join(result.output.split()).count(COMMANDS[name][2]) == 1
    assert f"spo {name}" in result.output.split("Example", 1)[1]


def test_validating_needs_no_numerical_library(s1_path: Path) -> None:
    script = (
        "import sys\n"
        "from scpn_phase_orchestrator.runtime.cli import main\n"
        f"main(['validate', {str(s1_path)!r}], standalone_mode=False)\n"
        "heavy = {'numpy', 'numba', 'scipy', 'matplotlib', 'pydantic'} & set(sys.modules)\n"
        "sys.exit(', '.join(heavy) or 0)\n"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
