"""Pictures of a run: few points, and whole files."""

from pathlib import Path

import numpy as np
import pytest

from scpn_phase_orchestrator.binding import load_binding_spec
from scpn_phase_orchestrator.reporting import figures
from scpn_phase_orchestrator.runtime.history import RunHistory
from scpn_phase_orchestrator.runtime.simulation import simulate


def history_of(path: Path, steps: int) -> RunHistory:
    history = simulate(load_binding_spec(path), steps=steps).history
    assert history is not None
    return history


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
