"""What a campaign ran on and who answered it is on record, bound by log and seal; older folders have neither."""

from __future__ import annotations

import http.server
import json
import platform
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from campaign_lab import lab_plan, run

from agentinputlab.backends.answered import noting_answers
from agentinputlab.backends.chat import ChatRefusalError, ChatReply
from agentinputlab.backends.llm import GenerationRequest, OpenAICompatibleBackend
from agentinputlab.model_server import ChatServer
from ripieno.chain import ChainWriter, walk_chain
from ripieno.verify import VerifyStatus, verify
from workers.official_arenas import scripted_server
from workers.official_arenas.campaign.folder import CampaignFolder, write_json
from workers.official_arenas.campaign.plan import CampaignPlan, parse_plan

PLAN_CALL = "plan.plan_and_solve.plan_call"


def begun_before(plan: CampaignPlan, out: Path) -> Path:
    """A folder as it was begun when there was no environment.json."""
    out.mkdir(mode=0o700)
    write_json(out / "command.json", {"argv": ["a command"]})
    write_json(out / "plan.json", plan.record())
    log = ChainWriter(out / "events.jsonl", "always")
    log.append({"event": "planned", "plan_hash": plan.plan_hash})
    log.abandon()
    return out


def test_versions_and_machine_are_written_sealed_and_on_the_page(tmp_path: Path) -> None:
    out = run(lab_plan(tmp_path), tmp_path / "out").folder
    environment = json.loads((out / "environment.json").read_text())
    assert environment["protocol"] == "agentinputlab.campaign-environment.v1"
    assert environment["versions"]["python"] == platform.python_version()
    assert {"ripieno-inputlab", "numpy", "lab-arena"} <= set(environment["versions"])
    assert environment["machine"]["system"] == platform.system()
    assert f'"{platform.node()}"' not in (out / "environment.json").read_text()
    assert "environment.json" in json.loads((out / "campaign.json").read_text())["files"]
    assert f"Python {platform.python_version()}" in (out / "index.html").read_text()


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (Path.unlink, "environment.json is missing"),
        (lambda path: path.write_text(path.read_text().replace("numpy", "numbat")), "environment.json is another one"),
    ],
    ids=["lost", "changed"],
)
def test_an_environment_that_the_log_names_must_be_there_before_the_end_too(
    tmp_path: Path, change: Callable[[Path], Any], problem: str
) -> None:
    out = tmp_path / "out"
    CampaignFolder.open(out, lab_plan(tmp_path), ["a command"]).release()
    assert verify(out).status is VerifyStatus.INTERRUPTED
    change(out / "environment.json")
    report = verify(out)
    assert report.status is VerifyStatus.TAMPERED
    assert problem in report.first_problem


def test_a_folder_that_was_begun_without_is_gone_on_with_and_verifies(tmp_path: Path) -> None:
    plan = lab_plan(tmp_path)
    out = begun_before(plan, tmp_path / "out")
    assert verify(out).status is VerifyStatus.INTERRUPTED
    run(plan, out)
    assert not (out / "environment.json").exists()
    assert verify(out).status is VerifyStatus.COMPLETE


def test_an_environment_that_the_log_does_not_know_is_found(tmp_path: Path) -> None:
    out = begun_before(lab_plan(tmp_path), tmp_path / "out")
    write_json(out / "environment.json", {"versions": {"python": "2.7"}})
    assert "environment.json was added" in verify(out).first_problem


# --- who answered -------------------------------------------------------------------------------------------


def endpoint_plan(server: ChatServer, *, treatments: list[Any], tasks: int = 1) -> CampaignPlan:
    args = {"api_base": server.base_url, "max_tokens": 256, "temperature": 0, "seed": 17, "num_retries": 0}
    agent = {"backend": "openai", "model": "small", "args": {**args, "timeout": 30.0}}
    slot = {"name": "small", "agent": agent, "intervention_model": {"kind": "agent"}}
    return parse_plan({"split": "train", "tasks": tasks, "treatments": treatments, "slots": [slot], "durable": False})


def answer_as(name: str) -> Callable[[dict[str, Any]], ChatReply]:
    def respond(body: dict[str, Any]) -> ChatReply:
        try:
            reply = scripted_server.respond(body)
        except ChatRefusalError:  # an intervention asks
            reply = ChatReply("1. Look at the order. 2. Answer.")
        return replace(reply, model=name)

    return respond


@pytest.fixture(scope="module")
def answered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    with ChatServer(answer_as("small-2026-01")) as server:
        return run(endpoint_plan(server, treatments=[PLAN_CALL]), tmp_path_factory.mktemp("answered") / "out").folder


def test_an_endpoint_s_own_name_is_kept_beside_every_arm_and_intervention(answered: Path) -> None:
    (pair,) = (answered / "pairs" / "small").glob("[0-9a-f]*")
    files = [pair / role / "answered-by.json" for role in ("baseline", "treatment")]
    files += list((answered / "requests" / "small" / PLAN_CALL).glob("*-answered-by.json"))
    rows = [json.loads(path.read_text())["answers"] for path in files]
    assert len(rows) == 3
    for row in rows:
        ((asked, named),) = [(item["asked_for"], item["model"]) for item in row]
        assert (asked, named) == ("small", "small-2026-01")
        assert all(item["count"] >= 1 and item["system_fingerprint"] is None for item in row)
    assert "small-2026-01, asked for as small" in (answered / "index.html").read_text()
    assert verify(answered).status is VerifyStatus.COMPLETE


def test_another_name_for_who_answered_an_intervention_is_found_without_the_seal(
    answered: Path, tmp_path: Path
) -> None:
    out = shutil.copytree(answered, tmp_path / "out")
    (out / "campaign.json").unlink()
    payloads = [dict(entry.payload) for entry in walk_chain(out / "events.jsonl") if not entry.closing]
    (out / "events.jsonl").unlink()
    log = ChainWriter(out / "events.jsonl")
    for payload in payloads:
        log.append(payload)
    log.abandon()
    assert verify(out).ok
    (kept,) = (out / "requests" / "small" / PLAN_CALL).glob("*-answered-by.json")
    kept.write_text(kept.read_text().replace("small-2026-01", "large-2026-01"))
    assert "who answered the interventions" in verify(out).first_problem


def test_who_answered_is_known_of_an_arm_that_failed(tmp_path: Path) -> None:
    answer, asked = answer_as("small-2026-01"), iter(range(10**6))

    def respond(body: dict[str, Any]) -> ChatReply:
        if next(asked) >= 2:
            raise ChatRefusalError("no more", status=503)
        return answer(body)

    with ChatServer(respond) as server:
        result = run(endpoint_plan(server, treatments=["plan.plan_and_solve.ps_prompt"]), tmp_path / "out")
    assert [row["status"] for row in result.rows] == ["arm_failed"]
    (kept,) = (result.folder / "pairs").rglob("answered-by.json")
    assert json.loads(kept.read_text())["answers"][0]["count"] == 2
    assert verify(result.folder).status is VerifyStatus.COMPLETE


def test_a_campaign_that_asks_nobody_has_no_such_file(tmp_path: Path) -> None:
    out = run(lab_plan(tmp_path), tmp_path / "out").folder
    assert not list(out.rglob("*answered-by.json"))


@contextmanager
def endpoint(answer: bytes) -> Iterator[str]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None: ...

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize(
    ("fields", "model", "fingerprint"),
    [
        ({"model": "m-2", "system_fingerprint": "fp_1"}, "m-2", "fp_1"),
        ({"model": "m-2", "system_fingerprint": 7}, "m-2", None),
        ({"model": "a\nb" * 200, "system_fingerprint": None}, ("a?b" * 200)[:200], None),
        ({}, None, None),
    ],
    ids=["both", "no text", "long", "none"],
)
def test_what_an_endpoint_calls_itself_is_noted_as_one_printable_line(
    fields: dict[str, Any], model: str | None, fingerprint: str | None
) -> None:
    choice = {"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}
    body = {"choices": [choice], "usage": {"prompt_tokens": 1, "completion_tokens": 1}, **fields}
    with endpoint(json.dumps(body).encode()) as base, noting_answers() as noted:
        OpenAICompatibleBackend("m", base, {"revision": "1"}).generate(GenerationRequest(prompt="hello"))
    row = {"asked_for": "m", "model": model, "system_fingerprint": fingerprint, "count": 1}
    assert noted.record()["answers"] == [row]
