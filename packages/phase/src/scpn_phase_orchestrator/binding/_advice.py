"""What is legal in a spec but does nothing, does too much, or cannot be achieved."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from scpn_phase_orchestrator.binding._descriptors import nearest
from scpn_phase_orchestrator.binding._document import DocumentError, parse_yaml, plain
from scpn_phase_orchestrator.binding._file import document_text
from scpn_phase_orchestrator.binding._guard import split_guard
from scpn_phase_orchestrator.binding.types import ActuatorMapping, BindingSpec

__all__ = ["advice", "stability_bound"]

_Finding = tuple[str, str]

_MODULATED = frozenset({"K", "alpha", "mu"})
_DRIVE_PHASES = (("physical", "frequency"), ("informational", "cadence_hz"), ("symbolic", "sequence"))
"""Where the loop looks for a drive phase; the first one found wins."""
_BASE_VALUES = {"K": 1.0, "alpha": 0.0}


def advice(spec: BindingSpec) -> list[_Finding]:
    """Every warning as dotted path and message, in the order in which a spec is written."""
    return [
        finding
        for rule in (
            _timing,
            _layers,
            _coupling,
            _drivers,
            _objectives,
            _observed_variables,
            _actuators,
            _modulation,
            _without_effect,
        )
        for finding in rule(spec)
    ]


def stability_bound(spec: BindingSpec) -> float:
    """How far a phase may turn in one substep, in rad: ``dt (max |omega| + max row sum of K + zeta)``.

    An explicit method is stable while this stays below pi.
    """
    omegas = spec.get_omegas()
    if not omegas:
        return 0.0
    rate = max(abs(omega) for omega in omegas) + _largest_row_sum(spec, len(omegas)) + _zeta(spec)
    return spec.sample_period_s / spec.integration.substeps * rate


def _largest_row_sum(spec: BindingSpec, count: int) -> float:
    coupling = spec.coupling
    chosen = None if coupling.template is None else coupling.templates.get(coupling.template)
    if chosen is not None:
        return max((math.fsum(abs(value) for value in row) for row in chosen), default=0.0)
    # Row i sums exp(-decay |i - j|) to both sides; the sum is greatest in the middle.
    middle = (count - 1) // 2
    decay = coupling.decay_alpha
    left, right = (math.fsum(math.exp(-decay * k) for k in range(1, n + 1)) for n in (middle, count - 1 - middle))
    return coupling.base_strength * (left + right)


def _zeta(spec: BindingSpec) -> float:
    return max(float(config.get("zeta", 0.0)) for config in spec.drivers.all_channel_configs().values())


def _timing(spec: BindingSpec) -> Iterator[_Finding]:
    bound = stability_bound(spec)
    if spec.integration.method != "rk45" and bound >= math.pi:
        yield (
            "sample_period_s",
            (
                f"sample_period_s {spec.sample_period_s} is too long for a stable step: phases may turn by {bound:.3g} "
                "rad per substep, which must stay below pi; shorten it, raise integration.substeps or use method rk45"
            ),
        )
    ratio = spec.control_period_s / spec.sample_period_s
    steps = spec.control_interval_steps
    if abs(ratio - steps) > 1e-6 * steps:
        yield (
            "control_period_s",
            f"control_period_s is {ratio:.4g} sample periods; decisions are taken every {steps} step(s)",
        )


def _layers(spec: BindingSpec) -> Iterator[_Finding]:
    names: set[str] = set()
    for position, layer in enumerate(spec.layers):
        place = f"layers[{position}]"
        if not layer.oscillator_ids:
            yield f"{place}.oscillator_ids", f"{place} '{layer.name}' has no oscillators; its R is always 0"
        if layer.name in names:
            yield f"{place}.name", f"{place}.name '{layer.name}' is also the name of a layer before it"
        names.add(layer.name)


def _coupling(spec: BindingSpec) -> Iterator[_Finding]:
    if spec.coupling.templates and spec.coupling.template is None:
        yield "coupling.templates", "coupling.templates are not used by a run; coupling.template names the one to use"
    for position, edge in enumerate(spec.cross_channel_couplings):
        if edge.template is not None and edge.template not in spec.coupling.templates:
            place = f"cross_channel_couplings[{position}].template"
            yield place, f"{place} '{edge.template}' is not among coupling.templates"


def _drivers(spec: BindingSpec) -> Iterator[_Finding]:
    configs = {
        "physical": spec.drivers.physical,
        "informational": spec.drivers.informational,
        "symbolic": spec.drivers.symbolic,
    } | (spec.drivers.extra or {})
    sources = [f"{channel}.{key}" for channel, key in _DRIVE_PHASES if key in configs[channel]]
    for source in sources[1:]:
        yield f"drivers.{source}", f"drivers.{source} has no effect: drivers.{sources[0]} already sets the drive phase"
    for channel, config in configs.items():
        for owner, key in _DRIVE_PHASES:
            if key in config and channel != owner:
                place = f"drivers.{channel}.{key}"
                yield place, f"{place} has no effect; it belongs in drivers.{owner}"
        if "psi" in config and (channel != "physical" or sources):
            why = f"drivers.{sources[0]} sets the drive phase" if sources else "the loop reads drivers.physical.psi"
            yield f"drivers.{channel}.psi", f"drivers.{channel}.psi has no effect: {why}"
    drives = any(actuator.knob == "zeta" and actuator.limits[1] > 0.0 for actuator in spec.actuators)
    if sources and _zeta(spec) == 0.0 and not drives:
        yield f"drivers.{sources[0]}", f"drivers.{sources[0]} has no effect: no driver has a zeta above 0"


def _objectives(spec: BindingSpec) -> Iterator[_Finding]:
    objectives = spec.objectives
    sizes = {layer.index: len(layer.oscillator_ids) for layer in spec.layers}
    for side, wish in (("good_layers", "is coherent whatever happens"), ("bad_layers", "can never lose coherence")):
        indices: list[int] = getattr(objectives, side)
        for index in indices:
            if sizes.get(index) == 1:
                yield f"objectives.{side}", f"objectives.{side}: layer {index} has one oscillator, so it {wish}"
        for index in sorted({index for index in indices if indices.count(index) > 1}):
            yield f"objectives.{side}", f"objectives.{side} names layer {index} more than once"
    for index in sorted(set(objectives.good_layers) & set(objectives.bad_layers)):
        yield "objectives", f"objectives: layer {index} is both good and bad"
    if spec.supervisor.strategy == "mean_coherence" and objectives.bad_layers:
        yield (
            "supervisor.strategy",
            (
                "supervisor.strategy mean_coherence raises the coupling of all layers when the mean is low, bad layers "
                "too; use strategy: objectives to judge good and bad layers one by one"
            ),
        )
    yield from _thresholds(spec)


def _thresholds(spec: BindingSpec) -> Iterator[_Finding]:
    """Targets that chance alone meets, so that a verdict would flatter."""
    target, ceiling = spec.supervisor.good_target, spec.supervisor.bad_ceiling
    good = [layer for layer in spec.layers if layer.index in spec.objectives.good_layers and layer.oscillator_ids]
    for layer in good:
        chance = 1.0 / math.sqrt(len(layer.oscillator_ids))
        if len(layer.oscillator_ids) > 1 and target <= chance:
            yield (
                "supervisor.good_target",
                (
                    f"supervisor.good_target {target:g} is reached by chance: {len(layer.oscillator_ids)} unrelated "
                    f"oscillators, as in layer '{layer.name}', show R of about {chance:.2f}"
                ),
            )
    if spec.objectives.bad_layers and ceiling > 0.9:
        yield (
            "supervisor.bad_ceiling",
            f"supervisor.bad_ceiling {ceiling:g} calls a bad layer apart that is as good as locked (1)",
        )


def _observed(spec: BindingSpec) -> set[str]:
    """Variables that the loop observes."""
    amplitude = {"mean_amplitude", "pac_max", "subcritical_fraction"} if spec.amplitude is not None else set[str]()
    return {"R", *(f"R_{position}" for position in range(len(spec.layers)))} | amplitude


def _observed_variables(spec: BindingSpec) -> Iterator[_Finding]:
    known = _observed(spec)
    names: set[str] = set()
    for position, boundary in enumerate(spec.boundaries):
        place = f"boundaries[{position}]"
        if boundary.variable not in known:
            yield (
                f"{place}.variable",
                f"{place}.variable '{boundary.variable}' is not observed, so the boundary never acts"
                + _one_of(boundary.variable, known),
            )
        if boundary.lower is None and boundary.upper is None:
            yield place, f"{place} '{boundary.name}' has neither lower nor upper and never acts"
        if boundary.name in names:
            yield f"{place}.name", f"{place}.name '{boundary.name}' is also the name of a boundary before it"
        names.add(boundary.name)
    net = spec.protocol_net
    if net is None:
        return
    for position, transition in enumerate(net.transitions):
        guard = split_guard(transition.guard or "")
        if guard is not None and guard[0] not in known:
            place = f"protocol_net.transitions[{position}].guard"
            yield place, f"{place}: '{guard[0]}' is not observed, so it never fires" + _one_of(guard[0], known)
    if not any(net.initial.values()):
        yield "protocol_net.initial", "protocol_net.initial marks no place, so no transition with inputs ever fires"


def _one_of(name: str, known: set[str]) -> str:
    near = nearest(name, known)
    return f"; did you mean '{near}'?" if near else f"; observed are {', '.join(sorted(known))}"


def _actuators(spec: BindingSpec) -> Iterator[_Finding]:
    in_rules = _knobs_of_rules(spec)
    by_strategy = _levers(spec)
    seen: set[tuple[str, str]] = set()
    for position, actuator in enumerate(spec.actuators):
        place = f"actuators[{position}]"
        lever = (actuator.knob, actuator.scope)
        if lever in seen:
            yield place, f"{place} '{actuator.name}' repeats an actuator for {actuator.knob} in {actuator.scope}"
        seen.add(lever)
        if in_rules is not None and lever not in by_strategy | in_rules:
            yield (
                place,
                (
                    f"{place} '{actuator.name}' is never used: neither the strategy {spec.supervisor.strategy} nor "
                    f"a rule sets {actuator.knob} in {actuator.scope}"
                ),
            )
        if actuator.limits[0] == actuator.limits[1] or actuator.rate_limit_per_step == 0.0:
            yield place, f"{place} '{actuator.name}' cannot move: its limits are equal or its rate is 0"
        yield from _base_outside(spec, actuator, place)


def _base_outside(spec: BindingSpec, actuator: ActuatorMapping, place: str) -> Iterator[_Finding]:
    base = _BASE_VALUES.get(actuator.knob, _zeta(spec) if actuator.knob == "zeta" else None)
    low, high = actuator.limits
    if base is None or actuator.resolved_semantics == "increment" or low <= base <= high:
        return
    yield (
        f"{place}.limits",
        (
            f"{place}.limits [{low:g}, {high:g}] of '{actuator.name}' exclude the value {base:g} that {actuator.knob} "
            "has without any action"
        ),
    )


def _levers(spec: BindingSpec) -> set[tuple[str, str]]:
    """Knobs and scopes that the supervisor's strategy may set."""
    levers = {("K", "global"), ("zeta", "global")}
    if spec.supervisor.strategy == "mean_coherence":
        return levers | {("K", f"layer_{layer.index}") for layer in spec.layers}
    for index in (*spec.objectives.good_layers, *spec.objectives.bad_layers):
        levers |= {("K", f"layer_{index}"), ("zeta", f"layer_{index}")}
    return levers | {("alpha", f"layer_{index}") for index in spec.objectives.bad_layers}


def _knobs_of_rules(spec: BindingSpec) -> set[tuple[str, str]] | None:
    """Knobs and scopes that the spec's rule file sets; None when it cannot be told."""
    file = spec.origin.path if spec.origin else None
    if file is None:
        return set() if spec.policy is None else None
    rules = spec.rule_file(file)
    if not rules.is_file():
        return set()
    try:
        return set(_actions(plain(parse_yaml(document_text(rules, "rule file")))))
    except DocumentError:
        return None


def _actions(value: Any) -> Iterator[tuple[str, str]]:
    """Knob and scope of every action, wherever it stands in a rule file."""
    if isinstance(value, dict):
        if isinstance(value.get("knob"), str) and isinstance(value.get("scope"), str):
            yield value["knob"], value["scope"]
        for item in value.values():
            yield from _actions(item)
    elif isinstance(value, list):
        for item in value:
            yield from _actions(item)


def _modulation(spec: BindingSpec) -> Iterator[_Finding]:
    if spec.imprint_model is not None:
        for target in spec.imprint_model.modulates:
            if target not in _MODULATED:
                yield (
                    "imprint_model.modulates",
                    f"imprint_model.modulates: '{target}' has no effect; known are {', '.join(sorted(_MODULATED))}",
                )
            elif target == "mu" and spec.amplitude is None:
                yield "imprint_model.modulates", "imprint_model.modulates: 'mu' has no effect without amplitude"
    prior = spec.geometry_prior
    if prior is None:
        return
    kind = prior.constraint_type.lower()
    if not any(word in kind for word in ("symmetric", "non_negative", "nonneg")):
        yield (
            "geometry_prior.constraint_type",
            (
                f"geometry_prior.constraint_type '{prior.constraint_type}' has no effect; "
                "known are symmetric, non_negative and symmetric_non_negative"
            ),
        )
    if prior.params:
        yield "geometry_prior.params", "geometry_prior.params have no effect"


def _without_effect(spec: BindingSpec) -> Iterator[_Finding]:
    if spec.cross_channel_couplings:
        yield (
            "cross_channel_couplings",
            "cross_channel_couplings describe the channels; they do not change the coupling of a run",
        )
    if spec.value_alignment:
        yield "value_alignment", "value_alignment is recorded; nothing acts on it"
