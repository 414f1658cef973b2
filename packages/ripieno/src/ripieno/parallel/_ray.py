"""The engine of a Ray cluster (extra ``ripieno[cluster]``)."""

from __future__ import annotations

import importlib
import os
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from ripieno.parallel._engine import thread_limits
from ripieno.parallel._outcome import Attempt, CellStatus, attempt

__all__ = ["RayEngine"]


@dataclass(frozen=True)
class _Task:
    reference: Any
    index: int
    started: float


class RayEngine:
    """Attempts as Ray tasks of one core each.

    Uses the Ray connection of this process when there is one; otherwise it connects to ``address``, to
    ``RAY_ADDRESS``, or starts a local Ray, and disconnects at the end.

    Raises:
        ImportError: Ray is not installed.
        ConnectionError: there is no cluster at the address.
    """

    def __init__(
        self,
        function: Callable[[Any], object],
        cells: Sequence[object],
        slots: int | None,
        address: str | None,
    ) -> None:
        self._ray = ray = _import_ray()
        environment = dict.fromkeys(thread_limits(1), "1")  # a task has one core, so its libraries get one thread
        self._connected_here = not ray.is_initialized()
        if self._connected_here:
            where = address or os.environ.get("RAY_ADDRESS") or "local"
            local: dict[str, Any] = {}
            if where == "local":
                local = {"num_cpus": slots, "include_dashboard": False}
                environment["PYTHONPATH"] = os.pathsep.join(sys.path)  # what is importable here is importable there
            ray.init(address=where, log_to_driver=False, logging_level="error", **local)
        self.slots = slots or max(1, int(ray.cluster_resources().get("CPU", 1)))
        self._task = ray.remote(num_cpus=1, max_retries=0, runtime_env={"env_vars": environment})(_run)
        self._function = ray.put(function)
        self._cells = cells
        self._running: list[_Task] = []

    def start(self, index: int) -> None:
        """Submit the cell."""
        reference = self._task.remote(self._function, self._cells[index], index)
        self._running.append(_Task(reference, index, time.perf_counter()))

    def wait(self) -> Attempt:
        """Wait for the first task that ends."""
        ready, _ = self._ray.wait([task.reference for task in self._running], num_returns=1)
        task = next(task for task in self._running if task.reference in ready)
        self._running.remove(task)
        try:
            return self._ray.get(task.reference)
        except self._ray.exceptions.RayTaskError as error:  # the input or the value could not be carried
            status, details = CellStatus.FAILED, str(error.cause)
        except self._ray.exceptions.RayError as error:
            status, details = CellStatus.DIED, str(error)
        reason = details.strip().splitlines()[0]
        return Attempt(task.index, status, None, reason, time.perf_counter() - task.started, details)

    def close(self) -> None:
        """Cancel what still runs and disconnect, unless the connection was there before."""
        for task in self._running:
            with suppress(self._ray.exceptions.RayError):
                self._ray.cancel(task.reference, force=True)
        self._running = []
        if self._connected_here:
            self._ray.shutdown()


def _run(function: Callable[[Any], object], cell: object, index: int) -> Attempt:
    return attempt(partial(function, cell), index)


def _import_ray() -> Any:
    try:
        return importlib.import_module("ray")
    except ImportError as error:
        message = "the executor 'ray' needs Ray, which is not installed: pip install 'ripieno[cluster]'"
        raise ImportError(message) from error
