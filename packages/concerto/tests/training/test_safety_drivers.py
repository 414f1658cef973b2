"""The safety layer of a run: how it is wired, what a step of it does, and that it sees the world that moves."""

from __future__ import annotations

import functools
import math
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parent / "loop_parts"))

from loop_parts import ScriptedEnv, StillPartner, VectorWalks, config, events_of, planar_env, planar_stack_driver

from concerto.safety import (
    AgentSnapshot,
    Bounds,
    DoubleIntegratorControlModel,
    SafetyStack,
    SafetyState,
    make_lambda_dict,
)
from concerto.safety.cbf_qp import ExpCBFQP
from concerto.safety.conformal import update_lambda_from_predictor
from concerto.safety.emergency import CartesianAccelEmergencyController
from concerto.safety.stopping import PartnerMotionBound
from concerto.training.ego_aht import FilterDriver, RandomEgoTrainer, StackDriver, train
from concerto.training.safety_telemetry import AuditExit, audit_gate

BOUNDS = Bounds(
    action_linf_component=1.0, cartesian_accel_capacity=1.0, action_rate=10.0, comm_latency_ms=0.0, force_limit=50.0
)
DT = 0.05
MODELS = {uid: DoubleIntegratorControlModel(uid, 2) for uid in ("ego", "partner")}
NOMINAL = np.array([1.0, 0.0], dtype=np.float32)
STILL = np.zeros(2, dtype=np.float32)


class Discs(ScriptedEnv):
    """Two discs on a line with a fixed gap between the surfaces and a fixed speed of the ego towards the partner."""

    def __init__(self, *, gap: float = 5.0, speed: float = 0.0, ends=None) -> None:
        super().__init__(ends)
        self.gap = gap
        self.speed = speed

    def build_agent_snapshots(self) -> dict[str, AgentSnapshot]:
        drift = 0.01 * self.n_steps
        return {
            "ego": AgentSnapshot(np.array([drift, 0.0]), np.array([self.speed, 0.0]), 0.1),
            "partner": AgentSnapshot(np.array([0.2 + self.gap + drift, 0.0]), np.zeros(2), 0.1),
        }


class CountingFilter:
    """The documented filter, and how often it was asked."""

    def __init__(self) -> None:
        self.inner = ExpCBFQP.ego_only(control_models=MODELS)
        self.calls = []
        self.reset_seeds = []

    def reset(self, *, seed=None):
        self.reset_seeds.append(seed)
        self.inner.reset(seed=seed)

    def filter(self, proposed_action, obs, state, bounds, **kwargs):
        self.calls.append((proposed_action, obs, kwargs))
        return self.inner.filter(proposed_action, obs, state, bounds, **kwargs)


def snapshots_of(env):
    return env.build_agent_snapshots()


def new_state():
    return SafetyState(make_lambda_dict(("ego", "partner"), ego_uid="ego"))


def parts(**changes):
    return {
        "safety_filter": CountingFilter(),
        "safety_state": new_state(),
        "safety_bounds": BOUNDS,
        "safety_snapshot_builder": snapshots_of,
        "safety_dt": DT,
        **changes,
    }


def filter_driver(**changes):
    settings = {
        "safety_filter": CountingFilter(),
        "state": new_state(),
        "bounds": BOUNDS,
        "snapshot_builder": snapshots_of,
        "dt": DT,
        "ego_uid": "ego",
        "partner_uid": "partner",
        "partner_id": "still",
        "lambda_bound": 0.7,
    }
    return FilterDriver(**{**settings, **changes})


def stack(**settings):
    return SafetyStack(
        ego_uid="ego", control_models=MODELS, bounds=BOUNDS, dt=DT,
        partner_motion=PartnerMotionBound(max_acceleration=1.0, max_speed=1.0), **settings,
    )  # fmt: skip


def run(cfg, env, **kwargs):
    return train(cfg, env=env, partner=StillPartner(), trainer_factory=forward_ego, **kwargs)


def forward_ego(*_, **__):
    class Forward(RandomEgoTrainer):
        def __init__(self):
            super().__init__(ego_uid="ego", action_dim=2, root_seed=0)
            self.executed = []

        def act(self, obs, *, deterministic=False):
            return NOMINAL

        def observe(self, obs, reward, done, *, truncated=False, final_obs=None, executed_action=None):
            self.executed.append(executed_action)

    return Forward()


ON = {"safety": {"enabled": True}}


# --- wiring -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("left_out", ["safety_filter", "safety_state", "safety_bounds", "safety_dt"])
def test_some_parts_of_five_are_refused_before_anything_exists(tmp_path, left_out):
    cfg = config(tmp_path, **ON)
    built = []
    with pytest.raises(ValueError, match=f"missing: {left_out}"):
        train(
            cfg, env=Discs(), partner=StillPartner(), trainer_factory=lambda *_, **__: built.append(1),
            **parts(**{left_out: None}),
        )  # fmt: skip
    assert not built
    assert not cfg.log_dir.exists()


def test_all_parts_with_safety_off_are_refused(tmp_path):
    for given in (parts(), {"safety_builder": planar_stack_driver}):
        with pytest.raises(ValueError, match=r"safety\.enabled is false"):
            run(config(tmp_path), Discs(), **given)
    assert not (tmp_path / "logs").exists()


def test_no_parts_with_safety_on_are_refused(tmp_path):
    with pytest.raises(ValueError, match="there is no safety layer"):
        run(config(tmp_path, **ON), Discs())


def test_several_copies_with_safety_on_are_refused(tmp_path):
    cfg = config(tmp_path, **ON)
    vectorised = cfg.model_copy(update={"env": cfg.env.model_copy(update={"num_envs": 2})})
    for given in (parts(), {}):
        with pytest.raises(ValueError, match="not vectorised"):
            run(vectorised, VectorWalks(2), **given)


def test_parts_and_a_builder_at_once_are_refused(tmp_path):
    with pytest.raises(ValueError, match="not both"):
        run(config(tmp_path, **ON), Discs(), safety_builder=planar_stack_driver, **parts())


def test_a_partial_set_is_noticed_first(tmp_path):
    with pytest.raises(ValueError, match="missing: safety_dt"):
        run(config(tmp_path), Discs(), **parts(safety_dt=None))


# --- a builder must read the environment that is stepped ----------------------------------------------------


def builders_bound_to(other):
    """Every way in which a builder can hold on to an environment."""

    def closing_over(_):
        return other.build_agent_snapshots()

    def reading(held, _):
        return held.build_agent_snapshots()

    method = other.build_agent_snapshots
    return {
        "closure": closing_over,
        "lambda": lambda _: other.build_agent_snapshots(),
        "method": lambda _: method(),
        "partial": functools.partial(reading, other),
        "partial of a closure": functools.partial(closing_over),
        "wrapped": lambda env: closing_over(env),  # noqa: PLW0108 - one more layer
    }


@pytest.mark.parametrize("way", builders_bound_to(Discs()))
def test_a_builder_that_reads_another_environment_is_refused(tmp_path, way):
    cfg, env = config(tmp_path, **ON), Discs()
    with pytest.raises(ValueError, match=r"reads another environment \(Discs\)"):
        run(cfg, env, **parts(safety_snapshot_builder=builders_bound_to(Discs())[way]))
    with pytest.raises(ValueError, match="reads another environment"):
        run(cfg, env, safety_builder=lambda _: StackDriver(stack(), builders_bound_to(Discs())[way]))
    assert not cfg.log_dir.exists()


@pytest.mark.parametrize("way", builders_bound_to(Discs()))
def test_a_builder_that_holds_on_to_the_stepped_environment_is_fine(tmp_path, way):
    env = Discs()
    run(config(tmp_path, **ON), env, **parts(safety_snapshot_builder=builders_bound_to(env)[way]))


def test_a_builder_may_hold_the_inner_environment_of_the_stepped_one(tmp_path):
    class Wrapper:
        def __init__(self, env):
            self.env = env
            self.reset, self.step = env.reset, env.step

    inner = Discs()
    driver = filter_driver(snapshot_builder=lambda _: inner.build_agent_snapshots())
    driver.bind(Wrapper(inner))
    with pytest.raises(ValueError, match="another environment"):
        driver.bind(Wrapper(Discs()))


def test_a_driver_that_is_given_another_environment_looks_again():
    env = Discs()
    driver = StackDriver(stack(), lambda _: env.build_agent_snapshots())
    driver.start_run(0)
    driver.decide(env, NOMINAL, STILL)
    with pytest.raises(ValueError, match="another environment"):
        driver.decide(Discs(), NOMINAL, STILL)


def test_a_builder_that_holds_the_stack_itself_is_fine():
    safety_stack = stack()  # which has `reset` and `step`, like an environment
    driver = StackDriver(safety_stack, lambda env: env.build_agent_snapshots() if safety_stack else {})
    driver.bind(Discs())


# --- one step of the documented filter ----------------------------------------------------------------------


def test_a_step_that_brakes_does_not_ask_the_filter(tmp_path):
    env = Discs(gap=0.05, speed=1.0)  # contact in 50 ms
    cfg = config(tmp_path, total_frames=1, happo={"rollout_length": 1, "batch_size": 1}, **ON)
    given = parts()
    result = run(cfg, env, **given)
    assert given["safety_filter"].calls == []
    (action,) = env.actions
    assert action["ego"].tolist() == [-1.0, 0.0]
    assert action["ego"].dtype == np.float32
    assert action["partner"].tolist() == [0.0, 0.0]
    (window,) = events_of(cfg, "safety_telemetry")
    assert (window["n_braking_fires"], window["n_fallback_fires"], window["n_qp_infeasible"]) == (1, 0, 0)
    assert result.trainer.executed[0] is action["ego"]


def test_an_infeasible_step_may_pass_the_nominal_action_when_that_is_asked_for():
    driver = filter_driver(infeasible_policy="nominal")
    decision = driver.decide(Discs(gap=1.0, speed=5.0), NOMINAL, STILL)  # contact in 200 ms, and no way to stop
    assert decision.action is NOMINAL
    assert decision[1:] == (False, False, True, False)


def test_an_infeasible_step_brakes_and_both_are_counted(tmp_path):
    decision = filter_driver().decide(Discs(gap=1.0, speed=5.0), NOMINAL, STILL)
    assert decision.action.tolist() == [-1.0, 0.0]
    assert decision.action.dtype == np.float32
    assert decision.qp_infeasible
    assert decision.braking_fired
    assert decision.is_overridden
    cfg = config(tmp_path, total_frames=2, **ON)
    result = run(cfg, Discs(gap=1.0, speed=5.0), **parts())
    summary = result.context.safety_telemetry
    assert (summary["n_qp_infeasible"], summary["n_braking_fires"], summary["n_filter_calls"]) == (2, 2, 2)


def test_braking_never_turns_the_ego_round():
    controllers = {"ego": CartesianAccelEmergencyController(), "partner": CartesianAccelEmergencyController()}
    driver = filter_driver(emergency_controllers=controllers)
    slow = AgentSnapshot(np.zeros(2), np.array([0.3 * DT, 0.4 * DT]), 0.1)
    np.testing.assert_allclose(driver._braking(slow), [-0.3, -0.4], rtol=1e-12)  # at rest after one step
    fast = AgentSnapshot(np.zeros(2), np.array([3.0, 4.0]), 0.1)
    np.testing.assert_allclose(driver._braking(fast), [-0.6, -0.8], rtol=1e-12)
    assert driver._braking(AgentSnapshot(np.zeros(2), np.zeros(2), 0.1)).tolist() == [0.0, 0.0]


def test_an_unneeded_filter_hands_on_the_very_action(tmp_path):
    driver = filter_driver()
    driver.start_run(0)
    driver.start_episode()
    decision = driver.decide(Discs(), NOMINAL, STILL)
    assert decision.action is NOMINAL
    assert not decision.is_overridden
    ((proposed, obs, given),) = driver._filter.calls
    assert proposed.dtype == np.float64
    assert obs["meta"] == {"partner_id": "still"}
    assert (given["ego_uid"], given["dt"], list(given["partner_predicted_states"])) == ("ego", DT, ["partner"])


class Wandering(ScriptedEnv):
    """Two discs whose velocities change at every step, so that no constant-velocity forecast is right."""

    def build_agent_snapshots(self):
        wave = math.sin(1.7 * self.n_steps + len(self.reset_seeds))
        return {
            "ego": AgentSnapshot(np.array([0.1 * wave, 0.0]), np.array([0.3 * wave, 0.1]), 0.1),
            "partner": AgentSnapshot(np.array([1.5 + 0.4 * wave, 0.0]), np.array([-0.9 * wave, 0.2]), 0.1),
        }


def test_every_step_makes_the_documented_calls_with_the_settings_of_the_run(tmp_path):
    safety = {"enabled": True, "cbf_gamma": 3.0, "clamp_floor_ratio": 0.2}
    given = parts(safety_state=SafetyState(make_lambda_dict(("ego", "partner"), ego_uid="ego"), -0.05, 0.1, 3))
    asked = []

    class Watched(CountingFilter):
        def filter(self, proposed_action, obs, state, bounds, **kwargs):
            asked.append((dict(state.lambda_), obs["agent_states"], kwargs))
            return super().filter(proposed_action, obs, state, bounds, **kwargs)

    given["safety_filter"] = Watched()
    cfg = config(tmp_path, seed=5, total_frames=12, safety=safety)
    run(cfg, Wandering({6: "truncated"}), **given)
    assert given["safety_filter"].reset_seeds == [5, 5]
    assert len(asked) == 12

    exact = SafetyState(make_lambda_dict(("ego", "partner"), ego_uid="ego"), -0.05, 0.1, 3)
    slacks = []
    for step, (slack, now, options) in enumerate(asked):
        if step not in {0, 6}:
            update_lambda_from_predictor(
                exact, now, asked[step - 1][1], alpha_pair=2.0 * BOUNDS.cartesian_accel_capacity, gamma=3.0, dt=DT,
                in_warmup=exact.warmup_steps_remaining > 0, lambda_bound=0.2, ego_uid="ego",
            )  # fmt: skip
        assert slack == exact.lambda_
        forecast = options["partner_predicted_states"]["partner"]
        np.testing.assert_array_equal(forecast.position, now["partner"].position + DT * now["partner"].velocity)
        slacks.append(slack["ego", "partner"])
    assert len(set(slacks)) > 4, "the slack has to move"
    assert max(map(abs, slacks)) == 0.2, "and to reach its clamp"


@pytest.mark.parametrize(("tau_brake", "brakes"), [(0.04, False), (0.06, True)])
def test_braking_begins_at_the_configured_time_to_collision(tmp_path, tau_brake, brakes):
    given = parts()
    cfg = config(tmp_path, total_frames=1, safety={"enabled": True, "tau_brake": tau_brake})
    run(cfg, Discs(gap=0.05, speed=1.0), **given)  # contact in 50 ms
    assert (given["safety_filter"].calls == []) is brakes


def test_a_fallback_of_the_filter_is_counted():
    class FallsBack(CountingFilter):
        def filter(self, proposed_action, *_, **__):
            return proposed_action, {"fallback_fired": True}

    driver = filter_driver(safety_filter=FallsBack())
    assert driver.decide(Discs(), NOMINAL, STILL)[1:] == (False, True, False, False)


def test_an_unknown_policy_is_refused():
    with pytest.raises(ValueError, match="infeasible_policy must be"):
        filter_driver(infeasible_policy="pray")


# --- the slack over a run -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["filter", "stack"])
def test_the_slack_is_not_updated_over_a_reset_and_lives_as_long_as_the_run(tmp_path, kind):
    class Watched:
        """A driver whose slack is noted after every decision."""

        def __init__(self, driver):
            self.driver = driver
            self.history = []

        def __getattr__(self, name):
            return getattr(self.driver, name)

        def decide(self, *args):
            decision = self.driver.decide(*args)
            self.history.append(self.driver.lambda_["ego", "partner"])
            return decision

    driver = Watched(filter_driver() if kind == "filter" else StackDriver(stack(), snapshots_of))
    env = Discs(ends={3: "terminated", 7: "truncated"})
    run(config(tmp_path, total_frames=10, **ON), env, safety_builder=lambda _: driver)
    steps_with_update = [step + 1 for step, change in enumerate(np.diff([0.0, *driver.history])) if change != 0.0]
    assert steps_with_update == [2, 3, 5, 6, 7, 9, 10]
    assert len(env.reset_seeds) == 3


def test_a_run_with_the_five_parts_records_the_documented_telemetry(tmp_path):
    cfg = config(tmp_path, total_frames=64, safety={"enabled": True, "clamp_floor_ratio": 0.5})
    given = parts()
    run(cfg, Discs(ends=dict.fromkeys(range(8, 65, 8), "truncated")), **given)
    assert given["safety_state"].lambda_ != {("ego", "partner"): 0.0}
    windows = events_of(cfg, "safety_telemetry")
    assert [window["n_obs"] for window in windows] == [32, 32]
    (final,) = events_of(cfg, "safety_telemetry_final")
    assert final["safety_enabled"] is True
    assert (final["n_filter_calls"], final["lambda_clamp_bound"]) == (64, 0.5)
    assert final["cartesian_accel_capacity"] == 1.0
    (path,) = cfg.log_dir.glob("*.jsonl")
    assert audit_gate(path).exit_code is AuditExit.PASSED
    names = [event["event"] for event in events_of(cfg)]
    first = names.index("safety_telemetry")
    assert names[first : first + 3] == ["safety_telemetry", "rollout_update", "scalar"]


@pytest.mark.parametrize("kind", ["filter", "stack"])
def test_a_driver_goes_on_from_its_state(kind):
    def make():
        return filter_driver() if kind == "filter" else StackDriver(stack(), snapshots_of, partner_id="p")

    def history(driver, env, n_steps):
        slacks = []
        for env.n_steps in range(n_steps):
            driver.decide(env, NOMINAL, STILL)
            slacks.append(driver.lambda_["ego", "partner"])
        return slacks

    first, second = make(), make()
    first.start_run(0)
    history(first, Discs(speed=0.5), 7)
    second.start_run(0)
    second.load_state(first.state())
    for driver in (first, second):
        driver.start_episode()
    assert second.state() == first.state()
    assert history(second, Discs(), 9) == history(first, Discs(), 9)


# --- the stack ----------------------------------------------------------------------------------------------


def test_the_stack_answers_in_the_certified_type_and_says_what_it_did():
    driver = StackDriver(stack(), snapshots_of)
    driver.start_run(0)
    assert driver.lambda_ == {}
    free = driver.decide(Discs(), NOMINAL, STILL)
    assert free.action.dtype == np.float64
    assert free.action.tolist() == [1.0, 0.0]
    assert not free.is_overridden
    near = driver.decide(Discs(gap=0.2, speed=0.5), NOMINAL, STILL)
    assert near.is_overridden
    assert near.action[0] < 1.0
    assert (driver.capacity, driver.lambda_bound) == (1.0, 0.7)


def test_an_action_that_a_wall_would_cut_short_is_replaced(tmp_path):
    cfg = config(tmp_path, total_frames=200, env={"task": "mpe_cooperative_push", "episode_length": 100}, **ON)
    env = planar_env(cfg)
    cut_short = []
    step = env.step

    def watched(action):
        before = env.position("ego")
        outcome = step(action)
        moved = env.position("ego") - before
        cut_short.append(not np.allclose(moved, action["ego"] * env.control_timestep, atol=1e-12))
        return outcome

    env.step = watched
    run(cfg, env, safety_builder=planar_stack_driver)
    assert not any(cut_short)
    unguarded = planar_env(cfg)
    unguarded.reset(seed=cfg.seed)
    driver = planar_stack_driver(unguarded)
    driver.start_run(0)
    overridden = []
    for _ in range(30):
        decision = driver.decide(unguarded, NOMINAL, STILL)
        overridden.append(decision.is_overridden)
        unguarded.step({"ego": decision.action, "partner": STILL})
    assert overridden[-1]
    assert decision.action.tolist() == [0.0, 0.0]


# --- a stack that goes on -----------------------------------------------------------------------------------


def states(gap, speed):
    return Discs(gap=gap, speed=speed).build_agent_snapshots()


def test_a_restored_stack_does_what_the_first_one_does():
    settings = {"n_warmup_steps": 10, "lambda_safe": -0.1}
    first, second = stack(**settings), stack(**settings)
    rng = np.random.default_rng(4)
    for gap in rng.uniform(0.5, 2.0, 6):
        first.step(NOMINAL, states(gap, 0.3), partner_id="p")
    second.restore(first.state, partner_id="p")
    first.start_episode()
    assert second.state == first.state
    assert first.state.warmup_steps_remaining == 5
    for gap in rng.uniform(0.5, 2.0, 9):
        mine, theirs = (each.step(NOMINAL, states(gap, 0.3), partner_id="p") for each in (second, first))
        assert mine.action.tobytes() == theirs.action.tobytes()
        assert mine.lambda_ == theirs.lambda_
        assert mine.source is theirs.source
    assert second.state == first.state


def test_a_restored_stack_notices_another_partner():
    first, second = stack(lambda_safe=-0.2), stack(lambda_safe=-0.2)
    for gap in (1.0, 0.9, 0.8):
        first.step(NOMINAL, states(gap, 0.3), partner_id="p")
    second.restore(first.state, partner_id="p")
    assert second.step(NOMINAL, states(0.8, 0.3), partner_id="q").lambda_ == {("ego", "partner"): -0.2}


def test_a_fresh_state_restores_a_fresh_stack():
    used = stack()
    used.step(NOMINAL, states(1.0, 0.3))
    used.restore(stack().state)
    assert used.state == stack().state


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"epsilon": 0.1}, "epsilon of the state must be the stack's"),
        ({"eta": 0.5}, "eta of the state must be the stack's"),
        ({"lambda_": {("ego", "partner"): math.nan}}, "slack of .* must be within"),
        ({"lambda_": {("ego", "partner"): 0.8}}, r"slack of .* must be within \+/- 0.7"),
        ({"lambda_": {("a", "b"): 0.0}}, "pairs of the state must be of the ego"),
        ({"warmup_steps_remaining": 99}, "warmup_steps_remaining must be a count of this stack"),
    ],
)
def test_a_state_that_cannot_be_this_stacks_is_refused_and_changes_nothing(changes, message):
    used = stack()
    used.step(NOMINAL, states(1.0, 0.3))
    used.step(NOMINAL, states(0.9, 0.3))
    before = used.state
    good = {"lambda_": {("ego", "partner"): 0.1}, "epsilon": before.epsilon, "eta": before.eta}
    with pytest.raises(ValueError, match=message):
        used.restore(SafetyState(**{**good, **changes}))
    assert used.state == before


def test_a_partner_without_a_declared_motion_cannot_be_restored():
    declared = SafetyStack(
        ego_uid="ego", control_models=MODELS, bounds=BOUNDS, dt=DT,
        partner_motion={"partner": PartnerMotionBound(max_acceleration=1.0)},
    )  # fmt: skip
    declared.step(NOMINAL, states(1.0, 0.3))
    before = declared.state
    with pytest.raises(KeyError, match="partner_motion must hold 'stranger'"):
        declared.restore(SafetyState({("ego", "stranger"): 0.0}))
    assert declared.state == before
