"""The smallest pack: one layer with one oscillator, to be filled in."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from ripieno.files import create_only
from scpn_phase_orchestrator.binding.loader import SPEC_FILE_NAME
from scpn_phase_orchestrator.exceptions import BindingError
from scpn_phase_orchestrator.scaffold.folder import check_name, create_folder
from scpn_phase_orchestrator.scaffold.yaml_text import plain_scalar

__all__ = ["Filled", "fill_folder", "minimal_pack"]


class Filled(NamedTuple):
    """Files that were written, and files that existed and stayed as they are."""

    written: tuple[str, ...]
    kept: tuple[str, ...]


def minimal_pack(name: str) -> dict[str, str]:
    """Give spec and README of the smallest pack, by file name.

    Raises:
        BindingError: the name has other characters than ``[a-zA-Z0-9_-]``.
    """
    check_name(name)
    spec = f"""# {name}: the smallest spec. 'spo new' writes one that shows what supervision does.
name: {plain_scalar(name)}
version: "0.1.0"
safety_tier: research
sample_period_s: 0.01
control_period_s: 0.1
layers:
  - name: default
    index: 0
    oscillator_ids: [osc_0] # one oscillator is always in step with itself: add more
    omegas: [1.0] # rad/s
    family: default
oscillator_families:
  default: {{channel: P, extractor_type: hilbert}}
coupling: {{base_strength: 0.45, decay_alpha: 0.3}}
drivers: {{physical: {{}}, informational: {{}}, symbolic: {{}}}}
objectives: {{good_layers: [0], bad_layers: []}}
supervisor: {{strategy: objectives}}
"""
    readme = f"""# {name}

A scaffold: one layer, one oscillator. Fill in `binding_spec.yaml`, then

```
spo validate domainpacks/{name}
spo run domainpacks/{name}
```
"""
    return {SPEC_FILE_NAME: spec, "README.md": readme}


def fill_folder(folder: Path, files: dict[str, str]) -> Filled:
    """Write the files that a folder does not have yet; a new folder appears whole.

    Raises:
        BindingError: something that is no folder has its name, or a file cannot be written.
    """
    if not folder.is_dir():
        create_folder(folder, files)
        return Filled(tuple(files), ())
    written: list[str] = []
    kept: list[str] = []
    for name, text in files.items():
        try:
            create_only(folder / name, text.encode("utf-8"))
        except FileExistsError:
            kept.append(name)
        except OSError as error:
            raise BindingError(f"cannot write {folder / name}: {error.strerror}") from error
        else:
            written.append(name)
    return Filled(tuple(written), tuple(kept))
