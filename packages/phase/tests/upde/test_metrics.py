"""The records of a step."""

from dataclasses import FrozenInstanceError, asdict, replace

import numpy as np
import pytest

from scpn_phase_orchestrator.upde.metrics import LayerState, LockSignature, UPDEState


def test_records_have_the_documented_defaults():
    layer = LayerState(0.5, 1.0)
    assert asdict(layer) == {
        "R": 0.5,
        "psi": 1.0,
        "lock_signatures": {},
        "mean_amplitude": 0.0,
        "amplitude_spread": 0.0,
    }
    state = UPDEState([layer], np.zeros((1, 1)), 0.5, "nominal")
    assert (state.mean_amplitude, state.pac_max, state.subcritical_fraction) == (0.0, 0.0, 0.0)
    assert (state.boundary_violation_count, state.imprint_mean) == (0, 0.0)


@pytest.mark.parametrize(
    ("record", "field"),
    [
        (LockSignature(0, 1, 0.9, 0.1), "plv"),
        (LayerState(0.5, 1.0), "R"),
        (UPDEState([], np.zeros((0, 0)), 0.0, "nominal"), "regime_id"),
    ],
)
def test_records_are_frozen_and_take_no_further_attributes(record, field):
    with pytest.raises(FrozenInstanceError):
        setattr(record, field, None)
    with pytest.raises((AttributeError, TypeError)):
        record.unknown = 1
    assert getattr(replace(record, **{field: 0}), field) == 0


def test_layers_do_not_share_their_lock_signatures():
    first, second = LayerState(0.5, 1.0), LayerState(0.5, 1.0)
    assert first.lock_signatures is not second.lock_signatures
