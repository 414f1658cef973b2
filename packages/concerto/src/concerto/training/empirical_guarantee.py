"""Old home of [`concerto.training.learning_signal_check`][concerto.training.learning_signal_check]; old imports work.

``assert_positive_learning_slope``, the old name of ``check_positive_learning_slope``, warns when it is looked up.
"""

from __future__ import annotations

import warnings
from typing import Any

from concerto.training.learning_signal_check import (
    DEFAULT_ALPHA,
    DEFAULT_MIN_EPISODES,
    DEFAULT_THRESHOLD,
    DEFAULT_WINDOW,
    CheckStatus,
    GuaranteeReport,
    SlopeReport,
    assert_non_decreasing_window,
    check_positive_learning_slope,
    plot_reward_curve,
    plot_slope_curve,
)

__all__ = [
    "DEFAULT_ALPHA",
    "DEFAULT_MIN_EPISODES",
    "DEFAULT_THRESHOLD",
    "DEFAULT_WINDOW",
    "CheckStatus",
    "GuaranteeReport",
    "SlopeReport",
    "assert_non_decreasing_window",
    "check_positive_learning_slope",
    "plot_reward_curve",
    "plot_slope_curve",
]


def __getattr__(name: str) -> Any:
    if name != "assert_positive_learning_slope":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    warnings.warn(
        "assert_positive_learning_slope is deprecated: use "
        "concerto.training.learning_signal_check.check_positive_learning_slope, which asserts nothing either",
        DeprecationWarning,
        stacklevel=2,
    )
    return check_positive_learning_slope
