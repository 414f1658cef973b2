"""An eager robot wants to be where a person stands: twenty episodes without and with the safety stack."""

from typing import Any

import gymnasium as gym
import numpy as np

from concerto.gym import SafetyWrapper
from concerto.safety import AgentSnapshot, Bounds, DoubleIntegratorControlModel, PartnerMotionBound

DT, RADIUS = 0.1, 0.3


class Meeting(gym.Env[Any, Any]):
    """The action is the robot's acceleration in m/s^2; the person stands still, which the robot cannot know."""

    action_space = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)
    observation_space = gym.spaces.Box(-100.0, 100.0, (2, 4), np.float64)
    control_timestep = DT

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        """Put the robot into the origin and the person somewhere around it."""
        super().reset(seed=seed)
        self.state = np.zeros((2, 4))  # x, y, vx, vy of the robot and of the person
        self.state[1, :2] = self.np_random.uniform(1.0, 4.0, 2)
        return self.state.copy(), {}

    def step(self, action: Any) -> Any:
        """Accelerate the robot for one step."""
        self.state[0, :2] += DT * self.state[0, 2:] + 0.5 * DT**2 * action
        self.state[0, 2:] += DT * action
        return self.state.copy(), -float(np.linalg.norm(self.state[0, :2] - self.state[1, :2])), False, False, {}

    def build_control_models(self) -> dict[str, DoubleIntegratorControlModel]:
        """Tell how the robot's actions move it."""
        return {"ego": DoubleIntegratorControlModel("ego", 2)}

    def build_bounds(self) -> Bounds:
        """Tell the limits of an action (first number) and of an acceleration (second)."""
        return Bounds(1.0, 1.0, 10.0, 0.0, 50.0)

    def build_agent_snapshots(self) -> dict[str, AgentSnapshot]:
        """Tell where everybody is."""
        ego, person = (AgentSnapshot(row[:2].copy(), row[2:].copy(), RADIUS) for row in self.state)
        return {"ego": ego, "person": person}


if __name__ == "__main__":
    safe = SafetyWrapper(Meeting(), partner_motion=PartnerMotionBound(max_acceleration=0.5, max_speed=1.5))
    for name, env in (("without", Meeting()), ("with", safe)):
        gaps = []
        for seed in range(20):
            (robot, person), _ = env.reset(seed=seed)
            for _ in range(100):
                wish = np.clip(person[:2] - robot[:2] - robot[2:], -1.0, 1.0).astype(np.float32)
                (robot, person), reward, *_ = env.step(wish)
                gaps.append(-reward - 2 * RADIUS)
        print(f"{name:>7} the stack: the smallest gap to the person is {min(gaps):.3f} m")
