"""The networks have the documented start, size and parameter names."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from chamber.learning.acting import n_policy_parameters
from chamber.learning.networks import GaussianPolicy, PolicyWidths, ValueNetwork, policy_widths
from ripieno.errors import InputError

ACTOR_NAMES = [
    "base.feature_norm.weight",
    "base.feature_norm.bias",
    "base.mlp.fc.0.weight",
    "base.mlp.fc.0.bias",
    "base.mlp.fc.2.weight",
    "base.mlp.fc.2.bias",
    "base.mlp.fc.3.weight",
    "base.mlp.fc.3.bias",
    "base.mlp.fc.5.weight",
    "base.mlp.fc.5.bias",
    "act.action_out.log_std",
    "act.action_out.fc_mean.weight",
    "act.action_out.fc_mean.bias",
]


@pytest.mark.parametrize(
    ("widths", "n_actor", "n_critic"),
    [((10, 64, 2), 5272, 4929), ((65, 256, 8), 85906, 82945), ((46, 256, 8), 81004, 78081)],
)
def test_parameter_counts_are_the_documented_ones(widths: tuple[int, int, int], n_actor: int, n_critic: int) -> None:
    o, h, a = widths
    policy = GaussianPolicy(obs_dim=o, hidden_dim=h, action_dim=a)
    assert sum(p.numel() for p in policy.parameters()) == n_policy_parameters(PolicyWidths(*widths)) == n_actor
    assert sum(p.numel() for p in ValueNetwork(obs_dim=o, hidden_dim=h).parameters()) == n_critic


def test_a_fresh_policy_on_zeros_has_mean_zero_and_the_documented_spread() -> None:
    mean, std = GaussianPolicy(obs_dim=10, hidden_dim=64, action_dim=2)(torch.zeros(1, 10))
    density = torch.distributions.Normal(mean, std)
    assert mean.tolist() == [[0.0, 0.0]]
    assert density.log_prob(mean).tolist()[0] == pytest.approx([0.0875, 0.0875], abs=5e-5)
    assert density.entropy().sum().item() == pytest.approx(0.82506, abs=5e-6)
    assert std.tolist() == pytest.approx([0.365529, 0.365529], abs=5e-7)


def test_the_parameter_names_are_those_of_the_checkpoints() -> None:
    assert list(GaussianPolicy(obs_dim=3, hidden_dim=4, action_dim=2).state_dict()) == ACTOR_NAMES
    assert list(ValueNetwork(obs_dim=3, hidden_dim=4).state_dict()) == [
        f"net.{index}.{kind}" for index in (0, 2, 4) for kind in ("weight", "bias")
    ]


def test_the_start_is_drawn_in_the_documented_order() -> None:
    torch.manual_seed(3)
    policy = GaussianPolicy(obs_dim=5, hidden_dim=6, action_dim=2)
    torch.manual_seed(3)
    for name, (n_in, n_out), gain in (
        ("base.mlp.fc.0", (5, 6), math.sqrt(2.0)),
        ("base.mlp.fc.3", (6, 6), math.sqrt(2.0)),
        ("act.action_out.fc_mean", (6, 2), 0.01),
    ):
        layer = torch.nn.Linear(n_in, n_out)
        torch.nn.init.orthogonal_(layer.weight, gain=gain)
        assert torch.equal(policy.get_parameter(f"{name}.weight"), layer.weight)
        assert not policy.get_parameter(f"{name}.bias").any()


def test_widths_are_read_off_the_parameters_without_a_draw() -> None:
    parameters = GaussianPolicy(obs_dim=7, hidden_dim=9, action_dim=3).state_dict()
    before = torch.get_rng_state()
    assert policy_widths(parameters) == PolicyWidths(7, 9, 3)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(
    ("damage", "named"),
    [
        (lambda p: p.pop("base.feature_norm.weight"), "base.feature_norm.weight"),
        (lambda p: p.pop("base.mlp.fc.5.bias"), "base.mlp.fc.5.bias"),
        (lambda p: p.update({"base.mlp.fc.3.weight": torch.zeros(9, 8)}), "base.mlp.fc.3.weight"),
        (lambda p: p.update({"rnn.weight": torch.zeros(1)}), "rnn.weight"),
        (lambda p: p.update({"act.action_out.fc_mean.weight": 3.0}), "act.action_out.fc_mean.weight"),
    ],
)
def test_parameters_of_another_architecture_are_refused_by_name(damage: object, named: str) -> None:
    parameters = dict(GaussianPolicy(obs_dim=7, hidden_dim=9, action_dim=3).state_dict())
    damage(parameters)  # type: ignore[operator]
    with pytest.raises(InputError, match=named.replace(".", r"\.")):
        policy_widths(parameters)


def test_a_value_network_gives_one_column() -> None:
    assert ValueNetwork(obs_dim=4, hidden_dim=8)(torch.from_numpy(np.zeros((5, 4), np.float32))).shape == (5, 1)
