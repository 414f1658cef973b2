"""What packs there are, in the words of their READMEs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from scpn_phase_orchestrator.binding.loader import load_binding_spec
from scpn_phase_orchestrator.binding.types import BindingSpec
from scpn_phase_orchestrator.domainpacks import pack_names, packs_root, resolve_spec_path

__all__ = ["Pack", "all_packs", "find_pack"]

_SUBJECT = re.compile(r"^## What it models\s+(.+?)(?=\n\s*\n|\n#|\Z)", re.MULTILINE | re.DOTALL)
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z])")


@dataclass(frozen=True)
class Pack:
    """A spec and the README beside it (empty when there is none).

    Attributes:
        name: of the folder.
        path: of the spec.
        spec: what it says.
        readme: text of ``README.md``.
    """

    name: str
    path: Path
    spec: BindingSpec
    readme: str

    @property
    def oscillators(self) -> int:
        """Number of oscillators in all layers."""
        return sum(len(layer.oscillator_ids) for layer in self.spec.layers)

    @property
    def subject(self) -> str:
        """First sentence of the section "What it models"; empty without one."""
        found = _SUBJECT.search(self.readme)
        return "" if found is None else _SENTENCE_END.split(" ".join(found[1].split()), maxsplit=1)[0]


def find_pack(name_or_path: str) -> Pack:
    """Read a pack by name, folder or file.

    Raises:
        BindingError: there is none, or its spec cannot be read.
        OSError: its README cannot be read.
    """
    path = resolve_spec_path(name_or_path)
    readme = path.parent / "README.md"
    text = readme.read_text(encoding="utf-8", errors="replace") if readme.is_file() else ""
    return Pack(path.resolve().parent.name, path, load_binding_spec(path), text)


def all_packs(root: Path | None = None) -> list[Pack]:
    """Read all packs of a folder of packs, by default those of this package.

    Raises:
        BindingError: a spec cannot be read.
        OSError: a README cannot be read.
    """
    folder = root or packs_root()
    return [find_pack(str(folder / name)) for name in pack_names(root)]
