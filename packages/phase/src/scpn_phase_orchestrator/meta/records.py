"""What one run teaches: its features, the knobs that were set, and how well it went."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

from ripieno.canonical import MAX_BYTES, strict_loads
from ripieno.errors import InputError
from scpn_phase_orchestrator.exceptions import ValidationError

__all__ = ["KNOBS", "MetaPolicyRecord", "read_audit_history"]

KNOBS = ("K", "alpha", "zeta", "Psi")
"""The knobs whose actions count."""


@dataclass(frozen=True)
class MetaPolicyRecord:
    """One example of control in one domain.

    Attributes:
        domain: where it comes from, e.g. the name of a domain pack.
        features: what the system looked like; not empty, finite.
        knobs: what was set; not empty, finite.
        reward: how well it went; finite.

    Raises:
        ValidationError: a field that is not allowed.
    """

    domain: str
    features: Mapping[str, float]
    knobs: Mapping[str, float]
    reward: float = 1.0

    def __post_init__(self) -> None:
        if not isinstance(self.domain, str) or not self.domain.strip():  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ValidationError(f"domain must be a non-empty string, got {self.domain!r:.80}")
        object.__setattr__(self, "features", _finite_mapping(self.features, "features"))
        object.__setattr__(self, "knobs", _finite_mapping(self.knobs, "knobs"))
        object.__setattr__(self, "reward", _finite(self.reward, "reward"))

    def to_record(self) -> dict[str, Any]:
        """Give the record as JSON values."""
        return {
            "domain": self.domain,
            "features": dict(self.features),
            "knobs": dict(self.knobs),
            "reward": self.reward,
        }


def _finite(value: object, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValidationError(f"{name} must be a finite number, got {value!r:.80}")
    if not abs(value) <= sys.float_info.max:
        raise ValidationError(f"{name} must be a finite number, got {value!r:.80}")
    return float(value)


def _finite_mapping(value: object, name: str) -> Mapping[str, float]:
    if not isinstance(value, Mapping):
        raise ValidationError(f"{name} must be a mapping of names to numbers, got {value!r:.80}")
    if not value:
        raise ValidationError(f"{name} must be non-empty")
    numbers: dict[str, float] = {}
    for key, item in cast("Mapping[object, object]", value).items():
        if not isinstance(key, str) or not key:
            raise ValidationError(f"a key of {name} must be a non-empty string, got {key!r:.80}")
        numbers[key] = _finite(item, f"{name}[{key!r}]")
    return MappingProxyType(numbers)


def read_audit_history(path: Path) -> list[MetaPolicyRecord]:
    """Read the examples of one file.

    A file whose first line is a header with ``header: true`` is the audit log of a run and gives *one* example: its
    domain is the name in ``binding_summary``, its features are the means over all steps of the order parameter of each
    layer (``R_0``, ``R_1``, ...), of all layers (``R``) and of ``stability``, its knobs the means of the values of its
    actions by knob, its reward the mean ``stability``. A log without actions teaches nothing and gives no example. Of
    any other file every line is an example.

    Raises:
        ValidationError: a malformed line; the message names file and line.
        OSError: the file cannot be read.
    """
    lines = _lines(path)
    first = next(lines, None)
    if first is None:
        return []
    number, record = first
    if record.get("header") is True:
        return _run_example(path, record, lines)
    examples = [_line_example(path, number, record)]
    examples += [_line_example(path, number, record) for number, record in lines]
    return examples


def _lines(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    with path.open("rb") as stream:
        for number, line in enumerate(iter(lambda: stream.readline(MAX_BYTES + 1), b""), start=1):
            if not line.strip():
                continue
            try:
                record = strict_loads(line)
            except InputError as error:
                raise ValidationError(f"{path}:{number}: {error}") from error
            if not isinstance(record, dict):
                raise ValidationError(f"{path}:{number}: a line must be a JSON object")
            yield number, cast("dict[str, Any]", record)


def _first_of(record: Mapping[str, Any], *keys: str) -> Any:
    return next((record[key] for key in keys if record.get(key) is not None), None)


def _line_example(path: Path, number: int, record: Mapping[str, Any]) -> MetaPolicyRecord:
    domain = _first_of(record, "domain", "domainpack")
    features = _first_of(record, "features", "metrics")
    knobs = record.get("knobs")
    reward = _first_of(record, "reward", "R_global")
    try:
        return MetaPolicyRecord(
            domain="unknown" if domain is None else domain,
            features={} if features is None else features,
            knobs=_mean_knobs(_actions(record)) if knobs is None else knobs,
            reward=1.0 if reward is None else reward,
        )
    except ValidationError as error:
        raise ValidationError(f"{path}:{number}: {error}") from error


def _actions(record: Mapping[str, Any]) -> list[Any]:
    actions = record.get("actions", [])
    return cast("list[Any]", actions) if isinstance(actions, list) else []


def _mean_knobs(actions: Iterable[Any]) -> dict[str, float]:
    """Give the mean of the finite values per knob, over the knobs that are known."""
    values: dict[str, list[float]] = {}
    for action in actions:
        if not isinstance(action, dict):
            continue
        fields = cast("dict[str, Any]", action)
        knob, value = fields.get("knob"), fields.get("value")
        if knob not in KNOBS or isinstance(value, bool) or not isinstance(value, int | float):
            continue
        if abs(value) <= sys.float_info.max:
            values.setdefault(cast("str", knob), []).append(float(value))
    return {knob: sum(numbers) / len(numbers) for knob, numbers in values.items()}


class _Mean:
    def __init__(self) -> None:
        self.total, self.count = 0.0, 0

    def add(self, value: float) -> None:
        self.total += value
        self.count += 1

    @property
    def value(self) -> float:
        return self.total / self.count


def _domain_of(header: Mapping[str, Any]) -> str:
    """Give the name of the spec; a log that holds the summary once has it under ``binding_config``."""
    for key in ("binding_summary", "binding_config"):
        summary = header.get(key)
        name = cast("dict[str, Any]", summary).get("name") if isinstance(summary, dict) else None
        if isinstance(name, str) and name.strip():
            return name
    return "unknown"


def _run_example(
    path: Path, header: Mapping[str, Any], lines: Iterator[tuple[int, Mapping[str, Any]]]
) -> list[MetaPolicyRecord]:
    name = _domain_of(header)
    means: dict[str, _Mean] = {}
    knobs: dict[str, _Mean] = {}
    for number, record in lines:
        if not isinstance(record.get("layers"), list) or "stability" not in record:
            continue  # an event, another header or the closing record
        for key, value in _step_features(path, number, record).items():
            means.setdefault(key, _Mean()).add(value)
        for action in _actions(record):
            for knob, value in _mean_knobs([action]).items():
                knobs.setdefault(knob, _Mean()).add(value)
    if not means:
        raise ValidationError(f"{path}: the audit log has no step records")
    if not knobs:
        return []
    features = {key: mean.value for key, mean in means.items()}
    return [
        MetaPolicyRecord(
            domain=name,
            features=features,
            knobs={knob: mean.value for knob, mean in knobs.items()},
            reward=features["stability"],
        )
    ]


def _step_features(path: Path, number: int, record: Mapping[str, Any]) -> dict[str, float]:
    place = f"{path}:{number}"
    layers: list[float] = []
    for index, layer in enumerate(cast("list[Any]", record["layers"])):
        if not isinstance(layer, dict):
            raise ValidationError(f"{place}: layers[{index}] must be a JSON object")
        layers.append(_finite(cast("dict[str, Any]", layer).get("R"), f"{place}: layers[{index}].R"))
    features = {f"R_{index}": value for index, value in enumerate(layers)}
    if layers:
        features["R"] = sum(layers) / len(layers)
    features["stability"] = _finite(record["stability"], f"{place}: stability")
    return features
