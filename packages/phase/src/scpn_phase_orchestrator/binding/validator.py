"""What makes a loaded spec valid, what is legal but unwise, and what must never be in one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from scpn_phase_orchestrator.binding._advice import advice
from scpn_phase_orchestrator.binding._consistency import inconsistencies
from scpn_phase_orchestrator.binding._descriptors import Report
from scpn_phase_orchestrator.binding._document import wrap
from scpn_phase_orchestrator.binding.schema import SPEC
from scpn_phase_orchestrator.binding.types import BindingSpec
from scpn_phase_orchestrator.binding.writer import binding_document

__all__ = ["UNSAFE_MARKERS", "binding_warnings", "validate_binding_spec", "validate_binding_spec_security"]

UNSAFE_MARKERS = (
    "!!python",
    "python/object",
    "__import__",
    "eval(",
    "exec(",
    "compile(",
    "subprocess",
    "os.system",
    "pickle.loads",
    "marshal.loads",
    "lambda ",
    "builtins.",
    "globals(",
    "locals(",
    "getattr(",
    "setattr(",
)
"""Text that has no place in a spec, which is data."""


def validate_binding_spec(spec: BindingSpec) -> list[str]:
    """Everything that makes a spec invalid, in the order of its parts; empty when it is valid.

    A message names the dotted path, the value and the expectation, and the line when the spec was read from a file.
    Values are first held against the table that the loader uses too; how parts fit together is judged when their types
    are right.
    """
    report = Report()
    SPEC.read(wrap(binding_document(spec)), (), report)
    findings = [(violation.path, violation.message) for violation in report.violations]
    if not report.has_wrong_types:
        findings.extend(inconsistencies(spec))
    return _with_lines(spec, findings)


def binding_warnings(spec: BindingSpec) -> list[str]:
    """What is legal but unwise in a valid spec: parts without effect, unstable steps, objectives that cannot be met."""
    return _with_lines(spec, advice(spec))


def validate_binding_spec_security(spec: BindingSpec) -> list[str]:
    """Strings of a spec, keys included, that hold text meant for an interpreter; empty when there are none."""
    return _with_lines(
        spec,
        [
            (path, f"{path or 'spec'} holds the executable marker {marker!r}")
            for path, text in _strings(binding_document(spec), "")
            for marker in UNSAFE_MARKERS
            if marker in text
        ],
    )


def _strings(value: Any, path: str) -> Iterator[tuple[str, str]]:
    """Every string with the path of the value that holds it."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for key, item in value.items():
            place = f"{path}.{key}" if path else str(key)
            yield place, str(key)
            yield from _strings(item, place)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _strings(item, f"{path}[{index}]")


def _with_lines(spec: BindingSpec, findings: list[tuple[str, str]]) -> list[str]:
    lines = spec.origin.lines if spec.origin else {}
    return [message + _line_of(path, lines) for path, message in findings]


def _line_of(path: str, lines: dict[str, int]) -> str:
    """The line of the nearest part of a path that was in the file."""
    while path:
        if path in lines:
            return f" (line {lines[path]})"
        path = path[: max(path.rfind("."), path.rfind("["), 0)]
    return ""
