"""The one table of what a binding spec may say.

The loader reads files by it, the validator checks specs by it, and `binding_schema` prints it as JSON Schema.
"""

from __future__ import annotations

from typing import Any, Final

from scpn_phase_orchestrator.binding import types
from scpn_phase_orchestrator.binding._descriptors import (
    Boolean,
    Field,
    Free,
    Integer,
    Listing,
    Nullable,
    Number,
    Record,
    Table,
    Text,
)

__all__ = ["SPEC", "binding_schema"]

_TEXT = Text()
_NUMBER = Number()
_TEXTS = Listing(_TEXT)
_CHANNEL = Text(
    pattern=types.CHANNEL_PATTERN,
    pattern_help="a channel id (a letter, then at most 63 letters, digits, '_' or '-')",
)
_CHANNELS = Listing(_CHANNEL)
_OPTIONAL_TEXT = Nullable(_TEXT)
_OPTIONAL_NUMBER = Nullable(_NUMBER)

_LAYER = Record(
    (
        Field("name", _TEXT, "Name of the layer."),
        Field("index", Integer(0), "Number by which objectives, scopes and rules name the layer; unique."),
        Field("oscillator_ids", _TEXTS, "Names of the layer's oscillators; unique in the spec."),
        Field("omegas", Nullable(Listing(_NUMBER)), "Natural frequencies (rad/s), one per oscillator; 1.0 each.", None),
        Field("family", _OPTIONAL_TEXT, "Name of the oscillator family of the layer.", None),
    ),
    types.HierarchyLayer,
)


def _family(**values: Any) -> types.OscillatorFamily:
    values["extractor_type"] = types.resolve_extractor_type(values["extractor_type"])
    return types.OscillatorFamily(**values)


_FAMILY = Record(
    (
        Field("channel", _CHANNEL, "Channel of the family: P, I, S, or one declared under channels."),
        Field(
            "extractor_type",
            Text(choices=types.VALID_EXTRACTORS | frozenset(types.EXTRACTOR_ALIASES)),
            "How phases come out of signals; physical, informational and symbolic stand for hilbert, event and ring.",
        ),
        Field("config", Free(), "Settings of the extractor, such as band.", {}),
    ),
    _family,
)

_COUPLING = Record(
    (
        Field("base_strength", Number(minimum=0.0), "Coupling strength K between neighbours (rad/s)."),
        Field("decay_alpha", Number(minimum=0.0), "How fast the strength falls with index distance."),
        Field(
            "templates",
            Table(Listing(Listing(_NUMBER))),
            "Named coupling matrices (rad/s), as lists of rows (row = receiver).",
            {},
        ),
        Field("template", _OPTIONAL_TEXT, "Name of the matrix that a run uses in place of the formula.", None),
    ),
    types.CouplingSpec,
)

_DRIVER = Record(
    (
        Field("zeta", Number(minimum=0.0), "Strength of the drive (rad/s).", 0.0),
        Field("psi", _NUMBER, "Constant phase of the drive (rad).", 0.0),
        Field("frequency", Number(above=0.0), "Frequency of a physical drive phase (Hz).", None),
        Field("amplitude", Number(minimum=0.0), "Amplitude of a physical drive phase (rad).", 1.0),
        Field("cadence_hz", Number(above=0.0), "Cadence of an informational drive phase (Hz).", None),
        Field("sequence", Listing(_NUMBER, min_items=1), "Phases of a symbolic drive, one per step (rad).", None),
        Field("confidence", _NUMBER, "Confidence in an uncertain channel, clipped to [0, 1].", 1.0),
        Field("confidence_weight", _NUMBER, "As confidence, and preferred to it.", 1.0),
    ),
    is_open=True,
)

_DRIVERS = Record(
    (
        Field("physical", _DRIVER, "Drive of channel P.", {}),
        Field("informational", _DRIVER, "Drive of channel I.", {}),
        Field("symbolic", _DRIVER, "Drive of channel S.", {}),
    ),
    types.DriverSpec,
    others=Table(_DRIVER, _CHANNEL),
    others_name="extra",
    reserved=(("P", "physical"), ("I", "informational"), ("S", "symbolic")),
)

_CHANNEL_SPEC = Record(
    (
        Field("role", _TEXT, "What the channel stands for."),
        Field("required", Boolean(), "Whether a family or driver must feed it.", True),
        Field("units", _OPTIONAL_TEXT, "Units of its observations.", None),
        Field("metric_semantics", _OPTIONAL_TEXT, "What its metric means.", None),
        Field("coupling_participation", Boolean(), "Whether it takes part in coupling.", True),
        Field("audit_serialisation", Boolean(), "Whether it is written to audit logs.", True),
        Field("replay_semantics", Text(choices=types.VALID_REPLAY_SEMANTICS), "How a replay treats it.", "phase"),
        Field("supervisor_visibility", Boolean(), "Whether the supervisor sees it.", True),
        Field("derived_from", _CHANNELS, "Channels that it is computed from.", []),
        Field("derive_rule", _OPTIONAL_TEXT, "How it is computed from them.", None),
    ),
    types.ChannelSpec,
)

_CHANNEL_GROUP = Record(
    (
        Field("channels", _CHANNELS, "Members of the group."),
        Field("required", Boolean(), "Whether all members are needed.", True),
        Field("description", _OPTIONAL_TEXT, "What the group is for.", None),
    ),
    types.ChannelGroupSpec,
)

_CROSS_COUPLING = Record(
    (
        Field("source", _CHANNEL, "Channel that acts."),
        Field("target", _CHANNEL, "Channel that is acted on."),
        Field("strength", Number(minimum=0.0), "Strength of the coupling."),
        Field("mode", Text(choices=types.VALID_COUPLING_MODES), "Direction and sign.", "bidirectional"),
        Field("template", _OPTIONAL_TEXT, "Name of a coupling template.", None),
    ),
    types.CrossChannelCouplingSpec,
)

_OBJECTIVES = Record(
    (
        Field("good_layers", Listing(Integer(0, is_layer=True)), "Indices of layers that should be coherent."),
        Field("bad_layers", Listing(Integer(0, is_layer=True)), "Indices of layers that should not be coherent."),
        Field("good_weight", Number(minimum=0.0), "Weight of the good layers.", 1.0),
        Field("bad_weight", Number(minimum=0.0), "Weight of the bad layers.", 1.0),
    ),
    types.ObjectivePartition,
)


def _boundary(*, lower: float | None = None, upper: float | None = None, **values: Any) -> types.BoundaryDef:
    return types.BoundaryDef(lower=lower, upper=upper, **values)


_BOUNDARY = Record(
    (
        Field("name", _TEXT, "Name of the boundary."),
        Field("variable", _TEXT, "Observed variable: R, R_<k>, or in amplitude mode mean_amplitude and others."),
        Field("lower", _OPTIONAL_NUMBER, "Least allowed value, below upper.", None),
        Field("upper", _OPTIONAL_NUMBER, "Greatest allowed value, above lower.", None),
        Field("severity", Text(choices=types.VALID_SEVERITIES), "hard makes the regime critical; soft is counted."),
    ),
    _boundary,
)

_ACTUATOR = Record(
    (
        Field("name", _TEXT, "Name of the actuator."),
        Field("knob", Text(choices=types.VALID_KNOBS), "Coupling K, lag alpha, drive strength zeta, drive phase Psi."),
        Field(
            "scope",
            Text(pattern=types.SCOPE_PATTERN, pattern_help="'global' or 'layer_<index>'", is_scope=True),
            "global, or layer_<index> for the oscillators of one layer.",
        ),
        Field("limits", Listing(_NUMBER, 2, 2), "Least and greatest value, in this order."),
        Field("rate_limit_per_step", Nullable(Number(minimum=0.0)), "Greatest change per decision.", None),
        Field(
            "semantics",
            Nullable(Text(choices=types.VALID_SEMANTICS)),
            "Whether limits bound each action (increment) or the resulting knob (value); "
            "by default increment for K with a negative lower limit, else value.",
            None,
        ),
    ),
    types.ActuatorMapping,
)

_IMPRINT = Record(
    (
        Field("decay_rate", Number(minimum=0.0), "How fast the imprint fades (1/s)."),
        Field("saturation", Number(above=0.0), "Greatest imprint."),
        Field("modulates", _TEXTS, "What it changes: K, alpha, mu."),
    ),
    types.ImprintSpec,
)

_GEOMETRY = Record(
    (
        Field("constraint_type", _TEXT, "Names containing symmetric, non_negative or both act on the coupling matrix."),
        Field("params", Free(), "Settings of the constraint.", {}),
    ),
    types.GeometrySpec,
)

_ARC = Record(
    (
        Field("place", _TEXT, "Name of a place."),
        Field("weight", Integer(1), "Tokens that move.", 1),
    ),
    text_hint="; write {place: NAME}",
    expected="mapping {place, weight}",
)

_TRANSITION = Record(
    (
        Field("name", _TEXT, "Name of the transition."),
        Field("inputs", Listing(_ARC), "Arcs that take tokens."),
        Field("outputs", Listing(_ARC), "Arcs that bring tokens."),
        Field("guard", _OPTIONAL_TEXT, "Condition such as 'R_0 > 0.7'.", None),
    ),
    types.ProtocolTransitionSpec,
)

_PROTOCOL_NET = Record(
    (
        Field("places", _TEXTS, "Names of the places."),
        Field("initial", Table(Integer(0)), "Tokens at the start, by place."),
        Field("place_regime", Table(_TEXT), "Regime that a marked place stands for, by place."),
        Field("transitions", Listing(_TRANSITION), "Transitions; the first enabled one fires."),
    ),
    types.ProtocolNetSpec,
)

_AMPLITUDE = Record(
    (
        Field("mu", _NUMBER, "Growth rate of the amplitudes; an uncoupled one settles at sqrt(mu)."),
        Field("epsilon", Number(minimum=0.0), "Factor of the amplitude coupling."),
        Field("amp_coupling_strength", Number(minimum=0.0), "Amplitude coupling between neighbours.", 0.0),
        Field("amp_coupling_decay", Number(minimum=0.0), "How fast it falls with index distance.", 0.3),
    ),
    types.AmplitudeSpec,
)

_INTEGRATION = Record(
    (
        Field("method", Text(choices=types.VALID_INTEGRATION_METHODS), "Integration method.", "euler"),
        Field("substeps", Integer(1), "Equal substeps per sample period, at most 1,000,000.", 1),
    ),
    types.IntegrationSpec,
)

_SUPERVISOR = Record(
    (
        Field(
            "strategy",
            Text(choices=types.VALID_STRATEGIES),
            "mean_coherence looks at the mean of all layers; objectives judges good and bad layers one by one.",
            "mean_coherence",
        ),
        Field("good_target", Number(above=0.0, maximum=1.0), "Coherence that good layers should reach.", 0.8),
        Field("bad_ceiling", Number(minimum=0.0, below=1.0), "Coherence that bad layers should not exceed.", 0.5),
        Field("window_s", Nullable(Number(above=0.0)), "Time over which coherence is averaged (s).", None),
    ),
    types.SupervisorSpec,
)

SPEC: Final = Record(
    (
        Field("name", _TEXT, "Name of the spec."),
        Field("version", _TEXT, "Version of the spec, as digits d.d.d."),
        Field("safety_tier", Text(choices=types.VALID_SAFETY_TIERS), "How much depends on it."),
        Field("validation_tier", Text(choices=types.VALID_VALIDATION_TIERS), "How well it is validated.", "scaffold"),
        Field("sample_period_s", Number(above=0.0), "Time of one simulation step (s)."),
        Field("control_period_s", Number(above=0.0), "Time between two decisions (s), at least sample_period_s."),
        Field("layers", Listing(_LAYER), "Layers of oscillators."),
        Field("oscillator_families", Table(_FAMILY), "Kinds of oscillators, by name."),
        Field("coupling", _COUPLING, "How the oscillators act on each other."),
        Field("drivers", _DRIVERS, "External drive, by channel."),
        Field("objectives", _OBJECTIVES, "Which layers should be coherent, and which should not."),
        Field("boundaries", Listing(_BOUNDARY), "Ranges that observed variables must stay in.", []),
        Field("actuators", Listing(_ACTUATOR), "Knobs that may be turned, with limits.", []),
        Field("imprint_model", Nullable(_IMPRINT), "Memory of past coherence.", None, ("imprint",)),
        Field("geometry_prior", Nullable(_GEOMETRY), "Constraint on the coupling matrix.", None),
        Field("protocol_net", Nullable(_PROTOCOL_NET), "Petri net whose places decide the regime.", None),
        Field("amplitude", Nullable(_AMPLITUDE), "Amplitude dynamics (Stuart-Landau); absent: phases only.", None),
        Field("channels", Table(_CHANNEL_SPEC, _CHANNEL), "Declared channels, by id.", {}),
        Field("channel_groups", Table(_CHANNEL_GROUP), "Groups of channels, by name.", {}),
        Field("cross_channel_couplings", Listing(_CROSS_COUPLING), "Declared couplings between channels.", []),
        Field("value_alignment", Free(), "Notes on values; recorded, not acted on.", {}),
        Field("integration", _INTEGRATION, "How a step is integrated.", {}),
        Field("supervisor", _SUPERVISOR, "How the supervisor decides.", {}),
        Field("policy", _OPTIONAL_TEXT, "Rule file beside the spec; policy.yaml when it exists.", None),
    ),
    types.BindingSpec,
)
"""The root of the table."""


def binding_schema() -> dict[str, Any]:
    """The format of binding specs as JSON Schema (draft 2020-12).

    It accepts exactly the documents that the loader reads, but for what JSON Schema cannot say: that `lower` lies below
    `upper` and that `limits` are ordered. What else makes a spec valid is in `validate_binding_spec`.

    Examples:
        >>> binding_schema()["properties"]["coupling"]["required"]
        ['base_strength', 'decay_alpha']
    """
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Binding spec",
        "description": "Layers of phase oscillators, their coupling, drive, objectives, limits and actuators.",
        **SPEC.json_schema(),
    }
