"""Environments that refuse to go on after they were closed."""

from __future__ import annotations

import gymnasium as gym

__all__ = ["RefusesWhenClosed"]


class RefusesWhenClosed:
    """Mixin, before `gymnasium.Env` in the bases, of an environment that says so when it is used after `close`."""

    _is_closed = False

    def close(self) -> None:
        """Close it for good; calling it twice does no harm."""
        self._is_closed = True

    def _require_open(self, call: str) -> None:
        """Refuse a call that comes after `close`.

        Raises:
            gymnasium.error.ClosedEnvironmentError: it was closed.
        """
        if self._is_closed:
            raise gym.error.ClosedEnvironmentError(f"{type(self).__name__} was closed before {call}(); make a new one")
