"""The benchmark cells: what is measured on them, what a number of them needs, and which run here."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any

from agentinputlab.contracts._checks import Record, entries, exact_fields, optional_text, put, text, texts, whole
from agentinputlab.contracts.enums import StrEnum
from agentinputlab.contracts.errors import RegistryError, ValidationError
from agentinputlab.contracts.serialization import content_hash, to_jsonable
from ripieno.canonical import strict_loads
from ripieno.errors import RipienoError
from ripieno.files import open_regular

__all__ = [
    "BenchmarkCell",
    "BenchmarkRegistry",
    "CellGate",
    "CellOrigin",
    "Runnable",
    "TaskKind",
    "load_benchmark_registry",
]

SCHEMA_VERSION = 1
"""The version of the document."""
BENCHMARKS_ID = "agentinputlab.benchmarks.v1"
"""The registry of cells."""
MAX_BYTES = 2**20
"""Longest document that is read."""
_PACKAGED = Path(__file__).parent / "data" / "registry.json"
_IDENTIFIER = re.compile(r"[a-z0-9][a-z0-9_.-]*")
_ROOT_FIELDS = ("schema_version", "registry_id", "expected", "cells")


class TaskKind(StrEnum):
    """What an agent has to do in a cell."""

    RETRIEVAL = "retrieval"
    QUESTION_ANSWERING = "question_answering"
    LONG_CONTEXT = "long_context"
    CLARIFICATION = "clarification"
    FUNCTION_CALLING = "function_calling"
    STATEFUL_TOOLS = "stateful_tools"


class CellGate(StrEnum):
    """What has to be settled before a number of a cell counts."""

    NONE = "none"
    DATA_LICENCE = "data_licence"
    EXTERNAL_RUNTIME = "external_runtime"


class CellOrigin(StrEnum):
    """Whether a cell is a public benchmark or comes with this package; numbers of one never stand for the other."""

    PUBLIC = "public"
    EMBEDDED = "embedded"


class Runnable(StrEnum):
    """Where a cell can be run with this package."""

    HERE = "here"
    WITH_CHECKOUT = "with_checkout"
    NOT_YET = "not_yet"


@dataclass(frozen=True, slots=True)
class BenchmarkCell(Record):
    """One cell.

    Attributes:
        id: its name.
        name: how people call it.
        benchmark: the benchmark it belongs to.
        origin: public, or part of this package.
        task_kind: what an agent has to do.
        metrics: its measures, the first one first.
        gate: what has to be settled before a number counts.
        requires: what running it needs.
        runnable: where it can be run.
        arena: name of the arena that plays it, or None.
        reason: why it cannot be run yet; None when it can.
    """

    id: str
    name: str
    benchmark: str
    origin: CellOrigin
    task_kind: TaskKind
    metrics: tuple[str, ...]
    gate: CellGate
    requires: tuple[str, ...]
    runnable: Runnable
    arena: str | None
    reason: str | None

    def __post_init__(self) -> None:
        if not _IDENTIFIER.fullmatch(text(self.id, "cell.id")):
            raise ValidationError(f"cell.id must match {_IDENTIFIER.pattern}, got {self.id!r:.80}")
        for name in ("name", "benchmark"):
            text(getattr(self, name), f"cell {self.id}: {name}")
        for name in ("arena", "reason"):
            optional_text(getattr(self, name), f"cell {self.id}: {name}")
        put(
            self,
            origin=CellOrigin(self.origin),
            task_kind=TaskKind(self.task_kind),
            metrics=texts(self.metrics, f"cell {self.id}: metrics"),
            gate=CellGate(self.gate),
            requires=texts(self.requires, f"cell {self.id}: requires"),
            runnable=Runnable(self.runnable),
        )
        if not self.metrics:
            raise ValidationError(f"cell {self.id}: metrics must name at least one measure")
        if (self.runnable is Runnable.NOT_YET) != (self.arena is None):
            raise ValidationError(f"cell {self.id}: an arena is named when, and only when, it can be run")
        if (self.runnable is Runnable.NOT_YET) != (self.reason is not None):
            raise ValidationError(f"cell {self.id}: a reason is given when, and only when, it cannot be run")
        if self.runnable is not Runnable.HERE and not self.requires:
            raise ValidationError(f"cell {self.id}: requires must say what running it needs")

    @classmethod
    def from_dict(cls, value: object) -> BenchmarkCell:
        """Give the cell that a document describes; exactly its fields."""
        names = tuple(cls.__slots__)
        return cls(**exact_fields(value, "cell", allowed=names, required=names))

    def as_dict(self) -> dict[str, Any]:
        """Give the cell as JSON values."""
        return to_jsonable(self)


class BenchmarkRegistry:
    """The cells of one document.

    Args:
        document: ``{schema_version: 1, registry_id, expected: {public, embedded}, cells}``.

    Raises:
        RegistryError: a field is unknown, missing or wrong, an id is used twice, or a count is not the expected one.
    """

    def __init__(self, document: Mapping[str, Any]) -> None:
        try:
            root = exact_fields(document, "benchmark registry", allowed=_ROOT_FIELDS, required=_ROOT_FIELDS)
            rows: tuple[object, ...] = entries(root["cells"], "cells", object)
            self._cells = {cell.id: cell for cell in map(BenchmarkCell.from_dict, rows)}
            _check(root, tuple(self._cells.values()), len(rows))
        except ValidationError as error:
            raise RegistryError(f"benchmark registry: {error}") from error
        self.document_hash = content_hash(root)

    def list_cells(
        self,
        *,
        task_kind: TaskKind | str | None = None,
        origin: CellOrigin | str | None = None,
        runnable: Runnable | str | None = None,
    ) -> tuple[BenchmarkCell, ...]:
        """Give the cells of a task kind, origin and place to run, in the order of the document.

        Raises:
            ValidationError: there is no such task kind, origin or place.
        """
        kind = None if task_kind is None else TaskKind(task_kind)
        where = None if runnable is None else Runnable(runnable)
        source = None if origin is None else CellOrigin(origin)
        return tuple(
            cell
            for cell in self._cells.values()
            if kind in (None, cell.task_kind) and source in (None, cell.origin) and where in (None, cell.runnable)
        )

    def get_cell(self, cell_id: str) -> BenchmarkCell:
        """Give one cell.

        Raises:
            RegistryError: there is none; the text names near matches.
        """
        if cell_id not in self._cells:
            near = get_close_matches(cell_id, self._cells, n=3)
            hint = f"; did you mean {', '.join(near)}?" if near else ""
            raise RegistryError(f"unknown benchmark cell: {cell_id}{hint}")
        return self._cells[cell_id]


@cache
def load_benchmark_registry() -> BenchmarkRegistry:
    """Give the registry that comes with the package; it is read once."""
    try:
        with open_regular(_PACKAGED) as stream:
            return BenchmarkRegistry(strict_loads(stream.read(MAX_BYTES + 1), max_bytes=MAX_BYTES))
    except (OSError, RipienoError) as error:
        raise RegistryError(f"cannot read the benchmark registry: {error}") from error


def _check(root: Mapping[str, Any], cells: tuple[BenchmarkCell, ...], rows: int) -> None:
    for name, expected in (("schema_version", SCHEMA_VERSION), ("registry_id", BENCHMARKS_ID)):
        if type(root[name]) is not type(expected) or root[name] != expected:
            raise ValidationError(f"{name} must be {expected}, got {root[name]!r:.80}")
    if len(cells) != rows:
        raise ValidationError("cells must have different ids")
    names = tuple(origin.value for origin in CellOrigin)
    expected_counts = exact_fields(root["expected"], "expected", allowed=names, required=names)
    for origin in CellOrigin:
        wanted = whole(expected_counts[origin.value], f"expected.{origin}")
        found = sum(cell.origin is origin for cell in cells)
        if found != wanted:
            raise ValidationError(f"there are {found} {origin} cells, expected {wanted}")
