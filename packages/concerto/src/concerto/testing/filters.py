"""Judge a safety filter, for the ego alone or for several robots at once.

A filter is judged through a factory that builds it for given control models, so that the checks can choose the
scenes themselves.
"""

from __future__ import annotations

from concerto.safety.api import SafetyMode
from concerto.testing._ego_only_filter_checks import ego_only
from concerto.testing._filter_checks import common
from concerto.testing._filter_trial import EgoOnlyFilterFactory, FilterTrial, JointFilterFactory
from concerto.testing._joint_filter_checks import centralized, shared_control
from concerto.testing._scenes import Rows
from concerto.testing.conformance import Check, raise_first_problem

__all__ = [
    "EgoOnlyFilterFactory",
    "JointFilterFactory",
    "check_ego_only_filter",
    "check_joint_filter",
    "ego_only_filter_checks",
    "joint_filter_checks",
]


def ego_only_filter_checks(
    make_filter: EgoOnlyFilterFactory, *, cbf_gamma: float = 5.0, partner_braking_fraction: float = 1.0
) -> list[Check]:
    """Give the checks of `EgoOnlySafetyFilter`, ready for `run_all`.

    Args:
        make_filter: builds a new filter for control models by uid; called many times.
        cbf_gamma: the rate its rows use, 1/s.
        partner_braking_fraction: the share of a partner's capacity its barrier counts on, 0 to 1.
    """
    trial = FilterTrial(make_filter, SafetyMode.EGO_ONLY, Rows(cbf_gamma, partner_braking_fraction))
    return [*common.bind(trial), *ego_only.bind(trial)]


def joint_filter_checks(
    make_filter: JointFilterFactory, *, mode: SafetyMode = SafetyMode.CENTRALIZED, cbf_gamma: float = 5.0
) -> list[Check]:
    """Give the checks of `JointSafetyFilter`, ready for `run_all`.

    Args:
        make_filter: builds a new filter for control models by uid; called many times.
        mode: the filter's mode, centralized or shared control.
        cbf_gamma: the rate its rows use, 1/s.

    Raises:
        ValueError: the mode is that of an ego-only filter.
    """
    if mode is SafetyMode.EGO_ONLY:
        raise ValueError("mode must be CENTRALIZED or SHARED_CONTROL, got EGO_ONLY: use ego_only_filter_checks")
    trial = FilterTrial(make_filter, mode, Rows(cbf_gamma, 1.0))
    own = shared_control if mode is SafetyMode.SHARED_CONTROL else centralized
    return [*common.bind(trial), *own.bind(trial)]


def check_ego_only_filter(
    make_filter: EgoOnlyFilterFactory, *, cbf_gamma: float = 5.0, partner_braking_fraction: float = 1.0
) -> None:
    """Judge a filter of the ego's action; arguments as for `ego_only_filter_checks`.

    Raises:
        ConformanceError: the first clause of the contract that does not hold, and how to mend it.

    Examples:
        >>> from concerto.safety.cbf_qp import ExpCBFQP
        >>> check_ego_only_filter(lambda models: ExpCBFQP.ego_only(control_models=models))
    """
    raise_first_problem(
        ego_only_filter_checks(make_filter, cbf_gamma=cbf_gamma, partner_braking_fraction=partner_braking_fraction)
    )


def check_joint_filter(
    make_filter: JointFilterFactory, *, mode: SafetyMode = SafetyMode.CENTRALIZED, cbf_gamma: float = 5.0
) -> None:
    """Judge a filter of several robots' actions; arguments as for `joint_filter_checks`.

    Raises:
        ConformanceError: the first clause of the contract that does not hold, and how to mend it.
        ValueError: the mode is that of an ego-only filter.
    """
    raise_first_problem(joint_filter_checks(make_filter, mode=mode, cbf_gamma=cbf_gamma))
