"""Nothing that a customer, an agent, an author of prompts or a key says leaves by a public door.

Secrets are planted in every private place; every byte that the public side emits is searched for them, also encoded.
(The traceback of ``--debug`` is the one documented exception.)
"""

from __future__ import annotations

import base64
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from campaign_lab import environment, invoke, lab_plan, write_plan

from agentinputlab.model_server import ChatReply, ChatServer

SECRETS = {
    kind: f"zq7{kind}parrot0123"
    for kind in ("user", "protected", "instruction", "reply", "print", "prompt", "key", "model", "query", "fault")
}
PUBLIC = ("results.json", "analysis.json", "index.html", "campaign.json", "events.jsonl", "cells.jsonl")


def needles(secret: str) -> Iterator[bytes]:
    """A secret as it is (which covers JSON, HTML and URL escapes of its plain letters), in base64, and in hex."""
    text = secret.encode()
    yield text[:10]
    yield text.hex().encode()[:20]
    for offset in range(3):
        encoded = base64.b64encode(bytes(offset) + text)
        yield encoded[4 * (offset > 0) : 4 * (len(text) // 3)][4:]


def found(data: bytes) -> list[str]:
    lowered = data.lower()
    return [
        kind
        for kind, secret in SECRETS.items()
        for needle in needles(secret)
        if (needle.lower() in lowered if needle.isascii() and needle.islower() else needle in data)
    ]


@pytest.mark.parametrize("kind", SECRETS)
def test_the_search_finds_what_it_looks_for(kind: str) -> None:
    text = f'she said "{SECRETS[kind]}" <é>'
    encodings = [text.encode(), json.dumps(text).encode(), text.upper().encode(), text.encode().hex().encode()]
    encodings += [base64.b64encode(b"x" * offset + text.encode()) for offset in range(3)]
    for data in encodings:
        assert kind in found(data), data
    assert found(b"an innocent text about parrots, zq70123") == []


def module(*arguments: object, feed: bytes = b"", **variables: str) -> tuple[int, bytes, bytes]:
    done = subprocess.run(
        [sys.executable, "-m", *map(str, arguments)],
        input=feed,
        capture_output=True,
        check=False,
        env=environment(**variables),
        timeout=120,
    )
    return done.returncode, done.stdout, done.stderr


def on_a_terminal(*arguments: object, **variables: str) -> tuple[int, bytes]:
    """What a person sees: everything on one terminal, progress bars included."""
    master, slave = os.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", *map(str, arguments)],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env=environment(TERM="xterm-256color", COLUMNS="200", **variables),
    )
    os.close(slave)
    seen = bytearray()
    while True:
        ready, _, _ = select.select([master], [], [], 60)
        try:
            data = os.read(master, 65536) if ready else b""
        except OSError:  # the other end is closed
            break
        if not data:
            break
        seen += data
    os.close(master)
    return process.wait(timeout=60), bytes(seen)


@pytest.fixture(scope="module")
def server() -> Iterator[ChatServer]:
    """A model whose every answer is a secret; who asks must have the key."""
    with ChatServer(lambda _: ChatReply(SECRETS["model"]), token=SECRETS["key"]) as running:
        yield running


def secret_plan(folder: Path, server: ChatServer) -> dict[str, Any]:
    behaviour = {
        "user_text": SECRETS["user"],
        "protected": SECRETS["protected"],
        "instruction": SECRETS["instruction"],
        "reply": SECRETS["reply"],
        "prints": [SECRETS["print"]],
        "fail_capture": ["0"],
        "fail_baseline": ["1"],
        "fail_treatment": ["2"],
        "api_base": server.base_url,
        "api_key_env": "LAB_API_KEY",
    }
    plan = lab_plan(
        folder,
        tasks=4,
        treatments=[
            {
                "name": "mine",
                "members": [{"release": "own.text", "parameters": {"append_instruction": SECRETS["prompt"]}}],
            },
            "plan.plan_and_solve.plan_call",
            "clarify.udcs.repo_native_prompt_route",
        ],
        **behaviour,
    ).record()
    plan["slots"][0]["agent"] |= {"backend": "openai", "model": "lab-model"}
    plan["slots"][0]["intervention_model"] = {"kind": "agent", "rules": None, "rules_sha256": None}
    return plan


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory, server: ChatServer) -> Mapping[str, Any]:
    folder = tmp_path_factory.mktemp("secrets")
    plan = write_plan(folder / "plan.json", secret_plan(folder, server))
    options = ["agentinputlab", "campaign", "run", plan, "--out", folder / "out", "--execute"]
    code, seen = on_a_terminal(*options, LAB_API_KEY=SECRETS["key"])
    return {"folder": folder, "out": folder / "out", "plan": plan, "options": options, "code": code, "seen": seen}


def test_the_secrets_are_where_they_belong(campaign: Mapping[str, Any], server: ChatServer) -> None:
    """Otherwise the tests below would prove nothing."""
    private = b"".join(
        path.read_bytes() for path in campaign["out"].rglob("*") if path.is_file() and path.name not in PUBLIC
    )
    assert {"user", "protected", "instruction", "reply", "prompt", "model"} <= set(found(private))
    assert "key" not in found(private)
    assert server.counts.answered > 0


def test_a_person_at_a_terminal_sees_progress_and_no_secret(campaign: Mapping[str, Any]) -> None:
    assert campaign["code"] == 3, campaign["seen"]
    assert b"Verified" in campaign["seen"]
    assert b"100%" in campaign["seen"]
    assert found(campaign["seen"]) == []


@pytest.mark.parametrize("name", PUBLIC)
def test_no_public_file_holds_a_secret(campaign: Mapping[str, Any], name: str) -> None:
    assert found((campaign["out"] / name).read_bytes()) == []


def test_private_files_are_closed_to_others(campaign: Mapping[str, Any]) -> None:
    for path in campaign["out"].rglob("*"):
        assert path.stat().st_mode & 0o077 == 0, path


def test_no_command_about_a_campaign_says_a_secret(campaign: Mapping[str, Any], tmp_path: Path) -> None:
    plan, options = campaign["plan"], campaign["options"]
    other = write_plan(tmp_path / "other.json", {**json.loads(plan.read_text()), "tasks": 3})
    prompt = tmp_path / "prompt.txt"
    prompt.write_text(SECRETS["prompt"])
    retail = ["agentinputlab", "retail", "run", "--arena", "fixture", "--split", "train", "--tasks", "2", "--no-fsync"]
    for arguments in (
        options,
        [*options, "--json"],
        [*options[:3], other, *options[4:]],
        [*retail, "--append-instruction", prompt, "--out", tmp_path / "mine"],
        [*retail, "--treatment", f"own.text:add_context={SECRETS['prompt']}", "--out", tmp_path / "inline", "--json"],
        [*retail, "--treatment", f"own.text:{SECRETS['prompt']}", "--out", tmp_path / "wrong"],
    ):
        code, stdout, stderr = module(*arguments, LAB_API_KEY=SECRETS["key"])
        assert code in {0, 1, 2, 3}, stderr
        assert found(stdout) == [], arguments
        assert found(stderr) == [], arguments
        assert b"Traceback" not in stderr
    for folder in ("mine", "inline"):
        for name in PUBLIC:
            assert found((tmp_path / folder / name).read_bytes()) == [], name


def test_no_look_at_a_campaign_says_a_secret(
    campaign: Mapping[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from ripieno.cli import main as ripieno_main

    out, plan = campaign["out"], campaign["plan"]
    (tmp_path / "bad.yaml").write_text(f"treatments: ['own.text:{SECRETS['prompt']}']\napi_key: {SECRETS['key']}\n")
    (tmp_path / "worse.yaml").write_text(f"treatments: [{SECRETS['prompt']}\nslots: {SECRETS['key']}\n")
    for arguments in (
        ["doctor", plan],
        ["doctor", plan, "--json"],
        ["doctor", tmp_path / "bad.yaml"],
        ["doctor", tmp_path / "worse.yaml"],
        ["verify", out],
        ["verify", out, "--json"],
        ["analyze", out],
        ["analyze", out, "--json"],
        ["bootstrap", plan, "--out", tmp_path / "drafts"],
    ):
        result = invoke("campaign", *arguments)
        assert result.exit_code in {0, 2}, result.output
        assert result.output
        assert found(result.output.encode()) == [], arguments
    for options in ([], ["--json"]):
        with pytest.raises(SystemExit):
            ripieno_main(["verify", str(out), *options])
        said = capsys.readouterr()
        assert "input-lab campaign" in said.out or "complete" in said.out
        assert found((said.out + said.err).encode()) == []


def test_a_changed_receipt_is_reported_without_what_it_says(campaign: Mapping[str, Any], tmp_path: Path) -> None:
    import shutil

    shutil.copytree(campaign["out"], tmp_path / "copy")
    kinds = {path.name.lstrip("0123456789"): path for path in sorted((tmp_path / "copy").rglob("*.json"))}
    for path in kinds.values():  # one file of each name
        data = path.read_bytes()
        for changed in (data[: len(data) // 2], data.replace(b"zq7", b"zq7zq7"), b"[1]", b'{"a":1,"a":"zq7user"}'):
            path.write_bytes(changed)
            from ripieno.verify import verify

            said = json.dumps(verify(tmp_path / "copy").to_json()).encode()
            assert found(said) == [], path
        path.write_bytes(data)


# --- the workers' own doors ---------------------------------------------------------------------------------


def worker_environment(campaign: Mapping[str, Any]) -> dict[str, str]:
    import hashlib

    (replays,) = (campaign["out"] / "capture" / "lab").glob("inventory-*/replays.json")
    scope = campaign["out"] / "scopes" / "execution-lab.json"
    return {
        "AILAB_CAMPAIGN_REPLAYS": str(replays),
        "AILAB_CAMPAIGN_REPLAYS_SHA256": hashlib.sha256(replays.read_bytes()).hexdigest(),
        "AILAB_RETAIL_EXECUTION_SCOPE": str(scope),
        "AILAB_RETAIL_EXECUTION_SCOPE_SHA256": hashlib.sha256(scope.read_bytes()).hexdigest(),
    }


def requests(campaign: Mapping[str, Any]) -> list[bytes]:
    """A request that is answered, requests that are refused for what they are, and bytes that are no request."""
    (path,) = (campaign["out"] / "requests" / "lab" / "mine").glob("3.json")
    good = json.loads(path.read_text())
    (failing,) = (campaign["out"] / "requests" / "lab" / "mine").glob("1.json")
    changed = json.loads(path.read_text())
    changed["atomic_request"]["arms"][1]["payload"]["arm_id"] = SECRETS["fault"]
    return [
        json.dumps(good).encode(),
        failing.read_bytes(),
        json.dumps(changed).encode(),
        json.dumps({**good, SECRETS["fault"]: 1}).encode(),
        json.dumps({"protocol": SECRETS["fault"]}).encode(),
        f'{{"a": "{SECRETS["fault"]}", "a": 1}}'.encode(),
        SECRETS["fault"].encode(),
        b"\xff" + SECRETS["fault"].encode(),
    ]


@pytest.mark.parametrize("driver", ["driver", "retail_driver"])
def test_no_driver_says_a_secret(campaign: Mapping[str, Any], driver: str) -> None:
    codes: list[int] = []
    for request in requests(campaign):
        for options in ([], ["--explain"]) if driver == "retail_driver" else ([],):
            code, stdout, stderr = module(
                f"workers.official_arenas.{driver}", *options, feed=request, **worker_environment(campaign)
            )
            codes.append(code)
            assert found(stdout) == [], request[:80]
            assert found(stderr) == [], request[:80]
            assert b"Traceback" not in stderr
    assert 0 in codes
    assert set(codes) > {0}


def test_no_capture_command_says_a_secret(campaign: Mapping[str, Any], tmp_path: Path) -> None:
    scope = campaign["out"] / "scopes" / "capture-lab.json"
    bad = tmp_path / "scope.json"
    bad.write_text(json.dumps({SECRETS["fault"]: SECRETS["key"]}))
    import hashlib

    for path in (scope, bad):
        checksum = hashlib.sha256(path.read_bytes()).hexdigest()
        for arguments in ([path, checksum], ["--scope", path, "--scope-sha256", checksum], [path, SECRETS["fault"]]):
            _, stdout, stderr = module("workers.official_arenas.retail_capture", *arguments)
            if SECRETS["fault"] in map(str, arguments):
                stderr = stderr.replace(SECRETS["fault"].encode(), b"")  # argparse repeats an argument
            assert found(stdout + stderr) == []


# --- the toolkit's own doors --------------------------------------------------------------------------------


def test_no_toolkit_command_says_a_secret(tmp_path: Path, server: ChatServer) -> None:
    query, prompt = SECRETS["query"], SECRETS["prompt"]
    state = tmp_path / "state.json"
    states: list[dict[str, Any]] = [
        {"query": query, "instruction": prompt, "messages": [{"role": "user", "content": SECRETS["user"]}]},
        {"query": {"text": query}},
        {"query": query, "unknown": SECRETS["fault"]},
        {"query": query, "messages": [{"role": " ", "content": SECRETS["user"]}]},
        {"query": query, "messages": [SECRETS["user"]]},
        {"query": query, "context": [{"text": SECRETS["user"], "score": "high"}]},
        {"query": query, "budget": {"max_model_calls": "many"}},
        {"query": query, "tool_names": [1, SECRETS["fault"]]},
    ]
    model = ["--backend-url", server.base_url, "--model", "m", "--api-key-env", "OPENAI_API_KEY"]
    compose = ["agentinputlab", "compose", "plan.plan_and_solve.plan_call"]
    commands: list[list[object]] = [
        [*compose, "--query", query, "--instruction", prompt, *model],
        [*compose, "--query", query],
        [
            "agentinputlab",
            "compose",
            f"own.text:append_instruction={prompt}",
            "--query",
            query,
            "--out",
            tmp_path / "o",
        ],
        ["agentinputlab", "compose", f"own.text:{prompt}", "--query", query],
        ["agentinputlab", "selector", "features", "--query", query, "--instruction", prompt],
        ["agentinputlab", "selector", "features", "--query", query, "--json"],
        ["agentinputlab", "doctor", "--offline", "--json"],
        ["agentinputlab", "doctor", "--endpoint", server.base_url],
    ]
    for arguments in commands:
        code, stdout, stderr = module(*arguments, OPENAI_API_KEY=SECRETS["key"])
        assert code in {0, 1, 2}, stderr
        assert found(stdout + stderr) == [], arguments
    codes: list[int] = []
    for value in states:
        state.write_text(json.dumps(value))
        code, stdout, stderr = module(*compose, "--state", state, *model, OPENAI_API_KEY=SECRETS["key"])
        codes.append(code)
        assert found(stdout + stderr) == [], value
    assert (codes[0], set(codes[1:])) == (0, {2})


def test_a_model_server_says_nothing_of_what_it_was_asked(tmp_path: Path) -> None:
    import http.client

    rules = tmp_path / "rules.yaml"
    rules.write_text(f"rules: [{{when: {{any: '{SECRETS['user']}'}}, reply: '{SECRETS['reply']}'}}]\n")
    process = subprocess.Popen(
        [sys.executable, "-m", "agentinputlab", "serve-model", "--scripted", rules, "--token-env", "LAB_API_KEY"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(LAB_API_KEY=SECRETS["key"], PYTHONUNBUFFERED="1"),
    )
    assert process.stdout is not None
    first = process.stdout.readline()
    address = first.split(b"http://")[1].split(b"/")[0].decode()
    for token in (SECRETS["key"], SECRETS["fault"]):
        for body in (
            {"model": "m", "messages": [{"role": "user", "content": SECRETS["user"]}]},
            {"model": "m", "messages": SECRETS["user"], SECRETS["fault"]: 1},
            SECRETS["user"],
        ):
            connection = http.client.HTTPConnection(address, timeout=30)
            data = json.dumps(body).encode()
            headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
            connection.request("POST", "/v1/chat/completions", data, headers)
            connection.getresponse().read()
            connection.close()
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=60)
    assert found(first + stdout + stderr) == []


def test_the_toolkit_server_says_nothing_of_what_it_was_asked() -> None:
    import http.client

    process = subprocess.Popen(
        [sys.executable, "-c", "from agentinputlab.api import main; main()", "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(AGENTINPUTLAB_API_TOKEN=f"{SECRETS['key']}-{SECRETS['key']}", PYTHONUNBUFFERED="1"),
    )
    assert process.stdout is not None
    first = process.stdout.readline()
    address = first.split(b"http://")[1].split(b";")[0].decode()
    refusals = b""
    for state in ({"query": SECRETS["query"]}, {"query": {"a": SECRETS["query"]}}, SECRETS["query"]):
        for release in ("plan.plan_and_solve.ps_prompt", SECRETS["fault"]):
            connection = http.client.HTTPConnection(address, timeout=30)
            data = json.dumps({"release_id": release, "state": state}).encode()
            token = f"{SECRETS['key']}-{SECRETS['key']}"
            headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
            connection.request("POST", "/v1/interventions", data, headers)
            answer = connection.getresponse()
            body = answer.read()
            refusals += body if answer.status >= 400 else b""
            connection.close()
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=60)
    assert found(first + stdout + stderr) == []
    assert refusals
    assert found(refusals) == []
