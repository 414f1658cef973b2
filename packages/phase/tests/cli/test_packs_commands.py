"""Packs, new, scaffold, generate, quickstart and demo, through the door of the command."""

import json
import re
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
import yaml
from click.testing import CliRunner

from ripieno.verify import VerifyStatus, verify
from scpn_phase_orchestrator.binding import parse_binding_spec
from scpn_phase_orchestrator.domainpacks import pack_names, resolve_spec_path
from scpn_phase_orchestrator.runtime.cli import main
from scpn_phase_orchestrator.runtime.cli._app import COMMANDS
from scpn_phase_orchestrator.runtime.simulation import load_rules_beside
from scpn_phase_orchestrator.runtime.step_core import StepCore
from scpn_phase_orchestrator.scaffold.catalogue import find_pack

OURS = ["packs", "new", "scaffold", "generate", "quickstart", "demo"]


def spo(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


@pytest.fixture(autouse=True)
def _own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("SPO_AUDIT_KEY", "SPO_AUDIT_KEYRING", "SPO_LLM_ENDPOINT", "SPO_LLM_MODEL", "SPO_LLM_API_KEY"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("name", OURS)
def test_help_starts_with_the_line_of_the_table_and_holds_an_example(name):
    text = spo(name, "--help").output
    assert COMMANDS[name][2] in text
    assert f"  spo {name}" in text.partition("Examples:")[2]


@pytest.mark.parametrize("arguments", [["packs"], ["packs", "power_grid"], ["new", "mine"], ["demo", "--help"]])
def test_first_contact_loads_no_numeric_library(arguments):
    code = (
        "import sys; from click.testing import CliRunner; from scpn_phase_orchestrator.runtime.cli import main; "
        f"result = CliRunner().invoke(main, {arguments!r}); assert result.exit_code == 0, result.output; "
        "print([m for m in ('numba', 'scipy', 'numpy', 'matplotlib') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


class TestPacks:
    def test_the_table_has_a_line_for_every_pack(self):
        lines = spo("packs").output.splitlines()
        assert lines[0].split() == ["pack", "L/n", "tier", "subject"]
        assert [line.split()[0] for line in lines[1:-1]] == pack_names()
        (line,) = [line for line in lines if line.startswith("power_grid ")]
        assert re.split(r"\s{2,}", line) == [
            "power_grid", "5/12", "production", "Rotor angles of a small transmission grid.",
        ]  # fmt: skip
        assert max(len(line) for line in lines) <= 120

    def test_json_has_the_whole_sentence(self):
        records = {record["name"]: record for record in json.loads(spo("packs", "--json").output)}
        assert sorted(records) == pack_names()
        record = records["queuewaves"]
        assert (record["layer_count"], record["oscillator_count"], record["safety_tier"]) == (3, 6, "research")
        assert record["subject"].endswith("and three kinds of clients retry failed calls.")

    def test_one_pack_shows_its_readme_and_its_layers(self):
        lines = spo("packs", "queuewaves").output.splitlines()
        readme = find_pack("queuewaves").readme.rstrip().splitlines()
        assert lines[: len(readme)] == readme
        assert lines[-1].split() == ["retries", "2", "3", "retry", "bad", "K,", "alpha"]

    def test_one_pack_as_json(self):
        record = json.loads(spo("packs", "minimal_domain", "--json").output)
        assert record["readme"] == find_pack("minimal_domain").readme
        assert record["layers"][1] == {
            "index": 1, "name": "walkers", "family": "motion", "oscillator_ids": ["brisk_walker", "slow_walker"],
            "objective": "bad",
        }  # fmt: skip

    def test_an_unknown_pack_names_the_nearest(self):
        result = spo("packs", "powergrid")
        assert result.exit_code == 1
        assert "did you mean 'power_grid'?" in result.stderr

    def test_control_characters_of_a_foreign_readme_are_shown_not_obeyed(self, tmp_path):
        spo("new", "mine")
        (tmp_path / "mine" / "README.md").write_text("# mine\n\x1b[2J\n")
        assert "\\x1b[2J" in spo("packs", "mine").output


class TestNew:
    def test_the_three_printed_commands_work_as_printed(self):
        result = spo("new", "mine", "--layer", "pumps:3:good", "--layer", "valves:2:bad")
        assert result.exit_code == 0
        commands = [line.split()[1:] for line in result.output.splitlines() if line.startswith("  spo ")]
        assert [command[0] for command in commands] == ["run", "compare", "run"]
        for command in commands:
            done = spo(*command)
            assert done.exit_code == 0, done.output
        assert "Supervision gave a better outcome on 3 of 3 seeds" in spo(*commands[1]).output
        assert spo("replay", "run.jsonl", "--verify").exit_code == 0
        assert spo("validate", "mine").stderr == ""

    def test_json_says_what_was_written(self, tmp_path):
        record = json.loads(spo("new", "mine", "--dir", tmp_path / "packs", "--json").output)
        assert record["folder"] == str(tmp_path / "packs" / "mine")
        assert sorted(path.name for path in (tmp_path / "packs" / "mine").iterdir()) == [
            "README.md", "binding_spec.yaml", "policy.yaml",
        ]  # fmt: skip
        assert record["layers"][0] == {"name": "together", "oscillators": 4, "objective": "good"}
        assert len(record["next"]) == 3

    def test_nothing_is_overwritten(self, tmp_path):
        spo("new", "mine")
        before = (tmp_path / "mine" / "policy.yaml").read_bytes()
        result = spo("new", "mine", "--layer", "a:2:good")
        assert (result.exit_code, "nothing is overwritten" in result.stderr) == (1, True)
        assert (tmp_path / "mine" / "policy.yaml").read_bytes() == before

    @pytest.mark.parametrize("arguments", [["a/b"], ["ä"], ["mine", "--layer", "x:1:good"], ["mine", "--layer", "x"]])
    def test_bad_input_is_one_line_and_leaves_nothing(self, arguments, tmp_path):
        result = spo("new", *arguments)
        assert result.exit_code == 1
        assert len(result.stderr.splitlines()) == 1
        assert list(tmp_path.iterdir()) == []


class TestScaffold:
    def test_it_writes_the_documented_pack(self, tmp_path):
        result = spo("scaffold", "pump-station_1")
        folder = tmp_path / "domainpacks" / "pump-station_1"
        assert result.output == "Scaffolded domainpack at domainpacks/pump-station_1\n"
        spec = parse_binding_spec((folder / "binding_spec.yaml").read_text())
        assert [(layer.name, len(layer.oscillator_ids)) for layer in spec.layers] == [("default", 1)]
        assert (spec.coupling.base_strength, spec.coupling.decay_alpha, spec.safety_tier) == (0.45, 0.3, "research")
        assert sorted(path.name for path in folder.iterdir()) == ["README.md", "binding_spec.yaml"]
        assert spo("run", folder).exit_code == 0

    def test_files_that_exist_stay_as_they_are(self, tmp_path):
        spo("scaffold", "mine")
        spec = tmp_path / "domainpacks" / "mine" / "binding_spec.yaml"
        spec.write_text("mine")
        result = spo("scaffold", "mine")
        assert result.exit_code == 0
        assert "Kept as it was: binding_spec.yaml, README.md" in result.output
        assert spec.read_text() == "mine"

    @pytest.mark.parametrize("name", ["../up", "a b", "ä", "a/b"])
    def test_a_bad_name_is_refused(self, name, tmp_path):
        assert spo("scaffold", name).exit_code == 1
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize("options", [["--description", "x"], ["--llm"], ["--llm", "--llm-response-json", "a.json"]])
    def test_options_that_do_not_fit_are_wrong_usage(self, options, tmp_path):
        (tmp_path / "a.json").write_text("{}")
        assert spo("scaffold", "mine", *options).exit_code == 2


def _beats(name="beats", **changes):
    document = yaml.safe_load(resolve_spec_path("minimal_domain").read_text()) | {"name": name} | changes
    return json.dumps({"binding_spec": document, "rationale": "Two beats."})


class TestScaffoldByModel:
    ARGUMENTS = ("scaffold", "beats", "--llm", "--description", "two metronomes")

    def test_a_saved_answer_becomes_a_pack_with_an_audit(self, tmp_path):
        (tmp_path / "answer.json").write_text(_beats())
        result = spo(*self.ARGUMENTS, "--llm-response-json", "answer.json")
        assert result.exit_code == 0, result.output
        assert result.output.startswith("Scaffolded domainpack at domainpacks/beats\n")
        folder = tmp_path / "domainpacks" / "beats"
        assert json.loads((folder / "llm_scaffold_audit.json").read_text())["origin"] == {"kind": "file"}
        assert spo("run", folder).exit_code == 0

    @pytest.mark.parametrize("answer", [_beats(name="other"), _beats(safety_tier="production"), "{", "\xff"])
    def test_nothing_is_written_when_the_proposal_is_refused(self, answer, tmp_path):
        (tmp_path / "answer.json").write_bytes(answer.encode("latin-1"))
        result = spo(*self.ARGUMENTS, "--llm-response-json", "answer.json")
        assert result.exit_code == 1
        assert [path.name for path in tmp_path.iterdir()] == ["answer.json"]

    def test_an_endpoint_is_asked_and_its_key_is_never_recorded(self, tmp_path, monkeypatch):
        body = json.dumps({"choices": [{"message": {"content": _beats()}}]}).encode()
        seen = []

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                seen.append((self.path, self.headers["Authorization"]))
                self.rfile.read(int(self.headers["Content-Length"]))
                self.send_response(200)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *arguments):
                pass

        server = HTTPServer(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        monkeypatch.setenv("SPO_LLM_ENDPOINT", f"http://127.0.0.1:{server.server_port}/v1")
        monkeypatch.setenv("SPO_LLM_MODEL", "small")
        monkeypatch.setenv("SPO_LLM_API_KEY", "k-123")
        try:
            result = spo(*self.ARGUMENTS)
        finally:
            server.shutdown()
            server.server_close()
            thread.join()
        assert result.exit_code == 0, result.output
        assert seen == [("/v1/chat/completions", "Bearer k-123")]
        files = list((tmp_path / "domainpacks" / "beats").iterdir())
        assert len(files) == 3
        assert not any("k-123" in path.read_text() for path in files)
        audit = json.loads((tmp_path / "domainpacks" / "beats" / "llm_scaffold_audit.json").read_text())
        assert audit["origin"]["model"] == "small"

    def test_without_an_endpoint_the_error_names_the_variable(self, tmp_path):
        result = spo(*self.ARGUMENTS)
        assert (result.exit_code, list(tmp_path.iterdir())) == (1, [])
        assert "SPO_LLM_ENDPOINT is not set" in result.stderr

    def test_an_existing_folder_is_refused_before_anybody_is_asked(self, tmp_path):
        (tmp_path / "domainpacks" / "beats").mkdir(parents=True)
        result = spo(*self.ARGUMENTS)
        assert "nothing is overwritten" in result.stderr


class TestGenerate:
    def test_five_files_and_four_facts(self, tmp_path):
        result = spo("generate", "retry storms in message queues", "--name", "shop", "--oscillators-per-layer", 3)
        assert result.exit_code == 0, result.output
        lines = result.stdout.splitlines()
        assert [line.partition(":")[0] for line in lines[:4]] == [
            "schema_valid", "confidence", "retrieval_matches", "dry_run_R",
        ]  # fmt: skip
        assert lines[2].startswith("retrieval_matches: queuewaves (")
        assert sorted(path.name for path in (tmp_path / "shop").iterdir()) == [
            "README.md", "audit.json", "binding_spec.yaml", "policy.yaml", "review_notebook.ipynb",
        ]  # fmt: skip
        assert spo("validate", "shop").exit_code == 0
        assert spo("run", "shop").exit_code == 0

    def test_a_low_confidence_is_said_in_words(self):
        result = spo("generate", "knitting with wool")
        assert "confidence: 0.00 (none: no pack knows a word of it" in result.output

    def test_output_folder_and_nothing_overwritten(self, tmp_path):
        assert spo("generate", "power plants", "--output-dir", "deep/draft").exit_code == 0
        assert (tmp_path / "deep" / "draft" / "audit.json").is_file()
        result = spo("generate", "power plants", "--output-dir", "deep/draft")
        assert (result.exit_code, "nothing is overwritten" in result.stderr) == (1, True)

    @pytest.mark.parametrize("arguments", [["42"], ["power", "--name", "../up"]])
    def test_bad_input_leaves_nothing(self, arguments, tmp_path):
        assert spo("generate", *arguments).exit_code == 1
        assert list(tmp_path.iterdir()) == []


class TestQuickstart:
    @pytest.mark.parametrize("kind", ["power", "eeg", "evidence", "auditor"])
    def test_four_numbered_lines_and_a_json_file(self, kind, tmp_path):
        steps = ["--steps", 60] if kind in ("power", "eeg") else []
        result = spo("quickstart", kind, *steps, "--output", "found.json")
        assert result.exit_code == 0, result.output
        assert re.findall(r"^\[\d/4\]", result.output, re.MULTILINE) == ["[1/4]", "[2/4]", "[3/4]", "[4/4]"]
        found = json.loads((tmp_path / "found.json").read_text())
        assert (found["quickstart"], found["ok"], len(found["stages"])) == (kind, True, 4)
        assert [path.name for path in tmp_path.iterdir()] == ["found.json"]

    def test_steps_and_seed_reach_the_run(self):
        text = spo("quickstart", "power", "--steps", 30, "--seed", 7).output
        assert "[2/4] run: 30 steps, seed 7," in text
        assert "Hash chain: OK" in text

    def test_steps_of_a_record_are_wrong_usage(self):
        result = spo("quickstart", "evidence", "--steps", 30)
        assert result.exit_code == 2
        assert "the record was made before" in result.stderr

    def test_what_does_not_hold_ends_with_one(self, tmp_path, monkeypatch):
        from scpn_phase_orchestrator.scaffold import quickstart

        for name in ("run.jsonl", "run.jsonl.sig", "signer.pub"):
            data = (quickstart.EVIDENCE / name).read_bytes()
            (tmp_path / name).write_bytes(data.replace(b"degraded", b"nominal!", 1) if name == "run.jsonl" else data)
        monkeypatch.setattr(quickstart, "EVIDENCE", tmp_path)
        result = spo("quickstart", "evidence")
        assert result.exit_code == 1
        assert result.output.startswith("[1/4] hash chain: FAILED: line ")


class TestDemo:
    def test_ten_lines_of_the_supervised_pack(self):
        result = spo("demo", "--domain", "power_grid", "--steps", 50)
        lines = result.output.splitlines()
        assert lines[0] == "power_grid: 12 oscillators in 5 layers, 50 steps"
        path = resolve_spec_path("power_grid")
        spec = find_pack("power_grid").spec
        core = StepCore(spec, rules=load_rules_beside(spec, path))
        outcomes = [core.step() for _ in range(50)]
        assert lines[1:] == [
            f"  Step {n}: R={outcomes[n - 1].state.stability_proxy:.3f} [{outcomes[n - 1].regime}]"
            for n in range(5, 51, 5)
        ]

    @pytest.mark.parametrize(
        ("steps", "numbers"),
        [(1, [1]), (3, [1, 2, 3]), (10, range(1, 11)), (25, [2, 5, 7, 10, 12, 15, 17, 20, 22, 25])],
    )
    def test_the_last_line_is_the_last_step(self, steps, numbers):
        text = spo("demo", "--steps", steps).output
        assert re.findall(r"^  Step (\d+): R=[01]\.\d{3} \[\w+\]$", text, re.MULTILINE) == [str(n) for n in numbers]

    def test_an_unknown_pack_is_answered_with_the_list(self):
        result = spo("demo", "--domain", "nothing_like_it")
        assert result.exit_code == 1
        assert all(name in result.stderr for name in pack_names())

    def test_a_data_set_is_answered_with_a_spec(self, tmp_path):
        result = spo("demo", "--dataset", "heartbeat.csv", "--target", "coherence")
        assert result.exit_code == 0, result.output
        (tmp_path / "heartbeat.yaml").write_text(result.stdout)
        assert spo("validate", "heartbeat.yaml").exit_code == 0
        assert result.stderr == (
            "Proposed for coherence: 3 oscillators in 2 layers, all good. Review it before it runs.\n"
        )
        assert spo("--quiet", "demo", "--dataset", "heartbeat.csv").stderr == ""

    @pytest.mark.parametrize("source", ["nothing.csv", "http://127.0.0.1/x.csv"])
    def test_no_data_set_is_one_line(self, source):
        result = spo("demo", "--dataset", source)
        assert (result.exit_code, len(result.stderr.splitlines())) == (1, 1)

    def test_a_proposal_is_not_run(self):
        assert spo("demo", "--dataset", "heartbeat.csv", "--steps", 3).exit_code == 2


def test_the_bundled_record_is_one_that_ripieno_verifies():
    from scpn_phase_orchestrator.scaffold.quickstart import EVIDENCE

    assert verify(EVIDENCE / "run.jsonl").status is VerifyStatus.COMPLETE
