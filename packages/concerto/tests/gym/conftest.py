"""The environment of these tests: two double integrators on a plane, the ego and one partner."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from concerto.safety import AgentSnapshot, Bounds, DoubleIntegratorControlModel

DT = 0.1
RADIUS = 0.2


class TwoIntegratorsEnv(gym.Env[Any, Any]):
    """The ego accelerates as it is told; the partner as it is told, or at random within 1 m/s^2.

    With ``uid_actions`` the action is a dict with a Box for the ego and one for the partner.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 - Gymnasium declares it per instance
    control_timestep = DT

    def __init__(
        self, *, distance: float = 2.0, n_steps: int = 40, uid_actions: bool = False, dtype: Any = np.float32
    ) -> None:
        self.distance = distance
        self.n_steps = n_steps
        self.received: list[Any] = []
        accel = spaces.Box(-1.0, 1.0, (2,), dtype)
        self.action_space = spaces.Dict({"ego": accel, "human": accel}) if uid_actions else accel
        self.observation_space = spaces.Box(-1e6, 1e6, (8,), np.float64)
        self.positions = np.zeros((2, 2))
        self.velocities = np.zeros((2, 2))
        self.accelerations = np.zeros((2, 2))
        self.n_done = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        angle = self.np_random.uniform(0.0, 2.0 * np.pi)
        self.positions = np.array([[0.0, 0.0], [self.distance * np.cos(angle), self.distance * np.sin(angle)]])
        self.velocities = np.zeros((2, 2))
        self.n_done = 0
        return self._observation(), {}

    def step(self, action: Any) -> Any:
        self.received.append(action)
        random = self.np_random.uniform(-0.7, 0.7, 2)
        ego, human = (action["ego"], action["human"]) if isinstance(action, dict) else (action, random)
        self.accelerations = np.array([ego, human], dtype=np.float64)
        self.positions = self.positions + DT * self.velocities + 0.5 * DT**2 * self.accelerations
        self.velocities = self.velocities + DT * self.accelerations
        self.n_done += 1
        reward = -float(np.linalg.norm(self.positions[0] - self.positions[1]))
        return self._observation(), reward, False, self.n_done >= self.n_steps, {}

    def _observation(self) -> Any:
        return np.concatenate([self.positions.ravel(), self.velocities.ravel()])

    def build_control_models(self) -> dict[str, DoubleIntegratorControlModel]:
        return {uid: DoubleIntegratorControlModel(uid, 2) for uid in ("ego", "human")}

    def build_bounds(self) -> Bounds:
        return Bounds(1.0, 1.0, 10.0, 0.0, 50.0)

    def build_agent_snapshots(self) -> dict[str, AgentSnapshot]:
        return {
            uid: AgentSnapshot(self.positions[index].copy(), self.velocities[index].copy(), RADIUS)
            for index, uid in enumerate(("ego", "human"))
        }


@pytest.fixture(scope="session")
def make_env() -> Callable[..., TwoIntegratorsEnv]:
    return TwoIntegratorsEnv
