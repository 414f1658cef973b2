"""One copy runs interpreted and many run compiled; nobody may see a difference, not in the last bit."""

from __future__ import annotations

import numpy as np
import pytest

from chamber.envs._cocarry_kernels import excess_penalties, judge_step, largest_norms, reward_of_step, tilts_deg

N = 40


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(11)


def test_tilts(rng: np.random.Generator):
    quaternions = rng.normal(size=(N, 4))
    quaternions[0], quaternions[1] = [1.0, 0.0, 0.0, 0.0], 0.0
    together = tilts_deg(quaternions)
    assert together[0] == 0.0
    assert together.tobytes() == b"".join(tilts_deg(quaternions[k : k + 1]).tobytes() for k in range(N))


def test_largest_norms(rng: np.random.Generator):
    forces = (rng.normal(size=(N, 3)), rng.normal(size=(N, 3)))
    together = largest_norms(forces)
    np.testing.assert_allclose(together, np.linalg.norm(forces, axis=2).max(axis=0))
    alone = [largest_norms((forces[0][k : k + 1], forces[1][k : k + 1])) for k in range(N)]
    assert together.tobytes() == b"".join(norm.tobytes() for norm in alone)


def test_excess_penalties(rng: np.random.Generator):
    stress = rng.uniform(0.0, 30.0, N)
    together = excess_penalties(stress, 0.5, 10.0, 4.0)
    alone = [excess_penalties(stress[k : k + 1], 0.5, 10.0, 4.0) for k in range(N)]
    assert together.tobytes() == b"".join(penalty.tobytes() for penalty in alone)


@pytest.mark.parametrize("is_new_step", [False, True])
def test_the_judge_and_what_it_accumulates(rng: np.random.Generator, is_new_step: bool):
    arms, bodies = (np.arange(7), np.arange(6)), (np.arange(7), np.array([0, 1, 2, 3, 4, 5, 7]))
    poses, goals = rng.normal(scale=0.1, size=(N, 7)), rng.normal(scale=0.1, size=(N, 3))
    poses[:, 3] = 1.0
    stress, elapsed = rng.uniform(0.0, 20.0, N), rng.integers(0, 30, N).astype(np.int32)
    qvels = (rng.normal(scale=0.09, size=(N, 9)), rng.normal(scale=0.09, size=(N, 12)))
    thresholds = np.array([0.2, 12.0, 15.0, 0.2])
    tilt_so_far, stress_so_far = rng.uniform(0.0, 12.0, N), rng.uniform(0.0, 15.0, N)
    steps_met = rng.integers(0, 4, N)

    def judged(chosen: slice) -> list[np.ndarray]:
        memory = [tilt_so_far[chosen].copy(), stress_so_far[chosen].copy(), steps_met[chosen].copy()]
        results = judge_step(
            poses[chosen], goals[chosen], stress[chosen], (qvels[0][chosen], qvels[1][chosen]), arms, bodies,
            elapsed[chosen], 15, thresholds, *memory, is_new_step,
        )  # fmt: skip
        return [*results, *memory]

    together = judged(slice(None))
    flags = together[3]
    assert flags.any(axis=1).all()  # every comparison goes both ways
    assert not flags.all(axis=1).any()
    alone = [judged(slice(k, k + 1)) for k in range(N)]
    for place, value in enumerate(together):
        parts = np.concatenate([part[place] for part in alone], axis=-1)
        assert (value.dtype, value.tobytes()) == (parts.dtype, parts.tobytes())


def test_rewards(rng: np.random.Generator):
    weights = np.array([1.0, 0.5, 0.4, 0.3, 5.0, 5.0, 8.0, 4.0, 5.0, 5.0])
    numbers = [rng.uniform(0.0, high, N) for high in (0.5, 30.0, 1.0, 20.0)]
    flags = [rng.random(N) < 0.5 for _ in range(3)]
    together = reward_of_step(*numbers, *flags, weights)
    alone = [
        reward_of_step(*[column[k : k + 1] for column in numbers], *[flag[k : k + 1] for flag in flags], weights)
        for k in range(N)
    ]
    assert together.tobytes() == b"".join(reward.tobytes() for reward in alone)
