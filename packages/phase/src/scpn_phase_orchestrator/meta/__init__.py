"""Cross-domain transfer of control experience, for review only.

`read_audit_history` turns audit histories into examples (`MetaPolicyRecord`), `CrossDomainMetaTransfer` proposes knobs
from the most similar ones, and `MetaPackageManifest` describes such a collection to a reviewer.
"""

from scpn_phase_orchestrator.meta.records import KNOBS, MetaPolicyRecord, read_audit_history
from scpn_phase_orchestrator.meta.transfer import CrossDomainMetaTransfer, MetaPackageManifest, MetaProposal

__all__ = [
    "KNOBS",
    "CrossDomainMetaTransfer",
    "MetaPackageManifest",
    "MetaPolicyRecord",
    "MetaProposal",
    "read_audit_history",
]
