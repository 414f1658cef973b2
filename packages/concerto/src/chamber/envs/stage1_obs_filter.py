"""Observations of Stage-1 pick-place: a state vector for learners, and the condition that sees pictures only."""

from __future__ import annotations

from typing import Any, cast

import gymnasium as gym
from gymnasium import spaces

from chamber.envs._forwarding import find_attribute
from chamber.envs._spaces import AnyEnv, Observation, zeros_like
from chamber.envs._stage1_rules import ConditionConfig, resolve_condition
from chamber.envs._state_synthesis import StateField, StateSynthesizer, pose_field
from chamber.envs._training_state import MemorylessWrapper

__all__ = ["STATE_LAYOUT_VERSION", "Stage1ASStateSynthesizer", "Stage1OMChannelFilter"]

STATE_LAYOUT_VERSION = 2
"""Layout of the ego's ``state``. Version 1 had quaternions of either sign; in 2 the cube's has w >= 0 and the hand's is
the one nearer to a hand that points down as at the start of an episode."""

_HAND_DOWN = (0.0, 0.5**0.5, 0.5**0.5, 0.0)
_VISION_ONLY = "stage1_pickplace_vision_only"
_VISION_ONLY_EXTRAS = frozenset({"tcp_pose", "goal_pos"})


class Stage1ASStateSynthesizer(MemorylessWrapper, gym.ObservationWrapper[Observation, Any, Observation]):
    """Adds ``obs["agent"][uid]["state"]`` in the conditions that vary the action space; elsewhere it does nothing.

    The ego's state is ``[ego qpos, ego qvel, partner qpos, partner qvel, cube_pose 7, goal_pos 3, tcp_pose 7]``, the
    partner's ``[qpos, qvel]``; checkpoints depend on this order. Relative positions are left out because they are
    linear in the rest, forces because they are what the other conditions vary. One copy gives vectors, several give
    ``(n, dim)``; leaves may be arrays or tensors.

    Raises:
        TypeError: the observation space is no ``Dict``, or does not have what the state is made of.
    """

    def __init__(self, env: AnyEnv) -> None:
        super().__init__(env)
        _, condition = _condition_of(env, type(self).__name__)
        self._synthesize: StateSynthesizer | None = None
        if condition is not None and not condition.is_om_condition:
            self._synthesize = StateSynthesizer(
                env.observation_space, _layouts(*condition.agent_uids), owner=type(self).__name__
            )
            self.observation_space = self._synthesize.observation_space

    def observation(self, observation: Observation) -> Observation:
        """Give the observation with the states, its other entries by reference.

        Raises:
            TypeError: a field is missing or has another shape than declared; the message lists ``name=shape``.
        """
        return observation if self._synthesize is None else self._synthesize(observation)


class Stage1OMChannelFilter(MemorylessWrapper, gym.ObservationWrapper[Observation, Any, Observation]):
    """Sets to zero what the condition ``stage1_pickplace_vision_only`` does not give; elsewhere it does nothing.

    Zero are all channels of all robots, and all extras but ``tcp_pose`` and ``goal_pos``. Pictures stay. Zeros have the
    shape, type and device of what they replace, so the space is the same.

    Raises:
        TypeError: the observation space is no ``Dict``.
    """

    def __init__(self, env: AnyEnv) -> None:
        super().__init__(env)
        self._condition_id, _ = _condition_of(env, type(self).__name__)

    @property
    def condition_id(self) -> str | None:
        """Condition of the environment; None when it has none."""
        return self._condition_id

    def observation(self, observation: Observation) -> Observation:
        """Give the observation without what must not be seen."""
        if self._condition_id != _VISION_ONLY:
            return observation
        filtered = dict(observation)
        agents: object = observation.get("agent")
        if isinstance(agents, dict):
            filtered["agent"] = {
                uid: _zeroed(cast("dict[str, Any]", channels)) if isinstance(channels, dict) else channels
                for uid, channels in cast("dict[str, Any]", agents).items()
            }
        extra: object = observation.get("extra")
        if isinstance(extra, dict):
            filtered["extra"] = _zeroed(cast("dict[str, Any]", extra), keep=_VISION_ONLY_EXTRAS)
        return filtered


def _condition_of(env: AnyEnv, wrapper: str) -> tuple[str | None, ConditionConfig | None]:
    """The condition's name, and the condition when the name is one of this task."""
    if not isinstance(env.observation_space, spaces.Dict):
        kind = type(env.observation_space).__name__
        raise TypeError(f"{wrapper}: the observation space must be a gymnasium.spaces.Dict, got {kind}")
    condition_id = find_attribute(env, "condition_id")
    if not isinstance(condition_id, str):
        return None, None
    try:
        return condition_id, resolve_condition(condition_id)
    except ValueError:
        return condition_id, None


def _layouts(ego: str, partner: str) -> dict[str, list[StateField]]:
    joints = {uid: [StateField(("agent", uid, "qpos")), StateField(("agent", uid, "qvel"))] for uid in (ego, partner)}
    task = [
        pose_field("extra", "cube_pose"),
        StateField(("extra", "goal_pos"), size=3),
        pose_field("extra", "tcp_pose", near=_HAND_DOWN),
    ]
    return {ego: [*joints[ego], *joints[partner], *task], partner: joints[partner]}


def _zeroed(channels: dict[str, Any], *, keep: frozenset[str] = frozenset()) -> dict[str, Any]:
    """Zeros for everything that has a shape and is not kept."""
    return {
        name: value if name in keep or not hasattr(value, "shape") else zeros_like(value)
        for name, value in channels.items()
    }
