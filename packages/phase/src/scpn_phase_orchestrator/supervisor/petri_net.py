"""Petri nets with weighted arcs and guarded transitions."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from scpn_phase_orchestrator.binding._guard import split_guard
from scpn_phase_orchestrator.exceptions import PolicyError

__all__ = ["COMPARISONS", "Arc", "Guard", "Marking", "PetriNet", "Place", "Transition", "parse_guard"]

COMPARISONS: Mapping[str, Callable[[float, float], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
}
"""The comparisons that guards and rules know."""


@dataclass(frozen=True)
class Place:
    """A place that holds tokens."""

    name: str

    def __post_init__(self) -> None:
        _require_name(self.name, "place")


@dataclass(frozen=True)
class Arc:
    """How many tokens a transition takes from a place or puts there.

    Raises:
        PolicyError: the weight is no integer >= 1.
    """

    place: str
    weight: int = 1

    def __post_init__(self) -> None:
        _require_name(self.place, "place of an arc")
        if type(self.weight) is not int or self.weight < 1:
            raise PolicyError(f"weight of the arc to '{self.place}' must be an integer >= 1, got {self.weight!r}")


@dataclass(frozen=True)
class Guard:
    """A comparison that a context must satisfy.

    Raises:
        PolicyError: an unknown comparison or a threshold that is not finite.
    """

    metric: str
    op: str
    threshold: float

    def __post_init__(self) -> None:
        _require_name(self.metric, "metric of a guard")
        if self.op not in COMPARISONS:
            raise PolicyError(f"comparison of a guard must be one of {', '.join(COMPARISONS)}, got {self.op!r}")
        if not _is_finite_number(self.threshold):
            raise PolicyError(
                f"threshold of the guard on '{self.metric}' must be a finite number, got {self.threshold!r}"
            )

    def evaluate(self, ctx: Mapping[str, float]) -> bool:
        """Whether the context holds the metric and the comparison is true."""
        value = ctx.get(self.metric)
        return value is not None and COMPARISONS[self.op](value, self.threshold)


def parse_guard(text: str) -> Guard:
    """Read a guard from ``metric op number``.

    Raises:
        PolicyError: the text is no such comparison.

    Examples:
        >>> parse_guard("R_0 > 0.7")
        Guard(metric='R_0', op='>', threshold=0.7)
    """
    parts = split_guard(text)
    if parts is None:
        raise PolicyError(f"guard must read '<metric> <op> <number>' with op {' '.join(COMPARISONS)}, got {text!r}")
    return Guard(*parts)


@dataclass(frozen=True)
class Transition:
    """Takes tokens along its input arcs and puts tokens along its output arcs, if its guard lets it."""

    name: str
    inputs: Sequence[Arc]
    outputs: Sequence[Arc]
    guard: Guard | None = None

    def __post_init__(self) -> None:
        _require_name(self.name, "transition")
        object.__setattr__(self, "inputs", tuple(self.inputs))
        object.__setattr__(self, "outputs", tuple(self.outputs))


@dataclass(frozen=True)
class Marking:
    """How many tokens each place holds; places without tokens are left out.

    Raises:
        PolicyError: a count that is no integer >= 0.
    """

    tokens: Mapping[str, int] = field(default_factory=dict[str, int])

    def __post_init__(self) -> None:
        for place, count in self.tokens.items():
            if type(count) is not int or count < 0:
                raise PolicyError(f"tokens of place '{place}' must be an integer >= 0, got {count!r}")
        object.__setattr__(self, "tokens", {place: count for place, count in self.tokens.items() if count})

    def __getitem__(self, place: str) -> int:
        """Tokens of a place, 0 when it holds none."""
        return self.tokens.get(place, 0)


@dataclass(frozen=True)
class _Firing:
    """A transition with arcs to the same place added up, as firing needs them."""

    needs: tuple[tuple[str, int], ...]
    changes: tuple[tuple[str, int], ...]


class PetriNet:
    """Places and transitions; markings are passed through it and never kept.

    Args:
        places: where tokens can be.
        transitions: in the order in which `step` tries them.

    Raises:
        PolicyError: a name is used twice, or an arc leads to an unknown place.

    Examples:
        >>> settle = Transition("settle", [Arc("starting")], [Arc("steady")], parse_guard("R_0 > 0.7"))
        >>> net = PetriNet([Place("starting"), Place("steady")], [settle])
        >>> marking, fired = net.step(Marking({"starting": 1}), {"R_0": 0.8})
        >>> marking.tokens, fired.name
        ({'steady': 1}, 'settle')
    """

    def __init__(self, places: Iterable[Place], transitions: Iterable[Transition]) -> None:
        self.places = tuple(places)
        self.transitions = tuple(transitions)
        self.place_names = frozenset(_unique([place.name for place in self.places], "place"))
        _unique([transition.name for transition in self.transitions], "transition")
        for transition in self.transitions:
            for arc in (*transition.inputs, *transition.outputs):
                if arc.place not in self.place_names:
                    raise PolicyError(f"transition '{transition.name}' has an arc to the unknown place '{arc.place}'")
        self.guard_metrics = frozenset(one.guard.metric for one in self.transitions if one.guard is not None)
        self._firings = {transition.name: _firing_of(transition) for transition in self.transitions}

    def enabled(self, marking: Marking, ctx: Mapping[str, float]) -> list[Transition]:
        """Every transition that may fire: enough tokens at its inputs and no guard in its way."""
        return [transition for transition in self.transitions if self._is_enabled(transition, marking, ctx)]

    def fire(self, marking: Marking, transition: Transition) -> Marking:
        """Give the marking after a transition took and put its tokens; its guard is not asked.

        Raises:
            PolicyError: the transition is not of this net, or an input place holds too few tokens.
        """
        if transition not in self.transitions:
            raise PolicyError(f"transition '{transition.name}' is not part of this net")
        firing = self._firings[transition.name]
        for place, needed in firing.needs:
            if marking[place] < needed:
                raise PolicyError(
                    f"transition '{transition.name}' needs {needed} tokens at '{place}', which holds {marking[place]}"
                )
        tokens = dict(marking.tokens)
        for place, change in firing.changes:
            tokens[place] = tokens.get(place, 0) + change
        return Marking(tokens)

    def step(self, marking: Marking, ctx: Mapping[str, float]) -> tuple[Marking, Transition | None]:
        """Fire the first enabled transition, if there is one; at most one fires."""
        for transition in self.transitions:
            if self._is_enabled(transition, marking, ctx):
                return self.fire(marking, transition), transition
        return marking, None

    def _is_enabled(self, transition: Transition, marking: Marking, ctx: Mapping[str, float]) -> bool:
        tokens = marking.tokens
        for place, needed in self._firings[transition.name].needs:
            if tokens.get(place, 0) < needed:
                return False
        return transition.guard is None or transition.guard.evaluate(ctx)


def _firing_of(transition: Transition) -> _Firing:
    needs: dict[str, int] = {}
    for arc in transition.inputs:
        needs[arc.place] = needs.get(arc.place, 0) + arc.weight
    changes = {place: -needed for place, needed in needs.items()}
    for arc in transition.outputs:
        changes[arc.place] = changes.get(arc.place, 0) + arc.weight
    return _Firing(tuple(needs.items()), tuple(changes.items()))


def _is_finite_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _require_name(name: object, what: str) -> None:
    if not isinstance(name, str) or not name:
        raise PolicyError(f"name of a {what} must be text that is not empty, got {name!r}")


def _unique(names: list[str], what: str) -> list[str]:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise PolicyError(f"{what} '{name}' is declared twice")
        seen.add(name)
    return names
