"""An arena of one's own goes the whole way, keeps to its budget, and knows when it was changed."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import unit_arena
from unit_arena import UnitArena

from agentinputlab.backends.chat import ChatReply
from agentinputlab.backends.llm import OpenAICompatibleTransportError
from agentinputlab.contracts.state import ContextBlock
from agentinputlab.model_server import ChatServer
from workers.official_arenas.own_arena import BudgetUsedUpError, Played, Task
from workers.official_arenas.protocol import OfficialArenaError, standard_shared_budget
from workers.official_arenas.testing import ArenaUnderTest

SCRIPTED = {"backend": "scripted", "model": "scripted-agent.v1", "args": {}}
SECRET = "forty-two thousand paper cranes"


@pytest.fixture
def under_test(tmp_path: Path):
    tmp_path.chmod(0o700)

    def make(factory=UnitArena, *, split="test", limit=None, agent=SCRIPTED) -> ArenaUnderTest:
        return ArenaUnderTest(factory, tmp_path, split, limit, agent)

    return make


def play(subject: ArenaUnderTest, task_id: str, *, budget: dict[str, int] | None = None, **options: Any):
    config = subject.config(budget={**standard_shared_budget(), **(budget or {})})
    captured = next(pair for pair in subject.pairs(config) if pair[0]["checkpoint_id"] == task_id)
    return subject.play(config, captured, **options)


# --- end to end, in a process that finds it by its entry points ---------------------------------------------


def test_installed_arena_and_intervention_run_from_the_command_line(run, tmp_path):
    done = run("retail", "run", "--arena", "example.units", "--treatment", "example.factors_first", "--out", "units")
    assert done.returncode == 0, done.stderr
    rows = json.loads((tmp_path / "units" / "results.json").read_text())
    solved = {row["task_id"]: (row["baseline"]["score"], row["treated"]["score"]) for row in rows}
    single, several = (1.0, 1.0), (0.0, 1.0)
    assert solved == {"3": single, "5": single, **dict.fromkeys(["4", "6", "7", "8", "9", "10"], several)}
    assert all(row["baseline"]["usage"]["tool_calls"] >= 1 for row in rows)
    assert run("verify", "units", module="ripieno").returncode == 0


@pytest.mark.slow
def test_campaign_plan_with_two_treatments_runs_and_is_not_run_twice(run, tmp_path):
    (tmp_path / "plan.yaml").write_text(
        "arena: example.units\nsplit: train\ndurable: false\n"
        "treatments: [example.factors_first, plan.plan_and_solve.ps_prompt]\n"
    )
    assert run("campaign", "doctor", "plan.yaml").returncode == 0
    first = run("campaign", "run", "plan.yaml", "--out", "units", "--execute")
    assert first.returncode == 0, first.stderr
    assert len(json.loads((tmp_path / "units" / "results.json").read_text())) == 4
    again = run("campaign", "run", "plan.yaml", "--out", "units", "--execute")
    assert again.returncode == 0
    assert "nothing was run again" in again.stdout


def test_doctor_lists_the_installed_arena(run):
    done = run("doctor")
    assert "arena example.units: can run here" in done.stdout


def test_arena_that_was_changed_in_the_middle_is_refused(run, installed, tmp_path):
    words = ("retail", "run", "--arena", "example.units", "--treatment", "example.factors_first", "--out", "units")
    assert run(*words).returncode == 0
    shutil.copytree(tmp_path / "units" / "capture", tmp_path / "kept")
    with (installed / "unit_arena" / "tasks.json").open("a") as stream:
        stream.write("\n")
    (scope,) = (tmp_path / "units" / "scopes").glob("capture-scripted.json")
    digest = hashlib.sha256(scope.read_bytes()).hexdigest()
    done = run("--scope", str(scope), "--scope-sha256", digest, module="workers.official_arenas.retail_capture")
    assert done.returncode == 2
    assert json.loads(done.stderr)["message"] == "Retail capture rejected; inspect owned receipts"


# --- config -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"limit": 0}, "limit"),
        ({"limit": 9}, "limit"),
        ({"limit": True}, "limit"),
        ({"capture_seed": 18}, "capture_seed"),
        ({"capture_seed": 17.0}, "capture_seed"),
        ({"task_split_name": "dev"}, "task_split_name"),
        ({"budget_override": None}, "budget_override"),
        ({"agent": {**SCRIPTED, "model": " "}}, "model"),
        ({"agent": {**SCRIPTED, "args": {"api_base": "x"}}}, "args"),
        ({"agent": {**SCRIPTED, "backend": "magic"}}, "backend"),
        ({"agent": {**SCRIPTED, "surplus": 1}}, "agent"),
        ({"locked_dependency_hashes": {"agent_model": "1" * 64}}, "locked_dependency_hashes"),
        ({"surplus": 1}, "fields"),
    ],
)
def test_wrong_config_field_is_refused_by_name(changes, name, under_test):
    subject = under_test()
    config = {**subject.config(), **changes}
    with pytest.raises(OfficialArenaError, match=name):
        subject.provider._validate_config(config)
    assert len(subject.provider.doctor(config)) == 1


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("api_base", "http://example.org/v1"),
        ("api_base", None),
        ("temperature", 0.7),
        ("temperature", False),
        ("seed", 18),
        ("num_retries", 2),
        ("max_tokens", 0),
        ("timeout", float("inf")),
        ("api_key_env", ""),
        ("top_p", 1.0),
    ],
)
def test_wrong_argument_of_the_endpoint_is_refused(name, value, under_test):
    args = {"api_base": "http://127.0.0.1:9/v1", name: value}
    with pytest.raises(OfficialArenaError, match="agent args"):
        under_test(agent={"backend": "openai", "model": "m", "args": args}).config()


@pytest.mark.parametrize("task_id", ["", "a", "-1", "1.0", "\u0661", "1\n", "1" * 65])
def test_unsafe_task_id_is_refused(task_id):
    class Unsafe(UnitArena):
        def tasks(self):
            return [Task(task_id=task_id, split="train", query="q")]

    with pytest.raises(OfficialArenaError, match="ASCII digits"):
        _ = Unsafe().split_sizes


def test_task_id_of_both_splits_is_refused():
    class Twice(UnitArena):
        def tasks(self):
            return [Task(task_id="1", split=split, query="q") for split in ("train", "test")]

    with pytest.raises(OfficialArenaError, match="unique over both splits"):
        _ = Twice().split_sizes


# --- identity -----------------------------------------------------------------------------------------------


def test_revisions_are_those_of_the_content_of_its_files(tmp_path, monkeypatch):
    original = UnitArena()
    copied = tmp_path / "unit_arena"
    shutil.copytree(Path(unit_arena.__file__).parent, copied, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(unit_arena, "__file__", str(copied / "__init__.py"))
    assert UnitArena().source_revision == original.source_revision
    assert len(original.source_revision) == 40
    with (copied / "tasks.json").open("a") as stream:
        stream.write("\n")
    assert UnitArena().source_revision != original.source_revision
    assert UnitArena().scorer_revision != original.scorer_revision


def test_missing_data_file_is_named(monkeypatch):
    monkeypatch.setattr(UnitArena, "other_files", ("gone.json",))
    with pytest.raises(OfficialArenaError, match=r"gone\.json cannot be read"):
        _ = UnitArena().source_revision


def test_source_files_of_a_subclass_hold_those_of_its_base():
    class Harder(UnitArena):
        pass

    assert {"unit_arena/__init__.py", "unit_arena/tasks.json"} < set(Harder().source_files())
    assert any(Path(__file__).resolve() == path for path in Harder().helper_files().values())


# --- arms ---------------------------------------------------------------------------------------------------


def test_agent_sees_the_materialized_input_and_not_the_task(under_test):
    seen = []

    class Spy(UnitArena):
        def tasks(self):
            block = ContextBlock("a table of factors", block_id="t")
            return [
                Task(task_id="1", split="test", query="q", instruction="i", context=(block,), gold={"answer": SECRET})
            ]

        def play(self, task, state, agent):
            seen.append(state)
            return Played(True, agent.transcript, {"look_ups": 0.0})

    play(under_test(Spy), "1")
    assert (seen[0].query, seen[0].instruction, seen[0].context[0].text) == ("q", "i", "a table of factors")
    assert SECRET not in repr(seen[0].canonical_dict())


def test_used_up_budget_ends_the_arm_with_a_score_of_zero_and_its_trace(under_test, tmp_path):
    work_dir = tmp_path / "arm"
    work_dir.mkdir(mode=0o700)
    result = play(under_test(), "7", budget={"max_model_calls": 1}, work_dir=work_dir)
    assert result.metrics["terminal_success"] == 0.0
    assert result.metrics["adapter_hard_stops"] == 1.0
    assert result.usage["model_calls"] == 1
    assert len(result.trace["messages"]) > 1
    zero = json.loads((work_dir / "terminal-zero.json").read_text())
    assert zero["messages"] == result.trace["messages"]
    assert {path.name for path in work_dir.iterdir()} == {"attempt-start.json", "terminal-zero.json"}


def test_arm_without_any_budget_asks_nobody(under_test):
    result = play(under_test(), "7", spent={"model_calls": 8})
    assert result.trace["termination"] == "shared_budget_exhausted_before_agent"
    assert result.usage["model_calls"] == 0
    assert result.metrics["adapter_hard_stops"] == 1.0


def test_tool_beyond_the_cap_does_not_run(under_test):
    result = play(under_test(), "5", budget={"max_tool_calls": 0})
    assert result.usage["tool_calls"] == 0
    assert result.metrics["terminal_success"] == 0.0
    assert "1 of weeks" not in json.dumps(result.trace)


def test_success_after_a_hard_stop_is_none_even_if_the_arena_catches_it(under_test):
    class Stubborn(UnitArena):
        def play(self, task, state, agent):
            for _ in range(8):
                agent.ask([{"role": "user", "content": "again"}])
            with pytest.raises(BudgetUsedUpError):
                agent.ask([{"role": "user", "content": "again"}])
            return Played(True, agent.transcript, {"look_ups": 0.0})

    result = play(under_test(Stubborn), "3")
    assert result.metrics["terminal_success"] == 0.0
    assert result.metrics["official_reward"] == 1.0
    assert result.usage["model_calls"] == 8


def test_scripted_answer_is_cut_to_the_tokens_that_are_left(under_test):
    class Verbose(UnitArena):
        def scripted_agent(self, request):
            return "word " * 500

    result = play(under_test(Verbose), "3", budget={"max_output_tokens": 5, "max_output_tokens_per_call": 5})
    assert result.usage["output_tokens"] == 5


def test_arm_that_raises_keeps_what_was_said(under_test, tmp_path):
    class Broken(UnitArena):
        def play(self, task, state, agent):
            agent.ask([{"role": "user", "content": state.query}])
            raise KeyError("the table is gone")

    work_dir = tmp_path / "arm"
    work_dir.mkdir(mode=0o700)
    with pytest.raises(KeyError):
        play(under_test(Broken), "3", work_dir=work_dir)
    kept = json.loads((work_dir / "interrupted-trajectory.json").read_text())
    assert kept["usage"]["model_calls"] == 1
    assert kept["messages"][-1]["role"] == "assistant"


@pytest.mark.parametrize("metrics", [{}, {"look_ups": 0.0, "more": 1.0}])
def test_other_metrics_than_announced_are_refused(metrics, under_test):
    class Other(UnitArena):
        def play(self, task, state, agent):
            return Played(True, agent.transcript, metrics)

    with pytest.raises(OfficialArenaError, match="look_ups"):
        play(under_test(Other), "3")


def test_replay_of_another_task_config_or_answer_is_refused_before_anything_is_written(under_test, tmp_path):
    subject = under_test()
    config = subject.config()
    checkpoint, record = subject.pairs(config)[0]
    work_dir = tmp_path / "arm"
    work_dir.mkdir(mode=0o700)
    for protected in (
        {**record["protected"], "task_id": "4"},
        {**record["protected"], "gold": {"answer": 1}},
        {**record["protected"], "locked_dependency_hashes": {}},
        {**record["protected"], "capture_seed": 18},
    ):
        with pytest.raises(OfficialArenaError, match="first capture"):
            subject.play(config, (checkpoint, {**record, "protected": protected}), work_dir=work_dir)
    assert not list(work_dir.iterdir())


def test_model_behind_a_server_is_asked_over_a_socket_within_the_budget(under_test):
    bodies = []

    def answer(body):
        bodies.append(body)
        return ChatReply(text="LOOK UP yards" if len(body["messages"]) == 2 else "That is 12.")

    with ChatServer(answer) as server:
        args = {"api_base": server.base_url, "max_tokens": 40}
        subject = under_test(agent={"backend": "openai", "model": "local", "args": args})
        result = play(subject, "3")
    assert result.metrics["terminal_success"] == 1.0
    assert result.usage["model_calls"] == result.usage["unpriced_model_calls"] == 2
    assert [body["max_tokens"] for body in bodies] == [40, 40]
    assert all(body["temperature"] == 0 and body["seed"] == 17 for body in bodies)


@pytest.mark.parametrize("named", [None, "SHOP_KEY"])
def test_agent_is_sent_the_key_that_was_named_and_no_other(under_test, monkeypatch, named):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-shop")
    monkeypatch.setenv("SHOP_KEY", "sk-shop")
    with ChatServer(lambda _: ChatReply(text="That is 12."), token="sk-shop") as server:
        args = {"api_base": server.base_url} | ({"api_key_env": named} if named else {})
        subject = under_test(agent={"backend": "openai", "model": "local", "args": args})
        if named:
            assert play(subject, "3").usage["model_calls"] == 1
        else:
            with pytest.raises(OpenAICompatibleTransportError, match="HTTP status 401"):
                play(subject, "3")


def test_arena_without_a_scripted_agent_says_what_to_do(under_test):
    class Silent(UnitArena):
        scripted_agent = unit_arena.OwnArena.scripted_agent

    with pytest.raises(OfficialArenaError, match="--model-url"):
        play(under_test(Silent), "3")
