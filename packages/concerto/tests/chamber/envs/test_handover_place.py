"""The handover task: documented outcomes, its episodes, its spaces, and refusals."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chamber.agents.handover_ego_scripted import ScriptedHandoverEgo
from chamber.envs import handover_place as task
from chamber.envs.handover_place import (
    HandoverPlaceEnv,
    PlacementOutcome,
    evaluate_handover_place_success,
    handover_conditions,
    make_handover_place_env,
    resolve_placement,
)
from chamber.partners import load_partner
from chamber.partners.handover_presenter import presenter_spec
from chamber.testing import check_task

DEFAULTS: dict[str, Any] = {
    "lateral_offset_m": (0.0, 0.0),
    "grasp_pose_error_deg": 0.0,
    "timing_skew_s": 0.0,
    "ego_translation_m": (0.0, 0.0),
    "ego_reorient_deg": 0.0,
    "ego_regrasp_requested": False,
    "regrasp_budget_s": 1.0,
    "regrasp_duration_s": 2.0,
    "translation_range_m": 0.10,
    "wrist_correction_deg": 15.0,
    "reacquire_range_deg": 90.0,
    "contact_stiffness_n_per_m": 3.75e4,
    "angular_stiffness_n_per_deg": 7.5,
    "lateral_window_m": 1e-3,
    "angular_window_deg": 5.0,
    "seating_force_limit_n": 75.0,
}


def outcome(**changes: Any) -> PlacementOutcome:
    return resolve_placement(**{**DEFAULTS, **changes})


def played(env: HandoverPlaceEnv, presentation: Any, placement: Any, *, seed: int = 0) -> dict[str, Any]:
    env.reset(seed=seed)
    env.step(presentation)
    return env.step(placement)[4]


class MatchedPair:
    """A presenter that hands over as the ego expects it, and the scripted ego; each acts in its step."""

    def __init__(self, env: HandoverPlaceEnv) -> None:
        self._players = (load_partner(presenter_spec("matched")), ScriptedHandoverEgo())

    def reset(self, *, seed: int) -> None:
        for player in self._players:
            player.reset(seed=seed)

    def act(self, obs: dict[str, Any]) -> Any:
        return self._players[obs["phase"]].act(obs)


class TestConstants:
    def test_documented_values(self):
        documented = {
            "HORIZON": 2,
            "PHASE_PRESENT": 0,
            "PHASE_PLACE": 1,
            "PRESENTATION_DIM": 4,
            "EGO_DIM": 4,
            "DELTA_MIN_PP": 20.0,
            "TAU_SOLV": 0.90,
            "N_BOOT": 10000,
            "K_EPISODES": 20,
            "DEFAULT_LATERAL_WINDOW_M": 1e-3,
            "DEFAULT_ANGULAR_WINDOW_DEG": 5.0,
            "DEFAULT_SEATING_FORCE_LIMIT_N": 75.0,
            "DEFAULT_TRANSLATION_RANGE_M": 0.10,
            "DEFAULT_WRIST_CORRECTION_DEG": 15.0,
            "DEFAULT_REACQUIRE_RANGE_DEG": 90.0,
            "DEFAULT_REGRASP_BUDGET_S": 1.0,
            "DEFAULT_REGRASP_DURATION_S": 2.0,
            "DEFAULT_CONTACT_STIFFNESS_N_PER_M": 3.75e4,
            "DEFAULT_ANGULAR_STIFFNESS_N_PER_DEG": 7.5,
            "DEFAULT_TARGET_POSE": (0.0, 0.0, 0.0),
            "GOAL_JITTER_HALF_M": 5e-3,
            "ABLATED_STAGING_OFFSET_M": 0.35,
            "MATCHED_REFERENCE": "handover_matched_reference",
            "PRESENTATION_MISMATCH": "handover_presentation_mismatch",
        }
        assert {name: getattr(task, f"HANDOVER_{name}") for name in documented} == documented

    def test_conditions_seat_the_presenter_they_name(self):
        conditions = handover_conditions()
        assert {key: condition.presenter for key, condition in conditions.items()} == {
            "handover_matched_reference": "matched",
            "handover_presentation_mismatch": "mismatched",
        }
        assert all(condition.condition_id == key and condition.description for key, condition in conditions.items())
        conditions.clear()
        assert len(handover_conditions()) == 2


class TestRules:
    def test_a_wrist_that_nearly_suffices_seats_the_part(self):
        result = outcome(grasp_pose_error_deg=18.0)
        assert (result.success, result.residual_angular_deg, result.seating_force_proxy_n) == (True, 3.0, 22.5)
        assert (result.failure_mode, result.binding_conjunct) == ("none", "none")

    def test_a_regrasp_without_time_fails_for_want_of_budget(self):
        result = outcome(grasp_pose_error_deg=30.0, ego_regrasp_requested=True)
        assert (result.success, result.residual_angular_deg, result.seating_force_proxy_n) == (False, 15.0, 112.5)
        assert (result.failure_mode, result.binding_conjunct) == ("budget_mediated", "angular|force")
        assert result.regrasp_requested
        assert result.regrasp_budget_blocked
        assert not result.regrasp_executed

    def test_a_regrasp_with_exactly_enough_time_is_executed(self):
        result = outcome(grasp_pose_error_deg=30.0, ego_regrasp_requested=True, regrasp_budget_s=2.0)
        assert result.success
        assert result.regrasp_executed
        assert not result.regrasp_budget_blocked
        assert result.residual_angular_deg == 0.0

    def test_a_late_presenter_takes_time_away_and_an_early_one_gives_none(self):
        regrasp = {"grasp_pose_error_deg": 30.0, "ego_regrasp_requested": True}
        assert outcome(**regrasp, regrasp_budget_s=2.0, timing_skew_s=0.1).regrasp_budget_blocked
        assert outcome(**regrasp, regrasp_budget_s=1.9, timing_skew_s=-5.0).regrasp_budget_blocked

    def test_an_error_beyond_reacquisition_fails_by_itself(self):
        result = outcome(grasp_pose_error_deg=100.0, ego_regrasp_requested=True, regrasp_budget_s=9.0)
        assert (result.success, result.residual_angular_deg, result.seating_force_proxy_n) == (False, 10.0, 75.0)
        assert (result.failure_mode, result.binding_conjunct) == ("intrinsic", "angular|force")
        assert result.beyond_reacquire

    def test_a_part_out_of_reach_fails_by_itself(self):
        result = outcome(lateral_offset_m=(0.35, 0.0), ego_translation_m=(-0.35, 0.0))
        assert result.residual_lateral_m == pytest.approx(0.25, abs=1e-15)
        assert result.seating_force_proxy_n == pytest.approx(9375.0)
        assert (result.failure_mode, result.binding_conjunct) == ("intrinsic", "lateral|force")

    def test_a_lateral_offset_breaks_its_own_limit_first(self):
        result = outcome(lateral_offset_m=(1.2e-3, 0.0))
        assert result.seating_force_proxy_n == pytest.approx(45.0)
        assert result.binding_conjunct == "lateral"
        assert result.failure_mode == "intrinsic"

    def test_limits_are_strict(self):
        limits = {"lateral_window_m": 1.0, "angular_window_deg": 2.0, "seating_force_limit_n": 3.0}
        assert evaluate_handover_place_success(0.999, 1.999, 2.999, **limits)
        for at_limit in ((1.0, 0.0, 0.0), (0.0, 2.0, 0.0), (0.0, 0.0, 3.0)):
            assert not evaluate_handover_place_success(*at_limit, **limits)

    def test_the_wrist_is_ideal_unless_it_has_to_follow_its_command(self):
        wrong_way = {"grasp_pose_error_deg": 10.0, "ego_reorient_deg": 40.0}
        assert outcome(**wrong_way).residual_angular_deg == 0.0
        assert outcome(**wrong_way, follow_reorientation=True).residual_angular_deg == 25.0
        right_way = {"grasp_pose_error_deg": 18.0, "ego_reorient_deg": -40.0}
        assert outcome(**right_way, follow_reorientation=True) == outcome(**right_way)
        regrasped = {**wrong_way, "ego_regrasp_requested": True, "regrasp_budget_s": 9.0}
        assert outcome(**regrasped, follow_reorientation=True).residual_angular_deg == 0.0

    @pytest.mark.parametrize("name", [name for name, value in DEFAULTS.items() if isinstance(value, float)])
    def test_what_is_not_a_number_is_refused(self, name: str):
        with pytest.raises(ValueError, match=name):
            outcome(**{name: math.nan})

    @pytest.mark.parametrize("name", ["lateral_offset_m", "ego_translation_m"])
    @pytest.mark.parametrize("value", [(0.0,), (0.0, math.nan), (0.0, 0.0, 0.0)])
    def test_vectors_that_are_no_points_are_refused(self, name: str, value: tuple[float, ...]):
        with pytest.raises(ValueError, match=name):
            outcome(**{name: value})

    @given(
        st.floats(-0.5, 0.5),
        st.floats(-200, 200),
        st.floats(-1, 3),
        st.floats(-0.5, 0.5),
        st.booleans(),
        st.floats(-1, 5),
    )
    def test_outcomes_are_consistent(
        self, offset: float, error: float, skew: float, translation: float, regrasp: bool, budget: float
    ):
        result = outcome(
            lateral_offset_m=(offset, 0.0),
            grasp_pose_error_deg=error,
            timing_skew_s=skew,
            ego_translation_m=(translation, 0.0),
            ego_regrasp_requested=regrasp,
            regrasp_budget_s=budget,
        )
        assert result.success == (result.binding_conjunct == "none") == (result.failure_mode == "none")
        assert result.regrasp_requested == (result.regrasp_executed or result.regrasp_budget_blocked)
        assert not (result.regrasp_executed and result.regrasp_budget_blocked)
        freely = outcome(
            lateral_offset_m=(offset, 0.0),
            grasp_pose_error_deg=error,
            ego_translation_m=(translation, 0.0),
            ego_regrasp_requested=True,
            regrasp_budget_s=math.inf,
        )
        assert freely.success == (result.failure_mode in {"none", "budget_mediated"})


class TestEpisode:
    def test_the_documented_start(self):
        obs, info = make_handover_place_env().reset(seed=3)
        np.testing.assert_allclose(obs["target_pose"], [0.001207, 0.00127046, 0.0], atol=1e-8)
        assert obs["phase"] == 0
        assert obs["lateral_offset"] is None
        assert obs["grasp_pose_error_deg"] is None
        assert obs["spec"] == {
            "lateral_window_m": 1e-3,
            "angular_window_deg": 5.0,
            "seating_force_limit_n": 75.0,
            "regrasp_budget_s": 1.0,
        }
        assert info == {"initial_state_seed": 3}

    def test_two_steps_and_their_rewards(self):
        env = make_handover_place_env()
        start, _ = env.reset(seed=3)
        obs, reward, terminated, truncated, info = env.step([2e-4, -1e-4, 18.0, 0.1])
        assert (reward, terminated, truncated, info) == (0.0, False, False, {})
        assert obs["phase"] == 1
        assert obs["lateral_offset"].tolist() == [2e-4, -1e-4]
        assert obs["grasp_pose_error_deg"] == 18.0
        assert (obs["target_pose"] == start["target_pose"]).all()
        _, reward, terminated, truncated, info = env.step([0.0, 0.0, 0.0, 0.0])
        assert (reward, terminated, truncated) == (1.0, True, False)
        expected = outcome(grasp_pose_error_deg=18.0, lateral_offset_m=(2e-4, -1e-4), timing_skew_s=0.1)
        assert {**info, "placed_xy_m": None} == {**dataclasses.asdict(expected), "placed_xy_m": None}

    def test_the_part_lies_where_offset_and_reach_leave_it(self):
        env = make_handover_place_env(target_pose=(1.0, 2.0, 0.5))
        info = played(env, [0.3, 0.0, 0.0, 0.0], [-0.3, 0.0, 0.0, 0.0], seed=3)
        np.testing.assert_allclose(info["placed_xy_m"], [1.001207 + 0.2, 2.00127046], atol=1e-8)
        assert info["residual_lateral_m"] == pytest.approx(0.2)

    @pytest.mark.parametrize(("flag", "is_asked"), [(0.5, False), (0.51, True), (1.0, True)])
    def test_a_regrasp_is_asked_for_above_one_half(self, flag: float, is_asked: bool):
        info = played(make_handover_place_env(), [0.0, 0.0, 30.0, 0.0], [0.0, 0.0, 0.0, flag])
        assert info["regrasp_requested"] == is_asked

    def test_a_failed_placement_is_worth_nothing(self):
        env = make_handover_place_env()
        env.reset(seed=0)
        env.step([0.0, 0.0, 30.0, 0.0])
        assert env.step([0.0, 0.0, -15.0, 1.0])[1:4] == (0.0, True, False)

    def test_free_regrasps_take_the_coupling_away(self):
        demanding, placement = [0.0, 0.0, 80.0, 0.4], [0.0, 0.0, -15.0, 1.0]
        assert not played(make_handover_place_env(), demanding, placement)["success"]
        freed = make_handover_place_env(free_regrasp=True)
        assert played(freed, demanding, placement)["success"]
        assert freed.reset(seed=0)[0]["spec"]["regrasp_budget_s"] == math.inf

    def test_without_a_presenter_the_part_is_out_of_reach(self):
        env = make_handover_place_env(presenter_ablated=True)
        env.reset(seed=0)
        obs = env.step([0.0, 0.0, 40.0, 0.3])[0]
        assert obs["lateral_offset"].tolist() == [0.35, 0.0]
        assert obs["grasp_pose_error_deg"] == 0.0
        info = env.step([-0.35, 0.0, 0.0, 1.0])[4]
        assert info["residual_lateral_m"] == pytest.approx(0.25)
        assert not info["success"]

    def test_parameters_reach_the_rules(self):
        generous = make_handover_place_env(wrist_correction_deg=25.0, regrasp_budget_s=0.0, regrasp_duration_s=0.5)
        info = played(generous, [0.0, 0.0, 28.0, 0.0], [0.0, 0.0, 0.0, 1.0])
        assert (info["residual_angular_deg"], info["regrasp_budget_blocked"]) == (3.0, True)
        commanded = make_handover_place_env(follow_reorientation=True)
        assert played(commanded, [0.0, 0.0, 10.0, 0.0], [0.0, 0.0, -9.0, 0.0])["residual_angular_deg"] == 1.0

    def test_the_condition_is_on_record(self):
        env = make_handover_place_env(condition_id="handover_presentation_mismatch")
        assert env.condition_id == "handover_presentation_mismatch"
        assert env.condition.presenter == "mismatched"


class TestSeeds:
    def test_an_episode_depends_on_its_seed_alone(self):
        env = make_handover_place_env()
        first = env.reset(seed=5)[0]["target_pose"]
        played(env, [0.0] * 4, [0.0] * 4, seed=9)
        assert env.reset(seed=5)[0]["target_pose"].tobytes() == first.tobytes()
        assert make_handover_place_env().reset(seed=5)[0]["target_pose"].tobytes() == first.tobytes()
        assert env.reset(seed=6)[0]["target_pose"].tobytes() != first.tobytes()

    def test_targets_stay_within_their_jitter_and_cover_it(self):
        env = make_handover_place_env(target_pose=(1.0, -1.0, 0.3))
        targets = np.array([env.reset(seed=seed)[0]["target_pose"] for seed in range(200)])
        offsets = targets - [1.0, -1.0, 0.3]
        assert (np.abs(offsets[:, :2]) <= 5e-3).all()
        assert (np.abs(offsets[:, :2]).max(axis=0) > 4.5e-3).all()
        assert (offsets[:, 2] == 0.0).all()

    def test_runs_with_different_root_seeds_differ_in_every_episode(self):
        runs = [
            [make_handover_place_env(root_seed=root).reset(seed=seed)[0]["target_pose"].tobytes() for seed in range(5)]
            for root in range(4)
        ]
        assert len({target for run in runs for target in run}) == 20

    def test_without_a_seed_episodes_count_up_from_the_root_seed_and_can_be_replayed(self):
        env = make_handover_place_env(root_seed=4)
        starts = [env.reset() for _ in range(3)]
        assert [info["initial_state_seed"] for _, info in starts] == [4, 5, 6]
        for obs, info in starts:
            replayed = make_handover_place_env(root_seed=4).reset(seed=info["initial_state_seed"])[0]
            assert replayed["target_pose"].tobytes() == obs["target_pose"].tobytes()
        env.reset(seed=0)
        assert env.reset()[1] == {"initial_state_seed": 1}

    def test_zero_is_a_seed(self):
        env = make_handover_place_env(root_seed=7)
        assert env.reset(seed=0)[1] == {"initial_state_seed": 0}

    def test_negative_seeds_are_refused(self):
        with pytest.raises(ValueError, match="seed must be >= 0"):
            make_handover_place_env().reset(seed=-1)
        with pytest.raises(ValueError, match="root_seed must be >= 0"):
            make_handover_place_env(root_seed=-1)


class TestSpaces:
    def test_it_is_an_environment_whose_observations_are_in_its_space(self):
        env = make_handover_place_env(free_regrasp=True)
        assert isinstance(env, gym.Env)
        assert (env.action_space.low.tolist(), env.action_space.high.tolist()) == (
            [-1.0, -1.0, -180.0, 0.0],
            [1.0, 1.0, 180.0, 60.0],
        )
        obs, _ = env.reset(seed=1)
        assert env.observation_space.contains(obs)
        for action in (np.full(4, 0.1), np.zeros(4)):
            assert env.action_space.contains(action)
            obs = env.step(action)[0]
            assert env.observation_space.contains(obs)

    def test_what_cannot_be_an_observation_is_not_in_the_space(self):
        env = make_handover_place_env()
        obs, _ = env.reset(seed=1)
        for wrong in (
            {"target_pose": None},
            {"target_pose": np.zeros(2)},
            {"lateral_offset": np.zeros(3)},
            {"lateral_offset": np.array([0.0, np.nan])},
            {"grasp_pose_error_deg": "unknown"},
            {"phase": 2},
        ):
            assert not env.observation_space.contains({**obs, **wrong})

    def test_samples_of_the_spaces_are_in_them(self):
        env = make_handover_place_env()
        env.observation_space.seed(0)
        assert env.observation_space.contains(env.observation_space.sample())

    def test_observations_are_copies(self):
        env = make_handover_place_env()
        obs, _ = env.reset(seed=1)
        obs["target_pose"][:] = 9.0
        obs["spec"]["angular_window_deg"] = 90.0
        presentation = np.array([0.0, 0.0, 30.0, 0.0])
        later = env.step(presentation)[0]
        presentation[:] = 0.0
        later["lateral_offset"][:] = 9.0
        assert np.abs(later["target_pose"]).max() < 0.01
        assert later["spec"]["angular_window_deg"] == 5.0
        info = env.step([0.0] * 4)[4]
        assert (info["residual_lateral_m"], info["residual_angular_deg"]) == (0.0, 15.0)

    def test_finite_numbers_outside_the_usual_are_taken_as_they_are(self):
        info = played(make_handover_place_env(), [0.0, 0.0, 270.0, 90.0], [0.0, 0.0, 0.0, -1.0])
        assert (info["residual_angular_deg"], info["regrasp_requested"]) == (255.0, False)

    @pytest.mark.parametrize("condition_id", sorted(handover_conditions()))
    def test_it_passes_the_checks_of_every_task(self, condition_id: str):
        check_task(lambda: make_handover_place_env(condition_id=condition_id))

    def test_a_matched_presenter_and_the_scripted_ego_place_the_part(self):
        check_task(make_handover_place_env, reference=MatchedPair, seeds=tuple(range(20)))


class TestRefusals:
    def test_an_unknown_condition_is_refused_with_those_there_are(self):
        with pytest.raises(KeyError, match=r"handover_matched_reference, handover_presentation_mismatch"):
            make_handover_place_env(condition_id="x")

    @pytest.mark.parametrize("action", [[0.0] * 3, [0.0] * 5, [[0.0] * 4], [0.0, 0.0, math.nan, 0.0], [math.inf] * 4])
    def test_actions_that_are_not_four_finite_numbers_change_nothing(self, action: Any):
        env = make_handover_place_env()
        env.reset(seed=0)
        with pytest.raises(ValueError, match="action of the presenter must be 4 finite numbers"):
            env.step(action)
        assert env.step([0.0, 0.0, 18.0, 0.0])[0]["grasp_pose_error_deg"] == 18.0
        with pytest.raises(ValueError, match="action of the ego must be 4 finite numbers"):
            env.step(action)
        assert env.step([0.0] * 4)[4]["success"]

    def test_there_is_no_step_before_a_reset_and_none_after_the_placement(self):
        env = make_handover_place_env()
        with pytest.raises(gym.error.ResetNeeded):
            env.step([0.0] * 4)
        played(env, [0.0] * 4, [0.0] * 4)
        with pytest.raises(gym.error.ResetNeeded):
            env.step([0.0] * 4)

    @pytest.mark.parametrize(
        "parameters",
        [
            {"lateral_window_m": 0.0},
            {"angular_window_deg": -1.0},
            {"seating_force_limit_n": math.nan},
            {"wrist_correction_deg": -1.0},
            {"regrasp_duration_s": math.nan},
            {"regrasp_budget_s": math.nan},
            {"target_pose": (0.0, 0.0)},
            {"target_pose": (0.0, 0.0, math.inf)},
        ],
    )
    def test_numbers_out_of_range_are_named(self, parameters: dict[str, Any]):
        with pytest.raises(ValueError, match=next(iter(parameters))):
            make_handover_place_env(**parameters)

    def test_a_negative_budget_is_no_time_at_all(self):
        env = make_handover_place_env(regrasp_budget_s=-0.07, regrasp_duration_s=0.0)
        assert played(env, [0.0, 0.0, 30.0, 0.0], [0.0, 0.0, 0.0, 1.0])["regrasp_budget_blocked"]


class TestWhatIsRefused:
    @pytest.mark.parametrize("seed", [True, 1.0, "1", -1, [1]])
    def test_a_seed_that_is_no_whole_number(self, seed: Any):
        with pytest.raises(ValueError, match=r"^seed must be"):
            make_handover_place_env().reset(seed=seed)
        with pytest.raises(ValueError, match=r"^root_seed must be"):
            make_handover_place_env(root_seed=seed)

    @pytest.mark.parametrize("options", [{"x": 1}, 5, []])
    def test_an_option_that_nobody_knows(self, options: Any):
        with pytest.raises(ValueError, match=r"reset\(\)"):
            make_handover_place_env().reset(seed=0, options=options)

    @pytest.mark.parametrize("action", [np.ma.masked_all(4), np.zeros(4, dtype=complex), ["1"] * 4, {}, None])
    def test_an_action_that_is_no_vector_of_numbers_is_not_taken(self, action: Any):
        env = make_handover_place_env()
        env.reset(seed=0)
        with pytest.raises(ValueError, match="action of the presenter must be 4 finite numbers"):
            env.step(action)
        env.step(np.zeros(4))
