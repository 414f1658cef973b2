"""Numbers and words on the terminal are those that were given and meant."""

from __future__ import annotations

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
