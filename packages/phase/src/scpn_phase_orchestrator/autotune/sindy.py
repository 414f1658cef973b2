"""Sparse equations of phase motion, found by thresholded least squares (phase-SINDy)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scpn_phase_orchestrator._arrays import FloatArray, positive_number
from scpn_phase_orchestrator.exceptions import ExtractorError

__all__ = ["PhaseEquation", "discover_phase_equations"]


@dataclass(frozen=True)
class PhaseEquation:
    """``dθ_target/dt`` as a constant and a few sines of phase differences.

    Attributes:
        target: the oscillator.
        omega: the constant, rad/s.
        terms: source -> coefficient of ``sin(θ_source - θ_target)``, rad/s; only those that stayed.
        r_squared: explained share of the variance of dθ/dt.
        accepted: enough samples per parameter and a large enough ``r_squared``.
        reason: why it was not accepted, else empty.
    """

    target: str
    omega: float
    terms: dict[str, float]
    r_squared: float
    accepted: bool
    reason: str

    def text(self) -> str:
        """The equation as one line."""
        sines = "".join(
            f" {'+' if value >= 0 else '-'} {abs(value):.6g} sin(θ[{source}] - θ[{self.target}])"
            for source, value in self.terms.items()
        )
        verdict = "accepted" if self.accepted else f"not accepted: {self.reason}"
        return f"dθ[{self.target}]/dt = {self.omega:.6g}{sines}   (R² = {self.r_squared:.4f}, {verdict})"


def discover_phase_equations(
    phases: FloatArray,
    sample_period_s: float,
    *,
    names: Sequence[str] | None = None,
    threshold: float = 0.05,
    min_r_squared: float = 0.9,
    min_samples_per_parameter: float = 5.0,
) -> tuple[PhaseEquation, ...]:
    """Find sparse phase equations by sequentially thresholded least squares.

    The library is 1 and ``sin(θ_j - θ_i)`` for every other j; dθ/dt is the central difference. Coefficients of sines
    below ``threshold`` in magnitude are set to zero and the rest is fitted again until nothing changes. Derivatives
    amplify noise, so R² tells how far the phases are smooth; for noisy data use `coupling.regression`.

    Args:
        phases: unwrapped, rad, shape ``(n_samples, n_oscillators)``; NaN where missing.
        sample_period_s: seconds between samples.
        names: of the oscillators.
        threshold: smallest kept coefficient in rad/s.
        min_r_squared: smallest R² of an accepted equation, in [0, 1].
        min_samples_per_parameter: fewest derivative samples per library term.

    Raises:
        ExtractorError: no three neighbouring samples in which every oscillator has a phase.
        ValueError: an argument is out of range.

    References:
        Brunton, Proctor, Kutz, PNAS 113 (2016) 3932.
    """
    data = np.asarray(phases, dtype=np.float64)
    if data.ndim != 2 or data.shape[1] < 1:
        raise ValueError(f"phases must have shape (n_samples, n_oscillators), got {data.shape}")
    period = positive_number("sample_period_s", sample_period_s)
    for name, value in (("threshold", threshold), ("min_samples_per_parameter", min_samples_per_parameter)):
        if isinstance(value, bool) or not (np.isfinite(value) and value >= 0.0):
            raise ValueError(f"{name} must be finite and >= 0, got {value!r:.40}")
    if isinstance(min_r_squared, bool) or not 0.0 <= min_r_squared <= 1.0:
        raise ValueError(f"min_r_squared must be in [0, 1], got {min_r_squared!r:.40}")
    n = data.shape[1]
    labels = list(names) if names is not None else [f"o{k + 1}" for k in range(n)]
    if len(labels) != n:
        raise ValueError(f"names must be {n} names, got {len(labels)}")
    complete = np.asarray(np.isfinite(data).all(axis=1))
    centres = np.flatnonzero(complete[2:] & complete[1:-1] & complete[:-2]) + 1
    if centres.size == 0:
        raise ExtractorError("there are no three neighbouring samples in which every oscillator has a phase")
    velocity = (data[centres + 1] - data[centres - 1]) / (2.0 * period)
    equations: list[PhaseEquation] = []
    for i, label in enumerate(labels):
        others = [j for j in range(n) if j != i]
        library = np.column_stack([np.ones(centres.size), np.sin(data[centres][:, others] - data[centres, i][:, None])])
        beta = _thresholded(library, velocity[:, i], threshold)
        residual = velocity[:, i] - library @ beta
        spread = float(np.var(velocity[:, i]))
        negligible = spread <= 1e-18 * max(float(np.mean(velocity[:, i] ** 2)), 1e-300)
        r_squared = 1.0 if negligible else 1.0 - float(np.mean(residual**2)) / spread
        reason = ""
        if centres.size < min_samples_per_parameter * library.shape[1]:
            reason = (
                f"{centres.size} samples for {library.shape[1]} terms, {min_samples_per_parameter:g} per term needed"
            )
        elif r_squared < min_r_squared:
            reason = f"R² below {min_r_squared:g}"
        terms = {labels[j]: float(value) for j, value in zip(others, beta[1:], strict=True) if value != 0.0}
        equations.append(PhaseEquation(label, float(beta[0]), terms, r_squared, not reason, reason))
    return tuple(equations)


def _thresholded(library: FloatArray, target: FloatArray, threshold: float) -> FloatArray:
    kept = np.ones(library.shape[1], dtype=bool)
    while True:  # each round removes a term or is the last
        beta = np.zeros(library.shape[1])
        beta[kept] = np.linalg.lstsq(library[:, kept], target, rcond=None)[0]
        small = kept & (np.abs(beta) < threshold)
        small[0] = False
        if not small.any():
            return beta
        kept &= ~small
