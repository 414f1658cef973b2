"""``agentinputlab compose``: what it shows, what it keeps to itself, and what it refuses before anything is asked."""

import json
import stat
import subprocess
import sys

import pytest
import yaml
from click.testing import CliRunner

from agentinputlab.cli._app import agentinputlab
from agentinputlab.contracts import FrozenAgentState, InputPatch
from agentinputlab.model_server import ChatServer

SECRET = "zebra-4711"
PLAN = "plan.plan_and_solve.ps_prompt"
ASK = "clarify.udcs.repo_native_prompt_route"
SCORES = json.dumps({"request_uncertainty": 0.9, "action_uncertainty": 0.1, "question": f"Which {SECRET}?"})


@pytest.fixture
def run():
    def run(*args):
        return CliRunner().invoke(agentinputlab, ["compose", *map(str, args)])

    return run


@pytest.fixture
def state_file(tmp_path):
    path = tmp_path / "state.json"
    state = {"query": f"Where is {SECRET}?", "instruction": "Be brief.", "budget": {"max_model_calls": 1}}
    path.write_text(json.dumps(state))
    return path


@pytest.fixture
def rules_file(tmp_path):
    path = tmp_path / "rules.yaml"
    path.write_text(yaml.safe_dump({"rules": [{"reply": SCORES}]}))
    return path


def test_it_shows_sizes_and_usage_but_no_text(run, state_file, rules_file):
    shown = run(PLAN, ASK, "--state", state_file, "--scripted", rules_file)
    assert shown.exit_code == 0, shown.output
    assert SECRET not in shown.output
    assert "asks the user back: 17 characters" in " ".join(shown.output.split())
    for wanted in (PLAN, ASK, "instruction: 9 to", "model calls 1 1", "One patch of 2 operations", "--out FILE"):
        assert wanted in " ".join(shown.output.split())


def test_the_report_holds_patch_and_state_in_a_private_file(run, state_file, rules_file, tmp_path):
    out = tmp_path / "report.json"
    shown = run(PLAN, ASK, "--state", state_file, "--scripted", rules_file, "--out", out, "--json")
    report = json.loads(out.read_text())
    assert json.loads(shown.stdout) == report
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    state = FrozenAgentState.from_dict(json.loads(state_file.read_text()))
    patch = InputPatch.from_dict(report["patch"])
    assert patch.apply(state) == FrozenAgentState.from_dict(report["state"])
    assert patch.patch_hash == report["patch_hash"]
    assert report["usage"]["model_calls"] == {"used": 1, "allowed": 1}
    assert report["usage"]["cost_usd"]["used"] is None  # nobody gave a price
    assert [member["release_id"] for member in report["members"]] == [PLAN, ASK]


def test_an_existing_report_is_refused_before_a_model_is_asked(run, state_file, tmp_path):
    out = tmp_path / "report.json"
    out.write_text("mine")
    asked = []

    def respond(body):
        asked.append(body)
        raise AssertionError

    with ChatServer(respond) as server:
        shown = run(ASK, "--state", state_file, "--backend-url", server.base_url, "--model", "m", "--out", out)
    assert (shown.exit_code, asked, out.read_text()) == (2, [], "mine")


def test_an_endpoint_is_asked_over_http(run, state_file):
    from agentinputlab.backends.scripted import parse_rules

    rules = parse_rules({"model": "m", "rules": [{"reply": SCORES}]})
    with ChatServer(rules.respond) as server:
        shown = run(ASK, "--state", state_file, "--backend-url", server.base_url, "--model", "m", "--json")
    assert shown.exit_code == 0, shown.output
    assert json.loads(shown.stdout)["state"]["metadata"]["clarification_request"] == f"Which {SECRET}?"


def test_an_endpoint_is_sent_the_key_that_was_named_and_no_other(run, state_file, monkeypatch):
    from agentinputlab.backends.scripted import parse_rules

    rules = parse_rules({"model": "m", "rules": [{"reply": SCORES}]})
    monkeypatch.setenv("OPENAI_API_KEY", "sk-shop")
    monkeypatch.delenv("NOT_SET", raising=False)
    with ChatServer(rules.respond, token="sk-shop") as server:
        words = (ASK, "--state", state_file, "--backend-url", server.base_url, "--model", "m")
        assert "HTTP status 401" in run(*words).stderr
        missing = run(*words, "--api-key-env", "NOT_SET")
        assert (missing.exit_code, server.counts.requests) == (2, 0)
        assert "--api-key-env names the variable NOT_SET, which is not set or empty" in missing.stderr
        assert run(*words, "--api-key-env", "OPENAI_API_KEY").exit_code == 0


def test_a_failing_member_is_named_and_nothing_is_written(run, state_file, rules_file, tmp_path):
    out = tmp_path / "report.json"
    shown = run(ASK, ASK, "--state", state_file, "--scripted", rules_file, "--out", out)
    assert shown.exit_code == 2
    assert "compose: failed in member 2 of 2" in shown.stderr
    assert "compose: model calls made before: 1" in shown.stderr
    assert "model_calls 2, allowed 1" in shown.stderr
    assert "Traceback" not in shown.stderr
    assert SECRET not in shown.output
    assert not out.exists()


def test_parameters_are_json_text_or_files(run, tmp_path):
    skill = tmp_path / "skill.md"
    skill.write_text("Count, twice, x=1.")
    scores = tmp_path / "scores.json"
    scores.write_text(json.dumps({"t": {"request_uncertainty": 1, "action_uncertainty": 0, "question": "Which?"}}))
    state = tmp_path / "state.json"
    state.write_text(json.dumps({"query": "q", "task_id": "t"}))
    shown = run(
        f"recipe.skillopt.apply:skill=@{skill}",
        "recipe.mce.apply:artifact=a, b, c,block_id=notes",
        f"clarify.udcs.score_route:scores=@{scores},ask_threshold=0.9",
        "--state", state, "--json",
    )  # fmt: skip
    assert shown.exit_code == 0, shown.output
    after = json.loads(shown.stdout)["state"]
    assert after["instruction"].endswith("Count, twice, x=1.")
    assert after["context"][0]["text"] == "a, b, c"
    assert after["context"][0]["block_id"] == "notes"
    assert after["metadata"]["clarification_request"] == "Which?"


def test_documents_can_be_searched(run, tmp_path):
    documents = tmp_path / "documents.json"
    documents.write_text(json.dumps([{"doc_id": "a", "text": "Seine"}, {"doc_id": "b", "text": "Spree"}]))
    rules = tmp_path / "rules.yaml"
    rules.write_text(yaml.safe_dump({"rules": [{"reply": "Spree"}]}))
    shown = run(
        "rewrite.rrr.common_support:top_k=1", "--query", "q", "--scripted", rules, "--documents", documents, "--json"
    )
    assert [block["block_id"] for block in json.loads(shown.stdout)["state"]["context"]] == ["b"]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ([PLAN], "either --state FILE or --query TEXT"),
        ([PLAN, "--query", "q", "--state", "x"], "either --state FILE or --query TEXT"),
        ([PLAN, "--state", "x", "--instruction", "i"], "--instruction belongs to --query"),
        ([PLAN, "--query", "q", "--model", "m"], "belong together"),
        (
            [PLAN, "--query", "q", "--backend-url", "http://x", "--model", "m", "--scripted", "x"],
            "either --backend-url",
        ),
        ([PLAN, "--query", "q", "--api-key-env", "K"], "--api-key-env belongs to --backend-url"),
        (["nope", "--query", "q"], "unknown algorithm or release ID: nope"),
        (["curate.longllmlingua.official", "--query", "q"], "weights"),
        ([f"{PLAN}:x=1", "--query", "q"], "parameters of plan.plan_and_solve.ps_prompt do not fit"),
        (["recipe.mce.apply:artifact", "--query", "q"], "must read key=value"),
        (["recipe.mce.apply:artifact=1,artifact=2", "--query", "q"], "given twice"),
        (["recipe.mce.apply:artifact=@/nonexistent", "--query", "q"], "/nonexistent"),
        ([PLAN, "--query", " "], "must not both be blank"),
        ([PLAN, "--query", "q", "--out", "/nonexistent/report.json"], "there is no directory"),
        ([ASK, "--query", "q"], "needs a language model"),
        ([ASK, "--query", "q"], "--backend-url or --scripted gives a model"),
    ],
)
def test_bad_input_is_one_clear_line(args, message, run):
    shown = run(*args)
    assert shown.exit_code == 2
    assert message in shown.stderr
    assert "Traceback" not in shown.stderr


def test_another_registry_is_refused_instead_of_ignored(tmp_path):
    shown = CliRunner().invoke(agentinputlab, ["--registry", str(tmp_path), "compose", PLAN, "--query", "q"])
    assert shown.exit_code == 2
    assert "packaged registry" in shown.stderr


@pytest.mark.parametrize("data", [b"\xff", b'{"query": "a", "query": "b"}', b"[1]", b'{"query": "a", "gold": 1}', b"{"])
def test_a_bad_state_file_is_refused(data, run, tmp_path):
    path = tmp_path / "state.json"
    path.write_bytes(data)
    shown = run(PLAN, "--state", path)
    assert shown.exit_code == 2
    assert "Traceback" not in shown.stderr


def test_it_runs_as_a_program():
    command = [sys.executable, "-m", "agentinputlab", "compose", PLAN, "--query", SECRET]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert SECRET not in done.stdout
    assert "composite." in done.stdout
