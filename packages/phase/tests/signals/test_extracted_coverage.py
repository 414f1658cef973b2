"""Coupling from signals in a CSV file: how often the intervals hold the truth when phases are extracted first."""

import numpy as np
import pytest

from scpn_phase_orchestrator.coupling.regression import fit_phase_coupling
from scpn_phase_orchestrator.signals import extract_phase_series, read_signals
from scpn_phase_orchestrator.signals.export import EXTRACTION_NOTE, phase_matrix
from scpn_phase_orchestrator.signals.table import SignalTable

OMEGAS = np.array([5.0, 6.1, 7.3, 4.2])
COUPLING = np.zeros((4, 4))
COUPLING[0, 1], COUPLING[2, 0], COUPLING[1, 3] = 0.4, 0.3, -0.25


def truth_of(fit, matrix):
    index = {name: k for k, name in enumerate(fit.names)}
    return np.array([matrix[index[e.receiver], index[e.source]] for e in fit.edges])


def csv_networks(recordings, noise, network):
    """Signals of two drifting, two slipping, and four sparsely coupled oscillators, with their coupling and period."""
    two = np.array([[0.0, 0.05], [0.05, 0.0]])
    for seed in range(recordings):
        rng = np.random.default_rng(5000 + seed)
        slow = 2 * np.pi * np.array([0.05, 0.065])
        drifting = network(slow, 0.6 * two, n_samples=7200, period=1.0, noise=0.05, seed=seed)
        slipping = network(slow, two, n_samples=7200, period=1.0, noise=0.05, seed=seed)
        four = network(OMEGAS, COUPLING, n_samples=3000, period=0.05, noise=0.3, seed=seed)
        for name, phases, matrix, period in (
            ("drifting", drifting, 0.6 * two, 1.0),
            ("slipping", slipping, two, 1.0),
            ("four", four, COUPLING, 0.05),
        ):
            yield seed, name, np.cos(phases) + noise * rng.normal(size=phases.shape), matrix, period


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0.0, 0.25], ids=["clean", "noisy"])
def test_intervals_from_extracted_phases_cover_the_truth_nearly_as_often_as_stated(network, tmp_path, noise):
    """The path of the tutorial: signals in a CSV file, extraction, fit. 40 recordings of each of three networks."""
    held = {"drifting": [], "slipping": [], "four": []}
    path = tmp_path / "signals.csv"
    for seed, name, signals, matrix, period in csv_networks(40, noise, network):
        header = ",".join(f"o{k + 1}" for k in range(signals.shape[1]))
        np.savetxt(path, signals, delimiter=",", header=header, comments="", fmt="%.5f")
        found = phase_matrix(read_signals(path, sample_rate=1.0 / period))
        fit = fit_phase_coupling(found.phases, period, names=found.names, n_bootstrap=300, seed=seed)
        truth = truth_of(fit, matrix)
        held[name] += [e.low <= k <= e.high for e, k in zip(fit.edges, truth, strict=True)]
    shares = {name: sum(hits) / len(hits) for name, hits in held.items()}
    assert all(share >= 0.85 for share in shares.values()), shares


def two_signals(network, overtone=0.0):
    phases = network(
        2 * np.pi * np.array([0.05, 0.065]), np.full((2, 2), 0.03), n_samples=3000, period=1.0, noise=0.02, seed=1
    )
    return SignalTable("x", ("a", "b"), np.cos(phases) + overtone * np.cos(2 * phases), 1.0, 0.0, "s")


def test_several_channels_keep_their_sidebands_and_overtones_stay_out(network):
    for overtone, top in ((0.0, 2.5), (0.3, 1.5)):
        for channel in extract_phase_series(two_signals(network, overtone))[0]:
            assert channel.band == pytest.approx(np.array([0.25, top]) * channel.dominant_frequency)
    alone = SignalTable("x", ("a",), two_signals(network).values[:, :1], 1.0, 0.0, "s")
    (channel,), _ = extract_phase_series(alone)
    assert channel.band == pytest.approx(np.array([0.5, 1.5]) * channel.dominant_frequency)


@pytest.mark.parametrize(
    ("settings", "kind"),
    [({"method": "wavelet"}, "smoothed"), ({"band": (0.04, 0.075)}, "narrow_band"), ({"band": (0.01, 0.2)}, None)],
)
def test_phases_that_make_couplings_too_weak_say_so(network, settings, kind):
    for channel in extract_phase_series(two_signals(network), **settings)[0]:
        found = {f.kind for f in channel.findings} & {"smoothed", "narrow_band"}
        assert found == ({kind} if kind else set())


def test_a_fit_on_extracted_phases_says_what_its_intervals_leave_out(network):
    assert EXTRACTION_NOTE in phase_matrix(two_signals(network)).notes
    assert EXTRACTION_NOTE not in phase_matrix(two_signals(network), origin="phases").notes


def test_windows_are_short_enough_for_oscillators_that_lock_and_slip(network):
    matrix = np.array([[0.0, 0.05], [0.05, 0.0]])
    phases = network(2 * np.pi * np.array([0.05, 0.065]), matrix, n_samples=7200, period=1.0, noise=0.1, seed=0)
    fit = fit_phase_coupling(phases, 1.0)
    assert fit.window_samples <= 6
    assert all(e.low <= 0.05 <= e.high for e in fit.edges)


def test_phases_beside_the_marked_edges_are_right_in_the_wide_band_too():
    time = np.arange(3000) / 20.0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        phases = 2 * np.pi * np.outer(time, rng.uniform(0.5, 2.0, 2)) + rng.uniform(0.0, 2 * np.pi, 2)
        table = SignalTable("x", ("a", "b"), np.cos(phases) + 5.0, 20.0, 0.0, "s")
        for k, channel in enumerate(extract_phase_series(table)[0]):
            error = np.angle(np.exp(1j * (channel.unwrapped - phases[:, k])))
            assert np.abs(error[channel.state == 0]).max() < 0.15
