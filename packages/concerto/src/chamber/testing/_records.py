"""Short plays of a task, kept as plain copies that can be compared bit for bit."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any, cast

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

__all__ = ["copied", "first_difference", "go_on", "is_over", "leaves", "play", "sampled_actions"]


def sampled_actions(space: spaces.Space[Any], *, n: int, seed: int) -> list[Any]:
    """Draw ``n`` actions from a space; the same for the same seed, and without the space's own generator."""
    rng = np.random.default_rng(seed)
    return [_sample(space, rng) for _ in range(n)]


def play(env: Any, *, seed: int, actions: list[Any]) -> list[Any]:
    """Reset with a seed, apply actions until one ends the episode, and give copies of everything that came back."""
    return go_on(env, [copied(env.reset(seed=seed)[0])], actions=actions)


def go_on(env: Any, record: list[Any], *, actions: list[Any]) -> list[Any]:
    """Apply actions until one ends the episode, and give the record with copies of everything that came back."""
    for action in actions:
        obs, reward, terminated, truncated, _ = env.step(copied(action))
        record.append((copied(obs), copied(reward), copied(terminated), copied(truncated)))
        if is_over(terminated, truncated):
            break
    return record


def is_over(terminated: Any, truncated: Any) -> bool:
    """Say whether the episode has ended; with several copies, in all of them."""
    return bool(np.all(np.logical_or(terminated, truncated)))


def copied(value: Any) -> Any:
    """Give a deep copy."""
    return copy.deepcopy(value)


def leaves(value: object, path: str = "obs") -> Iterator[tuple[str, NDArray[Any]]]:
    """Give every number in nested mappings, with its path."""
    if isinstance(value, Mapping):
        for key, inner in cast("Mapping[str, object]", value).items():
            yield from leaves(inner, f"{path}/{key}")
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(cast("list[object]", value)):
            yield from leaves(inner, f"{path}[{index}]")
    elif value is not None and not isinstance(value, str):
        yield path, np.asarray(value)


def first_difference(first: object, second: object) -> str:
    """Name the first number that differs in any bit, or give an empty text."""
    left, right = dict(leaves(first)), dict(leaves(second))
    if left.keys() != right.keys():
        return f"one has {min(left.keys() ^ right.keys())} and the other has not"
    for path, array in left.items():
        other = right[path]
        if array.dtype != other.dtype or array.shape != other.shape:
            return f"{path} is {array.dtype} {array.shape} in one and {other.dtype} {other.shape} in the other"
        if array.tobytes() != other.tobytes():
            return f"{path} differs: {np.ravel(array)[:4].tolist()} and {np.ravel(other)[:4].tolist()}"
    return ""


def _sample(space: spaces.Space[Any], rng: np.random.Generator) -> Any:
    if isinstance(space, spaces.Dict):
        return {name: _sample(inner, rng) for name, inner in space.spaces.items()}
    if isinstance(space, spaces.Box):
        low, high = np.maximum(space.low, -1.0), np.minimum(space.high, 1.0)
        return rng.uniform(low, high).astype(space.dtype)
    raise TypeError(f"actions must be Box spaces, or Dict spaces of them, got {type(space).__name__}")
