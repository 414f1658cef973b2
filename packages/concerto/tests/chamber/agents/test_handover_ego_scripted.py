"""The scripted ego of the handover task: documented actions, properties, and refusals."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chamber.agents.handover_ego_scripted import ScriptedHandoverEgo


def act(lateral: object, error: object, **options: float) -> np.ndarray:
    return ScriptedHandoverEgo(**options).act({"lateral_offset": lateral, "grasp_pose_error_deg": error})


@pytest.mark.parametrize(
    ("lateral", "error", "expected"),
    [
        ((0.3, 0.4), 30.0, [-0.06, -0.08, -15.0, 1.0]),
        ((0.3, 0.4), 18.0, [-0.06, -0.08, -15.0, 0.0]),
        ((0.0, 0.0), 20.0, [0.0, 0.0, -15.0, 1.0]),
        ((0.0, 0.0), -12.0, [0.0, 0.0, 12.0, 0.0]),
        ((0.02, -0.01), 0.0, [-0.02, 0.01, 0.0, 0.0]),
    ],
)
def test_documented_actions(lateral: tuple[float, float], error: float, expected: list[float]):
    action = act(np.array(lateral), error)
    assert action.dtype == np.float64
    np.testing.assert_allclose(action, expected, atol=1e-15)


def test_the_window_of_the_specification_decides_about_a_regrasp():
    obs = {"lateral_offset": [[0.0, 0.0]], "grasp_pose_error_deg": 18.0}
    ego = ScriptedHandoverEgo()
    assert ego.act({**obs, "spec": {"angular_window_deg": 3.0}})[3] == 1.0
    assert ego.act({**obs, "spec": {"angular_window_deg": np.array(3.1)}})[3] == 0.0
    assert ego.act({**obs, "spec": {}})[3] == 0.0


@pytest.mark.parametrize("field", ["lateral_offset", "grasp_pose_error_deg"])
@pytest.mark.parametrize("is_absent", [True, False])
def test_before_the_presentation_there_is_nothing_to_do(field: str, is_absent: bool):
    obs: dict[str, object] = {"lateral_offset": np.zeros(2), "grasp_pose_error_deg": 0.0}
    if is_absent:
        del obs[field]
    else:
        obs[field] = None
    with pytest.raises(RuntimeError, match=field):
        ScriptedHandoverEgo().act(obs)


@pytest.mark.parametrize(
    ("lateral", "error", "field"),
    [
        ([0.0, math.nan], 0.0, "lateral_offset"),
        ([0.0, 0.0, 0.0], 0.0, "lateral_offset"),
        ([0.0, 0.0], math.inf, "grasp_pose_error_deg"),
        ([0.0, 0.0], [1.0, 2.0], "grasp_pose_error_deg"),
    ],
)
def test_readings_that_are_not_finite_or_have_another_shape_are_refused(lateral: object, error: object, field: str):
    with pytest.raises(ValueError, match=field):
        act(lateral, error)


@pytest.mark.parametrize("options", [{"translation_range_m": -0.1}, {"wrist_correction_deg": math.nan}])
def test_ranges_that_make_no_sense_are_refused(options: dict[str, float]):
    with pytest.raises(ValueError, match=next(iter(options))):
        ScriptedHandoverEgo(**options)


number = st.floats(-1e3, 1e3)


@given(number, number, number, st.floats(1e-6, 1.0), st.floats(0.0, 180.0))
def test_commands_stay_in_reach_and_never_make_it_worse(x: float, y: float, error: float, reach: float, wrist: float):
    translate_x, translate_y, turn, _ = act([x, y], error, translation_range_m=reach, wrist_correction_deg=wrist)
    assert math.hypot(translate_x, translate_y) <= reach * (1 + 1e-12)
    assert math.hypot(x + translate_x, y + translate_y) <= max(0.0, math.hypot(x, y) - reach) + 1e-9
    assert abs(turn) <= wrist
    assert abs(error + turn) == pytest.approx(max(0.0, abs(error) - wrist), abs=1e-12)


def test_it_remembers_nothing():
    ego = ScriptedHandoverEgo()
    obs = {"lateral_offset": np.array([0.01, 0.02]), "grasp_pose_error_deg": 7.0}
    first = ego.act(obs)
    ego.act({"lateral_offset": np.array([0.5, 0.5]), "grasp_pose_error_deg": 90.0})
    ego.reset(seed=3)
    assert ego.act(obs).tobytes() == first.tobytes()
