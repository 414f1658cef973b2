"""``agentinputlab serve-model`` as a process."""

import json
import os
import signal
import socket
import subprocess
import sys

import httpx
import pytest

from agentinputlab.backends.recorded import body_hash, load_recording
from agentinputlab.contracts import ValidationError

HELLO = {"model": "m", "messages": [{"role": "user", "content": "my secret question"}]}


class Served:
    """The running command."""

    def __init__(self, *arguments, **environment):
        self.process = subprocess.Popen(
            [sys.executable, "-m", "agentinputlab", "serve-model", *map(str, arguments)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ | environment,
        )  # fmt: skip
        self.first_line = self.process.stdout.readline()

    def ask(self, base_url, **headers):
        return httpx.post(f"{base_url}/chat/completions", json=HELLO, headers=headers, trust_env=False)

    def end(self, number=signal.SIGINT):
        self.process.send_signal(number)
        out, err = self.process.communicate(timeout=20)
        return self.process.returncode, out, err


@pytest.fixture
def rules(tmp_path):
    path = tmp_path / "rules.yaml"
    path.write_text("model: shop\nrules:\n  - {when: {last_user: secret}, reply: my secret answer}\n")
    return path


def test_ctrl_c_ends_the_server_with_one_line_of_counts_and_no_content(rules):
    served = Served("--scripted", rules)
    base_url = served.first_line.split()[3]
    assert served.first_line.startswith("shop answers at http://127.0.0.1:")
    assert served.ask(base_url).json()["choices"][0]["message"]["content"] == "my secret answer"
    code, out, err = served.end()
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "1 requests: 1 answered, 0 refused, 0 injected faults, 0 failed; 3 tokens read, 3 written."
    ]


def test_json_output_and_the_token_of_an_environment_variable(rules):
    served = Served("--scripted", rules, "--json", "--token-env", "MY_TOKEN", MY_TOKEN="open-sesame")
    ready = json.loads(served.first_line)
    assert ready["model"] == "shop"
    assert served.ask(ready["base_url"]).status_code == 401
    assert served.ask(ready["base_url"], Authorization="Bearer open-sesame").status_code == 200
    code, out, err = served.end(signal.SIGTERM)
    assert json.loads(out)["answered"] == 1
    assert (code, "secret" in out + err, "sesame" in served.first_line + out + err) == (0, False, False)


def test_recorded_answers_are_served_in_order(tmp_path):
    path = tmp_path / "recording.json"
    rows = [
        {"text": "first", "input_tokens": 11, "output_tokens": 7, "request_hash": body_hash(HELLO)},
        {"tool_calls": [{"name": "f", "arguments": {"a": 1}, "id": "c1"}]},
        {"text": "third", "request_hash": "0" * 64},
    ]
    path.write_text(json.dumps({"model": "tape", "responses": rows}))
    served = Served("--replay", path, "--json")
    base_url = json.loads(served.first_line)["base_url"]
    first, second, third = (served.ask(base_url) for _ in range(3))
    served.end()
    assert first.json()["usage"]["total_tokens"] == 18
    assert second.json()["choices"][0]["message"]["tool_calls"][0]["id"] == "c1"
    assert (third.status_code, third.json()["error"]["code"]) == (409, "recording_differs")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "exactly one of"),
        (["--scripted", "a", "--replay", "b"], "exactly one of"),
        (["--scripted", "a", "--gguf", "b"], "--gguf needs --smollm2"),
        (["--scripted", "absent.yaml"], "absent.yaml"),
        (["--scripted", "a", "--token-env", "NO_SUCH_VARIABLE"], "NO_SUCH_VARIABLE"),
        (["--smollm2", "--gguf", "absent.gguf"], "absent.gguf"),
        (["--scripted", "a", "--port", "70000"], "70000"),
    ],
)
def test_wrong_input_is_one_line_and_exit_code_2(tmp_path, arguments, said):
    done = subprocess.run(
        [sys.executable, "-m", "agentinputlab", "serve-model", *arguments],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_port_that_is_taken_is_named(rules):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = subprocess.run(
            [sys.executable, "-m", "agentinputlab", "serve-model", "--scripted", rules, "--port", str(port)],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == 2
    assert f"Cannot listen on port {port}: Address already in use. Choose another --port." in done.stderr


@pytest.mark.parametrize(
    ("row", "place"),
    [
        ({}, r"responses\[0\] must have text or tool_calls"),
        ({"text": 1}, r"responses\[0\].text"),
        ({"text": "x", "input_tokens": -1}, r"responses\[0\].input_tokens"),
        ({"text": "x", "request_hash": "abc"}, r"responses\[0\].request_hash"),
        ({"text": "x", "finish_reason": "bored"}, r"responses\[0\]"),
        ({"tool_calls": [{}]}, r"responses\[0\].tool_calls\[0\]"),
        ({"text": "x", "colour": 1}, "colour"),
    ],
)
def test_a_wrong_recording_is_named_by_its_place(tmp_path, row, place):
    path = tmp_path / "tape.json"
    path.write_text(json.dumps({"responses": [row]}))
    with pytest.raises(ValidationError, match=place):
        load_recording(path)
