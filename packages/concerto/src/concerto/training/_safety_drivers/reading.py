"""What a driver reads of the environment, and that it is the one that is stepped."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

from concerto.safety.api import AgentSnapshot
from concerto.training.protocols import EnvLike
from ripieno.errors import InputError

__all__ = ["SnapshotBuilder", "layers_of", "require_builder_reads"]

SnapshotBuilder = Callable[[Any], Mapping[str, AgentSnapshot]]
"""Gives the snapshot of every robot in the environment that it is called with."""


def require_builder_reads(env: Any, builder: SnapshotBuilder) -> None:
    """Refuse a snapshot builder that holds on to another environment than the one that is stepped.

    Such a builder shows the safety layer a world that never moves. Looked at are the object that a method is bound to,
    the arguments of a `functools.partial`, and the variables that a function or lambda closes over.

    Raises:
        InputError: (a ValueError) an environment is held that is neither the stepped one nor a layer of it.
    """
    from concerto.safety.stack import SafetyStack

    own = list(layers_of(env))
    for held in _held_by(builder):
        is_env = isinstance(held, EnvLike) and not isinstance(held, SafetyStack | type)
        if is_env and not any(layer is mine for layer in layers_of(held) for mine in own):
            raise InputError(
                f"safety_snapshot_builder reads another environment ({type(held).__name__}) than the one that is "
                f"stepped ({type(env).__name__}): it must read the environment that it is called with"
            )


def layers_of(env: Any) -> Iterator[Any]:
    """Give an environment and everything that it wraps, outermost first."""
    seen: set[int] = set()
    while env is not None and id(env) not in seen:
        seen.add(id(env))
        yield env
        env = getattr(env, "env", None)


def _held_by(builder: Any, depth: int = 4) -> Iterator[Any]:
    """Give what a callable holds on to: its object, its bound arguments, and the variables it closes over."""
    held: list[Any] = [getattr(builder, "__self__", None)]
    if isinstance(builder, functools.partial):
        partial = cast("functools.partial[Any]", builder)
        held += [partial.func, *partial.args, *partial.keywords.values()]
    for cell in getattr(builder, "__closure__", None) or ():
        try:
            held.append(cell.cell_contents)
        except ValueError:  # a variable that was never assigned
            continue
    for value in held:
        if value is None:
            continue
        yield value
        if depth > 0 and callable(value) and not isinstance(value, EnvLike | type):
            yield from _held_by(value, depth - 1)
