"""The arenas that a worker accepts: a fixed table, and what installed packages add by entry point.

Nothing else is ever imported: a request names its arena by an entry point of this table.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from importlib import import_module
from types import MappingProxyType
from typing import Any

from workers.official_arenas._console import quiet_console
from workers.official_arenas.protocol import OfficialArenaError, OfficialArenaProvider

__all__ = [
    "ENTRY_POINT_GROUP",
    "PROVIDERS",
    "installed_providers",
    "name_problem",
    "provider_entrypoint",
    "resolve_named",
    "resolve_provider",
]

ENTRY_POINT_GROUP = "agentinputlab.arenas"
"""Entry points of this group add arenas: each names a function without arguments that gives a provider."""

_OWN = "workers.official_arenas.providers"
PROVIDERS: Mapping[str, str] = MappingProxyType(
    {
        "embedded.retail": f"{_OWN}.embedded_retail:factory",
        "tau3.retail": f"{_OWN}.tau_retail:factory",
        "fixture.common_support": f"{_OWN}.fixture:factory",
    }
)
"""Benchmark id -> entry point of the arenas that come with this package."""


@lru_cache(maxsize=1)
def installed_providers() -> Mapping[str, str]:
    """Give name -> entry point of every arena of this installation; a name of our own cannot be taken."""
    from importlib.metadata import entry_points

    found = {entry.name: entry.value for entry in entry_points(group=ENTRY_POINT_GROUP)}
    return MappingProxyType({**found, **PROVIDERS})


def provider_entrypoint(name: str) -> str:
    """Give the entry point of an arena by its name (``embedded.retail``).

    Raises:
        OfficialArenaError: no arena of this installation has that name; the message lists those that exist.
    """
    entrypoint = PROVIDERS.get(name) or installed_providers().get(name)
    if entrypoint is None:
        raise OfficialArenaError(f"Unknown arena; installed are {', '.join(sorted(installed_providers()))}")
    return entrypoint


def name_problem(name: str, benchmark_id: str) -> str:
    """Say what is wrong with an arena whose entry point has another name than it has itself; empty when equal.

    Examples:
        >>> name_problem("my.weekdays", "my.weekdays")
        ''
    """
    if name == benchmark_id:
        return ""
    return f"Arena {name} has the benchmark_id {benchmark_id}; give its entry point and benchmark_id the same name"


def resolve_named(name: str) -> OfficialArenaProvider:
    """Give a new provider of an installed arena by its name.

    Raises:
        OfficialArenaError: as `provider_entrypoint` and `resolve_provider`, or the arena calls itself something else:
            its results would carry a name by which nobody finds it.
    """
    provider = resolve_provider(provider_entrypoint(name))
    problem = name_problem(name, provider.benchmark_id)
    if problem:
        raise OfficialArenaError(problem)
    return provider


def resolve_provider(entrypoint: str) -> OfficialArenaProvider:
    """Give a new provider of an accepted entry point (``module:function``).

    Raises:
        OfficialArenaError: the entry point is not in the table, cannot be loaded, or gives no arena. What another
            package prints or raises on the way reaches no console.
    """
    if entrypoint not in PROVIDERS.values() and entrypoint not in installed_providers().values():
        raise OfficialArenaError("Provider entry point is not one of the accepted arenas")
    if entrypoint in PROVIDERS.values():
        return _made(entrypoint)
    with quiet_console():
        return _made(entrypoint)


def _made(entrypoint: str) -> OfficialArenaProvider:
    module_name, _, attribute = entrypoint.partition(":")
    try:
        provider: Any = getattr(import_module(module_name), attribute)()
    except (Exception, SystemExit) as error:  # anybody's code: that it fails is all that may be said
        raise OfficialArenaError(f"Provider entry point {entrypoint} cannot be loaded{_missing(error)}") from error
    if not callable(getattr(provider, "run_arm", None)):
        raise OfficialArenaError(f"Provider entry point {entrypoint} gives no arena")
    return provider


def _missing(error: BaseException) -> str:
    """Name the module that is not installed, if that is why."""
    name = error.name if isinstance(error, ModuleNotFoundError) else None
    is_name = name is not None and all(part.isidentifier() for part in name.split("."))
    return f": no module named {name}" if is_name else ""
