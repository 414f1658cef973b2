"""Flat ``state`` vectors from lists of observation fields; the one place where a state's layout becomes numbers.

A wrapper names, per robot, the fields that its state is made of, in order. `StateSynthesizer` checks them against the
declared space when it is made and against every observation when it is used, so that a state never silently has a piece
of another length, or of another copy, in it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from chamber._observations import leaf
from chamber.envs._spaces import Observation

__all__ = ["Float32Array", "StateField", "StateSynthesizer", "pose_field"]

Float32Array = NDArray[np.float32]

_IDENTITY_QUATERNION = (1.0, 0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class StateField:
    """One piece of a state vector.

    Attributes:
        path: keys from the top of the observation to the leaf, e.g. ``("extra", "cube_pose")``.
        size: trailing dimension that the leaf must have; None takes what the space declares.
        adapt: what is done to the leaf, shape ``(n, size) -> (n, k)``; None takes it as it is. It must accept any n.
    """

    path: tuple[str, ...]
    size: int | None = None
    adapt: Callable[[Float32Array], Float32Array] | None = None

    @property
    def name(self) -> str:
        """The path with dots, as errors show it."""
        return ".".join(self.path)


def pose_field(*path: str, near: tuple[float, float, float, float] = _IDENTITY_QUATERNION) -> StateField:
    """Give a field for a pose ``xyz + wxyz`` whose quaternion always has the same one of its two signs.

    q and -q are the same rotation, and which of them a simulator gives depends on the history of the body. The state
    holds the one in the hemisphere of ``near``: of the identity by default, which is w >= 0. A body that works half a
    turn away from the identity, such as a hand that points down, has w near 0 and would flip between two vectors for
    neighbouring poses; ``near`` is then its usual orientation. Exactly half a turn away from ``near``, w decides.

    Args:
        path: keys from the top of the observation to the leaf.
        near: quaternion ``(w, x, y, z)`` that names the hemisphere.
    """
    reference = np.array(near, dtype=np.float32)

    def with_one_sign(pose: Float32Array) -> Float32Array:
        side = pose[:, 3:] @ reference
        if side.min() > 0.0:
            return pose
        flipped = (side < 0.0) | ((side == 0.0) & (pose[:, 3] < 0.0))
        signed = pose.copy()
        signed[flipped, 3:] *= -1.0
        return signed

    return StateField(path, size=7, adapt=with_one_sign)


class StateSynthesizer:
    """Adds ``obs["agent"][uid]["state"]``, the float32 concatenation of the fields of ``layouts[uid]``.

    A leaf may be an array, or a tensor on any device (which has ``detach`` and ``cpu``), of shape ``(k,)`` or
    ``(n, k)``. The state has shape ``(n, dim)``, and ``(dim,)`` for n = 1. All other entries of an observation are
    passed on by reference; the observation itself is not changed.

    Args:
        observation_space: of the environment that is wrapped.
        layouts: uid to the fields of its state, in order.
        owner: class name of the wrapper that asks, for messages.
        skips_missing: leave out what an observation does not have, instead of refusing it.
        keeps_bounds: the declared state has the bounds of its fields; otherwise it is unbounded.

    Attributes:
        observation_space: the space with the states declared.

    Raises:
        TypeError: a field is not in the space, is no ``Box`` of one or two dimensions, or has another trailing
            dimension than its ``size``; the message names it.
    """

    def __init__(
        self,
        observation_space: object,
        layouts: Mapping[str, Sequence[StateField]],
        *,
        owner: str,
        skips_missing: bool = False,
        keeps_bounds: bool = False,
    ) -> None:
        self._owner = owner
        self._skips_missing = skips_missing
        self._layouts: dict[str, tuple[StateField, ...]] = {}
        space = self._require_dict(observation_space, "the observation space")
        agents = self._require_dict(space.spaces.get("agent"), "agent")
        adapted = dict(agents.spaces)
        for uid, fields in layouts.items():
            channels = self._require_dict(agents.spaces.get(uid), f"agent.{uid}")
            boxes = [self._require_box(space, field) for field in fields]
            self._layouts[uid] = tuple(
                replace(field, size=box.shape[-1]) for field, box in zip(fields, boxes, strict=True)
            )
            adapted[uid] = spaces.Dict({**channels.spaces, "state": _state_space(fields, boxes, keeps_bounds)})
        self.observation_space = spaces.Dict({**space.spaces, "agent": spaces.Dict(adapted)})

    def __call__(self, observation: Observation) -> Observation:
        """Give a copy of the observation with the states in it; the observation itself when it has no ``agent`` dict.

        Raises:
            TypeError: a field is missing, has more than two dimensions or another trailing dimension than declared, or
                the fields are of different numbers of copies; the message lists ``name=shape``.
        """
        agents: object = observation.get("agent")
        if not isinstance(agents, dict):
            return observation
        extended = cast("dict[str, Any]", dict(agents))
        for uid, fields in self._layouts.items():
            channels: object = extended.get(uid)
            if isinstance(channels, dict):
                state = self._state(observation, fields)
                extended[uid] = {**cast("dict[str, Any]", channels), "state": state}
            elif not self._skips_missing:
                raise TypeError(f"{self._owner}: agent.{uid} must be a dict, got {type(channels).__name__}")
        return {**observation, "agent": extended}

    def _state(self, observation: Observation, fields: Sequence[StateField]) -> Float32Array:
        found: list[tuple[StateField, Float32Array]] = []
        for field in fields:
            value = leaf(observation, *field.path)
            if value is not None:
                part = _as_float32(value)
                found.append((field, part[None] if part.ndim == 1 else part))
            elif not self._skips_missing:
                raise TypeError(f"{self._owner}: the observation has no {field.name}")
        if not found:
            return np.zeros(0, np.float32)
        self._require_matching(found)
        state = np.concatenate([part if field.adapt is None else field.adapt(part) for field, part in found], axis=-1)
        return state[0] if len(state) == 1 else state

    def _require_matching(self, found: Sequence[tuple[StateField, Float32Array]]) -> None:
        first = found[0][1]
        rows = first.shape[0] if first.ndim == 2 else -1
        if any(part.ndim != 2 or part.shape != (rows, field.size) for field, part in found):
            shapes = ", ".join(f"{field.name}={part.shape}" for field, part in found)
            widths = ", ".join(str(field.size) for field, _ in found)
            raise TypeError(
                f"{self._owner}: fields must be (k,) or (n, k) with one n and k = {widths} in this order, got {shapes}"
            )

    def _require_dict(self, space: object, name: str) -> spaces.Dict:
        if not isinstance(space, spaces.Dict):
            raise TypeError(f"{self._owner}: {name} must be a gymnasium.spaces.Dict, got {type(space).__name__}")
        return space

    def _require_box(self, space: spaces.Dict, field: StateField) -> spaces.Box:
        parent: spaces.Dict = space
        for depth, key in enumerate(field.path[:-1], start=1):
            parent = self._require_dict(parent.spaces.get(key), ".".join(field.path[:depth]))
        box = parent.spaces.get(field.path[-1])
        if not isinstance(box, spaces.Box):
            raise TypeError(f"{self._owner}: {field.name} must be a gymnasium.spaces.Box, got {type(box).__name__}")
        if len(box.shape) not in {1, 2}:
            raise TypeError(f"{self._owner}: {field.name} must have one or two dimensions, got shape {box.shape}")
        if field.size is not None and box.shape[-1] != field.size:
            raise TypeError(f"{self._owner}: {field.name} must have trailing dimension {field.size}, got {box.shape}")
        return box


def _state_space(fields: Sequence[StateField], boxes: Sequence[spaces.Box], keeps_bounds: bool) -> spaces.Box:
    if keeps_bounds:
        low = np.concatenate([box.low.ravel() for box in boxes]).astype(np.float32)
        high = np.concatenate([box.high.ravel() for box in boxes]).astype(np.float32)
        return spaces.Box(low, high, dtype=np.float32)
    dim = sum(
        box.shape[-1] if field.adapt is None else field.adapt(np.zeros((1, box.shape[-1]), np.float32)).shape[-1]
        for field, box in zip(fields, boxes, strict=True)
    )
    copies = boxes[0].shape[0] if len(boxes[0].shape) == 2 else 1
    return spaces.Box(-np.inf, np.inf, (dim,) if copies == 1 else (copies, dim), np.float32)


def _as_float32(value: Any) -> Float32Array:
    """An array, or a tensor on any device."""
    if hasattr(value, "detach"):
        value = value.detach().cpu()
    return np.asarray(value, dtype=np.float32)
