"""The net that the Petri grammar mutates, read from the JSON-like forms it is described in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

from scpn_phase_orchestrator.exceptions import ValidationError
from scpn_phase_orchestrator.supervisor._review_fields import finite_number, integer, non_empty_text

__all__ = ["Direction", "NetArc", "NetDescription", "NetPlace", "NetTransition", "read_net"]

Direction = Literal["input", "output"]


@dataclass(frozen=True, order=True)
class NetPlace:
    """A place and the most tokens it may hold."""

    name: str
    token_bound: int = 1

    def to_audit_record(self) -> dict[str, Any]:
        """Give the place as JSON values."""
        return {"name": self.name, "token_bound": self.token_bound}


@dataclass(frozen=True, order=True)
class NetTransition:
    """A transition and the weights of the metrics in its guard, in order."""

    name: str
    guard_weights: tuple[tuple[str, float], ...] = ()

    def to_audit_record(self) -> dict[str, Any]:
        """Give the transition as JSON values."""
        guards = [{"metric": metric, "weight": weight} for metric, weight in self.guard_weights]
        return {"name": self.name, "guard_weights": guards}


@dataclass(frozen=True, order=True)
class NetArc:
    """An arc between a place and a transition; ``input`` leads into the transition."""

    place: str
    transition: str
    direction: Direction
    weight: int = 1

    @property
    def key(self) -> tuple[str, str, str]:
        """What two arcs of one net may not share."""
        return self.place, self.transition, self.direction

    def to_audit_record(self) -> dict[str, Any]:
        """Give the arc as JSON values."""
        return {
            "place": self.place,
            "transition": self.transition,
            "direction": self.direction,
            "weight": self.weight,
        }


@dataclass(frozen=True)
class NetDescription:
    """Places, transitions and arcs.

    Raises:
        ValidationError: a name twice, an arc twice, or an arc to something that is not there.
    """

    places: tuple[NetPlace, ...]
    transitions: tuple[NetTransition, ...]
    arcs: tuple[NetArc, ...]

    def __post_init__(self) -> None:
        places = _unique([place.name for place in self.places], "place")
        transitions = _unique([transition.name for transition in self.transitions], "transition")
        seen: set[tuple[str, str, str]] = set()
        for arc in self.arcs:
            if arc.place not in places:
                raise ValidationError(f"an arc names the unknown place {arc.place!r}")
            if arc.transition not in transitions:
                raise ValidationError(f"an arc names the unknown transition {arc.transition!r}")
            if arc.key in seen:
                raise ValidationError(f"the {arc.direction} arc of {arc.place!r} and {arc.transition!r} is there twice")
            seen.add(arc.key)

    def to_audit_record(self) -> dict[str, Any]:
        """Give the net as JSON values."""
        return {
            "places": [place.to_audit_record() for place in self.places],
            "transitions": [transition.to_audit_record() for transition in self.transitions],
            "arcs": [arc.to_audit_record() for arc in self.arcs],
        }


def _unique(names: list[str], kind: str) -> set[str]:
    result = set(names)
    if len(result) != len(names):
        raise ValidationError(f"the {kind} {next(name for name in names if names.count(name) > 1)!r} is there twice")
    return result


def read_net(net: object) -> NetDescription:
    """Read a net.

    Args:
        net: a mapping ``{places, transitions, arcs}``, whose parts are sorted; or a list of records with ``kind:``
            place, transition or arc, which keep their order; or one such record. Places and transitions may be plain
            names, arcs ``[place, transition, direction, weight?]``.

    Raises:
        ValidationError: another form, or a net that `NetDescription` refuses.
    """
    if isinstance(net, Mapping) and "kind" not in net:
        mapping = cast("Mapping[str, Any]", net)
        unknown = sorted(str(key) for key in mapping if key not in ("places", "transitions", "arcs"))
        if unknown:
            raise ValidationError(f"unknown keys of the net: {unknown}; known are arcs, places, transitions")
        return NetDescription(
            places=tuple(sorted(_place(item) for item in _items(mapping, "places"))),
            transitions=tuple(sorted(_transition(item) for item in _items(mapping, "transitions"))),
            arcs=tuple(sorted(_arc(item) for item in _items(mapping, "arcs"))),
        )
    records = [net] if isinstance(net, Mapping) else net
    if isinstance(records, str | bytes) or not isinstance(records, Sequence):
        raise ValidationError(f"a net must be a mapping or a list of records, got {type(net).__name__}")
    by_kind: dict[str, list[Any]] = {"place": [], "transition": [], "arc": []}
    for index, record in enumerate(cast("Sequence[object]", records)):
        kind = cast("Mapping[str, Any]", record).get("kind") if isinstance(record, Mapping) else None
        if kind not in by_kind:
            raise ValidationError(f"record {index} of the net must have kind place, transition or arc, got {kind!r}")
        by_kind[kind].append(record)
    return NetDescription(
        places=tuple(_place(item) for item in by_kind["place"]),
        transitions=tuple(_transition(item) for item in by_kind["transition"]),
        arcs=tuple(_arc(item) for item in by_kind["arc"]),
    )


def _items(mapping: Mapping[str, Any], field: str) -> Sequence[Any]:
    value = mapping.get(field, [])
    if isinstance(value, str | bytes) or not isinstance(value, Sequence):
        raise ValidationError(f"{field} of the net must be a list, got {value!r:.80}")
    return cast("Sequence[Any]", value)


def _fields(item: object, what: str, known: tuple[str, ...]) -> Mapping[str, Any]:
    if not isinstance(item, Mapping):
        raise ValidationError(f"{what} must be a name or a mapping, got {item!r:.80}")
    fields = cast("Mapping[str, Any]", item)
    unknown = sorted(str(key) for key in fields if key not in (*known, "kind"))
    if unknown:
        raise ValidationError(f"unknown keys of {what}: {unknown}; known are {', '.join(known)}")
    return fields


def _place(item: object) -> NetPlace:
    if isinstance(item, str):
        return NetPlace(non_empty_text(item, "name of a place"))
    fields = _fields(item, "a place", ("name", "token_bound"))
    name = non_empty_text(fields.get("name"), "name of a place")
    return NetPlace(name, integer(fields.get("token_bound", 1), f"token_bound of place {name!r}"))


def _transition(item: object) -> NetTransition:
    if isinstance(item, str):
        return NetTransition(non_empty_text(item, "name of a transition"))
    fields = _fields(item, "a transition", ("name", "guard_weights"))
    name = non_empty_text(fields.get("name"), "name of a transition")
    guards = fields.get("guard_weights", ())
    if isinstance(guards, Mapping):
        pairs = sorted(cast("Mapping[Any, Any]", guards).items(), key=lambda pair: str(pair[0]))
    elif isinstance(guards, Sequence) and not isinstance(guards, str | bytes):
        pairs = [_guard_pair(guard, name) for guard in cast("Sequence[object]", guards)]
    else:
        raise ValidationError(f"guard_weights of transition {name!r} must be a mapping or a list, got {guards!r:.80}")
    weights = tuple(
        (non_empty_text(metric, f"metric of transition {name!r}"), finite_number(weight, f"weight of {metric!r}"))
        for metric, weight in pairs
    )
    _unique([metric for metric, _ in weights], f"guard metric of transition {name!r},")
    return NetTransition(name, weights)


def _guard_pair(guard: object, name: str) -> tuple[Any, Any]:
    fields = _fields(guard, f"a guard of transition {name!r}", ("metric", "weight"))
    return fields.get("metric"), fields.get("weight")


def _arc(item: object) -> NetArc:
    names = ("place", "transition", "direction", "weight")
    if isinstance(item, Sequence) and not isinstance(item, str | bytes):
        parts = cast("Sequence[Any]", item)
        if len(parts) not in (3, 4):
            raise ValidationError(f"an arc must be [place, transition, direction, weight?], got {parts!r:.80}")
        fields: Mapping[str, Any] = dict(zip(names, parts, strict=False))
    else:
        fields = _fields(item, "an arc", names)
    direction = fields.get("direction")
    if direction not in ("input", "output"):
        raise ValidationError(f"direction of an arc must be input or output, got {direction!r:.80}")
    return NetArc(
        place=non_empty_text(fields.get("place"), "place of an arc"),
        transition=non_empty_text(fields.get("transition"), "transition of an arc"),
        direction=direction,
        weight=integer(fields.get("weight", 1), "weight of an arc", minimum=1),
    )
