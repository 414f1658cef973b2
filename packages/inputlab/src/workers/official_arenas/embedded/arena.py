"""The content of the arena: our own package data, or the data files of a tau2 checkout, unchanged."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

from ripieno.canonical import strict_loads
from ripieno.errors import InputError, IntegrityError
from workers.official_arenas._reading import read_bound_bytes
from workers.official_arenas.embedded.data_model import RetailData, load_retail_data
from workers.official_arenas.embedded.scorer import gold_database_hash
from workers.official_arenas.embedded.task_model import Task, load_splits, load_tasks
from workers.official_arenas.protocol import OfficialArenaError, content_hash

__all__ = [
    "DATA_FILES",
    "DATA_ROOT",
    "INTERVENTION_RULES",
    "OWN_LABEL",
    "TAU2_LABEL",
    "Arena",
    "load_arena",
    "package_arena",
]

DATA_ROOT = Path(__file__).parent / "data"
DATA_FILES = ("db.json", "policy.json", "split_tasks.json", "tasks.json")
"""The four package data files."""
INTERVENTION_RULES = DATA_ROOT / "intervention_rules.yaml"
"""Scripted replies for interventions that ask a model; no part of what decides an arm."""
OWN_LABEL = "embedded.retail"
TAU2_LABEL = "embedded.retail+tau2-data"

_TAU2_FILES = ("db.json", "policy.md", "split_tasks.json", "tasks.json")
_MAX_FILE_BYTES = 64 * 2**20


@dataclass(frozen=True, slots=True)
class Arena:
    """Everything that conversations start from. Shared by all of them and never changed.

    Attributes:
        label: which content this is.
        data: the shop.
        tasks: tasks by id.
        splits: task ids per split, in official order.
        policy: text of the policy.
        content_sha256: hash of the four files.
    """

    label: str
    data: RetailData
    tasks: Mapping[str, Task]
    splits: Mapping[str, tuple[str, ...]]
    policy: str
    content_sha256: str
    _gold: dict[str, str] = field(default_factory=dict[str, str], repr=False)

    def gold_hash(self, task_id: str) -> str:
        """Give the hash of the database after a task's gold actions; computed once."""
        if task_id not in self._gold:
            self._gold[task_id] = gold_database_hash(self.data, self.tasks[task_id])
        return self._gold[task_id]


@lru_cache(maxsize=1)
def package_arena() -> Arena:
    """Give our own arena; its files are read once per process."""
    files = {name: _parsed(DATA_ROOT / name) for name in DATA_FILES}
    policy = cast("dict[str, Any]", files["policy.json"])
    tasks = load_tasks(files["tasks.json"])
    return Arena(
        OWN_LABEL,
        load_retail_data(files["db.json"]),
        tasks,
        load_splits(files["split_tasks.json"], tasks),
        "\n".join(policy["lines"]),
        content_hash(files),
    )


def load_arena(data_dir: str | None) -> Arena:
    """Give our own arena, or that of a directory with tau2's ``db.json, tasks.json, split_tasks.json, policy.md``.

    Raises:
        OfficialArenaError: a file is missing, linked, too long or malformed; the message names it.
    """
    if data_dir is None:
        return package_arena()
    raw = {name: _read(Path(data_dir) / name) for name in _TAU2_FILES}
    digest = content_hash({name: hashlib.sha256(data).hexdigest() for name, data in raw.items()})
    return _foreign_arena(digest, tuple(raw.values()))


@lru_cache(maxsize=2)
def _foreign_arena(digest: str, raw: tuple[bytes, ...]) -> Arena:
    files = dict(zip(_TAU2_FILES, raw, strict=True))
    tasks = load_tasks(_json("tasks.json", files["tasks.json"]))
    try:
        policy = files["policy.md"].decode()
    except UnicodeDecodeError as error:
        raise OfficialArenaError("Retail data file policy.md is not UTF-8") from error
    return Arena(
        TAU2_LABEL,
        load_retail_data(_json("db.json", files["db.json"])),
        tasks,
        load_splits(_json("split_tasks.json", files["split_tasks.json"]), tasks),
        policy,
        digest,
    )


def _read(path: Path) -> bytes:
    try:
        return read_bound_bytes(path, max_bytes=_MAX_FILE_BYTES)
    except (OSError, IntegrityError, InputError) as error:
        raise OfficialArenaError(f"Retail data file {path.name} must be a readable regular file") from error


def _json(name: str, data: bytes) -> object:
    try:
        return strict_loads(data, max_bytes=_MAX_FILE_BYTES)
    except InputError as error:
        raise OfficialArenaError(f"Retail data file {name} is not strict JSON") from error


def _parsed(path: Path) -> object:
    return _json(path.name, _read(path))
