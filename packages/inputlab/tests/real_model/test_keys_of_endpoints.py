"""A model on this machine is sent the key that was named for it, and no other that happens to be set."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from workers.official_arenas.campaign.plan import parse_plan
from workers.official_arenas.campaign.run import run_campaign

ANSWER = {
    "model": "m",
    "choices": [{"message": {"role": "assistant", "content": "1. Look the order up."}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 3, "completion_tokens": 6},
}


@pytest.fixture
def keys() -> Iterator[tuple[str, list[str | None]]]:
    """An endpoint, and the authorization of every request that it got."""
    seen: list[str | None] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            seen.append(self.headers["Authorization"])
            body = json.dumps(ANSWER).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Stay quiet."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/v1", seen
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(("named", "sent"), [(None, None), ("SHOP_KEY", "Bearer sk-of-the-shop")])
def test_agent_and_intervention_send_the_named_key_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keys: tuple[str, list[str | None]], named: str | None, sent: str
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-somebody-else")
    monkeypatch.setenv("SHOP_KEY", "sk-of-the-shop")
    url, seen = keys
    args = {"api_base": url, "max_tokens": 64, "temperature": 0, "seed": 17, "num_retries": 0, "timeout": 30.0}
    agent = {"backend": "openai", "model": "m", "args": args | ({"api_key_env": named} if named else {})}
    plan = parse_plan(
        {
            "split": "train",
            "tasks": 1,
            "treatments": ["plan.plan_and_solve.plan_call"],
            "slots": [{"name": "m", "agent": agent, "intervention_model": {"kind": "agent"}}],
            "budget_multiplier": 0.25,
            "durable": False,
        }
    )
    result = run_campaign(plan, tmp_path / "run", command=["test"], progress=False)
    assert result.rows[0]["intervention_status"] == "success"
    assert len(seen) == sum(result.rows[0][side]["usage"]["model_calls"] for side in ("baseline", "treated"))
    assert set(seen) == {sent}
