"""Wrappers that refuse to go on after they were closed, whatever the environment in them does."""

from __future__ import annotations

from gymnasium.error import ClosedEnvironmentError

__all__ = ["require_open"]


def require_open(env: object, call: str, *, is_closed: bool) -> None:
    """Refuse a call that comes after ``close``.

    Raises:
        ClosedEnvironmentError: the environment was closed.
    """
    if is_closed:
        raise ClosedEnvironmentError(f"{env} was closed before {call}(); make a new one")
