"""The erratic co-carry partner: the hand of the reference, an elbow that swings, and the contract of partners."""

from __future__ import annotations

import numpy as np
import pytest

from chamber.agents._chain import SerialChain
from chamber.agents._chain_tables import CHAINS
from chamber.partners.api import PartnerSpec
from chamber.partners.cocarry_erratic import COCARRY_ERRATIC_CLASS
from chamber.partners.registry import list_registered, load_partner
from chamber.sim.robots import robot_model

READY = robot_model("panda_partner").ready_qpos
CHAIN = SerialChain(CHAINS["panda"])
EXTRA = {"uid": "panda_partner", "base_xyz": "0.5,0.0,0.0", "base_yaw_deg": "180", "end_sign": "-1"}


def _partner(key: str = COCARRY_ERRATIC_CLASS, **extra: str):
    return load_partner(PartnerSpec(key, 0, None, None, {**EXTRA, **extra}))


def _observation(qpos: np.ndarray, goal: tuple[float, float, float] | None = None) -> dict[str, object]:
    """Give an observation; without a goal, the hand is where it belongs already."""
    hand = CHAIN.tcp_position(qpos[:7])
    here = (0.5 - hand[0] + 0.115, -hand[1], hand[2])
    return {
        "agent": {"panda_partner": {"qpos": qpos[None].astype(np.float32)}},
        "extra": {"goal_pos": np.array([here if goal is None else goal], dtype=np.float32)},
    }


def test_it_is_there_in_any_process() -> None:
    assert COCARRY_ERRATIC_CLASS in list_registered()


def test_a_swing_moves_the_elbow_forward_and_not_the_hand() -> None:
    action = _partner(rest_calls="3").act(_observation(READY))
    step = 0.1 * action[:7].astype(float)
    hand = CHAIN.jacobian(READY[:7])[:3] @ step
    elbow = CHAIN.point_jacobian(READY[:7], 4, (0.0, 0.0, 0.0)) @ step
    assert np.linalg.norm(hand) < 1e-3
    assert 0.005 < elbow[0] <= 0.35 * 0.05 + 1e-6
    assert action[7] == 1.0


def test_it_swings_there_and_back_and_then_rests() -> None:
    partner, reference = _partner(swing_calls="5", rest_calls="6"), _partner("cocarry_impedance")
    qpos, elbows, swings = READY.copy(), [], []
    goal = tuple(np.asarray(_observation(READY)["extra"]["goal_pos"])[0])  # type: ignore[index]
    for _ in range(16):
        obs = _observation(qpos, goal)
        action, plain = partner.act(obs), reference.act(obs)
        swings.append(bool(np.abs(action - plain).max() > 1e-6))
        qpos[:7] += 0.04 * action[:7]  # what a drive does with such a command
        elbows.append(CHAIN.link_transforms(qpos[:7])[4][0, 3])
    assert swings[:5] == [True] * 5
    assert swings[10:] == [False] * 6
    assert np.diff(elbows[:5]).min() > 0.0
    assert elbows[9] < elbows[4]


def test_equal_observations_since_a_reset_give_equal_actions() -> None:
    partner = _partner()
    goal = (0.0, 0.1, 0.3)
    rng = np.random.default_rng(0)
    seen = [_observation(READY + rng.normal(size=9) * 0.05, goal) for _ in range(70)]
    first = [partner.act(obs) for obs in seen]
    partner.reset(seed=4)
    second = [partner.act(obs) for obs in seen]
    np.testing.assert_array_equal(first, second)
    assert np.isfinite(first).all()
    assert np.abs(first).max() <= 1.0


def test_without_what_it_needs_it_stands_still_and_its_clock_too() -> None:
    partner, fresh = (_partner(swing_calls="1", rest_calls="9") for _ in range(2))
    np.testing.assert_array_equal(partner.act({"agent": {}}), [0, 0, 0, 0, 0, 0, 0, 1])
    unreadable = _observation(np.full(9, np.nan), (0.0, 0.1, 0.3))
    np.testing.assert_array_equal(partner.act(unreadable), [0, 0, 0, 0, 0, 0, 0, 1])
    obs = _observation(READY, (0.0, 0.1, 0.3))
    np.testing.assert_array_equal(partner.act(obs), fresh.act(obs))


def test_a_batch_gives_the_rows_of_single_partners() -> None:
    goals = np.array([[0.0, 0.1, 0.3], [0.02, 0.1, 0.28]])
    batch, *singles = (_partner(swing_calls="2", rest_calls="2") for _ in range(3))
    rng = np.random.default_rng(1)
    for _ in range(8):
        qpos = READY + rng.normal(size=(2, 9)) * 0.05
        together = batch.act_batch({"agent": {"panda_partner": {"qpos": qpos}}, "extra": {"goal_pos": goals}})
        for row, single in enumerate(singles):
            alone = single.act({"agent": {"panda_partner": {"qpos": qpos[row]}}, "extra": {"goal_pos": goals[row]}})
            np.testing.assert_array_equal(together[row], alone)


def test_an_environment_of_a_batch_that_begins_anew_begins_with_a_swing() -> None:
    goals = np.array([[0.0, 0.1, 0.3]] * 2)
    seen = {"agent": {"panda_partner": {"qpos": np.tile(READY, (2, 1))}}, "extra": {"goal_pos": goals}}
    batch, reference = _partner(swing_calls="1", rest_calls="9"), _partner("cocarry_impedance")
    for _ in range(3):
        batch.act_batch(seen)
        plain = reference.act_batch(seen)
    batch.reset_rows([1])
    reference.reset_rows([1])
    found, plain = batch.act_batch(seen), reference.act_batch(seen)
    np.testing.assert_array_equal(found[0], plain[0])
    assert np.abs(found[1] - plain[1]).max() > 1e-3


@pytest.mark.parametrize(
    "extra", [{"swing_speed": "-1"}, {"swing_calls": "0"}, {"rest_calls": "x"}, {"swing_speed": "nan"}]
)
def test_impossible_parameters_are_refused(extra: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=next(iter(extra))):
        _partner(**extra)
