"""Source files by their repository-relative names: what a scope pins."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

__all__ = ["package_files", "worker_base_files"]

_ROOT = Path(__file__).resolve().parents[2]
_BASE = "workers/official_arenas"
_BASE_MODULES = (
    "_budgets.py",
    "_errors.py",
    "_reading.py",
    "_replay_inventory.py",
    "_requests.py",
    "_screening.py",
    "_trace_measurement.py",
    "_usage.py",
    "capture_records.py",
    "driver.py",
    "protocol.py",
    "providers/__init__.py",
)


def package_files(*names: str) -> dict[str, Path]:
    """Give name -> path of files of this package (``workers/official_arenas/driver.py``)."""
    return {name: _ROOT / name for name in names}


def worker_base_files() -> Mapping[str, Path]:
    """Give the files that every arm passes through, whatever its arena."""
    return package_files(*(f"{_BASE}/{module}" for module in _BASE_MODULES))
