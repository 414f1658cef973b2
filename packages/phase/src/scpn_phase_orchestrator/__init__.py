"""Phase: networks of phase oscillators, simulated, supervised, audited and replayed.

The names below are the stable door. Each is loaded when it is first used, so that importing the package costs nothing.
"""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scpn_phase_orchestrator.actuation.mapper import ControlAction
    from scpn_phase_orchestrator.api import Orchestrator, OrchestratorState
    from scpn_phase_orchestrator.artifacts.qpu import (
        QPUDataArtifact,
        compile_domain_to_qpu_artifact,
        emit_qpu_data_artifact,
        validate_qpu_data_artifact,
    )
    from scpn_phase_orchestrator.binding.types import BindingSpec
    from scpn_phase_orchestrator.coupling.knm import CouplingBuilder
    from scpn_phase_orchestrator.exceptions import SPOError
    from scpn_phase_orchestrator.monitor.boundaries import BoundaryObserver
    from scpn_phase_orchestrator.monitor.lyapunov import lyapunov_spectrum
    from scpn_phase_orchestrator.oscillators.base import PhaseExtractor, PhaseState
    from scpn_phase_orchestrator.runtime.audit_logger import AuditLogger
    from scpn_phase_orchestrator.supervisor.policy import SupervisorPolicy
    from scpn_phase_orchestrator.supervisor.regimes import RegimeManager
    from scpn_phase_orchestrator.upde.bifurcation import (
        BifurcationDiagram,
        find_critical_coupling,
        trace_sync_transition,
    )
    from scpn_phase_orchestrator.upde.engine import UPDEEngine
    from scpn_phase_orchestrator.upde.sheaf import SheafUPDEEngine
    from scpn_phase_orchestrator.upde.sparse import SparseUPDEEngine
    from scpn_phase_orchestrator.upde.stuart_landau import StuartLandauEngine

__all__ = [
    "AuditLogger",
    "BifurcationDiagram",
    "BindingSpec",
    "BoundaryObserver",
    "ControlAction",
    "CouplingBuilder",
    "Orchestrator",
    "OrchestratorState",
    "PhaseExtractor",
    "PhaseState",
    "QPUDataArtifact",
    "RegimeManager",
    "SPOError",
    "SheafUPDEEngine",
    "SparseUPDEEngine",
    "StuartLandauEngine",
    "SupervisorPolicy",
    "UPDEEngine",
    "compile_domain_to_qpu_artifact",
    "emit_qpu_data_artifact",
    "find_critical_coupling",
    "lyapunov_spectrum",
    "trace_sync_transition",
    "validate_qpu_data_artifact",
]

__version__ = version("ripieno-phase")

_HOMES = {
    "AuditLogger": "runtime.audit_logger",
    "BifurcationDiagram": "upde.bifurcation",
    "BindingSpec": "binding.types",
    "BoundaryObserver": "monitor.boundaries",
    "ControlAction": "actuation.mapper",
    "CouplingBuilder": "coupling.knm",
    "Orchestrator": "api",
    "OrchestratorState": "api",
    "PhaseExtractor": "oscillators.base",
    "PhaseState": "oscillators.base",
    "QPUDataArtifact": "artifacts.qpu",
    "RegimeManager": "supervisor.regimes",
    "SPOError": "exceptions",
    "SheafUPDEEngine": "upde.sheaf",
    "SparseUPDEEngine": "upde.sparse",
    "StuartLandauEngine": "upde.stuart_landau",
    "SupervisorPolicy": "supervisor.policy",
    "UPDEEngine": "upde.engine",
    "compile_domain_to_qpu_artifact": "artifacts.qpu",
    "emit_qpu_data_artifact": "artifacts.qpu",
    "find_critical_coupling": "upde.bifurcation",
    "lyapunov_spectrum": "monitor.lyapunov",
    "trace_sync_transition": "upde.bifurcation",
    "validate_qpu_data_artifact": "artifacts.qpu",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
