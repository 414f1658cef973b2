"""Advantages against the documented numbers and against the formula, step by step."""

from __future__ import annotations

import numpy as np
import pytest

from chamber.learning.advantages import compute_gae, next_step_values, normalize_advantages


def test_an_episode_that_terminates() -> None:
    advantages = compute_gae([1, 1, 1], [0.5] * 3, [0.5, 0.5, 0], [False, False, True], gamma=0.9, gae_lambda=0.8)
    assert advantages.dtype == np.float32
    np.testing.assert_allclose(advantages, [1.8932, 1.31, 0.5], rtol=1e-6)


def test_a_truncation_is_bootstrapped_and_a_termination_is_not() -> None:
    rewards, values, ends = [1, 2, 3, 4], [0.1, 0.2, 0.3, 0.4], [False, True, False, False]
    truncated = compute_gae(rewards, values, [0.2, 0.9, 0.4, 0.5], ends, gamma=0.99, gae_lambda=0.95)
    np.testing.assert_allclose(truncated, [3.6288855, 2.691, 6.9473476, 4.095], rtol=1e-6)
    terminated = compute_gae(rewards, values, [0.2, 0.0, 0.4, 0.5], ends, gamma=0.99, gae_lambda=0.95)
    np.testing.assert_allclose(terminated, [2.7909, 1.8, 6.9473476, 4.095], rtol=1e-6)


@pytest.mark.parametrize("n_envs", [1, 2, 7, 64])
def test_every_environment_has_the_advantages_of_the_formula(n_envs: int) -> None:
    rng = np.random.default_rng(n_envs)
    rewards, values, following = rng.normal(size=(3, 50, n_envs)).astype(np.float32)
    ends = rng.random((50, n_envs)) < 0.1
    advantages = compute_gae(rewards, values, following, ends, gamma=0.97, gae_lambda=0.9)
    for e in range(n_envs):
        alone = compute_gae(rewards[:, e], values[:, e], following[:, e], ends[:, e], gamma=0.97, gae_lambda=0.9)
        np.testing.assert_array_equal(advantages[:, e], alone)
        later = 0.0
        for t in reversed(range(50)):
            delta = float(rewards[t, e]) + 0.97 * float(following[t, e]) - float(values[t, e])
            later = delta if ends[t, e] else delta + 0.97 * 0.9 * later
            assert advantages[t, e] == np.float32(later)


def test_the_next_value_is_the_next_observation_s_but_at_an_end() -> None:
    values = np.array([[1.0], [2.0], [3.0]], np.float32)
    bootstraps = np.array([[0.0], [7.0], [0.0]], np.float32)
    ends = np.array([[False], [True], [False]])
    answer = next_step_values(values, np.array([9.0], np.float32), bootstraps, ends)
    assert answer.ravel().tolist() == [2.0, 7.0, 9.0]


def test_normalised_advantages_have_the_documented_values() -> None:
    np.testing.assert_allclose(
        normalize_advantages(np.array([1, 2, 3, 4], np.float32)),
        [-1.3416288, -0.4472096, 0.4472096, 1.3416288],
        rtol=1e-6,
    )
    assert normalize_advantages(np.full(3, 2, np.float32)).tolist() == [0.0, 0.0, 0.0]
    assert normalize_advantages(np.empty(0, np.float32)).shape == (0,)


def test_series_of_different_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match=r"share one shape .*\(3,\), \(3,\), \(2,\), \(3,\)"):
        compute_gae([1, 1, 1], [0, 0, 0], [0, 0], [False] * 3, gamma=0.9, gae_lambda=0.8)
