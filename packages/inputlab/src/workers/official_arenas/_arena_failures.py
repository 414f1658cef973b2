"""What stopped a check of an arena, and which checks were stopped by the same thing."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass

__all__ = ["Failure", "failure_of", "groups_of"]

_NOT_THE_AUTHORS = frozenset({"workers", "agentinputlab", "ripieno", "abc", "builtins", "typing"})


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a check does not hold.

    Attributes:
        text: of the exception, or of what the check observed.
        shown: the same with type, place and cause, for the author of the arena.
        place: ``file:line`` of the arena's own code; empty where none took part.
        was_observed: whether the check came to its end and found that its clause does not hold.
    """

    text: str
    shown: str
    place: str
    was_observed: bool


def failure_of(error: Exception, factory: Callable[[], object]) -> Failure:
    """Describe an exception: type, message, the line of the arena's own code that it came from, and its cause."""
    place = _own_place(error, factory)
    shown = f"raised {type(error).__name__}: {error}"
    if error.__cause__ is not None:
        shown += f" (because of {type(error.__cause__).__name__}: {error.__cause__})"
    return Failure(str(error), f"{shown} at {place}" if place else shown, place, was_observed=False)


def groups_of(failures: Sequence[tuple[str, Failure]]) -> list[list[str]]:
    """Put the names of checks together that the same thing stopped; the one that tells most comes first.

    The same thing is the same text or the same line of the arena. A check that observed something of its own is
    stopped by nothing, but what it observed may have stopped others.
    """
    groups: list[list[tuple[str, Failure]]] = [[(name, failure)] for name, failure in failures if failure.was_observed]
    for name, failure in failures:
        if failure.was_observed:
            continue
        same = next((group for group in groups if any(_is_same(failure, other) for _, other in group)), None)
        if same is None:
            groups.append([(name, failure)])
        else:
            same.append((name, failure))
    return [[name for name, _ in group] for group in groups]


def _is_same(one: Failure, other: Failure) -> bool:
    return one.text == other.text or bool(one.place and one.place == other.place)


def _own_place(error: BaseException, factory: Callable[[], object]) -> str:
    """Give the innermost line of the arena's own modules, of the first cause where that has one."""
    kind = factory if isinstance(factory, type) else None
    modules = {str(getattr(factory, "__module__", ""))} | {base.__module__ for base in (kind.__mro__ if kind else ())}
    tops = {name.partition(".")[0] for name in modules} - _NOT_THE_AUTHORS
    place, current = "", error
    while True:
        for frame, line in traceback.walk_tb(current.__traceback__):
            name = str(frame.f_globals.get("__name__"))
            if name.partition(".")[0] in tops:
                place = f"{frame.f_code.co_filename}:{line}"
        following = current.__cause__ or (None if current.__suppress_context__ else current.__context__)
        if following is None:
            return place
        current = following
