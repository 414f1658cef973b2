"""Arms: every cap bites, every bad end has its name, and everything is written down before and after."""

from __future__ import annotations

import copy
import json
import stat
from typing import Any

import pytest

from agentinputlab.backends.chat import ChatRefusalError, ChatReply, ToolCall
from agentinputlab.model_server import ChatServer
from workers.official_arenas._trace_measurement import safe_trace_measurement
from workers.official_arenas.embedded.errors import ContextWindowExceededError, JudgeError
from workers.official_arenas.protocol import OfficialArenaError, content_hash, standard_shared_budget
from workers.official_arenas.providers.embedded_retail import EmbeddedRetailProvider, default_config

PROVIDER = EmbeddedRetailProvider()


def with_budget(**caps: int) -> dict[str, Any]:
    return PROVIDER.campaign_config(split="train", limit=16, budget={**standard_shared_budget(), **caps})


def with_model(base_url: str, **fields: Any) -> dict[str, Any]:
    args = {"api_base": base_url, **fields}
    return PROVIDER.campaign_config(
        split="train", limit=16, agent={"backend": "openai", "model": "scripted", "args": args}
    )


def scripted_model(*replies: ChatReply) -> Any:
    """A server that gives these answers one after the other, then the last one for ever."""
    state = {"call": 0}

    def respond(_: dict[str, Any]) -> ChatReply:
        state["call"] += 1
        return replies[min(state["call"], len(replies)) - 1]

    return ChatServer(respond)


# --- budgets ------------------------------------------------------------------------------------------------


def test_no_generation_beyond_the_cap_on_model_calls(play: Any) -> None:
    result = play("0", config=with_budget(max_model_calls=4))
    assert result.usage["model_calls"] == 4
    assert (result.trace["termination"], result.trace["hard_stops"]) == ("agent_stop", 1)
    assert result.metrics["terminal_success"] == 0.0
    assert "###STOP###" in result.trace["messages"][-1]["content"]


def test_success_needs_no_more_than_its_calls(play: Any) -> None:
    result = play("0", config=with_budget(max_model_calls=5))
    assert (result.usage["model_calls"], result.metrics["terminal_success"]) == (5, 1.0)
    assert result.metrics["adapter_hard_stops"] == 0.0


def test_tool_calls_beyond_their_cap_are_not_executed(play: Any) -> None:
    result = play("0", config=with_budget(max_tool_calls=2))
    assert result.usage["tool_calls"] == 2
    assert result.trace["discarded_tool_calls"] == 1
    assert result.metrics["terminal_success"] == 0.0
    names = [call["name"] for row in result.trace["messages"] for call in row["tool_calls"] or ()]
    assert "cancel_pending_order" not in names


def test_a_cap_of_zero_tool_calls_means_none(play: Any) -> None:
    result = play("0", config=with_budget(max_tool_calls=0))
    assert result.usage["tool_calls"] == 0
    assert result.trace["hard_stops"] == 1


def test_input_tokens_are_counted_before_a_call(play: Any) -> None:
    first = play("0").trace["messages"][2]["usage"]["input_tokens"]
    result = play("0", config=with_budget(max_context_tokens=first + 10))
    assert (result.usage["model_calls"], result.usage["input_tokens"]) == (1, first)
    assert result.trace["hard_stops"] == 1


def test_output_tokens_are_cut_off_and_then_stop_the_agent(play: Any) -> None:
    result = play("0", config=with_budget(max_output_tokens=40, max_output_tokens_per_call=40))
    assert result.usage["output_tokens"] <= 40
    assert result.metrics["terminal_success"] == 0.0


def test_what_an_intervention_spent_is_not_there_any_more(play: Any) -> None:
    result = play("0", usage={"model_calls": 6, "output_tokens": 10})
    assert result.usage["model_calls"] == 2
    assert result.trace["hard_stops"] == 1


@pytest.mark.parametrize("usage", [{"model_calls": 8}, {"output_tokens": 4096}, {"input_tokens": 262144}])
def test_a_spent_budget_is_a_terminal_zero_without_a_generation(play: Any, usage: dict[str, int]) -> None:
    result = play("0", usage=usage)
    assert result.metrics == {
        "official_reward": 0.0, "terminal_success": 0.0, "cost": 0.0, "adapter_hard_stops": 1.0,
    }  # fmt: skip
    assert result.trace["termination"] == "shared_budget_exhausted_before_agent"
    assert result.usage["model_calls"] == 0
    zero = json.loads((play.folders[-1] / "terminal-zero.json").read_bytes())
    assert zero["score_provenance"] == "predeclared_terminal_zero_not_fabricated_official_reward"
    assert zero["environment_usage"]["model_calls"] == 0


def test_the_configured_step_limit_counts_too(play: Any) -> None:
    result = play("0", config={**default_config("train"), "max_steps": 4})
    assert result.trace["termination"] == "max_steps"
    assert result.metrics["official_reward"] == 0.0


# --- bad ends -----------------------------------------------------------------------------------------------


def call(name: str, arguments: str) -> ChatReply:
    return ChatReply(tool_calls=(ToolCall(name, arguments),))


@pytest.mark.parametrize("arguments", ["{not json", "[1]", '"text"', '{"a": NaN}', '{"a": 1, "a": 2}'])
def test_arguments_that_are_no_json_object_end_as_malformed(play: Any, arguments: str) -> None:
    with scripted_model(call("get_order_details", arguments)) as server:
        result = play("0", config=with_model(server.base_url))
    assert result.trace["termination"] == "malformed_generated_trajectory"
    assert result.metrics["adapter_hard_stops"] == 1.0
    assert result.usage["model_calls"] == 1, "the call that was malformed was paid for"


def test_an_empty_message_ends_as_malformed(play: Any) -> None:
    with scripted_model(ChatReply("  ")) as server:
        result = play("0", config=with_model(server.base_url))
    assert result.trace["termination"] == "malformed_generated_trajectory"


def test_wrong_arguments_are_errors_for_the_agent_until_there_are_too_many(play: Any) -> None:
    with scripted_model(call("get_order_details", '{"order": "#W1"}')) as server:
        result = play("0", config={**with_model(server.base_url), "max_errors": 3})
    assert result.trace["termination"] == "too_many_errors"
    assert [row["error"] for row in result.trace["messages"] if row["role"] == "tool"] == [True] * 3


def test_an_endpoint_that_is_too_slow_ends_as_timeout(play: Any) -> None:
    with scripted_model(ChatReply("Hello", delay_seconds=5)) as server:
        result = play("0", config={**with_model(server.base_url), "timeout": 0.2})
    assert result.trace["termination"] == "episode_timeout"
    assert result.metrics["official_reward"] == 0.0


def test_an_endpoint_that_fails_is_no_zero_but_an_error(play: Any) -> None:
    with scripted_model(ChatReply("x")) as server:
        config = with_model(server.base_url)
    with pytest.raises(OfficialArenaError) as refused:
        play("0", config=config)
    assert "127.0.0.1" not in str(refused.value)
    assert {path.name for path in play.folders[-1].iterdir()} == {"attempt-start.json", "interrupted-trajectory.json"}


def test_a_babbling_model_is_met_with_patience_that_ends(play: Any) -> None:
    with scripted_model(ChatReply("Lovely weather for a walk by the sea.")) as server:
        result = play("0", config=with_model(server.base_url))
    assert result.trace["termination"] == "user_stop"
    assert result.metrics["terminal_success"] == 0.0
    assert result.usage["unpriced_model_calls"] == result.usage["model_calls"] > 1


def test_an_agent_that_writes_a_stop_token_is_answered_by_the_customer(play: Any) -> None:
    with scripted_model(ChatReply("You may write ###STOP### when you are done.")) as server:
        result = play("0", config=with_model(server.base_url))
    assert result.trace["termination"] == "user_stop"
    assert result.metrics["adapter_hard_stops"] == 0.0


@pytest.mark.parametrize("reply", [ChatReply("  "), ChatReply("yes"), ChatReply('{"results": []}')])
def test_a_judge_without_a_covering_answer_fails_the_arm(play: Any, reply: ChatReply) -> None:
    with scripted_model(reply) as server:
        judge = {"kind": "openai", "model": "scripted", "args": {"api_base": server.base_url}}
        config = PROVIDER.campaign_config(split="train", limit=16, judge=judge)
        with pytest.raises(JudgeError):
            play("4", config=config)
        assert play("0", config=config).metrics["official_reward"] == 1.0, "no assertion, no question"


def test_an_empty_message_of_the_customer_ends_as_malformed(play: Any) -> None:
    with scripted_model(ChatReply("I want to cancel my order."), ChatReply(" ")) as server:
        user = {"kind": "openai", "model": "scripted", "args": {"api_base": server.base_url}}
        result = play("0", config=PROVIDER.campaign_config(split="train", limit=16, user=user))
    assert result.trace["termination"] == "malformed_generated_trajectory"
    assert result.trace["messages"][1]["content"] == "I want to cancel my order."


# --- evidence -----------------------------------------------------------------------------------------------


def test_an_arm_leaves_private_files_and_a_trace_without_a_clock(play: Any) -> None:
    result = play("0")
    folder = play.folders[-1]
    assert {path.name for path in folder.iterdir()} == {"attempt-start.json", "simulation.json"}
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in folder.iterdir())
    for row in result.trace["messages"]:
        assert {"role", "content", "tool_calls", "tool_call_id", "usage", "turn"} <= set(row)
        assert not {"timestamp", "duration_ms"} & set(row)
    simulation = json.loads((folder / "simulation.json").read_bytes())
    assert simulation["environment_model_policy"] == "scripted-user-and-predicate-judge.v1"
    assert simulation["environment_usage"]["model_calls"] == 2
    measured = safe_trace_measurement(result.trace)
    assert measured["termination"] == "user_stop"
    assert measured["first_potentially_irreversible_call"]["succeeded"] is True


def test_a_started_attempt_is_never_started_again(play: Any) -> None:
    config = default_config("train")
    record, _ = PROVIDER._first_turn(config, "0")
    play("0")
    with pytest.raises(FileExistsError):
        PROVIDER.run_arm(
            config,
            replay_record=record,
            arm_payload=play.payload_of(record["visible_state"]),
            seed=17,
            role="baseline",
            work_dir=play.folders[-1],
            durable=False,
        )


@pytest.mark.parametrize(
    "change",
    [
        lambda row: row["protected"].update(task_id="1"),
        lambda row: row["protected"].update(capture_seed=18),
        lambda row: row["protected"].update(locked_dependency_hashes={"agent_model": "0" * 64}),
        lambda row: row["protected"].update(initial_message_history=[]),
    ],
)
def test_another_origin_is_refused_before_anything_is_written(tmp_path: Any, change: Any) -> None:
    config = default_config("train")
    record = copy.deepcopy(PROVIDER._first_turn(config, "0")[0])
    change(record)
    with pytest.raises(OfficialArenaError):
        PROVIDER.run_arm(
            config,
            replay_record=record,
            arm_payload={},
            seed=17,
            role="baseline",
            work_dir=tmp_path,
            durable=False,
        )
    assert not list(tmp_path.iterdir())


def test_first_turn_is_one_generation_and_hides_the_task() -> None:
    record, usage = PROVIDER._first_turn(default_config("train"), "14")
    assert set(record) == {"checkpoint_id", "group_key", "visible_state", "eligible_families", "protected"}
    assert usage is not None
    visible = json.dumps(record["visible_state"])
    assert "slate" not in visible
    assert record["visible_state"]["query"] == record["protected"]["initial_message_history"][1]["content"]
    assert record["visible_state"]["metadata"]["benchmark_id"] == "embedded.retail"
    assert [block["block_id"] for block in record["visible_state"]["context"]] == [
        "official_policy",
        "official_tool_catalog",
    ]
    assert content_hash(record) == content_hash(PROVIDER._first_turn(default_config("train"), "14")[0])


# --- config -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"task_set_name": "retail"}, "task_set_name"),
        ({"task_split_name": "all"}, "task_split_name"),
        ({"limit": 0}, "limit"),
        ({"limit": 17}, "limit"),
        ({"limit": True}, "limit"),
        ({"capture_seed": 18}, "capture_seed"),
        ({"agent": {"backend": "scripted", "model": "gpt", "args": {}}}, "agent"),
        ({"agent": {"backend": "other", "model": "x", "args": {}}}, "backend"),
        ({"agent": {"backend": "openai", "model": "x", "args": {}}}, "args"),
        ({"user": {"kind": "human"}}, "user"),
        ({"judge": {"kind": "predicate", "model": "x"}}, "judge"),
        ({"max_steps": 0}, "max_steps"),
        ({"max_errors": 1.5}, "max_errors"),
        ({"timeout": float("inf")}, "timeout"),
        ({"data_dir": "relative"}, "data_dir"),
        ({"data_dir": "/does/not/exist"}, "db.json"),
        ({"locked_dependency_hashes": {"scorer": "0" * 64}}, "locks"),
        ({"budget_override": None}, "budget_override"),
        ({"surprise": 1}, "unknown"),
    ],
)
def test_a_wrong_field_of_the_config_is_named(change: dict[str, Any], named: str) -> None:
    with pytest.raises(OfficialArenaError, match=named):
        PROVIDER._validate_config({**default_config("train"), **change})


@pytest.mark.parametrize(
    ("args", "named"),
    [
        ({"api_base": "http://example.com/v1"}, "api_base"),
        ({"api_base": "http://user:pw@127.0.0.1/v1"}, "api_base"),
        ({"api_base": "http://127.0.0.1:1/v1", "temperature": 0.7}, "temperature"),
        ({"api_base": "http://127.0.0.1:1/v1", "seed": 18}, "seed"),
        ({"api_base": "http://127.0.0.1:1/v1", "num_retries": 1}, "num_retries"),
        ({"api_base": "http://127.0.0.1:1/v1", "max_tokens": 513}, "max_tokens"),
        ({"api_base": "http://127.0.0.1:1/v1", "timeout": 0}, "timeout"),
        ({"api_base": "http://127.0.0.1:1/v1", "api_key": "secret"}, "unknown"),
        ({"api_base": "http://127.0.0.1:1/v1", "api_key_env": ""}, "api_key_env"),
    ],
)
def test_model_endpoints_are_on_this_machine_and_asked_once(args: dict[str, Any], named: str) -> None:
    with pytest.raises(OfficialArenaError, match=named) as refused:
        PROVIDER.campaign_config(split="test", limit=1, agent={"backend": "openai", "model": "m", "args": args})
    assert "secret" not in str(refused.value)
    assert "pw" not in str(refused.value)


def test_tasks_of_others_need_models_for_customer_and_judge(tmp_path: Any) -> None:
    from workers.official_arenas.embedded.arena import DATA_ROOT

    tasks = json.loads((DATA_ROOT / "tasks.json").read_bytes())
    plain = [{key: value for key, value in task.items() if key != "embedded"} for task in tasks]
    (tmp_path / "tasks.json").write_text(json.dumps(plain))
    for name in ("db.json", "split_tasks.json"):
        (tmp_path / name).write_bytes((DATA_ROOT / name).read_bytes())
    (tmp_path / "policy.md").write_text("Be kind.")
    model = {"kind": "openai", "model": "m", "args": {"api_base": "http://127.0.0.1:1/v1"}}
    with pytest.raises(OfficialArenaError, match="user"):
        PROVIDER.campaign_config(split="train", limit=16, data_dir=str(tmp_path))
    with pytest.raises(OfficialArenaError, match="judge"):
        PROVIDER.campaign_config(split="train", limit=16, data_dir=str(tmp_path), user=model)
    config = PROVIDER.campaign_config(split="train", limit=16, data_dir=str(tmp_path), user=model, judge=model)
    assert PROVIDER.doctor(config) == ()
    assert PROVIDER.environment_calls_bound(config) == (9, 1)
    (tmp_path / "policy.md").write_text("Be rude.")
    assert "retail_data" in PROVIDER.doctor(config)[0]


def test_locks_that_are_not_those_of_this_installation_stop_the_doctor() -> None:
    config = default_config("test")
    config["locked_dependency_hashes"] = {**config["locked_dependency_hashes"], "scorer": "0" * 64}
    assert "scorer" in PROVIDER.doctor(config)[0]
    assert PROVIDER.environment_calls_bound(default_config("test")) == (0, 0)


def test_the_source_closure_holds_every_module_and_data_file_of_the_arena() -> None:
    files = PROVIDER.source_files()
    assert all(path.is_file() for path in files.values())
    root = files["workers/official_arenas/embedded/agent.py"].parent
    found = {f"workers/official_arenas/embedded/{path.relative_to(root).as_posix()}" for path in root.rglob("*.py")}
    found |= {f"workers/official_arenas/embedded/data/{path.name}" for path in (root / "data").glob("*.json")}
    assert found <= set(files)
    assert set(PROVIDER.helper_files()) <= set(files)


def test_a_conversation_that_outgrows_the_model_ends_there_and_is_not_asked_again(play: Any) -> None:
    requests: list[int] = []

    def respond(body: dict[str, Any]) -> ChatReply:
        requests.append(len(body["messages"]))
        if len(requests) > 1:
            raise ChatRefusalError("too long", code="context_length_exceeded", param="messages")
        return ChatReply("What is your email?")

    with ChatServer(respond) as server:
        result = play("0", config=with_model(server.base_url))
    assert len(requests) == 2
    assert (result.trace["termination"], result.usage["model_calls"]) == ("context_window_exceeded", 2)
    assert (result.metrics["terminal_success"], result.metrics["official_reward"]) == (0.0, 0.0)
    assert safe_trace_measurement(result.trace)["termination"] == "context_window_exceeded"
    assert (play.folders[-1] / "simulation.json").exists()


def test_a_customer_whose_model_cannot_read_on_is_a_failure_of_the_arm(play: Any) -> None:
    def refuse(_: dict[str, Any]) -> ChatReply:
        raise ChatRefusalError("too long", code="context_length_exceeded", param="messages")

    with ChatServer(refuse) as server:
        user = {"kind": "openai", "model": "scripted", "args": {"api_base": server.base_url}}
        config = PROVIDER.campaign_config(split="train", limit=16, user=user)
        with pytest.raises(ContextWindowExceededError):
            PROVIDER._first_turn(config, "0")
