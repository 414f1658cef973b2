"""Drive phases: closed forms, and one call for many times."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scpn_phase_orchestrator.drivers.psi_informational import InformationalDriver
from scpn_phase_orchestrator.drivers.psi_physical import PhysicalDriver
from scpn_phase_orchestrator.drivers.psi_symbolic import SymbolicDriver

times = st.lists(st.floats(0, 1000), min_size=1, max_size=5)


def test_physical_drive_swings():
    driver = PhysicalDriver(0.5, 2.0)
    assert driver.compute(0.0) == 0.0
    assert driver.compute(0.5) == pytest.approx(2.0)
    assert driver.compute(1.5) == pytest.approx(-2.0)
    assert PhysicalDriver(1.0).amplitude == 1.0


def test_informational_drive_turns_at_its_cadence():
    driver = InformationalDriver(2.0)
    assert driver.compute(0.125) == pytest.approx(np.pi / 2)
    assert driver.compute(0.625) == pytest.approx(np.pi / 2)


def test_symbolic_drive_repeats_its_sequence():
    driver = SymbolicDriver([0.1, 0.2, 0.3])
    assert [driver.compute(step) for step in range(5)] == [0.1, 0.2, 0.3, 0.1, 0.2]
    assert driver.compute_batch(np.arange(5)).tolist() == [0.1, 0.2, 0.3, 0.1, 0.2]


@given(times)
def test_batches_equal_single_calls(t):
    for driver in (PhysicalDriver(0.3, 1.5), InformationalDriver(0.7)):
        np.testing.assert_allclose(driver.compute_batch(t), [driver.compute(x) for x in t], atol=1e-12)


@given(st.floats(0, 1e6))
def test_informational_drive_stays_on_the_circle(t):
    assert 0.0 <= InformationalDriver(0.7).compute(t) < 2 * np.pi


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: PhysicalDriver(0.0), "frequency"),
        (lambda: PhysicalDriver(1.0, -1.0), "amplitude"),
        (lambda: PhysicalDriver(True), "frequency"),
        (lambda: PhysicalDriver(1.0).compute_batch([np.nan]), "t must contain"),
        (lambda: InformationalDriver(-1.0), "cadence_hz"),
        (lambda: SymbolicDriver([]), "at least one phase"),
        (lambda: SymbolicDriver([[1.0]]), "sequence must have shape"),
        (lambda: SymbolicDriver([1.0]).compute(-1), "step must be an integer >= 0"),
        (lambda: SymbolicDriver([1.0]).compute(1.5), "step must be an integer"),
        (lambda: SymbolicDriver([1.0]).compute_batch([0.5]), "steps must be integers"),
        (lambda: SymbolicDriver([1.0]).compute_batch([-1]), "steps must be at least 0"),
    ],
)
def test_bad_arguments_are_named(call, named):
    with pytest.raises(ValueError, match=named):
        call()
