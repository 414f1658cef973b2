"""The package data: made by the script, complete, and the same model as tau2's."""

from __future__ import annotations

import copy
import json
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

from workers.official_arenas.embedded.arena import DATA_FILES, DATA_ROOT, load_arena, package_arena
from workers.official_arenas.embedded.data_model import ORDER_STATUSES, Database, load_retail_data
from workers.official_arenas.embedded.task_model import load_splits, load_tasks
from workers.official_arenas.embedded.tools import WRITE_TOOLS
from workers.official_arenas.protocol import OfficialArenaError, content_hash
from workers.official_arenas.providers.embedded_retail import EmbeddedRetailProvider

SCRIPTS = Path(__file__).parents[4] / "scripts"


def parsed(name: str) -> Any:
    return json.loads((DATA_ROOT / name).read_bytes())


def test_the_script_gives_the_package_data_byte_for_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(SCRIPTS), *sys.path])
    script = runpy.run_path(str(SCRIPTS / "make_retail_arena.py"))
    script["main"]([str(tmp_path)])
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(DATA_FILES)
    for name in DATA_FILES:
        assert (tmp_path / name).read_bytes() == (DATA_ROOT / name).read_bytes()


def test_the_shop_has_what_the_arena_promises() -> None:
    data = package_arena().data
    assert len(data.products) == 12
    assert all(6 <= len(row["variants"]) <= 10 for row in data.products.values())
    assert any(not variant["available"] for row in data.products.values() for variant in row["variants"].values())
    assert len(data.users) == 24
    assert all(1 <= len(row["payment_methods"]) <= 3 for row in data.users.values())
    assert len(data.orders) == 48
    assert {row["status"] for row in data.orders.values()} == set(ORDER_STATUSES)


def test_the_tasks_are_16_and_8_with_digit_ids_and_cover_every_write() -> None:
    arena = package_arena()
    assert len(arena.splits["train"]) == 16
    assert len(arena.splits["test"]) == 8
    assert all(task_id.isascii() and task_id.isdigit() for task_id in arena.tasks)
    used = {action.name for task in arena.tasks.values() for action in task.actions}
    assert used >= {*WRITE_TOOLS, "transfer_to_human_agents", "calculate"}
    writes = [sum(action.name in WRITE_TOOLS for action in task.actions) for task in arena.tasks.values()]
    assert min(writes) == 0
    assert max(writes) == 2


def test_source_revision_names_the_four_files() -> None:
    expected = content_hash({name: parsed(name) for name in DATA_FILES})[:40]
    assert EmbeddedRetailProvider().source_revision == expected


def test_database_hash_is_the_content_hash_of_the_whole_database() -> None:
    data = package_arena().data
    whole = {
        "orders": {key: dict(row) for key, row in data.orders.items()},
        "products": {key: dict(row) for key, row in data.products.items()},
        "users": {key: dict(row) for key, row in data.users.items()},
    }
    assert Database(data).content_hash() == content_hash(whole)
    database = Database(data)
    order_id = next(iter(data.orders))
    user_id = next(iter(data.users))
    database.writable_order(order_id)["status"] = "cancelled"
    database.writable_user(user_id)["email"] = "é@example.com"
    changed = copy.deepcopy(whole)
    changed["orders"][order_id]["status"] = "cancelled"
    changed["users"][user_id]["email"] = "é@example.com"
    assert database.content_hash() == content_hash(changed)
    assert Database(data).content_hash() == content_hash(whole), "a write of one conversation reached another"


@pytest.mark.parametrize(
    ("path", "value", "named"),
    [
        (("orders", 0, "status"), "lost", "status"),
        (("orders", 0, "surprise"), 1, "surprise"),
        (("users", 0, "email"), None, "email"),
        (("products", 0, "name"), 3, "name"),
        (("orders", 0, "order_id"), "#W0000000", "another id"),
        (("orders", 0, "user_id"), "nobody_here_0000", "user that does not exist"),
        (("users", 0, "orders"), ["#W0000000"], "order that does not exist"),
    ],
)
def test_a_wrong_field_of_the_shop_is_named(path: tuple[str, int, str], value: object, named: str) -> None:
    tables = parsed("db.json")
    table, number, field = path
    list(tables[table].values())[number][field] = value
    with pytest.raises(OfficialArenaError, match=named):
        load_retail_data(tables)


def test_wrong_tasks_and_splits_are_refused() -> None:
    tasks = parsed("tasks.json")
    by_id = load_tasks(tasks)
    with pytest.raises(OfficialArenaError, match="twice"):
        load_tasks([tasks[0], tasks[0]])
    with pytest.raises(OfficialArenaError, match="one predicate"):
        load_tasks([{**tasks[4], "embedded": {**tasks[4]["embedded"], "predicates": []}}])
    with pytest.raises(OfficialArenaError, match="disjoint"):
        load_splits({"train": ["0"], "test": ["0"]}, by_id)
    with pytest.raises(OfficialArenaError, match="train and test"):
        load_splits({"train": ["0"]}, by_id)
    with pytest.raises(OfficialArenaError, match="does not exist"):
        load_splits({"train": ["0"], "test": ["77"]}, by_id)


def test_a_directory_in_the_layout_of_tau2_loads_unchanged(tmp_path: Path) -> None:
    tables = parsed("db.json")
    (tmp_path / "db.json").write_text(json.dumps(tables))
    tasks = [{key: value for key, value in task.items() if key != "embedded"} for task in parsed("tasks.json")]
    tasks[0]["issues"] = ["a field of theirs"]
    (tmp_path / "tasks.json").write_text(json.dumps(tasks))
    (tmp_path / "split_tasks.json").write_text(json.dumps({**parsed("split_tasks.json"), "base": ["0"]}))
    (tmp_path / "policy.md").write_text("# Policy\n")
    arena = load_arena(str(tmp_path))
    assert arena.label == "embedded.retail+tau2-data"
    assert arena.policy == "# Policy\n"
    assert arena.gold_hash("0") == package_arena().gold_hash("0")
    (tmp_path / "policy.md").unlink()
    with pytest.raises(OfficialArenaError, match=r"policy\.md"):
        load_arena(str(tmp_path))


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda criteria: criteria.pop("reward_basis"), r"0\.evaluation_criteria\.reward_basis: Field req.* 1\.0\.1"),
        (lambda criteria: criteria.update(reward_basis=[]), "reward_basis"),
        (lambda criteria: criteria.update(reward_basis=["DB", "ACTION"]), r"reward_basis\.1"),
        (lambda criteria: criteria.update(env_assertions=[{"func_name": "is_on"}]), "env_assertions"),
        (lambda criteria: criteria["actions"][0].update(requestor="user"), r"actions\.0\.requestor"),
    ],
)
def test_what_another_version_of_tau2_scores_by_is_refused_when_it_is_loaded(change: Any, named: str) -> None:
    tasks = parsed("tasks.json")
    change(tasks[0]["evaluation_criteria"])
    with pytest.raises(OfficialArenaError, match=named):
        load_tasks(tasks)


def test_an_order_is_paid_by_a_method_that_its_user_has() -> None:
    tables = parsed("db.json")
    next(iter(tables["orders"].values()))["payment_history"][0]["payment_method_id"] = "paypal_0000000"
    with pytest.raises(OfficialArenaError, match="paid by a method that its user does not have"):
        load_retail_data(tables)
