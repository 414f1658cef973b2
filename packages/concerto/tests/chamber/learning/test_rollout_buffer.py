"""What was lived through comes out as it went in, for any number of environments."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from chamber.learning.rollout_buffer import RolloutBuffer

OBS, ACTION = 3, 2


def _filled(n_envs: int, n_steps: int, *, capacity: int = 4) -> tuple[RolloutBuffer, dict[str, np.ndarray]]:
    """A buffer, and the same steps in plain arrays; the last environment is truncated at every third step."""
    rng = np.random.default_rng(n_envs * 100 + n_steps)
    obs = rng.normal(size=(n_steps + 1, n_envs, OBS)).astype(np.float32)
    actions = rng.normal(size=(n_steps, n_envs, ACTION)).astype(np.float32)
    rewards = rng.normal(size=(n_steps, n_envs)).astype(np.float32)
    final = rng.normal(size=(n_steps, n_envs, OBS)).astype(np.float32)
    truncated = np.zeros((n_steps, n_envs), bool)
    truncated[::3, -1] = True
    buffer = RolloutBuffer(n_envs=n_envs, obs_dim=OBS, action_dim=ACTION, capacity=capacity)
    for t in range(n_steps):
        buffer.propose(obs[t], actions[t])
        buffer.complete(obs[t + 1], rewards[t], truncated=truncated[t], final_obs=final[t])
    return buffer, {"obs": obs, "actions": actions, "rewards": rewards, "final": final, "truncated": truncated}


@pytest.mark.parametrize("n_envs", [1, 2, 3, 16, 64])
@pytest.mark.parametrize("n_steps", [1, 4, 11])
def test_it_holds_every_step_also_beyond_its_capacity(n_envs: int, n_steps: int) -> None:
    buffer, written = _filled(n_envs, n_steps)
    rows, (steps, envs) = buffer.observations_to_value()
    n = n_envs * n_steps
    np.testing.assert_array_equal(rows[: n + n_envs].reshape(n_steps + 1, n_envs, OBS), written["obs"])
    np.testing.assert_array_equal(rows[n + n_envs :], written["final"][written["truncated"]])
    np.testing.assert_array_equal((steps, envs), written["truncated"].nonzero())
    np.testing.assert_array_equal(buffer.flat_actions().reshape(n_steps, n_envs, ACTION), written["actions"])
    np.testing.assert_array_equal(buffer.rewards[:n_steps], written["rewards"])


def test_a_second_proposal_replaces_the_first_and_a_pending_one_outlives_a_clear() -> None:
    buffer, _ = _filled(1, 2)
    buffer.propose(np.zeros((1, OBS), np.float32), np.zeros((1, ACTION), np.float32))
    buffer.propose(np.ones((1, OBS), np.float32), np.ones((1, ACTION), np.float32))
    buffer.clear()
    assert buffer.is_pending
    buffer.complete(np.full((1, OBS), 2, np.float32), 5.0)
    assert buffer.n_steps == 1
    assert buffer.flat_actions().tolist() == [[1.0, 1.0]]
    assert buffer.observations_to_value()[0].tolist() == [[1.0] * OBS, [2.0] * OBS]


@pytest.mark.parametrize("n_envs", [1, 5])
def test_saved_contents_come_back_and_are_a_copy(n_envs: int) -> None:
    buffer, written = _filled(n_envs, 7)
    state = buffer.state_dict()
    buffer.rewards[:] = -1.0
    other = RolloutBuffer(n_envs=n_envs, obs_dim=OBS, action_dim=ACTION, capacity=1)
    other.load_state_dict(state)
    np.testing.assert_array_equal(other.rewards[:7], written["rewards"])
    again = other.state_dict()
    assert state.keys() == again.keys()
    for name, value in state.items():
        assert torch.equal(again[name], value) if isinstance(value, torch.Tensor) else again[name] == value


def test_contents_of_another_layout_are_refused_and_nothing_changes() -> None:
    buffer, written = _filled(2, 3)
    with pytest.raises(ValueError, match=r"obs have shape \(3, 4, 3\), not \(3, 2, 3\)"):
        buffer.load_state_dict(_filled(4, 3)[0].state_dict())
    np.testing.assert_array_equal(buffer.rewards[:3], written["rewards"])


def test_overrides_are_counted_where_executed_actions_are_known() -> None:
    buffer = RolloutBuffer(n_envs=1, obs_dim=OBS, action_dim=ACTION, capacity=4)
    executed = [None, np.array([[3.0, 4.0]], np.float32), np.zeros((1, ACTION), np.float32), None]
    for step, action in enumerate(executed):
        proposed = np.full((1, ACTION), 1 + step, np.float32)
        buffer.propose(np.zeros((1, OBS), np.float32), proposed)
        buffer.complete(np.zeros((1, OBS), np.float32), 0.0, executed=None if action is None else proposed + action)
    assert buffer.override_metrics() == {"override_rate": 0.25, "override_norm_mean": 5.0}
    buffer.clear()
    assert buffer.override_metrics() == {}
