"""Endpoints that refuse us: said before a first attempt is used up, and with their HTTP status afterwards."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from campaign_lab import TREATMENT, invoke

from agentinputlab.backends.chat import ChatRefusalError, ChatReply
from agentinputlab.model_server import ChatServer
from workers.official_arenas import scripted_server
from workers.official_arenas.campaign.plan import CampaignPlan, parse_plan
from workers.official_arenas.campaign.preflight import preflight, silent_endpoints
from workers.official_arenas.campaign.run import run_campaign
from workers.official_arenas.protocol import OfficialArenaError

KEY = "sk-of-the-shop"


def plan_of(base: str, *, treatment: str = TREATMENT, **args: Any) -> CampaignPlan:
    args = {"api_base": base, "temperature": 0, "seed": 17, "num_retries": 0, "max_tokens": 64, "timeout": 30.0, **args}
    slot = {"name": "small", "agent": {"backend": "openai", "model": "m", "args": args}}
    slot["intervention_model"] = {"kind": "agent"}
    return parse_plan({"split": "train", "tasks": 1, "treatments": [treatment], "slots": [slot], "durable": False})


@pytest.fixture
def locked() -> Iterator[ChatServer]:
    """A server that wants a key."""
    with ChatServer(scripted_server.respond, token=KEY) as server:
        yield server


@pytest.fixture
def listing(request: pytest.FixtureRequest) -> Iterator[str]:
    """An endpoint that answers a question for its models with one status."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(request.param)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Stay quiet."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def retail_run(out: Path, url: str, *more: object) -> Any:
    words = ["retail", "run", "--treatment", TREATMENT, "--tasks", "1", "--split", "train", "--no-fsync", "--out", out]
    return invoke(*words, "--model-url", url, "--model", "m", *more)


# --- before anything is spent -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("sk-of-somebody-else", "refused the key (HTTP status 401)"),
        (None, "names the variable SHOP_KEY, which is not set or empty"),
        ("", "names the variable SHOP_KEY, which is not set or empty"),
        ("two words", "the key in SHOP_KEY must be a string of visible ASCII characters"),
    ],
)
def test_a_key_that_does_not_open_the_endpoint_uses_up_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, locked: ChatServer, value: str | None, reason: str
) -> None:
    monkeypatch.delenv("SHOP_KEY", raising=False)
    if value is not None:
        monkeypatch.setenv("SHOP_KEY", value)
    done = retail_run(tmp_path / "out", locked.base_url, "--api-key-env", "SHOP_KEY", "--execute")
    assert done.exit_code == 2
    assert reason in done.stderr.splitlines()[-1]
    assert not value or value not in done.output
    assert not (tmp_path / "out/capture").exists()
    assert locked.counts.requests == 0


def test_an_endpoint_that_wants_a_key_is_not_asked_without_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, locked: ChatServer
) -> None:
    monkeypatch.setenv("SHOP_KEY", KEY)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    done = retail_run(tmp_path / "out", locked.base_url, "--execute")
    assert done.exit_code == 2
    assert "refused a call without a key (HTTP status 401)" in done.stderr
    assert "--api-key-env" in done.stderr
    assert not (tmp_path / "out/capture").exists()
    played = retail_run(tmp_path / "out2", locked.base_url, "--api-key-env", "SHOP_KEY", "--execute")
    assert played.exit_code == 0, played.stderr


def test_a_key_that_is_missing_is_said_with_the_cost_and_not_of_a_complete_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, locked: ChatServer
) -> None:
    options = ("--api-key-env", "SHOP_KEY")
    monkeypatch.delenv("SHOP_KEY", raising=False)
    shown = retail_run(tmp_path / "out", locked.base_url, *options)
    assert shown.exit_code == 0
    assert "Needed to start: slot m: api_key_env names the variable SHOP_KEY" in shown.stderr
    monkeypatch.setenv("SHOP_KEY", KEY)
    assert retail_run(tmp_path / "out", locked.base_url, *options, "--execute").exit_code == 0
    monkeypatch.delenv("SHOP_KEY")
    again = retail_run(tmp_path / "out", locked.base_url, *options, "--execute")
    assert (again.exit_code, "nothing was run again" in again.stdout) == (0, True)


def test_the_doctor_of_a_plan_says_which_key_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SHOP_KEY", raising=False)
    args = {"api_base": "http://127.0.0.1:9/v1", "api_key_env": "SHOP_KEY"}
    agent = {"backend": "openai", "model": "m", "args": args}
    plan = {"arena": "embedded", "tasks": 1, "treatments": [TREATMENT], "slots": [{"name": "local", "agent": agent}]}
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    done = invoke("campaign", "doctor", tmp_path / "plan.json")
    assert done.exit_code == 0
    assert "Needed to start: slot local: api_key_env names the variable SHOP_KEY" in done.stderr


def test_a_key_that_was_typed_in_place_of_its_variable_is_not_repeated() -> None:
    (problem,) = silent_endpoints(plan_of("http://127.0.0.1:9/v1", api_key_env=KEY))
    assert "not set or empty" in problem
    assert KEY not in problem


def test_the_arena_that_sends_a_key_of_its_own_is_asked_about_with_that_key(
    monkeypatch: pytest.MonkeyPatch, locked: ChatServer
) -> None:
    plan = plan_of(locked.base_url).model_copy(update={"arena": "tau3.retail"})
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    assert silent_endpoints(plan) == []
    monkeypatch.delenv("OPENAI_API_KEY")
    assert "without a key (HTTP status 401)" in silent_endpoints(plan)[0]


def test_an_address_without_v1_is_mended_where_that_is_sure(tmp_path: Path) -> None:
    with ChatServer(scripted_server.respond) as server:
        base = server.base_url.removesuffix("/v1")
        with pytest.raises(OfficialArenaError, match=f"not at {base} but at {base}/v1: give that address"):
            run_campaign(plan_of(f"{base}/"), tmp_path / "out", command=["test"])
        assert server.counts.requests == 0
    assert not (tmp_path / "out/capture").exists()


@pytest.mark.parametrize("listing", [200, 307, 404, 405, 500, 501, 503], indirect=True)
@pytest.mark.parametrize("path", ["", "/v1"])
def test_a_server_that_only_does_not_list_its_models_is_taken_as_it_is(listing: str, path: str) -> None:
    assert silent_endpoints(plan_of(f"{listing}{path}")) == []


@pytest.mark.parametrize(
    ("listing", "reason"),
    [(400, "HTTP status 400"), (402, "HTTP status 402"), (403, "without a key (HTTP status 403)"), (429, "429")],
    indirect=["listing"],
)
def test_a_server_that_refuses_the_question_is_not_asked_another(listing: str, reason: str) -> None:
    (problem,) = silent_endpoints(plan_of(f"{listing}/v1"))
    assert problem.startswith("slot small: the agent's endpoint refused")
    assert reason in problem


@pytest.mark.parametrize("ending", ["/chat/completions", "/completions", "/models", "/chat/completions/"])
def test_an_address_that_ends_too_late_blocks_and_the_right_one_is_named(tmp_path: Path, ending: str) -> None:
    done = retail_run(tmp_path / "out", f"http://127.0.0.1:9/v1{ending}", "--execute")
    assert done.exit_code == 2
    assert "ends where /chat/completions begins: give http://127.0.0.1:9/v1\n" in done.stderr
    assert not (tmp_path / "out").exists()
    assert preflight(plan_of("http://127.0.0.1:9/v1")).is_ready


# --- afterwards ---------------------------------------------------------------------------------------------


def test_the_status_of_refused_calls_is_in_summary_and_page_and_nothing_else_of_the_server(tmp_path: Path) -> None:
    def respond(_: dict[str, Any]) -> ChatReply:
        raise ChatRefusalError("only for subscribers", status=402)

    with ChatServer(respond) as server:
        done = retail_run(tmp_path / "out", server.base_url, "--execute")
    assert done.exit_code == 3
    assert "1 x arm_failed (ModelEndpointError)" in done.stdout
    assert "The endpoint of slot m refused calls: HTTP status 402 (2 sides)." in done.stdout
    assert "HTTP status 402 (2 sides)" in (tmp_path / "out/index.html").read_text()
    assert "subscribers" not in done.output
    assert all(b"subscribers" not in path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file())
    row = json.loads((tmp_path / "out/results.json").read_text())[0]
    assert row["failure"] == "ModelEndpointError, ModelEndpointError"


def test_the_status_is_said_of_an_intervention_whose_call_was_refused(tmp_path: Path) -> None:
    calls: list[int] = []

    def respond(body: dict[str, Any]) -> ChatReply:
        calls.append(1)
        if len(calls) == 1:
            raise ChatRefusalError("no", status=429)
        return scripted_server.respond(body)

    with ChatServer(respond) as server:
        plan = plan_of(server.base_url, treatment="plan.plan_and_solve.plan_call")
        result = run_campaign(plan, tmp_path / "out", command=["test"], progress=False)
    assert result.rows[0]["intervention_status"] == "failed"
    assert "HTTP status 429 (1 side)" in (tmp_path / "out/index.html").read_text()


def test_a_stop_names_the_status(tmp_path: Path) -> None:
    def respond(_: dict[str, Any]) -> ChatReply:
        raise ChatRefusalError("no", status=404)

    with ChatServer(respond) as server:
        plan = plan_of(server.base_url).model_copy(update={"tasks": 3})
        with pytest.raises(OfficialArenaError, match=r"\(last: ModelEndpointError with HTTP status 404\)"):
            run_campaign(plan, tmp_path / "out", command=["test"], progress=False, stop_after_failures=1)


# --- interventions that cannot be run -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "reason"),
    [("rules: [{reply: other}]\n", "Rules of slot scripted were changed since the plan was made"), (None, None)],
)
def test_why_interventions_could_not_be_run_is_said_where_the_sentence_is_ours(
    tmp_path: Path, text: str | None, reason: str | None
) -> None:
    rules = tmp_path / "private-rules.yaml"
    rules.write_text("rules: [{reply: one}]\n")
    slot = {"intervention_model": {"kind": "rules", "rules": str(rules)}}
    plan = parse_plan(
        {"split": "train", "tasks": 1, "treatments": ["plan.plan_and_solve.plan_call"], "slots": [slot]}
        | {"durable": False}
    )

    def note(said: str) -> None:
        if said.startswith("Running the interventions"):
            rules.unlink()
            if text is not None:
                rules.write_text(text)

    with pytest.raises(OfficialArenaError, match="1 interventions could not be run") as found:
        run_campaign(plan, tmp_path / "out", command=["test"], progress=False, note=note)
    if reason is None:
        assert str(found.value).endswith(": FileNotFoundError")
        assert "private" not in str(found.value)
    else:
        assert str(found.value).endswith(f"OfficialArenaError: {reason}")
