"""A value network that learns: the squared error and its gradient, written out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chamber.learning.flat_parameters import Adam, FlatParameters, checked_parameters
from chamber.learning.networks import ValueNetwork
from chamber.utils.pytorch import torch

__all__ = ["ValueLearner", "squared_errors"]

_tanh_backward = torch.ops.aten.tanh_backward.default


def squared_errors(
    values: torch.Tensor,
    returns: torch.Tensor,
    old_values: torch.Tensor | None = None,
    clip: float | None = None,
) -> torch.Tensor:
    """Give ``(V - R)^2`` per sample, or with ``clip`` the larger one of it and ``(V_clipped - R)^2``.

    ``V_clipped = V_old + clip(V - V_old, -clip, clip)`` keeps a value from moving far in one update.

    Args:
        values: V, shape ``(B,)``.
        returns: R, shape ``(B,)``.
        old_values: V of the network that acted, shape ``(B,)``; needed with ``clip``.
        clip: largest change that still pays; ``None`` for the plain error.
    """
    plain = (values - returns).square()
    if clip is None or old_values is None:
        return plain
    clipped = old_values + (values - old_values).clamp(-clip, clip)
    return torch.maximum(plain, (clipped - returns).square())


class ValueLearner:
    """A `ValueNetwork` with its optimiser (Adam with PyTorch's constants); minimises ``mean((V - R)^2)``.

    Args:
        network: its parameters become views of one vector.
        lr: learning rate.
        value_clip: see `squared_errors`.
    """

    def __init__(self, network: ValueNetwork, *, lr: float, value_clip: float | None = None) -> None:
        self.network = network
        self.parameters = FlatParameters(network)
        self.optimizer = Adam(self.parameters, lr=lr)
        self.value_clip = value_clip
        self._tensors = self.parameters.views(self.parameters.values)

    @torch.no_grad()
    def values(self, obs: torch.Tensor) -> torch.Tensor:
        """Give the value of each observation, shape ``(n,)``, for shape ``(n, obs_dim)``."""
        return self._forward(obs)[2]

    @torch.no_grad()
    def step(self, obs: torch.Tensor, returns: torch.Tensor, old_values: torch.Tensor) -> torch.Tensor:
        """Take one step.

        Args:
            obs: shape ``(B, obs_dim)``.
            returns: targets, shape ``(B,)``.
            old_values: values under the network that acted, shape ``(B,)``.

        Returns:
            The values before the step, shape ``(B,)``.
        """
        hidden_1, hidden_2, values = self._forward(obs)
        # d mean((V - R)^2) / dV
        d_values = (values - returns).mul_(2.0 / len(obs))
        if self.value_clip is not None:
            d_values.masked_fill_(self._clip_binds(values, returns, old_values, self.value_clip), 0.0)
        self._backward(obs, hidden_1, hidden_2, d_values.unsqueeze(1))
        self.optimizer.step()
        return values

    def check_state(self, parameters: Mapping[str, Any], optimizer: Mapping[str, Any]) -> None:
        """Check that `load_state` can take a state.

        Raises:
            InputError: it does not fit; the message says where.
        """
        checked_parameters(self.network, parameters, of="value network")
        self.optimizer.check_state(optimizer)

    def load_state(self, parameters: Mapping[str, Any], optimizer: Mapping[str, Any]) -> None:
        """Take over saved parameters and the state of the optimiser.

        Raises:
            InputError: see `check_state`; nothing has changed then.
        """
        self.check_state(parameters, optimizer)
        self.network.load_state_dict(dict(parameters))
        self.optimizer.load_state_dict(optimizer)

    @staticmethod
    def _clip_binds(values: torch.Tensor, returns: torch.Tensor, old_values: torch.Tensor, clip: float) -> torch.Tensor:
        """Where the clipped error is the larger one, it does not depend on the value."""
        change = values - old_values
        clipped = old_values + change.clamp(-clip, clip)
        return (change.abs() > clip) & ((clipped - returns).square() > (values - returns).square())

    def _forward(self, obs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        p = self._tensors
        hidden_1 = _tanh_of_half(torch.addmm(p["net.0.bias"], obs, p["net.0.weight"].t(), beta=2, alpha=2))
        hidden_2 = _tanh_of_half(torch.addmm(p["net.2.bias"], hidden_1, p["net.2.weight"].t(), beta=2, alpha=2))
        return hidden_1, hidden_2, torch.addmv(p["net.4.bias"], hidden_2, p["net.4.weight"][0])

    def _backward(
        self, obs: torch.Tensor, hidden_1: torch.Tensor, hidden_2: torch.Tensor, d_values: torch.Tensor
    ) -> None:
        p, g = self._tensors, self.parameters.gradients
        torch.mm(d_values.t(), hidden_2, out=g["net.4.weight"])
        torch.sum(d_values, 0, out=g["net.4.bias"])
        d_sum_2 = _tanh_backward(d_values * p["net.4.weight"], hidden_2)
        torch.mm(d_sum_2.t(), hidden_1, out=g["net.2.weight"])
        torch.sum(d_sum_2, 0, out=g["net.2.bias"])
        d_sum_1 = _tanh_backward(torch.mm(d_sum_2, p["net.2.weight"]), hidden_1)
        # The other order costs three times as much for narrow observations.
        g["net.0.weight"].copy_(torch.mm(obs.t(), d_sum_1).t())
        torch.sum(d_sum_1, 0, out=g["net.0.bias"])


def _tanh_of_half(doubled: torch.Tensor) -> torch.Tensor:
    """Give ``tanh(x) = 2 sigmoid(2 x) - 1`` for ``2 x``, in place.

    Three times as fast as PyTorch's own tanh on a CPU, to 2e-7.
    """
    return doubled.sigmoid_().mul_(2.0).sub_(1.0)
