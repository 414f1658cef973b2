"""What a spec resolves to: a summary without driver values, for headers, the command line and reviewers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, fields
from typing import Any

from scpn_phase_orchestrator.binding.channel_algebra import build_channel_algebra_report
from scpn_phase_orchestrator.binding.types import BindingSpec, ChannelSpec, resolve_extractor_type

__all__ = ["format_resolved_binding_config", "resolved_binding_config"]


def resolved_binding_config(spec: BindingSpec) -> dict[str, Any]:
    """Summarise a spec as a JSON-safe dict, ordered by name or index; values of drivers are not copied."""
    families = sorted(spec.oscillator_families.items())
    layers = sorted(spec.layers, key=lambda layer: layer.index)
    return {
        "name": spec.name,
        "version": spec.version,
        "safety_tier": spec.safety_tier,
        "validation_tier": spec.validation_tier,
        "sample_period_s": spec.sample_period_s,
        "control_period_s": spec.control_period_s,
        "control_interval_steps": spec.control_interval_steps,
        "engine_mode": "kuramoto" if spec.amplitude is None else "stuart_landau",
        "integration": asdict(spec.integration),
        "supervisor": asdict(spec.supervisor),
        "layer_count": len(spec.layers),
        "oscillator_count": sum(len(layer.oscillator_ids) for layer in spec.layers),
        "channels": {channel: _channel(spec, channel) for channel in sorted(spec.used_channels())},
        "channel_groups": {name: asdict(group) for name, group in sorted(spec.channel_groups.items())},
        "cross_channel_couplings": [
            asdict(edge)
            for edge in sorted(spec.cross_channel_couplings, key=lambda edge: (edge.source, edge.target, edge.mode))
        ],
        "channel_algebra": build_channel_algebra_report(spec).to_record(),
        "families": {
            name: {
                "channel": family.channel,
                "extractor_type": family.extractor_type,
                "resolved_extractor_type": resolve_extractor_type(family.extractor_type),
                "config_keys": sorted(family.config),
            }
            for name, family in families
        },
        "layers": [
            {
                "name": layer.name,
                "index": layer.index,
                "family": layer.family,
                "channel": _layer_channel(spec, layer.family),
                "oscillator_count": len(layer.oscillator_ids),
            }
            for layer in layers
        ],
        "unassigned_layer_count": sum(layer.family is None for layer in layers),
        "coupling": {
            "base_strength": spec.coupling.base_strength,
            "decay_alpha": spec.coupling.decay_alpha,
            "template": spec.coupling.template,
            "templates": sorted(spec.coupling.templates),
        },
        "objectives": asdict(spec.objectives),
        "boundaries": [
            {"name": boundary.name, "variable": boundary.variable, "severity": boundary.severity}
            for boundary in sorted(spec.boundaries, key=lambda boundary: boundary.name)
        ],
        "actuators": [
            {
                "name": actuator.name,
                "knob": actuator.knob,
                "scope": actuator.scope,
                "limits": list(actuator.limits),
                "rate_limit_per_step": actuator.rate_limit_per_step,
                "semantics": actuator.resolved_semantics,
            }
            for actuator in sorted(spec.actuators, key=lambda actuator: actuator.name)
        ],
        "features": {
            "amplitude": spec.amplitude is not None,
            "geometry_prior": spec.geometry_prior is not None,
            "imprint_model": spec.imprint_model is not None,
            "protocol_net": spec.protocol_net is not None,
        },
    }


def _layer_channel(spec: BindingSpec, family: str | None) -> str | None:
    found = spec.oscillator_families.get(family) if family is not None else None
    return None if found is None else found.channel


def _channel(spec: BindingSpec, channel: str) -> dict[str, Any]:
    families = {name: family for name, family in spec.oscillator_families.items() if family.channel == channel}
    layers = [layer for layer in spec.layers if layer.family in families]
    driver = spec.drivers.all_channel_configs().get(channel, {})
    declared = spec.channels.get(channel)
    return {
        "families": sorted(families),
        "extractors": sorted({resolve_extractor_type(family.extractor_type) for family in families.values()}),
        "driver_configured": bool(driver),
        "driver_keys": sorted(driver),
        "layer_count": len(layers),
        "oscillator_count": sum(len(layer.oscillator_ids) for layer in layers),
        "declared": declared is not None,
        **(dict.fromkeys(entry.name for entry in fields(ChannelSpec)) if declared is None else asdict(declared)),
    }


def format_resolved_binding_config(summary: dict[str, Any]) -> list[str]:
    """Lines of text for a summary of `resolved_binding_config`."""
    features = [name for name, present in sorted(summary["features"].items()) if present]
    lines = [
        "Resolved configuration:",
        f"  domain: {summary['name']} v{summary['version']} ({summary['safety_tier']})",
        (
            f"  timing: sample={summary['sample_period_s']}s control={summary['control_period_s']}s "
            f"interval={summary['control_interval_steps']} steps"
        ),
        (
            f"  structure: layers={summary['layer_count']} oscillators={summary['oscillator_count']} "
            f"channels={_listed(summary['channels'], ', ')}"
        ),
        f"  engine: {summary['engine_mode']} features={_listed(features)}",
    ]
    for name, channel in summary["channels"].items():
        lines.append(
            f"  channel {name}: families={_listed(channel['families'])} extractors={_listed(channel['extractors'])} "
            f"driver_keys={_listed(channel['driver_keys'])} layers={channel['layer_count']} "
            f"oscillators={channel['oscillator_count']}"
        )
        if channel["declared"]:
            derived = f" derived_from={_listed(channel['derived_from'])}" if channel["derived_from"] else ""
            lines.append(
                f"    metadata: role={channel['role']} replay={channel['replay_semantics']} "
                f"supervisor={channel['supervisor_visibility']}{derived}"
            )
    if summary["channel_groups"]:
        groups = [f"{name}=[{_listed(group['channels'])}]" for name, group in summary["channel_groups"].items()]
        lines.append(f"  channel_groups: {', '.join(groups)}")
    if summary["cross_channel_couplings"]:
        lines.append(f"  cross_channel_couplings: {len(summary['cross_channel_couplings'])}")
    algebra = summary["channel_algebra"]
    parts = (
        ("required", "required"),
        ("optional", "optional"),
        ("derived", "derived"),
        ("visible", "supervisor_visible"),
        ("coupling_participants", "coupling_participants"),
        ("delayed", "delayed"),
        ("uncertain", "uncertain"),
    )
    lines.append("  channel_algebra: " + " ".join(f"{label}={_listed(algebra[key])}" for label, key in parts))
    if algebra["missing_required"]:
        lines.append(f"    missing_required_channels: {_listed(algebra['missing_required'])}")
    if summary["unassigned_layer_count"] > 0:
        count = summary["unassigned_layer_count"]
        lines.append(f"  note: {count} layer(s) have no explicit oscillator family binding")
    return lines


def _listed(names: Iterable[str], separator: str = ",") -> str:
    return separator.join(names) or "none"
