"""What a campaign needs and can cost at most, before anything is spent."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest
from campaign_lab import TREATMENT, calls, command_line, invoke, lab_plan, write_plan

from workers.official_arenas.campaign.plan import CampaignPlan, parse_plan
from workers.official_arenas.campaign.preflight import preflight
from workers.official_arenas.campaign.run import run_campaign
from workers.official_arenas.protocol import OfficialArenaError


def paid_plan(
    *, prices: dict[str, float] | None, environment_calls: tuple[int, int] = (0, 0), **more: Any
) -> CampaignPlan:
    args = {"api_base": "http://127.0.0.1:9/v1", "environment_calls": list(environment_calls), **more}
    slot = {"name": "paid", "agent": {"backend": "openai", "model": "m", "args": args}, "prices": prices}
    return parse_plan(
        {
            "arena": "lab.retail",
            "split": "train",
            "tasks": 3,
            "treatments": [TREATMENT, "plan.plan_and_solve.ps_plus_prompt"],
            "slots": [slot],
        }
    )


PRICES = {"input_per_million": 2.0, "output_per_million": 10.0}


def test_a_scripted_campaign_costs_nothing(tmp_path: Path) -> None:
    found = preflight(lab_plan(tmp_path, tasks=4))
    assert (found.is_ready, found.spends, found.pairs, len(found.tasks)) == (True, False, 4, 4)
    assert found.cost.cost == 0.0
    assert calls(tmp_path) == {}


def test_the_bound_is_two_sides_of_every_pair_at_their_whole_budget() -> None:
    found = preflight(paid_plan(prices=PRICES))
    sides = 3 * 2 * 2  # tasks, treatments, sides
    # The standard shared budget of a side: 8 calls, 262,144 tokens read, 4,096 written.
    assert found.spends
    assert found.pairs == 6
    assert found.cost.model_calls == sides * 8
    assert found.cost.cost == pytest.approx(sides * (262_144 * 2.0 + 4_096 * 10.0) / 1e6)


def test_without_a_price_the_cost_is_unknown_and_not_nothing() -> None:
    found = preflight(paid_plan(prices=None))
    assert found.cost.cost is None
    assert found.cost.model_calls == 96


def test_calls_without_a_bound_on_tokens_make_the_cost_unknown_even_with_prices() -> None:
    found = preflight(paid_plan(prices=PRICES, environment_calls=(5, 1)))
    assert found.cost.model_calls == 96 + (3 + 12 * 5) + 12 * 1
    assert found.cost.cost is None
    purposes = {row.purpose: row.model_calls for row in found.cost.calls}
    assert purposes["simulated user"] == 3 + 12 * 5
    assert purposes["judge"] == 12


def test_a_bound_grows_with_the_budget() -> None:
    plan = paid_plan(prices=PRICES)
    half = plan.model_copy(update={"budget_multiplier": 0.5})
    whole, halved = preflight(plan).cost.cost, preflight(half).cost.cost
    assert whole is not None
    assert halved == pytest.approx(whole / 2)


@pytest.mark.parametrize(
    ("treatment", "reason"),
    [
        ("plan.nothing", "treatment plan.nothing: unknown algorithm or release ID"),
        (f"{TREATMENT}:style=short", "parameters of plan.plan_and_solve.ps_prompt do not fit"),
        ("own.text", "own.text needs one of"),
        ("recipe.ace.offline", "recipe.ace.offline changes no input"),
        (f"{TREATMENT}+recipe.ace.offline", "recipe.ace.offline changes no input"),
        (f"{TREATMENT}+plan.nothing", "unknown algorithm or release ID: plan.nothing"),
    ],
)
def test_a_treatment_that_cannot_run_blocks(tmp_path: Path, treatment: str, reason: str) -> None:
    found = preflight(lab_plan(tmp_path, treatments=[TREATMENT, treatment]))
    assert not found.is_ready
    assert any(reason in blocker for blocker in found.blockers)


@pytest.mark.parametrize(
    "treatment", ["acquire.ircot.controlled", "plan.self_ask.full_loop", f"{TREATMENT}+rewrite.rrr.common_support"]
)
def test_a_treatment_that_would_have_to_retrieve_blocks(tmp_path: Path, treatment: str) -> None:
    found = preflight(lab_plan(tmp_path, treatments=[treatment]))
    assert "a campaign has no retriever to give it" in " ".join(found.blockers)


def test_what_the_arena_says_blocks(tmp_path: Path) -> None:
    plan = lab_plan(tmp_path, blockers=["the checkout is missing"])
    assert preflight(plan).blockers == ("slot lab: the checkout is missing",)
    with pytest.raises(OfficialArenaError, match="the checkout is missing"):
        run_campaign(plan, tmp_path / "out", command=["x"])
    assert not (tmp_path / "out").exists()
    assert calls(tmp_path) == {}


@pytest.mark.parametrize(
    ("agent", "model", "reason"),
    [
        ({}, {"kind": "agent"}, "intervention_model.kind 'agent' needs agent.backend 'openai'"),
        ({"backend": "openai", "args": {}}, {"kind": "agent"}, "with args.api_base"),
    ],
)
def test_an_intervention_model_that_is_not_there_blocks(
    agent: dict[str, Any], model: dict[str, Any], reason: str
) -> None:
    slot = {"name": "x", "agent": agent, "intervention_model": model}
    plan = parse_plan({"arena": "lab.retail", "split": "train", "tasks": 1, "treatments": [TREATMENT], "slots": [slot]})
    assert reason in " ".join(preflight(plan).blockers)


def test_rules_that_are_no_rules_block_before_anything_is_captured(tmp_path: Path) -> None:
    rules = tmp_path / "rules.yaml"
    rules.write_text("rules: [{reply: 3}]\n")
    slot = {"name": "x", "intervention_model": {"kind": "rules", "rules": str(rules)}}
    plan = parse_plan({"arena": "lab.retail", "split": "train", "tasks": 1, "treatments": [TREATMENT], "slots": [slot]})
    assert "slot x: intervention_model.rules: rules.yaml: " in " ".join(preflight(plan).blockers)


def test_an_arena_that_is_not_installed_is_one_line(tmp_path: Path) -> None:
    result = invoke("retail", "run", "--arena", "moon", "--treatment", TREATMENT, "--out", tmp_path / "out")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "Unknown arena; installed are " in result.stderr
    assert not (tmp_path / "out").exists()


# --- through the command line -------------------------------------------------------------------------------


def test_nothing_that_spends_starts_without_execute(tmp_path: Path) -> None:
    plan = write_plan(tmp_path / "plan.json", paid_plan(prices=PRICES, calls=str(tmp_path / "calls.txt")))
    shown = invoke("campaign", "run", plan, "--out", tmp_path / "out", "--json")
    assert shown.exit_code == 0
    record = json.loads(shown.stdout)
    assert (record["ready"], record["spends"], record["pairs"]) == (True, True, 6)
    assert "Nothing was started. Add --execute to start." in shown.stderr
    assert not (tmp_path / "out").exists()
    assert calls(tmp_path) == {}


def test_retail_run_shows_the_cost_as_one_json_value_and_starts_nothing(tmp_path: Path) -> None:
    options = ["--arena", "fixture", "--treatment", TREATMENT, "--tasks", "2", "--out", tmp_path / "out", "--json"]
    model = ["--model-url", "http://127.0.0.1:9/v1", "--model", "m"]
    shown = invoke("retail", "run", *options, *model, "--price-in", "2", "--price-out", "10")
    assert shown.exit_code == 0
    record = json.loads(shown.stdout)
    assert record["cost_at_most"]["cost"] == pytest.approx(2 * 2 * (262_144 * 2.0 + 4_096 * 10.0) / 1e6)
    assert not (tmp_path / "out").exists()
    unknown = invoke("retail", "run", *options, *model)
    assert json.loads(unknown.stdout)["cost_at_most"]["cost"] is None
    assert "cost unknown (no price given" in unknown.stderr


def test_a_campaign_that_is_not_ready_says_so_with_exit_2(tmp_path: Path) -> None:
    plan = write_plan(tmp_path / "plan.json", lab_plan(tmp_path, blockers=["the checkout is missing"]))
    for command in (["doctor", plan], ["run", plan, "--out", tmp_path / "out", "--execute"]):
        result = invoke("campaign", *command, "--json")
        assert result.exit_code == 2
        assert json.loads(result.stdout)["blockers"] == ["slot lab: the checkout is missing"]
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ([], "nothing to compare"),
        (["--treatment", TREATMENT, "--model", "m"], "--model-url and --model belong together"),
        (["--treatment", TREATMENT, "--price-in", "1"], "--price-in and --price-out belong together"),
        (["--treatment", TREATMENT, "--alpha", "2"], "alpha"),
        (["--treatment", TREATMENT, "--budget", "0"], "budget_multiplier"),
        (["--treatment", TREATMENT, "--budget", "nan"], "plan"),
        (["--treatment", TREATMENT, "--tasks", "1001"], "tasks must be at most 1000"),
        (["--treatment", TREATMENT, "--rules", "/nowhere/rules.yaml"], "rules file /nowhere/rules.yaml cannot be read"),
        (["--append-instruction", "/nowhere/text"], "/nowhere/text: No such file or directory"),
        (["--treatment", TREATMENT, "--treatment", TREATMENT], "treatments must have distinct names"),
        (["--arena", "tau2", "--treatment", TREATMENT], "tau2 has no scripted agent: give --model-url and --model"),
        (["--append-instruction", "a.md", "--append-instruction", "b.md"], "--append-instruction can be given once"),
        (["--replace-instruction", "a", "--replace-instruction", "a"], "--replace-instruction can be given once"),
        (["--add-context", "a", "--add-context", "b"], "--add-context can be given once"),
        (["--replace-context", "a", "--replace-context", "b"], "--replace-context can be given once"),
    ],
)
def test_options_that_do_not_fit_are_one_line_and_exit_2(tmp_path: Path, options: list[str], reason: str) -> None:
    result = invoke("retail", "run", "--arena", "fixture", "--out", tmp_path / "out", *options)
    assert (result.exit_code, result.stdout) == (2, "")
    assert reason in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_changes_of_ones_own_make_one_treatment_and_the_help_says_so(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_text(name)
    words = ["--append-instruction", tmp_path / "a", "--add-context", tmp_path / "b", "--tasks", "1", "--no-fsync"]
    result = invoke("retail", "run", "--arena", "fixture", "--out", tmp_path / "out", *words)
    assert result.exit_code == 0, result.stderr
    (treatment,) = json.loads((tmp_path / "out/plan.json").read_text())["treatments"]
    assert treatment["members"][0]["parameters"] == {"append_instruction": "a", "add_context": "b"}
    assert "are one treatment" in " ".join(invoke("retail", "run", "--help").stdout.split())


def test_a_run_for_report_needs_the_test_split_durable_receipts_and_all_tasks(tmp_path: Path) -> None:
    base = lab_plan(tmp_path).model_copy(update={"split": "test", "durable": True, "tasks": None})
    for change, field in (({"split": "train"}, "split"), ({"durable": False}, "durable"), ({"tasks": 3}, "tasks")):
        plan = write_plan(tmp_path / "plan.json", base.model_copy(update=change))
        result = invoke("campaign", "run-production", plan, "--out", tmp_path / "out")
        assert (result.exit_code, result.stdout) == (2, "")
        assert f"{field} must be" in result.stderr
    plan = write_plan(tmp_path / "plan.json", base)
    ready = command_line("campaign", "run-production", plan, "--out", tmp_path / "out")
    assert ready.returncode == 0
    assert b"Nothing was started" in ready.stderr


def test_an_endpoint_that_is_not_there_blocks_before_a_first_attempt_is_used_up(tmp_path: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        base = f"http://127.0.0.1:{unused.getsockname()[1]}/v1"  # bound, and nobody listens
        agent = {
            "backend": "openai",
            "model": "m",
            "args": {
                "api_base": base,
                "temperature": 0,
                "seed": 17,
                "num_retries": 0,
                "max_tokens": 16,
                "timeout": 5.0,
            },
        }
        plan = parse_plan({"tasks": 1, "treatments": [TREATMENT], "slots": [{"name": "gone", "agent": agent}]})
        assert preflight(plan).is_ready  # the cost can be shown without a server
        with pytest.raises(OfficialArenaError, match="slot gone: nobody answers"):
            run_campaign(plan, tmp_path / "folder", command=["test"])
    assert not (tmp_path / "folder/capture").exists()
