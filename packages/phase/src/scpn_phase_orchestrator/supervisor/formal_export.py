"""Nets, rules and monitors as text for formal checkers, alone or as a hashed package.

===============  ==========  =================================================================
kind             language    content
===============  ==========  =================================================================
``protocol``     PRISM       the Petri net of the spec
``protocol-tla`` TLA+        the same
``policy``       PRISM       the rules
``policy-tla``   TLA+        the same
``policy-smt``   SMT-LIB     which rules can fire, and which can collide
``stl``          SMT-LIB     whether the STL monitors can hold, and can fail
===============  ==========  =================================================================

Nothing is checked here. `checker_readiness` says which checkers this machine has.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from ripieno.canonical import ASCII
from scpn_phase_orchestrator.binding.types import BindingSpec
from scpn_phase_orchestrator.exceptions import PolicyError
from scpn_phase_orchestrator.supervisor._formal_model import FormalPolicy, check_module_name, formal_net, formal_policy
from scpn_phase_orchestrator.supervisor._formal_prism import net_as_prism, policy_as_prism
from scpn_phase_orchestrator.supervisor._formal_smt import monitors_as_smt, policy_as_smt
from scpn_phase_orchestrator.supervisor._formal_tla import net_as_tla, policy_as_tla
from scpn_phase_orchestrator.supervisor.petri_adapter import petri_net_from_protocol
from scpn_phase_orchestrator.supervisor.policy_rules import PolicyDocument
from scpn_phase_orchestrator.supervisor.regimes import REGIME_RANK, Regime

__all__ = [
    "CHECKERS",
    "EXPORT_KINDS",
    "CheckerReadiness",
    "ExportKind",
    "FormalArtifact",
    "checker_readiness",
    "export_formal",
    "formal_export_package",
]

ExportKind = Literal["protocol", "protocol-tla", "policy", "policy-tla", "policy-smt", "stl"]
EXPORT_KINDS: tuple[ExportKind, ...] = get_args(ExportKind)
PACKAGE_SCHEMA = "scpn_formal_export_package_v1"
DEFAULT_MODULE_NAME = "spo_petri"

CHECKERS: Mapping[str, str] = {
    "prism": "prism",
    "storm": "prism",
    "tlc": "tla",
    "apalache-mc": "tla",
    "z3": "smt",
    "cvc5": "smt",
}
"""Executable of a checker -> the language that it reads."""

_LANGUAGE: Mapping[ExportKind, tuple[str, str]] = {
    "protocol": ("prism", ".prism"),
    "protocol-tla": ("tla", ".tla"),
    "policy": ("prism", ".prism"),
    "policy-tla": ("tla", ".tla"),
    "policy-smt": ("smt", ".smt2"),
    "stl": ("smt", ".smt2"),
}


@dataclass(frozen=True)
class FormalArtifact:
    """One exported text.

    Attributes:
        kind: what was exported.
        language: ``prism``, ``tla`` or ``smt``.
        file_name: what to call it; a TLA+ module has to be in a file of its name.
        sha256: hash of the text in UTF-8.
        text: the text.
    """

    kind: str
    language: str
    file_name: str
    sha256: str
    text: str


@dataclass(frozen=True)
class CheckerReadiness:
    """Whether a checker can be run here.

    Attributes:
        executable: name of the checker.
        language: what it reads.
        path: where it was found; empty when it was not.
        available: whether it is an executable file.
    """

    executable: str
    language: str
    path: str
    available: bool


def checker_readiness(paths: Mapping[str, str | Path] | None = None) -> tuple[CheckerReadiness, ...]:
    """Look for every known checker on the search path, or where the caller says. Nothing is run.

    Args:
        paths: executable -> where it lies.

    Raises:
        PolicyError: a checker that is not known.
    """
    given = dict(paths or {})
    unknown = sorted(set(given) - set(CHECKERS))
    if unknown:
        raise PolicyError(f"unknown checkers {unknown}; known are {', '.join(CHECKERS)}")
    result: list[CheckerReadiness] = []
    for executable, language in CHECKERS.items():
        path = str(given[executable]) if executable in given else shutil.which(executable) or ""
        available = bool(path) and Path(path).is_file() and os.access(path, os.X_OK)
        result.append(CheckerReadiness(executable, language, path, available))
    return tuple(result)


def _protocol(spec: BindingSpec, max_tokens: int | None) -> Any:
    if spec.protocol_net is None:
        raise PolicyError(f"spec '{spec.name}' declares no protocol_net")
    net, marking = petri_net_from_protocol(spec.protocol_net)
    ranks = {place: REGIME_RANK[Regime[name.upper()]] for place, name in spec.protocol_net.place_regime.items()}
    return formal_net(net, marking, ranks, max_tokens)


def _policy(spec: BindingSpec, document: PolicyDocument | None) -> FormalPolicy:
    if document is None:
        raise PolicyError(f"spec '{spec.name}' has no rule file; name one")
    return formal_policy(
        document.rules,
        layer_indices=[layer.index for layer in spec.layers],
        good_layers=spec.objectives.good_layers,
        bad_layers=spec.objectives.bad_layers,
        control_period_s=spec.control_period_s,
    )


def _monitors(spec: BindingSpec, document: PolicyDocument | None) -> str:
    if document is None:
        raise PolicyError(f"spec '{spec.name}' has no rule file; name one")
    return monitors_as_smt(document.stl_monitors)


def export_formal(
    kind: ExportKind,
    spec: BindingSpec,
    document: PolicyDocument | None = None,
    *,
    module_name: str = DEFAULT_MODULE_NAME,
    max_tokens: int | None = None,
) -> FormalArtifact:
    """Export one thing.

    Args:
        kind: what, see the table of this module.
        spec: the binding spec.
        document: the rule file, where rules or monitors are exported.
        module_name: name of the PRISM or TLA+ module.
        max_tokens: most tokens of a place in the model; see `formal_net`.

    Raises:
        PolicyError: the spec has no net, there are no rules or monitors, a formula is malformed, or an argument is not
            allowed.
    """
    check_module_name(module_name)
    writers: dict[ExportKind, Callable[[], str]] = {
        "protocol": lambda: net_as_prism(_protocol(spec, max_tokens), module_name),
        "protocol-tla": lambda: net_as_tla(_protocol(spec, max_tokens), module_name),
        "policy": lambda: policy_as_prism(_policy(spec, document), module_name),
        "policy-tla": lambda: policy_as_tla(_policy(spec, document), module_name),
        "policy-smt": lambda: policy_as_smt(_policy(spec, document)),
        "stl": lambda: _monitors(spec, document),
    }
    if kind not in writers:
        raise PolicyError(f"export must be one of {', '.join(EXPORT_KINDS)}, got {kind!r}")
    text = writers[kind]()
    language, suffix = _LANGUAGE[kind]
    folder = kind.removesuffix("-tla") if language == "tla" else ""
    file_name = f"{folder}/{module_name}{suffix}" if language == "tla" else f"{kind}{suffix}"
    return FormalArtifact(kind, language, file_name, hashlib.sha256(text.encode()).hexdigest(), text)


def formal_export_package(
    spec: BindingSpec,
    document: PolicyDocument | None = None,
    *,
    module_name: str = DEFAULT_MODULE_NAME,
    max_tokens: int | None = None,
    readiness: tuple[CheckerReadiness, ...] | None = None,
) -> dict[str, Any]:
    """Export everything that the spec has, with hashes.

    ``package_hash`` is the SHA-256 of the compact sorted ASCII JSON of the package without itself and without
    ``checker_readiness``, which depends on the machine.

    Raises:
        PolicyError: there is nothing to export, or an argument is not allowed.
    """
    artifacts: list[FormalArtifact] = []
    unavailable: dict[str, str] = {}
    check_module_name(module_name)
    for kind in EXPORT_KINDS:
        try:
            artifacts.append(export_formal(kind, spec, document, module_name=module_name, max_tokens=max_tokens))
        except PolicyError as error:
            unavailable[kind] = str(error)
    if not artifacts:
        raise PolicyError(f"nothing to export: {'; '.join(dict.fromkeys(unavailable.values()))}")
    package: dict[str, Any] = {
        "schema": PACKAGE_SCHEMA,
        "version": "1.0.0",
        "spec_name": spec.name,
        "spec_version": spec.version,
        "module_name": module_name,
        "artifacts": [asdict(artifact) for artifact in artifacts],
        "unavailable": unavailable,
        "verification_performed": False,
        "operator_review_required": True,
        "actuation_permitted": False,
        "non_actuating": True,
    }
    package["package_hash"] = ASCII.hash(package)
    if readiness is not None:
        package["checker_readiness"] = [asdict(checker) for checker in readiness]
    return package
