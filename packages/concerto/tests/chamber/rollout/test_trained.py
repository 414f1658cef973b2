"""A trained policy in a session: pinned by its hash, kept in the folder, replayed from there, watched and guarded."""

from __future__ import annotations

import json
import shutil
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from chamber.cell.contacts import closest_approach, find_contacts
from chamber.envs.cocarry_blind_mask import COCARRY_BLIND_MASK_START, COCARRY_BLIND_MASK_STOP
from chamber.envs.mpe_cooperative_push import MPECooperativePushEnv
from chamber.learning import load_policy
from chamber.rollout.config import PartnerChoice, SessionConfig, TrainedEgo, make_environment, make_team
from chamber.rollout.episode import Trajectory
from chamber.rollout.guard import Guard
from chamber.rollout.page import headline, render_session_page
from chamber.rollout.planar_guard import planar_stack
from chamber.rollout.replay import replay_session
from chamber.rollout.session import run_session, trajectory_name
from chamber.rollout.trained import TASKS_BY_WIDTHS, task_of_checkpoint, was_trained_blind
from concerto.safety.stack import SafetyStack
from ripieno.errors import InputError, IntegrityError
from ripieno.files import sha256_file
from ripieno.run import read_manifest
from ripieno.verify import verify


def trained(checkpoint: Path, *, partner: str = "push_pursuer", guard: Guard = Guard.WATCH, **changes) -> SessionConfig:
    policy = load_policy(checkpoint, ego_uid="ego")
    ego = TrainedEgo(checkpoint_sha256=policy.checkpoint_sha256, run_id=policy.run_id, step=policy.step)
    return SessionConfig.of(
        changes.pop("task", "mpe_cooperative_push"), episodes=2, ego=ego, partner=partner, guard=guard, **changes
    )


@pytest.fixture(scope="module")
def session(push_checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The policy beside a pursuer, without and with the stack, from the same starts."""
    folder = tmp_path_factory.mktemp("trained") / "run"
    rounds = {"watched": trained(push_checkpoint), "guarded": trained(push_checkpoint, guard=Guard.ON)}
    checkpoints = {sha256_file(push_checkpoint): push_checkpoint}
    result = run_session(rounds, folder, checkpoints=checkpoints, page=render_session_page)
    assert "guarded: 2 episodes" in headline(result.record)
    return folder


def test_the_folder_needs_nothing_else_to_be_replayed(session: Path, push_checkpoint: Path, tmp_path: Path):
    copy = shutil.copytree(session, tmp_path / "copy")
    digest = sha256_file(push_checkpoint)
    kept = copy / f"checkpoints/{digest[:16]}.pt"
    assert sha256_file(kept) == digest
    assert len(list((copy / "checkpoints").iterdir())) == 2, "two rounds with one policy share its copy and sidecar"
    assert read_manifest(copy)["config"]["rounds"][0]["ego"]["checkpoint_sha256"] == digest
    assert verify(copy).ok
    replay = replay_session(copy)
    assert replay.holds
    assert [episode.is_identical for episode in replay.episodes] == [True] * 4
    kept.write_bytes(kept.read_bytes()[:-1] + b"x")
    with pytest.raises(IntegrityError, match="does not verify"):
        replay_session(copy)


def test_contacts_are_those_of_the_judge_and_with_the_stack_none_is_the_egos_fault(session: Path):
    events = json.loads((session / "episodes.json").read_text())
    faults = {"watched": 0, "guarded": 0}
    for name, episodes in events.items():
        for episode in episodes:
            data = (session / trajectory_name(name, episode["episode_idx"])).read_bytes()
            states = Trajectory.from_bytes(data).arrays
            ego, partner = (states[f"obs/agent/{uid}/state"][:, :2].astype(float) for uid in ("ego", "partner"))
            contacts = find_contacts(ego, partner, safety_distance_m=0.2)
            assert episode["metrics"]["contacts"] == len(contacts)
            assert episode["metrics"]["contacts_at_fault"] <= len(contacts)
            gap = closest_approach(ego, partner).distance_m - 0.2
            assert episode["metrics"]["smallest_gap_m"] == pytest.approx(gap, abs=1e-5)
            faults[name] += episode["metrics"]["contacts_at_fault"]
            assert ("interventions" in episode["metrics"]) is (name == "guarded")
    assert faults["guarded"] == 0
    assert faults["watched"] > 0
    page = (session / "index.html").read_text()
    assert "Without the safety stack: " in page
    assert "With the safety stack: " in page


def test_the_ego_does_what_the_policy_says_without_exploration(session: Path, push_checkpoint: Path):
    arrays = Trajectory.from_bytes((session / trajectory_name("watched", 0)).read_bytes()).arrays
    policy = load_policy(push_checkpoint, ego_uid="ego")
    for state, action in zip(arrays["obs/agent/ego/state"], arrays["action/ego"], strict=False):
        np.testing.assert_array_equal(policy.act({"agent": {"ego": {"state": state}}}), action)


def test_the_stack_of_a_session_counts_on_no_braking_of_the_partner():
    env = MPECooperativePushEnv()
    parts = (env.build_control_models(), env.build_bounds(), env.build_partner_motion())
    built, careful, trusting = planar_stack(env), *(_stack(*parts, fraction) for fraction in (0.0, 1.0))
    n_different = 0
    for seed in range(5):
        env.reset(seed=seed)
        for stack in (built, careful, trusting):
            stack.reset(seed=seed)
        for _ in range(50):
            ahead = np.clip(5.0 * (env.position("partner") - env.position("ego")), -1.0, 1.0)
            snapshots = env.build_agent_snapshots()
            action = built.step(ahead, snapshots).action
            assert np.array_equal(action, careful.step(ahead, snapshots).action)
            n_different += not np.array_equal(action, trusting.step(ahead, snapshots).action)
            env.step({"ego": env.executable_action("ego", action), "partner": -ahead})
    assert n_different > 0


def _stack(models, bounds, motion, fraction: float) -> SafetyStack:
    return SafetyStack(
        ego_uid="ego",
        control_models=models,
        bounds=bounds,
        dt=0.1,
        partner_motion=motion,
        partner_braking_fraction=fraction,
    )


def test_an_ego_that_was_trained_blind_is_played_blind(save_policy, tmp_path: Path):
    path = save_policy(tmp_path / "root", obs_dim=46, action_dim=8)
    policy = load_policy(path, ego_uid="ego")
    assert not was_trained_blind(path, policy)
    (tmp_path / "root/logs").mkdir()
    line = {"task": "cocarry", "run_id": policy.run_id, "mask_partner_obs": "true"}
    (tmp_path / f"root/logs/{policy.run_id}.jsonl").write_text(json.dumps(line) + "\n")
    assert was_trained_blind(path, policy)
    for is_blind in (False, True):
        ego = TrainedEgo(checkpoint_sha256=sha256_file(path), run_id=policy.run_id, step=1, is_blind=is_blind)
        with closing(make_environment(SessionConfig.of("cocarry", ego=ego))) as env:
            obs, _ = env.reset(seed=0)
            uid = (
                make_team(SessionConfig.of("cocarry", ego=ego), env, checkpoints={sha256_file(path): path}).seats[0].uid
            )
            hidden = obs["agent"][uid]["state"][..., COCARRY_BLIND_MASK_START:COCARRY_BLIND_MASK_STOP]
            assert bool(np.any(hidden)) is not is_blind
    with pytest.raises(InputError, match="a blind ego is one of cocarry only"):
        make_environment(SessionConfig.of("mpe_cooperative_push", ego=ego))


def test_another_checkpoint_than_the_one_of_the_session_is_refused(push_checkpoint: Path, save_policy, tmp_path: Path):
    config = trained(push_checkpoint)
    digest = sha256_file(push_checkpoint)
    other = save_policy(tmp_path / "other", obs_dim=10, action_dim=2, run_id="f" * 16)
    with other.open("rb") as a, push_checkpoint.open("rb") as b:
        assert a.read() == b.read(), "the same parameters have the same payload, whatever the run"
    wide = save_policy(tmp_path / "wide", obs_dim=46, action_dim=8)
    for checkpoints, said in (
        ({}, f"the checkpoint with SHA-256 {digest} is not at hand"),
        ({digest: wide}, "its policy takes 46 numbers and gives 8, 'ego' observes 10 and acts with 2"),
        ({digest: tmp_path / "none.pt"}, "there is no payload"),
    ):
        with pytest.raises(InputError, match=said):
            run_session({"push": config}, tmp_path / "run", checkpoints=checkpoints)
    assert not (tmp_path / "run").exists()


def test_a_policy_fits_the_tasks_that_give_states_and_no_others(push_checkpoint: Path, save_policy, tmp_path: Path):
    with pytest.raises(InputError, match=r"coinsert@v2 has no state vector of 'panda_wristcam'"):
        run_session(
            {"a": trained(push_checkpoint, task="coinsert")},
            tmp_path / "a",
            checkpoints={sha256_file(push_checkpoint): push_checkpoint},
        )
    wide = save_policy(tmp_path / "wide", obs_dim=46, action_dim=8)
    config = trained(wide, task="cocarry", partner="cocarry_impedance", guard=Guard.OFF, episode_length=3)
    result = run_session({"carry": config}, tmp_path / "carry", checkpoints={sha256_file(wide): wide})
    assert result.record.rounds[0].team["panda_wristcam"]["name"] == "trained"
    assert replay_session(tmp_path / "carry").holds


@pytest.mark.parametrize(("widths", "task"), TASKS_BY_WIDTHS.items())
def test_the_widths_that_name_a_task_are_those_of_its_environment(
    widths: tuple[int, int], task: str, save_policy, tmp_path: Path
):
    path = save_policy(tmp_path, obs_dim=widths[0], action_dim=widths[1])
    policy = load_policy(path, ego_uid="ego")
    assert task_of_checkpoint(path, policy) == task
    conditions = {53: "stage1_pickplace_panda_only_mappo_shared_param"}
    ego = TrainedEgo(checkpoint_sha256=policy.checkpoint_sha256, run_id=policy.run_id, step=policy.step)
    config = SessionConfig.of(task, condition=conditions.get(widths[0]), ego=ego)
    with closing(make_environment(config)) as env:
        seats = make_team(config, env, checkpoints={policy.checkpoint_sha256: path}).seats
        assert seats[0].name == "trained"
        assert seats[0].controller.act(env.reset(seed=0)[0]).shape == (widths[1],)


def test_the_log_of_a_run_says_which_task_its_policy_is_for(save_policy, tmp_path: Path):
    path = save_policy(tmp_path, obs_dim=7, action_dim=3, run_id="a" * 16)
    policy = load_policy(path, ego_uid="ego")
    with pytest.raises(
        InputError, match=r"does not say which task .* width 7 and actions of width 3; say it with --task"
    ):
        task_of_checkpoint(path, policy)
    (tmp_path / "logs").mkdir()
    log = tmp_path / "logs" / f"{'a' * 16}.jsonl"
    for line in ("", "no json\n", "[]\n", '{"task": 3}\n'):
        log.write_text(line)
        with pytest.raises(InputError, match="does not say which task"):
            task_of_checkpoint(path, policy)
    log.write_text(json.dumps({"event": "training_start", "task": "stage1_pickplace"}) + "\n")
    assert task_of_checkpoint(path, policy) == "stage1_pickplace_as"


def test_a_reference_ego_can_be_guarded_on_the_plane_too(tmp_path: Path):
    config = SessionConfig.of("mpe_cooperative_push", episodes=3, partner="push_pursuer", guard=Guard.ON)
    assert config.partner == PartnerChoice(name="push_pursuer")
    result = run_session({"push": config}, tmp_path / "run")
    metrics = [episode["metrics"] for episode in result.record.rounds[0].episodes]
    assert sum(values["contacts_at_fault"] for values in metrics) == 0
    assert all(values["interventions"] > 0 for values in metrics)
