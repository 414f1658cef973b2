"""The three-table safety report of a cell."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from chamber.cell.analysis import group
from chamber.cell.config import Cell, Condition
from chamber.cell.outcome import OVERRIDES, EpisodeOutcome
from chamber.envs.mpe_cooperative_push import DT
from concerto.safety.reporting import AssumptionRow, ConditionRow, GapRow, ThreeTableReport

__all__ = ["three_tables"]

FloatArray = NDArray[np.float64]

_TOLERANCE = 1e-9
_FORECAST_TOLERANCE_M = 0.01
_ORACLE_SLACK = 0.0
"""Slack of the oracle, which knows the partner's true motion and never learns."""


def three_tables(cell: Cell, outcomes: Sequence[EpisodeOutcome]) -> ThreeTableReport:
    """Count, over the episodes with the stack: broken assumptions, contacts, and the slack against the oracle's.

    The violations of table 2 are contacts at the ego's fault. Without an episode with the stack, tables 2 and 3
    are empty and table 1 counts the episodes there are.
    """
    stacked = [outcome for outcome in outcomes if outcome.trace.condition is Condition.WITH_STACK]
    met = {outcome.trace.partner for outcome in stacked}
    return ThreeTableReport(
        table_1=_assumptions(cell, stacked or outcomes),
        table_2=(_condition(stacked),) if stacked else (),
        table_3=tuple(_gap(entry.label, stacked) for entry in cell.partners if entry.label in met),
    )


def _assumptions(cell: Cell, outcomes: Sequence[EpisodeOutcome]) -> tuple[AssumptionRow, ...]:
    too_fast = off_command = off_forecast = n_steps = 0
    for outcome in outcomes:
        trace = outcome.trace
        partner_moves = np.diff(trace.partner_positions_m, axis=0)
        ego_moves = np.diff(trace.ego_positions_m, axis=0)
        forecast = np.vstack([np.zeros((1, 2)), partner_moves[:-1]])
        n_steps += trace.n_steps
        too_fast += _count_above(partner_moves, cell.safety.partner_max_speed_m_s * DT + _TOLERANCE)
        off_command += _count_above(ego_moves - trace.applied_commands_m_s * DT, _TOLERANCE)
        off_forecast += _count_above(partner_moves - forecast, _FORECAST_TOLERANCE_M)
    return (
        AssumptionRow("A1", "the partner stays below its declared speed", too_fast, n_steps),
        AssumptionRow("A2", "the ego moves as commanded (no wall is in the way)", off_command, n_steps),
        AssumptionRow("A3", "the partner keeps its velocity for one step, to 1 cm", off_forecast, n_steps),
    )


def _count_above(vectors: FloatArray, limit: float) -> int:
    return int(np.count_nonzero(np.linalg.norm(vectors, axis=1) > limit))


def _condition(stacked: Sequence[EpisodeOutcome]) -> ConditionRow:
    total = group(stacked, Condition.WITH_STACK)
    return ConditionRow(
        predictor="pred",
        conformal_mode="Learn",
        vendor_compliance=None,
        n_episodes=total.n_episodes,
        violations=total.contacts_at_fault,
        fallback_fires=sum(outcome.steps_by_source.get(name, 0) for outcome in stacked for name in OVERRIDES),
    )


def _gap(partner: str, stacked: Sequence[EpisodeOutcome]) -> GapRow:
    slack = np.concatenate([outcome.trace.slack_m_s2 for outcome in stacked if outcome.trace.partner == partner])
    return GapRow(
        condition=f"pred/Learn, {partner}",
        lambda_mean=float(slack.mean()),
        lambda_var=float(slack.var()),
        oracle_lambda_mean=_ORACLE_SLACK,
    )
