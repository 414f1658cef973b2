"""What a training run is built of: environments, partners and the parts of a safety stack."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from chamber.benchmarks.training_runner import (
    TASKS,
    UnknownPartnerError,
    build_bounds_for_env,
    build_control_models,
    build_emergency_controllers,
    build_env,
    build_partner,
    build_safety_driver,
    build_safety_dt,
    build_safety_filter,
    build_safety_snapshot_builder,
)
from chamber.envs import MPECooperativePushEnv
from concerto.safety.api import Bounds, DoubleIntegratorControlModel, JacobianControlModel
from concerto.safety.emergency import CartesianAccelEmergencyController, JacobianEmergencyController
from concerto.training.config import EgoAHTConfig, EnvConfig, PartnerConfig


class PlainEnv(gym.Env[Any, Any]):
    """An environment without any hook."""

    def __init__(self, **members: spaces.Space[Any]) -> None:
        self.action_space = spaces.Dict(members)
        self.observation_space = spaces.Dict({})


class UnforwardingWrapper(gym.Wrapper[Any, Any, Any, Any]):
    """What most wrappers are since Gymnasium 1: attributes of the inside are not theirs."""


def box(*shape: int) -> spaces.Box:
    return spaces.Box(-1.0, 1.0, shape, np.float32)


def planar_config(**updates: Any) -> EgoAHTConfig:
    return EgoAHTConfig.model_validate({"env": {"task": "mpe_cooperative_push"}, **updates})


# --- environments ---------------------------------------------------------------------------------------------


def test_acceptance_10_a_mask_on_another_task_than_co_carry_is_refused():
    with pytest.raises(ValueError, match=r"cocarry.*mpe_cooperative_push"):
        build_env(EnvConfig(task="mpe_cooperative_push", mask_partner_obs=True), root_seed=0)


def test_acceptance_10_an_unknown_task_is_refused_with_the_four_there_are():
    with pytest.raises(ValueError, match=r"nope.*mpe_cooperative_push, stage0_smoke, stage1_pickplace, cocarry"):
        build_env(EnvConfig(task="nope"), root_seed=0)


@pytest.mark.parametrize("task", ["cocarry", "stage1_pickplace"])
def test_acceptance_10_a_task_with_conditions_needs_one_before_any_simulator_is_loaded(task: str):
    code = f"""
import sys
from chamber.benchmarks.training_runner import build_env
from concerto.training.config import EnvConfig
sys.modules["mujoco"] = None
try:
    build_env(EnvConfig(task={task!r}), root_seed=0)
except ValueError as error:
    assert "condition_id" in str(error), error
else:
    raise SystemExit("nothing was refused")
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_mask_is_asked_for_before_the_task():
    with pytest.raises(ValueError, match="mask_partner_obs"):
        build_env(EnvConfig(task="nope", mask_partner_obs=True), root_seed=0)


def test_the_planar_task_is_built_as_configured():
    env = build_env(
        EnvConfig(task="mpe_cooperative_push", agent_uids=("a", "b"), episode_length=7),
        root_seed=3,
    )
    assert isinstance(env, MPECooperativePushEnv)
    assert (env.agent_uids, env.episode_length, env.root_seed) == (("a", "b"), 7, 3)
    assert TASKS[0] == "mpe_cooperative_push"


def test_what_an_environment_refuses_is_a_refused_configuration():
    with pytest.raises(ValueError, match=r"stage1_pickplace.*no_such_condition"):
        build_env(EnvConfig(task="stage1_pickplace", condition_id="no_such_condition"), root_seed=0)


@pytest.mark.parametrize("masked", [False, True])
def test_co_carry_is_masked_only_when_asked(masked: bool):
    env: Any = build_env(
        EnvConfig(
            task="cocarry",
            condition_id="cocarry_matched_panda_pair",
            agent_uids=("panda_wristcam", "panda_partner"),
            mask_partner_obs=masked,
        ),
        root_seed=0,
    )
    try:
        obs, _ = env.reset(seed=0)
        state = obs["agent"]["panda_wristcam"]["state"]
        assert state.shape == (46,)
        assert bool((state[18:43] == 0.0).all()) is masked
        assert (state[43:] != 0.0).any()
    finally:
        env.close()


# --- partners -------------------------------------------------------------------------------------------------


def test_a_partner_is_built_with_every_field_of_its_configuration():
    partner = build_partner(
        PartnerConfig(
            class_name="scripted_heuristic",
            seed=5,
            checkpoint_step=7,
            weights_uri="local://artifacts/w.pt",
            extra={"uid": "partner", "action_dim": "3"},
        )
    )
    spec = partner.spec
    assert (spec.class_name, spec.seed, spec.checkpoint_step, spec.weights_uri) == (
        "scripted_heuristic",
        5,
        7,
        "local://artifacts/w.pt",
    )
    assert dict(spec.extra) == {"uid": "partner", "action_dim": "3"}


def test_an_unknown_partner_is_a_key_error_that_lists_the_known_ones():
    with pytest.raises(KeyError) as caught:
        build_partner(PartnerConfig(class_name="nobody"))
    assert isinstance(caught.value, UnknownPartnerError)
    assert str(caught.value).startswith("Unknown partner class 'nobody'; known: cocarry_admittance,")
    assert str(caught.value).endswith("--import MODULE)")


def test_parameters_that_a_partner_refuses_are_a_refused_configuration():
    with pytest.raises(ValueError, match=r"scripted_heuristic.*action_dim"):
        build_partner(PartnerConfig(class_name="scripted_heuristic", extra={"action_dim": "none"}))


def test_parameters_of_another_partner_are_refused_with_the_override_that_takes_them_out():
    with pytest.raises(
        ValueError, match=r"unknown parameter 'target_xy'.*override ~partner\.extra\.NAME takes one out"
    ):
        build_partner(PartnerConfig(class_name="push_cooperative", extra={"target_xy": "0,0"}))


# --- parts of a safety stack ----------------------------------------------------------------------------------


def test_acceptance_11_bounds_of_an_environment_that_declares_none():
    assert build_bounds_for_env(PlainEnv()) == Bounds(1.0, 1.0, 10.0, 0.0, 50.0)


@pytest.mark.parametrize(("declared", "expected"), [("x", 0.02), (0.05, 0.05), (None, 0.02), ("0.1", 0.1)])
def test_acceptance_11_the_control_step_is_the_declared_one_if_it_is_a_number(declared: object, expected: float):
    env = PlainEnv()
    env.control_timestep = declared  # type: ignore[attr-defined]
    assert build_safety_dt(env) == expected
    assert build_safety_dt(UnforwardingWrapper(env)) == expected


def test_without_a_control_step_the_fallback_counts():
    assert build_safety_dt(PlainEnv()) == 0.02
    assert build_safety_dt(UnforwardingWrapper(PlainEnv()), fallback=0.5) == 0.5


def test_acceptance_12_without_a_hook_every_robot_is_a_double_integrator():
    models = build_control_models(PlainEnv(second=box(8), first=box(2)))
    assert all(isinstance(model, DoubleIntegratorControlModel) for model in models.values())
    assert {uid: model.action_dim for uid, model in models.items()} == {"first": 2, "second": 8}


def test_acceptance_12_members_of_the_action_space_that_are_no_vectors_are_refused():
    with pytest.raises(TypeError, match=r"'hand'.*Discrete"):
        build_control_models(PlainEnv(hand=spaces.Discrete(3)))
    with pytest.raises(ValueError, match=r"'arm'.*\(1, 8\)"):
        build_control_models(PlainEnv(arm=box(1, 8)))
    env = PlainEnv()
    env.action_space = box(2)  # type: ignore[assignment]
    with pytest.raises(TypeError, match=r"spaces\.Dict, got Box"):
        build_control_models(env)


def test_hooks_are_found_through_wrappers_that_do_not_forward():
    env = MPECooperativePushEnv()
    wrapped = UnforwardingWrapper(UnforwardingWrapper(env))
    assert not hasattr(wrapped, "build_bounds")
    assert build_bounds_for_env(wrapped) == env.build_bounds()
    assert build_control_models(wrapped) == env.build_control_models()
    assert build_safety_dt(wrapped) == 0.1
    assert build_safety_snapshot_builder(wrapped) is not None


def test_an_answer_of_a_hook_is_given_as_it_is():
    env = PlainEnv()
    models = {"x": DoubleIntegratorControlModel("x", 2)}
    env.build_control_models = lambda: models  # type: ignore[attr-defined]
    assert build_control_models(env) is models


def test_a_hook_that_cannot_be_called_is_no_hook():
    env = PlainEnv(robot=box(2))
    env.build_control_models = 3  # type: ignore[attr-defined]
    env.build_agent_snapshots = None  # type: ignore[attr-defined]
    assert list(build_control_models(env)) == ["robot"]
    assert build_safety_snapshot_builder(env) is None


def test_brakes_follow_the_type_of_the_control_model_and_not_its_name_or_width():
    env = PlainEnv()
    arm = JacobianControlModel("plane", 7, 3, jacobian_fn=lambda _: np.eye(3, 7), max_cartesian_accel_value=10.0)
    models = {"plane": arm, "panda": DoubleIntegratorControlModel("panda", 7)}
    env.build_control_models = lambda: models  # type: ignore[attr-defined]
    controllers = build_emergency_controllers(env)
    assert isinstance(controllers["plane"], JacobianEmergencyController)
    assert controllers["plane"]._control_model is arm  # type: ignore[attr-defined]
    assert isinstance(controllers["panda"], CartesianAccelEmergencyController)


def test_the_filter_is_that_of_the_ego_alone():
    assert build_safety_filter(MPECooperativePushEnv()).mode.value == "ego_only"  # type: ignore[attr-defined]


def test_snapshots_are_those_of_the_environment_that_is_stepped():
    built_from, stepped = MPECooperativePushEnv(), MPECooperativePushEnv()
    built_from.reset(seed=0)
    stepped.reset(seed=1)
    snapshots_of = build_safety_snapshot_builder(built_from)
    assert snapshots_of is not None
    np.testing.assert_array_equal(snapshots_of(stepped)["ego"].position, stepped.position("ego"))
    with pytest.raises(ValueError, match="PlainEnv"):
        snapshots_of(PlainEnv())


# --- the driver -----------------------------------------------------------------------------------------------


def test_the_driver_has_the_settings_of_the_configuration_and_the_limits_of_the_environment():
    cfg = planar_config(safety={"enabled": True, "clamp_floor_ratio": 0.5})
    driver = build_safety_driver(MPECooperativePushEnv(), cfg)
    assert (driver.capacity, driver.lambda_bound) == (10.0, 5.0)


def test_the_driver_keeps_the_ego_from_a_partner_and_from_half_carried_out_commands():
    env = UnforwardingWrapper(MPECooperativePushEnv())
    driver: Any = build_safety_driver(env, planar_config(safety={"enabled": True}))
    driver.bind(env)
    driver.start_run(0)
    was_overridden = False
    for episode in range(4):
        env.reset(seed=episode)
        driver.start_episode()
        for _ in range(30):
            ego, partner = (env.unwrapped.position(uid) for uid in ("ego", "partner"))  # type: ignore[attr-defined]
            towards = np.clip((partner - ego) / 0.1, -1.0, 1.0).astype(np.float32)
            decision = driver.decide(env, towards, np.zeros(2))
            was_overridden |= decision.is_overridden
            before = ego
            env.step({"ego": decision.action, "partner": np.zeros(2)})
            after = env.unwrapped.position("ego")  # type: ignore[attr-defined]
            np.testing.assert_array_equal(after, before + decision.action * 0.1)
        assert np.linalg.norm(after - partner) >= 0.2 - 1e-9, "the discs touch"
    assert was_overridden


def test_a_task_without_hooks_has_no_stack_and_says_so():
    with pytest.raises(ValueError, match=r"lacks build_control_models, build_bounds.*safety\.enabled=false"):
        build_safety_driver(PlainEnv(ego=box(2), partner=box(2)), planar_config(safety={"enabled": True}))  # type: ignore[arg-type]


def test_an_ego_that_the_environment_does_not_know_is_refused():
    cfg = planar_config(safety={"enabled": True})
    with pytest.raises(ValueError, match="ego"):
        build_safety_driver(MPECooperativePushEnv(agent_uids=("a", "b")), cfg)


def test_importing_the_runner_needs_no_extra_and_using_it_says_which():
    code = """
import sys
for name in ("gymnasium", "torch", "hydra", "omegaconf", "structlog", "wandb", "mujoco"):
    sys.modules[name] = None
from chamber.benchmarks.training_runner import build_env
from concerto.training.config import EnvConfig
try:
    build_env(EnvConfig(task="mpe_cooperative_push"), root_seed=0)
except ImportError as error:
    assert "pip install" in str(error) and "ripieno-concerto[" in str(error), error
else:
    raise SystemExit("nothing was refused")
"""
    subprocess.run([sys.executable, "-c", code], check=True)
