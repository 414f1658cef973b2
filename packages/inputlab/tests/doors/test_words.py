"""Numbers and words on the terminal are those that were given and meant."""

from __future__ import annotations

from importlib.util import find_spec

import pytest
from click.testing import CliRunner, Result

from agentinputlab.cli._app import agentinputlab


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(agentinputlab, arguments, prog_name="agentinputlab")


def test_assumed_shares_are_shown_as_they_were_given() -> None:
    shown = invoke("power", "--helps", "0.375", "--hurts", "0.0625").stdout
    assert "helps on 37.5 % of tasks and hurts on 6.25 %;" in shown


def test_one_operation_is_singular() -> None:
    shown = invoke("compose", "plan.plan_and_solve.ps_prompt", "--query", "Return it").stdout
    assert "One patch of 1 operation, hash" in shown


def test_a_choice_is_said_once_and_in_words() -> None:
    shown = invoke("selector", "features", "--query", "Return it").stdout
    assert shown.splitlines()[-1] == "the shipped rules choose: baseline.no_op (rule default)"


@pytest.mark.skipif(find_spec("tau2") is not None, reason="tau2 is installed here")
def test_the_doctor_says_what_an_arena_needs_beside_a_model() -> None:
    shown = invoke("doctor", "--offline").stdout
    assert "arena tau3.retail: ImportError: The arena tau3.retail needs tau2 1.0.1 from its pinned checkout" in shown
    assert "api_base" not in shown
