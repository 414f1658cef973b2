"""Control rates that differ between robots: an action holds for a whole number of base steps."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from numbers import Integral
from typing import Any, cast

import gymnasium as gym
from gymnasium import spaces

from chamber.envs._actions import require_action_like
from chamber.envs._spaces import AnyEnv, require_dict_space

__all__ = ["PerAgentActionRepeatWrapper"]


class PerAgentActionRepeatWrapper(gym.Wrapper[Any, dict[str, Any], Any, dict[str, Any]]):
    """Lets robot ``uid`` change its action only every ``action_repeat[uid]`` base steps.

    Its effective rate is the base rate divided by the count. The first action of an episode always passes. While
    an action holds, a submitted one is ignored and may also be left out; in a ``Box`` it must still be an action.

    Args:
        env: environment whose action space is a ``Dict`` keyed by uid.
        action_repeat: base steps per action for each uid; absent uids have 1.

    Raises:
        ChamberEnvCompatibilityError: the action space is no ``Dict``.
        ValueError: a count is no integer of at least 1, or a uid is not in the action space.
    """

    def __init__(self, env: AnyEnv, action_repeat: Mapping[str, int]) -> None:
        space = require_dict_space(env.action_space, wrapper=type(self).__name__, which="action space")
        for uid, count in action_repeat.items():
            if uid not in space.spaces:
                raise ValueError(f"action_repeat names unknown uid {uid!r}; known: {sorted(space.spaces)}")
            if not isinstance(count, Integral) or count < 1:
                raise ValueError(f"action_repeat[{uid!r}] must be ≥ 1, got {count}")
        super().__init__(env)
        self._known_uids = frozenset(space.spaces)
        self._box_uids = frozenset(uid for uid, part in space.spaces.items() if isinstance(part, spaces.Box))
        self._repeat = dict(action_repeat)
        self._steps_left: dict[str, int] = {}
        self._held: dict[str, Any] = {}

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Reset the environment and forget every held action."""
        obs, info = self.env.reset(seed=seed, options=options)
        self._steps_left.clear()
        self._held.clear()
        return obs, info

    def step(self, action: Mapping[str, Any]) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step with the held action of every robot whose period is not over, else with the submitted one.

        Raises:
            ValueError: a submitted uid is unknown; nothing has changed then.
            ActionError: (a ValueError) an action that would be ignored is not finite numbers of the held one's shape;
                nothing has changed then. What the environment itself refuses is not held either.
        """
        if not isinstance(cast("object", action), Mapping):
            return self.env.step(cast("Any", action))  # which says what is wrong with it, or that it was closed
        unknown = sorted(set(action) - self._known_uids)
        if unknown:
            raise ValueError(f"step() action names unknown uids {unknown}; known: {sorted(self._known_uids)}")
        held, steps_left = dict(self._held), dict(self._steps_left)
        applied: dict[str, Any] = {}
        holding = [uid for uid, left in self._steps_left.items() if left > 0 and uid not in action]
        for uid in [*action, *holding]:
            left = steps_left.get(uid, 0)
            if left > 0:
                if uid in action and uid in self._box_uids:
                    require_action_like(held[uid], action[uid], uid)
                steps_left[uid] = left - 1
            else:
                held[uid] = _copied(action[uid])
                steps_left[uid] = self._repeat.get(uid, 1) - 1
            applied[uid] = _copied(held[uid])
        result = self.env.step(applied)
        self._held, self._steps_left = held, steps_left
        return result


def _copied(action: Any) -> Any:
    """Copy an array, a tensor (which has ``clone``) or a plain value."""
    clone = getattr(action, "clone", None)
    return clone() if callable(clone) else copy.deepcopy(action)
