"""Advantages: how much better an action was than what was expected."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

__all__ = ["compute_gae", "next_step_values", "normalize_advantages"]

Float32Array = NDArray[np.float32]
Float64Array = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

_NORMALISATION_FLOOR = 1e-5
"""Added to the standard deviation, so that equal advantages become zeros."""


def compute_gae(
    rewards: ArrayLike,
    values: ArrayLike,
    next_values: ArrayLike,
    episode_boundaries: ArrayLike,
    *,
    gamma: float,
    gae_lambda: float,
) -> Float32Array:
    r"""Give generalised advantage estimates (Schulman et al. 2016, arXiv 1506.02438, section 6.3).

    From the last step to the first, with :math:`A` beyond the end equal to 0::

        delta_t = r_t + gamma * next_values_t - V_t
        A_t     = delta_t + gamma * gae_lambda * (0 if boundary_t else 1) * A_{t+1}

    Sums are float64, results are rounded to float32 once. A boundary stops the flow of advantages; the bootstrap of
    its step is the caller's choice: 0 for a true end, the value of the last observation for a time limit (Pardo et al.
    2018, arXiv 1712.00378, section 4).

    Args:
        rewards: shape ``(T,)``, or ``(T, N)`` for N environments.
        values: V of the observation that was acted on, same shape.
        next_values: value of what came next, same shape.
        episode_boundaries: whether the step ended an episode, same shape.
        gamma: discount per step.
        gae_lambda: weight of longer estimates.

    Returns:
        Advantages, the shape of ``rewards``.

    Raises:
        ValueError: the shapes differ, or have neither one nor two dimensions.

    Examples:
        >>> compute_gae([1, 1, 1], [0.5, 0.5, 0.5], [0.5, 0.5, 0], [False, False, True], gamma=0.9, gae_lambda=0.8)
        array([1.8932, 1.31  , 0.5   ], dtype=float32)
    """
    series = [np.asarray(part, dtype=np.float32) for part in (rewards, values, next_values)]
    ends = np.asarray(episode_boundaries, dtype=np.bool_)
    shape = series[0].shape
    if len(shape) not in {1, 2} or any(part.shape != shape for part in (*series, ends)):
        shapes = [part.shape for part in (*series, ends)]
        raise ValueError(f"rewards, values, next_values and boundaries must share one shape (T,) or (T, N): {shapes}")
    reward, value, next_value = (np.ascontiguousarray(part.reshape(shape[0], -1)) for part in series)
    boundary = np.ascontiguousarray(ends.reshape(shape[0], -1))
    decay = float(gamma) * float(gae_lambda)
    return _advantages(reward, value, next_value, boundary, float(gamma), decay).reshape(shape)


@njit(cache=True, error_model="numpy")
def _advantages(
    rewards: Float32Array,
    values: Float32Array,
    next_values: Float32Array,
    ends: BoolArray,
    gamma: float,
    decay: float,
) -> Float32Array:
    n_steps, n_envs = rewards.shape
    advantages = np.empty((n_steps, n_envs), np.float32)
    following = np.zeros(n_envs)
    for t in range(n_steps - 1, -1, -1):
        for e in range(n_envs):
            delta = np.float64(rewards[t, e]) + gamma * np.float64(next_values[t, e]) - np.float64(values[t, e])
            following[e] = delta if ends[t, e] else delta + decay * following[e]
            advantages[t, e] = following[e]
    return advantages


def next_step_values(
    values: Float32Array, last_values: Float32Array, bootstraps: Float32Array, ends: BoolArray
) -> Float32Array:
    """Give the value of what came after each step.

    Args:
        values: V of each step's observation, shape ``(T, N)``.
        last_values: V of the observations after the last step, shape ``(N,)``.
        bootstraps: V of the last observation of episodes that a time limit ended, 0 where an episode truly ended,
            shape ``(T, N)``; read only where ``ends``.
        ends: whether the step ended an episode, shape ``(T, N)``.
    """
    following = np.concatenate([values[1:], last_values[None]])
    return np.where(ends, bootstraps, following)


def normalize_advantages(advantages: Float32Array) -> Float32Array:
    """Give ``(A - mean) / (std + 1e-5)`` over all entries, with the population's standard deviation.

    Examples:
        >>> normalize_advantages(np.array([1, 2, 3, 4], np.float32))
        array([-1.3416288, -0.4472096,  0.4472096,  1.3416288], dtype=float32)
    """
    if not advantages.size:
        return advantages.astype(np.float32)
    mean = float(advantages.mean(dtype=np.float64))
    std = float(advantages.std(dtype=np.float64))
    return ((advantages - mean) / (std + _NORMALISATION_FLOOR)).astype(np.float32)
