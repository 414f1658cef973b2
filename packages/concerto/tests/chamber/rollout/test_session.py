"""Sessions: the folder verifies, is the same for the same configuration, can be played again, and lies show."""

from __future__ import annotations

import json
import shutil
import warnings
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from chamber.envs._cocarry_limits import resolve_cocarry_limits
from chamber.envs._cocarry_rules import COCARRY_GOAL_THRESH_M, COCARRY_SETTLE_WINDOW_STEPS, COCARRY_TILT_MAX_DEG
from chamber.envs._coinsert_limits import resolve_coinsert_limits
from chamber.envs._coinsert_rules import COINSERT_AXIS_ALIGN_TOL_DEG, COINSERT_DEPTH_EPS_M, COINSERT_DEPTH_TARGET_M
from chamber.envs._stage1_rules import GOAL_THRESHOLD_M
from chamber.rollout.config import SessionConfig, make_environment, make_team
from chamber.rollout.episode import Trajectory
from chamber.rollout.guard import Guard
from chamber.rollout.page import headline, render_session_page
from chamber.rollout.references import reference, reference_tasks
from chamber.rollout.replay import TOLERANCE, replay_session
from chamber.rollout.session import read_session, run_session, session_seeds
from ripieno.errors import InputError, IntegrityError
from ripieno.run import RunWriter
from ripieno.verify import verify

PUSH = SessionConfig.of("mpe_cooperative_push", episodes=3, seed=2)


@pytest.fixture(scope="module")
def push(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("session") / "run"
    run_session({"push": PUSH}, folder, page=render_session_page)
    return folder


def test_the_folder_of_a_session_verifies_and_says_what_was_played(push: Path):
    assert verify(push).ok
    (record,) = read_session(push).rounds
    assert record.config == PUSH
    assert record.team["partner"] == {"name": "push_cooperative", "parameters": {"uid": "partner"}}
    assert [episode["initial_state_seed"] for episode in record.episodes] == [2000, 2001, 2002]
    assert [episode["n_steps"] for episode in record.episodes] == [50, 50, 50]
    assert json.loads((push / "episodes.json").read_text())["push"][1]["episode_idx"] == 1
    assert "no success" in headline(read_session(push))


def test_equal_configurations_give_equal_bytes(push: Path, tmp_path: Path):
    run_session({"push": PUSH}, tmp_path / "again", page=render_session_page)
    for path in (path for path in push.rglob("*") if path.is_file() and path.name not in {"run.json", "events.jsonl"}):
        assert (tmp_path / "again" / path.relative_to(push)).read_bytes() == path.read_bytes(), path.name


def test_the_sum_of_the_recorded_rewards_is_the_total(push: Path):
    for episode in read_session(push).rounds[0].episodes:
        name = f"trajectories/push/{episode['episode_idx']:04d}.npz"
        trajectory = Trajectory.from_bytes((push / name).read_bytes())
        assert trajectory.sha256 == episode["trajectory_sha256"]
        assert float(trajectory.arrays["reward"].sum()) == pytest.approx(episode["total_reward"])
        assert len(trajectory.arrays["obs/agent/ego/state"]) == episode["n_steps"] + 1
        assert len(trajectory.arrays["action/ego"]) == episode["n_steps"]


def test_a_replay_is_identical(push: Path):
    replay = replay_session(push)
    assert replay.holds
    assert replay.same_machine
    assert [row.is_identical for row in replay.episodes] == [True] * 3


def _written_by_a_liar(push: Path, folder: Path, *, change: float) -> None:
    """A folder that verifies, because the liar wrote it with the real writer, around a changed trajectory."""
    (record,) = read_session(push).rounds
    config = {"rounds": [{"name": "push", **record.config.model_dump(mode="json")}]}
    seeds = session_seeds({"push": record.config})
    with RunWriter(folder, system="chamber", kind="session", config=config, seeds=seeds) as run:
        run.event("team", round="push", team=record.team)
        for episode in record.episodes:
            name = f"trajectories/push/{episode['episode_idx']:04d}.npz"
            arrays = dict(Trajectory.from_bytes((push / name).read_bytes()).arrays)
            arrays["reward"] = arrays["reward"] + change
            lie = Trajectory(arrays)
            run.artifact(name, lie.to_bytes())
            run.event("episode", round="push", **{**episode, "trajectory_sha256": lie.sha256})
        run.finish()


def test_a_changed_trajectory_that_was_sealed_again_does_not_replay(push: Path, tmp_path: Path):
    _written_by_a_liar(push, tmp_path / "lie", change=1e-12)
    assert verify(tmp_path / "lie").ok, "no verification of bytes can see it"
    replay = replay_session(tmp_path / "lie")
    assert not replay.holds
    assert replay.episodes[0].where == "reward"
    assert 0.0 < replay.episodes[0].largest_difference < 1e-11


@pytest.mark.parametrize(("change", "holds"), [(TOLERANCE / 2, True), (TOLERANCE * 2, False)])
def test_on_another_kind_of_machine_the_tolerance_decides(
    push: Path, tmp_path: Path, change: float, holds: bool, monkeypatch: pytest.MonkeyPatch
):
    _written_by_a_liar(push, tmp_path / "lie", change=change)
    here = run_environment()
    here["machine"] = {**here["machine"], "cpu_features": ["another"]}
    monkeypatch.setattr("ripieno.run.environment", lambda: here)
    replay = replay_session(tmp_path / "lie")
    assert not replay.same_machine
    assert replay.holds is holds


def run_environment() -> dict:
    from ripieno.run import environment

    return environment()


def test_a_trajectory_that_is_not_the_logged_one_is_named(push: Path, tmp_path: Path):
    (record,) = read_session(push).rounds
    config = {"rounds": [{"name": "push", **record.config.model_dump(mode="json")}]}
    seeds = session_seeds({"push": record.config})
    with RunWriter(tmp_path / "swap", system="chamber", kind="session", config=config, seeds=seeds) as run:
        run.event("team", round="push", team=record.team)
        for episode in record.episodes:
            run.artifact(
                f"trajectories/push/{episode['episode_idx']:04d}.npz",
                (push / "trajectories/push/0000.npz").read_bytes(),
            )
            run.event("episode", round="push", **episode)
        run.finish()
    with pytest.raises(IntegrityError, match=r"0001\.npz is not the trajectory that the log names"):
        replay_session(tmp_path / "swap")


def test_a_flipped_byte_is_found_before_anything_is_played(push: Path, tmp_path: Path):
    shutil.copytree(push, tmp_path / "copy")
    path = tmp_path / "copy/trajectories/push/0001.npz"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(IntegrityError, match=r"does not verify.*0001\.npz"):
        replay_session(tmp_path / "copy")


def test_ctrl_c_leaves_an_interrupted_session_with_the_episodes_so_far(tmp_path: Path):
    def stop(done: int, _words: str) -> None:
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_session({"push": PUSH}, tmp_path / "run", progress=stop)
    report = verify(tmp_path / "run")
    assert report.ok
    assert report.status == "interrupted"
    assert read_session(tmp_path / "run").n_episodes == 2
    assert replay_session(tmp_path / "run").holds


def test_another_run_is_no_session(tmp_path: Path):
    with RunWriter(tmp_path / "other", system="demo", kind="example", config={}) as run:
        run.finish()
    with pytest.raises(InputError, match="no session of Chamber but demo/example"):
        read_session(tmp_path / "other")


def test_rounds_with_one_seed_have_the_same_starts(tmp_path: Path):
    rounds = {
        name: SessionConfig.of("mpe_cooperative_push", episodes=2, partner=partner)
        for name, partner in (("helpful", "push_cooperative"), ("stubborn", "push_stubborn"))
    }
    said: list[tuple[int, str]] = []
    record = run_session(
        rounds, tmp_path / "run", page=render_session_page, progress=lambda done, words: said.append((done, words))
    ).record
    assert [played.name for played in record.rounds] == ["helpful", "stubborn"]
    starts = [
        Trajectory.from_bytes((tmp_path / f"run/trajectories/{name}/0001.npz").read_bytes()).arrays[
            "obs/agent/ego/state"
        ][0]
        for name in rounds
    ]
    assert np.array_equal(*starts)
    assert replay_session(tmp_path / "run").holds
    assert "helpful: 2 episodes" in headline(record)
    assert said[0] == (0, "helpful, episode 1, step 0")
    assert said[-1] == (4, "the page")
    assert [done for done, _ in said] == sorted(done for done, _ in said)


@pytest.mark.parametrize("name", ["", "Two Words", "../up", "a/b", "x" * 41])
def test_a_round_needs_a_plain_name(name: str, tmp_path: Path):
    with pytest.raises(InputError, match="rounds with names like"):
        run_session({name: PUSH}, tmp_path / "run")
    with pytest.raises(InputError, match="rounds with names like"):
        run_session({}, tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"task": "cocary"}, "unknown task 'cocary'; known: .*cocarry"),
        ({"task": "cocarry@v9"}, "no version 9; known: 2"),
        ({"task": "cocarry@vx"}, "named like cocarry or cocarry@v2"),
        ({"task": "cocarry", "condition": "alone"}, "unknown condition 'alone'; known: cocarry_matched_panda_pair"),
        ({"task": "mpe_cooperative_push", "condition": "x"}, "this task has no conditions"),
        ({"task": "co_hold_secure"}, "has no environment to play in"),
        ({"task": "cocarry", "episodes": 0}, "episodes"),
        ({"task": "cocarry", "episodes": 1001}, "episodes"),
        ({"task": "cocarry", "seed": -1}, "seed"),
        ({"task": "cocarry", "episode_length": 0}, "episode_length"),
        ({"task": "cocarry", "partner_parameters": {"kp": "1"}}, "need a partner"),
    ],
)
def test_a_bad_configuration_is_refused_by_name(arguments: dict, said: str):
    with pytest.raises(InputError, match=said):
        SessionConfig.of(**arguments)


def test_a_partner_that_does_not_exist_or_refuses_its_parameters_is_named(tmp_path: Path):
    for partner, parameters, said in (
        ("nobody", {}, "Unknown partner class 'nobody'; known: "),
        ("scripted_heuristic", {"target_xy": "0"}, "partner 'scripted_heuristic' of 'partner': target_xy"),
    ):
        config = SessionConfig.of("mpe_cooperative_push", partner=partner, partner_parameters=parameters)
        with pytest.raises(InputError, match=said):
            run_session({"push": config}, tmp_path / "run")
        assert not (tmp_path / "run").exists()


def test_a_partner_of_another_task_is_refused_and_nothing_is_left(tmp_path: Path):
    config = SessionConfig.of("mpe_cooperative_push", partner="cocarry_impedance")
    with pytest.raises(InputError, match=r"'cocarry_impedance' does not fit mpe_cooperative_push@v1: .* 2 finite"):
        run_session({"good": PUSH, "bad": config}, tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("task", ["mpe_cooperative_push", "stage0_smoke", "stage1_pickplace_as", "cocarry", "coinsert"])
def test_the_ego_has_the_first_seat(task: str):
    config = SessionConfig.of(task)
    with closing(make_environment(config)) as env:
        assert tuple(seat.uid for seat in make_team(config, env).seats) == env.unwrapped.agent_uids


@pytest.mark.parametrize(
    ("task", "condition", "said"),
    [
        ("coinsert", None, "co-carry between two Pandas, not for CoInsertEnv"),
        ("cocarry", "cocarry_xarm6_partner", "the guard is for two Pandas, but the partner is 'xarm6_robotiq'"),
    ],
)
def test_a_guard_that_does_not_fit_is_refused(tmp_path: Path, task: str, condition: str | None, said: str):
    config = SessionConfig.of(task, condition=condition, guard=Guard.ON)
    with pytest.raises(InputError, match=said):
        run_session({"guarded": config}, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_another_partner_takes_the_seat_with_its_parameters():
    config = SessionConfig.of("mpe_cooperative_push", partner="push_pursuer")
    team = make_team(config, make_environment(config))
    assert [(seat.uid, seat.name) for seat in team.seats] == [("ego", "nearest_landmark"), ("partner", "push_pursuer")]


def test_another_partner_gets_the_parameters_of_the_reference_that_it_has():
    config = SessionConfig.of("cocarry", partner="coinsert_reference_holder")
    with closing(make_environment(config)) as env, warnings.catch_warnings():
        warnings.simplefilter("error")
        reference_team, team = reference("cocarry").build(env, config.condition), make_team(config, env)
    before, after = reference_team.seats[-1].parameters, team.seats[-1].parameters
    assert after["base_xyz"] == before["base_xyz"]
    assert set(after) < set(before)


@pytest.mark.parametrize("task", ["cocarry", "coinsert", "handover_place"])
def test_a_reference_team_has_every_parameter_that_it_is_given(task: str):
    config = SessionConfig.of(task)
    with closing(make_environment(config)) as env, warnings.catch_warnings():
        warnings.simplefilter("error")
        make_team(config, env)


def test_trajectories_that_differ_in_any_bit_have_another_hash():
    one = Trajectory({"reward": np.array([0.0, 1.0])})
    assert one.sha256 == Trajectory({"reward": np.array([0.0, 1.0])}).sha256
    for other in (
        {"reward": np.array([-0.0, 1.0])},
        {"reward": np.array([0.0, 1.0], dtype=np.float32)},
        {"reward": np.array([[0.0, 1.0]])},
        {"rewards": np.array([0.0, 1.0])},
        {"reward": np.array([0.0, 1.0]), "more": np.zeros(0)},
    ):
        assert Trajectory(other).sha256 != one.sha256


def test_what_is_no_trajectory_is_refused():
    for data in (b"", b"PK\x03\x04", b"hello"):
        with pytest.raises(ValueError, match="not a trajectory"):
            Trajectory.from_bytes(data)


def test_every_playable_task_has_a_reference_with_its_solvable_conditions():
    for name in reference_tasks():
        known = set(reference(name).conditions)
        assert set(reference(name).solvable) <= known, name


def test_the_sentences_on_success_name_the_limits_that_decide():
    carry, insert = reference("cocarry").success, reference("coinsert").success
    for words in (f"{COCARRY_GOAL_THRESH_M:g} m", f"{COCARRY_TILT_MAX_DEG:g} degrees", f"{cocarry_limit():g} N"):
        assert words in carry
    assert f"step {COCARRY_SETTLE_WINDOW_STEPS} " in carry
    limits = resolve_coinsert_limits("v2")
    depth_mm = 1000 * (COINSERT_DEPTH_TARGET_M - COINSERT_DEPTH_EPS_M)
    for words in (
        f"{depth_mm:g} mm",
        f"{COINSERT_AXIS_ALIGN_TOL_DEG:g} degrees",
        f"{limits.f_insert_max_n:g} N",
        f"{limits.f_couple_max_n:g} N",
    ):
        assert words in insert
    assert f"{GOAL_THRESHOLD_M} m" in reference("stage1_pickplace_as").success


def cocarry_limit() -> float:
    return resolve_cocarry_limits("v2").stress_max_n


def test_a_page_says_what_success_is_and_gives_units(tmp_path: Path):
    config = SessionConfig.of("cocarry", episode_length=2)
    run_session({"cocarry": config}, tmp_path / "run", page=render_session_page)
    page = (tmp_path / "run/index.html").read_text()
    assert "Success: The middle of the bar" in page
    assert "The episode ends without success." in page
    assert "cocarry_matched_panda_pair: two Pandas with the same controller." in page
    for heading in ("centroid to goal (m)", "max stress proxy (N)", "max tilt (degrees)"):
        assert heading in page
