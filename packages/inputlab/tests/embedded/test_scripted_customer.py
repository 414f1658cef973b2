"""The scripted customer: tells what is asked, agrees to what fits, never says more, always comes to an end."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.official_arenas.embedded.arena import package_arena
from workers.official_arenas.embedded.customers import script_of_prompt, user_prompt
from workers.official_arenas.embedded.task_model import UserScript
from workers.official_arenas.embedded.user import MAX_TURNS, STOP, STOP_TOKENS, TRANSFER, reply

TASKS = list(package_arena().tasks.values())
SCRIPTS = [task.embedded.user for task in TASKS if task.embedded]
GREETING = ("assistant", "Hi! How can I help you today?")


def script(task_id: str) -> UserScript:
    embedded = package_arena().tasks[task_id].embedded
    assert embedded is not None
    return embedded.user


def answer(task_id: str, said: str) -> str:
    of_task = script(task_id)
    return reply(of_task, [GREETING, ("user", of_task.opening), ("assistant", said)])


@pytest.mark.parametrize("of_task", SCRIPTS)
def test_the_conversation_begins_with_the_opening(of_task: UserScript) -> None:
    assert reply(of_task, [GREETING]) == of_task.opening


@pytest.mark.parametrize(
    ("task_id", "said", "slot"),
    [
        ("0", "Could you please give me your email address?", "email"),
        ("0", "What's the e-mail on the account?", "email"),
        ("1", "I need your first and last name and zip code, please.", "name_zip"),
        ("1", "Please provide your email, or your full name and zip.", "name_zip"),
        ("0", "Please provide your email, or your full name and zip.", "email"),
        ("0", "Which order is this about?", "order_id"),
        ("8", "Can you tell me the order number?", "order_id"),
        ("0", "Why do you want to cancel?", "reason"),
        ("4", "May I ask for the reason?", "reason"),
        ("2", "What is the new address?", "address"),
        ("2", "What is the full new address (street, unit, city, state, country, zip code)?", "address"),
        ("9", "Which payment method would you like?", "payment"),
        ("14", "Which one do you mean?", "item"),
        ("14", "Please specify which backpack you would like to return.", "item"),
        ("15", "Could you clarify?", "item"),
        ("15", "Which option would you like?", "option"),
    ],
)
def test_what_is_asked_is_answered(task_id: str, said: str, slot: str) -> None:
    assert script(task_id).answers[slot] in answer(task_id, said)


def test_both_of_two_questions_are_answered() -> None:
    said = answer("0", "Please tell me your email and the order number.")
    assert script("0").answers["email"] in said
    assert script("0").answers["order_id"] in said


@pytest.mark.parametrize(
    ("task_id", "proposal"),
    [
        ("0", "I will cancel your order. Shall I proceed?"),
        ("1", "To confirm: return of the Yoga Mat and the Table Fan. Is that correct?"),
        ("8", "The brass one is sold out. Would you like me to exchange the lamp for the black one?"),
        ("14", "I am going to return the slate Hiking Backpack. Please confirm (yes/no)."),
        ("23", "Do you want me to change the yellow Rain Jacket to large?"),
    ],
)
def test_a_proposal_that_fits_gets_a_yes(task_id: str, proposal: str) -> None:
    assert answer(task_id, proposal).startswith("Yes")


@pytest.mark.parametrize(
    ("task_id", "proposal"),
    [
        ("1", "Shall I return the Yoga Mat, the Table Fan and the Garden Hose?"),
        ("14", "Shall I return the olive Hiking Backpack?"),
        ("15", "Shall I exchange the grey Travel Mug for 20 oz?"),
        ("21", "Shall I return the Bluetooth Speaker and the lamp?"),
        ("0", "Shall I order a pizza?"),
    ],
)
def test_a_proposal_that_does_not_fit_is_corrected(task_id: str, proposal: str) -> None:
    assert answer(task_id, proposal) == script(task_id).correction


def test_a_customer_who_wants_what_is_forbidden_would_take_it() -> None:
    assert answer("4", f"I will cancel order {_order('4')}. Shall I proceed?").startswith("Yes")


def _order(task_id: str) -> str:
    found = re.search(r"#W\d{7}", script(task_id).opening)
    assert found
    return found[0]


@pytest.mark.parametrize(
    ("said", "token"),
    [
        ("You are being transferred to a human agent.", TRANSFER),
        ("I am sorry, I cannot do that.", STOP),
        ("Your order has been cancelled. Is there anything else?", STOP),
        ("All done! Have a nice day.", STOP),
    ],
)
def test_the_end_is_recognised(said: str, token: str) -> None:
    assert token in answer("0", said)


@pytest.mark.parametrize("of_task", SCRIPTS)
def test_nothing_is_told_before_it_is_asked(of_task: UserScript) -> None:
    turns = [GREETING, ("user", of_task.opening)]
    for said in ("Hello!", "One moment.", "I am looking at it now.", "Thank you for waiting."):
        turns.append(("assistant", said))
        text = reply(of_task, turns)
        turns.append(("user", text))
        allowed = {of_task.correction}
        assert text in allowed or STOP in text


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.id)
def test_the_words_of_the_scenario_are_never_said(task: object) -> None:
    scenario = task.user_scenario.instructions  # type: ignore[attr-defined]
    of_task = task.embedded.user  # type: ignore[attr-defined]
    spoken = " ".join([of_task.opening, of_task.correction, *of_task.answers.values()])
    for secret in (scenario.reason_for_call, scenario.task_instructions):
        assert secret not in spoken


@given(st.sampled_from(SCRIPTS), st.lists(st.text(max_size=80), min_size=0, max_size=20))
def test_nonsense_never_breaks_the_customer_and_always_ends(of_task: UserScript, noise: list[str]) -> None:
    turns = [GREETING]
    for number in range(MAX_TURNS):
        text = reply(of_task, turns)
        assert text.strip()
        turns.append(("user", text))
        if any(token in text for token in STOP_TOKENS):
            return
        turns.append(("assistant", noise[number % len(noise)] if noise else "?"))
    raise AssertionError(f"the customer still talks after {MAX_TURNS} messages")


def test_the_script_travels_in_the_prompt() -> None:
    for task in TASKS:
        prompt = user_prompt(task)
        assert prompt.startswith("# User Simulation Guidelines")
        assert task.embedded is not None
        assert script_of_prompt(prompt) == task.embedded.user
    assert script_of_prompt("# User Simulation Guidelines\nReason for call: help") is None
