"""The registry: which methods exist, from which paper, in which releases, and which of them run here.

`AlgorithmRegistry` looks things up, `cards` says what a card holds, `roster` what the whole must be, `loader` where
documents come from. The packaged document is ``data/algorithms.json``.
"""

from agentinputlab.registry.cards import MethodCard, Publication, ReleaseCard, Upstream
from agentinputlab.registry.catalog import AlgorithmRegistry, RegistryDoctorReport
from agentinputlab.registry.loader import (
    find_repository_registry,
    load_packaged_registry,
    load_registry_file,
    load_registry_text,
    registry_documents_equal,
    validate_snapshot_sync,
)
from agentinputlab.registry.roster import ExpectedRoster, validate_roster

__all__ = [
    "AlgorithmRegistry",
    "ExpectedRoster",
    "MethodCard",
    "Publication",
    "RegistryDoctorReport",
    "ReleaseCard",
    "Upstream",
    "find_repository_registry",
    "load_packaged_registry",
    "load_registry_file",
    "load_registry_text",
    "registry_documents_equal",
    "validate_roster",
    "validate_snapshot_sync",
]
