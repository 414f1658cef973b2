"""Where the constructor of a release is found: the registry, a text of your own, or an installed package."""

from __future__ import annotations

from functools import cache, lru_cache
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

from agentinputlab.contracts.errors import AlgorithmUnavailableError, ValidationError
from agentinputlab.registry import AlgorithmRegistry

if TYPE_CHECKING:
    from inspect import Signature

__all__ = ["PLUGIN_GROUP", "make_intervention"]

PLUGIN_GROUP = "agentinputlab.interventions"
"""Entry points of this group add releases of your own: name -> class with keyword parameters."""


def make_intervention(release_id: str, parameters: dict[str, Any]) -> Any:
    """Make the intervention of a registered release, of ``own.text``, or of an installed package.

    Raises:
        RegistryError: nobody knows the release; the message names near matches.
        AlgorithmUnavailableError: it cannot be run here.
        ValidationError: a parameter is unknown, missing or wrong.
    """
    constructor = _constructor(release_id)
    try:
        _signature(constructor).bind(**parameters)
    except TypeError as error:
        known = ", ".join(_signature(constructor).parameters) or "none"
        is_registered = AlgorithmRegistry.default().has_release(release_id)
        hint = f"; see 'agentinputlab show {release_id} --parameters'" if is_registered else ""
        raise ValidationError(f"parameters of {release_id} do not fit: {error}; it has: {known}{hint}") from error
    return constructor(**parameters)


def _signature(constructor: Any) -> Signature:
    """Give what a constructor takes; of a class, of which many objects are made, it is found out once."""
    from inspect import signature

    return _signature_of_class(constructor) if isinstance(constructor, type) else signature(constructor)


@lru_cache(maxsize=256)
def _signature_of_class(constructor: type) -> Signature:
    from inspect import signature

    return signature(constructor)


@cache
def _plugins() -> dict[str, Any]:
    return {entry.name: entry for entry in entry_points(group=PLUGIN_GROUP)}


def _constructor(release_id: str) -> Any:
    if release_id == "own.text":
        from agentinputlab.algorithms.own_text import OwnText

        return OwnText
    registry = AlgorithmRegistry.default()
    if registry.has_release(release_id) or release_id not in (plugins := _plugins()):
        return registry.resolve_entrypoint(release_id)
    try:
        return plugins[release_id].load()
    except (ImportError, AttributeError) as error:
        raise AlgorithmUnavailableError(f"{release_id} cannot be imported: {error}") from error
