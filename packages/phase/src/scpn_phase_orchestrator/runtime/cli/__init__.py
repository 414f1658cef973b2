"""The ``spo`` command; each command loads its module when it is called."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from scpn_phase_orchestrator.runtime.cli._app import main

if TYPE_CHECKING:
    from scpn_phase_orchestrator.runtime.cli._transfer import meta_transfer_manifest
    from scpn_phase_orchestrator.runtime.simulation import simulate

__all__ = ["main", "meta_transfer_manifest", "simulate"]

_LAZY = {
    "meta_transfer_manifest": "scpn_phase_orchestrator.runtime.cli._transfer",
    "simulate": "scpn_phase_orchestrator.runtime.simulation",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LAZY[name]), name)
