"""The same three behind the chat API: a run over a socket comes out as one in this process."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import httpx
import pytest

from agentinputlab.backends.tokens import count_prompt_tokens
from workers.official_arenas import scripted_server
from workers.official_arenas.embedded.chat_models import prompt_tokens
from workers.official_arenas.embedded.guidance import render_system_message
from workers.official_arenas.embedded.tools import tool_schemas
from workers.official_arenas.protocol import normalized_trace_hash
from workers.official_arenas.providers._tau_judge import check_judge_answer
from workers.official_arenas.providers.embedded_retail import EmbeddedRetailProvider, default_config

PROVIDER = EmbeddedRetailProvider()


def plan(state: dict[str, Any]) -> None:
    state["instruction"] += "\n\nFirst make a plan."


@pytest.mark.parametrize("change", [None, plan], ids=["baseline", "plan"])
def test_http_gives_the_trajectories_and_rewards_of_this_process(play: Any, change: Any) -> None:
    with scripted_server.serve() as server:
        args = {"api_base": server.base_url}
        part = {"kind": "openai", "model": "scripted-retail", "args": args}
        config = PROVIDER.campaign_config(
            split="test",
            limit=None,
            agent={"backend": "openai", "model": "scripted-retail", "args": args},
            user=part,
            judge={**part, "args": {**args, "max_tokens": 2048}},
        )
        for task_id in PROVIDER.task_ids(config):
            over_http = play(task_id, change, config=config)
            here = play(task_id, change, config=default_config("test"))
            assert over_http.metrics == here.metrics
            assert over_http.trace == here.trace
            assert normalized_trace_hash(over_http.trace) == normalized_trace_hash(here.trace)
            assert {**over_http.usage, "unpriced_model_calls": 0} == here.usage


def test_cached_counts_are_the_counts_of_the_common_counter() -> None:
    messages = [
        {"role": "system", "content": render_system_message("Be kind.", ("a", "b"))},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "1", "type": "function", "function": {"name": "calculate", "arguments": '{"a": 1}'}}],
        },
        {"role": "tool", "content": "42.0", "tool_call_id": "1"},
    ]
    assert prompt_tokens(messages, offer_tools=True) == count_prompt_tokens(messages, tool_schemas())
    assert prompt_tokens(messages, offer_tools=False) == count_prompt_tokens(messages)


def post(url: str, system: str, *turns: str) -> httpx.Response:
    messages = [{"role": "system", "content": system}, *({"role": "user", "content": text} for text in turns)]
    return httpx.post(f"{url}/chat/completions", json={"model": "x", "messages": messages}, trust_env=False)


def test_prompts_of_a_foreign_runtime_are_told_apart() -> None:
    with scripted_server.serve() as server:
        agent = post(server.base_url, "<instructions>\nHelp.\n</instructions>", "I want to cancel order #W1234567.")
        assert "email" in agent.json()["choices"][0]["message"]["content"]
        customer = "# User Simulation Guidelines\n<scenario>\nReason for call: You want a refund.\n</scenario>"
        assert post(server.base_url, customer, "Hi!").json()["choices"][0]["message"]["content"] == "You want a refund."
        judge = post(server.base_url, "Decide the expectedOutcomes.", "- The agent is kind.")
        assert '"metExpectation": false' in judge.json()["choices"][0]["message"]["content"]
        stranger = post(server.base_url, "You are a poet.", "Write.")
        assert stranger.status_code == 400
        assert "poet" not in stranger.text


def test_judge_of_a_foreign_runtime_decides_what_its_request_ends_with() -> None:
    assertions = ["Agent's reply names 10 options.", 'Agent says "no".', "expected - twice"]
    system = "You will be given expected outcomes.\n- Grade each one.\n- Answer with JSON."
    request = f"conversation:\nuser: - a point. expectedOutcomes: ['x']\n\nexpectedOutcomes:\n{assertions}\n"
    with scripted_server.serve() as server:
        answer = post(server.base_url, system, request).json()["choices"][0]["message"]["content"]
        check_judge_answer(answer, assertions)
        for listed in ("[1, 2]", "[", "nothing", "(" * 5000):
            broken = post(server.base_url, system, f"expectedOutcomes:\n{listed}")
            assert '"expectedOutcome": "Grade each one."' in broken.json()["choices"][0]["message"]["content"]


def test_the_command_serves_until_it_is_stopped() -> None:
    command = [sys.executable, "-m", "workers.official_arenas.scripted_server", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        models = httpx.get(f"{url}/models", trust_env=False).json()
        process.terminate()
    assert models["data"][0]["id"] == "scripted-retail"
