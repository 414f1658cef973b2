"""The policy as one compiled function, for one observation at a time.

A step of an environment asks for one action. PyTorch spends about 40 microseconds on the ten operations of that, the
arithmetic itself takes less than one. The function here reads the parameters where PyTorch keeps them.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from chamber.learning.networks import LARGEST_STD, PolicyWidths

__all__ = ["ActingKernel", "n_policy_parameters"]

Float32Array = NDArray[np.float32]

LAYER_NORM_EPS = 1e-5
"""PyTorch's constant in the denominator of a LayerNorm."""


def n_policy_parameters(widths: PolicyWidths) -> int:
    """Count the parameters of a `GaussianPolicy`."""
    o, h, a = widths
    return 2 * o + (o * h + h) + 2 * h + (h * h + h) + 2 * h + (h * a + a) + a


class ActingKernel:
    """Means and samples of a `GaussianPolicy` without a call of PyTorch.

    Agrees with the network to about 1e-6; the order of the sums differs.

    Args:
        parameters: all parameters in one vector, in the order of the policy's ``state_dict()``, float32. It is read
            at every call, so a change in place is seen at once.
        widths: widths of the policy.
    """

    def __init__(self, parameters: Float32Array, widths: PolicyWidths) -> None:
        expected = (n_policy_parameters(widths),)
        if parameters.dtype != np.float32 or parameters.shape != expected or not parameters.flags.c_contiguous:
            raise ValueError(
                f"parameters must be a contiguous float32 vector of shape {expected}, got {parameters.dtype} "
                f"{parameters.shape}"
            )
        self.widths = widths
        self._parameters = parameters
        self._hidden_dim = widths.hidden_dim

    def mean(self, obs: Float32Array) -> Float32Array:
        """Give the mean actions, shape ``(n, A)``, for contiguous observations of shape ``(n, O)``."""
        return _means(self._parameters, obs, self._hidden_dim, self.widths.action_dim)

    def sample(self, obs: Float32Array, noise: Float32Array) -> Float32Array:
        """Give ``mean + std * noise``, shape ``(n, A)``, for standard normal ``noise`` of that shape."""
        return _samples(self._parameters, obs, self._hidden_dim, noise)


# Sums may be reordered and multiplications fused with additions, or a row would be summed one by one. NaN and infinity
# keep their meaning.
_njit = njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})


@_njit
def _normalise(x: Float32Array, weight: Float32Array, bias: Float32Array) -> None:
    """LayerNorm in place."""
    n = len(x)
    mean = np.float32(0.0)
    for i in range(n):
        mean += x[i]
    mean /= np.float32(n)
    variance = np.float32(0.0)
    for i in range(n):
        centred = x[i] - mean
        variance += centred * centred
    scale = np.float32(1.0) / np.sqrt(variance / np.float32(n) + np.float32(LAYER_NORM_EPS))
    for i in range(n):
        x[i] = (x[i] - mean) * scale * weight[i] + bias[i]


@_njit
def _linear(x: Float32Array, weight: Float32Array, bias: Float32Array, out: Float32Array) -> None:
    """Give ``W x + b`` in ``out``; ``weight`` holds the rows of W one after the other."""
    n = len(x)
    for row in range(len(out)):
        total = np.float32(0.0)
        start = row * n
        for i in range(n):
            total += weight[start + i] * x[i]
        out[row] = total + bias[row]


@_njit
def _rectify(x: Float32Array) -> None:
    for i in range(len(x)):
        x[i] = max(x[i], np.float32(0.0))  # in this order a NaN passes


@_njit
def _means(parameters: Float32Array, obs: Float32Array, hidden_dim: int, action_dim: int) -> Float32Array:
    n, o = obs.shape
    h, a = hidden_dim, action_dim
    features = np.empty(o, np.float32)
    first = np.empty(h, np.float32)
    second = np.empty(h, np.float32)
    means = np.empty((n, a), np.float32)
    hidden_1 = 2 * o
    hidden_2 = hidden_1 + o * h + 3 * h
    head = hidden_2 + h * h + 3 * h + a  # the a parameters of the spread come before the mean's layer
    for k in range(n):
        features[:] = obs[k]
        _normalise(features, parameters[:o], parameters[o:hidden_1])
        p = hidden_1
        _linear(features, parameters[p : p + o * h], parameters[p + o * h : p + o * h + h], first)
        _rectify(first)
        p += o * h + h
        _normalise(first, parameters[p : p + h], parameters[p + h : p + 2 * h])
        p = hidden_2
        _linear(first, parameters[p : p + h * h], parameters[p + h * h : p + h * h + h], second)
        _rectify(second)
        p += h * h + h
        _normalise(second, parameters[p : p + h], parameters[p + h : p + 2 * h])
        _linear(second, parameters[head : head + a * h], parameters[head + a * h :], means[k])
    return means


@_njit
def _samples(parameters: Float32Array, obs: Float32Array, hidden_dim: int, noise: Float32Array) -> Float32Array:
    n, a = noise.shape
    actions = _means(parameters, obs, hidden_dim, a)
    log_std = len(parameters) - a - a * hidden_dim - a
    for d in range(a):
        std = np.float32(LARGEST_STD) / (np.float32(1.0) + np.exp(-parameters[log_std + d]))
        for k in range(n):
            actions[k, d] += std * noise[k, d]
    return actions
