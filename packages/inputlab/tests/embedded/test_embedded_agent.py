"""The scripted agent: known outcomes for known inputs, on every task, and nothing but text decides them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from agentinputlab.algorithms.plan.plan_and_solve import PLAN_HEADING, PS_INSTRUCTION, PS_PLUS_INSTRUCTION
from workers.official_arenas.embedded.agent import respond
from workers.official_arenas.embedded.arena import package_arena
from workers.official_arenas.embedded.guidance import read_guidance, render_system_message
from workers.official_arenas.embedded.understanding import find_wishes
from workers.official_arenas.protocol import normalized_trace_hash
from workers.official_arenas.providers.embedded_retail import default_config

TRAIN = [str(number) for number in range(16)]
TEST = [str(number) for number in range(16, 24)]


def block(text: str) -> dict[str, Any]:
    return {"text": text, "block_id": "added", "source": "test", "score": None, "metadata": {}}


def nothing(state: dict[str, Any]) -> None:
    del state


def plan(state: dict[str, Any]) -> None:
    state["instruction"] += f"\n\n{PS_INSTRUCTION}"


def longer_plan(state: dict[str, Any]) -> None:
    state["instruction"] += f"\n\n{PS_PLUS_INSTRUCTION}"


def written_plan(state: dict[str, Any]) -> None:
    state["context"].append(block(f"{PLAN_HEADING}\n1. Find the customer.\n2. Look at the orders.\n3. Act."))


def sub_questions(state: dict[str, Any]) -> None:
    state["context"].append(block("Answer these simpler questions:\n1. Who writes?\n2. What is wanted?"))


def clarification(state: dict[str, Any]) -> None:
    state["metadata"]["clarification_request"] = "Before I start: which item exactly do you mean?"


def playbook(state: dict[str, Any]) -> None:
    rules = (
        "When several items fit, ask which one is meant.",
        "Check that a new item is available before you offer it.",
        "Put all items of an order into one call.",
    )
    state["context"].append(block("Playbook\n" + "\n".join(f"- {rule}" for rule in rules)))


def remark(state: dict[str, Any]) -> None:
    state["context"].append(block("The shop opened in spring and has a friendly team."))


def lossy_summary(state: dict[str, Any]) -> None:
    state["context"] = [block("Help the customer with orders. Ask for a yes before every change.")]


def passage(state: dict[str, Any]) -> None:
    """An invented passage beside the repeated request, as query expansion makes it."""
    state["query"] = "\n".join([*[state["query"]] * 3, "Customers often exchange an item for another size."])


# Solved tasks of each input; every other task fails.
ALWAYS = {"0", "1", "2", "3", "6", "16", "18"}
RULES = {"4", "5", "17"}
MANY_ORDERS = {"7", "19"}
SOLD_OUT, GIFT_CARD = {"8", "20"}, {"9"}
TOGETHER = {"10", "11", "21"}
ONE_SENTENCE = {"12", "13", "22"}
AMBIGUOUS = {"14", "15", "23"}
BASELINE = ALWAYS | RULES | MANY_ORDERS
PLANNED = ALWAYS | RULES | SOLD_OUT | GIFT_CARD | TOGETHER | ONE_SENTENCE
SOLVED = {
    nothing: BASELINE,
    remark: BASELINE,
    plan: PLANNED,
    longer_plan: PLANNED,
    written_plan: PLANNED,
    sub_questions: BASELINE | ONE_SENTENCE,
    clarification: BASELINE | AMBIGUOUS,
    playbook: BASELINE | SOLD_OUT | TOGETHER | AMBIGUOUS,
    lossy_summary: BASELINE - RULES,
}


@pytest.mark.parametrize("change", SOLVED, ids=lambda change: change.__name__)
def test_each_input_solves_exactly_its_tasks(play: Any, change: Any) -> None:
    solved = {task_id for task_id in TRAIN + TEST if play(task_id, change).metrics["terminal_success"] == 1.0}
    assert solved == SOLVED[change]


def test_the_test_split_gives_the_pinned_vectors() -> None:
    assert [int(task_id in SOLVED[nothing]) for task_id in TEST] == [1, 1, 1, 1, 0, 0, 0, 0]
    assert [int(task_id in SOLVED[plan]) for task_id in TEST] == [1, 1, 1, 0, 1, 1, 1, 0]


@pytest.mark.parametrize("change", [nothing, plan, playbook], ids=lambda change: change.__name__)
def test_equal_input_gives_equal_trajectories(play: Any, change: Any) -> None:
    for task_id in TRAIN + TEST:
        first, second = play(task_id, change), play(task_id, change)
        assert normalized_trace_hash(first.trace) == normalized_trace_hash(second.trace)
        assert first.trace == second.trace
        assert first.usage == second.usage
        assert first.runtime_instance_id != second.runtime_instance_id


def test_planning_with_many_orders_runs_into_the_cap_on_tool_calls(play: Any) -> None:
    result = play("7", plan)
    assert result.metrics["adapter_hard_stops"] == 1.0
    assert result.metrics["terminal_success"] == 0.0
    assert result.usage["tool_calls"] == 8
    assert result.trace["discarded_tool_calls"] == 1


@pytest.mark.parametrize(
    ("task_id", "old", "new"),
    [
        ("14", "the Hiking Backpack", "the slate Hiking Backpack (20 L)"),
        ("15", "the Travel Mug", "the green Travel Mug"),
        ("12", ", and return", ". Also return"),
    ],
)
def test_a_rewritten_request_that_says_more_helps(play: Any, task_id: str, old: str, new: str) -> None:
    def rewrite(state: dict[str, Any]) -> None:
        assert old in state["query"]
        state["query"] = state["query"].replace(old, new)

    assert play(task_id, rewrite).metrics["terminal_success"] == 1.0


def test_a_rewritten_request_that_invents_a_wish_harms(play: Any) -> None:
    assert play("0").metrics["terminal_success"] == 1.0
    assert play("0", passage).metrics["terminal_success"] == 0.0


def test_a_rewritten_request_that_loses_a_wish_harms(play: Any) -> None:
    def shorten(state: dict[str, Any]) -> None:
        state["query"] = state["query"].split(". Also")[0]

    assert play("3").metrics["terminal_success"] == 1.0
    assert play("3", shorten).metrics["terminal_success"] == 0.0


def test_one_call_of_an_intervention_costs_the_longest_conversation_its_end(play: Any) -> None:
    assert play("3").usage["model_calls"] == 8
    result = play("3", usage={"model_calls": 1})
    assert (result.metrics["terminal_success"], result.metrics["adapter_hard_stops"]) == (0.0, 1.0)
    assert play("3", plan, usage={"model_calls": 1}).metrics["terminal_success"] == 1.0


def test_a_clarification_is_the_first_message_and_costs_nothing(play: Any) -> None:
    result = play("14", clarification)
    first, answer = result.trace["messages"][2:4]
    assert (first["role"], first["usage"]) == ("assistant", None)
    assert "which item exactly" in first["content"]
    assert "slate" in answer["content"]
    assert result.usage["model_calls"] == sum(bool(row["usage"]) for row in result.trace["messages"])


def test_the_policy_of_the_arena_switches_no_habit_on() -> None:
    policy = package_arena().policy
    found = read_guidance(render_system_message(policy, (policy,)))
    habits = ("gathers_all", "splits", "checks_availability", "checks_balance", "merges_items", "asks_which")
    assert not any(getattr(found, name) for name in habits)
    rules = ("knows_own_orders", "knows_cancel_reason", "knows_status", "knows_transfer")
    assert all(getattr(found, name) for name in rules)


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("I want to cancel order #W1234567.", ["cancel"]),
        ("Please send the lamp back.", ["return"]),
        ("Swap the mug for a blue one.", ["change"]),
        ("Please ship order #W1234567 to 1 A St, Unit 2, B, CA, USA, 90000.", ["order_address"]),
        ("Change the default address of my account.", ["user_address"]),
        ("Let me pay for order #W1234567 with paypal.", ["payment"]),
        ("How many lamps are there?", ["stock"]),
        ("How much would I get back if I return it?", ["total"]),
        ("Let me talk to a human.", ["human"]),
        ("My email is a@b.example.", []),
        ("Pay the difference with my gift card.", []),
        ("Cancel order #W1234567 and return the lamp from order #W7654321.", ["cancel"]),
    ],
)
def test_wishes_in_sentences(text: str, kinds: list[str]) -> None:
    assert [wish.kind for wish in find_wishes(text, splits=False)] == kinds


def test_splitting_finds_every_wish_of_a_sentence_with_its_order() -> None:
    text = "Cancel order #W1234567 and return the lamp from order #W7654321. Also return the mug in that order."
    found = [(wish.kind, wish.order_id) for wish in find_wishes(text, splits=True)]
    assert found == [("cancel", "#W1234567"), ("return", "#W7654321"), ("return", "#W7654321")]


def test_a_request_said_five_times_is_one_wish() -> None:
    assert len(find_wishes("\n".join(["Please cancel order #W1234567."] * 5), splits=True)) == 1


def chat(*turns: tuple[str, str]) -> list[Mapping[str, Any]]:
    system = {"role": "system", "content": render_system_message("Be kind.", ())}
    return [system, *({"role": role, "content": text} for role, text in turns)]


def test_the_agent_asks_who_writes_and_gives_up_after_two_questions() -> None:
    turns = [("assistant", "Hi!"), ("user", "Cancel order #W1234567, please.")]
    for _ in range(2):
        answer = respond(chat(*turns))
        assert "email" in answer.text
        turns += [("assistant", answer.text), ("user", "No.")]
    assert [call.name for call in respond(chat(*turns)).tool_calls] == ["transfer_to_human_agents"]


def test_the_agent_answers_whatever_it_is_asked() -> None:
    for text in ("", "asdf", "###", "#W0000000 #W1111111", "a@b.example", "My name is X Y, 00000", "cancel " * 500):
        answer = respond(chat(("user", text)))
        assert answer.text or answer.tool_calls
        for call in answer.tool_calls:
            assert isinstance(json.loads(call.arguments), dict)


def test_scripted_config_is_valid_and_its_doctor_finds_nothing(play: Any) -> None:
    for split, size in (("train", 16), ("test", 8)):
        config = default_config(split)
        assert play.provider.doctor(config) == ()
        assert len(play.provider.task_ids(config)) == size == play.provider.split_sizes[split]
    assert play.provider.task_ids(default_config("test", 3)) == TEST[:3]
