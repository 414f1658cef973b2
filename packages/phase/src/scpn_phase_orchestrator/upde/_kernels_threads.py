"""Products shared among threads: each takes its own receivers, so that the bits do not depend on their number."""

from __future__ import annotations

import itertools
import os
import time
from concurrent.futures import ThreadPoolExecutor, wait

import numpy as np

from scpn_phase_orchestrator._arrays import FloatArray
from scpn_phase_orchestrator.upde._kernels_products import DenseCoupling, dense_products

__all__ = ["ThreadedProducts", "available_threads", "choose_threads", "thread_pool"]

_LANES = 8
_PROBES = 3
_WORTHWHILE = 0.8
_pools: dict[tuple[int, int], ThreadPoolExecutor] = {}


def available_threads() -> int:
    """Number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def thread_pool(threads: int) -> ThreadPoolExecutor:
    """The pool of this process with that many workers; a forked child gets its own."""
    key = (os.getpid(), threads)
    if key not in _pools:
        _pools[key] = ThreadPoolExecutor(threads, thread_name_prefix="phase-engine")
    return _pools[key]


class ThreadedProducts:
    """Dense coupling whose products several threads compute, each for a range of receivers."""

    def __init__(self, coupling: DenseCoupling, threads: int) -> None:
        self._coupling = coupling
        width = coupling.cosine_part.shape[1]
        edges = [width // _LANES * k // threads * _LANES for k in range(threads)] + [width]
        self._ranges = [(first, last) for first, last in itertools.pairwise(edges) if first < last]

    def accumulate(self, sine: FloatArray, cosine: FloatArray, pull_sine: FloatArray, pull_cosine: FloatArray) -> None:
        """Add the products; the calling thread takes the first range."""
        a, b = self._coupling
        arguments = (a, b, sine, cosine, pull_sine, pull_cosine)
        pool = thread_pool(len(self._ranges))
        others = [pool.submit(dense_products, *arguments, first, last) for first, last in self._ranges[1:]]
        dense_products(*arguments, *self._ranges[0])
        wait(others)
        for other in others:
            other.result()


def choose_threads(coupling: DenseCoupling) -> int:
    """Time a few products on one thread and on all, and take all only if their worst time is clearly shorter."""
    threads = available_threads()
    if threads == 1:
        return 1
    vectors = np.zeros((4, coupling.cosine_part.shape[1]))
    slowest = {count: _slowest(ThreadedProducts(coupling, count), vectors) for count in (threads, 1)}
    return threads if slowest[threads] < _WORTHWHILE * slowest[1] else 1


def _slowest(products: ThreadedProducts, vectors: FloatArray) -> float:
    products.accumulate(*vectors)
    seconds: list[float] = []
    for _ in range(_PROBES):
        started = time.perf_counter()
        products.accumulate(*vectors)
        seconds.append(time.perf_counter() - started)
    return max(seconds)
