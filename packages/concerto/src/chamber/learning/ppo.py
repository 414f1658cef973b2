"""Proximal policy optimisation over one rollout, for one robot or for several that share a critic."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from chamber.learning.minibatches import minibatch_sizes
from chamber.learning.policy_learner import PolicyLearner, PolicyStep, surrogate
from chamber.learning.value_learner import ValueLearner, squared_errors
from chamber.utils.pytorch import torch

__all__ = ["Critic", "Seat", "Steps", "policy_metrics", "single_thread", "update_epochs", "value_loss"]


@dataclass
class Seat:
    """A robot that learns, and its part of the rollout; n samples in time order, all tensors on one device.

    Attributes:
        learner: the policy that proposed the actions.
        features: `PolicyLearner.features` of what it saw, shape ``(n, O)``.
        actions: what it proposed, shape ``(n, A)``.
        log_probs: log-density of that, summed over dimensions, shape ``(n,)``.
        advantages: normalised, shape ``(n,)``.
        factor: importance weights of robots that were updated before, shape ``(n,)``; ``None`` is all ones.
    """

    learner: PolicyLearner
    features: torch.Tensor
    actions: torch.Tensor
    log_probs: torch.Tensor
    advantages: torch.Tensor
    factor: torch.Tensor | None = None

    def shuffled(self, order: torch.Tensor, sizes: list[int]) -> list[tuple[torch.Tensor, ...]]:
        """Give the minibatches of an epoch, each in the order of the arguments of `PolicyLearner.step`."""
        parts = [self.features, self.actions, self.log_probs, self.advantages]
        if self.factor is not None:
            parts.append(self.factor)
        return _minibatches(parts, order, sizes)


@dataclass
class Critic:
    """The value function that learns, and its part of the rollout.

    Attributes:
        learner: the value network.
        obs: what it is a function of, shape ``(n, O)``.
        returns: targets, shape ``(n,)``.
        values: its values before the update, shape ``(n,)``.
    """

    learner: ValueLearner
    obs: torch.Tensor
    returns: torch.Tensor
    values: torch.Tensor

    def shuffled(self, order: torch.Tensor, sizes: list[int]) -> list[tuple[torch.Tensor, ...]]:
        """Give the minibatches of an epoch, each in the order of the arguments of `ValueLearner.step`."""
        return _minibatches([self.obs, self.returns, self.values], order, sizes)


@dataclass
class Steps:
    """What the steps of an update saw, kept as tensors until somebody asks.

    Attributes:
        policy: per seat, one entry per minibatch: what the step saw, and the minibatch.
        value: one entry per minibatch: the values before the step, and the minibatch.
        n_epochs: epochs that were begun.
    """

    policy: list[list[tuple[PolicyStep, tuple[torch.Tensor, ...]]]] = field(default_factory=list)
    value: list[tuple[torch.Tensor, tuple[torch.Tensor, ...]]] = field(default_factory=list)
    n_epochs: int = 0


def update_epochs(
    seats: Sequence[Seat],
    critic: Critic,
    *,
    n_epochs: int,
    batch_size: int,
    rng: np.random.Generator,
    target_kl: float | None = None,
) -> Steps:
    """Pass over the rollout ``n_epochs`` times in shuffled minibatches (Schulman et al. 2017, algorithm 1).

    In each minibatch every seat takes a step in the given order, then the critic does. Advantages, returns and old
    log-densities stay fixed.

    Args:
        seats: the robots that learn.
        critic: their value function.
        n_epochs: passes; each draws one permutation.
        batch_size: see `minibatch_sizes`.
        rng: draws the permutations.
        target_kl: after an epoch whose mean `kl_estimate` exceeds this for any seat, there is no further one;
            ``None`` never stops.
    """
    n = len(critic.returns)
    sizes = minibatch_sizes(n, batch_size)
    steps = Steps(policy=[[] for _ in seats])
    for _ in range(n_epochs):
        order = torch.from_numpy(rng.permutation(n)).to(critic.obs.device)
        seat_batches = [seat.shuffled(order, sizes) for seat in seats]
        for k, value_batch in enumerate(critic.shuffled(order, sizes)):
            for seat, batches, seen in zip(seats, seat_batches, steps.policy, strict=True):
                seen.append((seat.learner.step(*batches[k]), batches[k]))
            steps.value.append((critic.learner.step(*value_batch), value_batch))
        steps.n_epochs += 1
        if target_kl is not None and any(_mean_kl(seen[-len(sizes) :]) > target_kl for seen in steps.policy):
            break
    for seat in seats:
        seat.learner.refresh_acting()
    return steps


def kl_estimate(ratio: torch.Tensor, log_ratio: torch.Tensor) -> torch.Tensor:
    """Give ``mean(r - 1 - log r)``: an unbiased estimate of the divergence of the new policy, never negative.

    Schulman, "Approximating KL divergence" (2020), calls it k3.
    """
    return (ratio - 1.0 - log_ratio).mean()


def policy_metrics(seen: Sequence[tuple[PolicyStep, tuple[torch.Tensor, ...]]], *, clip_eps: float) -> dict[str, float]:
    """Summarise the steps of one seat; waits for the device once.

    Returns:
        Means over minibatches of ``policy_loss`` (without the entropy), ``dist_entropy``, ``actor_grad_norm``,
        ``approx_kl = mean((r - 1)^2) / 2``, ``kl_estimate`` and ``clip_fraction``; extremes ``ratio_min`` and
        ``ratio_max``.
    """
    rows: list[torch.Tensor] = []
    for step, (_, _, _, advantages, *factor) in seen:
        away = step.ratio - 1.0
        rows.append(
            torch.stack(
                [
                    -surrogate(step.ratio, advantages, clip_eps, *factor).mean(),
                    step.entropy,
                    step.gradient_norm,
                    0.5 * away.square().mean(),
                    kl_estimate(step.ratio, step.log_ratio),
                    (away.abs() > clip_eps).float().mean(),
                    step.ratio.min(),
                    step.ratio.max(),
                ]
            )
        )
    table = torch.stack(rows).double().cpu().numpy()
    names = ("policy_loss", "dist_entropy", "actor_grad_norm", "approx_kl", "kl_estimate", "clip_fraction")
    return {
        **dict(zip(names, table[:, : len(names)].mean(axis=0).tolist(), strict=True)),
        "ratio_min": float(table[:, -2].min()),
        "ratio_max": float(table[:, -1].max()),
    }


def value_loss(
    seen: Sequence[tuple[torch.Tensor, tuple[torch.Tensor, ...]]], *, value_clip: float | None = None
) -> float:
    """Give the mean over minibatches of the critic's loss; waits for the device once."""
    losses = [
        squared_errors(values, returns, old_values, value_clip).mean() for values, (_, returns, old_values) in seen
    ]
    return float(torch.stack(losses).double().mean())


@contextmanager
def single_thread(device: torch.device) -> Generator[None]:
    """Compute with one thread of PyTorch on a CPU, and restore the number afterwards.

    Minibatches are too small to share, and with one thread the order of sums, so the result to the last bit, does not
    depend on the number of cores.
    """
    n_threads = torch.get_num_threads()
    if device.type != "cpu" or n_threads == 1:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(n_threads)


def _mean_kl(seen: Sequence[tuple[PolicyStep, tuple[torch.Tensor, ...]]]) -> float:
    return float(torch.stack([kl_estimate(step.ratio, step.log_ratio) for step, _ in seen]).mean())


def _minibatches(
    parts: Sequence[torch.Tensor], order: torch.Tensor, sizes: list[int]
) -> list[tuple[torch.Tensor, ...]]:
    """Shuffle once per epoch, so that minibatches are slices."""
    return list(zip(*(part.index_select(0, order).split(sizes) for part in parts), strict=True))
