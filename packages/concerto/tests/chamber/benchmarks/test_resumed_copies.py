"""A training run with several copies of pick-and-place that is resumed is the run, to the last bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chamber.benchmarks import training_runner
from chamber.benchmarks.training_runner import build_env, run_training
from chamber.configs import shipped_config_path
from chamber.envs.action_repeat import PerAgentActionRepeatWrapper
from chamber.envs.stage1_pickplace import GOAL_THRESHOLD_M
from concerto.training._resuming import observation_sha256
from concerto.training.checkpoints import CheckpointError, load_checkpoint_file, save_checkpoint
from concerto.training.config import EgoAHTConfig, read_config
from concerto.training.ego_aht import TrainingInterrupted, TrainingResult

PLACED_AT_ONCE = 2127
"""With this seed copy 0 starts with its cube at the goal, and so does copy 1 in its third episode."""


def short_config(folder: Path, *, num_envs: int = 3, total_frames: int = 180, **changes: Any) -> EgoAHTConfig:
    """The shipped configuration with short episodes, whose checkpoints lie in episodes and in rollouts of 16 steps."""
    overrides = {
        "log_dir": folder / "logs",
        "artifacts_root": folder,
        "runtime.device": "cpu",
        "seed": PLACED_AT_ONCE,
        "total_frames": total_frames,
        "checkpoint_every": 40,
        "env.num_envs": num_envs,
        "env.episode_length": 17,
        "happo.rollout_length": 16,
        "happo.batch_size": 8 * num_envs,
        "happo.hidden_dim": 16,
        "happo.n_epochs": 2,
        **changes,
    }
    return read_config(
        shipped_config_path("stage1_pickplace"), [f"{name}={value}" for name, value in overrides.items()]
    )


def run(cfg: EgoAHTConfig, **kwargs: Any) -> TrainingResult:
    return run_training(cfg, repo_root=cfg.artifacts_root, **kwargs)  # no repository, whose commit could change


def assert_same_run(whole: TrainingResult, resumed: TrainingResult) -> None:
    """Curves, parameters, and every later checkpoint with all that is in it, must be the same bits."""
    assert np.asarray(resumed.curve.per_step_ego_rewards).tobytes() == (
        np.asarray(whole.curve.per_step_ego_rewards).tobytes()
    )
    assert resumed.curve.per_episode_ego_rewards == whole.curve.per_episode_ego_rewards
    assert observation_sha256(resumed.trainer.state_dict()) == observation_sha256(whole.trainer.state_dict())
    paths = [result.curve.checkpoint_paths for result in (whole, resumed)]
    assert [path.name for path in paths[0]] == [path.name for path in paths[1]]
    for path, other in zip(*paths, strict=True):
        if other.exists():  # those before the interruption lie elsewhere
            one, two = (observation_sha256(load_checkpoint_file(which)[0]) for which in (path, other))
            assert one == two, path.name


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> TrainingResult:
    return run(short_config(tmp_path_factory.mktemp("whole")))


def test_the_run_under_test_has_shaping_a_success_and_ends_of_episodes(whole: TrainingResult, tmp_path: Path):
    state = load_checkpoint_file(whole.curve.checkpoint_paths[2])[0]["resume"]["env"]
    assert len(set(state["elapsed_steps"].tolist())) > 1  # the success of copy 0 came before the others' horizon
    env: Any = build_env(short_config(tmp_path).env, root_seed=PLACED_AT_ONCE)
    offset = env.load_training_state(state)["extra"]["cube_to_goal_pos"]
    assert (np.linalg.norm(offset, axis=1) < GOAL_THRESHOLD_M).any()  # so that the arm's speed counts
    assert len(whole.curve.per_episode_ego_rewards) >= 9


@pytest.mark.parametrize("index", [2, *(pytest.param(index, marks=pytest.mark.slow) for index in (0, 1, 3))])
def test_copies_of_pick_and_place_go_on_from_a_checkpoint_as_if_nothing_had_been(
    whole: TrainingResult, index: int, tmp_path: Path
):
    resumed = run(short_config(tmp_path), resume_from=whole.curve.checkpoint_paths[index])
    assert_same_run(whole, resumed)
    later = whole.curve.checkpoint_paths[index + 1 :]
    assert sorted(path.name for path in tmp_path.glob("artifacts/*.pt")) == sorted(path.name for path in later)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("num_envs", "changes"),
    [(2, {}), (4, {"shaping.settle_alpha": 0.0}), (4, {"partner.extra.target_xy": "'1.0,0.5'"})],
)
def test_any_number_of_copies_goes_on_from_every_checkpoint(num_envs: int, changes: dict[str, Any], tmp_path: Path):
    sizes = {"num_envs": num_envs, "total_frames": 400, **changes}
    first = run(short_config(tmp_path / "whole", **sizes))
    assert len(first.curve.checkpoint_paths) == 10
    for path in first.curve.checkpoint_paths:
        assert_same_run(first, run(short_config(tmp_path / path.stem, **sizes), resume_from=path))


@pytest.mark.slow
def test_copies_that_are_interrupted_between_checkpoints_go_on(whole: TrainingResult, tmp_path: Path):
    cfg = short_config(tmp_path)
    path = None
    for _ in range(3):
        asked = iter(range(1000))
        with pytest.raises(TrainingInterrupted) as interruption:
            run(cfg, resume_from=path, should_stop=lambda: next(asked) == 13)  # noqa: B023
        path = interruption.value.checkpoint_path
    assert_same_run(whole, run(cfg, resume_from=path))


def test_a_state_that_the_environment_refuses_is_refused_in_one_line(whole: TrainingResult, tmp_path: Path):
    state, metadata = load_checkpoint_file(whole.curve.checkpoint_paths[0])
    state["resume"]["env"]["num_envs"] = 7
    forged = save_checkpoint(
        state_dict=state, uri="local://artifacts/forged.pt", metadata=metadata, artifacts_root=tmp_path
    )
    with pytest.raises(CheckpointError, match=r"refuses the state of the checkpoint: .* num_envs 7, this one has 3"):
        run(short_config(tmp_path), resume_from=forged)


def test_copies_in_a_wrapper_with_a_memory_train_but_cannot_be_resumed(
    whole: TrainingResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def repeating(env_cfg: Any, *, root_seed: int) -> Any:
        return PerAgentActionRepeatWrapper(build_env(env_cfg, root_seed=root_seed), {"panda_wristcam": 2})

    monkeypatch.setattr(training_runner, "build_env", repeating)
    cfg = short_config(tmp_path, total_frames=12, **{"shaping.settle_alpha": 0.0, "happo.rollout_length": 4})
    (path,) = run(cfg).curve.checkpoint_paths
    assert "resume" not in load_checkpoint_file(path)[0]
    with pytest.raises(CheckpointError, match="its trainer or its environment cannot be resumed"):
        run(cfg, resume_from=path)
