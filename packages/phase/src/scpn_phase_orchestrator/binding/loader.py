"""Spec files into `BindingSpec`, fail-closed."""

from __future__ import annotations

import stat
from collections.abc import Callable
from pathlib import Path

from scpn_phase_orchestrator.binding._descriptors import INVALID, Report, Violation
from scpn_phase_orchestrator.binding._document import MAX_BYTES, DocumentError, Node, parse_json, parse_yaml
from scpn_phase_orchestrator.binding.schema import SPEC
from scpn_phase_orchestrator.binding.types import BindingSpec, SpecOrigin
from scpn_phase_orchestrator.exceptions import BindingError

__all__ = ["SPEC_FILE_NAME", "BindingLoadError", "load_binding_spec", "parse_binding_spec"]

SPEC_FILE_NAME = "binding_spec.yaml"
"""Name of the spec in a pack's folder."""

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
    return _read(_text(file), source, parse, file)


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
    report = Report()
    spec = SPEC.read(root, (), report)
    if spec is INVALID:
        raise BindingLoadError(source, sorted(report.violations, key=lambda violation: violation.line))
    spec.origin = SpecOrigin(path, report.lines)
    return spec


def _text(file: Path) -> str:
    try:
        status = file.stat()
        if not stat.S_ISREG(status.st_mode):
            raise _refusal(str(file), "not a regular file")
        if status.st_size > MAX_BYTES:
            raise _refusal(str(file), f"the file has {status.st_size} bytes; at most {MAX_BYTES} are read")
        with file.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        if isinstance(error, BindingLoadError):
            raise
        reason = (error.strerror if isinstance(error, OSError) else None) or error
        raise _refusal(str(file), f"cannot read spec file: {reason}") from error
    if len(data) > MAX_BYTES:
        raise _refusal(str(file), f"the file has more than {MAX_BYTES} bytes")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise _refusal(str(file), f"not UTF-8: byte {error.start} is wrong", line) from error


def _refusal(source: str, message: str, line: int = 0) -> BindingLoadError:
    return BindingLoadError(source, [Violation("spec", line, message)])
