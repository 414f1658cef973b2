"""The gradients that are written out are those of the documented losses, and Adam is Adam."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch

from chamber.learning.networks import GaussianPolicy, ValueNetwork
from chamber.learning.policy_learner import PolicyLearner, PolicyStep, surrogate
from chamber.learning.ppo import policy_metrics
from chamber.learning.value_learner import ValueLearner, squared_errors
from ripieno.errors import InputError

BATCH = 48


def _policy_case(
    widths: tuple[int, int, int], **settings: float
) -> tuple[PolicyLearner, tuple[torch.Tensor, ...], torch.nn.Module]:
    """A learner whose batch has every branch of the clip, and a float64 copy of its network."""
    o, h, a = widths
    torch.manual_seed(o * h * a)
    policy = GaussianPolicy(obs_dim=o, hidden_dim=h, action_dim=a)
    for parameter in policy.parameters():
        parameter.data += 0.2 * torch.randn(parameter.shape)
    reference = copy.deepcopy(policy).double()
    learner = PolicyLearner(policy, lr=1e-3, clip_eps=0.2, **settings)
    obs, actions = torch.randn(BATCH, o), 0.4 * torch.randn(BATCH, a)
    old = learner.log_probs(learner.features(obs), actions) + 0.3 * torch.randn(BATCH)
    return learner, (obs, actions, old, torch.randn(BATCH)), reference


def _loss(
    network: torch.nn.Module, batch: tuple[torch.Tensor, ...], factor: torch.Tensor | None, entropy_coef: float
) -> torch.Tensor:
    """The documented loss in float64, product of ratios and all."""
    obs, actions, old, advantages = (part.double() for part in batch)
    density = torch.distributions.Normal(*network(obs))
    ratio = density.log_prob(actions).exp().prod(dim=1) / old.exp()
    smaller = torch.min(ratio * advantages, torch.clip(ratio, 0.8, 1.2) * advantages)
    weights = 1.0 if factor is None else factor.double()
    return -(weights * smaller).mean() - entropy_coef * density.entropy().sum(dim=-1).mean()


def _assert_same_gradient(ours: torch.Tensor, exact: torch.Tensor, name: str) -> None:
    """Equal up to what float32 sums of that size lose."""
    np.testing.assert_allclose(ours, exact, rtol=0.0, atol=3e-5 * float(exact.abs().max()), err_msg=name)


@pytest.mark.parametrize("widths", [(10, 64, 2), (3, 5, 1), (33, 16, 8)])
@pytest.mark.parametrize("has_factor", [False, True])
def test_the_policy_s_gradient_is_that_of_the_documented_loss(widths: tuple[int, int, int], has_factor: bool) -> None:
    learner, batch, reference = _policy_case(widths, entropy_coef=0.03, max_grad_norm=1e9)
    factor = 0.5 + torch.rand(BATCH) if has_factor else None
    _loss(reference, batch, factor, 0.03).backward()
    seen = learner.step(learner.features(batch[0]), *batch[1:], factor)
    for name, parameter in reference.named_parameters():
        assert parameter.grad is not None
        _assert_same_gradient(learner.parameters.gradients[name], parameter.grad, name)
    norm = torch.cat([p.grad.reshape(-1) for p in reference.parameters() if p.grad is not None]).norm()
    assert float(seen.gradient_norm) == pytest.approx(float(norm), rel=1e-5)
    is_clipped = (seen.ratio - 1.0).abs() > 0.2
    assert is_clipped.any()
    assert not is_clipped.all()


def test_a_long_gradient_is_shortened_to_the_limit() -> None:
    learner, batch, _ = _policy_case((10, 64, 2), max_grad_norm=0.01)
    seen = learner.step(learner.features(batch[0]), *batch[1:])
    assert float(seen.gradient_norm) > 0.01
    assert float(learner.parameters.gradient.norm()) == pytest.approx(0.01, rel=1e-5)


def test_log_densities_are_summed_over_dimensions() -> None:
    learner, (obs, actions, _, _), reference = _policy_case((10, 64, 3))
    with torch.no_grad():
        expected = torch.distributions.Normal(*reference(obs.double())).log_prob(actions.double()).sum(dim=1)
    np.testing.assert_allclose(learner.log_probs(learner.features(obs), actions), expected, rtol=1e-5, atol=1e-5)


def test_an_extreme_ratio_does_not_overflow_on_the_way() -> None:
    learner, (obs, actions, old, advantages), _ = _policy_case((4, 8, 6))
    seen = learner.step(learner.features(obs), actions, old + 200.0, advantages)
    assert float(seen.ratio.max()) < 1e-30
    assert torch.isfinite(learner.parameters.values).all()


def test_metrics_of_the_documented_ratios() -> None:
    ratio = torch.tensor([1.1, 0.7, 1.0])
    step = PolicyStep(ratio, ratio.log(), torch.tensor(0.5), torch.tensor(2.0))
    batch = (torch.zeros(3, 1), torch.zeros(3, 1), torch.zeros(3), torch.tensor([1.0, -1.0, 2.0]))
    metrics = policy_metrics([(step, batch)], clip_eps=0.2)
    assert metrics["approx_kl"] == pytest.approx(0.0166667, abs=1e-7)
    assert metrics["clip_fraction"] == pytest.approx(1.0 / 3.0)
    assert metrics["policy_loss"] == pytest.approx(-(1.1 - 0.8 + 2.0) / 3.0)
    assert metrics["kl_estimate"] == pytest.approx(
        float(np.mean(np.array([1.1, 0.7, 1.0]) - 1 - np.log([1.1, 0.7, 1.0])))
    )
    assert (metrics["ratio_min"], metrics["ratio_max"]) == pytest.approx((0.7, 1.1))
    assert (metrics["dist_entropy"], metrics["actor_grad_norm"]) == (0.5, 2.0)


def test_the_surrogate_takes_the_smaller_branch() -> None:
    ratio, advantages = torch.tensor([1.5, 1.5, 0.5, 0.5]), torch.tensor([1.0, -1.0, 1.0, -1.0])
    assert surrogate(ratio, advantages, 0.2).tolist() == pytest.approx([1.2, -1.5, 0.5, -0.8])


@pytest.mark.parametrize("clip", [None, 0.1])
@pytest.mark.parametrize("widths", [(10, 64), (3, 5), (40, 16)])
def test_the_critic_s_gradient_is_that_of_the_squared_error(widths: tuple[int, int], clip: float | None) -> None:
    torch.manual_seed(sum(widths))
    network = ValueNetwork(obs_dim=widths[0], hidden_dim=widths[1])
    reference = copy.deepcopy(network).double()
    learner = ValueLearner(network, lr=1e-3, value_clip=clip)
    obs, returns = torch.randn(BATCH, widths[0]), torch.randn(BATCH)
    old = learner.values(obs) + 0.2 * torch.randn(BATCH)
    values = reference(obs.double()).squeeze(1)
    squared_errors(values, returns.double(), old.double(), clip).mean().backward()
    np.testing.assert_allclose(learner.step(obs, returns, old), values.detach(), rtol=1e-5, atol=1e-6)
    for name, parameter in reference.named_parameters():
        assert parameter.grad is not None
        _assert_same_gradient(learner.parameters.gradients[name], parameter.grad, name)


def test_twenty_steps_are_those_of_adam_on_the_shortened_gradient() -> None:
    learner, batch, reference = _policy_case((10, 64, 2), max_grad_norm=0.1)
    parameters = list(reference.parameters())
    means, squares = ([torch.zeros_like(p) for p in parameters] for _ in range(2))
    for t in range(1, 21):
        gradients = torch.autograd.grad(_loss(reference, batch, None, 0.01), parameters)
        norm = torch.cat([gradient.reshape(-1) for gradient in gradients]).norm()
        with torch.no_grad():
            for p, gradient, m, v in zip(parameters, gradients, means, squares, strict=True):
                shortened = gradient * min(1.0, 0.1 / float(norm))
                m.mul_(0.9).add_(0.1 * shortened)
                v.mul_(0.999).add_(0.001 * shortened**2)
                p.sub_(1e-3 * (m / (1 - 0.9**t)) / ((v / (1 - 0.999**t)).sqrt() + 1e-5))
        learner.step(learner.features(batch[0]), *batch[1:])
    for name, parameter in reference.named_parameters():
        np.testing.assert_allclose(
            learner.policy.get_parameter(name).detach().numpy(), parameter.detach().numpy(), atol=2e-5, err_msg=name
        )


@pytest.mark.slow  # PyTorch's optimisers import its compiler, which takes seconds
def test_the_optimiser_s_state_has_the_format_of_pytorch_both_ways() -> None:
    learner, batch, _ = _policy_case((10, 64, 2))
    fresh = torch.optim.Adam(copy.deepcopy(learner.policy).parameters(), lr=1e-3, eps=1e-5)
    assert learner.optimizer.state_dict() == fresh.state_dict()
    for _ in range(3):
        learner.step(learner.features(batch[0]), *batch[1:])
    state = learner.optimizer.state_dict()
    fresh.load_state_dict(state)
    assert float(fresh.state[fresh.param_groups[0]["params"][0]]["step"]) == 3.0
    other, _, _ = _policy_case((10, 64, 2))
    other.load_state(learner.policy.state_dict(), fresh.state_dict())
    for one in (learner, other):
        one.step(one.features(batch[0]), *batch[1:])
    assert torch.equal(learner.parameters.values, other.parameters.values)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda s: s.pop("param_groups"), "param_groups"),
        (lambda s: s["state"].pop(4), "13 entries"),
        (lambda s: s["state"][2].update(exp_avg=torch.zeros(3)), "entry 2"),
        (lambda s: s["state"][5].update(step=torch.tensor(9.0)), "same step"),
    ],
)
def test_a_state_that_does_not_fit_is_refused_and_changes_nothing(damage: object, message: str) -> None:
    learner, batch, _ = _policy_case((10, 64, 2))
    learner.step(learner.features(batch[0]), *batch[1:])
    before = learner.parameters.values.clone()
    state = learner.optimizer.state_dict()
    damage(state)  # type: ignore[operator]
    parameters = {name: torch.zeros_like(value) for name, value in learner.policy.state_dict().items()}
    with pytest.raises(InputError, match=message):
        learner.load_state(parameters, state)
    assert torch.equal(learner.parameters.values, before)


def test_parameters_of_another_width_are_refused_by_name() -> None:
    learner, _, _ = _policy_case((10, 64, 2))
    other, _, _ = _policy_case((10, 32, 2))
    with pytest.raises(InputError, match=r"act\.action_out\.fc_mean\.weight has shape \(2, 32\), expected \(2, 64\)"):
        learner.load_state(other.policy.state_dict(), other.optimizer.state_dict())
