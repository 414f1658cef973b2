"""Many runs of one network at once: sweeps, Monte Carlo, initial conditions.

Runs that share their coupling become matrix times matrix, which works each entry of the coupling for sixteen runs while
it is at hand; runs with couplings of their own are advanced one by one. Blocks of runs can be shared among threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from scpn_phase_orchestrator._arrays import FloatArray, real_array, whole_number
from scpn_phase_orchestrator.exceptions import EngineError
from scpn_phase_orchestrator.upde import _kernels
from scpn_phase_orchestrator.upde._engine_base import aligned_zeros, padded, within_range
from scpn_phase_orchestrator.upde._kernels_batch import RUNS_PER_TILE, BatchCoupling, pack_receivers
from scpn_phase_orchestrator.upde._kernels_elementary import LARGEST_PHASE
from scpn_phase_orchestrator.upde._kernels_threads import thread_pool
from scpn_phase_orchestrator.upde.engine import PreparedCoupling, UPDEEngine

__all__ = ["EnsembleEngine"]

_BATCHED = {"euler": _kernels.integrate_euler, "rk4": _kernels.integrate_rk4}


class EnsembleEngine:
    """Integrator of many runs of n oscillators each; every run has the bits it has alone in `UPDEEngine`.

    Args:
        n_oscillators: Number n of oscillators of a run.
        n_runs: Number of runs.
        dt: Length of a step in seconds.
        method: ``euler``, ``rk4`` or ``rk45`` (whose steps adapt run by run, so that sharing gains it nothing).
        atol: Absolute tolerance of rk45 in rad.
        rtol: Relative tolerance of rk45.
        substeps: Equal parts of each step.
        dtype: Storage of the matrices, float64 or float32.
        threads: Threads that share the runs.

    Examples:
        >>> import numpy as np
        >>> engine = EnsembleEngine(2, 3, dt=0.01)
        >>> phases = np.array([[0.0, 1.0], [0.0, 2.0], [0.0, 3.0]])
        >>> engine.run(phases, [1.0, 2.0], [[0.0, 0.5], [0.5, 0.0]], n_steps=100).shape
        (3, 2)
    """

    def __init__(
        self,
        n_oscillators: int,
        n_runs: int,
        dt: float,
        method: str = "euler",
        atol: float = 1e-6,
        rtol: float = 1e-3,
        *,
        substeps: int = 1,
        dtype: DTypeLike = np.float64,
        threads: int = 1,
    ) -> None:
        self._n_runs = whole_number("n_runs", n_runs, minimum=1)
        self._threads = whole_number("threads", threads, minimum=1)
        # One engine checks the settings; each worker advances single runs with one of its own.
        self._new_engine: Callable[[], UPDEEngine] = lambda: UPDEEngine(
            n_oscillators, dt, method, atol, rtol, substeps=substeps, dtype=dtype, threads=1
        )
        self._settings = self._new_engine()
        self._n = self._settings.n_oscillators
        self._n_steps_done = 0
        self._packed: tuple[PreparedCoupling, BatchCoupling] | None = None

    @property
    def n_oscillators(self) -> int:
        """Number of oscillators of a run."""
        return self._n

    @property
    def n_runs(self) -> int:
        """Number of runs."""
        return self._n_runs

    @property
    def time(self) -> float:
        """Time reached, in seconds."""
        return self._n_steps_done * self._settings.dt

    def step(
        self,
        phases: ArrayLike,
        omegas: ArrayLike,
        knm: ArrayLike | PreparedCoupling | Sequence[PreparedCoupling],
        zeta: ArrayLike = 0.0,
        psi: ArrayLike = 0.0,
        alpha: ArrayLike | None = None,
    ) -> FloatArray:
        """Advance all runs by ``dt``; see `run`."""
        return self.run(phases, omegas, knm, zeta, psi, alpha)

    def run(
        self,
        phases: ArrayLike,
        omegas: ArrayLike,
        knm: ArrayLike | PreparedCoupling | Sequence[PreparedCoupling],
        zeta: ArrayLike = 0.0,
        psi: ArrayLike = 0.0,
        alpha: ArrayLike | None = None,
        n_steps: int = 1,
    ) -> FloatArray:
        """Advance all runs by ``n_steps`` steps.

        Args:
            phases: ``(n_runs, n)`` in rad.
            omegas: Natural frequencies in rad/s, ``(n,)`` for all runs or ``(n_runs, n)``.
            knm: Coupling in rad/s, row = receiver: ``(n, n)`` or one `PreparedCoupling` for all runs;
                ``(n_runs, n, n)`` or a sequence of `PreparedCoupling` for one each.
            zeta: Drive strength in rad/s: one, ``(n_runs,)`` or ``(n_runs, n)``.
            psi: Drive phase in rad: one, ``(n_runs,)`` or ``(n_runs, n)``.
            alpha: Lags in rad, ``(n, n)`` or ``(n_runs, n, n)``; None for none.
            n_steps: Number of steps; 0 gives a copy.

        Returns:
            New phases ``(n_runs, n)`` in [0, 2 pi).

        Raises:
            ValueError: for a shape that does not fit or values that are not finite numbers.
            EngineError: when a run diverges, naming run, step and norm.
        """
        whole_number("n_steps", n_steps)
        state = within_range(self._per_run(phases, "phases", one_row=False))
        frequencies = np.broadcast_to(self._per_run(omegas, "omegas", one_row=True), state.shape)
        strengths = self._drive(zeta, "zeta")
        drive_phases = within_range(self._drive(psi, "psi"))
        shared, own = self._couplings(knm, alpha)
        if n_steps == 0:
            return np.array(phases, np.float64)
        out = np.empty(state.shape)
        inputs = (out, state, frequencies, strengths, drive_phases, n_steps)
        if shared is not None and self._settings.method in _BATCHED:
            coupling = self._pack(shared)
            blocks = [
                slice(first, min(first + RUNS_PER_TILE, self._n_runs))
                for first in range(0, self._n_runs, RUNS_PER_TILE)
            ]
            self._share(lambda runs: self._advance_blocks(coupling, runs, *inputs), blocks)
        else:
            couplings = own if shared is None else [shared] * self._n_runs
            self._share(lambda runs: self._advance_singly(couplings, runs, *inputs), list(range(self._n_runs)))
        self._n_steps_done += n_steps
        return out

    def _share(self, work: Callable[[list[Any]], None], items: list[Any]) -> None:
        """Give every thread an equal part of the items."""
        threads = min(self._threads, len(items))
        if threads == 1:
            work(items)
            return
        parts = [items[k::threads] for k in range(threads)]
        for result in [thread_pool(threads).submit(work, part) for part in parts]:
            result.result()

    def _advance_blocks(
        self,
        coupling: BatchCoupling,
        blocks: list[slice],
        out: FloatArray,
        phases: FloatArray,
        omegas: FloatArray,
        zeta: FloatArray,
        psi: FloatArray,
        n_steps: int,
    ) -> None:
        settings, n = self._settings, self._n
        work = aligned_zeros((_kernels.WORK_ROWS[settings.method], padded(n) * RUNS_PER_TILE))
        report, advanced = np.zeros(3), np.zeros(n * RUNS_PER_TILE)
        for runs in blocks:
            count = runs.stop - runs.start
            failed = _BATCHED[settings.method](
                coupling, _across(phases, runs), _across(omegas, runs).reshape(1, -1), _across(zeta, runs),
                _across(psi, runs), advanced, work, report, settings.dt, n_steps, settings.substeps, 1.0, 1.0,
            )  # fmt: skip
            if failed >= 0:
                reached = np.abs(work[0].reshape(-1, RUNS_PER_TILE)[:n, :count])
                run = runs.start + int((~(reached <= LARGEST_PHASE)).any(axis=0).argmax())
                raise EngineError(
                    f"run {run}: {settings.method} at step {self._n_steps_done + failed} diverged: the norm "
                    f"max |phase| before wrapping is {report[0]:.6g} rad, at most {LARGEST_PHASE:.6g} is meaningful"
                )
            out[runs] = advanced.reshape(n, RUNS_PER_TILE)[:, :count].T

    def _advance_singly(
        self,
        couplings: Sequence[PreparedCoupling],
        runs: list[int],
        out: FloatArray,
        phases: FloatArray,
        omegas: FloatArray,
        zeta: FloatArray,
        psi: FloatArray,
        n_steps: int,
    ) -> None:
        engine = self._new_engine()
        for run in runs:
            engine._restart(self._n_steps_done)
            try:
                out[run] = engine.run(phases[run], omegas[run], couplings[run], zeta[run], psi[run], n_steps=n_steps)
            except EngineError as error:
                raise EngineError(f"run {run}: {error}") from error

    def _couplings(
        self, knm: ArrayLike | PreparedCoupling | Sequence[PreparedCoupling], alpha: ArrayLike | None
    ) -> tuple[PreparedCoupling | None, Sequence[PreparedCoupling]]:
        """Coupling of all runs, or those of each."""
        if isinstance(knm, PreparedCoupling):
            _refuse_second_lags(alpha)
            return self._fitting(knm), ()
        if isinstance(knm, Sequence) and not isinstance(knm, str):
            prepared = [one for one in knm if isinstance(one, PreparedCoupling)]
            if prepared:
                _refuse_second_lags(alpha)
                if not len(prepared) == len(knm) == self._n_runs:
                    raise ValueError(f"knm must hold {self._n_runs} couplings, got {len(prepared)} of {len(knm)}")
                return None, [self._fitting(one) for one in prepared]
        n, dtype = self._n, self._settings.dtype
        strengths = real_array("knm", knm)
        lags = None if alpha is None else real_array("alpha", alpha)
        for name, value in (("knm", strengths), ("alpha", lags)):
            if value is not None and value.shape not in {(n, n), (self._n_runs, n, n)}:
                raise ValueError(f"{name} must have shape ({n}, {n}) or ({self._n_runs}, {n}, {n}), got {value.shape}")
        if strengths.ndim == 2 and (lags is None or lags.ndim == 2):
            return PreparedCoupling.from_matrices(strengths, lags, dtype=dtype), ()
        all_strengths = np.broadcast_to(strengths, (self._n_runs, n, n))
        all_lags = [None] * self._n_runs if lags is None else np.broadcast_to(lags, (self._n_runs, n, n))
        return None, [
            PreparedCoupling.from_matrices(one, lag, dtype=dtype)
            for one, lag in zip(all_strengths, all_lags, strict=True)
        ]

    def _fitting(self, prepared: PreparedCoupling) -> PreparedCoupling:
        if prepared.n != self._n:
            raise ValueError(f"knm must couple {self._n} oscillators, got a PreparedCoupling of {prepared.n}")
        return prepared

    def _pack(self, prepared: PreparedCoupling) -> BatchCoupling:
        kept = self._packed
        if kept is None or kept[0] is not prepared:
            a, b = prepared.coupling
            sine_part = pack_receivers(b) if prepared.has_lags else np.zeros((0, 0, 0))
            packed = BatchCoupling(pack_receivers(a), sine_part, RUNS_PER_TILE)
            self._packed = prepared, packed
            return packed  # not what the attribute holds: another thread may have packed another coupling meanwhile
        return kept[1]

    def _per_run(self, value: ArrayLike, name: str, *, one_row: bool) -> FloatArray:
        array = real_array(name, value)
        expected = f"({self._n_runs}, {self._n})" + (f" or ({self._n},)" if one_row else "")
        if array.shape == (self._n_runs, self._n) or (one_row and array.shape == (self._n,)):
            return array
        raise ValueError(f"{name} must have shape {expected}, got {array.shape}")

    def _drive(self, value: ArrayLike, name: str) -> FloatArray:
        array = real_array(name, value)
        if array.shape == (self._n_runs,):
            array = array[:, None]
        elif array.shape not in {(), (self._n_runs, self._n)}:
            raise ValueError(
                f"{name} must be one number or have shape ({self._n_runs},) or ({self._n_runs}, {self._n}), "
                f"got {array.shape}"
            )
        return np.ascontiguousarray(np.broadcast_to(array, (self._n_runs, self._n)))


def _across(values: FloatArray, runs: slice) -> FloatArray:
    """Rows of a block as one flat array with runs innermost, idle runs zero."""
    block = np.zeros((values.shape[1], RUNS_PER_TILE))
    block[:, : runs.stop - runs.start] = values[runs].T
    return block.reshape(-1)


def _refuse_second_lags(alpha: ArrayLike | None) -> None:
    if alpha is not None:
        raise ValueError("alpha must be None with a PreparedCoupling, which holds the lags already")
