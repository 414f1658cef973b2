"""A Gaussian policy that learns: the clipped surrogate and its gradient, written out."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from chamber.learning.acting import LAYER_NORM_EPS, ActingKernel
from chamber.learning.flat_parameters import Adam, FlatParameters, checked_parameters
from chamber.learning.networks import LARGEST_STD, GaussianPolicy
from chamber.utils.pytorch import torch

__all__ = ["PolicyLearner", "PolicyStep", "surrogate", "surrogate_slope"]

HALF_LOG_TWO_PI = 0.5 * math.log(2.0 * math.pi)
FEATURE_NORM = "base.feature_norm"
FIRST = "base.mlp.fc.0"
SECOND = "base.mlp.fc.3"
HEAD = "act.action_out."

_layer_norm = torch.ops.aten.native_layer_norm.default
_layer_norm_backward = torch.ops.aten.native_layer_norm_backward.default
_threshold_backward = torch.ops.aten.threshold_backward.default


class PolicyStep(NamedTuple):
    """What one step of a `PolicyLearner` saw, as tensors, so that nothing waits for a device.

    Attributes:
        ratio: probability of each action under the policy over that of the policy that acted, shape ``(B,)``.
        log_ratio: its logarithm, shape ``(B,)``.
        entropy: entropy of the policy before the step, shape ``()``.
        gradient_norm: norm of the gradient before it was limited, shape ``()``.
    """

    ratio: torch.Tensor
    log_ratio: torch.Tensor
    entropy: torch.Tensor
    gradient_norm: torch.Tensor


class _Forward(NamedTuple):
    """What the gradient needs of the way forward; the moments are mean and reciprocal deviation of each row."""

    mean: torch.Tensor
    hidden_1: torch.Tensor
    normed_1: torch.Tensor
    moments_1: tuple[torch.Tensor, torch.Tensor]
    hidden_2: torch.Tensor
    normed_2: torch.Tensor
    moments_2: tuple[torch.Tensor, torch.Tensor]


def surrogate(
    ratio: torch.Tensor, advantages: torch.Tensor, clip_eps: float, factor: torch.Tensor | None = None
) -> torch.Tensor:
    """Give ``factor * min(r A, clip(r, 1 - eps, 1 + eps) A)`` per sample.

    Schulman et al. 2017, arXiv 1707.06347, equation 7.

    Args:
        ratio: r, shape ``(B,)``.
        advantages: A, shape ``(B,)``.
        clip_eps: eps.
        factor: importance weights of robots that were updated earlier in a sequential update (Kuba et al. 2022,
            arXiv 2109.11251, eq. 11), shape ``(B,)``; ``None`` is all ones.
    """
    clipped = torch.minimum(ratio * advantages, ratio.clamp(1.0 - clip_eps, 1.0 + clip_eps) * advantages)
    return clipped if factor is None else factor * clipped


def surrogate_slope(
    ratio: torch.Tensor, advantages: torch.Tensor, clip_eps: float, factor: torch.Tensor | None = None
) -> torch.Tensor:
    """Give the derivative of `surrogate` with respect to the logarithm of the ratio, shape ``(B,)``.

    It is ``factor * r A`` where the clip does not bind and 0 where it does.
    """
    unclipped = ratio * advantages
    binds = unclipped > ratio.clamp(1.0 - clip_eps, 1.0 + clip_eps).mul_(advantages)
    slope = unclipped.masked_fill_(binds, 0.0)
    return slope if factor is None else slope.mul_(factor)


class PolicyLearner:
    r"""A `GaussianPolicy` with its optimiser; takes steps on the clipped surrogate with an entropy bonus.

    One step minimises, over a batch of B samples::

        L = -mean(surrogate) - entropy_coef * H,   H = sum_d (1/2 + 1/2 log(2 pi) + log std_d)

    limits the norm of the gradient, and calls Adam with eps 1e-5. The gradient is written out instead of left to
    autograd: the networks are so small that bookkeeping would take four fifths of the time.

    Args:
        policy: the network; its parameters become views of one vector.
        lr: learning rate of Adam.
        clip_eps: the ratio is clipped to ``1 - clip_eps .. 1 + clip_eps``.
        entropy_coef: weight of the entropy.
        max_grad_norm: limit of the gradient's norm.
    """

    def __init__(
        self,
        policy: GaussianPolicy,
        *,
        lr: float,
        clip_eps: float,
        entropy_coef: float = 0.01,
        max_grad_norm: float = 10.0,
    ) -> None:
        self.policy = policy
        self.parameters = FlatParameters(policy)
        self.optimizer = Adam(self.parameters, lr=lr, eps=1e-5)
        self.clip_eps = clip_eps
        self.entropy_coef = entropy_coef
        self.max_grad_norm = max_grad_norm
        self._tensors = self.parameters.views(self.parameters.values)
        on_cpu = self.parameters.values.cpu()
        self._host_parameters = None if on_cpu is self.parameters.values else on_cpu
        self.acting = ActingKernel(on_cpu.numpy(), policy.widths)

    @torch.no_grad()
    def features(self, obs: torch.Tensor) -> torch.Tensor:
        """Give each observation with mean 0 and variance 1, shape ``(n, O)``.

        This part of the first LayerNorm has no parameters, so that once per rollout is enough.
        """
        return _layer_norm(obs, [obs.shape[1]], None, None, LAYER_NORM_EPS)[0]

    @torch.no_grad()
    def log_probs(self, features: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
        """Give the log-density of each action, summed over its dimensions, shape ``(n,)``.

        Args:
            features: see `features`, shape ``(n, O)``.
            actions: shape ``(n, A)``.
        """
        std = self._std()
        errors = (actions - self._forward(features).mean).div_(std)
        return errors.square().sum(1).mul_(-0.5).sub_(self._log_scale(std))

    @torch.no_grad()
    def step(
        self,
        features: torch.Tensor,
        actions: torch.Tensor,
        old_log_probs: torch.Tensor,
        advantages: torch.Tensor,
        factor: torch.Tensor | None = None,
    ) -> PolicyStep:
        """Take one step.

        Args:
            features: see `features`, shape ``(B, O)``.
            actions: what was proposed, shape ``(B, A)``.
            old_log_probs: its log-density under the policy that acted, summed over dimensions, shape ``(B,)``.
            advantages: shape ``(B,)``.
            factor: see `surrogate`.
        """
        forward = self._forward(features)
        std = self._std()
        errors = (actions - forward.mean).div_(std)
        squares = errors.square()
        log_scale = self._log_scale(std)
        log_ratio = squares.sum(1).mul_(-0.5).sub_(log_scale).sub_(old_log_probs)
        # A sum of log-ratios, not a product of ratios: the same value, and no overflow on the way.
        ratio = log_ratio.exp()
        # dL / d log-density
        slope = surrogate_slope(ratio, advantages, self.clip_eps, factor).div_(-len(features)).unsqueeze(1)
        # d log-density / d log std = e^2 - 1, and as std = 0.5 sigmoid(l), d log std / d l = 1 - 2 std.
        d_log_std = squares.sub_(1.0).mul_(slope).sum(0).sub_(self.entropy_coef)
        torch.mul(d_log_std, 1.0 - std / LARGEST_STD, out=self.parameters.gradients[HEAD + "log_std"])
        # d log-density / d mean = e / std
        self._backward(features, forward, errors.div_(std).mul_(slope))
        norm = torch.linalg.vector_norm(self.parameters.gradient)
        self.optimizer.step(gradient_divisor=(norm / self.max_grad_norm).clamp_(min=1.0))
        return PolicyStep(ratio, log_ratio, log_scale + 0.5 * len(std), norm)

    def refresh_acting(self) -> None:
        """Let ``acting`` see the present parameters; needed only where they lie on another device."""
        if self._host_parameters is not None:
            self._host_parameters.copy_(self.parameters.values)

    def check_state(self, parameters: Mapping[str, Any], optimizer: Mapping[str, Any]) -> None:
        """Check that `load_state` can take a state.

        Raises:
            InputError: it does not fit; the message says where.
        """
        checked_parameters(self.policy, parameters, of="policy")
        self.optimizer.check_state(optimizer)

    def load_state(self, parameters: Mapping[str, Any], optimizer: Mapping[str, Any]) -> None:
        """Take over saved parameters and the state of the optimiser.

        Raises:
            InputError: see `check_state`; nothing has changed then.
        """
        self.check_state(parameters, optimizer)
        self.policy.load_state_dict(dict(parameters))
        self.optimizer.load_state_dict(optimizer)
        self.refresh_acting()

    def _std(self) -> torch.Tensor:
        return self._tensors[HEAD + "log_std"].sigmoid().mul_(LARGEST_STD)

    @staticmethod
    def _log_scale(std: torch.Tensor) -> torch.Tensor:
        """Give ``sum_d (log std_d + log(2 pi) / 2)``, minus the log-density of the mean."""
        return std.log().add_(HALF_LOG_TWO_PI).sum()

    def _forward(self, features: torch.Tensor) -> _Forward:
        p = self._tensors
        h = len(p[FIRST + ".bias"])
        # W (w x + b) + c = (W w) x + (W b + c): weight and bias of the first LayerNorm join the first layer.
        weight = p[FIRST + ".weight"] * p[FEATURE_NORM + ".weight"]
        bias = torch.addmv(p[FIRST + ".bias"], p[FIRST + ".weight"], p[FEATURE_NORM + ".bias"])
        hidden_1 = torch.addmm(bias, features, weight.t()).relu_()
        normed_1, mean_1, scale_1 = _layer_norm(
            hidden_1, [h], p["base.mlp.fc.2.weight"], p["base.mlp.fc.2.bias"], LAYER_NORM_EPS
        )
        hidden_2 = torch.addmm(p[SECOND + ".bias"], normed_1, p[SECOND + ".weight"].t()).relu_()
        normed_2, mean_2, scale_2 = _layer_norm(
            hidden_2, [h], p["base.mlp.fc.5.weight"], p["base.mlp.fc.5.bias"], LAYER_NORM_EPS
        )
        mean = torch.addmm(p[HEAD + "fc_mean.bias"], normed_2, p[HEAD + "fc_mean.weight"].t())
        return _Forward(mean, hidden_1, normed_1, (mean_1, scale_1), hidden_2, normed_2, (mean_2, scale_2))

    def _backward(self, features: torch.Tensor, forward: _Forward, d_mean: torch.Tensor) -> None:
        """Write the gradient of every parameter but ``log_std``, given that of the means."""
        d_normed_2 = self._linear_backward(d_mean, forward.normed_2, HEAD + "fc_mean")
        d_sum_2 = self._norm_backward(d_normed_2, forward.hidden_2, forward.moments_2, "base.mlp.fc.5")
        d_normed_1 = self._linear_backward(d_sum_2, forward.normed_1, SECOND)
        d_sum_1 = self._norm_backward(d_normed_1, forward.hidden_1, forward.moments_1, "base.mlp.fc.2")
        self._first_backward(d_sum_1, features)

    def _norm_backward(
        self, d_normed: torch.Tensor, hidden: torch.Tensor, moments: tuple[torch.Tensor, torch.Tensor], norm: str
    ) -> torch.Tensor:
        """Go back through LayerNorm and ReLU."""
        p, g = self._tensors, self.parameters.gradients
        d_hidden, d_weight, d_bias = _layer_norm_backward(
            d_normed, hidden, [hidden.shape[1]], *moments, p[norm + ".weight"], p[norm + ".bias"], [True, True, True]
        )
        g[norm + ".weight"].copy_(d_weight)
        g[norm + ".bias"].copy_(d_bias)
        return _threshold_backward(d_hidden, hidden, 0)

    def _first_backward(self, d_sum: torch.Tensor, features: torch.Tensor) -> None:
        """Write the gradients of the first layer and of the LayerNorm that joined it in `_forward`.

        With ``M = d_sum^T features`` and ``s`` the column sums of ``d_sum``: ``dW = M w + s b^T``, ``dc = s``,
        ``dw = sum over rows of (M W)`` and ``db = W^T s``.
        """
        p, g = self._tensors, self.parameters.gradients
        weight = p[FIRST + ".weight"]
        d_bias = torch.sum(d_sum, 0, out=g[FIRST + ".bias"])
        product = torch.mm(features.t(), d_sum).t()  # the other order costs three times as much for narrow features
        torch.mul(product, p[FEATURE_NORM + ".weight"], out=g[FIRST + ".weight"]).addr_(
            d_bias, p[FEATURE_NORM + ".bias"]
        )
        torch.sum(product * weight, 0, out=g[FEATURE_NORM + ".weight"])
        torch.mv(weight.t(), d_bias, out=g[FEATURE_NORM + ".bias"])

    def _linear_backward(self, d_out: torch.Tensor, inputs: torch.Tensor, name: str) -> torch.Tensor:
        g = self.parameters.gradients
        torch.mm(d_out.t(), inputs, out=g[name + ".weight"])
        torch.sum(d_out, 0, out=g[name + ".bias"])
        return torch.mm(d_out, self._tensors[name + ".weight"])
