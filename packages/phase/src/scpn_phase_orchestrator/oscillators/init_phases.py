"""Initial phases of a spec, read by its own extractors from a synthetic signal of every oscillator."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scpn_phase_orchestrator._compat import TWO_PI
from scpn_phase_orchestrator.oscillators.base import PhaseExtractor
from scpn_phase_orchestrator.oscillators.factory import build_extractor
from scpn_phase_orchestrator.oscillators.informational import InformationalExtractor
from scpn_phase_orchestrator.oscillators.symbolic import SymbolicExtractor

if TYPE_CHECKING:
    from scpn_phase_orchestrator.binding.types import BindingSpec, OscillatorFamily

__all__ = ["extract_initial_phases"]

N_SAMPLES = 256
"""Samples of the synthetic signal, and its sample rate in Hz: it lasts one second."""
NOISE = 0.1
"""Standard deviation of the noise on the synthetic signal of amplitude 1."""
DEFAULT_SYMBOLS = 4
"""States of a symbolic family that does not say how many it has."""


def extract_initial_phases(spec: BindingSpec, omegas: ArrayLike, seed: int = 42) -> NDArray[np.float64]:
    """Draw the initial phase of every oscillator through the extractor of its family.

    One generator serves the oscillators in their order. Channel P: 256 noisy samples of ``sin(2π ω t)`` over one
    second; I: ``max(3, int(10 ω))`` sorted uniform times in [0, 1]; S: a uniform symbol, all of them mapped together
    at the end; a custom channel follows the class of its extractor. The family is that of the oscillator's layer,
    else the families in sorted order take turns, else P with ``hilbert``, which also reads channel P of a family whose
    extractor reads no continuous signal. Of a family's ``config`` only ``n_states`` counts: a pass band or a
    hysteresis belongs to recorded signals, which have another sample rate.

    Args:
        spec: the binding spec.
        omegas: natural frequencies, shape ``(n_oscillators,)``.
        seed: seed of the generator.

    Returns:
        Phases in [0, 2π), shape ``(n_oscillators,)``.

    Raises:
        ValueError: the number of ``omegas`` differs from the number of oscillators.
        ExtractorError: no phase could be read, e.g. because a frequency is not finite.
    """
    families = _families_in_order(spec)
    frequencies = np.asarray(omegas, dtype=np.float64)
    if frequencies.shape != (len(families),):
        raise ValueError(f"omegas must have shape ({len(families)},) as the spec, got {frequencies.shape}")
    rng = np.random.default_rng(seed)
    n_states = _symbols(spec)
    times = np.linspace(0.0, 1.0, N_SAMPLES)
    phases = np.zeros(len(families))
    symbols: list[int] = []
    symbolic: list[int] = []
    mode = "ring"
    for index, (family, omega) in enumerate(zip(families, frequencies, strict=True)):
        channel, kind = (family.channel, family.extractor_type) if family else ("P", "hilbert")
        extractor = build_extractor(kind, node_id=f"osc_{index}", n_states=n_states)
        branch = channel if channel in ("P", "I", "S") else _channel_of(extractor)
        if branch == "P":
            extractor = _as_physical(extractor, index)
            signal = np.sin(omega * TWO_PI * times) + rng.normal(0.0, NOISE, N_SAMPLES)
            phases[index] = extractor.extract(signal, float(N_SAMPLES))[-1].theta
        elif branch == "I":
            stamps = np.sort(rng.uniform(0.0, 1.0, max(3, int(10.0 * omega))))
            phases[index] = InformationalExtractor(f"osc_{index}").extract(stamps, 1.0)[-1].theta
        else:
            mode = kind if kind == "graph" else mode
            symbols.append(int(rng.integers(0, n_states)))
            symbolic.append(index)
    if symbolic:
        together = build_extractor(mode, node_id="symbols", n_states=n_states)
        phases[symbolic] = [state.theta for state in together.extract(symbols, 1.0)]
    return phases


def _families_in_order(spec: BindingSpec) -> list[OscillatorFamily | None]:
    named = sorted(spec.oscillator_families)
    found: list[OscillatorFamily | None] = []
    for layer in spec.layers:
        for _ in layer.oscillator_ids:
            if layer.family in spec.oscillator_families:
                found.append(spec.oscillator_families[layer.family])
            elif named:
                found.append(spec.oscillator_families[named[len(found) % len(named)]])
            else:
                found.append(None)
    return found


def _symbols(spec: BindingSpec) -> int:
    for _, family in sorted(spec.oscillator_families.items()):
        if family.channel == "S" and "n_states" in family.config:
            return int(family.config["n_states"])
    return DEFAULT_SYMBOLS


def _channel_of(extractor: PhaseExtractor) -> str:
    if isinstance(extractor, InformationalExtractor):
        return "I"
    return "S" if isinstance(extractor, SymbolicExtractor) else "P"


def _as_physical(extractor: PhaseExtractor, index: int) -> PhaseExtractor:
    """Give the extractor, or ``hilbert`` where channel P names one that reads no continuous signal."""
    if _channel_of(extractor) == "P":
        return extractor
    return build_extractor("hilbert", node_id=f"osc_{index}")
