"""Several robots can learn with one critic, and an update can end early."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from chamber.learning.networks import GaussianPolicy, ValueNetwork
from chamber.learning.policy_learner import PolicyLearner
from chamber.learning.ppo import Critic, Seat, policy_metrics, single_thread, update_epochs
from chamber.learning.value_learner import ValueLearner

N = 50


def _team(n_seats: int, lr: float = 1e-3) -> tuple[list[Seat], Critic]:
    torch.manual_seed(5)
    seats: list[Seat] = []
    for k in range(n_seats):
        learner = PolicyLearner(GaussianPolicy(obs_dim=4 + k, hidden_dim=8, action_dim=1 + k), lr=lr, clip_eps=0.2)
        features, actions = learner.features(torch.randn(N, 4 + k)), 0.3 * torch.randn(N, 1 + k)
        seats.append(Seat(learner, features, actions, learner.log_probs(features, actions), torch.randn(N)))
    network = ValueLearner(ValueNetwork(obs_dim=4, hidden_dim=8), lr=lr)
    obs = torch.randn(N, 4)
    return seats, Critic(network, obs, torch.randn(N), network.values(obs))


def _update(seats: list[Seat], critic: Critic, **settings: float) -> None:
    update_epochs(
        seats, critic, n_epochs=3, batch_size=16, rng=np.random.default_rng(0), target_kl=settings.get("target_kl")
    )


def test_two_seats_learn_as_each_would_alone_on_the_same_minibatches() -> None:
    together, critic = _team(2)
    _update(together, critic)
    for k in range(2):
        seats, alone = _team(2)
        _update([seats[k]], alone)
        assert torch.equal(seats[k].learner.parameters.values, together[k].learner.parameters.values)
        assert torch.equal(alone.learner.parameters.values, critic.learner.parameters.values)


def test_a_factor_of_ones_changes_nothing_and_another_one_does() -> None:
    plain, critic = _team(1)
    _update(plain, critic)
    results: list[torch.Tensor] = []
    for factor in (torch.ones(N), torch.linspace(0.1, 3.0, N)):
        seats, critic = _team(1)
        seats[0].factor = factor
        _update(seats, critic)
        results.append(seats[0].learner.parameters.values)
    assert torch.equal(results[0], plain[0].learner.parameters.values)
    assert not torch.allclose(results[1], results[0], atol=1e-4)


@pytest.mark.parametrize(("target_kl", "n_epochs"), [(None, 3), (1e9, 3), (1e-9, 1)])
def test_it_stops_after_the_epoch_that_moved_the_policy_too_far(target_kl: float | None, n_epochs: int) -> None:
    seats, critic = _team(1, lr=1e-2)
    rng = np.random.default_rng(0)
    steps = update_epochs(seats, critic, n_epochs=3, batch_size=16, rng=rng, target_kl=target_kl)
    assert steps.n_epochs == n_epochs
    assert len(steps.value) == 3 * n_epochs
    drawn = np.random.default_rng(0)
    for _ in range(n_epochs):
        drawn.permutation(N)
    assert rng.random() == drawn.random()


def test_only_the_last_epoch_says_how_far_the_policy_has_moved() -> None:
    seats, critic = _team(1, lr=1e-2)
    steps = update_epochs(seats, critic, n_epochs=3, batch_size=16, rng=np.random.default_rng(0))
    moved = [policy_metrics(steps.policy[0][3 * k : 3 * k + 3], clip_eps=0.2)["kl_estimate"] for k in range(3)]
    assert moved == sorted(moved)
    seats, critic = _team(1, lr=1e-2)
    limit = (moved[0] + 3.0 * moved[1]) / 4.0  # the second epoch is beyond it, the mean of both is not
    steps = update_epochs(seats, critic, n_epochs=3, batch_size=16, rng=np.random.default_rng(0), target_kl=limit)
    assert steps.n_epochs == 2


def test_the_first_step_sees_ratios_of_one() -> None:
    seats, critic = _team(1)
    steps = update_epochs(seats, critic, n_epochs=1, batch_size=N, rng=np.random.default_rng(0))
    metrics = policy_metrics(steps.policy[0], clip_eps=0.2)
    assert metrics["ratio_min"] == pytest.approx(1.0, abs=1e-5)
    assert metrics["kl_estimate"] == pytest.approx(0.0, abs=1e-9)


def test_the_number_of_threads_is_restored_also_after_an_error() -> None:
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        with pytest.raises(KeyError), single_thread(torch.device("cpu")):
            raise KeyError(torch.get_num_threads())
        assert torch.get_num_threads() == 2
        with single_thread(torch.device("cpu")):
            assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)
