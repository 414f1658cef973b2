"""Training of an ego robot beside frozen partners.

Five nouns. A *config* (`concerto.training.config`) fixes a run; the *loop* (`concerto.training.ego_aht`) plays ego and
frozen partner in one environment and lets the trainer learn; the *log* (`concerto.training.logging`) and the
*checkpoints* (`concerto.training.checkpoints`) are its record; the *check* (`concerto.training.learning_signal_check`,
re-exported here) looks at the learning curve afterwards. Environment, partner and trainer are given to the loop, so
nothing here knows a task. Reading a config, logging and learning need ``ripieno-concerto[train]``; importing does not.
"""

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
