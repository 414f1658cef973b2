"""A spec back into the plain data that a file of it holds."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

import yaml

from scpn_phase_orchestrator.binding.types import BindingSpec, DriverSpec

__all__ = ["binding_document", "binding_yaml"]


def binding_document(spec: BindingSpec) -> dict[str, Any]:
    """What a spec says as dicts, lists and scalars that the loader reads back to an equal spec.

    Optional keys whose value is None are left out; all others are written, defaults too.
    """
    document: dict[str, Any] = _plain(spec)
    return document


def binding_yaml(spec: BindingSpec) -> str:
    """The same as YAML, keys in the order of the table of the format."""
    return yaml.safe_dump(
        binding_document(spec), sort_keys=False, allow_unicode=True, default_flow_style=None, width=110
    )


def _plain(value: Any) -> Any:
    if isinstance(value, DriverSpec):
        return _plain(
            {"physical": value.physical, "informational": value.informational, "symbolic": value.symbolic}
            | (value.extra or {})
        )
    if is_dataclass(value) and not isinstance(value, type):
        given = [(entry, getattr(value, entry.name)) for entry in fields(value) if entry.init]
        return {entry.name: _plain(item) for entry, item in given if item is not None or entry.default is not None}
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value
