"""What interpolations such as ``${happo.lr}`` would lead to, found out before any of them is resolved."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from ripieno.errors import InputError

__all__ = ["Interpolations"]

_INNERMOST = re.compile(r"\$\{([^${}]*)\}")
_RESOLVER = re.compile(r"\s*([\w.]+)\s*:(.*)", re.DOTALL)
_ENVIRONMENT = "oc.env"
_INNER = "\0"
"""Stands for an interpolation inside another one; no configuration file can contain it."""
_Path = tuple[str, ...]


class Interpolations:
    """The values of a configuration that have interpolations, and what these refer to.

    A dozen short values that each name the next one twice write out to millions: the resolver keeps no result.

    Args:
        values: nested mappings and lists, unresolved.

    Raises:
        InputError: an interpolation names another one by an interpolation, so what it refers to is not known.
    """

    def __init__(self, values: object) -> None:
        self._nodes = dict(_walk(values, ()))
        self._targets = {path: list(self._found(text, path)) for path, text in self._texts()}
        self._written_out: dict[_Path, int] = {}
        self._of_environment: dict[_Path, bool] = {}

    def count(self, *, most: int) -> int:
        """Count the values that are looked up when all interpolations are written out; stop soon after ``most``."""
        total = 0
        for path in self._targets:
            total += self._count(path)
            if total > most:
                break
        return total

    def environment_keys(self) -> list[str]:
        """Give the dotted keys whose values depend on an environment variable, also by way of other keys."""
        return [".".join(path) for path in self._targets if self._asks_environment(path)]

    def _texts(self) -> Iterator[tuple[_Path, str]]:
        for path, node in self._nodes.items():
            if isinstance(node, str) and "${" in node:
                yield path, node

    def _found(self, text: str, path: _Path) -> Iterator[_Path]:
        """Give what the interpolations of one value refer to."""
        while (match := _INNERMOST.search(text)) is not None:
            call = _RESOLVER.fullmatch(match[1])
            names = [match[1]] if call is None else call[2].split(",")
            for name in names:
                if _INNER not in name:
                    yield from self._existing(name.strip(), path)
                elif call is None or call[1] == "oc.select":
                    raise InputError(f"is no configuration: {'.'.join(path)} refers to a key that is itself looked up")
            text = text[: match.start()] + _INNER + text[match.end() :]

    def _existing(self, name: str, path: _Path) -> Iterator[_Path]:
        """Give the node that a name means, or the last one on the way there: that one may be looked up itself."""
        bare = name.lstrip(".")
        n_dots = len(name) - len(bare)
        parts = tuple(part for part in re.split(r"[.\[\]]+", bare) if part)
        target = (path[: len(path) - n_dots] if n_dots else ()) + parts
        while target:
            if target in self._nodes:
                yield target
                return
            target = target[:-1]

    def _below(self, path: _Path) -> Iterator[_Path]:
        node = self._nodes[path]
        if isinstance(node, Mapping):
            yield from ((*path, str(key)) for key in cast("Mapping[object, object]", node))
        elif isinstance(node, list):
            yield from ((*path, str(index)) for index in range(len(cast("list[object]", node))))

    def _count(self, path: _Path) -> int:
        if path not in self._written_out:
            self._written_out[path] = 0  # of a circle, which the resolver refuses
            parts = [*self._targets.get(path, ()), *self._below(path)]
            self._written_out[path] = 1 + sum(map(self._count, parts))
        return self._written_out[path]

    def _asks_environment(self, path: _Path) -> bool:
        if path not in self._of_environment:
            self._of_environment[path] = False
            node = self._nodes[path]
            asks = isinstance(node, str) and re.search(rf"\$\{{\s*{re.escape(_ENVIRONMENT)}\s*:", node) is not None
            parts = [*self._targets.get(path, ()), *self._below(path)]
            self._of_environment[path] = asks or any(map(self._asks_environment, parts))
        return self._of_environment[path]


def _walk(value: object, path: _Path) -> Iterator[tuple[_Path, object]]:
    if path:
        yield path, value
    if isinstance(value, Mapping):
        for key, item in cast("Mapping[object, object]", value).items():
            yield from _walk(item, (*path, str(key)))
    elif isinstance(value, list):
        for index, item in enumerate(cast("Sequence[object]", value)):
            yield from _walk(item, (*path, str(index)))
