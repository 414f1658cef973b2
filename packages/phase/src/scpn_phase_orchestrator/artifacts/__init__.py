"""Files that hand a domain over to other tools."""

from scpn_phase_orchestrator.artifacts.qpu import (
    QPU_SCHEMA,
    QPUDataArtifact,
    compile_domain_to_qpu_artifact,
    emit_qpu_data_artifact,
    validate_qpu_data_artifact,
)

__all__ = [
    "QPU_SCHEMA",
    "QPUDataArtifact",
    "compile_domain_to_qpu_artifact",
    "emit_qpu_data_artifact",
    "validate_qpu_data_artifact",
]
