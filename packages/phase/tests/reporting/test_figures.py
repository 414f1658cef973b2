"""Pictures of a run: they show what decides the verdict, with few points, and are whole files."""

from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from scpn_phase_orchestrator.binding import load_binding_spec
from scpn_phase_orchestrator.domainpacks import resolve_spec_path
from scpn_phase_orchestrator.reporting import figures
from scpn_phase_orchestrator.runtime.history import HistoryRecorder, RunHistory
from scpn_phase_orchestrator.runtime.simulation import SimulationResult, simulate


def recorded(result: SimulationResult) -> RunHistory:
    assert result.history is not None
    return result.history


def history_of(path: Path, steps: int) -> RunHistory:
    return recorded(simulate(load_binding_spec(path), steps=steps))


@pytest.mark.parametrize("steps", [500, 3_999])
def test_a_curve_has_at_most_the_stated_number_of_points_and_covers_the_run(s1_path: Path, steps: int):
    history = history_of(s1_path, steps)
    curve, _strip = figures.order_figure(history).axes
    for line in curve.lines:
        times = np.asarray(line.get_xdata())
        assert min(steps, 1_000) // 2 < len(times) <= figures.MAX_POINTS
        assert times[0] == history.time_s[0]
        assert times[-1] >= history.time_s[-1] - 2 * (history.time_s[1] - history.time_s[0])


@pytest.mark.parametrize(("ending", "start"), [(".png", b"\x89PNG"), (".svg", b"<?xml")])
def test_a_picture_replaces_the_one_before_and_leaves_nothing_else(
    s1_path: Path, tmp_path: Path, ending: str, start: bytes
):
    path = tmp_path / "new" / f"run{ending}"
    path.parent.mkdir()
    path.write_bytes(b"old")
    assert figures.write_run_figure(history_of(s1_path, 20), path) == path
    assert path.read_bytes().startswith(start)
    assert list(path.parent.iterdir()) == [path]


def test_another_ending_is_refused_before_anything_is_drawn(s1_path: Path, tmp_path: Path):
    history = history_of(s1_path, 2)
    with pytest.raises(ValueError, match=r"a figure is written as \.png or \.svg, got 'run\.jpeg'"):
        figures.write_run_figure(history, tmp_path / "run.jpeg")
    assert list(tmp_path.iterdir()) == []


Runs = tuple[SimulationResult, SimulationResult]


def labels_of(axis: Any) -> set[str]:
    return {str(line.get_label()) for line in axis.lines}


def line_of(axis: Any, label: str) -> Any:
    (line,) = [line for line in axis.lines if line.get_label() == label]
    return np.asarray(line.get_ydata(), dtype=float)


@pytest.fixture(scope="module")
def grid() -> Runs:
    """The power grid open loop and supervised."""
    path = resolve_spec_path("power_grid")
    spec = load_binding_spec(path)
    open_loop, supervised = (
        simulate(spec, steps=600, policy_enabled=enabled, binding_spec_path=path) for enabled in (False, True)
    )
    return open_loop, supervised


def test_the_curve_of_a_bad_layer_ends_at_the_lock_level_of_the_verdict(grid: Runs):
    for result in grid:
        history, verdict = recorded(result), result.verdict
        assert verdict is not None
        assert history.window_steps == verdict.judged_steps
        lock = history.moving_lock()
        assert np.isnan(lock[: history.window_steps - 1]).all()
        assert not np.isnan(lock[history.window_steps - 1 :]).any()
        (bad,) = [layer for layer in verdict.layers if not layer.is_good]
        assert lock[-1, history.bad_positions[0]] == pytest.approx(bad.lock, abs=1e-6)
        axis = figures.layer_figure(history).axes[0]
        assert line_of(axis, "governor_hunting (bad): lock")[-1] == lock[-1, history.bad_positions[0]]


def test_both_panels_show_what_decides_with_target_and_ceiling(grid: Runs):
    open_loop, supervised = grid
    panels = figures.comparison_figure(recorded(open_loop), recorded(supervised)).axes
    assert [axis.get_title(loc="left") or axis.get_title() for axis in panels] == ["Open loop", "Supervised"]
    for axis, result in zip(panels, grid, strict=True):
        assert "north_plants (good): R" in labels_of(axis)
        assert set(line_of(axis, "target (good R)")) == {recorded(result).good_target}
        assert set(line_of(axis, "ceiling (bad lock)")) == {recorded(result).bad_ceiling}
        momentary = line_of(axis, "R of a bad layer, momentary")
        np.testing.assert_array_equal(momentary, recorded(result).layer_r[:, recorded(result).bad_positions[0]])


def test_a_run_shorter_than_a_beat_is_judged_whole(s1_path: Path):
    history = history_of(resolve_spec_path("power_grid"), 30)
    assert history.window_steps == 30
    assert np.isfinite(history.moving_lock()[-1]).all()
    assert figures.layer_figure(history_of(s1_path, 0)).axes


def test_many_layers_show_the_lock_of_the_bad_ones_in_a_map():
    history = history_of(resolve_spec_path("plasma_control"), 40)
    axis, scale = cast("list[Any]", figures.layer_figure(history).axes)
    assert [line.get_label() for line in scale.lines if line.get_label() in ("target", "ceiling")] == [
        "target",
        "ceiling",
    ]
    assert axis.yaxis_inverted()
    rows = {label.get_text() for label in axis.get_yticklabels()}
    assert {name.split(": ")[1] for name in rows} == {"R", "lock"}
    cells = np.ma.getdata(axis.collections[0].get_array()).reshape(len(history.layer_names), -1)
    np.testing.assert_allclose(cells[history.bad_positions[0]], history.moving_lock()[:, history.bad_positions[0]])


def test_maps_side_by_side_list_the_layers_in_order_with_one_scale():
    history = history_of(resolve_spec_path("plasma_control"), 10)
    panels = figures.comparison_figure(history, history).axes
    assert len(panels) == 3
    assert all(axis.yaxis_inverted() for axis in panels[:2])


def test_every_knob_that_was_turned_has_its_panel_and_shared_ones_no_colour_of_a_layer(grid: Runs):
    history = recorded(grid[1])
    assert np.any(history.alpha_layers)
    panels = figures.knob_figure(history).axes
    assert [axis.get_ylabel() for axis in panels] == ["gain on K", "lag alpha in rad", "drive zeta"]
    assert "alpha, governor_hunting (bad)" in labels_of(panels[1])
    for axis, label in ((panels[0], "K, all layers"), (panels[2], "zeta, all layers")):
        (line,) = [line for line in axis.lines if line.get_label() == label]
        assert line.get_color() == figures.SHARED_COLOUR
        assert line.get_linestyle() == ":"
    assert [axis.get_ylabel() for axis in figures.knob_figure(recorded(grid[0])).axes] == ["gain on K", "drive zeta"]


def test_a_drive_of_one_layer_is_drawn_for_that_layer(s1_path: Path):
    spec = load_binding_spec(s1_path)
    sizes = [len(layer.oscillator_ids) for layer in spec.layers]
    zeta = np.repeat([0.4] + [0.1] * (len(sizes) - 1), sizes)
    recorder = HistoryRecorder(spec)
    recorder.add(
        layer_r=np.ones(len(sizes)),
        r_good=1.0,
        r_bad=0.0,
        regime="nominal",
        zeta=zeta,
        k_global=1.0,
        k_layers=(),
        alpha_layers=(),
        actions=(),
    )
    history = recorder.finish(np.zeros(len(zeta)), np.zeros((len(zeta), len(zeta))))
    assert history.zeta_layers[0] == pytest.approx([0.4] + [0.1] * (len(sizes) - 1))
    drive = figures.knob_figure(history).axes[-1]
    assert {f"zeta, {spec.layers[0].name} (good)", "zeta, other layers"} <= labels_of(drive)


def test_a_knob_at_rest_is_drawn_in_a_scale_that_begins_at_0(grid: Runs):
    for axis in figures.knob_figure(recorded(grid[0])).axes:
        low, high = axis.get_ylim()
        assert low <= 0.0
        assert high >= 0.1


def test_the_overview_holds_the_knobs(grid: Runs):
    labels = [axis.get_ylabel() for axis in figures.overview_figure(recorded(grid[1])).axes]
    assert {"order parameter R", "R or lock level", "gain on K", "lag alpha in rad", "drive zeta"} <= set(labels)


def test_the_regime_of_an_open_loop_run_is_said_to_be_not_judged(grid: Runs):
    strips = [figures.order_figure(recorded(result)).axes[1] for result in grid]
    assert "not judged" in strips[0].get_xlabel()
    assert not strips[0].collections
    assert "not judged" not in strips[1].get_xlabel()
    assert strips[1].collections
