"""Learning curves as figures, and figures as files. No figure depends on, or changes, the process's plotting state."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ripieno.errors import InputError, StorageError
from ripieno.files import write_atomic
from ripieno.report import FIGURE_STYLE, PALETTE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "FIGURE_SUFFIXES",
    "EpisodeRewards",
    "SlopeFacts",
    "WindowFacts",
    "mean_figure",
    "require_figure_path",
    "slope_figure",
    "window_figure",
    "write_figure",
]

FIGURE_SUFFIXES = (".png", ".svg")
"""What `write_figure` can write."""

_SIZE_INCHES = (8.0, 4.5)
_DPI = 120
_RAW, _OVERLAY, *_ = PALETTE
_FloatArray = NDArray[np.float64]


class EpisodeRewards(Protocol):
    """What is read of a learning curve: `concerto.training.protocols.RewardCurve` is one."""

    @property
    def run_id(self) -> str:
        """Identity of the run."""
        ...

    @property
    def per_episode_ego_rewards(self) -> Sequence[float]:
        """Sum of the ego's rewards of every episode, in order."""
        ...


class SlopeFacts(Protocol):
    """What is drawn of a slope check: `concerto.training.learning_signal_check.SlopeReport` is one."""

    @property
    def slope(self) -> float: ...
    @property
    def intercept(self) -> float: ...
    @property
    def r_squared(self) -> float: ...
    @property
    def p_value(self) -> float: ...
    @property
    def alpha(self) -> float: ...
    @property
    def n_episodes(self) -> int: ...
    @property
    def status(self) -> Any: ...


class WindowFacts(Protocol):
    """What is drawn of the comparison of windows: `concerto.training.learning_signal_check.GuaranteeReport` is one."""

    @property
    def window(self) -> int: ...
    @property
    def threshold(self) -> float: ...
    @property
    def n_intervals(self) -> int: ...
    @property
    def n_nondecreasing(self) -> int: ...
    @property
    def passed(self) -> bool: ...


def slope_figure(curve: EpisodeRewards, report: SlopeFacts) -> Figure:
    """Draw the reward of every episode and, if there is one, the least-squares line of the check.

    Args:
        curve: rewards per episode; an empty one gives empty axes.
        report: of `concerto.training.learning_signal_check.check_positive_learning_slope` on this curve.
    """
    title = f"{curve.run_id}  {report.status.name}: p = {report.p_value:.2e}, alpha {report.alpha:g}, "
    figure, axes, rewards = _figure_of_rewards(curve, f"{title}n = {report.n_episodes}")
    is_fitted = report.status.name in {"PASSED", "FAILED"}
    if is_fitted and rewards.size:
        ends = np.array([0.0, rewards.size - 1.0])
        label = f"slope {report.slope:.4g} per episode, R² {report.r_squared:.3f}"
        axes.plot(ends, report.intercept + report.slope * ends, color=_OVERLAY, linewidth=2.0, label=label)
    _add_legend(axes)
    return figure


def window_figure(curve: EpisodeRewards, report: WindowFacts) -> Figure:
    """Draw the reward of every episode and its moving mean, under the verdict of the comparison of windows.

    Args:
        curve: rewards per episode; an empty one gives empty axes.
        report: of `concerto.training.learning_signal_check.assert_non_decreasing_window` on this curve.
    """
    verdict = "PASS" if report.passed else "FAIL"
    counts = f"{report.n_nondecreasing} of {report.n_intervals} windows do not fall, threshold {report.threshold:g}"
    return mean_figure(curve, window=report.window, title=f"{curve.run_id}  {verdict}: {counts}")


def mean_figure(curve: EpisodeRewards, *, window: int, title: str | None = None) -> Figure:
    """Draw the reward of every episode and its moving mean.

    Args:
        curve: rewards per episode; an empty one gives empty axes.
        window: episodes per mean; one that is longer than the curve, or below 1, draws none.
        title: above the axes; run id and number of episodes by default.
    """
    n_episodes = len(curve.per_episode_ego_rewards)
    figure, axes, rewards = _figure_of_rewards(curve, title or f"{curve.run_id}  n = {n_episodes}")
    if 0 < window <= n_episodes:
        means = np.convolve(rewards, np.full(window, 1.0 / window), mode="valid")
        label = f"mean of the last {window} episodes"
        axes.plot(np.arange(window - 1, n_episodes), means, color=_OVERLAY, linewidth=2.0, label=label)
    _add_legend(axes)
    return figure


def require_figure_path(path: Path) -> None:
    """Check a path before the work is done that fills it.

    Raises:
        InputError: the name ends in none of `FIGURE_SUFFIXES`, or is that of a folder.
    """
    if path.suffix.lower() not in FIGURE_SUFFIXES:
        raise InputError(f"a figure's name must end in {' or '.join(FIGURE_SUFFIXES)}, got {path.name!r}")
    if path.is_dir():
        raise InputError(f"{path} is a folder")


def write_figure(figure: Figure, path: Path) -> Path:
    """Write a figure as PNG or SVG, by the name's ending, whole or not at all; equal figures give equal bytes.

    Args:
        figure: what to write.
        path: where; missing folders are made, an older file is replaced.

    Returns:
        The absolute path.

    Raises:
        InputError: the name ends in none of `FIGURE_SUFFIXES`, or is that of a folder.
        StorageError: the file system refuses it.
    """
    import matplotlib as mpl

    path = path.absolute()
    require_figure_path(path)
    buffer = io.BytesIO()
    suffix = path.suffix.lower()
    metadata: dict[str, Any] = {"Date": None} if suffix == ".svg" else {"Software": None}
    with mpl.rc_context({"svg.hashsalt": "ripieno", "svg.fonttype": "none"}):
        figure.savefig(buffer, format=suffix[1:], metadata=metadata)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, buffer.getvalue())
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror or error}") from error
    return path


def _figure_of_rewards(curve: EpisodeRewards, title: str) -> tuple[Figure, Axes, _FloatArray]:
    import matplotlib as mpl
    from matplotlib.figure import Figure

    rewards = np.asarray(curve.per_episode_ego_rewards, dtype=np.float64)
    with mpl.rc_context(FIGURE_STYLE):
        figure = Figure(figsize=_SIZE_INCHES, dpi=_DPI)
        axes = figure.subplots()
        axes.set_title(title, parse_math=False)
        axes.set_xlabel("episode index")
        axes.set_ylabel("ego reward (sum over episode)")
        if rewards.size:
            axes.plot(rewards, color=_RAW, alpha=0.35, linewidth=1.0, label="one episode")
    return figure, axes, rewards


def _add_legend(axes: Axes) -> None:
    if axes.lines:
        axes.legend(loc="lower right")
