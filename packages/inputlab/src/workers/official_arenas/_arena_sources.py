"""What an arena is made of, as far as it can be found out: the modules it imports and the files it reads."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec, resolve_name
from pathlib import Path
from typing import Any

from workers.official_arenas import _scopes
from workers.official_arenas.protocol import OfficialArenaProvider

__all__ = ["read_but_not_declared", "reads_noted", "undeclared_modules"]

_INSTALLED = frozenset({"site-packages", "dist-packages"})
_PARTS = frozenset({"run_arm", "play", "tasks", "task_ids", "_first_turn", "capture_batch", "source_files"})
_BASE_CLASS = "workers.official_arenas.own_arena"
_noted: list[set[Path]] = []
"""Who wants to know which files are opened; an audit hook cannot be taken off again, so there is one for all."""


def undeclared_modules(provider: OfficialArenaProvider, factory: Callable[[], object]) -> list[str]:
    """Give the modules of the arena's own package that it imports, also within functions, and does not declare.

    Imports are read from the source, from module to module; one that is computed at run time is not seen.
    """
    declared = _declared(provider)
    starts = _arena_modules(provider, factory)
    own = {name.partition(".")[0] for name in starts}
    waiting, seen = sorted(starts), set[str]()
    while waiting:
        name = waiting.pop()
        path = _module_file(name)
        if name in seen or path is None:
            continue
        seen.add(name)
        # What is pinned for every arena alike has its own closure.
        if _is_shared(path):
            continue
        waiting += [found for found in _imports(name, path) if found.partition(".")[0] in own or _beside(found, path)]
    files = {name: path for name in seen if (path := _module_file(name)) is not None}
    return sorted(name for name, path in files.items() if path not in declared and not _is_shared(path))


def read_but_not_declared(
    reads: set[Path], provider: OfficialArenaProvider, factory: Callable[[], object]
) -> list[str]:
    """Give the files in the arena's own package folder that were opened and are not declared."""
    declared, folders = _declared(provider), set[Path]()
    for name in _arena_modules(provider, factory):
        path = _module_file(name)
        if path is not None:
            folders.add(path.parent)
    own = {path for path in reads if path.parent.name != "__pycache__" and any(map(path.is_relative_to, folders))}
    return sorted(path.name for path in own if path not in declared and not _is_shared(path))


@contextmanager
def reads_noted() -> Generator[set[Path]]:
    """Give the set of files that are opened meanwhile."""
    if not _noted:
        sys.addaudithook(_note)
        _noted.append(set())  # keeps the list non-empty: the hook is added once
    reads: set[Path] = set()
    _noted.append(reads)
    try:
        yield reads
    finally:
        _noted.remove(reads)


def _note(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open" and len(_noted) > 1 and isinstance(arguments[0], str):
        path = Path(arguments[0]).absolute()
        for reads in _noted[1:]:
            reads.add(path)


def _arena_modules(provider: OfficialArenaProvider, factory: Callable[[], object]) -> set[str]:
    """Give the modules that define the provider: those of its factory and of every class with a part of an arena."""
    kinds = [kind for kind in type(provider).__mro__ if not _PARTS.isdisjoint(kind.__dict__)]
    if kinds[0].__module__ != _BASE_CLASS:  # which declares itself
        kinds = [kind for kind in kinds if kind.__module__ != _BASE_CLASS]
    return {str(getattr(factory, "__module__", type(provider).__module__)), *(kind.__module__ for kind in kinds)}


def _declared(provider: OfficialArenaProvider) -> set[Path]:
    files: Mapping[str, Path] = {**provider.source_files(), **provider.helper_files()}
    return {path.resolve() for path in files.values()}


def _is_shared(path: Path) -> bool:
    """Tell whether every scope pins a file, whatever its arena."""
    return path in {(_scopes._HERE / name).resolve() for name in (*_scopes._NAMED, *_scopes._INTERNALS)}


def _module_file(name: str) -> Path | None:
    module = sys.modules.get(name)
    if module is not None:
        file = getattr(module, "__file__", None)
        return Path(file).resolve() if isinstance(file, str) and file.endswith(".py") else None
    try:
        spec = find_spec(name)
    except (ImportError, ValueError):
        return None
    origin = None if spec is None else spec.origin
    return Path(origin).resolve() if origin is not None and origin.endswith(".py") else None


def _beside(name: str, path: Path) -> bool:
    """Tell whether a module lies in the folder of an arena that is no package."""
    if "." in name or path.parent.name in _INSTALLED or (path.parent / "__init__.py").exists():
        return False
    found = _module_file(name)
    return found is not None and found.parent == path.parent


def _imports(name: str, path: Path) -> Iterator[str]:
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = resolve_name("." * node.level + (node.module or ""), package) if node.level else node.module or ""
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)
