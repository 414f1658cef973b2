"""The three-table safety report for people: Markdown with counts, and rates on request."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from concerto.safety.reporting import ThreeTableReport

__all__ = ["markdown_of"]

_EM_DASH = "—"


def markdown_of(report: ThreeTableReport, content_hash: str, *, rate_columns: bool) -> str:
    """Give the Markdown file of a report, whose layout is part of the documented interface.

    Args:
        report: the tables.
        content_hash: of the JSON file beside it.
        rate_columns: add columns with rates to tables 1 and 2.
    """
    assumptions = [
        (row.assumption, row.description, row.violations, row.n_steps, _rate(row.violations, row.n_steps))
        for row in report.table_1
    ]
    conditions = [
        (
            row.predictor,
            row.conformal_mode,
            _EM_DASH if row.vendor_compliance is None else row.vendor_compliance,
            row.n_episodes,
            row.violations,
            row.fallback_fires,
            f"{row.max_slack:.6g}",
            f"{row.slack_l2:.6g}",
            _rate(row.violations, row.n_episodes),
            _rate(row.fallback_fires, row.n_episodes),
        )
        for row in report.table_2
    ]
    gaps = [
        (row.condition, f"{row.lambda_mean:.6g}", f"{row.lambda_var:.6g}", f"{row.oracle_lambda_mean:.6g}")
        for row in report.table_3
    ]
    tables = [
        _table(
            "Table 1 — Per-assumption violation rates",
            ("Assumption", "Description", "Violations", "N steps", *["Violations per step"] * rate_columns),
            assumptions,
        ),
        _table(
            "Table 2 — Per-condition violation rates",
            (
                "Predictor",
                "Conformal mode",
                "Vendor compliance",
                "N episodes",
                "Violations",
                "Fallback fires",
                "Max slack",
                "Slack L2",
                *["Violations per episode", "Fallback fires per episode"] * rate_columns,
            ),
            conditions,
        ),
        _table(
            "Table 3 — Conservativeness gap vs. oracle",
            ("Condition", "λ mean", "λ var", "Oracle λ mean"),
            gaps,
        ),
    ]
    head = (
        f"<!-- content_hash: {content_hash} -->\n<!-- schema_version: {report.schema_version} -->\n\n"
        "# Three-table safety report (ADR-014)"
    )
    return "\n\n".join([head, *tables]) + "\n"


def _table(heading: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """One section; cells beyond the header (rates that were not asked for) are left out."""
    lines = [columns, ["---"] * len(columns), *(row[: len(columns)] for row in rows)]
    return f"## {heading}\n\n" + "\n".join(f"| {' | '.join(map(_cell, line))} |" for line in lines)


def _cell(value: object) -> str:
    """Text of one cell: pipes and line breaks would end it."""
    return " ".join(str(value).splitlines()).replace("|", "\\|")


def _rate(count: int, total: int) -> str:
    return f"{count / total:.6g}" if total > 0 else _EM_DASH
