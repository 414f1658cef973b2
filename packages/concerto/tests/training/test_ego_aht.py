"""The loop: when it updates, saves, resets and ends, what it tells the trainer, and what it writes."""

from __future__ import annotations

import copy
import pickle
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

sys.path.append(str(Path(__file__).parent / "loop_parts"))

from loop_parts import (
    NoisyLearner,
    ScriptedEnv,
    StillPartner,
    VectorWalks,
    config,
    events_of,
    planar_env,
)

from concerto.training.ego_aht import RandomEgoTrainer, RewardCurve, TrainingProgress, TrainingResult, train
from concerto.training.safety_telemetry import AuditExit, audit_gate
from concerto.training.seeding import derive_substream


class Recorder(RandomEgoTrainer):
    """A random ego that remembers what it was told."""

    def __init__(self, shape=(2,)):
        super().__init__(ego_uid="ego", action_dim=shape[-1], root_seed=0, num_envs=shape[0] if len(shape) > 1 else 1)
        self.told = []
        self.updates_at = []

    def observe(self, obs, reward, done, *, truncated=False, final_obs=None):
        self.told.append((reward, done, truncated, final_obs))

    def update(self):
        self.updates_at.append(len(self.told))


def run(cfg, env, *, trainer=None, partner=None, **kwargs):
    made = trainer or Recorder()
    result = train(cfg, env=env, partner=partner or StillPartner(), trainer_factory=lambda *_, **__: made, **kwargs)
    return result, made


def steps_of(curve: RewardCurve) -> list[int]:
    return [int(path.stem.split("_step")[1]) for path in curve.checkpoint_paths]


# --- the random ego -----------------------------------------------------------------------------------------


def test_the_random_ego_draws_the_documented_actions():
    ego = RandomEgoTrainer(ego_uid="ego", action_dim=2, root_seed=0)
    action = ego.act({})
    assert action.dtype == np.float32
    np.testing.assert_array_equal(action, np.array([0.29777068, 0.18317541], dtype=np.float32))
    np.testing.assert_array_equal(ego.act({}, deterministic=True), np.zeros(2, dtype=np.float32))
    assert ego.state_dict() == {}


def test_a_run_without_a_factory_takes_the_width_of_the_environments_actions(tmp_path):
    env = ScriptedEnv()
    env.action_space = SimpleNamespace(spaces={"ego": SimpleNamespace(shape=(5,))})
    train(config(tmp_path), env=env, partner=StillPartner())
    assert {action["ego"].shape for action in env.actions} == {(5,)}


def test_a_run_without_a_factory_moves_every_copy(tmp_path):
    env = VectorWalks(4)
    cfg = config(tmp_path, env={"task": "mpe_cooperative_push", "num_envs": 4})
    _, trainer = train(cfg, env=env, partner=StillPartner(4, 2))
    assert trainer.act({}).shape == (4, 2)


# --- when things happen -------------------------------------------------------------------------------------


def test_one_copy_saves_and_updates_at_the_documented_steps_and_saves_the_final_policy(tmp_path):
    cfg = config(tmp_path, total_frames=100, checkpoint_every=30)
    (curve, trainer), _ = run(cfg, ScriptedEnv())
    assert steps_of(curve) == [30, 60, 90, 100]
    assert trainer.updates_at == [32, 64, 96]
    assert len(curve.per_step_ego_rewards) == 100
    assert [event["step"] for event in events_of(cfg, "rollout_update")] == [32, 64, 96]
    assert all(path.is_file() and path.is_absolute() for path in curve.checkpoint_paths)


def test_equal_seeds_give_equal_runs_wherever_they_are_recorded(tmp_path):
    curves = []
    for folder in ("a", "b"):
        cfg = config(tmp_path / folder, env={"task": "mpe_cooperative_push", "episode_length": 20})
        curves.append(
            train(cfg, env=planar_env(cfg), partner=StillPartner(), trainer_factory=NoisyLearner.from_config).curve
        )
    first, second = curves
    assert first.run_id == second.run_id
    assert first.per_step_ego_rewards == second.per_step_ego_rewards
    assert first.per_episode_ego_rewards == second.per_episode_ego_rewards
    assert len(first.per_episode_ego_rewards) == 5


@pytest.mark.parametrize(("checkpoint_every", "saved"), [(40, [40, 80, 96]), (30, [32, 64, 96])])
def test_several_copies_save_when_a_multiple_is_passed(tmp_path, checkpoint_every, saved):
    cfg = config(
        tmp_path, total_frames=100, checkpoint_every=checkpoint_every,
        env={"task": "mpe_cooperative_push", "num_envs": 8}, happo={"rollout_length": 4, "batch_size": 32},
    )  # fmt: skip
    env = VectorWalks(8)
    (curve, trainer), _ = run(cfg, env, trainer=Recorder((8, 2)), partner=StillPartner(8, 2))
    assert steps_of(curve) == saved
    assert len(curve.per_step_ego_rewards) == 12
    assert trainer.updates_at == [4, 8, 12]
    assert env.reset_seeds == [cfg.seed]
    assert [event["step"] for event in events_of(cfg, "rollout_update")] == [32, 64, 96]


def test_episodes_are_reset_with_the_seeds_their_numbers_name(tmp_path):
    cfg = config(tmp_path, total_frames=10, seed=5, checkpoint_every=10)
    env, partner = ScriptedEnv({3: "terminated", 7: "truncated"}), StillPartner()
    (curve, _), _ = run(cfg, env, partner=partner)
    named = [
        int(derive_substream(f"training.episode.{k}", root_seed=5).default_rng().integers(0, 2**31 - 1)) for k in (1, 2)
    ]
    assert env.reset_seeds == partner.reset_seeds == [5, *named]
    assert curve.per_episode_ego_rewards == [1 + 2 + 3, 4 + 5 + 6 + 7, 8 + 9 + 10]


def test_a_budget_that_ends_with_an_episode_adds_no_episode_and_no_reset(tmp_path):
    cfg = config(tmp_path, total_frames=100)
    env = ScriptedEnv({50: "truncated", 100: "truncated"})
    (curve, _), _ = run(cfg, env)
    assert len(curve.per_episode_ego_rewards) == 2
    assert len(env.reset_seeds) == 2
    (end,) = events_of(cfg, "training_end")
    assert (end["n_episodes"], end["n_partial_episodes"], end["n_checkpoints"]) == (2, 0, 4)


def test_an_episode_that_the_budget_cuts_is_the_last_entry(tmp_path):
    cfg = config(tmp_path, total_frames=10)
    (curve, _), _ = run(cfg, ScriptedEnv({8: "truncated"}))
    assert curve.per_episode_ego_rewards == [36.0, 19.0]
    assert events_of(cfg, "training_end")[0]["n_partial_episodes"] == 1


def test_copies_file_their_episodes_in_the_order_in_which_they_end(tmp_path):
    cfg = config(
        tmp_path,
        total_frames=24,
        env={"task": "mpe_cooperative_push", "num_envs": 3},
        happo={"rollout_length": 8, "batch_size": 24},
    )
    env = VectorWalks(3, limits=(4, 3, 4))
    (curve, trainer), _ = run(cfg, env, trainer=Recorder((3, 2)), partner=StillPartner(3, 2))
    rewards = np.array([told[0] for told in trainer.told])
    assert rewards.shape == (8, 3)
    expected = [
        rewards[:3, 1], rewards[:4, 0], rewards[:4, 2], rewards[3:6, 1], rewards[4:, 0], rewards[4:, 2], rewards[6:, 1],
    ]  # fmt: skip
    np.testing.assert_allclose(curve.per_episode_ego_rewards, [part.sum() for part in expected], rtol=1e-12)
    np.testing.assert_allclose(curve.per_step_ego_rewards, rewards.mean(axis=1), rtol=1e-12)
    assert [event["length"] for event in events_of(cfg, "episode_end")] == [3, 4, 4, 3, 4, 4]
    assert events_of(cfg, "training_end")[0]["n_partial_episodes"] == 1


def test_every_finished_episode_is_an_event(tmp_path):
    cfg = config(tmp_path, total_frames=10)
    run(cfg, ScriptedEnv({3: "terminated", 7: "truncated"}))
    told = [
        (event["step"], event["episode"], event["reward"], event["length"]) for event in events_of(cfg, "episode_end")
    ]
    assert told == [(3, 0, 6.0, 3), (7, 1, 22.0, 4)]


# --- what the trainer is told -------------------------------------------------------------------------------


def test_a_time_limit_is_told_apart_from_an_end_and_termination_beats_truncation(tmp_path):
    env = ScriptedEnv({2: "truncated", 4: "terminated", 6: "both"})
    _, trainer = run(config(tmp_path, total_frames=6), env)
    told = [(done, truncated) for _, done, truncated, _ in trainer.told]
    assert told == [(False, False), (True, True), (False, False), (True, False), (False, False), (True, False)]


def test_copies_are_told_with_vectors_and_the_final_observation(tmp_path):
    cfg = config(tmp_path, total_frames=30, env={"task": "mpe_cooperative_push", "num_envs": 2})
    _, trainer = run(cfg, VectorWalks(2, limits=(5, 7)), trainer=Recorder((2, 2)), partner=StillPartner(2, 2))
    reward, done, truncated, final_obs = trainer.told[4]
    assert reward.shape == (2,)
    assert reward.dtype == np.float64
    assert done.tolist() == truncated.tolist() == [True, False]
    assert final_obs["agent"]["ego"]["state"].shape == (2, 2)
    assert trainer.told[0][3] is None


def test_termination_beats_truncation_in_every_copy(tmp_path):
    class BothWays(VectorWalks):
        def step(self, action):
            obs, reward, _, _, info = super().step(action)
            return obs, torch.tensor(reward), torch.tensor([True, False]), torch.tensor([True, True]), info

    cfg = config(
        tmp_path,
        total_frames=2,
        env={"task": "mpe_cooperative_push", "num_envs": 2},
        happo={"rollout_length": 1, "batch_size": 2},
    )
    _, trainer = run(cfg, BothWays(2), trainer=Recorder((2, 2)), partner=StillPartner(2, 2))
    ((_, done, truncated, _),) = trainer.told
    assert done.tolist() == [True, True]
    assert truncated.tolist() == [False, True]


@pytest.mark.parametrize(
    "reward_of", [np.float32, lambda n: torch.tensor([float(n)]), lambda n: np.array([n]), torch.tensor]
)
def test_rewards_are_plain_floats_whatever_the_environment_gives(tmp_path, reward_of):
    cfg = config(tmp_path, total_frames=40)
    (curve, trainer), _ = run(cfg, ScriptedEnv({20: "truncated"}, reward_of=reward_of))
    assert list(curve.per_step_ego_rewards) == [float(n) for n in range(1, 41)]
    assert {type(told[0]) for told in trainer.told} == {float}
    assert {type(reward) for reward in curve.per_episode_ego_rewards} == {float}
    assert events_of(cfg, "rollout_update")[0]["last_reward"] == 32.0


def test_rewards_of_several_copies_in_a_run_of_one_are_refused(tmp_path):
    cfg = config(tmp_path)
    with pytest.raises(ValueError, match=r"reward must be a single value .* shape \(2,\)"):
        run(cfg, ScriptedEnv(reward_of=lambda _: np.zeros(2)))
    assert events_of(cfg)[-1]["event"] == "training_aborted"


def test_the_executed_action_is_told_to_trainers_that_want_it(tmp_path):
    class Curious(Recorder):
        def observe(self, obs, reward, done, *, truncated=False, final_obs=None, executed_action=None):
            self.told.append(executed_action)

    env = ScriptedEnv()
    _, trainer = run(config(tmp_path), env, trainer=Curious())
    assert all(told is action["ego"] for told, action in zip(trainer.told, env.actions, strict=True))


def test_a_factory_gets_the_logger_only_if_it_has_a_parameter_for_it(tmp_path):
    seen = {}

    def without(cfg, *, env, partner, ego_uid):
        seen["without"] = ego_uid
        return Recorder()

    def with_logger(cfg, *, env, partner, ego_uid, logger=None):
        seen["logger"] = logger
        return Recorder()

    train(config(tmp_path / "a"), env=ScriptedEnv(), partner=StillPartner(), trainer_factory=without)
    train(config(tmp_path / "b"), env=ScriptedEnv(), partner=StillPartner(), trainer_factory=with_logger)
    assert seen["without"] == "ego"
    assert seen["logger"] is not None


# --- what is written ----------------------------------------------------------------------------------------


def test_the_events_of_a_run_come_in_the_documented_order(tmp_path):
    cfg = config(tmp_path, total_frames=64, checkpoint_every=64)
    run(cfg, ScriptedEnv({32: "truncated", 64: "truncated"}))
    assert [event["event"] for event in events_of(cfg)] == [
        "training_start",
        "episode_end", "rollout_update", "scalar",
        "episode_end", "rollout_update", "scalar", "checkpoint_saved",
        "eval", "safety_telemetry_final", "training_end",
    ]  # fmt: skip
    start = events_of(cfg, "training_start")[0]
    assert (start["total_frames"], start["checkpoint_every"]) == (64, 64)
    assert (start["task"], start["partner_class"]) == ("mpe_cooperative_push", "scripted_heuristic")
    assert len(start["config_hash"]) == 16
    assert {"exploratory_partner_static", "mask_partner_obs"}.isdisjoint(start)


def test_every_line_says_so_when_the_ego_does_not_see_its_partner(tmp_path):
    env = {"task": "cocarry", "condition_id": "cocarry_matched_panda_pair", "mask_partner_obs": True}
    cfg = config(tmp_path, total_frames=8, env=env)
    run(cfg, ScriptedEnv())
    assert {event["mask_partner_obs"] for event in events_of(cfg)} == {"true"}


def test_a_run_without_safety_says_so_and_passes_the_gate(tmp_path):
    for number, n_envs in enumerate((1, 2)):
        cfg = config(tmp_path / str(number), env={"task": "mpe_cooperative_push", "num_envs": n_envs})
        env = ScriptedEnv() if n_envs == 1 else VectorWalks(2)
        shape = (2,) if n_envs == 1 else (2, 2)
        result, _ = run(cfg, env, trainer=Recorder(shape), partner=StillPartner(*shape))
        (final,) = events_of(cfg, "safety_telemetry_final")
        assert final["safety_enabled"] is False
        assert final["n_filter_calls"] == 0
        assert result.context.safety_telemetry["safety_enabled"] is False
        (path,) = cfg.log_dir.glob("*.jsonl")
        assert audit_gate(path).exit_code is AuditExit.PASSED


def test_a_result_is_a_pair_and_knows_its_run(tmp_path):
    cfg = config(tmp_path)
    result, trainer = run(cfg, ScriptedEnv())
    curve, learner = result
    assert curve is result.curve
    assert learner is result.trainer is trainer
    assert result.context.run_id == curve.run_id == events_of(cfg)[0]["run_id"]


def test_a_result_can_be_made_by_hand_copied_and_sent_to_another_process(tmp_path):
    curve, trainer = RewardCurve("0" * 16), RandomEgoTrainer(ego_uid="ego", action_dim=2, root_seed=0)
    by_hand = TrainingResult(curve, trainer)
    assert tuple(by_hand) == (curve, trainer)
    assert by_hand.context is None
    result, _ = run(config(tmp_path), ScriptedEnv())
    for twin in (copy.copy(result), pickle.loads(pickle.dumps(result))):
        assert type(twin) is TrainingResult
        assert twin.curve == result.curve
        assert twin.context == result.context


def test_gripper_scalars_are_for_environments_with_a_gripper(tmp_path):
    flags = {n: {"is_grasped": n > 16, "is_obj_placed": torch.tensor([1.0]), "success": "?"} for n in range(1, 33)}
    reporting, declaring = ScriptedEnv(infos=flags), ScriptedEnv()
    declaring.gripper_index = 0
    scalars = []
    for number, env in enumerate((ScriptedEnv(), reporting, declaring)):
        cfg = config(tmp_path / str(number), total_frames=32)
        run(cfg, env)
        (event,) = events_of(cfg, "scalar")
        scalars.append(event)
        assert event["mean_reward"] == 16.5
        assert event["metric_namespace"] == "rollout"
    plain, staged, declared = scalars
    assert not {"gripper_cmd_mean", "grasp_rate", "success_rate"} & plain.keys()
    assert (staged["grasp_rate"], staged["place_rate"]) == (0.5, 1.0)
    assert (staged["static_rate"], staged["success_rate"]) == (0.0, 0.0)  # missing, and unreadable
    last = [action["ego"][-1] for action in reporting.actions]
    assert staged["gripper_cmd_mean"] == pytest.approx(np.mean(last), abs=1e-6)
    assert staged["gripper_cmd_min"] == min(last)
    assert declared["gripper_cmd_min"] == min(action["ego"][0] for action in declaring.actions)
    assert "grasp_rate" not in declared


def test_an_error_of_the_environment_is_the_last_line_of_a_closed_log(tmp_path):
    def broken(n):
        raise OSError("the arm is on fire")

    cfg, env = config(tmp_path), ScriptedEnv(reward_of=broken)
    with pytest.raises(OSError, match="on fire"):
        run(cfg, env)
    last = events_of(cfg)[-1]
    assert (last["event"], last["level"]) == ("training_aborted", "error")
    assert (last["error"], last["message"]) == ("OSError", "the arm is on fire")
    assert not env.is_closed
    with pytest.warns(UserWarning, match="earlier run"):  # which nobody holds open any more
        run(cfg, ScriptedEnv())


def test_a_trainer_that_cannot_be_built_aborts_the_run(tmp_path):
    def refuse(cfg, **_):
        raise ValueError("the partner is not frozen")

    cfg = config(tmp_path)
    with pytest.raises(ValueError, match="not frozen"):
        train(cfg, env=ScriptedEnv(), partner=StillPartner(), trainer_factory=refuse)
    assert [event["event"] for event in events_of(cfg)] == ["training_start", "training_aborted"]


def test_the_final_event_of_results_is_an_evaluation(tmp_path):
    cfg = config(tmp_path / "own", total_frames=100, env={"task": "mpe_cooperative_push", "episode_length": 10})
    ends = {n: "truncated" if n % 20 else "terminated" for n in range(10, 101, 10)}
    run(cfg, ScriptedEnv(ends, infos={n: {"success": n > 50} for n in range(1, 101)}))
    (line,) = events_of(cfg, "eval")
    assert line["condition"] == "training_last_10_episodes"
    assert line["mean_episode_length"] == 10.0
    assert line["mean_episode_reward"] == 505.0
    assert (line["n_terminated"], line["n_truncated"], line["success_rate"]) == (5, 5, 0.5)

    cfg = config(tmp_path / "given")
    run(cfg, ScriptedEnv(), evaluate=lambda _: {"mean_episode_reward": 7.0})
    (line,) = events_of(cfg, "eval")
    assert (line["condition"], line["mean_episode_reward"], line["step"]) == ("mpe_cooperative_push", 7.0, 100)


def test_recordings_are_asked_for_at_their_interval_when_they_are_enabled(tmp_path):
    asked = []
    on = {"enabled": True, "interval_frames": 40}
    for folder, settings in (("off", {}), ("on", on)):
        run(
            config(tmp_path / folder, rollout_recorder=settings), ScriptedEnv(),
            record_rollout=lambda _, frames: asked.append(frames),
        )  # fmt: skip
    assert asked == [40, 80]


def test_progress_is_reported_and_ends_with_everything(tmp_path):
    reports: list[TrainingProgress] = []
    run(config(tmp_path), ScriptedEnv(dict.fromkeys(range(5, 100, 5), "truncated")), progress=reports.append)
    last = reports[-1]
    assert (last.frames, last.total_frames, last.episodes) == (100, 100, 19)
    assert last.mean_reward_last_10 == np.mean([5 * n + 15 for n in range(45, 95, 5)])
    assert last.frames_per_second > 0
    assert len(reports) < 50


def test_a_copy_in_weights_and_biases_changes_nothing(tmp_path, monkeypatch):
    logged, finished = [], []
    fake_run = SimpleNamespace(
        log=lambda data, step=None: logged.append((data["event"], step)),
        config=SimpleNamespace(update=lambda _: None),
        finish=lambda: finished.append(True),
    )
    given = {}
    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(init=lambda **kwargs: given.update(kwargs) or fake_run))
    monkeypatch.setenv("WANDB_MODE", "offline")
    curves = []
    for enabled in (False, True):
        cfg = config(tmp_path / str(enabled), wandb={"enabled": enabled})
        result = train(
            cfg, env=planar_env(cfg), partner=StillPartner(), trainer_factory=NoisyLearner.from_config,
            wandb_tags=("stage:0",),
        )  # fmt: skip
        curves.append(result.curve)
    assert curves[0].run_id == curves[1].run_id
    assert curves[0].per_step_ego_rewards == curves[1].per_step_ego_rewards
    assert [name for name, _ in logged] == [event["event"] for event in events_of(cfg)]
    assert ("rollout_update", 32) in logged
    assert given["tags"] == ("stage:0",)
    assert given["config"]["config"]["total_frames"] == 100
    assert finished == [True]


# --- the curve ----------------------------------------------------------------------------------------------


def test_a_reward_series_is_a_list_of_floats_in_one_block():
    from concerto.training.protocols import RewardSeries

    series = RewardSeries([1, 2.5])
    series.append(np.float32(4))
    series.extend([5.0])
    assert series == [1.0, 2.5, 4.0, 5.0]
    assert series != [1.0]
    assert list(series[1:]) == [2.5, 4.0, 5.0]
    assert series == RewardSeries(series)
    array = np.asarray(series)
    series.append(6.0)  # which a view of its memory would forbid
    assert array.tolist() == [1.0, 2.5, 4.0, 5.0]
    series[0] = 9.0
    series[1:3] = [7.0]
    del series[-1]
    series.insert(0, 3.0)
    assert repr(series) == "RewardSeries([3.0, 9.0, 7.0, 5.0])"
    with pytest.raises(ValueError, match="always a copy"):
        np.asarray(series, copy=False)


def test_a_curve_can_be_made_by_hand():
    curve = RewardCurve("0" * 16, [1.0], [2.0])
    curve.per_step_ego_rewards.append(3.0)
    assert RewardCurve("0" * 16) == RewardCurve("0" * 16)
    assert curve.per_step_ego_rewards == [1.0, 3.0]
