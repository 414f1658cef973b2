"""Which copies of an environment a reset is for, and which seed each gets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from chamber.envs._integers import require_integer, require_integers

__all__ = ["chosen_copies", "seeds_of_copies"]


def chosen_copies(options: Mapping[str, Any] | None, *, num_envs: int) -> NDArray[np.int64]:
    """Give the copies that the options of ``reset`` name: those of ``env_idx``, else all.

    Raises:
        ValueError: the options are no mapping, another one is given, or a copy is not there or named twice.
    """
    if options is not None and not isinstance(cast("object", options), Mapping):
        raise ValueError(f"options of reset() must be a mapping, got {options!r}")
    unknown = [name for name in options or () if name != "env_idx"]
    if unknown:
        raise ValueError(f"reset() has no option {unknown[0]!r}; it knows 'env_idx'")
    if not options or options.get("env_idx") is None:
        return np.arange(num_envs)
    env_idx = require_integers("env_idx", options["env_idx"], at_least=0)
    if not env_idx or max(env_idx) >= num_envs:
        raise ValueError(f"env_idx must name copies 0 to {num_envs - 1}, got {env_idx}")
    if len(set(env_idx)) != len(env_idx):
        raise ValueError(f"env_idx names a copy twice: {env_idx}")
    return np.array(env_idx, dtype=np.int64)


def seeds_of_copies(seed: int | Sequence[int], *, count: int) -> list[int]:
    """Give a seed per copy: the given ones, or the given one and those that follow it.

    Raises:
        ValueError: one is no integer >= 0, or there are not as many as copies.
    """
    if isinstance(seed, Sequence) or (isinstance(seed, np.ndarray) and seed.ndim > 0):
        seeds = require_integers("seed", seed, at_least=0)
    else:
        first = require_integer("seed", seed, at_least=0)
        seeds = [first + place for place in range(count)]
    if len(seeds) != count:
        raise ValueError(f"seed must be one integer or {count} of them, got {len(seeds)}")
    return seeds
