"""The three-table safety report: one JSON file that carries its own hash, and one Markdown file for people.

Table 1 counts violations of the assumptions, table 2 violations per condition, table 3 says how much more
conservative a condition was than the oracle.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast

from concerto.safety._report_markdown import markdown_of
from ripieno.canonical import INDENTED, strict_loads
from ripieno.errors import InputError
from ripieno.files import write_atomic

__all__ = [
    "SCHEMA_VERSION",
    "AssumptionRow",
    "ConditionRow",
    "GapRow",
    "ThreeTableReport",
    "emit_three_tables",
    "parse_three_tables",
]

SCHEMA_VERSION = 3
"""Version of the file format: 2 added the slack columns, 3 keyed lambda by pairs (rows unchanged)."""

_ASSUMPTIONS = frozenset({"A1", "A2", "A3", "A4"})
_PREDICTORS = frozenset({"gt", "pred"})
_CONFORMAL_MODES = frozenset({"noLearn", "Learn"})
_HASH_KEY = "content_hash"

_Row = TypeVar("_Row", "AssumptionRow", "ConditionRow", "GapRow")


@dataclass(frozen=True)
class AssumptionRow:
    """Table 1: how often one assumption of the guarantee did not hold.

    Attributes:
        assumption: ``"A1"`` to ``"A4"``.
        description: the assumption in words.
        violations: steps on which it did not hold.
        n_steps: steps on which it was checked.
    """

    assumption: str
    description: str
    violations: int
    n_steps: int

    def to_jsonable(self) -> dict[str, Any]:
        """Give the fields as a JSON object."""
        return {
            "assumption": str(self.assumption),
            "description": str(self.description),
            "violations": int(self.violations),
            "n_steps": int(self.n_steps),
        }

    @classmethod
    def from_jsonable(cls, payload: Mapping[str, Any]) -> AssumptionRow:
        """Rebuild a row.

        Raises:
            KeyError: a field is missing.
        """
        return cls(
            assumption=str(payload["assumption"]),
            description=str(payload["description"]),
            violations=_count(payload["violations"]),
            n_steps=_count(payload["n_steps"]),
        )

    def check(self, place: str, *, strict_labels: bool) -> None:
        """Refuse counts that cannot be, and with ``strict_labels`` unknown labels.

        Raises:
            ValueError: names the place, the field and the value.
        """
        _require_counts(place, violations=self.violations, n_steps=self.n_steps)
        if self.violations > self.n_steps:
            raise InputError(f"{place}.violations must be at most n_steps = {self.n_steps}, got {self.violations}")
        if strict_labels:
            _require_label(f"{place}.assumption", self.assumption, _ASSUMPTIONS)


@dataclass(frozen=True)
class ConditionRow:
    """Table 2: violations under one predictor and one conformal mode.

    Attributes:
        predictor: ``"gt"`` (true partner motion) or ``"pred"`` (forecast).
        conformal_mode: ``"noLearn"`` (slack and learning rate zero) or ``"Learn"``.
        vendor_compliance: how the partner's vendor complied, or None.
        n_episodes: episodes in the condition.
        violations: barrier violations.
        fallback_fires: steps whose action did not come from the quadratic program.
        max_slack: largest slack of the arm filter over all steps.
        slack_l2: mean over the steps of the Euclidean norm of that slack.
    """

    predictor: str
    conformal_mode: str
    vendor_compliance: str | None
    n_episodes: int
    violations: int
    fallback_fires: int
    max_slack: float = 0.0
    slack_l2: float = 0.0

    def to_jsonable(self) -> dict[str, Any]:
        """Give the fields as a JSON object."""
        return {
            "predictor": str(self.predictor),
            "conformal_mode": str(self.conformal_mode),
            "vendor_compliance": None if self.vendor_compliance is None else str(self.vendor_compliance),
            "n_episodes": int(self.n_episodes),
            "violations": int(self.violations),
            "fallback_fires": int(self.fallback_fires),
            "max_slack": float(self.max_slack),
            "slack_l2": float(self.slack_l2),
        }

    @classmethod
    def from_jsonable(cls, payload: Mapping[str, Any]) -> ConditionRow:
        """Rebuild a row; ``vendor_compliance`` and the slack columns may be missing (version 1 files).

        Raises:
            KeyError: another field is missing.
        """
        vendor = payload.get("vendor_compliance")
        return cls(
            predictor=str(payload["predictor"]),
            conformal_mode=str(payload["conformal_mode"]),
            vendor_compliance=None if vendor is None else str(vendor),
            n_episodes=_count(payload["n_episodes"]),
            violations=_count(payload["violations"]),
            fallback_fires=_count(payload["fallback_fires"]),
            max_slack=float(payload.get("max_slack", 0.0)),
            slack_l2=float(payload.get("slack_l2", 0.0)),
        )

    def check(self, place: str, *, strict_labels: bool) -> None:
        """Refuse numbers that cannot be, and with ``strict_labels`` unknown labels.

        Raises:
            ValueError: names the place, the field and the value.
        """
        _require_counts(
            place, n_episodes=self.n_episodes, violations=self.violations, fallback_fires=self.fallback_fires
        )
        _require_number(f"{place}.max_slack", self.max_slack, minimum=0.0)
        _require_number(f"{place}.slack_l2", self.slack_l2, minimum=0.0)
        if strict_labels:
            _require_label(f"{place}.predictor", self.predictor, _PREDICTORS)
            _require_label(f"{place}.conformal_mode", self.conformal_mode, _CONFORMAL_MODES)


@dataclass(frozen=True)
class GapRow:
    """Table 3: the slack of one condition beside that of the oracle (true motion, no learning).

    Attributes:
        condition: usually ``"<predictor>/<mode>"``.
        lambda_mean: mean slack, m/s^2.
        lambda_var: variance of the slack, m^2/s^4.
        oracle_lambda_mean: mean slack of the oracle, m/s^2.
    """

    condition: str
    lambda_mean: float
    lambda_var: float
    oracle_lambda_mean: float

    def to_jsonable(self) -> dict[str, Any]:
        """Give the fields as a JSON object."""
        return {
            "condition": str(self.condition),
            "lambda_mean": float(self.lambda_mean),
            "lambda_var": float(self.lambda_var),
            "oracle_lambda_mean": float(self.oracle_lambda_mean),
        }

    @classmethod
    def from_jsonable(cls, payload: Mapping[str, Any]) -> GapRow:
        """Rebuild a row.

        Raises:
            KeyError: a field is missing.
        """
        return cls(
            condition=str(payload["condition"]),
            lambda_mean=float(payload["lambda_mean"]),
            lambda_var=float(payload["lambda_var"]),
            oracle_lambda_mean=float(payload["oracle_lambda_mean"]),
        )

    def check(self, place: str, *, strict_labels: bool) -> None:
        """Refuse numbers that cannot be, and with ``strict_labels`` a condition without its two labels.

        Raises:
            ValueError: names the place, the field and the value.
        """
        _require_number(f"{place}.lambda_mean", self.lambda_mean)
        _require_number(f"{place}.lambda_var", self.lambda_var, minimum=0.0)
        _require_number(f"{place}.oracle_lambda_mean", self.oracle_lambda_mean)
        if strict_labels:
            conditions = frozenset(f"{predictor}/{mode}" for predictor in _PREDICTORS for mode in _CONFORMAL_MODES)
            _require_label(f"{place}.condition", self.condition, conditions)


@dataclass(frozen=True)
class ThreeTableReport:
    """The three tables of one evaluation.

    Attributes:
        table_1: violations of the assumptions.
        table_2: violations per condition.
        table_3: conservativeness against the oracle.
        schema_version: version of the file format.
    """

    table_1: tuple[AssumptionRow, ...]
    table_2: tuple[ConditionRow, ...]
    table_3: tuple[GapRow, ...]
    schema_version: int = SCHEMA_VERSION

    def to_jsonable(self) -> dict[str, Any]:
        """Give the report as a JSON object with the keys ``schema_version`` and ``table_1`` to ``table_3``."""
        return {
            "schema_version": int(self.schema_version),
            "table_1": [row.to_jsonable() for row in self.table_1],
            "table_2": [row.to_jsonable() for row in self.table_2],
            "table_3": [row.to_jsonable() for row in self.table_3],
        }

    @classmethod
    def from_jsonable(cls, payload: Mapping[str, Any]) -> ThreeTableReport:
        """Rebuild a report.

        Raises:
            KeyError: a table or a field of a row is missing.
            ValueError: a table is no list of objects, or a number cannot be read as one.
        """
        return cls(
            table_1=_rows(payload, "table_1", AssumptionRow.from_jsonable),
            table_2=_rows(payload, "table_2", ConditionRow.from_jsonable),
            table_3=_rows(payload, "table_3", GapRow.from_jsonable),
            schema_version=_version(payload.get("schema_version", SCHEMA_VERSION)),
        )

    def to_canonical_json(self) -> str:
        """Give the one JSON text of this report: sorted keys, indent 2, ASCII, no trailing newline.

        Raises:
            ValueError: a number is not finite.
        """
        return INDENTED.dumps(self.to_jsonable()).decode()

    def content_hash(self) -> str:
        """Give the lowercase hex SHA-256 of `to_canonical_json`."""
        return INDENTED.hash(self.to_jsonable())

    def check(self, *, strict_labels: bool = False) -> None:
        """Refuse what cannot be true: negative counts, more violations than steps, numbers that are not finite.

        Args:
            strict_labels: refuse unknown assumptions, predictors, modes and conditions, too.

        Raises:
            ValueError: names the table, the row, the field and the value.
        """
        for name, table in (("table_1", self.table_1), ("table_2", self.table_2), ("table_3", self.table_3)):
            for index, row in enumerate(table):
                row.check(f"{name}[{index}]", strict_labels=strict_labels)


def emit_three_tables(
    *,
    out_dir: Path | str,
    report: ThreeTableReport,
    rate_columns: bool = False,
    strict_labels: bool = False,
) -> tuple[Path, Path]:
    """Write ``three_tables.json`` and ``three_tables.md``, each of them whole or not at all.

    Args:
        out_dir: folder, created with its parents when missing.
        report: what to write.
        rate_columns: add columns with rates to tables 1 and 2 of the Markdown file; the counts stay.
        strict_labels: refuse unknown labels.

    Returns:
        The paths of the JSON and the Markdown file.

    Raises:
        ValueError: the report holds something that cannot be true (see `ThreeTableReport.check`); nothing
            was written.
        OSError: the folder or a file cannot be written.
    """
    report.check(strict_labels=strict_labels)
    content_hash = report.content_hash()
    folder = Path(out_dir)
    folder.mkdir(parents=True, exist_ok=True)
    json_path, markdown_path = folder / "three_tables.json", folder / "three_tables.md"
    write_atomic(json_path, INDENTED.dumps({**report.to_jsonable(), _HASH_KEY: content_hash}))
    write_atomic(markdown_path, markdown_of(report, content_hash, rate_columns=rate_columns).encode())
    return json_path, markdown_path


def parse_three_tables(
    path: Path | str, *, require_hash: bool = False, strict_labels: bool = False
) -> ThreeTableReport:
    """Read a report and check it against the hash it carries.

    The hash covers everything that the file holds besides itself, unknown keys included, so a file of an
    older version checks too.

    Args:
        path: the JSON file.
        require_hash: refuse a file without a hash; by default it is read unchecked.
        strict_labels: refuse unknown labels.

    Raises:
        KeyError: a table or a field is missing.
        ValueError: not strict JSON, the hash is missing or wrong, or the report holds something that cannot
            be true.
    """
    payload = strict_loads(Path(path).read_bytes())
    if not isinstance(payload, dict):
        raise InputError(f"{path} must hold a JSON object, got {type(payload).__name__}")
    stored = cast("dict[str, Any]", payload)
    expected = stored.pop(_HASH_KEY, None)
    if expected is None:
        if require_hash:
            raise InputError(f"{path} has no {_HASH_KEY}")
    elif (actual := INDENTED.hash(stored)) != expected:
        raise InputError(f"{path} was changed: its {_HASH_KEY} is {expected}, its content hashes to {actual}")
    report = ThreeTableReport.from_jsonable(stored)
    report.check(strict_labels=strict_labels)
    return report


def _count(value: Any) -> int:
    """Read a whole number; a broken one is refused and not cut."""
    if isinstance(value, float) and not value.is_integer():
        raise ValueError(f"{value} is no whole number")
    return int(value)


def _version(value: Any) -> int:
    try:
        return _count(value)
    except (TypeError, ValueError) as error:
        raise InputError(f"schema_version must be a whole number, got {value!r}") from error


def _rows(
    payload: Mapping[str, Any], name: str, from_jsonable: Callable[[Mapping[str, Any]], _Row]
) -> tuple[_Row, ...]:
    table = payload[name]
    if not isinstance(table, list | tuple):
        raise InputError(f"{name} must be a list of rows, got {type(table).__name__}")
    rows: list[_Row] = []
    for index, row in enumerate(cast("Sequence[object]", table)):
        if not isinstance(row, Mapping):
            raise InputError(f"{name}[{index}] must be an object, got {type(row).__name__}")
        try:
            rows.append(from_jsonable(cast("Mapping[str, Any]", row)))
        except (TypeError, ValueError) as error:
            raise InputError(f"{name}[{index}] holds something that is not a number: {error}") from error
    return tuple(rows)


def _require_counts(place: str, **counts: int) -> None:
    for name, count in counts.items():
        if not (math.isfinite(count) and count >= 0 and int(count) == count):
            raise InputError(f"{place}.{name} must be a count, got {count}")


def _require_number(name: str, value: float, *, minimum: float = -math.inf) -> None:
    if not (math.isfinite(value) and value >= minimum):
        expected = "finite" if minimum == -math.inf else f"finite and >= {minimum:g}"
        raise InputError(f"{name} must be {expected}, got {value}")


def _require_label(name: str, value: str, known: frozenset[str]) -> None:
    if value not in known:
        raise InputError(f"{name} must be one of {', '.join(sorted(known))}, got {value!r}")
