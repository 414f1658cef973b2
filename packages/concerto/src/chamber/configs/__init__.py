"""Training configurations that come with the package, as files under `training/<algo>/<name>.yaml`."""

from __future__ import annotations

from pathlib import Path

from ripieno.errors import InputError

__all__ = ["shipped_config_names", "shipped_config_path"]

_FOLDER = Path(__file__).parent / "training" / "ego_aht_happo"


def shipped_config_names() -> list[str]:
    """Give the names of the shipped configurations of ego training, sorted."""
    return sorted(path.stem for path in _FOLDER.glob("*.yaml"))


def shipped_config_path(name: str) -> Path:
    """Give the file of a shipped configuration.

    Raises:
        InputError: there is none of this name; the message lists those there are.
    """
    known = shipped_config_names()
    if name not in known:
        raise InputError(f"there is no shipped configuration {name!r}; there are {', '.join(known)}")
    return _FOLDER / f"{name}.yaml"
