"""The safety layer of a training run: one decision per step, by the documented filter or by the safety stack."""

from concerto.training._safety_drivers.filter_driver import FilterDriver, InfeasiblePolicy
from concerto.training._safety_drivers.reading import SnapshotBuilder, require_builder_reads
from concerto.training._safety_drivers.stack_driver import StackDriver
from concerto.training._safety_drivers.wiring import SafetyBuilder, make_safety_driver

__all__ = [
    "FilterDriver",
    "InfeasiblePolicy",
    "SafetyBuilder",
    "SnapshotBuilder",
    "StackDriver",
    "make_safety_driver",
    "require_builder_reads",
]
