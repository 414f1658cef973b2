"""The two networks of an actor-critic learner: a Gaussian policy and a value function.

The parameter names are the wire format of checkpoints, so that other programs can read them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from chamber.utils.pytorch import torch
from ripieno.errors import InputError

__all__ = [
    "INITIAL_LOG_STD",
    "LARGEST_STD",
    "MEAN_HEAD_GAIN",
    "GaussianPolicy",
    "PolicyWidths",
    "ValueNetwork",
    "parameter_shapes",
    "policy_widths",
]

nn = torch.nn

INITIAL_LOG_STD = 1.0
"""First value of the parameter that the standard deviation is made of, on every dimension."""
LARGEST_STD = 0.5
"""Upper bound of the standard deviation of an action."""
MEAN_HEAD_GAIN = 0.01
"""Gain of the orthogonal start of the mean's layer: the first mean is close to zero."""

_FEATURE_NORM = "base.feature_norm.weight"
_FIRST_LAYER = "base.mlp.fc.0.weight"
_MEAN_HEAD = "act.action_out.fc_mean.weight"


class PolicyWidths(NamedTuple):
    """The three widths that determine the shape of every parameter of a `GaussianPolicy`."""

    obs_dim: int
    hidden_dim: int
    action_dim: int


class GaussianPolicy(nn.Module):
    r"""A normal distribution over actions, whose mean depends on the observation and whose spread does not.

    For an observation $x$ of width O, hidden width H and action width A::

        x -> LayerNorm(O) -> Linear(O, H) -> ReLU -> LayerNorm(H)
          -> Linear(H, H) -> ReLU -> LayerNorm(H) -> Linear(H, A) = mean
        std = 0.5 * sigmoid(log_std)

    Hidden weights start orthogonal with gain $\sqrt 2$, the mean's weights orthogonal with gain 0.01, biases at zero
    and ``log_std`` at one, so the first standard deviation is 0.365529. Samples are not squashed and not clipped.

    Building one draws from PyTorch's global generator in the order first layer, second layer, mean layer. It has
    ``2 O + (O H + H) + 2 H + (H^2 + H) + 2 H + (H A + A) + A`` parameters.

    Args:
        obs_dim: width O of an observation.
        hidden_dim: width H of both hidden layers.
        action_dim: width A of an action.
    """

    def __init__(self, *, obs_dim: int, hidden_dim: int, action_dim: int) -> None:
        super().__init__()
        self.widths = PolicyWidths(obs_dim, hidden_dim, action_dim)
        self.base = _Trunk(obs_dim, hidden_dim)
        self.act = _Head(hidden_dim, action_dim)

    def forward(self, obs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Give mean, shape ``(B, A)``, and standard deviation, shape ``(A,)``, for observations of shape ``(B, O)``."""
        return self.act.action_out.fc_mean(self.base(obs)), self.std()

    def std(self) -> torch.Tensor:
        """Give the standard deviation, shape ``(A,)``."""
        return LARGEST_STD * torch.sigmoid(self.act.action_out.log_std)


class ValueNetwork(nn.Module):
    """The value of an observation: two hidden layers with tanh, PyTorch's own start values.

    Args:
        obs_dim: width of an observation.
        hidden_dim: width of both hidden layers.
    """

    def __init__(self, *, obs_dim: int, hidden_dim: int) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(obs_dim, hidden_dim),
            nn.Tanh(),
            nn.Linear(hidden_dim, hidden_dim),
            nn.Tanh(),
            nn.Linear(hidden_dim, 1),
        )

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        """Give the values, shape ``(B, 1)``, for observations of shape ``(B, obs_dim)``."""
        return self.net(obs)


def policy_widths(parameters: Mapping[str, object]) -> PolicyWidths:
    """Read the widths of a `GaussianPolicy` off its saved parameters.

    Args:
        parameters: the ``state_dict()`` of a policy.

    Raises:
        InputError: they are not the parameters of a `GaussianPolicy`; the message says what is wrong.
    """
    shapes = {name: tuple(value.shape) for name, value in parameters.items() if isinstance(value, torch.Tensor)}
    for name, n_dims in ((_FEATURE_NORM, 1), (_FIRST_LAYER, 2), (_MEAN_HEAD, 2)):
        if len(shapes.get(name, ())) != n_dims or 0 in shapes[name]:
            found = f"its shape is {shapes[name]}" if name in shapes else "it is missing"
            raise InputError(f"not the parameters of a Gaussian policy: {name} must have {n_dims} dimensions, {found}")
    widths = PolicyWidths(shapes[_FEATURE_NORM][0], shapes[_FIRST_LAYER][0], shapes[_MEAN_HEAD][0])
    expected = parameter_shapes(widths)
    if shapes != expected or len(parameters) != len(expected):
        differing = sorted(
            name for name in {*expected, *parameters} if shapes.get(name) != expected.get(name) or name not in expected
        )
        name = differing[0]
        raise InputError(
            f"not the parameters of a Gaussian policy of widths {tuple(widths)}: {name} has shape {shapes.get(name)}, "
            f"expected {expected.get(name)}"
        )
    return widths


def parameter_shapes(widths: PolicyWidths) -> dict[str, tuple[int, ...]]:
    """Give the shape of every parameter of a `GaussianPolicy`, in the order of its ``state_dict()``."""
    with torch.device("meta"):  # shapes alone: no memory, no draws
        policy = GaussianPolicy(obs_dim=widths.obs_dim, hidden_dim=widths.hidden_dim, action_dim=widths.action_dim)
    return {name: tuple(value.shape) for name, value in policy.state_dict().items()}


class _Trunk(nn.Module):
    def __init__(self, obs_dim: int, hidden_dim: int) -> None:
        super().__init__()
        self.feature_norm = nn.LayerNorm(obs_dim)
        self.mlp = _HiddenLayers(obs_dim, hidden_dim)

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        return self.mlp(self.feature_norm(obs))


class _HiddenLayers(nn.Module):
    def __init__(self, obs_dim: int, hidden_dim: int) -> None:
        super().__init__()
        gain = nn.init.calculate_gain("relu")
        self.fc = nn.Sequential(
            _orthogonal_linear(obs_dim, hidden_dim, gain=gain),
            nn.ReLU(),
            nn.LayerNorm(hidden_dim),
            _orthogonal_linear(hidden_dim, hidden_dim, gain=gain),
            nn.ReLU(),
            nn.LayerNorm(hidden_dim),
        )

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        return self.fc(features)


class _Head(nn.Module):
    def __init__(self, hidden_dim: int, action_dim: int) -> None:
        super().__init__()
        self.action_out = _ActionOut(hidden_dim, action_dim)


class _ActionOut(nn.Module):
    def __init__(self, hidden_dim: int, action_dim: int) -> None:
        super().__init__()
        self.log_std = nn.Parameter(torch.full((action_dim,), INITIAL_LOG_STD))
        self.fc_mean = _orthogonal_linear(hidden_dim, action_dim, gain=MEAN_HEAD_GAIN)


def _orthogonal_linear(n_in: int, n_out: int, *, gain: float) -> nn.Linear:
    layer = nn.Linear(n_in, n_out)
    nn.init.orthogonal_(layer.weight, gain=gain)
    nn.init.zeros_(layer.bias)
    return layer
