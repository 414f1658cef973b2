"""A pack of one's own that runs at once and shows what supervision does.

The numbers follow from the layers by mean-field arguments (Kuramoto 1975; Strogatz, Physica D 143, 2000). ``N``
oscillators that all feel each other alike with strength ``K/N``, natural frequencies even on ``[-w, w]``, lock as one
when ``K`` exceeds ``4w/pi``.

* With a bad layer, ``K`` is strong enough that open loop *everything* locks, the bad layers too. The good layers are
  narrow enough to hold by the coupling among themselves, so the supervisor can take that of the bad layers away.
* With good layers only, ``K`` stays below the threshold: open loop they drift apart, and the supervisor has to raise
  it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from scpn_phase_orchestrator.binding.loader import SPEC_FILE_NAME, parse_binding_spec
from scpn_phase_orchestrator.binding.types import BindingSpec
from scpn_phase_orchestrator.binding.validator import binding_warnings, validate_binding_spec
from scpn_phase_orchestrator.exceptions import BindingError
from scpn_phase_orchestrator.scaffold.folder import check_name
from scpn_phase_orchestrator.scaffold.yaml_text import flow_list, plain_scalar

__all__ = ["DEFAULT_LAYERS", "LayerPlan", "new_pack", "parse_layer"]

MAX_LAYERS = 64
MAX_OSCILLATORS = 1000
"""Most oscillators of a written pack; a spec may hold more."""

STRONG = 4.0
"""Coupling K in rad/s where bad layers have to lock without supervision."""
BAD_WIDTH = 0.3
"""Half-width of the frequencies of bad layers, as a share of K; locking needs less than pi/4."""
GOOD_WIDTH = 0.35
"""Half-width of the frequencies of good layers, as a share of the coupling among good layers alone."""
LOOSE_WIDTH = 1.0
"""Half-width in rad/s of the frequencies where there are good layers only."""
LOOSE = 0.6
"""Coupling there, as a share of the threshold of locking."""
SAMPLE_PERIOD_S = 0.05
STEPS_PER_DECISION = 10


@dataclass(frozen=True)
class LayerPlan:
    """A layer that somebody wants: its name, number of oscillators, and whether they should be together or apart."""

    name: str
    count: int
    objective: Literal["good", "bad"]

    @property
    def is_good(self) -> bool:
        """Whether it should hold together."""
        return self.objective == "good"


DEFAULT_LAYERS = (LayerPlan("together", 4, "good"), LayerPlan("apart", 4, "bad"))
"""What a pack holds when nothing else is said."""


def parse_layer(text: str) -> LayerPlan:
    """Read a layer from ``NAME:COUNT:good|bad``.

    Raises:
        BindingError: another form, a name with other characters, fewer than two oscillators or too many.

    Examples:
        >>> parse_layer("pumps:3:good")
        LayerPlan(name='pumps', count=3, objective='good')
    """
    parts = text.split(":")
    if len(parts) != 3:
        raise BindingError(f"layer {text!r:.120} must be NAME:COUNT:good|bad, like pumps:3:good")
    name, count, objective = parts
    check_name(name, f"name of layer {text!r:.120}")
    if not (count.isascii() and count.isdecimal() and len(count) < 6 and 2 <= int(count) <= MAX_OSCILLATORS):
        raise BindingError(
            f"layer {text!r:.120}: COUNT must be a whole number from 2 to {MAX_OSCILLATORS} (one oscillator alone is "
            "neither together nor apart)"
        )
    if objective in ("good", "bad"):
        return LayerPlan(name, int(count), objective)
    raise BindingError(f"layer {text!r:.120}: must end with good (should hold together) or bad (should stay apart)")


def new_pack(name: str, layers: Sequence[LayerPlan] = DEFAULT_LAYERS) -> dict[str, str]:
    """Give the files of a pack: a valid spec without a warning, a rule file and a README, by file name.

    Raises:
        BindingError: the name has other characters than ``[a-zA-Z0-9_-]``, or the layers repeat a name, are too many
            or hold too many oscillators.
    """
    check_name(name)
    _check_layers(layers)
    design = _Design.of(layers)
    text = _spec_text(name, layers, design)
    spec = parse_binding_spec(text, source=SPEC_FILE_NAME)
    problems = validate_binding_spec(spec) + binding_warnings(spec)
    if problems:
        raise BindingError(f"the pack would not be valid: {problems[0]}")
    return {
        SPEC_FILE_NAME: text,
        "policy.yaml": _policy_text(layers),
        "README.md": _readme_text(spec, layers, design),
    }


def _check_layers(layers: Sequence[LayerPlan]) -> None:
    if not layers:
        raise BindingError("a pack needs at least one layer")
    names = [layer.name for layer in layers]
    for name in names:
        if names.count(name) > 1:
            raise BindingError(f"layer {name!r} is given twice; layers need different names")
    total = sum(layer.count for layer in layers)
    if len(layers) > MAX_LAYERS or total > MAX_OSCILLATORS:
        raise BindingError(
            f"at most {MAX_LAYERS} layers with {MAX_OSCILLATORS} oscillators together are written, got {len(layers)} "
            f"with {total}"
        )


@dataclass(frozen=True)
class _Design:
    """The numbers of a pack."""

    coupling: float
    base_strength: float
    good_width: float
    bad_width: float

    @classmethod
    def of(cls, layers: Sequence[LayerPlan]) -> _Design:
        total = sum(layer.count for layer in layers)
        good = sum(layer.count for layer in layers if layer.is_good)
        if good == total:
            coupling, good_width = LOOSE * 4.0 * LOOSE_WIDTH / math.pi, LOOSE_WIDTH
        else:
            coupling, good_width = STRONG, GOOD_WIDTH * STRONG * good / total
        return cls(coupling, float(f"{coupling / total:.3g}"), good_width, BAD_WIDTH * STRONG)


def _omegas(count: int, width: float) -> list[float]:
    """Evenly from ``-width`` to ``width``, to three digits after the point."""
    return [round(width * (2.0 * k / (count - 1) - 1.0), 3) + 0.0 for k in range(count)]


def _spec_text(name: str, layers: Sequence[LayerPlan], design: _Design) -> str:
    has_good = any(layer.is_good for layer in layers)
    good = [str(k) for k, layer in enumerate(layers) if layer.is_good]
    bad = [str(k) for k, layer in enumerate(layers) if not layer.is_good]
    strong = "everything locks, also what should stay apart" if bad else "the layers drift apart"
    lines = [
        f"# {name}: a pack to start from. The numbers are no measurements; replace them by what you know.",
        "# After a change, 'spo validate' names the line of every mistake, and 'spo schema' lists all keys.",
        f"name: {plain_scalar(name)}",
        'version: "0.1.0"',
        "safety_tier: research # runs are simulations; other tiers need --acknowledge-tier",
        f"sample_period_s: {SAMPLE_PERIOD_S} # one step in seconds, short against the fastest rhythm and the coupling",
        f"control_period_s: {SAMPLE_PERIOD_S * STEPS_PER_DECISION:g} # the supervisor decides every tenth step",
        "",
        "# A layer is a group of oscillators: machines, cells, queues, whatever repeats. Its index names it elsewhere",
        "# in this file. Frequencies are in rad/s, seen from a frame that turns with the common rhythm: 0 is its pace.",
        "layers:",
    ]
    for k, layer in enumerate(layers):
        width = design.good_width if layer.is_good else design.bad_width
        lines += [
            f"  - name: {plain_scalar(layer.name)}",
            f"    index: {k}",
            flow_list(
                "oscillator_ids", [plain_scalar(f"{layer.name}_{n}") for n in range(1, layer.count + 1)], indent=4
            ),
            flow_list("omegas", [f"{omega:g}" for omega in _omegas(layer.count, width)], indent=4),
            "    family: signal",
        ]
    lines += [
        "",
        "# How phases come out of recordings ('spo extract'). A simulation needs only that every layer has a family.",
        "oscillator_families:",
        "  signal: {channel: P, extractor_type: hilbert} # P: a physical signal",
        "",
        "# Everybody pulls on everybody with this strength in rad/s; a decay above 0 weakens it along the list.",
        f"# Open loop ('spo run --open-loop'), {strong}.",
        f"coupling: {{base_strength: {design.base_strength:g}, decay_alpha: 0.0}}",
        "",
        "# What pushes from outside; nothing does here. Try physical: {zeta: 0.2, frequency: 0.1}.",
        "drivers: {physical: {}, informational: {}, symbolic: {}}",
        "",
        "# What you want: good layers hold together, bad layers stay apart. The verdict of a run judges exactly this.",
        f"objectives: {{good_layers: [{', '.join(good)}], bad_layers: [{', '.join(bad)}]}}",
        "",
        "# 'objectives' decides layer by layer. A good layer holds when its order parameter R (0 scattered, 1 in step)",
        "# reaches good_target; a bad one when its lock, the coherence beyond chance, stays below bad_ceiling.",
        "supervisor: {strategy: objectives, good_target: 0.85, bad_ceiling: 0.5}",
        "",
        "# Limits to watch. Soft ones are counted; a hard one makes the regime critical. R_0 is R of the first layer.",
        "boundaries:",
    ]
    for k, layer in enumerate(layers):
        low, high = ("0.3", "null") if layer.is_good else ("null", "0.98")
        label = plain_scalar(f"{layer.name}_{'lost' if layer.is_good else 'locked'}")
        lines.append(f"  - {{name: {label}, variable: R_{k}, lower: {low}, upper: {high}, severity: soft}}")
    lines += [
        "",
        "# What the supervisor may move, how far, and how fast. K is the gain on the coupling, 1 as declared; 'value':",
        "# the limits bound the gain that results. Without a lever of its own, a bad layer is helped by weakening all.",
        "actuators:",
    ]
    if has_good:
        lines.append(_actuator("coupling", "global", (0.5, 2.5), 0.2))
    for k, layer in enumerate(layers):
        limits, rate = ((0.5, 2.0), 0.2) if layer.is_good else ((0.0, 1.0), 0.25)
        lines.append(_actuator(f"{layer.name}_coupling", f"layer_{k}", limits, rate))
    return "\n".join(lines) + "\n"


def _actuator(name: str, scope: str, limits: tuple[float, float], rate: float) -> str:
    low, high = limits
    return (
        f"  - {{name: {plain_scalar(name)}, knob: K, scope: {scope}, limits: [{low}, {high}], "
        f"rate_limit_per_step: {rate}, semantics: value}}"
    )


def _policy_text(layers: Sequence[LayerPlan]) -> str:
    """One rule that can fire."""
    lines = [
        "# Rules act beside the supervisor, after it, in this order. A rule fires in the regimes that it names while",
        "# its condition holds, and no more often than its cooldown allows; its effect ends after ttl_s seconds.",
        "rules:",
    ]
    if any(layer.is_good for layer in layers):
        lines += [
            "  - name: pull_together # while the first good layer has come apart, everybody pulls a tenth stronger",
            "    regime: [DEGRADED, CRITICAL, RECOVERY]",
            '    condition: {metric: R_good, layer: 0, op: "<", threshold: 0.4} # layer: position in good_layers',
            "    action: {knob: K, scope: global, value: 0.1, ttl_s: 5.0}",
        ]
    else:
        lines += [
            "  - name: let_go # while the first bad layer is in step, a fifth of its coupling goes at once",
            "    regime: [DEGRADED, CRITICAL, RECOVERY]",
            '    condition: {metric: R_bad, layer: 0, op: ">", threshold: 0.9} # layer: position in bad_layers',
            "    action: {knob: K, scope: layer_0, value: -0.2, ttl_s: 20.0}",
        ]
    return "\n".join([*lines, "    cooldown_s: 2.0"]) + "\n"


def _readme_text(spec: BindingSpec, layers: Sequence[LayerPlan], design: _Design) -> str:
    rows = [f"| `{layer.name}` | {layer.count} | {'together' if layer.is_good else 'apart'} |" for layer in layers]
    knobs = [
        f"| `{actuator.name}` | {actuator.knob}, "
        f"{'all layers' if actuator.scope == 'global' else actuator.scope.replace('_', ' ')}, "
        f"{actuator.limits[0]:g} to {actuator.limits[1]:g} | (say what this is in your system) |"
        for actuator in spec.actuators
    ]
    if any(not layer.is_good for layer in layers):
        effect = (
            "Open loop everything locks, the bad layers too. The supervisor takes the coupling of the bad layers away."
        )
    else:
        effect = "Open loop the layers drift apart. The supervisor raises their coupling until they hold."
    return f"""# {spec.name}

## What it models

(One paragraph: what oscillates, what couples it, and why some of it should be together or apart.)

## Layers and knobs

| Layer | Oscillators | Should be |
|---|---|---|
{chr(10).join(rows)}

| Actuator | Knob | Meaning |
|---|---|---|
{chr(10).join(knobs)}

## Parameters and their sources

Written by `spo new`, not measured. All oscillators couple alike: {design.base_strength:g} rad/s each,
{design.coupling:.3g} rad/s from all together. Replace frequencies and coupling by your own; `spo extract` and
`spo fit` estimate both from recordings.

## What supervision achieves

{effect}
Run `spo compare` on this folder and put its numbers here.

## Limits

(What the model leaves out, and what nobody should conclude from it.)
"""
