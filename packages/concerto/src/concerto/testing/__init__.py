"""Judge anybody's safety filter, control model or emergency controller by the code that judges ours.

Every ``check_...`` function raises `ConformanceError` with the first clause of the contract that does not hold
and says how to mend it. The ``..._checks`` functions give the same checks as a list for `run_all`, which tries
all of them and reports rows:

    >>> from concerto.safety.api import DoubleIntegratorControlModel
    >>> rows = run_all(control_model_checks(DoubleIntegratorControlModel("ego", 2)))
    >>> all(row.passed for row in rows)
    True
"""

from __future__ import annotations

from concerto.testing.conformance import Check, CheckRow, ConformanceError, run_all
from concerto.testing.control_models import check_control_model, control_model_checks
from concerto.testing.emergency import check_emergency_controller, emergency_controller_checks
from concerto.testing.filters import (
    check_ego_only_filter,
    check_joint_filter,
    ego_only_filter_checks,
    joint_filter_checks,
)

__all__ = [
    "Check",
    "CheckRow",
    "ConformanceError",
    "check_control_model",
    "check_ego_only_filter",
    "check_emergency_controller",
    "check_joint_filter",
    "control_model_checks",
    "ego_only_filter_checks",
    "emergency_controller_checks",
    "joint_filter_checks",
    "run_all",
]
