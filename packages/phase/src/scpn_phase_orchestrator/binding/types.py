"""The parts of a binding spec: what a YAML file says, as plain data that every module may import.

Units throughout: seconds, radians and radians per second. Nothing here reads files; `binding.loader` does, and
`binding.validator` judges how the parts fit together.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from numbers import Real
from pathlib import Path
from typing import Any, Literal, cast

from scpn_phase_orchestrator.exceptions import ValidationError

__all__ = [
    "EXTRACTOR_ALIASES",
    "VALID_CHANNELS",
    "VALID_COUPLING_MODES",
    "VALID_EXTRACTORS",
    "VALID_INTEGRATION_METHODS",
    "VALID_KNOBS",
    "VALID_REPLAY_SEMANTICS",
    "VALID_SAFETY_TIERS",
    "VALID_SEMANTICS",
    "VALID_SEVERITIES",
    "VALID_STRATEGIES",
    "VALID_VALIDATION_TIERS",
    "ActuatorMapping",
    "AmplitudeSpec",
    "BindingSpec",
    "BoundaryDef",
    "ChannelGroupSpec",
    "ChannelSpec",
    "CouplingSpec",
    "CrossChannelCouplingSpec",
    "DriverSpec",
    "GeometrySpec",
    "HierarchyLayer",
    "ImprintSpec",
    "IntegrationSpec",
    "ObjectivePartition",
    "OscillatorFamily",
    "ProtocolNetSpec",
    "ProtocolTransitionSpec",
    "SpecOrigin",
    "SupervisorSpec",
    "is_valid_channel_id",
    "resolve_extractor_type",
]

VALID_CHANNELS = frozenset({"P", "I", "S"})
"""The standard channels: physical, informational, symbolic."""
VALID_SEVERITIES = frozenset({"soft", "hard"})
VALID_KNOBS = frozenset({"K", "alpha", "zeta", "Psi"})
VALID_SAFETY_TIERS = frozenset({"research", "clinical", "consumer", "production"})
VALID_VALIDATION_TIERS = frozenset({"scaffold", "partial", "externally_validated"})
VALID_EXTRACTORS = frozenset({"hilbert", "wavelet", "zero_crossing", "event", "ring", "graph"})
VALID_REPLAY_SEMANTICS = frozenset({"phase", "event", "state", "derived", "external"})
VALID_COUPLING_MODES = frozenset({"bidirectional", "directed", "excitatory", "inhibitory"})
VALID_INTEGRATION_METHODS = frozenset({"euler", "rk4", "rk45"})
VALID_STRATEGIES = frozenset({"mean_coherence", "objectives"})
VALID_SEMANTICS = frozenset({"increment", "value"})

EXTRACTOR_ALIASES = {"physical": "hilbert", "informational": "event", "symbolic": "ring"}
"""Other names of extractors, which the loader resolves."""

CHANNEL_PATTERN = "^[A-Za-z][A-Za-z0-9_-]{0,63}$"
SCOPE_PATTERN = "^(global|layer_(0|[1-9][0-9]*))$"

_CHANNEL_ID = re.compile(CHANNEL_PATTERN.removesuffix("$") + r"\Z")
_STANDARD_DRIVERS = {"P": "physical", "I": "informational", "S": "symbolic"}


def is_valid_channel_id(channel: object) -> bool:
    """Whether this is text that may name a channel: a letter, then at most 63 letters, digits, ``_`` or ``-``."""
    return isinstance(channel, str) and _CHANNEL_ID.match(channel) is not None


def resolve_extractor_type(extractor_type: str) -> str:
    """The extractor that a name or alias stands for; an unknown name comes back unchanged."""
    return EXTRACTOR_ALIASES.get(extractor_type, extractor_type)


@dataclass(frozen=True)
class HierarchyLayer:
    """One layer of oscillators; `omegas` are natural frequencies in rad/s, 1.0 each when absent."""

    name: str
    index: int
    oscillator_ids: list[str]
    omegas: list[float] | None = None
    family: str | None = None


@dataclass(frozen=True)
class OscillatorFamily:
    """Which channel the oscillators of a family speak on, and how their phases come out of signals."""

    channel: str
    extractor_type: str
    config: dict[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True)
class CouplingSpec:
    """The base matrix ``K_ij = base_strength * exp(-decay_alpha * |i - j|)``, or the named one of ``templates``."""

    base_strength: float
    decay_alpha: float
    templates: dict[str, list[list[float]]] = field(default_factory=dict[str, list[list[float]]])
    template: str | None = None


@dataclass(frozen=True)
class DriverSpec:
    """External drive of each channel, as free-form settings with some known keys (`zeta`, `psi`, `frequency`, ...)."""

    physical: dict[str, Any] = field(default_factory=dict[str, Any])
    informational: dict[str, Any] = field(default_factory=dict[str, Any])
    symbolic: dict[str, Any] = field(default_factory=dict[str, Any])
    extra: dict[str, dict[str, Any]] | None = None

    def channel_config(self, channel: str) -> dict[str, Any]:
        """Settings of a channel by id (``P``) or by long name (``physical``); empty when it has none."""
        name = _STANDARD_DRIVERS.get(channel, channel)
        if name in _STANDARD_DRIVERS.values():
            config: dict[str, Any] = getattr(self, name)
            return config
        return (self.extra or {}).get(channel, {})

    def all_channel_configs(self) -> dict[str, dict[str, Any]]:
        """Settings by channel id: always P, I and S, then the declared further ones."""
        return {"P": self.physical, "I": self.informational, "S": self.symbolic, **(self.extra or {})}


@dataclass(frozen=True)
class ChannelSpec:
    """What a declared channel means and how it takes part in coupling, audit, replay and supervision."""

    role: str
    required: bool = True
    units: str | None = None
    metric_semantics: str | None = None
    coupling_participation: bool = True
    audit_serialisation: bool = True
    replay_semantics: str = "phase"
    supervisor_visibility: bool = True
    derived_from: list[str] = field(default_factory=list[str])
    derive_rule: str | None = None


@dataclass(frozen=True)
class ChannelGroupSpec:
    """Channels that belong together."""

    channels: list[str]
    required: bool = True
    description: str | None = None


@dataclass(frozen=True)
class CrossChannelCouplingSpec:
    """A declared coupling between two channels."""

    source: str
    target: str
    strength: float
    mode: str = "bidirectional"
    template: str | None = None


@dataclass(frozen=True)
class ObjectivePartition:
    """Indices of layers that should be coherent (good) and of those that should not (bad)."""

    good_layers: list[int]
    bad_layers: list[int]
    good_weight: float = 1.0
    bad_weight: float = 1.0

    def side_of(self, index: int) -> Literal["good", "bad", ""]:
        """What is wanted of the layer with a declared index; empty when nothing is."""
        return "good" if index in self.good_layers else "bad" if index in self.bad_layers else ""


@dataclass(frozen=True)
class BoundaryDef:
    """A range that an observed variable must stay in.

    Raises:
        ValidationError: `lower` is not below `upper`.
    """

    name: str
    variable: str
    lower: float | None
    upper: float | None
    severity: str

    def __post_init__(self) -> None:
        if self.lower is not None and self.upper is not None and not self.lower < self.upper:
            raise ValidationError(f"boundary '{self.name}': lower {self.lower} must be below upper {self.upper}")


@dataclass(frozen=True)
class ActuatorMapping:
    """What may be done to one knob of one scope, and within which limits.

    `semantics` says what `limits` and `rate_limit_per_step` bound: the action's value (``increment``) or the knob value
    that results from it (``value``).

    Raises:
        TypeError: a limit or the rate is not a real number.
        ValueError: a limit or the rate is not finite, the limits are out of order, or the rate is negative.
    """

    name: str
    knob: str
    scope: str
    limits: tuple[float, float]
    rate_limit_per_step: float | None = None
    semantics: Literal["increment", "value"] | None = None

    def __post_init__(self) -> None:
        where = f"actuator '{self.name}'"
        limits = cast("object", self.limits)
        if not isinstance(limits, tuple | list) or len(self.limits) != 2:
            raise TypeError(f"{where}: limits must be two numbers, got {limits!r}")
        low, high = (_finite(value, f"{where}: limits") for value in self.limits)
        if low > high:
            raise ValueError(f"{where}: limits must be ordered, got [{low}, {high}]")
        object.__setattr__(self, "limits", (low, high))
        if self.rate_limit_per_step is None:
            return
        rate = _finite(self.rate_limit_per_step, f"{where}: rate_limit_per_step")
        if rate < 0.0:
            raise ValueError(f"{where}: rate_limit_per_step must be >= 0, got {rate}")
        object.__setattr__(self, "rate_limit_per_step", rate)

    @property
    def resolved_semantics(self) -> Literal["increment", "value"]:
        """The declared semantics; else ``increment`` for a K actuator whose lower limit is negative, else ``value``."""
        if self.semantics is not None:
            return self.semantics
        return "increment" if self.knob == "K" and self.limits[0] < 0.0 else "value"


@dataclass(frozen=True)
class ImprintSpec:
    """Memory that grows with coherence (`saturation` its ceiling), decays (`decay_rate`, 1/s) and changes knobs."""

    decay_rate: float
    saturation: float
    modulates: list[str]


@dataclass(frozen=True)
class GeometrySpec:
    """A constraint on the coupling matrix, such as ``symmetric_non_negative``."""

    constraint_type: str
    params: dict[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True)
class ProtocolTransitionSpec:
    """A transition of the protocol net; arcs are mappings with `place` and optionally `weight`."""

    name: str
    inputs: list[dict[str, Any]]
    outputs: list[dict[str, Any]]
    guard: str | None = None


@dataclass(frozen=True)
class ProtocolNetSpec:
    """A Petri net whose marked places decide the regime."""

    places: list[str]
    initial: dict[str, int]
    place_regime: dict[str, str]
    transitions: list[ProtocolTransitionSpec]


@dataclass(frozen=True)
class AmplitudeSpec:
    """Stuart-Landau amplitudes: growth `mu`, coupling factor `epsilon`, and strength and decay of their coupling."""

    mu: float
    epsilon: float
    amp_coupling_strength: float = 0.0
    amp_coupling_decay: float = 0.3


@dataclass(frozen=True)
class IntegrationSpec:
    """How a step of `sample_period_s` is integrated, and in how many equal substeps."""

    method: Literal["euler", "rk4", "rk45"] = "euler"
    substeps: int = 1


@dataclass(frozen=True)
class SupervisorSpec:
    """How the supervisor decides.

    ``mean_coherence`` looks at the mean order parameter of all layers; ``objectives`` wants good layers at or above
    `good_target` and bad layers at or below `bad_ceiling`, each averaged over the last `window_s` seconds.
    """

    strategy: Literal["mean_coherence", "objectives"] = "mean_coherence"
    good_target: float = 0.8
    bad_ceiling: float = 0.5
    window_s: float | None = None


@dataclass(frozen=True)
class SpecOrigin:
    """Where a spec was read (`path` is None for text), and the line of each part by path (``layers[1].name``)."""

    path: Path | None
    lines: dict[str, int] = field(default_factory=dict[str, int], repr=False)


@dataclass
class BindingSpec:
    """Everything that a spec file declares."""

    name: str
    version: str
    safety_tier: str
    sample_period_s: float
    control_period_s: float
    layers: list[HierarchyLayer]
    oscillator_families: dict[str, OscillatorFamily]
    coupling: CouplingSpec
    drivers: DriverSpec
    objectives: ObjectivePartition
    boundaries: list[BoundaryDef] = field(default_factory=list[BoundaryDef])
    actuators: list[ActuatorMapping] = field(default_factory=list[ActuatorMapping])
    validation_tier: str = "scaffold"
    imprint_model: ImprintSpec | None = None
    geometry_prior: GeometrySpec | None = None
    protocol_net: ProtocolNetSpec | None = None
    amplitude: AmplitudeSpec | None = None
    channels: dict[str, ChannelSpec] = field(default_factory=dict[str, ChannelSpec])
    channel_groups: dict[str, ChannelGroupSpec] = field(default_factory=dict[str, ChannelGroupSpec])
    cross_channel_couplings: list[CrossChannelCouplingSpec] = field(default_factory=list[CrossChannelCouplingSpec])
    value_alignment: dict[str, Any] = field(default_factory=dict[str, Any])
    integration: IntegrationSpec = field(default_factory=IntegrationSpec)
    supervisor: SupervisorSpec = field(default_factory=SupervisorSpec)
    policy: str | None = None
    """Name of the rule file beside the spec; ``policy.yaml`` is read when this is None and the file exists."""
    origin: SpecOrigin | None = field(default=None, init=False, repr=False, compare=False)
    """File and lines, when a loader read the spec; no part of what it says."""

    @property
    def control_interval_steps(self) -> int:
        """Steps from one decision to the next: the ratio of the periods, rounded (halves to the even number), >= 1."""
        return max(1, round(self.control_period_s / self.sample_period_s))

    def rule_file(self, spec_path: Path) -> Path:
        """Where the rule file lies, beside the file of this spec; without a `policy` it need not exist."""
        return spec_path.parent / (self.policy or "policy.yaml")

    def get_omegas(self) -> list[float]:
        """Natural frequencies of all oscillators in layer order (rad/s), 1.0 where a layer declares none.

        Raises:
            ValueError: a layer declares another number of frequencies than of oscillators.
        """
        omegas: list[float] = []
        for layer in self.layers:
            count = len(layer.oscillator_ids)
            if layer.omegas is None:
                omegas.extend([1.0] * count)
                continue
            if len(layer.omegas) != count:
                raise ValueError(
                    f"layer '{layer.name}' declares {len(layer.omegas)} omegas for {count} oscillators; "
                    "their numbers must be equal"
                )
            omegas.extend(float(omega) for omega in layer.omegas)
        return omegas

    def used_channels(self) -> set[str]:
        """Every channel that a family, driver, declaration, derivation, group or cross coupling names."""
        channels = {family.channel for family in self.oscillator_families.values()}
        channels.update(self.drivers.all_channel_configs(), self.channels)
        for declared in self.channels.values():
            channels.update(declared.derived_from)
        for group in self.channel_groups.values():
            channels.update(group.channels)
        for edge in self.cross_channel_couplings:
            channels.update((edge.source, edge.target))
        return channels


def _finite(value: object, name: str) -> float:
    """A real, finite number that is not a bool."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be real numbers, got {value!r}")
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"{name} must be finite, got {number}")
    return number
