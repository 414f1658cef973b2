"""Environments that refuse to go on after they were closed."""

from __future__ import annotations

import gymnasium as gym
from gymnasium.core import ActType, ObsType

__all__ = ["RefusesWhenClosed"]


class RefusesWhenClosed(gym.Env[ObsType, ActType]):
    """An environment that says so when it is used after `close`."""

    _is_closed = False

    def close(self) -> None:
        """Close it for good; calling it twice does no harm."""
        self._is_closed = True
        super().close()

    def _require_open(self, call: str) -> None:
        """Refuse a call that comes after `close`.

        Raises:
            gymnasium.error.ClosedEnvironmentError: it was closed.
        """
        if self._is_closed:
            raise gym.error.ClosedEnvironmentError(f"{type(self).__name__} was closed before {call}(); make a new one")
