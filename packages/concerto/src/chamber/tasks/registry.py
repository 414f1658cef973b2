"""Which tasks there are, and how a name becomes an environment."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, TypeVar

from chamber.tasks.spec import TaskSpec

__all__ = ["SUITE_NAME", "SUITE_VERSION", "get", "list_registered", "make", "manifest", "register_task"]

SUITE_NAME = "CHAMBER-Bench"
SUITE_VERSION = "1.0"

_Builder = TypeVar("_Builder", bound=Callable[[], TaskSpec])

_tasks: dict[str, dict[int, TaskSpec]] = {}


def register_task(builder: _Builder) -> _Builder:
    """Build a task and register it; a decorator of functions without arguments.

    Raises:
        ValueError: this version of the task is registered already.
    """
    spec = builder()
    versions = _tasks.setdefault(spec.task_id, {})
    if spec.version in versions:
        raise ValueError(f"task '{spec.slug}' is already registered")
    versions[spec.version] = spec
    return builder


def get(task_id: str, version: int | None = None) -> TaskSpec:
    """Give a task, its latest version by default.

    Raises:
        KeyError: there is none; the message lists what there is.
    """
    if task_id not in _tasks:
        raise KeyError(f"unknown task '{task_id}'; known: {', '.join(sorted(_tasks)) or '<none>'}")
    versions = _tasks[task_id]
    chosen = max(versions) if version is None else version
    if chosen not in versions:
        known = ", ".join(str(number) for number in sorted(versions))
        raise KeyError(f"task '{task_id}' has no version {chosen}; known: {known}")
    return versions[chosen]


def list_registered() -> list[str]:
    """Give the sorted names of all tasks, each with its version."""
    return sorted(spec.slug for versions in _tasks.values() for spec in versions.values())


def make(task_id: str, *, version: int | None = None, **overrides: Any) -> Any:
    """Build the environment of a task.

    Args:
        task_id: its name.
        version: the latest by default.
        overrides: keyword arguments of its factory, on top of the task's own.

    Raises:
        KeyError: there is no such task or version.
        NotImplementedError: the task has no environment.
    """
    spec = get(task_id, version)
    if spec.env_factory is None:
        raise NotImplementedError(
            f"{spec.slug} (tier {spec.tier}) has no environment; chamber.tasks.get({spec.task_id!r}) describes it"
        )
    module, _, attribute = spec.env_factory.rpartition(".")
    factory: Callable[..., Any] = getattr(importlib.import_module(module), attribute)
    return factory(**{**spec.factory_defaults, **overrides})


def manifest() -> dict[str, Any]:
    """Give the whole suite as plain values, in the order of tier, name and version."""
    specs = sorted(
        (spec for versions in _tasks.values() for spec in versions.values()),
        key=lambda spec: (spec.tier, spec.task_id, spec.version),
    )
    return {
        "suite": SUITE_NAME,
        "suite_version": SUITE_VERSION,
        "tasks": [spec.model_dump(mode="json") for spec in specs],
    }
