"""Recorded series that ship inside other packages, and networks whose coupling is known."""

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest


def packaged(package, *parts):
    """Path of a data file of an installed package, without importing the package."""
    origin = find_spec(package).submodule_search_locations[0]
    path = Path(origin).joinpath(*parts)
    assert path.is_file(), path
    return path


@pytest.fixture
def sunspots():
    return packaged("statsmodels", "datasets", "sunspots", "sunspots.csv")


@pytest.fixture
def co2():
    return packaged("statsmodels", "datasets", "co2", "co2.csv")


@pytest.fixture
def pulse():
    """Three recordings: 100 Hz without header; time stamps in ms and a dropout; a coarse clock and clipping."""
    return [packaged("heartpy", "data", name) for name in ("data.csv", "data2.csv", "data3.csv")]


def simulate(omegas, coupling, *, n_samples, period, noise, seed, lag=0.0, substeps=4):
    """Unwrapped phases ``(n_samples, n)`` of a noisy Kuramoto network, by Euler and Maruyama."""
    rng = np.random.default_rng(seed)
    omegas, step = np.asarray(omegas), period / substeps
    theta = rng.uniform(0.0, 2 * np.pi, omegas.size)
    phases = np.empty((n_samples, omegas.size))
    kicks = noise * np.sqrt(step) * rng.normal(size=(n_samples, substeps, omegas.size))
    for sample in range(n_samples):
        phases[sample] = theta
        for substep in range(substeps):
            difference = theta[None, :] - theta[:, None] - lag
            theta = theta + step * (omegas + (coupling * np.sin(difference)).sum(axis=1)) + kicks[sample, substep]
    return phases


@pytest.fixture
def network():
    return simulate
