"""Whole training runs: reproducible to the byte, wired as configured, closed whatever happens."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from chamber.benchmarks import training_runner
from chamber.benchmarks.training_runner import build_env, build_safety_driver, run_training
from chamber.configs import shipped_config_path
from chamber.envs import MPECooperativePushEnv
from chamber.envs.cocarry_shaping import CoCarryTransportPBRSWrapper
from chamber.envs.stage1_shaping import Stage1SettleShapingWrapper
from chamber.envs.stage1_vector import Stage1AutoResetWrapper
from concerto.safety.stack import SafetyStack
from concerto.training.checkpoints import load_checkpoint_file
from concerto.training.config import EgoAHTConfig, read_config
from concerto.training.ego_aht import RandomEgoTrainer
from concerto.training.learning_signal_check import CheckStatus, check_positive_learning_slope
from ripieno.errors import InputError


def config(name: str, folder: Path, *overrides: str) -> EgoAHTConfig:
    places = (f"log_dir={folder / 'logs'}", f"artifacts_root={folder}", "wandb.enabled=false", "runtime.device=cpu")
    return read_config(shipped_config_path(name), [*places, *overrides])


def planar(folder: Path, *overrides: str) -> EgoAHTConfig:
    return config("mpe_cooperative_push", folder, *overrides)


def random_trainer(cfg: EgoAHTConfig, *, env: Any, partner: Any, ego_uid: str) -> RandomEgoTrainer:
    width = env.action_space[ego_uid].shape[-1]
    return RandomEgoTrainer(ego_uid=ego_uid, action_dim=width, root_seed=cfg.seed, num_envs=cfg.env.num_envs)


def events_of(cfg: EgoAHTConfig) -> list[dict[str, Any]]:
    (log,) = cfg.log_dir.glob("*.jsonl")
    return [json.loads(line) for line in log.read_text().splitlines()]


# --- acceptance 16 --------------------------------------------------------------------------------------------


def test_acceptance_16_equal_seeds_give_equal_bytes_wherever_they_are_written_and_other_seeds_do_not(tmp_path: Path):
    results = {
        name: run_training(planar(tmp_path / name, "total_frames=4096", "checkpoint_every=4096", f"seed={seed}"))
        for name, seed in (("one", 0), ("other", 0), ("another seed", 1))
    }
    one, other, another = (result.curve for result in results.values())
    assert one.run_id == other.run_id != another.run_id
    assert np.asarray(one.per_step_ego_rewards).tobytes() == np.asarray(other.per_step_ego_rewards).tobytes()
    assert one.per_episode_ego_rewards == other.per_episode_ego_rewards
    assert np.asarray(one.per_step_ego_rewards).tobytes() != np.asarray(another.per_step_ego_rewards).tobytes()
    assert len(one.per_step_ego_rewards) == 4096
    updates = [event for event in events_of(planar(tmp_path / "one")) if event["event"] == "rollout_update"]
    assert [event["step"] for event in updates] == [1024, 2048, 3072, 4096]
    (first,), (second,), (third,) = one.checkpoint_paths, other.checkpoint_paths, another.checkpoint_paths
    assert first.read_bytes() == second.read_bytes()
    actors = [load_checkpoint_file(path)[0]["actor"]["act.action_out.fc_mean.weight"] for path in (first, third)]
    assert not torch.equal(*actors)


@pytest.mark.slow
def test_acceptance_16_the_whole_planar_run_passes_the_slope_check(tmp_path: Path):
    curve = run_training(planar(tmp_path)).curve
    assert len(curve.per_episode_ego_rewards) == 2000
    assert check_positive_learning_slope(curve).status is CheckStatus.PASSED


# --- acceptance 17: what is wrapped, and what is not ----------------------------------------------------------


def env_of_run(cfg: EgoAHTConfig) -> Any:
    """Give the environment that the trainer of a run is made for."""
    seen: list[Any] = []

    def factory(cfg: EgoAHTConfig, *, env: Any, partner: Any, ego_uid: str) -> RandomEgoTrainer:
        seen.append(env)
        return random_trainer(cfg, env=env, partner=partner, ego_uid=ego_uid)

    run_training(cfg, trainer_factory=factory)
    return seen[0]


def layers(env: Any) -> list[type]:
    found = [type(env)]
    while hasattr(env, "env"):
        env = env.env
        found.append(type(env))
    return found


@pytest.mark.parametrize(
    ("name", "shaping", "wrapper"),
    [
        ("stage1_pickplace", "shaping.settle_alpha", Stage1SettleShapingWrapper),
        ("cocarry_matched", "shaping.transport_pbrs_coeff", CoCarryTransportPBRSWrapper),
    ],
)
def test_acceptance_17_a_coefficient_of_zero_makes_no_wrapper(name: str, shaping: str, wrapper: type, tmp_path: Path):
    small = ("total_frames=2", "happo.rollout_length=2", "happo.batch_size=2", "env.num_envs=1")
    plain = config(name, tmp_path / "plain", *small, f"{shaping}=0.0")
    built: Any = build_env(plain.env, root_seed=plain.seed)
    built.close()
    assert layers(env_of_run(plain)) == layers(built)
    assert layers(env_of_run(config(name, tmp_path / "shaped", *small)))[0] is wrapper


def test_shaping_of_copies_that_reset_themselves_is_below_the_reset(tmp_path: Path):
    env = env_of_run(config("stage1_pickplace", tmp_path, "total_frames=4", "env.num_envs=2"))
    assert layers(env)[:2] == [Stage1AutoResetWrapper, Stage1SettleShapingWrapper]
    assert Stage1AutoResetWrapper not in layers(env)[1:]


def test_a_static_partner_stands_still_and_the_log_says_so(tmp_path: Path):
    actions: list[Any] = []

    class Watched(MPECooperativePushEnv):
        def step(self, action: Any) -> Any:
            actions.append(action["partner"])
            return super().step(action)

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(training_runner._BUILDERS, "mpe_cooperative_push", lambda *_: Watched())  # type: ignore[arg-type]
        cfg = planar(tmp_path, "total_frames=60", "+exploratory.partner_static_override=true")
        run_training(cfg, trainer_factory=random_trainer)
    assert len(actions) == 60
    assert not np.any(actions)
    assert {event["exploratory_partner_static"] for event in events_of(cfg)} == {"true"}


# --- safety ---------------------------------------------------------------------------------------------------


def test_the_safety_stack_of_a_run_sees_the_environment_that_is_stepped(tmp_path: Path):
    """Without a moving world in its snapshots a stack would never brake, and its slack would drift by eta * epsilon."""
    cfg = planar(tmp_path, "total_frames=2000", "+safety.enabled=true", "seed=1")
    telemetry = run_training(cfg, trainer_factory=random_trainer).context.safety_telemetry
    assert telemetry is not None
    assert (telemetry["safety_enabled"], telemetry["n_filter_calls"]) == (True, 2000)
    assert telemetry["n_braking_fires"] > 10
    drift = 5e-4
    assert abs(telemetry["lambda_min_observed"]) != pytest.approx(2000 * drift, rel=0.2)


@pytest.mark.parametrize(
    "part", [{"safety_dt": 0.1}, {"safety_emergency_controllers": {}}], ids=lambda part: next(iter(part))
)
def test_parts_of_a_safety_layer_of_the_callers_own_are_used_as_given(part: dict[str, Any], tmp_path: Path):
    with pytest.raises(ValueError, match="safety"):
        run_training(planar(tmp_path, "+safety.enabled=true"), **part, trainer_factory=random_trainer)
    assert not (tmp_path / "logs").exists()


def test_the_safety_stack_of_a_run_counts_on_no_braking_of_the_partner(tmp_path: Path):
    cfg, env = planar(tmp_path, "+safety.enabled=true"), MPECooperativePushEnv()
    driver = build_safety_driver(env, cfg)

    def stack(partner_braking_fraction: float) -> SafetyStack:
        return SafetyStack(
            ego_uid="ego",
            control_models=env.build_control_models(),
            bounds=env.build_bounds(),
            dt=env.control_timestep,
            partner_motion=env.build_partner_motion(),
            partner_braking_fraction=partner_braking_fraction,
            cbf_gamma=cfg.safety.cbf_gamma,
            lambda_bound=7.0,
            lambda_safe=cfg.safety.lambda_safe,
            n_warmup_steps=cfg.safety.n_warmup_steps,
            tau_brake=cfg.safety.tau_brake,
        )

    careful, trusting, n_different = stack(0.0), stack(1.0), 0
    driver.start_run(0)
    for each in (careful, trusting):
        each.reset(seed=0)
    for seed in range(5):
        env.reset(seed=seed)
        for each in (driver, careful, trusting):
            each.start_episode()
        for _ in range(50):
            ahead = np.clip(5.0 * (env.position("partner") - env.position("ego")), -1.0, 1.0)
            snapshots = env.build_agent_snapshots()
            action = careful.step(ahead, snapshots).action
            decided = np.asarray(driver.decide(env, ahead, -ahead).action)
            executed = env.executable_action("ego", action)
            assert np.array_equal(decided, executed)
            n_different += not np.array_equal(action, trusting.step(ahead, snapshots).action)
            env.step({"ego": executed, "partner": -ahead})
    assert n_different > 0


# --- which algorithm ------------------------------------------------------------------------------------------


def test_an_algorithm_without_a_learner_is_refused_and_a_learner_of_ones_own_may_have_any_name(tmp_path: Path):
    cfg = planar(tmp_path, "algo=ego_aht_hatd3", "total_frames=3")
    with pytest.raises(ValueError, match=r"algo must be 'ego_aht_happo'.*got 'ego_aht_hatd3'"):
        run_training(cfg)
    assert not (tmp_path / "logs").exists()
    run_training(cfg, trainer_factory=random_trainer)
    assert {event["run_kind"] for event in events_of(cfg)} == {"ego_aht_hatd3"}


@pytest.mark.parametrize("size", [f"hidden_dim={2**62}", f"rollout_length={10**15}"])
def test_sizes_that_no_memory_holds_are_refused_in_one_line(size: str, tmp_path: Path):
    with pytest.raises(InputError, match=f"there is not enough memory for .*{size}") as refusal:
        run_training(planar(tmp_path, f"happo.{size}"))
    assert "\n" not in str(refusal.value)
    assert events_of(planar(tmp_path))[-1]["event"] == "training_aborted"


# --- environments are closed ----------------------------------------------------------------------------------


@pytest.fixture
def closings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names what closes; the planar task is a subclass that says so."""
    said: list[str] = []

    class Telling(MPECooperativePushEnv):
        def close(self) -> None:
            said.append("closed")

    monkeypatch.setitem(training_runner._BUILDERS, "mpe_cooperative_push", lambda *_: Telling())  # type: ignore[arg-type]
    return said


def test_the_environment_is_closed_after_a_run(closings: list[str], tmp_path: Path):
    run_training(planar(tmp_path, "total_frames=3"), trainer_factory=random_trainer)
    assert closings == ["closed"]


def test_the_environment_is_closed_when_the_partner_cannot_be_built(closings: list[str], tmp_path: Path):
    with pytest.raises(KeyError, match="nobody"):
        run_training(planar(tmp_path, "partner.class_name=nobody"), trainer_factory=random_trainer)
    assert closings == ["closed"]


def test_the_environment_is_closed_when_the_run_fails(closings: list[str], tmp_path: Path):
    def no_trainer(cfg: EgoAHTConfig, *, env: Any, partner: Any, ego_uid: str) -> Any:
        raise RuntimeError("no trainer today")

    with pytest.raises(RuntimeError, match="no trainer today"):
        run_training(planar(tmp_path), trainer_factory=no_trainer)
    assert closings == ["closed"]


# --- recorded episodes ----------------------------------------------------------------------------------------


def test_episodes_recorded_beside_a_run_change_nothing_of_it(tmp_path: Path):
    small = ("total_frames=300", "happo.rollout_length=100", "happo.batch_size=50", "env.episode_length=10")
    plain = run_training(planar(tmp_path / "plain", *small))
    recorder = ("+rollout_recorder.enabled=true", "+rollout_recorder.interval_frames=150")
    recorded = run_training(planar(tmp_path / "recorded", *small, *recorder))
    rewards = [np.asarray(result.curve.per_step_ego_rewards) for result in (plain, recorded)]
    np.testing.assert_array_equal(*rewards)
    lines = sorted((tmp_path / "recorded/logs/rollouts/mpe_cooperative_push").glob("*.jsonl"))
    assert [path.name for path in lines] == ["step_000150.jsonl", "step_000300.jsonl"]
    steps = [json.loads(line) for line in lines[0].read_text().splitlines()]
    assert [step["step_global"] for step in steps] == list(range(150, 160))
    assert not (tmp_path / "plain/logs/rollouts").exists()


# --- the other shipped configurations -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "overrides"),
    [
        ("cocarry_matched", ("total_frames=160", "happo.rollout_length=80", "happo.batch_size=40")),
        ("stage1_pickplace", ("total_frames=200", "env.num_envs=2", "happo.rollout_length=50", "happo.batch_size=50")),
        ("stage0_smoke", ("total_frames=100", "happo.rollout_length=50", "happo.batch_size=50")),
        pytest.param(
            "cocarry_blind",
            ("total_frames=640", "happo.rollout_length=320", "happo.batch_size=320"),
            marks=pytest.mark.slow,
        ),
    ],
)
def test_every_shipped_configuration_trains_on_a_cpu(name: str, overrides: tuple[str, ...], tmp_path: Path):
    cfg = config(name, tmp_path, "happo.hidden_dim=32", "checkpoint_every=100", *overrides)
    curve = run_training(cfg).curve
    assert len(curve.per_step_ego_rewards) * cfg.env.num_envs == cfg.total_frames
    assert np.isfinite(np.asarray(curve.per_step_ego_rewards)).all()
    assert sum(event["event"] == "rollout_update" for event in events_of(cfg)) >= 1
    state, metadata = load_checkpoint_file(curve.checkpoint_paths[-1])
    assert metadata.step == cfg.total_frames
    assert all(torch.isfinite(value).all() for value in state["actor"].values())


@pytest.mark.slow
def test_pick_and_place_trains_with_the_safety_stack(tmp_path: Path):
    small = ("total_frames=200", "env.num_envs=1", "happo.rollout_length=100", "happo.batch_size=50")
    telemetry = run_training(
        config("stage1_pickplace", tmp_path, *small, "safety.enabled=true")
    ).context.safety_telemetry
    assert telemetry is not None
    assert telemetry["n_filter_calls"] == 200
