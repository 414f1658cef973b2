"""The slope check, the comparison of windows, their figures, and the old names."""

from __future__ import annotations

import dataclasses
import importlib
import json
import math
import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import concerto.training
from concerto.training import (
    CheckStatus,
    GuaranteeReport,
    SlopeReport,
    assert_non_decreasing_window,
    check_positive_learning_slope,
    plot_reward_curve,
    plot_slope_curve,
)
from concerto.training._curve_figures import slope_figure, window_figure, write_figure
from concerto.training.protocols import RewardCurve
from ripieno.errors import InputError, StorageError


def curve(*rewards: float) -> RewardCurve:
    return RewardCurve("79e4461c7a0750c7", per_episode_ego_rewards=list(rewards))


SAWTOOTH = curve(*((7 * i) % 20 for i in range(20)))


# --- the check -------------------------------------------------------------------------------------------------------


def test_a_rising_line_passes_and_a_falling_or_flat_one_fails() -> None:
    rising = check_positive_learning_slope(curve(*range(20)))
    assert (rising.slope, rising.intercept, rising.r_squared) == pytest.approx((1.0, 0.0, 1.0))
    assert rising.status is CheckStatus.PASSED
    falling = check_positive_learning_slope(curve(*range(20, 0, -1)))
    assert (falling.slope, falling.intercept, falling.p_value) == pytest.approx((-1.0, 20.0, 1.0))
    assert falling.status is CheckStatus.FAILED
    flat = check_positive_learning_slope(curve(*[0.1] * 20))
    assert flat == SlopeReport(0.0, 0.1, 0.0, 1.0, 0.05, 20, CheckStatus.FAILED)


def test_alpha_is_a_strict_bound_of_a_one_sided_probability() -> None:
    report = check_positive_learning_slope(SAWTOOTH)
    assert (report.slope, report.intercept) == pytest.approx((0.3684211, 6.0), abs=5e-8)
    assert (report.r_squared, report.p_value) == pytest.approx((0.1357341, 0.0549822), abs=5e-8)
    assert report.status is CheckStatus.FAILED
    assert check_positive_learning_slope(SAWTOOTH, alpha=0.06).status is CheckStatus.PASSED
    assert check_positive_learning_slope(SAWTOOTH, alpha=report.p_value).status is CheckStatus.FAILED


def test_validity_comes_before_quantity() -> None:
    few = check_positive_learning_slope(curve(*range(19)))
    assert few == SlopeReport(0.0, 0.0, 0.0, 1.0, 0.05, 19, CheckStatus.INSUFFICIENT_DATA)
    for bad in (math.nan, math.inf):
        report = check_positive_learning_slope(curve(1.0, 2.0, bad, 3.0, 4.0))
        assert report == SlopeReport(0.0, 0.0, 0.0, 1.0, 0.05, 5, CheckStatus.INVALID)
    assert check_positive_learning_slope(curve()).status is CheckStatus.INSUFFICIENT_DATA
    for report in (few, check_positive_learning_slope(curve(math.nan))):
        with pytest.warns(DeprecationWarning, match="compare SlopeReport.status"):
            assert report.passed is False


@given(
    rewards=st.lists(st.floats(-1e3, 1e3), min_size=20, max_size=40),
    unit=st.sampled_from([2.0**-500, 2.0**-10, 2.0**10, 2.0**500]),
)
@settings(max_examples=50, deadline=None)
def test_the_verdict_does_not_depend_on_the_unit_of_the_reward(rewards: list[float], unit: float) -> None:
    # Whole numbers, so that no unit takes a difference away.
    rewards = [float(round(reward)) for reward in rewards]
    one = check_positive_learning_slope(curve(*rewards))
    other = check_positive_learning_slope(curve(*(reward * unit for reward in rewards)))
    assert other.slope == pytest.approx(one.slope * unit, rel=1e-9, abs=1e-12 * unit)
    assert other.p_value == pytest.approx(one.p_value, rel=1e-6, abs=1e-12)


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=30))
@settings(max_examples=50, deadline=None)
def test_no_curve_makes_the_check_raise(rewards: list[float]) -> None:
    report = check_positive_learning_slope(curve(*rewards), min_episodes=3)
    assert 0.0 <= report.p_value <= 1.0
    assert report.n_episodes == len(rewards)


@pytest.mark.parametrize("wrong", [{"alpha": 0.0}, {"alpha": 1.0}, {"alpha": math.nan}, {"min_episodes": 2}])
def test_settings_that_mean_nothing_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=next(iter(wrong))):
        check_positive_learning_slope(SAWTOOTH, **wrong)


# --- the old flag ----------------------------------------------------------------------------------------------------


def test_a_flag_that_contradicts_the_status_is_overruled_with_one_warning() -> None:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        assert SlopeReport(0.0, 0.0, 0.0, 1.0, 0.05, 20, CheckStatus.FAILED, passed=True).passed is False
    assert [warning.category for warning in said] == [DeprecationWarning]
    assert said[0].filename == __file__


def test_only_who_reads_the_old_flag_is_warned() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        report = check_positive_learning_slope(curve(*range(20)))
        assert report == pickle.loads(pickle.dumps(report))
        assert hash(report) == hash(dataclasses.replace(report, alpha=0.05, passed=False))
        assert "PASSED" in repr(report)
    with pytest.warns(DeprecationWarning, match="compare SlopeReport.status") as said:
        assert report.passed is True
    assert said[0].filename == __file__
    with pytest.raises(dataclasses.FrozenInstanceError):
        report.slope = 3.0  # type: ignore[misc]


# --- the comparison of windows ---------------------------------------------------------------------------------------


def test_windows_that_do_not_fall_are_counted() -> None:
    hill = curve(1, 2, 3, 4, 3, 2)
    assert assert_non_decreasing_window(hill, window=2, threshold=0.8) == GuaranteeReport(2, 0.8, 4, 3, 0.75, False)
    assert assert_non_decreasing_window(hill, window=2, threshold=0.75).passed is True


@pytest.mark.parametrize(("n", "window"), [(10, 10), (0, 10), (5, 10), (10, 0), (10, -1)])
def test_nothing_to_compare_passes_without_meaning(n: int, window: int) -> None:
    report = assert_non_decreasing_window(curve(*range(n)), window=window)
    assert (report.n_intervals, report.fraction, report.passed) == (0, 1.0, True)


@pytest.mark.parametrize("threshold", [-0.1, 1.1, math.nan])
def test_a_threshold_is_a_share(threshold: float) -> None:
    with pytest.raises(InputError, match="threshold must lie between 0 and 1"):
        assert_non_decreasing_window(SAWTOOTH, threshold=threshold)


# --- figures ---------------------------------------------------------------------------------------------------------


def test_both_plots_of_a_run_fit_in_one_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    slope = check_positive_learning_slope(SAWTOOTH)
    png, record = plot_slope_curve(SAWTOOTH, report=slope, out_dir=Path("new/folder"))
    assert (png, record) == tuple(tmp_path / f"new/folder/79e4461c7a0750c7.{kind}" for kind in ("png", "json"))
    windows = assert_non_decreasing_window(SAWTOOTH)
    other = plot_reward_curve(SAWTOOTH, report=windows, out_dir=Path("new/folder"), name_suffix="-windows")
    assert len({png, record, *other}) == 4
    assert png.read_bytes()[16:24] == (960).to_bytes(4, "big") + (540).to_bytes(4, "big")
    saved = json.loads(record.read_text())
    assert saved["report"]["status"] == "failed"
    assert saved["per_episode_ego_rewards"] == SAWTOOTH.per_episode_ego_rewards
    assert record.read_text() == json.dumps(saved, sort_keys=True, indent=2)
    assert json.loads(other[1].read_text())["report"] == dataclasses.asdict(windows)


def test_an_invalid_curve_is_recorded_as_valid_json(tmp_path: Path) -> None:
    broken = curve(1.0, math.nan, math.inf)
    _, record = plot_slope_curve(broken, report=check_positive_learning_slope(broken), out_dir=tmp_path)

    def refuse(token: str) -> None:
        raise AssertionError(token)

    saved = json.loads(record.read_text(), parse_constant=refuse)
    assert saved["per_episode_ego_rewards"] == [1.0, None, None]
    assert saved["report"]["status"] == "invalid"


def test_what_the_slope_figure_shows() -> None:
    report = check_positive_learning_slope(curve(*range(20)))
    (axes,) = slope_figure(curve(*range(20)), report).axes
    raw, line = axes.lines
    np.testing.assert_allclose(np.asarray(raw.get_ydata()), np.arange(20.0))
    np.testing.assert_allclose(np.asarray(line.get_ydata()), [0.0, 19.0], atol=1e-12)
    assert line.get_label() == "slope 1 per episode, R² 1.000"
    assert axes.get_title(loc="left").startswith("79e4461c7a0750c7  PASSED: p = ")
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("episode index", "ego reward (sum over episode)")


def test_what_the_window_figure_shows() -> None:
    hill = curve(1, 2, 3, 4, 3, 2)
    (axes,) = window_figure(hill, assert_non_decreasing_window(hill, window=2)).axes
    mean = axes.lines[1]
    np.testing.assert_allclose(np.asarray(mean.get_xdata()), [1, 2, 3, 4, 5])
    np.testing.assert_allclose(np.asarray(mean.get_ydata()), [1.5, 2.5, 3.5, 3.5, 2.5])
    assert "FAIL: 3 of 4 windows do not fall, threshold 0.8" in axes.get_title(loc="left")


def test_an_empty_curve_is_empty_axes() -> None:
    report = check_positive_learning_slope(curve())
    assert len(slope_figure(curve(), report).axes[0].lines) == 0
    assert len(window_figure(curve(), assert_non_decreasing_window(curve())).axes[0].lines) == 0


def test_equal_figures_are_equal_files_and_the_plotting_state_stays(tmp_path: Path) -> None:
    import matplotlib as mpl

    before = dict(mpl.rcParams)
    report = check_positive_learning_slope(SAWTOOTH)
    for suffix in ("png", "svg"):
        paths = [write_figure(slope_figure(SAWTOOTH, report), tmp_path / f"{k}.{suffix}") for k in range(2)]
        assert paths[0].read_bytes() == paths[1].read_bytes()
    assert "R² 0.136" in (tmp_path / "0.svg").read_text()
    assert dict(mpl.rcParams) == before


def test_a_figure_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    figure = slope_figure(curve(), check_positive_learning_slope(curve()))
    with pytest.raises(InputError, match=r"must end in \.png or \.svg, got 'a\.gif'"):
        write_figure(figure, tmp_path / "a.gif")
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="cannot write"):
        write_figure(figure, tmp_path / "file" / "a.png")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


# --- old names -------------------------------------------------------------------------------------------------------


def test_the_old_module_has_the_same_names_and_warns_about_one() -> None:
    old = importlib.import_module("concerto.training.empirical_guarantee")
    new = importlib.import_module("concerto.training.learning_signal_check")
    assert set(old.__all__) == set(new.__all__) == set(concerto.training.__all__)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert all(getattr(old, name) is getattr(new, name) for name in new.__all__)
    for _ in range(2):
        with pytest.warns(DeprecationWarning, match="assert_positive_learning_slope is deprecated"):
            assert old.assert_positive_learning_slope is check_positive_learning_slope
    with pytest.raises(AttributeError, match="no attribute 'nope'"):
        old.nope  # noqa: B018
    assert not hasattr(concerto.training, "assert_positive_learning_slope")
