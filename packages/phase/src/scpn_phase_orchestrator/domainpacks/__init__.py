"""The domain packs that come with this package: folders with a `binding_spec.yaml`, found by name."""

from __future__ import annotations

from pathlib import Path

from scpn_phase_orchestrator.binding._descriptors import nearest
from scpn_phase_orchestrator.binding.loader import SPEC_FILE_NAME
from scpn_phase_orchestrator.exceptions import BindingError

__all__ = ["pack_names", "packs_root", "resolve_spec_path"]

_SUFFIXES = frozenset({".yaml", ".yml", ".json"})


def packs_root() -> Path:
    """The folder that holds the packs."""
    return Path(__file__).parent


def pack_names(root: Path | None = None) -> list[str]:
    """Names of the packs in a folder of packs (by default those of this package), sorted."""
    return sorted(spec.parent.name for spec in (root or packs_root()).glob(f"*/{SPEC_FILE_NAME}"))


def resolve_spec_path(name_or_path: str | Path, *, root: Path | None = None) -> Path:
    """The spec file that somebody means: a file, a folder that holds a ``binding_spec.yaml``, or the name of a pack.

    What exists on disk wins over a pack of the same name. `root` is the folder of packs, by default that of this
    package.

    Raises:
        BindingError: nothing of that name; says which packs are near, and how to list all.
    """
    text = str(name_or_path)
    path = Path(text)
    try:
        if path.is_dir() and (path / SPEC_FILE_NAME).is_file():
            return path / SPEC_FILE_NAME
        if path.is_file():
            return path
        is_link, is_folder = path.is_symlink(), path.is_dir()
    except (OSError, ValueError) as error:
        raise BindingError(f"{text[:100]!r} is no usable path: {error}") from error
    names = pack_names(root)
    if text in names:
        return (root or packs_root()) / text / SPEC_FILE_NAME
    if is_folder:
        raise BindingError(f"folder {text!r} holds no {SPEC_FILE_NAME}")
    if is_link:
        raise BindingError(f"{text!r} is a link that leads nowhere")
    if path.suffix.lower() in _SUFFIXES or len(path.parts) != 1:
        raise BindingError(f"no spec file or folder at {text!r}")
    near = nearest(text, names)
    hint = f"did you mean '{near}'? " if near else ""
    raise BindingError(f"no pack, file or folder is named {text!r}; {hint}'spo packs' lists all packs")
