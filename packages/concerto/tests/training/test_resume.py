"""A resumed run is the run: same curve, same later checkpoints, same parameters, whatever it was interrupted by."""

from __future__ import annotations

import math
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

sys.path.append(str(Path(__file__).parent / "loop_parts"))

import resumable_run
from loop_parts import (
    MoodyPartner,
    NoisyLearner,
    ResumableVectorWalks,
    ScriptedEnv,
    StillPartner,
    VectorWalks,
    config,
    events_of,
    planar_env,
    planar_stack_driver,
)

from chamber.benchmarks.ego_ppo_trainer import EgoPPOTrainer
from concerto.training._resuming import observation_sha256
from concerto.training.checkpoints import CheckpointError, load_checkpoint_file, save_checkpoint
from concerto.training.ego_aht import RandomEgoTrainer, TrainingInterrupted, train
from concerto.training.logging import RunContext

SCRIPT = Path(resumable_run.__file__)


def planar_config(folder: Path, *, safety: bool = True, **changes):
    parts = {
        "seed": 3,
        "total_frames": 280,
        "checkpoint_every": 37,  # seldom the end of an episode (50) or of a rollout (64)
        "happo": {"rollout_length": 64, "batch_size": 32, "n_epochs": 2, "hidden_dim": 16},
        "runtime": {"device": "cpu"},
        "safety": {"enabled": safety},
    }
    return config(folder, **{**parts, **changes})


def run(cfg, *, factory=EgoPPOTrainer.from_config, partner=MoodyPartner, env=None, **kwargs):
    return train(
        cfg,
        env=env or planar_env(cfg),
        partner=partner(),
        trainer_factory=factory,
        safety_builder=planar_stack_driver if cfg.safety.enabled else None,
        # No repository, whose commit could change while the tests run.
        **{"repo_root": cfg.artifacts_root, **kwargs},
    )


def assert_same_tensors(first: object, second: object, place: str = "") -> None:
    """Nested dictionaries must have the same keys, types, shapes and bits."""
    assert type(first) is type(second), place
    if isinstance(first, dict):
        assert first.keys() == second.keys(), place
        for key, value in first.items():
            assert_same_tensors(value, second[key], f"{place}.{key}")
    elif isinstance(first, torch.Tensor):
        assert first.dtype == second.dtype, place
        assert first.shape == second.shape, place
        assert first.numpy().tobytes() == second.numpy().tobytes(), place
    elif isinstance(first, float):
        assert np.float64(first).tobytes() == np.float64(second).tobytes(), place
    else:
        assert first == second, place


def assert_same_run(whole, resumed) -> None:
    """Curves, files of checkpoints, the telemetry and the parameters must be the same bits."""
    assert resumed.curve.run_id == whole.curve.run_id
    assert np.asarray(resumed.curve.per_step_ego_rewards).tobytes() == (
        np.asarray(whole.curve.per_step_ego_rewards).tobytes()
    )
    assert resumed.curve.per_episode_ego_rewards == whole.curve.per_episode_ego_rewards
    names = [path.name for path in whole.curve.checkpoint_paths]
    assert [path.name for path in resumed.curve.checkpoint_paths] == names
    assert resumed.context.safety_telemetry == whole.context.safety_telemetry
    assert_same_tensors(resumed.trainer.state_dict(), whole.trainer.state_dict())
    for path, other in zip(whole.curve.checkpoint_paths, resumed.curve.checkpoint_paths, strict=True):
        if other.exists():  # those before the interruption may lie elsewhere
            assert_same_tensors(load_checkpoint_file(path)[0], load_checkpoint_file(other)[0], path.name)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """An uninterrupted run with the safety stack, and its configuration."""
    cfg = planar_config(tmp_path_factory.mktemp("whole"))
    return cfg, run(cfg)


def elsewhere(cfg, tmp_path):
    """The same run, recorded in another folder."""
    return cfg.model_copy(update={"log_dir": tmp_path / "logs", "artifacts_root": tmp_path})


slow = pytest.mark.slow


# --- one copy -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("index", [0, 4, 7, *(pytest.param(index, marks=slow) for index in (1, 2, 3, 5, 6))])
def test_a_run_goes_on_from_every_checkpoint_as_if_it_had_never_stopped(whole, tmp_path, index):
    first_cfg, first = whole
    cfg = elsewhere(first_cfg, tmp_path)
    start = first.curve.checkpoint_paths[index]
    resumed = run(cfg, resume_from=start)
    assert_same_run(first, resumed)
    later = first.curve.checkpoint_paths[index + 1 :]
    assert sorted(path.name for path in tmp_path.glob("artifacts/*.pt")) == sorted(path.name for path in later)
    (event,) = events_of(cfg, "training_resumed")
    assert event["step"] == load_checkpoint_file(start)[1].step
    assert event["checkpoint_sha256"] == load_checkpoint_file(start)[1].sha256


def test_the_run_under_test_learns_and_the_stack_interferes(whole):
    _, first = whole
    start, end = (load_checkpoint_file(path)[0] for path in first.curve.checkpoint_paths[::7])
    assert any(not torch.equal(start["actor"][name], end["actor"][name]) for name in start["actor"])
    assert first.context.safety_telemetry["n_braking_fires"] > 0
    assert first.context.safety_telemetry["lambda_mean"] != 0.0


def test_the_events_after_the_checkpoint_are_those_of_the_whole_run(whole, tmp_path):
    first_cfg, first = whole
    cfg = elsewhere(first_cfg, tmp_path)
    run(cfg, resume_from=first.curve.checkpoint_paths[3])
    step = 4 * 37

    def comparable(events):
        unequal = {"wall_time", "path"}
        return [{key: value for key, value in event.items() if key not in unequal} for event in events]

    after = [event for event in events_of(first_cfg) if event.get("step", step + 1) > step]
    after = [event for event in after if event["event"] != "training_start"]
    assert comparable(events_of(cfg)[1:]) == comparable(after)


@pytest.mark.parametrize("stop_at", [0, 50, 64, 123, 148, *(pytest.param(at, marks=slow) for at in (1, 100, 279))])
def test_a_run_that_is_asked_to_stop_saves_itself_and_goes_on(whole, tmp_path, stop_at):
    first_cfg, first = whole
    cfg = elsewhere(first_cfg, tmp_path)
    asked = iter(range(10**6))
    with pytest.raises(TrainingInterrupted) as interruption:
        run(cfg, should_stop=lambda: next(asked) == stop_at)
    path = interruption.value.checkpoint_path
    assert path.name.endswith(f"_step{stop_at}.pt")
    last = events_of(cfg)[-1]
    assert (last["event"], last["step"], last["path"]) == ("training_interrupted", stop_at, str(path))
    resumed = run(cfg, resume_from=path)
    assert_same_run(first, resumed)
    assert all(path.exists() for path in resumed.curve.checkpoint_paths)
    names = [event["event"] for event in events_of(cfg)]
    assert names.count("training_start") == names.count("training_resumed") == names.count("training_end") == 1


def test_a_run_that_stops_where_it_was_resumed_leaves_a_checkpoint_in_its_own_folder(whole, tmp_path):
    first_cfg, first = whole
    cfg = elsewhere(first_cfg, tmp_path)
    with pytest.raises(TrainingInterrupted) as interruption:
        run(cfg, resume_from=first.curve.checkpoint_paths[1], should_stop=lambda: True)
    path = interruption.value.checkpoint_path
    assert path.parent == tmp_path / "artifacts"
    assert_same_run(first, run(cfg, resume_from=path))


def test_a_run_can_be_interrupted_again_and_again(whole, tmp_path):
    first_cfg, first = whole
    cfg = elsewhere(first_cfg, tmp_path)
    path, resumed = None, None
    while resumed is None:
        asked = iter(range(10**6))
        try:
            resumed = run(cfg, resume_from=path, should_stop=lambda: next(asked) == 61)  # noqa: B023
        except TrainingInterrupted as interruption:
            path = interruption.checkpoint_path
    assert_same_run(first, resumed)
    assert len(events_of(cfg, "training_resumed")) == 4


def kill_after_checkpoints(folder: Path, n_checkpoints: int) -> Path:
    """Start a run in another process, kill it when it has saved enough, and give its last checkpoint."""
    command = [sys.executable, str(SCRIPT), str(folder)]
    process = subprocess.Popen(command, env={**os.environ, "OMP_NUM_THREADS": "1"})
    try:
        while len(list(folder.glob("artifacts/*.pt.json"))) < n_checkpoints:
            assert process.poll() is None, "the run ended before it could be killed"
            time.sleep(0.005)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    return max(folder.glob("artifacts/*_step*.pt"), key=lambda path: int(path.stem.split("_step")[1]))


def test_a_killed_run_goes_on_from_its_last_checkpoint(tmp_path):
    folder = tmp_path / "killed"
    cfg = resumable_run.killable_config(folder)
    last = kill_after_checkpoints(folder, 3)
    assert "training_end" not in next(cfg.log_dir.glob("*.jsonl")).read_text()
    n_frames = load_checkpoint_file(last)[1].step
    assert 3 * 37 <= n_frames < cfg.total_frames

    stopped_at = n_frames + 100

    def stop_after(n):
        asked = iter(range(10**6))
        return lambda: next(asked) == n

    with pytest.raises(TrainingInterrupted) as resumed:
        resumable_run.run(cfg, resume_from=last, should_stop=stop_after(100))
    whole_cfg = resumable_run.killable_config(tmp_path / "whole")
    with pytest.raises(TrainingInterrupted) as whole:
        resumable_run.run(whole_cfg, should_stop=stop_after(stopped_at))
    paths = [interruption.value.checkpoint_path for interruption in (resumed, whole)]
    assert {path.name for path in paths} == {f"{paths[0].stem.split('_')[0]}_step{stopped_at}.pt"}
    # The checkpoint holds the whole curve, the parameters, the optimisers, the rollout and every generator.
    assert_same_tensors(*(load_checkpoint_file(path)[0] for path in paths))


@pytest.mark.slow
@pytest.mark.parametrize("n_checkpoints", [1, 12, 40])
def test_a_run_killed_anywhere_ends_as_if_it_had_never_been(tmp_path, n_checkpoints):
    folder = tmp_path / "killed"
    last = kill_after_checkpoints(folder, n_checkpoints)
    resumed = resumable_run.run(resumable_run.killable_config(folder), resume_from=last)
    whole = resumable_run.run(resumable_run.killable_config(tmp_path / "whole"))
    assert_same_run(whole, resumed)
    assert all(path.exists() for path in resumed.curve.checkpoint_paths)


class OneBufferEgo(RandomEgoTrainer):
    """Gives all its actions in the same array."""

    def __init__(self):
        super().__init__(ego_uid="ego", action_dim=2, root_seed=0)
        self.action = np.zeros(2, dtype=np.float32)

    def act(self, obs, *, deterministic=False):
        self.action[:] = super().act(obs, deterministic=deterministic)
        return self.action


@pytest.mark.parametrize(
    "factory",
    [EgoPPOTrainer.from_config, NoisyLearner.from_config, None, lambda *_, **__: OneBufferEgo()],
    ids=["ppo", "noisy", "random", "one_buffer"],
)
def test_every_trainer_goes_on_without_a_stack_too(tmp_path, factory):
    cfg = planar_config(tmp_path / "whole", safety=False)
    first = run(cfg, factory=factory)
    again = planar_config(tmp_path / "again", safety=False)
    assert_same_run(first, run(again, factory=factory, resume_from=first.curve.checkpoint_paths[2]))


@pytest.mark.parametrize("reward_of", [lambda n: [float(n)], lambda n: torch.tensor([float(n)], requires_grad=True)])
def test_a_reward_of_any_form_that_a_run_takes_can_be_played_again(tmp_path, reward_of):
    class Counting(ScriptedEnv):
        def reset(self, *, seed=None, options=None):
            self.n_steps = 0
            return super().reset(seed=seed)

    first = run(
        planar_config(tmp_path, safety=False), factory=None, partner=StillPartner, env=Counting(reward_of=reward_of)
    )
    again = run(
        planar_config(tmp_path / "again", safety=False), factory=None, partner=StillPartner,
        env=Counting(reward_of=reward_of), resume_from=first.curve.checkpoint_paths[0],
    )  # fmt: skip
    assert_same_run(first, again)


# --- several copies -----------------------------------------------------------------------------------------


def vector_config(folder: Path):
    return config(
        folder, total_frames=400, checkpoint_every=52, env={"task": "mpe_cooperative_push", "num_envs": 4},
        happo={"rollout_length": 16, "batch_size": 32},
    )  # fmt: skip


def run_copies(cfg, env=None, **kwargs):
    return train(
        cfg, env=env or ResumableVectorWalks(4), partner=StillPartner(4, 2),
        trainer_factory=NoisyLearner.from_config, repo_root=cfg.artifacts_root, **kwargs,
    )  # fmt: skip


@pytest.mark.parametrize("index", [0, 4, 7])
def test_several_copies_go_on_from_every_checkpoint(tmp_path, index):
    first = run_copies(vector_config(tmp_path / "whole"))
    assert len(first.curve.checkpoint_paths) == 8
    cfg = vector_config(tmp_path / "again")
    env = ResumableVectorWalks(4)
    assert_same_run(first, run_copies(cfg, env, resume_from=first.curve.checkpoint_paths[index]))


def test_copies_that_cannot_save_themselves_train_but_cannot_be_resumed(tmp_path):
    cfg = vector_config(tmp_path)
    first = run_copies(cfg, VectorWalks(4))
    with pytest.raises(CheckpointError, match="trainer or its environment cannot be resumed"):
        run_copies(cfg, VectorWalks(4), resume_from=first.curve.checkpoint_paths[0])


def test_a_run_that_cannot_go_on_says_so_when_it_is_stopped(tmp_path):
    asked = iter(range(10**6))
    with pytest.raises(TrainingInterrupted, match="cannot save itself, so it ends here") as stopped:
        run_copies(vector_config(tmp_path / "a"), VectorWalks(4), should_stop=lambda: next(asked) == 20)
    assert not stopped.value.can_resume
    assert "policy" in load_checkpoint_file(stopped.value.checkpoint_path)[0]
    with pytest.raises(TrainingInterrupted, match="it can be resumed from") as stopped:
        run_copies(vector_config(tmp_path / "b"), should_stop=lambda: True)
    assert stopped.value.can_resume


def test_a_saved_run_of_copies_needs_copies_that_can_load(tmp_path):
    first = run_copies(vector_config(tmp_path / "a"))
    cfg = vector_config(tmp_path / "b")
    with pytest.raises(CheckpointError, match=r"VectorWalks cannot be resumed: .* save_training_state"):
        run_copies(cfg, VectorWalks(4), resume_from=first.curve.checkpoint_paths[0])


# --- refusals -----------------------------------------------------------------------------------------------


def test_another_configuration_is_refused_before_anything_is_opened(whole, tmp_path):
    _, first = whole
    cfg = planar_config(tmp_path, seed=4)
    with pytest.raises(CheckpointError, match="another configuration"):
        run(cfg, resume_from=first.curve.checkpoint_paths[0])
    assert not cfg.log_dir.exists()


def test_another_partner_is_noticed(whole, tmp_path):
    first_cfg, first = whole
    cfg = elsewhere(first_cfg, tmp_path)
    with pytest.raises(CheckpointError, match="gave other rewards"):
        run(cfg, partner=StillPartner, resume_from=first.curve.checkpoint_paths[0])
    assert events_of(cfg)[-1]["event"] == "training_aborted"


def test_another_environment_is_noticed(whole, tmp_path):
    first_cfg, first = whole
    cfg = elsewhere(first_cfg, tmp_path)
    other = planar_env(cfg.model_copy(update={"seed": 9}))
    with pytest.raises(CheckpointError, match="not what they were"):
        run(cfg, env=other, resume_from=first.curve.checkpoint_paths[0])


def test_a_refused_resumption_takes_nothing_back_from_the_log(whole, tmp_path):
    cfg = elsewhere(whole[0], tmp_path)
    first = run(cfg)
    with pytest.raises(CheckpointError, match="played again"):
        run(cfg, partner=StillPartner, resume_from=first.curve.checkpoint_paths[0])
    # A reader leaves out what lies between the step of this event and where it stands.
    assert events_of(cfg, "training_resumed") == []
    assert len(events_of(cfg, "training_end")) == 1


def _without(key):
    return lambda part: part.pop(key)


def _with(key, value):
    return lambda part: part.update({key: value})


def _all_nan(key):
    return lambda part: part.update({key: torch.full_like(part[key], math.nan)})


@pytest.mark.parametrize(
    ("place", "change"),
    [
        ("", _without("loop")),
        ("", _with("loop", 3)),
        ("", _with("trainer", None)),
        ("loop", _without("config_hash")),
        ("loop", _with("frames", 10**30)),
        ("loop", _with("frames", math.nan)),
        ("loop", _with("curve", "x")),
        ("loop", _with("telemetry", [1, 2])),
        ("loop.episode", _without("seed")),
        ("loop.episode", _with("seed", math.nan)),
        ("loop.episode", _with("has_ended", "x")),
        ("loop.episode", _with("nominal_actions", None)),
        ("trainer", _with("noise_generator", torch.zeros(0))),
        ("trainer", _with("minibatch_generator", "no JSON")),
        ("trainer.rollout", dict.clear),
        ("trainer.rollout", _all_nan("obs")),
        ("trainer.rollout", _all_nan("rewards")),
        ("loop", _without("observation_sha256")),
        ("loop.window", _with("reward_sum", "x")),
        ("loop.window", _with("stage_sums", {})),
        ("loop.episode", _all_nan("nominal_actions")),
    ],
)
def test_a_state_of_another_form_is_refused(whole, tmp_path, place, change):
    payload, metadata = load_checkpoint_file(whole[1].curve.checkpoint_paths[0])
    part = payload["resume"]
    for name in filter(None, place.split(".")):
        part = part[name]
    change(part)
    path = save_checkpoint(state_dict=payload, uri="local://forged.pt", metadata=metadata, artifacts_root=tmp_path)
    with pytest.raises(CheckpointError, match=re.escape(str(path))):
        run(elsewhere(whole[0], tmp_path), resume_from=path)


def test_a_policy_without_its_run_and_a_trainer_without_memory_are_refused(whole, tmp_path):
    class Plain:
        """Has only what a trainer must have."""

        def __init__(self):
            self._ego = RandomEgoTrainer(ego_uid="ego", action_dim=2, root_seed=0)
            self.act, self.observe = self._ego.act, self._ego.observe
            self.update, self.state_dict = self._ego.update, self._ego.state_dict

    first_cfg, first = whole
    cfg = elsewhere(first_cfg, tmp_path)
    with pytest.raises(CheckpointError, match="Plain cannot be resumed"):
        run(cfg, factory=lambda *_, **__: Plain(), resume_from=first.curve.checkpoint_paths[0])
    with pytest.warns(UserWarning, match="earlier run"):
        policy = run(cfg, factory=lambda *_, **__: Plain()).curve.checkpoint_paths[0]
    with pytest.raises(CheckpointError, match="holds a policy but not the state of its run"):
        run(cfg, resume_from=policy)
    assert "resume" not in load_checkpoint_file(policy)[0]


def test_a_run_keeps_its_name_and_its_commit_when_it_goes_on_elsewhere(whole, tmp_path):
    first_cfg, first = whole
    cfg = elsewhere(first_cfg, tmp_path)
    (tmp_path / "pyproject.toml").write_text("[project]\n")
    with pytest.warns(UserWarning, match="began at commit unknown and goes on at"):
        resumed = run(cfg, resume_from=first.curve.checkpoint_paths[-1], repo_root=tmp_path)
    assert isinstance(resumed.context, RunContext)
    assert resumed.context.run_id == first.context.run_id
    assert resumed.context.git_sha == first.context.git_sha
    (event,) = events_of(cfg, "training_resumed")
    assert event["pyproject_hash"] == first.context.pyproject_hash != event["resumed_pyproject_hash"]


# --- the digest of an observation ---------------------------------------------------------------------------


def test_equal_observations_have_equal_digests_and_others_do_not():
    state = np.arange(6, dtype=np.float32).reshape(2, 3)
    obs = {"a": {"x": state, "y": 1.0}, "b": [None, "text", torch.tensor([1, 2])]}
    same = {"b": [None, "text", torch.tensor([1, 2])], "a": {"y": 1.0, "x": np.asfortranarray(state)}}
    assert observation_sha256(obs) == observation_sha256(same)
    others = [
        {**obs, "a": {"x": state, "y": 1}},
        {**obs, "a": {"x": state.astype(np.float64), "y": 1.0}},
        {**obs, "a": {"x": state.reshape(3, 2), "y": 1.0}},
        {**obs, "b": [None, "text", torch.tensor([1, 3])]},
        {**obs, "b": [None, "text"]},
        {**obs, "c": None},
    ]
    nearby = state.copy()
    nearby[1, 2] = np.nextafter(nearby[1, 2], np.float32(9))
    others.append({**obs, "a": {"x": nearby, "y": 1.0}})
    assert len({observation_sha256(other) for other in (obs, *others)}) == 8
