"""What a spec says about its channels: which are there, which are needed, late, uncertain or derived."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from scpn_phase_orchestrator.binding.types import BindingSpec, ChannelSpec

__all__ = ["ChannelAlgebraReport", "build_channel_algebra_report"]

_DELAY_WORDS = ("delayed", "delay", "lagged", "external")
_UNCERTAINTY_WORDS = ("uncertain", "uncertainty", "probabilistic", "confidence")

HOLD_PREVIOUS_TICK = "hold_previous_tick"
CURRENT_TICK = "current_tick"
CONFIDENCE_WEIGHTED = "confidence_weighted"
UNWEIGHTED = "unweighted"


@dataclass(frozen=True)
class ChannelAlgebraReport:
    """The channels of a spec, sorted by what holds for them. All tuples are sorted by channel id.

    Attributes:
        channels: every channel that the spec uses.
        declared: those with an entry under `channels`.
        required: declared channels that must have evidence.
        optional: declared channels that need none.
        derived: declared channels computed from others.
        delayed: declared channels whose evidence arrives one tick late.
        uncertain: declared channels whose evidence is weighted by a confidence.
        runtime_evidence: channels with an oscillator family or with driver settings.
        missing_required: required channels that are neither derived nor have evidence.
        supervisor_visible: channels the supervisor may look at; undeclared ones count if they have evidence.
        coupling_participants: channels that take part in coupling; undeclared ones count if they have evidence.
        replay_semantics: how each channel is replayed (``phase`` unless declared).
        policies: per channel `evidence_required`, `delay_policy`, `uncertainty_policy` and `missing_policy`.
        groups: declared groups with `channels`, `required` and `description`.
        group_membership: the groups of each channel that is in one.
        edges: declared couplings between channels.
    """

    channels: tuple[str, ...]
    declared: tuple[str, ...]
    required: tuple[str, ...]
    optional: tuple[str, ...]
    derived: tuple[str, ...]
    delayed: tuple[str, ...]
    uncertain: tuple[str, ...]
    runtime_evidence: tuple[str, ...]
    missing_required: tuple[str, ...]
    supervisor_visible: tuple[str, ...]
    coupling_participants: tuple[str, ...]
    replay_semantics: Mapping[str, str]
    policies: Mapping[str, Mapping[str, Any]]
    groups: Mapping[str, Mapping[str, Any]]
    group_membership: Mapping[str, tuple[str, ...]]
    edges: tuple[Mapping[str, Any], ...]

    def to_record(self) -> dict[str, Any]:
        """Give the report as a JSON-safe dict in the order of its fields."""
        return {
            "channels": list(self.channels),
            "declared": list(self.declared),
            "required": list(self.required),
            "optional": list(self.optional),
            "derived": list(self.derived),
            "delayed": list(self.delayed),
            "uncertain": list(self.uncertain),
            "runtime_evidence": list(self.runtime_evidence),
            "missing_required": list(self.missing_required),
            "supervisor_visible": list(self.supervisor_visible),
            "coupling_participants": list(self.coupling_participants),
            "replay_semantics": dict(self.replay_semantics),
            "policies": {channel: dict(policy) for channel, policy in self.policies.items()},
            "groups": {name: {**group, "channels": list(group["channels"])} for name, group in self.groups.items()},
            "group_membership": {channel: list(names) for channel, names in self.group_membership.items()},
            "edges": [dict(edge) for edge in self.edges],
        }


def build_channel_algebra_report(spec: BindingSpec) -> ChannelAlgebraReport:
    """Sort the channels of a spec by what it declares about them.

    A channel is delayed (uncertain) when its role, metric semantics or replay semantics mention delayed, delay, lagged
    or external (uncertain, uncertainty, probabilistic or confidence).
    """
    channels = tuple(sorted(spec.used_channels()))
    declared = spec.channels
    evidence = {family.channel for family in spec.oscillator_families.values()}
    evidence.update(channel for channel, config in spec.drivers.all_channel_configs().items() if config)
    derived = _those(declared, lambda channel: bool(channel.derived_from) or channel.replay_semantics == "derived")
    required = _those(declared, lambda channel: channel.required)
    delayed = _those(declared, lambda channel: _mentions(channel, _DELAY_WORDS))
    uncertain = _those(declared, lambda channel: _mentions(channel, _UNCERTAINTY_WORDS))
    groups: dict[str, dict[str, Any]] = {
        name: {"channels": tuple(sorted(group.channels)), "required": group.required, "description": group.description}
        for name, group in sorted(spec.channel_groups.items())
    }
    membership = {
        channel: tuple(name for name, group in sorted(spec.channel_groups.items()) if channel in group.channels)
        for channel in channels
    }
    edges = sorted(spec.cross_channel_couplings, key=lambda edge: (edge.source, edge.target, edge.mode, edge.strength))
    return ChannelAlgebraReport(
        channels=channels,
        declared=tuple(sorted(declared)),
        required=required,
        optional=_those(declared, lambda channel: not channel.required),
        derived=derived,
        delayed=delayed,
        uncertain=uncertain,
        runtime_evidence=tuple(sorted(evidence)),
        missing_required=tuple(one for one in required if one not in derived and one not in evidence),
        supervisor_visible=tuple(
            one for one in channels if (declared[one].supervisor_visibility if one in declared else one in evidence)
        ),
        coupling_participants=tuple(
            one for one in channels if (declared[one].coupling_participation if one in declared else one in evidence)
        ),
        replay_semantics={one: declared[one].replay_semantics if one in declared else "phase" for one in channels},
        policies={
            one: {
                "evidence_required": one in required and one not in derived,
                "delay_policy": HOLD_PREVIOUS_TICK if one in delayed else CURRENT_TICK,
                "uncertainty_policy": CONFIDENCE_WEIGHTED if one in uncertain else UNWEIGHTED,
                "missing_policy": "derive" if one in derived else "refuse" if one in required else "skip",
            }
            for one in channels
        },
        groups=groups,
        group_membership={channel: names for channel, names in membership.items() if names},
        edges=tuple(asdict(edge) for edge in edges),
    )


def _those(declared: Mapping[str, ChannelSpec], holds: Callable[[ChannelSpec], bool]) -> tuple[str, ...]:
    return tuple(sorted(name for name, channel in declared.items() if holds(channel)))


def _mentions(channel: ChannelSpec, words: Iterable[str]) -> bool:
    text = " ".join((channel.role, channel.metric_semantics or "", channel.replay_semantics)).lower()
    return any(word in text for word in words)
