"""Benchmarks: the registry of cells, and the host's side of paired replays.

A *cell* is one data set or arena with one task kind and its measures (`cells`). Pairs are played by bridges
(`paired_replay`); `agentinputlab.experiments.builders` makes bridges to worker processes.
"""

from agentinputlab.benchmarks.cells import (
    BenchmarkCell,
    BenchmarkRegistry,
    CellGate,
    CellOrigin,
    Runnable,
    TaskKind,
    load_benchmark_registry,
)

__all__ = [
    "BenchmarkCell",
    "BenchmarkRegistry",
    "CellGate",
    "CellOrigin",
    "Runnable",
    "TaskKind",
    "load_benchmark_registry",
]
