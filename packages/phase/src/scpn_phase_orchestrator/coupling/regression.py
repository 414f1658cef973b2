"""Natural frequencies and coupling of a Kuramoto network from its phases, with intervals.

The model is ``dθ_i = [ω_i + Σ_j (a_ij sin(θ_j - θ_i) + b_ij cos(θ_j - θ_i))] dt + σ_i dW_i`` with ``a = K cos α`` and
``b = -K sin α``; without lags b is left out.

Why integrals and not derivatives: differences of neighbouring samples multiply measurement noise by √2 / dt. Here
both sides are averaged over windows of at most an eighth of the fastest beat between two oscillators, which keeps
95 % of what the sines can tell while that noise falls with the length of the window; of less where phase differences
move by more than `WIDEST_SPREAD` within it. Noise inside the dynamics also moves the
sines within a window; the bias this makes is known, ``½ σ² Σ ∂x/∂θ_i``, and taken out with a σ² from the long-run
variance of the residuals, which measurement noise does not reach.

Intervals and tests come from a studentised wild bootstrap over blocks of windows (Rademacher signs), tests with the
step-down of Romano and Wolf over all couplings at once, which keeps the chance of reporting any coupling
that is not there at the stated level.

References:
    Schaeffer, McCalla, Phys. Rev. E 96 (2017) 023302 (integral terms); Cameron, Gelbach, Miller, Rev. Econ. Stat. 90
    (2008) 414 (wild cluster bootstrap); Romano, Wolf, JASA 100 (2005) 94 (step-down).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ripieno.randomness import derive_substream
from scpn_phase_orchestrator._arrays import FloatArray, positive_number, true_ranges, whole_number
from scpn_phase_orchestrator._compat import TWO_PI
from scpn_phase_orchestrator.exceptions import ExtractorError

__all__ = ["CouplingEdge", "CouplingFit", "NaturalFrequency", "fit_phase_coupling"]

BoolArray = NDArray[np.bool_]

WINDOWS_PER_BEAT = 8
"""Windows in one beat of the two oscillators that drift apart fastest."""
WIDEST_SPREAD = 0.45
"""Root mean square in rad by which a phase difference may move within a window: the bias of noise inside the dynamics
is known to first order only. Of two oscillators that lock and slip 0.8 leaves 6 % of it, 0.45 leaves 3 %."""
SPREAD_STARTS = 2000
"""Windows in which that is measured."""
WINDOWS_PER_PARAMETER = 5
"""Fewest windows per unknown of one oscillator's equation."""
FEWEST_BLOCKS = 8
"""Below so many blocks there is no interval."""
GOOD_BLOCKS = 20
"""Below so many blocks the intervals are called rough."""
MOST_BLOCKS = 100
"""More blocks add nothing but time."""
LOCKED = 0.95
"""Phase-locking value above which two oscillators are called nearly synchronous."""
COLLINEAR = 50.0
"""Variance inflation above which a coupling is called not identifiable."""
FASTEST_ADVANCE = 0.75 * np.pi
"""Phase advance per sample above which aliasing is suspected."""
LARGEST_PHASE = 1e12
"""Largest accepted phase in rad: of a larger one a double no longer tells the angle to 0.0001 rad."""
FEWEST_TURNOVERS = 5
"""A phase difference that goes round, or to and fro, fewer times in the record gives couplings that lean to locking."""
CLEAR_DRIFT = 5.0
"""Standard errors from which a straight line in the residuals counts as a drifting frequency."""


@dataclass(frozen=True)
class NaturalFrequency:
    """Natural frequency of one oscillator in rad per second, with its interval."""

    name: str
    omega: float
    low: float
    high: float


@dataclass(frozen=True)
class CouplingEdge:
    """Influence of one oscillator on another.

    Attributes:
        receiver: whose phase is pushed (row of K).
        source: who pushes (column of K).
        strength: K in rad/s; negative is repulsive.
        low: lower end of the interval of K.
        high: upper end.
        lag: α in rad within [-π/2, π/2], or None when lags were not fitted.
        lag_low: lower end of its interval.
        lag_high: upper end.
        p_value: family-wise adjusted over all couplings.
        identifiable: the data can tell this coupling from the others.
        distinguishable: identifiable, and zero is excluded family-wise.
    """

    receiver: str
    source: str
    strength: float
    low: float
    high: float
    lag: float | None
    lag_low: float | None
    lag_high: float | None
    p_value: float
    identifiable: bool
    distinguishable: bool


@dataclass(frozen=True)
class CouplingFit:
    """What phases say about the network that made them.

    Attributes:
        names: oscillators, in order.
        frequencies: one per oscillator.
        edges: every ordered pair, receiver by receiver.
        explained: share of the variance of the windowed phase velocity that the equation explains, per oscillator.
        noise: σ² per oscillator in rad²/s.
        sample_period_s: seconds between samples.
        n_samples: samples that all oscillators share.
        window_samples: samples per window.
        n_windows: windows.
        n_blocks: blocks of the bootstrap.
        n_bootstrap: replicates.
        confidence: of the intervals; 1 - confidence is the family-wise level of the tests.
        seed: root seed.
        warnings: what limits the result, in sentences.
    """

    names: tuple[str, ...]
    frequencies: tuple[NaturalFrequency, ...]
    edges: tuple[CouplingEdge, ...]
    explained: tuple[float, ...]
    noise: tuple[float, ...]
    sample_period_s: float
    n_samples: int
    window_samples: int
    n_windows: int
    n_blocks: int
    n_bootstrap: int
    confidence: float
    seed: int
    warnings: tuple[str, ...] = field(default=())

    def matrix(self, *, distinguishable_only: bool = False) -> FloatArray:
        """K in rad/s, shape ``(n, n)``, row = receiver, zero diagonal; others than distinguishable ones 0 if asked."""
        index = {name: position for position, name in enumerate(self.names)}
        knm = np.zeros((len(self.names), len(self.names)))
        for edge in self.edges:
            if edge.distinguishable or not distinguishable_only:
                knm[index[edge.receiver], index[edge.source]] = edge.strength
        return knm

    def to_record(self) -> dict[str, Any]:
        """JSON-safe form; all frequencies and couplings in rad/s."""
        from dataclasses import asdict

        record = asdict(self)
        record["names"], record["warnings"] = list(self.names), list(self.warnings)
        for key in ("explained", "noise", "frequencies", "edges"):
            record[key] = list(record[key])
        return record


@dataclass(frozen=True)
class _Windows:
    """Averages over windows: velocity ``(W, n)``, sines and cosines of ``θ_j - θ_i`` as ``(n, W, n)`` by receiver i."""

    velocity: FloatArray
    sine: FloatArray
    cosine: FloatArray


@dataclass(frozen=True)
class _Equation:
    """One oscillator's estimates: coefficients, block influences ``(G, p)``, and what judges them."""

    beta: FloatArray
    influence: FloatArray
    scale: float
    inflation: FloatArray
    explained: float
    noise: float


def fit_phase_coupling(
    phases: FloatArray,
    sample_period_s: float,
    *,
    names: Sequence[str] | None = None,
    max_lag: float = 0.0,
    n_bootstrap: int = 500,
    confidence: float = 0.95,
    seed: int = 0,
) -> CouplingFit:
    """Estimate natural frequencies and all couplings of a network from unwrapped phases.

    Args:
        phases: unwrapped, in rad, shape ``(n_samples, n_oscillators)``; NaN where an oscillator has no usable phase.
        sample_period_s: seconds between samples.
        names: of the oscillators; ``o1``, ``o2``, ... by default.
        max_lag: largest phase lag in rad that is expected, up to π/2; 0 fits no lags.
        n_bootstrap: replicates, at least 100.
        confidence: of the intervals, between 0.5 and 1.
        seed: root seed of the bootstrap.

    Raises:
        ExtractorError: fewer than two oscillators, or too few samples for the number of unknowns.
        ValueError: an argument is out of range.
    """
    data = np.asarray(phases, dtype=np.float64)
    if data.ndim != 2 or data.shape[1] < 2:
        raise ExtractorError(f"phases must have shape (n_samples, n_oscillators >= 2), got {data.shape}")
    if np.isinf(data).any():
        raise ExtractorError("phases must be finite or missing, got infinity")
    if (np.abs(data) > LARGEST_PHASE).any():
        raise ExtractorError(f"phases must be at most {LARGEST_PHASE:g} rad in size, got {np.nanmax(np.abs(data)):g}")
    period = positive_number("sample_period_s", sample_period_s)
    if isinstance(max_lag, bool) or not 0.0 <= max_lag <= np.pi / 2:
        raise ValueError(f"max_lag must be in [0, π/2] rad, got {max_lag!r:.40}")
    whole_number("n_bootstrap", n_bootstrap, minimum=100)
    if isinstance(confidence, bool) or not 0.5 < confidence < 1.0:
        raise ValueError(f"confidence must be between 0.5 and 1, got {confidence!r:.40}")
    n = data.shape[1]
    labels = tuple(names) if names is not None else tuple(f"o{k + 1}" for k in range(n))
    if len(labels) != n or len(set(labels)) != n:
        raise ValueError(f"names must be {n} different names, got {labels!r:.200}")
    with_lags = max_lag > 0.0
    n_parameters = 1 + (n - 1) * (2 if with_lags else 1)
    segments = _segments(data)
    n_samples = sum(after - first for first, after in segments)
    window = _window_samples(data, segments, n_samples, n_parameters)
    windows = _windowed(data, segments, window, period)
    n_windows = windows.velocity.shape[0]
    needed = max(WINDOWS_PER_PARAMETER * n_parameters, 3 * FEWEST_BLOCKS)
    if n_windows < needed:
        raise ExtractorError(
            f"{n_samples} shared samples give {n_windows} windows; {n_parameters} unknowns per oscillator need "
            f"at least {needed}: record longer, or fewer channels"
        )
    warnings = _data_warnings(data, segments, labels)
    designs = [_design(windows, i, with_lags=with_lags) for i in range(n)]
    warnings += _drift_warnings(windows, designs, labels)
    block = _block_length(windows, designs)
    n_blocks = n_windows // block
    if n_blocks < GOOD_BLOCKS:
        warnings.append(f"short record: {n_blocks} independent blocks only; intervals are rough below {GOOD_BLOCKS}")
    block_of = np.minimum(np.arange(n_windows) // block, n_blocks - 1)
    equations = [_solve(windows, i, designs[i], block_of, window * period) for i in range(n)]
    signs = derive_substream("phase.coupling.bootstrap", root_seed=seed).default_rng()
    weights = np.where(signs.integers(0, 2, size=(n_bootstrap, n_blocks)) == 1, 1.0, -1.0).astype(np.float64)
    frequencies: list[NaturalFrequency] = []
    for label, equation in zip(labels, equations, strict=True):
        omega = float(equation.beta[0])
        low, high = _interval(omega, equation.influence[:, 0], equation.scale, weights, confidence)
        frequencies.append(NaturalFrequency(label, omega, low, high))
    edges = _edges(labels, equations, weights, confidence, with_lags=with_lags)
    beyond = [e for e in edges if e.distinguishable and e.lag is not None and abs(e.lag) > max_lag]
    warnings += [f"{e.source} -> {e.receiver}: lag {e.lag:.3f} rad lies beyond --max-lag {max_lag:.3f}" for e in beyond]
    lost = [f"{e.source} -> {e.receiver}" for e in edges if not e.identifiable]
    if lost:
        more = f" and {len(lost) - 5} more" if len(lost) > 5 else ""
        warnings.append(f"not identifiable from these data: {', '.join(lost[:5])}{more}")
    return CouplingFit(
        names=labels,
        frequencies=tuple(frequencies),
        edges=edges,
        explained=tuple(eq.explained for eq in equations),
        noise=tuple(eq.noise for eq in equations),
        sample_period_s=period,
        n_samples=n_samples,
        window_samples=window,
        n_windows=n_windows,
        n_blocks=n_blocks,
        n_bootstrap=n_bootstrap,
        confidence=confidence,
        seed=seed,
        warnings=tuple(warnings),
    )


def _segments(data: FloatArray) -> list[tuple[int, int]]:
    usable = np.asarray(np.isfinite(data).all(axis=1))
    found = [(first, after) for first, after in true_ranges(usable) if after - first >= 2]
    if not found:
        raise ExtractorError("there is no stretch of two samples in which every oscillator has a usable phase")
    return found


def _velocities(data: FloatArray, segments: list[tuple[int, int]]) -> FloatArray:
    """Mean phase advance per sample of every oscillator."""
    advance = sum((data[after - 1] - data[first] for first, after in segments), np.zeros(data.shape[1]))
    return np.asarray(advance / sum(after - first - 1 for first, after in segments))


def _window_samples(data: FloatArray, segments: list[tuple[int, int]], n_samples: int, n_parameters: int) -> int:
    velocity = _velocities(data, segments)
    beat = float(velocity.max() - velocity.min())
    longest = max(1, n_samples // max(10 * n_parameters, 100))
    window = longest if beat == 0.0 else int(np.clip(TWO_PI / beat / WINDOWS_PER_BEAT, 1, longest))
    measured = _widest_spread(data, segments, 1)  # what white noise of the measurement adds to every window
    while window > 1 and _widest_spread(data, segments, window) - measured > WIDEST_SPREAD**2:
        window = max(1, 4 * window // 5)
    return window


def _widest_spread(data: FloatArray, segments: list[tuple[int, int]], window: int) -> float:
    """Mean square in rad² of what the most mobile phase difference moves within a window."""
    starts = np.concatenate([np.arange(first, max(first, after - window)) for first, after in segments])
    if starts.size == 0:
        return 0.0
    starts = starts[:: -(-starts.size // SPREAD_STARTS)]
    moved = data[starts + window] - data[starts]
    return max(float(((moved - moved[:, [k]]) ** 2).mean(axis=0).max()) for k in range(data.shape[1]))


def _windowed(data: FloatArray, segments: list[tuple[int, int]], window: int, period: float) -> _Windows:
    starts = np.concatenate([np.arange(first, after - window, window) for first, after in segments])
    velocity = (data[starts + window] - data[starts]) / (window * period)
    filled = np.where(np.isfinite(data), data, 0.0)
    sines, cosines = np.sin(filled), np.cos(filled)
    n = data.shape[1]
    sine, cosine = np.empty((n, starts.size, n)), np.empty((n, starts.size, n))
    for i in range(n):
        own_sine, own_cosine = sines[:, i : i + 1], cosines[:, i : i + 1]
        sine[i] = _trapezoid(sines * own_cosine - cosines * own_sine, starts, window)
        cosine[i] = _trapezoid(cosines * own_cosine + sines * own_sine, starts, window)
    return _Windows(velocity, sine, cosine)


def _trapezoid(values: FloatArray, starts: NDArray[np.int64], window: int) -> FloatArray:
    """Mean of each column over each window by the trapezoid rule."""
    steps = 0.5 * (values[1:] + values[:-1])
    total = np.concatenate([np.zeros((1, values.shape[1])), np.cumsum(steps, axis=0)])
    return (total[starts + window] - total[starts]) / window


def _design(windows: _Windows, i: int, *, with_lags: bool) -> tuple[FloatArray, FloatArray]:
    """Regressors of oscillator i (intercept first) and their derivatives by its own phase, each ``(W, p)``."""
    others = np.delete(np.arange(windows.sine.shape[0]), i)
    sine, cosine = windows.sine[i][:, others], windows.cosine[i][:, others]
    ones, zeros = np.ones((sine.shape[0], 1)), np.zeros((sine.shape[0], 1))
    if with_lags:
        return np.hstack([ones, sine, cosine]), np.hstack([zeros, -cosine, sine])
    return np.hstack([ones, sine]), np.hstack([zeros, -cosine])


def _block_length(windows: _Windows, designs: list[tuple[FloatArray, FloatArray]]) -> int:
    """Windows per block: three correlation times of the residuals, and at most `MOST_BLOCKS` blocks."""
    n_windows = windows.velocity.shape[0]
    longest = 1.0
    for i, (design, _) in enumerate(designs):
        beta = np.linalg.lstsq(design, windows.velocity[:, i], rcond=None)[0]
        residual = windows.velocity[:, i] - design @ beta
        power = float(residual @ residual)
        time = 1.0
        for lag in range(1, n_windows // 20):
            correlation = float(residual[lag:] @ residual[:-lag]) / power if power > 0.0 else 0.0
            if correlation < 0.1:
                break
            time += 2.0 * correlation
        longest = max(longest, time)
    by_memory = int(np.ceil(3.0 * longest)) if longest > 1.0 else 1
    return min(max(by_memory, -(-n_windows // MOST_BLOCKS)), n_windows // FEWEST_BLOCKS)


def _solve(
    windows: _Windows, i: int, design: tuple[FloatArray, FloatArray], block_of: NDArray[np.int64], duration: float
) -> _Equation:
    regressors, derivatives = design
    target = windows.velocity[:, i]
    n_windows, n_parameters = regressors.shape
    inverse = np.linalg.pinv(regressors.T @ regressors, rcond=1e-12, hermitian=True)
    beta = inverse @ (regressors.T @ target)
    residual = target - regressors @ beta
    long_run = float(residual @ residual + 2.0 * (residual[1:] @ residual[:-1])) / (n_windows - n_parameters)
    noise = max(0.0, long_run) * duration
    correction = 0.5 * noise * derivatives
    beta = beta - inverse @ correction.sum(axis=0)
    residual = target - regressors @ beta
    scores = regressors * residual[:, None] - correction
    n_blocks = int(block_of[-1]) + 1
    blocks = np.zeros((n_blocks, n_parameters))
    np.add.at(blocks, block_of, scores)
    scale = float(np.sqrt(n_blocks / (n_blocks - 1.0) * n_windows / (n_windows - n_parameters)))
    spread = float(np.var(target))
    explained = 1.0 - float(np.var(residual)) / spread if spread > 0.0 else 0.0
    return _Equation(beta, blocks @ inverse, scale, _inflation(regressors[:, 1:]), explained, noise)


def _inflation(columns: FloatArray) -> FloatArray:
    """Variance inflation of each column by the others and the intercept; infinite for one that does not move."""
    centred = columns - columns.mean(axis=0)
    size = np.sqrt((centred**2).mean(axis=0))
    still = size < 1e-6
    normal = centred / np.where(still, 1.0, size)
    correlation = normal.T @ normal / columns.shape[0] + 1e-9 * np.eye(columns.shape[1])
    correlation[still, still] = 1.0
    inflation = np.diag(np.linalg.inv(correlation)).copy()
    inflation[still] = np.inf
    return inflation


def _statistics(influence: FloatArray, scale: float | FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Standard errors ``(m,)`` and studentised replicates ``(B, m)`` of estimates from block influences ``(G, m)``."""
    power = (influence**2).sum(axis=0)
    errors = scale * np.sqrt(power)
    moved = weights @ influence
    spread = np.sqrt(np.maximum(power - moved**2 / weights.shape[1], 1e-300))
    return errors, moved / (spread * scale)


def _interval(
    estimate: float, influence: FloatArray, scale: float, weights: FloatArray, confidence: float
) -> tuple[float, float]:
    errors, replicates = _statistics(influence[:, None], scale, weights)
    half = float(errors[0]) * float(np.quantile(np.abs(replicates[:, 0]), confidence))
    return float(estimate) - half, float(estimate) + half


def _edges(
    labels: tuple[str, ...],
    equations: list[_Equation],
    weights: FloatArray,
    confidence: float,
    *,
    with_lags: bool,
) -> tuple[CouplingEdge, ...]:
    n = len(labels)
    pairs = [(i, j) for i in range(n) for j in range(n) if j != i]
    terms = 2 if with_lags else 1
    influence = np.hstack([eq.influence[:, 1:] for eq in equations])
    scales = np.concatenate([np.full((n - 1) * terms, eq.scale) for eq in equations])
    estimates = np.concatenate([eq.beta[1:] for eq in equations])
    known = np.concatenate([eq.inflation for eq in equations]) <= COLLINEAR
    errors, replicates = _statistics(influence, scales, weights)
    statistic = np.abs(estimates) / np.maximum(errors, 1e-300)
    adjusted = _step_down(np.where(known, statistic, 0.0), np.where(known, np.abs(replicates), 0.0))
    adjusted[~known] = 1.0
    edges: list[CouplingEdge] = []
    for number, (i, j) in enumerate(pairs):
        row, column = divmod(number, n - 1)
        sine = row * (n - 1) * terms + column
        eq = equations[i]
        p_value, identifiable = float(adjusted[sine]), bool(known[sine])
        strength, direction = float(estimates[sine]), influence[:, sine]
        lag = lag_low = lag_high = None
        if with_lags:
            cosine = sine + n - 1
            p_value = min(p_value, float(adjusted[cosine]))
            identifiable = identifiable and bool(known[cosine])
            a, b = strength, float(estimates[cosine])
            size = max(float(np.hypot(a, b)), 1e-150)  # its square divides
            sign = 1.0 if a >= 0.0 else -1.0
            strength, direction = sign * size, sign * (a * direction + b * influence[:, cosine]) / size
            lag = float(np.arctan2(-b * sign, a * sign))
            turning = (b * influence[:, sine] - a * influence[:, cosine]) / size**2
            lag_low, lag_high = _interval(lag, turning, eq.scale, weights, confidence)
        low, high = _interval(strength, direction, eq.scale, weights, confidence)
        edges.append(
            CouplingEdge(
                receiver=labels[i],
                source=labels[j],
                strength=strength,
                low=low,
                high=high,
                lag=lag,
                lag_low=lag_low,
                lag_high=lag_high,
                p_value=p_value,
                identifiable=identifiable,
                distinguishable=identifiable and p_value <= 1.0 - confidence,
            )
        )
    return tuple(edges)


def _step_down(statistic: FloatArray, replicates: FloatArray) -> FloatArray:
    """Adjusted p-values: each statistic against the largest replicate among itself and all smaller ones."""
    order = np.argsort(-statistic)
    largest = np.maximum.accumulate(replicates[:, order][:, ::-1], axis=1)[:, ::-1]
    exceed = (1.0 + (largest >= statistic[order]).sum(axis=0)) / (1.0 + replicates.shape[0])
    adjusted = np.empty(statistic.size)
    adjusted[order] = np.maximum.accumulate(exceed)
    return adjusted


def _data_warnings(data: FloatArray, segments: list[tuple[int, int]], labels: tuple[str, ...]) -> list[str]:
    usable = np.concatenate([data[first:after] for first, after in segments])
    advance = np.abs(np.concatenate([np.diff(data[first:after], axis=0) for first, after in segments]))
    warnings = [
        f"aliasing suspected: {labels[k]} advances {float(np.median(advance[:, k])) / TWO_PI:.2f} turns per sample"
        for k in np.flatnonzero(np.median(advance, axis=0) > FASTEST_ADVANCE)
    ]
    unit = np.exp(1j * usable)
    locking = np.abs(unit.conj().T @ unit) / usable.shape[0]
    locked = [(i, j) for i, j in np.argwhere(locking > LOCKED) if i < j]
    if locked:
        shown = ", ".join(f"{labels[i]} and {labels[j]} ({locking[i, j]:.3f})" for i, j in locked[:3])
        more = f" and {len(locked) - 3} more pairs" if len(locked) > 3 else ""
        warnings.append(
            f"nearly synchronous: {shown}{more}; their coupling and frequencies trade off and are poorly determined"
        )
    slow = [
        f"{labels[i]} and {labels[j]}"
        for i in range(len(labels))
        for j in range(i + 1, len(labels))
        if locking[i, j] <= LOCKED and _wanders_slowly(usable[:, j] - usable[:, i])
    ]
    if slow:
        more = f" and {len(slow) - 3} more pairs" if len(slow) > 3 else ""
        warnings.append(
            f"slow: the phase difference of {', '.join(slow[:3])}{more} goes round, or to and fro, fewer than "
            f"{FEWEST_TURNOVERS} times; couplings may be reported that are not there: record longer"
        )
    return warnings


def _wanders_slowly(difference: FloatArray) -> bool:
    """Whether a phase difference stays within a few turns and remembers where it was for long.

    A random walk that has explored little looks as if something pulled it back (the bias of unit roots).
    """
    lag = difference.size // (2 * FEWEST_TURNOVERS)
    if lag == 0 or np.ptp(difference) >= TWO_PI * FEWEST_TURNOVERS:
        return False
    unit = np.exp(1j * difference)
    unit -= unit.mean()
    memory = abs(np.vdot(unit[:-lag], unit[lag:]))
    return bool(memory > np.exp(-1.0) * np.vdot(unit, unit).real)


def _drift_warnings(
    windows: _Windows, designs: list[tuple[FloatArray, FloatArray]], labels: tuple[str, ...]
) -> list[str]:
    """Look for a straight line in what the equations leave over: the model has constant frequencies."""
    axis = np.linspace(-0.5, 0.5, windows.velocity.shape[0])
    warnings: list[str] = []
    for i, (design, _) in enumerate(designs):
        beta = np.linalg.lstsq(design, windows.velocity[:, i], rcond=None)[0]
        residual = windows.velocity[:, i] - design @ beta
        change = float(axis @ residual) / float(axis @ axis)
        rest = residual - change * axis
        long_run = max(0.0, float(rest @ rest + 2.0 * (rest[1:] @ rest[:-1]))) / axis.size
        if abs(change) > max(CLEAR_DRIFT * float(np.sqrt(long_run / (axis @ axis))), 1e-3 * float(np.abs(beta[0]))):
            warnings.append(
                f"drifting: the frequency of {labels[i]} changes by about {change:.3g} rad/s over the record; the "
                "model has it constant, so its interval speaks of the mean and couplings may be missed"
            )
    return warnings
