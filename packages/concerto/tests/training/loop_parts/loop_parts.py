"""Environments, partners and learners that are small enough to count with, shared by the tests of the loop."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from chamber.envs.mpe_cooperative_push import MPECooperativePushEnv
from concerto.safety.stack import SafetyStack
from concerto.training.config import EgoAHTConfig
from concerto.training.ego_aht import StackDriver
from concerto.training.seeding import derive_substream


def config(tmp_path: Path, **changes: Any) -> EgoAHTConfig:
    """A short run of the planar task, recorded below a folder."""
    parts: dict[str, Any] = {
        "total_frames": 100,
        "checkpoint_every": 30,
        "log_dir": tmp_path / "logs",
        "artifacts_root": tmp_path,
        "env": {"task": "mpe_cooperative_push"},
        "happo": {"rollout_length": 32, "batch_size": 32},
    }
    return EgoAHTConfig(**{**parts, **changes})


def events_of(cfg: EgoAHTConfig, name: str | None = None) -> list[dict[str, Any]]:
    """The events of the one log there is, in order."""
    (path,) = cfg.log_dir.glob("*.jsonl")
    events = [json.loads(line) for line in path.read_text().splitlines()]
    return events if name is None else [event for event in events if event["event"] == name]


class ScriptedEnv:
    """One copy whose episodes end when a script says so; the reward is the number of the step, from 1 on.

    Args:
        ends: what ends the episode at a step of the run: "terminated", "truncated" or "both".
        infos: info of a step of the run.
        reward_of: turns the number of the step into the reward.
    """

    def __init__(self, ends: dict[int, str] | None = None, *, infos: Any = None, reward_of: Any = float) -> None:
        self.ends = ends or {}
        self.infos = infos or {}
        self.reward_of = reward_of
        self.n_steps = 0
        self.reset_seeds: list[int | None] = []
        self.actions: list[dict[str, Any]] = []
        self.is_closed = False

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        self.reset_seeds.append(seed)
        return self.observation(), {}

    def step(self, action: dict[str, Any]) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        assert type(action) is dict
        self.n_steps += 1
        self.actions.append(action)
        end = self.ends.get(self.n_steps, "")
        flags = end in {"terminated", "both"}, end in {"truncated", "both"}
        return self.observation(), self.reward_of(self.n_steps), *flags, self.infos.get(self.n_steps, {})

    def observation(self) -> dict[str, Any]:
        return {"agent": {"ego": {"state": np.full(3, self.n_steps, dtype=np.float32)}}}

    def close(self) -> None:
        self.is_closed = True


class VectorWalks:
    """N walkers on a line that reset themselves: every copy has its own time limit and its own generator."""

    def __init__(self, n_envs: int, *, limits: tuple[int, ...] = (5, 7)) -> None:
        self.n_envs = n_envs
        self.limits = np.array([limits[k % len(limits)] for k in range(n_envs)])
        self.action_space = SimpleNamespace(spaces={"ego": SimpleNamespace(shape=(n_envs, 2))})
        self.rng = np.random.default_rng(0)
        self.positions = np.zeros((n_envs, 2))
        self.ages = np.zeros(n_envs, dtype=np.int64)
        self.reset_seeds: list[int | None] = []

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        self.reset_seeds.append(seed)
        self.rng = derive_substream("test.walks", root_seed=seed or 0).default_rng()
        self.positions = self.rng.normal(size=(self.n_envs, 2))
        self.ages[:] = 0
        return self.observation(), {}

    def step(self, action: dict[str, Any]) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        noise = self.rng.normal(size=self.positions.shape)
        self.positions = self.positions + 0.1 * action["ego"] + 0.1 * action["partner"] + 0.01 * noise
        self.ages += 1
        rewards = -np.abs(self.positions).sum(axis=1)
        truncated = self.ages >= self.limits
        info: dict[str, Any] = {}
        if truncated.any():
            info["final_observation"] = self.observation()
            self.positions[truncated] = self.rng.normal(size=(int(truncated.sum()), 2))
            self.ages[truncated] = 0
        return self.observation(), rewards, np.zeros(self.n_envs, dtype=bool), truncated, info

    def observation(self) -> dict[str, Any]:
        return {"agent": {"ego": {"state": self.positions.astype(np.float32)}}}


class ResumableVectorWalks(VectorWalks):
    """The same, able to save itself."""

    def save_training_state(self) -> dict[str, Any]:
        return {
            "positions": torch.tensor(self.positions),
            "ages": torch.tensor(self.ages),
            "generator": dict(self.rng.bit_generator.state),
        }

    def load_training_state(self, state: dict[str, Any]) -> Any:
        self.positions = state["positions"].copy()
        self.ages = state["ages"].copy()
        self.rng.bit_generator.state = state["generator"]
        return self.observation()


class StillPartner:
    """A partner that stands still, in every copy."""

    def __init__(self, *shape: int) -> None:
        self.spec = None
        self.shape = shape or (2,)
        self.reset_seeds: list[int | None] = []

    def reset(self, *, seed: int | None = None) -> None:
        self.reset_seeds.append(seed)

    def act(self, obs: Any, *, deterministic: bool = True) -> Any:
        return np.zeros(self.shape, dtype=np.float32)


class MoodyPartner:
    """A partner with memory: it wanders, and its direction and its generator are forgotten at a reset only."""

    def __init__(self) -> None:
        self.spec = None
        self.rng = np.random.default_rng(0)
        self.direction = np.zeros(2)

    def reset(self, *, seed: int | None = None) -> None:
        self.rng = derive_substream("test.moods", root_seed=seed or 0).default_rng()
        self.direction = np.zeros(2)

    def act(self, obs: Any, *, deterministic: bool = True) -> Any:
        self.direction = 0.9 * self.direction + 0.3 * self.rng.normal(size=2)
        return np.clip(self.direction, -1.0, 1.0).astype(np.float32)


class NoisyLearner:
    """A linear Gaussian policy that climbs its reward after every rollout: small, with memory, and resumable."""

    def __init__(self, cfg: EgoAHTConfig, *, obs_dim: int = 10) -> None:
        self.weights = torch.zeros((2, obs_dim), dtype=torch.float64)
        self.rng = derive_substream("test.learner", root_seed=cfg.seed).default_rng()
        self.pending: tuple[np.ndarray, np.ndarray] | None = None
        self.rollout: list[tuple[np.ndarray, np.ndarray, float]] = []
        self.executed: list[np.ndarray] = []

    @classmethod
    def from_config(cls, cfg: EgoAHTConfig, *, env: Any, ego_uid: str, **_: Any) -> Any:
        return cls(cfg, obs_dim=np.shape(env.reset(seed=0)[0]["agent"][ego_uid]["state"])[-1])

    def act(self, obs: Any, *, deterministic: bool = False) -> Any:
        state = np.asarray(obs["agent"]["ego"]["state"], dtype=np.float64)
        mean = state @ self.weights.numpy().T
        if deterministic:
            return mean.astype(np.float32)
        noise = self.rng.normal(size=mean.shape)
        self.pending = state, noise
        return np.clip(mean + noise, -1.0, 1.0).astype(np.float32)

    def observe(
        self,
        obs: Any,
        reward: Any,
        done: Any,
        *,
        truncated: Any = False,
        final_obs: Any = None,
        executed_action: Any = None,
    ) -> None:
        assert self.pending is not None
        state, noise = self.pending
        self.rollout.append((np.atleast_2d(state), np.atleast_2d(noise), float(np.mean(reward))))

    def update(self) -> None:
        rewards = np.array([reward for _, _, reward in self.rollout])
        advantages = rewards - rewards.mean()
        for advantage, (state, noise, _) in zip(advantages, self.rollout, strict=True):
            self.weights += torch.tensor(0.01 * advantage * (noise.T @ state) / len(state))
        self.rollout.clear()

    def state_dict(self) -> dict[str, Any]:
        return {"policy": {"weights": self.weights.clone()}}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.weights = state["policy"]["weights"].clone()

    def training_state(self) -> dict[str, Any]:
        states, noises, rewards = zip(*self.rollout, strict=True) if self.rollout else ((), (), ())
        return {
            "generator": dict(self.rng.bit_generator.state),
            "states": torch.tensor(np.array(states)),
            "noises": torch.tensor(np.array(noises)),
            "rewards": torch.tensor(np.array(rewards)),
        }

    def load_training_state(self, state: dict[str, Any]) -> None:
        self.rng.bit_generator.state = state["generator"]
        rows = (state["states"].numpy(), state["noises"].numpy(), state["rewards"].tolist())
        self.rollout = list(zip(*rows, strict=True))


def planar_env(cfg: EgoAHTConfig) -> MPECooperativePushEnv:
    """The shipped planar task of a run."""
    return MPECooperativePushEnv(episode_length=cfg.env.episode_length, root_seed=cfg.seed)


def planar_stack_driver(env: Any) -> StackDriver:
    """The safety stack of the planar task, from the environment that is stepped."""
    stack = SafetyStack(
        ego_uid="ego",
        control_models=env.build_control_models(),
        bounds=env.build_bounds(),
        dt=env.control_timestep,
        partner_motion=env.build_partner_motion(),
        partner_braking_fraction=0.0,
    )
    return StackDriver(stack, lambda stepped: stepped.build_agent_snapshots(), partner_id="moody")
