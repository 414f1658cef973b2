"""Drafts of scopes: complete, with computed hashes, never enabled. Enabling one is left to a human."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from workers.official_arenas._errors import OfficialArenaError
from workers.official_arenas._evidence import evidence_bytes, parse_object, read_regular, sha256_bytes
from workers.official_arenas._first_capture import create_receipt
from workers.official_arenas.protocol import OfficialArenaProvider
from workers.official_arenas.providers import provider_entrypoint

__all__ = ["ARENA_ALIASES", "arena_entrypoint", "blank_authorizations", "draft_config", "write_draft"]

ARENA_ALIASES: Mapping[str, str] = {"embedded": "embedded.retail", "tau2": "tau3.retail"}
"""Short names on the command line -> names of arenas."""

_SCRIPTED_AGENT: Mapping[str, Any] = {"backend": "scripted", "model": "scripted-agent.v1", "args": {}}


def arena_entrypoint(name: str) -> str:
    """Give the entry point of an arena by short name, name or entry point.

    Raises:
        OfficialArenaError: no such arena is installed.
    """
    return name if ":" in name else provider_entrypoint(ARENA_ALIASES.get(name, name))


def blank_authorizations() -> dict[str, dict[str, str]]:
    """Give the references to human messages as a draft has them: blank, so that no check accepts them."""
    return {
        name: {"source_kind": "human_message", "thread_id": "", "message_sha256": ""}
        for name in ("scope", "environment_models")
    }


def draft_config(
    provider: OfficialArenaProvider, path: Path | None, *, split: str, limit: int | None
) -> dict[str, Any]:
    """Give the provider config of a file, or the arena's own default for its scripted agent.

    Raises:
        OfficialArenaError: the file is no JSON object, or the arena has no default.
    """
    if path is not None:
        try:
            return parse_object(read_regular(path))
        except OSError as error:
            raise OfficialArenaError("Retail bound file is absent or symlinked") from error
    default: Any = getattr(provider, "campaign_config", None)
    if default is None:
        raise OfficialArenaError("This arena has no default config; give one with --config")
    return dict(default(split=split, limit=limit, agent=dict(_SCRIPTED_AGENT), budget=None))


def write_draft(path: Path, scope: Mapping[str, Any]) -> dict[str, Any]:
    """Write a drafted scope, which must not exist yet, and give what its operator needs to know.

    Raises:
        OfficialArenaError: the file exists, or cannot be written.
    """
    try:
        create_receipt(path.absolute(), scope)
    except OSError as error:
        raise OfficialArenaError(f"Draft could not be written: {error.strerror}") from error
    return {
        "draft": str(path),
        "sha256": sha256_bytes(evidence_bytes(dict(scope))),
        "execution_enabled": False,
        "left_to_a_human": ["authorizations", "execution_enabled"],
    }
