"""Products for many runs that share one coupling: matrix times matrix, with the sums of a tile held in registers.

The compiler does not keep a tile of sums in registers by itself, so the innermost loop is written in LLVM's own terms.
Each sum still runs over j in ascending order with fused multiply-adds: a run has the same bits alone and in any batch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, cast

import numpy as np
from llvmlite import binding, ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic, overload
from numpy.typing import NDArray

from scpn_phase_orchestrator._arrays import FloatArray
from scpn_phase_orchestrator.upde._kernels_products import accumulate

__all__ = ["RECEIVERS_PER_TILE", "RUNS_PER_TILE", "BatchCoupling", "pack_receivers"]

RECEIVERS_PER_TILE = 4
RUNS_PER_TILE = 16
"""Runs come in multiples of this number (padded with idle ones)."""

# Register width of the host, and how many registers of runs a tile spans; the bits do not depend on either.
_HAS_WIDE_REGISTERS = bool(binding.get_host_cpu_features().get("avx512f", False))
_LANES = 8 if _HAS_WIDE_REGISTERS else 4
_VECTORS = 2 if _HAS_WIDE_REGISTERS else 1


class BatchCoupling(NamedTuple):
    """Matrices packed by `pack_receivers`; the second is empty without lags.

    The state is ``(padded n, n_runs)``, flat.
    """

    cosine_part: FloatArray
    sine_part: FloatArray
    n_runs: int


def pack_receivers(transposed: NDArray[Any]) -> FloatArray:
    """Rearrange ``(n, padded n)`` so that the entries of four receivers lie together: ``(padded n / 4, n, 4)``.

    Always float64: sixteen runs share one reading, so that narrower storage would only cost conversions.
    """
    n, width = transposed.shape
    tiles = transposed.reshape(n, width // RECEIVERS_PER_TILE, RECEIVERS_PER_TILE).transpose(1, 0, 2)
    return np.ascontiguousarray(tiles, np.float64)


def _tile_products(has_lags: bool) -> Callable[..., None]:
    def tile(
        typing_context: Any, a: Any, b: Any, sine: Any, cosine: Any, pull_sine: Any, pull_cosine: Any, at: Any, run: Any
    ) -> Any:
        signature = types.void(a, b, sine, cosine, pull_sine, pull_cosine, types.intp, types.intp)

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return _TileWriter(context, builder, signature, arguments).write(has_lags=has_lags)

        return signature, generate

    return cast("Callable[..., None]", intrinsic(tile))


class _TileWriter:
    """Writes the loop over senders j for one tile of receivers and runs."""

    def __init__(self, context: Any, builder: Any, signature: Any, arguments: Any) -> None:
        self.context, self.builder = context, builder
        arrays = [
            context.make_array(kind)(context, builder, value)
            for kind, value in zip(signature.args[:6], arguments[:6], strict=True)
        ]
        self.a, self.b, self.sine, self.cosine = (array.data for array in arrays[:4])
        self.pulls = [array.data for array in arrays[4:]]
        self.n_senders = builder.extract_value(arrays[0].shape, 1)
        self.n_runs = builder.extract_value(arrays[2].shape, 1)
        self.first_receiver, self.first_run = arguments[6:]
        self.index = ir.IntType(64)
        self.vector = ir.VectorType(ir.DoubleType(), _LANES)
        self.fused = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(self.vector, [self.vector] * 3), f"llvm.fma.v{_LANES}f64"
        )

    def write(self, *, has_lags: bool) -> Any:
        builder = self.builder
        places = [
            builder.gep(pull, [self._add(self._row_start(row), vector * _LANES)])
            for row in range(RECEIVERS_PER_TILE)
            for vector in range(_VECTORS)
            for pull in self.pulls
        ]
        before = [self._load(place) for place in places]
        entry, loop, end = builder.block, builder.append_basic_block("senders"), builder.append_basic_block("stored")
        builder.branch(loop)
        builder.position_at_end(loop)
        sender = builder.phi(self.index)
        sender.add_incoming(self.index(0), entry)
        sums = [builder.phi(self.vector) for _ in places]
        for total, start in zip(sums, before, strict=True):
            total.add_incoming(start, entry)
        after = self._one_sender(sender, sums, has_lags=has_lags)
        following = self._add(sender, 1)
        sender.add_incoming(following, loop)
        for total, value in zip(sums, after, strict=True):
            total.add_incoming(value, loop)
        builder.cbranch(builder.icmp_signed("<", following, self.n_senders), loop, end)
        builder.position_at_end(end)
        for place, value in zip(places, after, strict=True):
            builder.store(value, builder.bitcast(place, self.vector.as_pointer())).align = 8
        return self.context.get_dummy_value()

    def _one_sender(self, sender: Any, sums: list[Any], *, has_lags: bool) -> list[Any]:
        builder = self.builder
        here = self._add(builder.mul(sender, self.n_runs), self.first_run)
        sines, cosines = (
            [self._load(builder.gep(data, [self._add(here, vector * _LANES)])) for vector in range(_VECTORS)]
            for data in (self.sine, self.cosine)
        )
        # Entry of receiver `row` in the packed matrices: (tile * n_senders + sender) * 4 + row.
        tile = builder.sdiv(self.first_receiver, self.index(RECEIVERS_PER_TILE))
        block = builder.mul(self._add(builder.mul(tile, self.n_senders), sender), self.index(RECEIVERS_PER_TILE))
        after: list[Any] = []
        for row in range(RECEIVERS_PER_TILE):
            a = self._spread(self.a, self._add(block, row))
            b = self._spread(self.b, self._add(block, row)) if has_lags else None
            minus_b = builder.fneg(b) if has_lags else None
            for vector in range(_VECTORS):
                p, q = sums[len(after)], sums[len(after) + 1]
                p = builder.call(self.fused, [a, sines[vector], p])
                q = builder.call(self.fused, [a, cosines[vector], q])
                if has_lags:
                    p = builder.call(self.fused, [minus_b, cosines[vector], p])
                    q = builder.call(self.fused, [b, sines[vector], q])
                after += [p, q]
        return after

    def _row_start(self, row: int) -> Any:
        receiver = self._add(self.first_receiver, row)
        return self._add(self.builder.mul(receiver, self.n_runs), self.first_run)

    def _add(self, value: Any, more: Any) -> Any:
        return self.builder.add(value, self.index(more) if isinstance(more, int) else more)

    def _load(self, place: Any) -> Any:
        value = self.builder.load(self.builder.bitcast(place, self.vector.as_pointer()))
        value.align = 8
        return value

    def _spread(self, data: Any, place: Any) -> Any:
        value = self.builder.load(self.builder.gep(data, [place]))
        empty = ir.Constant(self.vector, ir.Undefined)
        first = self.builder.insert_element(empty, value, ir.IntType(32)(0))
        return self.builder.shuffle_vector(first, empty, ir.Constant(ir.VectorType(ir.IntType(32), _LANES), None))


_tile_without_lags = _tile_products(has_lags=False)
_tile_with_lags = _tile_products(has_lags=True)


@njit(cache=True, error_model="numpy")
def batch_products(
    a: FloatArray,
    b: FloatArray,
    sine: FloatArray,
    cosine: FloatArray,
    pull_sine: FloatArray,
    pull_cosine: FloatArray,
) -> None:
    """Add the products of all runs; states are ``(padded n, n_runs)``."""
    for run in range(0, sine.shape[1], _LANES * _VECTORS):
        for receiver in range(0, sine.shape[0], RECEIVERS_PER_TILE):
            if b.shape[0] == 0:
                _tile_without_lags(a, a, sine, cosine, pull_sine, pull_cosine, receiver, run)
            else:
                _tile_with_lags(a, b, sine, cosine, pull_sine, pull_cosine, receiver, run)


@overload(accumulate)
def _accumulate_batch(coupling: Any, sine: Any, cosine: Any, pull_sine: Any, pull_cosine: Any) -> Any:
    if getattr(coupling, "instance_class", None) is not BatchCoupling:
        return None

    def batch(coupling: Any, sine: Any, cosine: Any, pull_sine: Any, pull_cosine: Any) -> None:
        shape = (sine.shape[0] // coupling.n_runs, coupling.n_runs)
        batch_products(
            coupling.cosine_part,
            coupling.sine_part,
            sine.reshape(shape),
            cosine.reshape(shape),
            pull_sine.reshape(shape),
            pull_cosine.reshape(shape),
        )

    return batch
