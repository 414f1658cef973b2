"""The compiled policy is the network."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from chamber.learning.acting import ActingKernel
from chamber.learning.flat_parameters import FlatParameters
from chamber.learning.networks import GaussianPolicy


def _policy(obs_dim: int, hidden_dim: int, action_dim: int) -> tuple[GaussianPolicy, ActingKernel]:
    torch.manual_seed(obs_dim + hidden_dim)
    policy = GaussianPolicy(obs_dim=obs_dim, hidden_dim=hidden_dim, action_dim=action_dim)
    for parameter in policy.parameters():
        parameter.data += 0.1 * torch.randn(parameter.shape)
    return policy, ActingKernel(FlatParameters(policy).values.numpy(), policy.widths)


@pytest.mark.parametrize("widths", [(10, 64, 2), (1, 1, 1), (3, 5, 2), (17, 31, 7), (46, 128, 8)])
@pytest.mark.parametrize("n_rows", [1, 5])
def test_means_and_samples_agree_with_the_network(widths: tuple[int, int, int], n_rows: int) -> None:
    policy, kernel = _policy(*widths)
    obs, noise = 2.0 * torch.randn(n_rows, widths[0]) + 1.0, torch.randn(n_rows, widths[2])
    with torch.no_grad():
        mean, std = policy(obs)
    np.testing.assert_allclose(kernel.mean(obs.numpy()), mean.numpy(), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(
        kernel.sample(obs.numpy(), noise.numpy()), (mean + std * noise).numpy(), rtol=1e-6, atol=1e-6
    )


def test_it_acts_on_the_memory_of_the_parameters() -> None:
    policy, kernel = _policy(4, 8, 2)
    obs = np.ones((1, 4), np.float32)
    before = kernel.mean(obs)
    with torch.no_grad():
        policy.get_parameter("act.action_out.fc_mean.bias").add_(1.0)
    np.testing.assert_allclose(kernel.mean(obs), before + 1.0, rtol=1e-6)


def test_a_nan_in_the_observation_stays_visible() -> None:
    _, kernel = _policy(4, 8, 2)
    assert np.isnan(kernel.mean(np.array([[0.0, np.nan, 0.0, 0.0]], np.float32))).all()


@pytest.mark.parametrize("parameters", [np.zeros(3, np.float32), np.zeros(5272, np.float64)])
def test_parameters_of_another_size_or_type_are_refused(parameters: np.ndarray) -> None:
    with pytest.raises(ValueError, match="float32 vector of shape"):
        ActingKernel(parameters, GaussianPolicy(obs_dim=10, hidden_dim=64, action_dim=2).widths)
