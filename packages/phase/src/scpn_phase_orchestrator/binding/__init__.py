"""Binding specs: their parts, how they are read, what makes one valid, and what it resolves to."""

from typing import TYPE_CHECKING, Any

from scpn_phase_orchestrator.binding.channel_algebra import ChannelAlgebraReport, build_channel_algebra_report
from scpn_phase_orchestrator.binding.loader import (
    SPEC_FILE_NAME,
    BindingLoadError,
    load_binding_spec,
    parse_binding_spec,
)
from scpn_phase_orchestrator.binding.resolved import format_resolved_binding_config, resolved_binding_config
from scpn_phase_orchestrator.binding.schema import binding_schema
from scpn_phase_orchestrator.binding.security_scan import UnsafePatternFinding, scan_unsafe_patterns
from scpn_phase_orchestrator.binding.types import (
    EXTRACTOR_ALIASES,
    VALID_CHANNELS,
    VALID_COUPLING_MODES,
    VALID_EXTRACTORS,
    VALID_INTEGRATION_METHODS,
    VALID_KNOBS,
    VALID_REPLAY_SEMANTICS,
    VALID_SAFETY_TIERS,
    VALID_SEMANTICS,
    VALID_SEVERITIES,
    VALID_STRATEGIES,
    VALID_VALIDATION_TIERS,
    ActuatorMapping,
    AmplitudeSpec,
    BindingSpec,
    BoundaryDef,
    ChannelGroupSpec,
    ChannelSpec,
    CouplingSpec,
    CrossChannelCouplingSpec,
    DriverSpec,
    GeometrySpec,
    HierarchyLayer,
    ImprintSpec,
    IntegrationSpec,
    ObjectivePartition,
    OscillatorFamily,
    ProtocolNetSpec,
    ProtocolTransitionSpec,
    SpecOrigin,
    SupervisorSpec,
    is_valid_channel_id,
    resolve_extractor_type,
)
from scpn_phase_orchestrator.binding.validator import (
    binding_warnings,
    validate_binding_spec,
    validate_binding_spec_security,
)
from scpn_phase_orchestrator.binding.writer import binding_document, binding_yaml

if TYPE_CHECKING:
    from scpn_phase_orchestrator.binding.channel_runtime import (
        ChannelExecution,
        ChannelLayerEvidence,
        ChannelRuntimeExecutor,
    )

__all__ = [
    "EXTRACTOR_ALIASES",
    "SPEC_FILE_NAME",
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
    "BindingLoadError",
    "BindingSpec",
    "BoundaryDef",
    "ChannelAlgebraReport",
    "ChannelExecution",
    "ChannelGroupSpec",
    "ChannelLayerEvidence",
    "ChannelRuntimeExecutor",
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
    "UnsafePatternFinding",
    "binding_document",
    "binding_schema",
    "binding_warnings",
    "binding_yaml",
    "build_channel_algebra_report",
    "format_resolved_binding_config",
    "is_valid_channel_id",
    "load_binding_spec",
    "parse_binding_spec",
    "resolve_extractor_type",
    "resolved_binding_config",
    "scan_unsafe_patterns",
    "validate_binding_spec",
    "validate_binding_spec_security",
]

_OF_CHANNEL_RUNTIME = frozenset({"ChannelExecution", "ChannelLayerEvidence", "ChannelRuntimeExecutor"})


def __getattr__(name: str) -> Any:
    """Load the channel executor when it is asked for: it stands above the metrics, which may import specs."""
    if name not in _OF_CHANNEL_RUNTIME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from scpn_phase_orchestrator.binding import channel_runtime

    return getattr(channel_runtime, name)
