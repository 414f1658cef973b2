"""Where registry documents come from: the package, a file, a repository."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from agentinputlab.contracts.errors import RegistryError
from agentinputlab.contracts.serialization import content_hash
from ripieno.canonical import strict_loads
from ripieno.errors import RipienoError
from ripieno.files import open_regular

__all__ = [
    "REPOSITORY_REGISTRY",
    "find_repository_registry",
    "load_packaged_registry",
    "load_registry_file",
    "load_registry_text",
    "registry_documents_equal",
    "validate_snapshot_sync",
]

REPOSITORY_REGISTRY = Path("manifests/algorithms/registry.yaml")
"""Where a repository keeps its registry document: JSON, which is YAML too."""
MAX_BYTES = 8 * 2**20
"""Longest document that is read."""
_PACKAGED = Path(__file__).parent / "data" / "algorithms.json"


def load_registry_text(data: str | bytes) -> dict[str, Any]:
    """Give the document that a text holds.

    Raises:
        RegistryError: no strict JSON (duplicate keys, NaN, too long, too deep), or no object.
    """
    try:
        document = strict_loads(data, max_bytes=MAX_BYTES)
    except RipienoError as error:
        raise RegistryError(f"registry document: {error}") from error
    if not isinstance(document, dict):
        raise RegistryError(f"registry document must be an object, got {type(document).__name__}")
    return cast("dict[str, Any]", document)


def load_registry_file(path: Path | str) -> dict[str, Any]:
    """Give the document in a file.

    Raises:
        RegistryError: the file is absent, no regular file, or as `load_registry_text`.
    """
    try:
        with open_regular(path) as stream:
            data = stream.read(MAX_BYTES + 1)
    except (OSError, RipienoError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no regular file"
        raise RegistryError(f"cannot read the registry {path}: {reason}") from error
    return load_registry_text(data)


def load_packaged_registry() -> dict[str, Any]:
    """Give the document that comes with the package."""
    return load_registry_file(_PACKAGED)


def find_repository_registry(start: Path | str | None = None) -> Path | None:
    """Give the nearest ``manifests/algorithms/registry.yaml`` in a directory or one above it, or None.

    Args:
        start: where to begin; the working directory by default.
    """
    directory = (Path.cwd() if start is None else Path(start)).resolve()
    for candidate in (directory, *directory.parents):
        path = candidate / REPOSITORY_REGISTRY
        if path.is_file():
            return path
    return None


def registry_documents_equal(first: Mapping[str, Any], second: Mapping[str, Any]) -> bool:
    """Tell whether two documents say the same, however they are laid out."""
    return content_hash(first) == content_hash(second)


def validate_snapshot_sync(source: Mapping[str, Any]) -> None:
    """Check that a repository's document says what the packaged one says.

    Raises:
        RegistryError: they differ; the text names the first field or method that does.
    """
    packaged = load_packaged_registry()
    if registry_documents_equal(source, packaged):
        return
    raise RegistryError(f"the registry differs from the packaged one in {_first_difference(source, packaged)}")


def _first_difference(first: Mapping[str, Any], second: Mapping[str, Any]) -> str:
    for name in sorted({*first, *second}):
        if name != "algorithms" and first.get(name) != second.get(name):
            return repr(name)
    ours, theirs = _by_id(first), _by_id(second)
    for method_id in (*ours, *theirs):
        if ours.get(method_id) != theirs.get(method_id):
            return f"method {method_id}"
    return "the order of its methods"


def _by_id(document: Mapping[str, Any]) -> dict[str, Any]:
    cards: Any = document.get("algorithms")
    if not isinstance(cards, list):
        return {}
    rows = [cast("dict[str, Any]", card) for card in cast("list[object]", cards) if isinstance(card, dict)]
    return {str(row.get("method_id")): row for row in rows}
