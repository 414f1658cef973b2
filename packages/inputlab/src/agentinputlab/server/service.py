"""What the server may do: configured releases, one execution at a time, a short queue, typed answers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from agentinputlab.contracts.errors import (
    AgentInputLabError,
    AlgorithmUnavailableError,
    ArmExecutionError,
    BudgetExceededError,
    RegistryError,
    ValidationError,
)
from agentinputlab.contracts.lifecycle import InterventionContext
from agentinputlab.contracts.protocols import SERVER_PROTOCOL
from agentinputlab.contracts.state import FrozenAgentState

__all__ = ["DEFAULT_RELEASES", "Answer", "ToolkitService", "default_service"]

DEFAULT_RELEASES = ("baseline.no_op", "plan.plan_and_solve.ps_prompt")
_REQUEST_FIELDS = frozenset({"release_id", "state", "seed"})


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer as values.

    Attributes:
        status: HTTP status.
        body: JSON value: ``{"data": ...}`` or ``{"error": {"code": ..., "message": ...}}``.
        headers: further headers.
    """

    status: int
    body: Mapping[str, Any]
    headers: Mapping[str, str] = field(default_factory=dict[str, str])

    @classmethod
    def error(cls, status: int, code: str, message: str, **headers: str) -> Answer:
        """Give an error; only that of an invalid request may quote the field that is wrong, to its sender."""
        return cls(status, {"error": {"code": code, "message": message}}, headers)


class ToolkitService:
    """Runs configured interventions on states that clients send."""

    def __init__(
        self,
        factories: Mapping[str, Callable[[], Any]],
        context_factory: Callable[[int], InterventionContext] | None = None,
        *,
        waiting: int = 0,
    ) -> None:
        """Configure the service.

        Args:
            factories: release id -> function that makes a fresh intervention.
            context_factory: makes a fresh context from the request's seed; by default one that holds no model.
            waiting: how many requests may wait while one runs; the next one is answered 429 with ``Retry-After``.

        Raises:
            ValidationError: no release is configured, or ``waiting`` is negative.
        """
        if not factories:
            raise ValidationError("factories must configure at least one release")
        if waiting < 0:
            raise ValidationError(f"waiting must not be negative, got {waiting}")
        self._factories = dict(factories)
        self._context_factory = context_factory or _context_without_model
        self._running = threading.Lock()
        self._places = threading.BoundedSemaphore(waiting + 1)

    def health(self) -> Answer:
        """Say that the service is there."""
        return Answer(200, {"data": {"status": "ok", "protocol": SERVER_PROTOCOL}})

    def catalog(self) -> Answer:
        """Give the registry's cards and the releases that this service runs."""
        from agentinputlab.api import catalog

        return Answer(200, {"data": {**catalog(), "configured": sorted(self._factories)}})

    def intervene(self, request: object) -> Answer:
        """Run one configured release on a state."""
        if not self._places.acquire(blocking=False):
            return Answer.error(429, "busy", "Another execution is running; try again.", **{"Retry-After": "1"})
        try:
            with self._running:
                return self._intervene(request)
        finally:
            self._places.release()

    def _intervene(self, request: object) -> Answer:
        try:
            release_id, state, seed = _parsed(request)
        except AgentInputLabError as error:
            return Answer.error(400, "invalid_request", str(error))
        factory = self._factories.get(release_id)
        if factory is None:
            return Answer.error(
                422, "unavailable", "This service does not run that release; GET /v1/catalog lists them."
            )
        return self._run(factory, state, seed)

    def _run(self, factory: Callable[[], Any], state: FrozenAgentState, seed: int) -> Answer:
        from agentinputlab.api import run_intervention

        try:
            return Answer(200, {"data": run_intervention(factory(), state, self._context_factory(seed))})
        except BudgetExceededError:
            return Answer.error(422, "budget_exhausted", "The budget of the state was exhausted.")
        except (AlgorithmUnavailableError, RegistryError):
            return Answer.error(422, "unavailable", "The release cannot be run here.")
        except ArmExecutionError as error:
            return Answer.error(422, "algorithm_output", f"The intervention failed ({type(error).__name__}).")
        except AgentInputLabError as error:
            return Answer.error(422, "execution_failed", f"The intervention was refused ({type(error).__name__}).")


def _context_without_model(seed: int) -> InterventionContext:
    return InterventionContext(seed=seed)


def _parsed(request: object) -> tuple[str, FrozenAgentState, int]:
    if not isinstance(request, Mapping):
        raise ValidationError("the request must be an object")
    unknown = sorted(str(name)[:40] for name in set(request) - _REQUEST_FIELDS)
    if unknown:
        raise ValidationError(f"the request has unknown fields: {', '.join(unknown)}")
    release_id, seed = request.get("release_id"), request.get("seed", 0)
    if not isinstance(release_id, str) or not release_id:
        raise ValidationError("release_id must be non-blank text")
    if type(seed) is not int or not 0 <= seed < 2**63:
        raise ValidationError("seed must be an integer from 0 to 2**63 - 1")
    return release_id, FrozenAgentState.from_dict(request.get("state")), seed


def default_service(*, waiting: int = 0) -> ToolkitService:
    """Give the service of `agentinputlab-serve`: the releases that need no model."""
    from agentinputlab.algorithms.plan.plan_and_solve import PlanAndSolvePrompt
    from agentinputlab.selectors import NoOpIntervention

    return ToolkitService(
        dict(zip(DEFAULT_RELEASES, (NoOpIntervention, PlanAndSolvePrompt), strict=True)), waiting=waiting
    )
