"""A proposed spec: valid, commented, and for review only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray

from ripieno._printable import printable
from scpn_phase_orchestrator.autotune.sindy import PhaseEquation
from scpn_phase_orchestrator.binding.loader import parse_binding_spec
from scpn_phase_orchestrator.binding.types import (
    ActuatorMapping,
    BindingSpec,
    CouplingSpec,
    DriverSpec,
    HierarchyLayer,
    ObjectivePartition,
    OscillatorFamily,
    SupervisorSpec,
)
from scpn_phase_orchestrator.binding.validator import binding_warnings, validate_binding_spec
from scpn_phase_orchestrator.binding.writer import binding_document
from scpn_phase_orchestrator.exceptions import BindingError

__all__ = ["Proposal", "ProposedLayer", "grouped_by_frequency", "propose"]

ADVANCE_PER_STEP = 0.1
"""Largest phase change per step in rad, from which the sample period of a proposal follows."""
STEPS_PER_DECISION = 10
"""Control period over sample period."""
SAME_RHYTHM = 1.5
"""Neighbouring frequencies within this ratio belong to one layer."""
DEFAULT_STRENGTH = 0.1
"""Coupling of a proposal without evidence, as a share of the largest natural frequency."""


@dataclass(frozen=True)
class ProposedLayer:
    """Oscillators that share a rhythm: ids and natural frequencies in rad/s."""

    name: str
    oscillator_ids: tuple[str, ...]
    omegas: tuple[float, ...]


@dataclass(frozen=True)
class Proposal:
    """What data suggest, for a person to judge.

    Attributes:
        spec: a valid spec.
        comments: what it rests on, one sentence each.
        equations: discovered phase equations, if any.
        evidence: JSON-safe facts about source and estimates.
    """

    spec: BindingSpec
    comments: tuple[str, ...]
    equations: tuple[PhaseEquation, ...]
    evidence: Mapping[str, Any]

    def to_yaml(self) -> str:
        """The spec as YAML; the comments come first."""
        lines = ["# Proposed from data, for review only: check every value before it runs anything.", *self.comments]
        header = "\n".join(line if line.startswith("#") else f"# {line}" for line in lines)
        body = yaml.safe_dump(
            binding_document(self.spec), sort_keys=False, allow_unicode=True, default_flow_style=None, width=110
        )
        return f"{header}\n{body}"

    def to_record(self) -> dict[str, Any]:
        """The audit record of the proposal, JSON-safe."""
        from dataclasses import asdict

        return {
            "comments": list(self.comments),
            "equations": [asdict(equation) for equation in self.equations],
            "evidence": dict(self.evidence),
            "execution_permitted": False,
            "record": "auto_bind_proposal",
            "review_required": True,
            "spec": binding_document(self.spec),
            "spec_errors": validate_binding_spec(self.spec),
            "spec_warnings": binding_warnings(self.spec),
        }


def grouped_by_frequency(names: Sequence[str], omegas: Sequence[float], prefix: str) -> tuple[ProposedLayer, ...]:
    """Sort oscillators by frequency and start a new layer where two neighbours differ by more than `SAME_RHYTHM`."""
    order = sorted(range(len(names)), key=lambda k: (abs(omegas[k]), names[k]))
    groups: list[list[int]] = []
    for k in order:
        if groups and abs(omegas[k]) <= SAME_RHYTHM * max(abs(omegas[groups[-1][-1]]), 1e-300):
            groups[-1].append(k)
        else:
            groups.append([k])
    return tuple(
        ProposedLayer(
            f"{prefix}_{number}", tuple(names[k] for k in sorted(group)), tuple(omegas[k] for k in sorted(group))
        )
        for number, group in enumerate(groups, start=1)
    )


def propose(
    name: str,
    layers: Sequence[ProposedLayer],
    *,
    channel: str,
    extractor_type: str,
    config: Mapping[str, Any] | None = None,
    strength: float | None = None,
    template: tuple[str, Sequence[str], NDArray[np.float64]] | None = None,
    comments: Sequence[str] = (),
    equations: Sequence[PhaseEquation] = (),
    evidence: Mapping[str, Any] | None = None,
) -> Proposal:
    """Build a valid spec around estimated layers.

    The sample period keeps the phase change per step below `ADVANCE_PER_STEP`; the control period is ten of them. All
    layers are called good; a person decides which rhythms should not lock.

    Args:
        name: of the project.
        layers: what was found.
        channel: P, I or S.
        extractor_type: of the one family.
        config: of the family.
        strength: coupling in rad/s; by default a tenth of the largest natural frequency.
        template: name, oscillators in the order of the matrix, and the matrix (row = receiver, rad/s), which a run
            of the spec then uses.
        comments: sentences for the head of the file.
        equations: discovered equations.
        evidence: JSON-safe facts.

    Raises:
        BindingError: the result is no valid spec; the message gives the first reason.
    """
    ids = [identifier for layer in layers for identifier in layer.oscillator_ids]
    fastest = max((abs(omega) for layer in layers for omega in layer.omegas), default=0.0) or 1.0
    base = DEFAULT_STRENGTH * fastest if strength is None else float(strength)
    templates: dict[str, list[list[float]]] = {}
    largest_sum = base * max(len(ids) - 1, 0)
    if template is not None:
        label, order, matrix = template
        position = [list(order).index(identifier) for identifier in ids]
        templates[label] = [[float(value) for value in row] for row in matrix[np.ix_(position, position)]]
        largest_sum = max(largest_sum, float(np.abs(matrix).sum(axis=1).max(initial=0.0)))
    period = _rounded_down(ADVANCE_PER_STEP / (fastest + largest_sum))
    spec = BindingSpec(
        name=name,
        version="0.1.0",
        safety_tier="research",
        sample_period_s=period,
        control_period_s=STEPS_PER_DECISION * period,
        layers=[
            HierarchyLayer(layer.name, index, list(layer.oscillator_ids), list(layer.omegas), "measured")
            for index, layer in enumerate(layers)
        ],
        oscillator_families={"measured": OscillatorFamily(channel, extractor_type, dict(config or {}))},
        coupling=CouplingSpec(base, 0.0, templates, None if template is None else template[0]),
        drivers=DriverSpec(),
        objectives=ObjectivePartition(list(range(len(layers))), []),
        actuators=[ActuatorMapping("coupling_gain", "K", "global", (0.0, 3.0), 0.1)],
        supervisor=SupervisorSpec(strategy="objectives"),
    )
    errors = validate_binding_spec(spec)
    if errors:
        raise BindingError(f"no valid spec follows from these data: {errors[0]}")
    remarks = tuple(printable(" ".join(comment.split())) for comment in comments)
    proposal = Proposal(spec, remarks, tuple(equations), dict(evidence or {}))
    parse_binding_spec(proposal.to_yaml(), source="proposal")
    return proposal


def _rounded_down(value: float) -> float:
    """One significant digit, towards zero: numbers that a person can read."""
    exponent = int(np.floor(np.log10(value)))
    return float(f"{int(value / 10.0**exponent)}e{exponent}")
