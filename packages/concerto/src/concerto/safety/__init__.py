"""Keep a robot safe beside black-box partners.

Four nouns explain the package. A *snapshot* says where every robot is and how it moves; a *filter* gives the
action nearest to the wanted one that keeps every pair of safety spheres apart; the *conformal slack* follows
how wrong the forecast of the partners was; an *override* brakes when no action is safe. `SafetyStack`
composes them into one call per control step.

The contracts (`concerto.safety.api`) load at once; everything that needs a solver or compiled kernels loads
on first use, so importing this package stays cheap.
"""

from __future__ import annotations

import importlib
import sys
import time
import warnings
from typing import TYPE_CHECKING

import numpy as np

from concerto.safety.api import (
    DEFAULT_DLS_DAMPING,
    DEFAULT_EPSILON,
    DEFAULT_ETA,
    DEFAULT_WARMUP_STEPS,
    SAFETY_FILTER_IS_DEPRECATED,
    AgentControlModel,
    AgentSnapshot,
    Bounds,
    DoubleIntegratorControlModel,
    EgoOnlySafetyFilter,
    FilterInfo,
    FloatArray,
    JacobianControlModel,
    JointSafetyFilter,
    LambdaDict,
    SafetyMode,
    SafetyState,
    VelocityCommandControlModel,
    canonical_pair_key,
    canonical_pair_order,
    lambda_from_jsonable,
    lambda_to_jsonable,
    make_lambda_dict,
    make_pair_keys,
)
from concerto.safety.errors import ConcertoSafetyInfeasible, SolveStatus

if TYPE_CHECKING:
    from concerto.safety.batched import BatchedSafetyFilter
    from concerto.safety.braking import compute_min_ttc, maybe_brake
    from concerto.safety.cbf_qp import ExpCBFQP, pair_h_value
    from concerto.safety.conformal import (
        compute_prediction_gap_for_pairs,
        constant_velocity_predict,
        reset_on_partner_swap,
        update_lambda,
        update_lambda_from_predictor,
    )
    from concerto.safety.emergency import (
        CartesianAccelEmergencyController,
        EmergencyController,
        JacobianEmergencyController,
    )
    from concerto.safety.oscbf import OSCBF
    from concerto.safety.stack import SafetySource, SafetyStack, StackStep
    from concerto.safety.stopping import PartnerMotionBound

__all__ = [
    "DEFAULT_DLS_DAMPING",
    "DEFAULT_EPSILON",
    "DEFAULT_ETA",
    "DEFAULT_WARMUP_STEPS",
    "OSCBF",
    "AgentControlModel",
    "AgentSnapshot",
    "BatchedSafetyFilter",
    "Bounds",
    "CartesianAccelEmergencyController",
    "ConcertoSafetyInfeasible",
    "DoubleIntegratorControlModel",
    "EgoOnlySafetyFilter",
    "EmergencyController",
    "ExpCBFQP",
    "FilterInfo",
    "FloatArray",
    "JacobianControlModel",
    "JacobianEmergencyController",
    "JointSafetyFilter",
    "LambdaDict",
    "PartnerMotionBound",
    "SafetyMode",
    "SafetySource",
    "SafetyStack",
    "SafetyState",
    "SolveStatus",
    "StackStep",
    "VelocityCommandControlModel",
    "canonical_pair_key",
    "canonical_pair_order",
    "compute_min_ttc",
    "compute_prediction_gap_for_pairs",
    "constant_velocity_predict",
    "lambda_from_jsonable",
    "lambda_to_jsonable",
    "make_lambda_dict",
    "make_pair_keys",
    "maybe_brake",
    "pair_h_value",
    "reset_on_partner_swap",
    "solve_qp_stub",
    "update_lambda",
    "update_lambda_from_predictor",
]

_HOME_OF_LAZY_NAME = {
    "BatchedSafetyFilter": "batched",
    "CartesianAccelEmergencyController": "emergency",
    "EmergencyController": "emergency",
    "ExpCBFQP": "cbf_qp",
    "JacobianEmergencyController": "emergency",
    "OSCBF": "oscbf",
    "PartnerMotionBound": "stopping",
    "SafetySource": "stack",
    "SafetyStack": "stack",
    "StackStep": "stack",
    "compute_min_ttc": "braking",
    "compute_prediction_gap_for_pairs": "conformal",
    "constant_velocity_predict": "conformal",
    "maybe_brake": "braking",
    "pair_h_value": "cbf_qp",
    "reset_on_partner_swap": "conformal",
    "update_lambda": "conformal",
    "update_lambda_from_predictor": "conformal",
}


def solve_qp_stub(*args: object, **kwargs: object) -> tuple[float, float]:
    """Solve one small fixed quadratic program, to measure how long the machine needs for it now.

    All arguments are ignored. The program is ``min 1/2 |x|^2 + (0.1, -0.2).x`` in the unit box, with the
    optimum ``(-0.1, 0.2)``.

    Returns:
        The norm of the optimum, 0.2236068, and the elapsed wall time in seconds.

    Examples:
        >>> round(solve_qp_stub()[0], 7)
        0.2236068
    """
    from concerto.safety.solvers import ClarabelSolver

    identity = np.eye(2)
    start = time.perf_counter()
    x, _ = ClarabelSolver().solve(identity, np.array([0.1, -0.2]), np.vstack([identity, -identity]), np.ones(4))
    return float(np.linalg.norm(x)), time.perf_counter() - start


def __getattr__(name: str) -> object:
    if name in _HOME_OF_LAZY_NAME:
        value = getattr(importlib.import_module(f"{__name__}.{_HOME_OF_LAZY_NAME[name]}"), name)
        globals()[name] = value
        return value
    if name == "SafetyFilter":
        # `from ... import` of a package looks a name up twice, the first time from importlib itself: warn for
        # one.
        if sys._getframe(1).f_globals.get("__name__") != "importlib._bootstrap":
            warnings.warn(SAFETY_FILTER_IS_DEPRECATED, DeprecationWarning, stacklevel=2)
        return EgoOnlySafetyFilter | JointSafetyFilter
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
