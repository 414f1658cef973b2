"""A trip-wire on the learning curve: did the ego get better against its frozen partner?

The analysis of a run assumes that the ego's return against a frozen partner does not fall in the long run (Huriot &
Sibai 2025, theorem 7). `check_positive_learning_slope` looks for that on the rewards per episode: a least-squares line
with a slope above zero that chance does not explain. It is no proof, it reports and never raises over the data, and the
caller decides. When it fires on a production configuration the choice of the algorithm is to be looked at again; a
longer window, a lower threshold, a greater alpha or a shorter run are no answers.
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from concerto.training._curve_figures import EpisodeRewards, slope_figure, window_figure, write_figure
from ripieno.errors import InputError, StorageError
from ripieno.files import write_atomic

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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

DEFAULT_WINDOW = 10
"""Episodes per moving mean."""
DEFAULT_THRESHOLD = 0.8
"""Share of comparisons that must not fall."""
DEFAULT_ALPHA = 0.05
"""Probability at which chance is accepted as an explanation."""
DEFAULT_MIN_EPISODES = 20
"""A line through fewer says nothing."""

_FEWEST_EPISODES = 3
"""A line through two points is exact, whatever they are."""
_SQUARES_SAFELY = (1e-100, 1e100)
"""Rewards of this size have squares that neither vanish nor overflow; others are fitted in their own unit."""


class CheckStatus(Enum):
    """What the slope check found.

    - ``PASSED``: the slope is above zero, and chance does not explain it.
    - ``FAILED``: it is not, or chance might: train longer, or look at the algorithm.
    - ``INSUFFICIENT_DATA``: there are fewer episodes than the check wants: train longer, or shorten the episodes.
    - ``INVALID``: a reward is not finite: look for the episode in the log.
    """

    PASSED = "passed"
    FAILED = "failed"
    INSUFFICIENT_DATA = "insufficient_data"
    INVALID = "invalid"


class _DeprecatedPassed:
    """The old flag of a report: computed from its status, and a warning whenever somebody uses it."""

    _SAYS = "SlopeReport.passed is deprecated: compare SlopeReport.status with CheckStatus.PASSED"

    def __get__(self, report: SlopeReport | None, owner: type[SlopeReport]) -> Any:
        if report is None:
            return False  # the default of the field
        if "_contradicted" not in report.__dict__:
            warnings.warn(self._SAYS, DeprecationWarning, stacklevel=2)
        return report.status is CheckStatus.PASSED

    def __set__(self, report: SlopeReport, value: object) -> None:
        is_given = value is not self  # the constructor's default is this descriptor
        if is_given and value and report.status is not CheckStatus.PASSED:
            report.__dict__["_contradicted"] = True  # who is told once need not be told at every reading
            warnings.warn(f"{self._SAYS}; passed=True is overruled", DeprecationWarning, stacklevel=3)


@dataclass(frozen=True)
class SlopeReport:
    """Result of `check_positive_learning_slope`.

    Attributes:
        slope: reward per episode.
        intercept: the line's reward at the first episode.
        r_squared: share of the variance that the line explains; reported, not judged.
        p_value: one-sided, of a slope this large without any trend.
        alpha: what it was compared with.
        n_episodes: length of the curve.
        status: the verdict.
        passed: deprecated; whether ``status`` is ``PASSED``, whatever is given. Reading it warns, so does giving a
            True that the status contradicts. It takes no part in comparisons and in ``repr``.
    """

    slope: float
    intercept: float
    r_squared: float
    p_value: float
    alpha: float
    n_episodes: int
    status: CheckStatus
    if TYPE_CHECKING:
        passed: bool = False
    else:
        passed: bool = field(default=_DeprecatedPassed(), repr=False, compare=False)


@dataclass(frozen=True)
class GuaranteeReport:
    """Result of `assert_non_decreasing_window`; the name is historical, nothing is guaranteed.

    Attributes:
        window: episodes per moving mean.
        threshold: share of comparisons that must not fall.
        n_intervals: comparisons made.
        n_nondecreasing: those in which the later mean is at least the earlier one.
        fraction: their share; 1 when nothing was compared.
        passed: whether the share reaches the threshold.
    """

    window: int
    threshold: float
    n_intervals: int
    n_nondecreasing: int
    fraction: float
    passed: bool


def check_positive_learning_slope(
    curve: EpisodeRewards, *, alpha: float = DEFAULT_ALPHA, min_episodes: int = DEFAULT_MIN_EPISODES
) -> SlopeReport:
    """Test whether the reward per episode grows along a run.

    An ordinary least-squares line through ``(k, reward of episode k)``; the null hypothesis is a slope of zero, the
    alternative a slope above it, by Student's t with ``n - 2`` degrees of freedom. Validity comes before quantity: a
    reward that is not finite makes any curve ``INVALID``.

    Args:
        curve: only its rewards per episode are read.
        alpha: the slope counts when its one-sided p-value is below this, strictly.
        min_episodes: fewer are ``INSUFFICIENT_DATA``.

    Returns:
        The verdict and its numbers; slope, intercept and R² are 0 and p is 1 where there is no line.

    Raises:
        InputError: ``alpha`` is not between 0 and 1, or ``min_episodes`` is below 3.
    """
    if not 0.0 < alpha < 1.0:
        raise InputError(f"alpha must lie between 0 and 1, got {alpha}")
    if min_episodes < _FEWEST_EPISODES:
        raise InputError(f"min_episodes must be at least {_FEWEST_EPISODES}, got {min_episodes}")
    rewards = np.asarray(curve.per_episode_ego_rewards, dtype=np.float64)
    n = int(rewards.size)

    def report(status: CheckStatus, *, intercept: float = 0.0) -> SlopeReport:
        return SlopeReport(0.0, intercept, 0.0, 1.0, alpha, n, status)

    if not np.isfinite(rewards).all():
        return report(CheckStatus.INVALID)
    if n < min_episodes:
        return report(CheckStatus.INSUFFICIENT_DATA)
    # Not by the standard deviation, which rounding keeps above zero: twenty times 0.1 have one of 1e-17.
    if rewards.max() == rewards.min():
        return report(CheckStatus.FAILED, intercept=float(rewards[0]))

    from scipy.stats import linregress

    largest = float(np.abs(rewards).max())
    scale = 1.0 if _SQUARES_SAFELY[0] < largest < _SQUARES_SAFELY[1] else largest
    fit: Any = linregress(np.arange(n, dtype=np.float64), rewards / scale)
    slope, two_sided = float(fit.slope) * scale, float(fit.pvalue)
    p_value = two_sided / 2.0 if slope > 0.0 else 1.0 - two_sided / 2.0
    status = CheckStatus.PASSED if slope > 0.0 and p_value < alpha else CheckStatus.FAILED
    return SlopeReport(slope, float(fit.intercept) * scale, float(fit.rvalue) ** 2, p_value, alpha, n, status)


def assert_non_decreasing_window(
    curve: EpisodeRewards, *, window: int = DEFAULT_WINDOW, threshold: float = DEFAULT_THRESHOLD
) -> GuaranteeReport:
    """Count how often a moving mean does not fall from one episode to the next; an older check, kept for comparison.

    It is weak on noisy curves: two neighbouring means differ by two episodes only, so the share stays near one half
    while the ego learns. `check_positive_learning_slope` is the check to use. It asserts nothing, whatever its name.

    Args:
        curve: only its rewards per episode are read.
        window: episodes per mean. A window below 1, or one longer than the curve, compares nothing, and the report
            passes without meaning.
        threshold: share that must be reached.

    Raises:
        InputError: ``threshold`` is not between 0 and 1.
    """
    if not 0.0 <= threshold <= 1.0:
        raise InputError(f"threshold must lie between 0 and 1, got {threshold}")
    rewards = np.asarray(curve.per_episode_ego_rewards, dtype=np.float64)
    n_intervals = max(0, rewards.size - window) if window > 0 else 0
    if n_intervals == 0:
        return GuaranteeReport(window, threshold, 0, 0, 1.0, passed=True)
    means = np.lib.stride_tricks.sliding_window_view(rewards, window).mean(axis=1)
    n_nondecreasing = int(np.count_nonzero(means[1:] >= means[:-1]))
    fraction = n_nondecreasing / n_intervals
    return GuaranteeReport(window, threshold, n_intervals, n_nondecreasing, fraction, passed=fraction >= threshold)


def plot_reward_curve(
    curve: EpisodeRewards, *, report: GuaranteeReport, out_dir: Path, name_suffix: str = ""
) -> tuple[Path, Path]:
    """Draw a curve with its moving mean, and write curve and report beside it.

    Args:
        curve: what was learned.
        report: of `assert_non_decreasing_window` on it.
        out_dir: made when missing.
        name_suffix: goes between run id and ending, so that several plots of a run have room in one folder.

    Returns:
        Absolute paths of ``<run_id><name_suffix>.png`` and ``.json``.

    Raises:
        StorageError: the file system refuses one.
    """
    facts: dict[str, Any] = {
        "window": report.window,
        "threshold": report.threshold,
        "n_intervals": report.n_intervals,
        "n_nondecreasing": report.n_nondecreasing,
        "fraction": report.fraction,
        "passed": report.passed,
    }
    return _write_plot(window_figure(curve, report), curve, facts, out_dir, name_suffix)


def plot_slope_curve(
    curve: EpisodeRewards, *, report: SlopeReport, out_dir: Path, name_suffix: str = ""
) -> tuple[Path, Path]:
    """Draw a curve with the line of the slope check, and write curve and report beside it.

    Args:
        curve: what was learned.
        report: of `check_positive_learning_slope` on it.
        out_dir: made when missing.
        name_suffix: goes between run id and ending, so that several plots of a run have room in one folder.

    Returns:
        Absolute paths of ``<run_id><name_suffix>.png`` and ``.json``.

    Raises:
        StorageError: the file system refuses one.
    """
    return _write_plot(slope_figure(curve, report), curve, slope_report_values(report), out_dir, name_suffix)


def slope_report_values(report: SlopeReport) -> dict[str, Any]:
    """Give a report as plain values for JSON: the status by its value, and no warning about ``passed``."""
    return {
        "slope": report.slope,
        "intercept": report.intercept,
        "r_squared": report.r_squared,
        "p_value": report.p_value,
        "alpha": report.alpha,
        "n_episodes": report.n_episodes,
        "status": report.status.value,
        "passed": report.status is CheckStatus.PASSED,
    }


def slope_report_line(report: SlopeReport) -> str:
    """Give a report as the line that commands print."""
    return (
        f"learning_signal_check slope={report.slope:.6f} p_value={report.p_value:.2e} alpha={report.alpha} "
        f"n_episodes={report.n_episodes} status={report.status.name}"
    )


def curve_json(curve: EpisodeRewards, report: Mapping[str, Any]) -> str:
    """Give a curve with the values of a report as one JSON object; a reward that is not finite is null."""
    rewards = [reward if math.isfinite(reward) else None for reward in map(float, curve.per_episode_ego_rewards)]
    record = {"run_id": curve.run_id, "per_episode_ego_rewards": rewards, "report": report}
    return json.dumps(record, sort_keys=True, indent=2, allow_nan=False)


def _write_plot(
    figure: Figure, curve: EpisodeRewards, facts: dict[str, Any], out_dir: Path, name_suffix: str
) -> tuple[Path, Path]:
    stem = f"{curve.run_id}{name_suffix}"
    png = write_figure(figure, Path(out_dir) / f"{stem}.png")
    path = png.with_name(f"{stem}.json")
    try:
        write_atomic(path, curve_json(curve, facts).encode("utf-8"))
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror or error}") from error
    return png, path
