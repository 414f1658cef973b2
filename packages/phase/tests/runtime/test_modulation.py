"""Modulation: what it does to a coupling, and that a record carries it without loss."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scpn_phase_orchestrator.coupling.knm import CouplingBuilder, CouplingState
from scpn_phase_orchestrator.coupling.modulation import Modulation

LAYER_OF = np.array([0, 0, 0, 1, 1], dtype=np.int64)

finite = st.floats(-5.0, 5.0)


@pytest.fixture
def base() -> CouplingState:
    return CouplingBuilder().build(5, 0.6, 0.25)


def test_identity_is_the_base_itself(base: CouplingState) -> None:
    assert Modulation().is_identity
    assert Modulation().apply(base, LAYER_OF) is base
    assert Modulation().to_record() == {}


def test_a_layer_gain_counts_once_inside_and_once_for_each_layer_it_touches(base: CouplingState) -> None:
    knm = Modulation(global_gain=2.0, layer_gains=(3.0, 5.0)).apply(base, LAYER_OF).knm
    np.testing.assert_allclose(knm[:3, :3], 6.0 * base.knm[:3, :3])
    np.testing.assert_allclose(knm[3:, 3:], 10.0 * base.knm[3:, 3:])
    np.testing.assert_allclose(knm[:3, 3:], 30.0 * base.knm[:3, 3:])
    np.testing.assert_allclose(knm[3:, :3], 30.0 * base.knm[3:, :3])


def test_a_lag_is_that_of_the_receiver(base: CouplingState) -> None:
    alpha = Modulation(layer_lags=(0.0, 0.4)).apply(base, LAYER_OF).alpha
    np.testing.assert_array_equal(alpha[:3], 0.0)
    np.testing.assert_array_equal(alpha[3:], 0.4)


def test_an_imprint_acts_on_its_targets_only(base: CouplingState) -> None:
    on_k = Modulation(imprint=(0.5, 1.0), imprint_targets=("K",)).apply(base, LAYER_OF)
    np.testing.assert_allclose(on_k.knm[0], 1.5 * base.knm[0])
    np.testing.assert_allclose(on_k.knm[4], 2.0 * base.knm[4])
    assert on_k.alpha is base.alpha
    on_lag = Modulation(imprint=(0.5, 1.0), imprint_targets=("alpha",)).apply(base, LAYER_OF)
    assert on_lag.knm is base.knm
    assert on_lag.alpha[0, 4] == pytest.approx(-0.5)
    mu = np.ones(5)
    assert Modulation(imprint=(0.5, 1.0), imprint_targets=("K",)).apply_mu(mu, LAYER_OF) is mu
    on_mu = Modulation(imprint=(0.5, 1.0), imprint_targets=("mu",))
    np.testing.assert_allclose(on_mu.apply_mu(mu, LAYER_OF), [1.5, 1.5, 1.5, 2.0, 2.0])
    assert on_mu.apply(base, LAYER_OF).knm is base.knm


def test_an_imprint_may_differ_inside_a_layer(base: CouplingState) -> None:
    knm = Modulation(imprint=(0.0, 0.1, 0.2, 0.3, 0.4), imprint_targets=("K",)).apply(base, LAYER_OF).knm
    np.testing.assert_allclose(knm[2], 1.2 * base.knm[2])


def test_constraints_come_last(base: CouplingState) -> None:
    modulation = Modulation(global_gain=-1.0, imprint=(0.0, 1.0), imprint_targets=("K",), constraints=("symmetric",))
    knm = modulation.apply(base, LAYER_OF).knm
    np.testing.assert_array_equal(knm, knm.T)
    clipped = Modulation(global_gain=-1.0, constraints=("symmetric", "non_negative")).apply(base, LAYER_OF).knm
    np.testing.assert_array_equal(clipped, 0.0)


def test_too_few_values_for_the_layers_are_refused(base: CouplingState) -> None:
    with pytest.raises(ValueError, match="layer_gains must have a value for each of 2 layers, got 1"):
        Modulation(layer_gains=(2.0,)).apply(base, LAYER_OF)


@given(
    gain=finite,
    gains=st.one_of(st.just(()), st.tuples(finite, finite)),
    lags=st.one_of(st.just(()), st.tuples(finite, finite)),
    imprint=st.one_of(st.none(), st.tuples(finite, finite)),
    targets=st.sets(st.sampled_from(["K", "alpha", "mu"]), min_size=1),
    constraints=st.sampled_from([(), ("symmetric",), ("symmetric", "non_negative")]),
)
def test_a_record_gives_the_same_bits_back(
    gain: float,
    gains: tuple[float, ...],
    lags: tuple[float, ...],
    imprint: tuple[float, ...] | None,
    targets: set[str],
    constraints: tuple[str, ...],
) -> None:
    modulation = Modulation(gain, gains, lags, imprint, tuple(sorted(targets)) if imprint else (), constraints)
    copy = Modulation.from_record(json.loads(json.dumps(modulation.to_record(), allow_nan=False)))
    assert copy == modulation
    base = CouplingBuilder().build(5, 0.6, 0.25)
    first, second = modulation.apply(base, LAYER_OF), copy.apply(base, LAYER_OF)
    assert first.knm.tobytes() == second.knm.tobytes()
    assert first.alpha.tobytes() == second.alpha.tobytes()


@pytest.mark.parametrize(
    ("record", "words"),
    [
        ({"gain": 1.0}, "unknown field 'gain'"),
        ({"global_gain": True}, "global_gain must be a finite .*, got True"),
        ({"global_gain": float("nan")}, "global_gain must be a finite "),
        ({"layer_gains": 2.0}, "layer_gains must be a list of numbers"),
        ({"imprint": ["1"]}, "imprint must be a finite .*, got '1'"),
        ({"imprint_targets": ["omega"]}, "imprint_targets must hold names of K, alpha, mu"),
        ({"constraints": "symmetric"}, "constraints must be a list of names"),
    ],
)
def test_a_bad_record_is_refused(record: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Modulation.from_record(record)
