"""What one robot lived through between two updates, in arrays that are allocated once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chamber.utils.pytorch import torch
from ripieno.errors import InputError

__all__ = ["RolloutBuffer"]

Float32Array = NDArray[np.float32]
BoolArray = NDArray[np.bool_]

_SERIES = ("obs", "actions", "executed", "rewards", "terminated", "truncated")


class RolloutBuffer:
    """T steps of N environments; row t holds what was seen, proposed, done and earned at step t.

    A step is written in two parts: `propose` when the robot acts, `complete` when the environment has answered. A
    second `propose` replaces the first. Rows are added when there are more steps than ``capacity``.

    The arrays lie in PyTorch's memory, which begins at multiples of 64 bytes: libraries choose the order of their sums
    by that, and two runs must not differ in it.

    Args:
        n_envs: N.
        obs_dim: width O of an observation.
        action_dim: width A of an action.
        capacity: steps to allocate.

    Attributes:
        n_steps: complete steps.
        is_pending: whether a proposal waits for its answer.
        obs: shape ``(capacity, N, O)``.
        actions: proposed actions, shape ``(capacity, N, A)``.
        executed: executed actions, shape ``(capacity, N, A)``; valid if ``has_executed``.
        has_executed: whether executed actions are known.
        rewards: shape ``(capacity, N)``.
        terminated: whether the step truly ended the episode, shape ``(capacity, N)``.
        truncated: whether a time limit ended it, shape ``(capacity, N)``.
        next_obs: what was seen after the last complete step, shape ``(N, O)``.
    """

    obs: Float32Array
    actions: Float32Array
    executed: Float32Array
    rewards: Float32Array
    terminated: BoolArray
    truncated: BoolArray

    def __init__(self, *, n_envs: int, obs_dim: int, action_dim: int, capacity: int) -> None:
        self.n_envs = n_envs
        self.obs_dim = obs_dim
        self.action_dim = action_dim
        self._allocate(capacity)
        self.next_obs: Float32Array = _array((n_envs, obs_dim), torch.float32)
        self._final_obs: list[tuple[int, int, Float32Array]] = []
        self.n_steps = 0
        self.is_pending = False
        self.has_executed = False

    def propose(self, obs: Float32Array, actions: Float32Array) -> None:
        """Write what the robot saw, shape ``(N, O)``, and the action that it proposed, shape ``(N, A)``."""
        row = self.n_steps
        if row == len(self.rewards):
            self._grow()
        self.obs[row] = obs
        self.actions[row] = actions
        self.is_pending = True

    def complete(
        self,
        next_obs: Float32Array,
        rewards: Float32Array | float,
        *,
        terminated: BoolArray | bool = False,
        truncated: BoolArray | bool = False,
        final_obs: Float32Array | None = None,
        executed: Float32Array | None = None,
    ) -> None:
        """Write the answer to the last proposal.

        Args:
            next_obs: what is seen now, shape ``(N, O)``.
            rewards: shape ``(N,)``, or one number for one environment.
            terminated: whether the episode truly ended, likewise.
            truncated: whether a time limit ended it (and nothing else), likewise.
            final_obs: last observations of the episodes, shape ``(N, O)``; rows count where ``truncated``.
            executed: the action that the environment got, shape ``(N, A)``; ``None`` for the proposed one.
        """
        row = self.n_steps
        self.next_obs[...] = next_obs
        self.rewards[row] = rewards
        self.terminated[row] = terminated
        self.truncated[row] = truncated
        if final_obs is not None:
            self._final_obs.extend(
                (row, env, final_obs[env].copy()) for env in self.truncated[row].nonzero()[0].tolist()
            )
        if executed is not None and not self.has_executed:
            self.has_executed = True
            self.executed[:row] = self.actions[:row]
        if self.has_executed:
            self.executed[row] = self.actions[row] if executed is None else executed
        self.n_steps = row + 1
        self.is_pending = False

    def observations_to_value(self) -> tuple[torch.Tensor, tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Give every observation whose value an update needs, so that a critic is called once.

        Returns:
            The T * N observations of the steps in time order, then the N after the last step, then one for each
            episode that a time limit ended, shape ``(T N + N + K, O)``; and the steps and environments of those K.
        """
        n = self.n_steps * self.n_envs
        rows = torch.empty((n + self.n_envs + len(self._final_obs), self.obs_dim))
        flat = rows.numpy()
        flat[:n] = self.obs[: self.n_steps].reshape(n, -1)
        flat[n : n + self.n_envs] = self.next_obs
        for k, (_, _, obs) in enumerate(self._final_obs):
            flat[n + self.n_envs + k] = obs
        steps = np.array([step for step, _, _ in self._final_obs], dtype=np.int64)
        envs = np.array([env for _, env, _ in self._final_obs], dtype=np.int64)
        return rows, (steps, envs)

    def flat_actions(self) -> torch.Tensor:
        """Give the proposed actions in time order, shape ``(T N, A)``; a view."""
        return torch.from_numpy(self.actions[: self.n_steps].reshape(-1, self.action_dim))

    def override_metrics(self) -> dict[str, float]:
        """Say how often what was executed was not what was proposed, and how far off it was on average then.

        Returns:
            ``override_rate`` and ``override_norm_mean`` (0 without an override); nothing where executed actions are not
            known.
        """
        if not self.has_executed:
            return {}
        differences = (self.executed[: self.n_steps] - self.actions[: self.n_steps]).astype(np.float64)
        norms = np.linalg.norm(differences, axis=2)
        n_overrides = int(np.count_nonzero(norms))
        return {
            "override_rate": n_overrides / norms.size,
            "override_norm_mean": float(norms.sum()) / n_overrides if n_overrides else 0.0,
        }

    def clear(self) -> None:
        """Forget all complete steps and the observation after them; a pending proposal moves to the front."""
        if self.is_pending:
            self.obs[0] = self.obs[self.n_steps]
            self.actions[0] = self.actions[self.n_steps]
        self._final_obs.clear()
        self.n_steps = 0
        self.has_executed = False

    def state_dict(self) -> dict[str, Any]:
        """Give a copy of the contents as tensors and plain values."""
        n = self.n_steps + self.is_pending
        return {
            "n_steps": self.n_steps,
            "is_pending": self.is_pending,
            "has_executed": self.has_executed,
            "next_obs": torch.from_numpy(self.next_obs.copy()),
            "final_obs_places": torch.tensor([[step, env] for step, env, _ in self._final_obs]).reshape(-1, 2),
            "final_obs": torch.from_numpy(
                np.array([obs for _, _, obs in self._final_obs], np.float32).reshape(-1, self.obs_dim)
            ),
            **{name: torch.from_numpy(getattr(self, name)[:n].copy()) for name in _SERIES},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over saved contents.

        Raises:
            InputError: they come from another number of environments or from other widths, or are no numbers; nothing
                has changed then.
        """
        n = int(state["n_steps"]) + bool(state["is_pending"])
        for name in _SERIES:
            expected = (n, *getattr(self, name).shape[1:])
            if tuple(state[name].shape) != expected:
                raise InputError(f"the saved rollout's {name} have shape {tuple(state[name].shape)}, not {expected}")
        seen = (state["obs"], state["actions"], state["rewards"][: int(state["n_steps"])])
        if not all(np.isfinite(values.numpy()).all() for values in seen):
            raise InputError("the saved rollout's observations, actions and rewards must be finite")
        while n > len(self.rewards):
            self._grow()
        for name in _SERIES:
            getattr(self, name)[:n] = state[name].numpy()
        self.next_obs[...] = state["next_obs"].numpy()
        self._final_obs = [
            (int(step), int(env), obs.numpy().copy())
            for (step, env), obs in zip(state["final_obs_places"].tolist(), state["final_obs"], strict=True)
        ]
        self.n_steps = int(state["n_steps"])
        self.is_pending = bool(state["is_pending"])
        self.has_executed = bool(state["has_executed"])

    def _allocate(self, capacity: int) -> None:
        n, o, a = self.n_envs, self.obs_dim, self.action_dim
        self.obs = _array((capacity, n, o), torch.float32)
        self.actions = _array((capacity, n, a), torch.float32)
        self.executed = _array((capacity, n, a), torch.float32)
        self.rewards = _array((capacity, n), torch.float32)
        self.terminated = _array((capacity, n), torch.bool)
        self.truncated = _array((capacity, n), torch.bool)

    def _grow(self) -> None:
        old = {name: getattr(self, name) for name in _SERIES}
        self._allocate(2 * len(self.rewards))
        for name, array in old.items():
            getattr(self, name)[: len(array)] = array


def _array(shape: tuple[int, ...], dtype: torch.dtype) -> NDArray[Any]:
    return torch.zeros(shape, dtype=dtype).numpy()
