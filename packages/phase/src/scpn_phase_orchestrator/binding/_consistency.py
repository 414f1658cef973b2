"""How the parts of a spec must fit together, beyond what each one may say by itself."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import PurePath
from typing import Any, TypeVar

from scpn_phase_orchestrator.binding._descriptors import nearest
from scpn_phase_orchestrator.binding._guard import split_guard
from scpn_phase_orchestrator.binding.channel_algebra import build_channel_algebra_report
from scpn_phase_orchestrator.binding.types import VALID_CHANNELS, ActuatorMapping, BindingSpec, ProtocolNetSpec

__all__ = ["inconsistencies"]

_Finding = tuple[str, str]
_Key = TypeVar("_Key")

MAX_SUBSTEPS = 1_000_000
"""Most parts of a step; compiled code takes them all before anybody can interrupt it."""
_VERSION = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+\Z")
_REGIMES = frozenset({"NOMINAL", "DEGRADED", "CRITICAL", "RECOVERY"})


def inconsistencies(spec: BindingSpec) -> list[_Finding]:
    """Every contradiction as dotted path and message, in the order in which a spec is written."""
    return [
        finding
        for rule in (
            _identity,
            _timing,
            _layers,
            _templates,
            _channels,
            _derived_channels,
            _missing_evidence,
            _channel_groups,
            _cross_couplings,
            _objectives,
            _actuators,
            _protocol_net,
            _policy,
        )
        for finding in rule(spec)
    ]


def _identity(spec: BindingSpec) -> Iterator[_Finding]:
    if not spec.name.strip():
        yield "name", "name must not be empty"
    if not _VERSION.match(spec.version):
        yield "version", f"version must be three numbers such as 0.1.0, got {spec.version!r}"


def _timing(spec: BindingSpec) -> Iterator[_Finding]:
    if spec.control_period_s < spec.sample_period_s:
        yield (
            "control_period_s",
            f"control_period_s must be >= sample_period_s {spec.sample_period_s}, got {spec.control_period_s}",
        )
    elif not math.isfinite(spec.control_period_s / spec.sample_period_s):
        yield (
            "control_period_s",
            f"control_period_s {spec.control_period_s} is no countable number of periods of {spec.sample_period_s}",
        )
    if spec.integration.substeps > MAX_SUBSTEPS:
        place = "integration.substeps"
        yield place, f"{place} must be at most {MAX_SUBSTEPS}, got {spec.integration.substeps}"


def _layers(spec: BindingSpec) -> Iterator[_Finding]:
    if not spec.layers:
        yield "layers", "layers must hold at least one layer"
        return
    if not any(layer.oscillator_ids for layer in spec.layers):
        yield "layers", "no oscillators defined in layers"
    for position, index in _repeated([layer.index for layer in spec.layers]):
        yield f"layers[{position}].index", f"layers[{position}].index {index} is taken by a layer before it"
    seen: set[str] = set()
    for position, layer in enumerate(spec.layers):
        place = f"layers[{position}]"
        for name in layer.oscillator_ids:
            if name in seen:
                yield f"{place}.oscillator_ids", f"{place}.oscillator_ids: duplicate oscillator id '{name}'"
            seen.add(name)
        if layer.omegas is not None and len(layer.omegas) != len(layer.oscillator_ids):
            yield (
                f"{place}.omegas",
                (
                    f"{place}.omegas must have one number per oscillator: "
                    f"{len(layer.oscillator_ids)}, got {len(layer.omegas)}"
                ),
            )
        if layer.family is not None and layer.family not in spec.oscillator_families:
            yield (
                f"{place}.family",
                f"{place}.family '{layer.family}' is not defined in oscillator_families"
                + _suggestion(layer.family, spec.oscillator_families),
            )


def _templates(spec: BindingSpec) -> Iterator[_Finding]:
    count = sum(len(layer.oscillator_ids) for layer in spec.layers)
    chosen = spec.coupling.template
    if chosen is not None and chosen not in spec.coupling.templates:
        place = "coupling.template"
        yield (
            place,
            f"{place} '{chosen}' is not among coupling.templates" + _suggestion(chosen, spec.coupling.templates),
        )
    for name, rows in spec.coupling.templates.items():
        place = f"coupling.templates.{name}"
        if len(rows) != count or any(len(row) != count for row in rows):
            yield place, f"{place} must be {count} rows of {count} numbers, one per oscillator"
        elif any(rows[index][index] != 0.0 for index in range(count)):
            yield place, f"{place} must have a zero diagonal"


def _channels(spec: BindingSpec) -> Iterator[_Finding]:
    declared = spec.channels
    for name, family in spec.oscillator_families.items():
        if family.channel not in VALID_CHANNELS and family.channel not in declared:
            place = f"oscillator_families.{name}.channel"
            yield place, f"{place} '{family.channel}' is neither P, I nor S and must be declared under channels"
    for channel in spec.drivers.extra or {}:
        if channel not in declared:
            yield f"drivers.{channel}", f"drivers.{channel}: channel '{channel}' must be declared under channels"


def _derived_channels(spec: BindingSpec) -> Iterator[_Finding]:
    known = _known_channels(spec)
    for name, channel in spec.channels.items():
        place = f"channels.{name}"
        for source in channel.derived_from:
            if source == name:
                yield f"{place}.derived_from", f"{place}.derived_from must not name the channel itself"
            elif source not in known:
                yield (
                    f"{place}.derived_from",
                    f"{place}.derived_from names unknown channel '{source}'" + _suggestion(source, known),
                )
        if channel.derived_from:
            if not channel.derive_rule:
                yield place, f"{place} is derived and needs a derive_rule"
            if channel.replay_semantics != "derived":
                yield (
                    f"{place}.replay_semantics",
                    f"{place} is derived, so replay_semantics must be 'derived', got '{channel.replay_semantics}'",
                )
            continue
        if channel.replay_semantics == "derived":
            yield f"{place}.replay_semantics", f"{place} has replay_semantics 'derived' but no derived_from"
        if channel.derive_rule:
            yield f"{place}.derive_rule", f"{place} has a derive_rule but no derived_from"
    for name in _circular(spec):
        yield f"channels.{name}.derived_from", f"channels.{name} is derived from itself through other channels"


def _missing_evidence(spec: BindingSpec) -> Iterator[_Finding]:
    for name in build_channel_algebra_report(spec).missing_required:
        yield f"channels.{name}", f"channels.{name} is required and needs an oscillator family or driver settings"


def _known_channels(spec: BindingSpec) -> set[str]:
    families = {family.channel for family in spec.oscillator_families.values()}
    return families | set(spec.drivers.all_channel_configs()) | set(spec.channels)


def _circular(spec: BindingSpec) -> list[str]:
    """Channels on a circle of two or more derivations."""
    sources = {name: [one for one in channel.derived_from if one != name] for name, channel in spec.channels.items()}
    circular: list[str] = []
    for name, direct in sources.items():
        reached: set[str] = set()
        pending = list(direct)
        while pending:
            one = pending.pop()
            if one not in reached:
                reached.add(one)
                pending.extend(sources.get(one, ()))
        if name in reached:
            circular.append(name)
    return circular


def _channel_groups(spec: BindingSpec) -> Iterator[_Finding]:
    known = _known_channels(spec)
    for name, group in spec.channel_groups.items():
        place = f"channel_groups.{name}.channels"
        if not group.channels:
            yield place, f"{place} must not be empty"
        for channel in group.channels:
            if channel not in known:
                yield place, f"{place} names unknown channel '{channel}'" + _suggestion(channel, known)


def _cross_couplings(spec: BindingSpec) -> Iterator[_Finding]:
    known = _known_channels(spec)
    for position, edge in enumerate(spec.cross_channel_couplings):
        place = f"cross_channel_couplings[{position}]"
        for end, channel in (("source", edge.source), ("target", edge.target)):
            if channel not in known:
                yield f"{place}.{end}", f"{place}.{end} names unknown channel '{channel}'" + _suggestion(channel, known)
        if edge.source == edge.target:
            yield place, f"{place} must join two different channels, got '{edge.source}' twice"


def _objectives(spec: BindingSpec) -> Iterator[_Finding]:
    objectives = spec.objectives
    if not objectives.good_layers and not objectives.bad_layers:
        yield "objectives", "objectives must name at least one good or bad layer"
    known = sorted({layer.index for layer in spec.layers})
    for side in ("good_layers", "bad_layers"):
        for index in getattr(objectives, side):
            if index not in known:
                declared = ", ".join(map(str, known)) or "none"
                yield (
                    f"objectives.{side}",
                    f"objectives.{side} names layer {index}, which does not exist (declared indices: {declared})",
                )


def _actuators(spec: BindingSpec) -> Iterator[_Finding]:
    scopes = {"global", *(f"layer_{layer.index}" for layer in spec.layers)}
    first: dict[tuple[str, str], ActuatorMapping] = {}
    for position, actuator in enumerate(spec.actuators):
        place = f"actuators[{position}]"
        if actuator.scope not in scopes:
            yield (
                f"{place}.scope",
                f"{place}.scope '{actuator.scope}' names no layer; scopes of this spec: {', '.join(sorted(scopes))}",
            )
        if spec.supervisor.strategy == "objectives" and actuator.resolved_semantics != "value":
            yield (
                f"{place}.semantics",
                (
                    f"{place}: the strategy 'objectives' bounds resulting values, but '{actuator.name}' bounds "
                    "increments; set semantics: value, and limits of the knob itself (for K the gain, 1.0 as declared)"
                ),
            )
        other = first.setdefault((actuator.knob, actuator.scope), actuator)
        if _bounds(other) != _bounds(actuator):
            yield (
                place,
                (
                    f"{place}: conflicting value bounds for actuator knob '{actuator.knob}' in scope "
                    f"'{actuator.scope}': '{other.name}' and '{actuator.name}' differ in limits, rate or semantics"
                ),
            )


def _bounds(actuator: ActuatorMapping) -> tuple[Any, ...]:
    return actuator.limits, actuator.rate_limit_per_step, actuator.resolved_semantics


def _protocol_net(spec: BindingSpec) -> Iterator[_Finding]:
    net = spec.protocol_net
    if net is None:
        return
    places = set(net.places)
    if not places:
        yield "protocol_net.places", "protocol_net.places must not be empty"
    for position, name in _repeated(net.places):
        yield f"protocol_net.places[{position}]", f"protocol_net.places: '{name}' is there twice"
    if not net.place_regime:
        yield "protocol_net.place_regime", "protocol_net.place_regime must give the regime of at least one place"
    for name, regime in net.place_regime.items():
        if regime.upper() not in _REGIMES:
            yield (
                f"protocol_net.place_regime.{name}",
                f"protocol_net.place_regime.{name} must be one of {', '.join(sorted(_REGIMES))}, got '{regime}'",
            )
    for path, name in _named_places(net):
        if name not in places:
            yield path, f"{path} names unknown place '{name}'" + _suggestion(name, places)
    for position, _ in _repeated([transition.name for transition in net.transitions]):
        name = net.transitions[position].name
        yield f"protocol_net.transitions[{position}].name", f"protocol_net.transitions: '{name}' is there twice"
    for position, transition in enumerate(net.transitions):
        if transition.guard and split_guard(transition.guard) is None:
            place = f"protocol_net.transitions[{position}].guard"
            yield place, f"{place} must be 'metric op number' with op one of > >= < <= ==, got {transition.guard!r}"


def _named_places(net: ProtocolNetSpec) -> Iterator[tuple[str, str]]:
    for key, names in (("initial", net.initial), ("place_regime", net.place_regime)):
        for name in names:
            yield f"protocol_net.{key}.{name}", name
    for position, transition in enumerate(net.transitions):
        for side, arcs in (("inputs", transition.inputs), ("outputs", transition.outputs)):
            for number, arc in enumerate(arcs):
                yield f"protocol_net.transitions[{position}].{side}[{number}].place", arc["place"]


def _policy(spec: BindingSpec) -> Iterator[_Finding]:
    if spec.policy is None:
        return
    if PurePath(spec.policy).name != spec.policy or "\\" in spec.policy or not spec.policy.endswith((".yaml", ".yml")):
        yield "policy", f"policy must be the name of a .yaml file beside the spec, got {spec.policy!r}"
        return
    file = spec.origin.path if spec.origin else None
    if file is not None and not (file.parent / spec.policy).is_file():
        yield "policy", f"policy names {spec.policy!r}, but {file.parent} holds no such file"


def _repeated(keys: list[_Key]) -> Iterator[tuple[int, _Key]]:
    """Position and value of every element that an earlier one equals."""
    seen: set[_Key] = set()
    for position, key in enumerate(keys):
        if key in seen:
            yield position, key
        seen.add(key)


def _suggestion(name: str, known: Any) -> str:
    near = nearest(name, known)
    return f"; did you mean '{near}'?" if near else ""
