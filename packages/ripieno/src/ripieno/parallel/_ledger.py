"""The ledger of a set of cells: what is finished survives a crash and is not run again.

Line 0 of the chain names the function and the hash of all cells; every later line is the end of one cell. The
chain is closed when every cell has a value; until then the same call can go on with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ripieno._portable import from_portable, recordable_text, to_portable
from ripieno.canonical import canonical_json, content_hash, strict_loads
from ripieno.chain import ChainWriter, Entry, walk_chain
from ripieno.errors import InputError, IntegrityError, RipienoError
from ripieno.parallel._outcome import CellOutcome, CellStatus

__all__ = ["CellLedger"]


class CellLedger:
    """The ledger of one set of cells: read when it is made, written between `open` and `close`.

    Attributes:
        finished: outcome of every cell that has a value already, by index.

    Raises:
        InputError: the file belongs to another function or other cells, or the function or a cell cannot be
            named in a record.
        IntegrityError: the file was changed.
    """

    def __init__(
        self, path: Path, function: Callable[..., object], cells: Sequence[object], labels: Sequence[str]
    ) -> None:
        self._path = path
        self._labels = labels
        self._keys = [content_hash(to_portable(cell)) for cell in cells]
        self._header = {"function": _name(function), "cells": content_hash(self._keys), "n_cells": len(cells)}
        self._chain: ChainWriter | None = None
        self.finished: dict[int, CellOutcome[Any]] = {}
        if path.exists():
            _refuse_other_work(path, self._header)
            for entry in walk_chain(path):
                self._take(entry)

    def open(self) -> None:
        """Make the file, or continue it behind its last whole line.

        Raises:
            InputError: another run has it open.
            OSError: it cannot be written.
        """
        if self._path.exists():
            self._chain = ChainWriter.resume(self._path, "batch")
        else:
            self._chain = ChainWriter(self._path, "batch")
        if self._chain.sequence == 0:  # new, or the run that made it died before it could say what for
            self._chain.append(self._header)

    def normalised(self, value: object) -> object:
        """Give the value as a later run will read it: tuples and arrays as lists, keys sorted.

        Raises:
            InputError: the value cannot be recorded.
        """
        if value is None or type(value) is bool or (type(value) is str and value.isascii()):
            return value  # it reads back as it is
        return from_portable(strict_loads(canonical_json(to_portable(value))))

    def record(self, outcome: CellOutcome[Any]) -> None:
        """Write the end of a cell; when this returns it survives the death of this process.

        Raises:
            InputError: the value cannot be recorded, or is too long for a line; nothing was written.
            StorageError: the file system refused.
        """
        if self._chain is None:
            raise RipienoError(f"the ledger {self._path} is not open")
        self._chain.append(
            {
                "index": outcome.index,
                "cell": self._keys[outcome.index],
                "label": recordable_text(outcome.label),
                "status": str(outcome.status),
                "value": to_portable(outcome.value),
                "error": recordable_text(outcome.error),
                "attempts": outcome.attempts,
                "seconds": to_portable(outcome.seconds),
            }
        )

    def close(self, *, complete: bool) -> None:
        """Let go of the file; a complete one gets its closing record."""
        if self._chain is None:
            return
        if complete:
            self._chain.close({"n_cells": len(self._keys)})
        else:
            self._chain.sync()
            self._chain.abandon()

    def _take(self, entry: Entry) -> None:
        payload = entry.payload
        if entry.closing or payload.get("status") != CellStatus.OK:
            return
        index = payload.get("index")
        try:
            if type(index) is int and index >= 0 and payload["cell"] == self._keys[index]:
                self.finished[index] = CellOutcome(
                    index=index,
                    label=self._labels[index],
                    status=CellStatus.OK,
                    value=from_portable(payload["value"]),
                    error="",
                    attempts=int(payload["attempts"]),
                    seconds=float(from_portable(payload["seconds"])),
                    from_ledger=True,
                )
                return
        except (LookupError, TypeError, ValueError):
            pass  # refused below
        line = entry.sequence + 1
        raise IntegrityError(f"{self._path} line {line}: not the record of one of these cells")


def _name(function: Callable[..., object]) -> str:
    name = getattr(function, "__qualname__", "")
    if not name or "<lambda>" in name:
        raise InputError(
            f"with a ledger the cells need a named function, got {function!r}; put its settings into the cells"
        )
    return f"{function.__module__}.{name}"


def _refuse_other_work(path: Path, header: Mapping[str, object]) -> None:
    first = next(iter(walk_chain(path)), None)
    if first is None:
        return
    for key, name in (("function", "function"), ("n_cells", "number of cells"), ("cells", "cells")):
        found = first.payload.get(key)
        if found != header[key]:
            raise InputError(
                f"the ledger {path} belongs to other work: its {name} is {found!r}, here it is {header[key]!r}; "
                f"name another file, or repeat the call that made this one"
            )
