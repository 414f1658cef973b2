"""Spec files into `BindingSpec`, fail-closed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from scpn_phase_orchestrator.binding._descriptors import INVALID, Report, Violation
from scpn_phase_orchestrator.binding._document import (
    MAX_BYTES,
    DocumentError,
    Mapping,
    Node,
    Scalar,
    Sequence,
    parse_json,
    parse_yaml,
)
from scpn_phase_orchestrator.binding._file import document_text
from scpn_phase_orchestrator.binding.schema import SPEC
from scpn_phase_orchestrator.binding.types import BindingSpec, SpecOrigin
from scpn_phase_orchestrator.exceptions import BindingError

__all__ = ["SPEC_FILE_NAME", "BindingLoadError", "load_binding_spec", "parse_binding_spec"]

SPEC_FILE_NAME = "binding_spec.yaml"
"""Name of the spec in a pack's folder."""

_LAYER_KEYS = ("name", "index")
_PARSERS = {".yaml": parse_yaml, ".yml": parse_yaml, ".json": parse_json}


class BindingLoadError(BindingError):
    """A spec file that cannot be read; `violations` hold every reason with its dotted path and line."""

    def __init__(self, source: str, violations: list[Violation]) -> None:
        self.source = source
        self.violations = tuple(violations)
        lines = [str(violation) for violation in violations]
        text = lines[0] if len(lines) == 1 else "\n  ".join([f"{len(lines)} errors:", *lines])
        super().__init__(f"{source}: {text}")


def load_binding_spec(path: str | Path) -> BindingSpec:
    """Read a spec from a ``.yaml``, ``.yml`` or ``.json`` file, or from the ``binding_spec.yaml`` of a folder.

    Types are strict, unknown keys are errors, extractor aliases are resolved. Whether the parts fit together is the
    matter of `validate_binding_spec`.

    Raises:
        BindingLoadError: the file cannot be read or breaks the format; every violation is named.
    """
    file = Path(path)
    try:
        if file.is_dir():
            file = file / SPEC_FILE_NAME
    except (OSError, ValueError):
        pass
    source = str(file)
    parse = _PARSERS.get(file.suffix.lower())
    if parse is None:
        suffix = file.suffix or "no extension"
        raise _refusal(source, f"unsupported extension ({suffix}); a spec is a .yaml, .yml or .json file")
    try:
        text = document_text(file, "spec file")
    except DocumentError as error:
        raise _refusal(source, str(error), error.line) from error
    return _read(text, source, parse, file)


def parse_binding_spec(text: str, *, source: str = "spec", is_json: bool = False) -> BindingSpec:
    """Read a spec from YAML or JSON text, as `load_binding_spec` does from a file.

    Raises:
        BindingLoadError: the text breaks the format; `source` is the name in its messages.
    """
    if len(text) > MAX_BYTES:
        raise _refusal(source, f"the text has {len(text)} characters; at most {MAX_BYTES} are read")
    return _read(text, source, parse_json if is_json else parse_yaml)


def _read(text: str, source: str, parse: Callable[[str], Node], path: Path | None = None) -> BindingSpec:
    try:
        root = parse(text)
    except DocumentError as error:
        raise _refusal(source, str(error), error.line) from error
    if isinstance(root, Mapping) and "rules" in root.items and "layers" not in root.items:
        line = root.key_lines["rules"]
        raise _refusal(source, "this looks like a rule file; give the spec that it belongs to", line)
    report = Report(_layer_indices(root))
    spec = SPEC.read(root, (), report)
    if spec is INVALID:
        raise BindingLoadError(source, sorted(report.violations, key=lambda violation: violation.line))
    spec.origin = SpecOrigin(path, report.lines)
    return spec


def _layer_indices(root: Node) -> dict[str, int]:
    """The index of each layer by name, as far as the document says so."""
    layers = root.items.get("layers") if isinstance(root, Mapping) else None
    found: dict[str, int] = {}
    for layer in layers.items if isinstance(layers, Sequence) else ():
        if not isinstance(layer, Mapping):
            continue
        name, index = (node.value if isinstance(node, Scalar) else None for node in map(layer.items.get, _LAYER_KEYS))
        if isinstance(name, str) and type(index) is int:
            found[name] = index
    return found


def _refusal(source: str, message: str, line: int = 0) -> BindingLoadError:
    return BindingLoadError(source, [Violation("spec", line, message)])
