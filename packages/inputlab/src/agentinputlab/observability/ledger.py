"""The one account of a run: what its budget still allows, and what was really used."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from threading import RLock
from typing import cast

from agentinputlab.contracts._checks import text
from agentinputlab.contracts.errors import BudgetExceededError, ValidationError
from agentinputlab.contracts.state import ExecutionBudget
from agentinputlab.observability.usage import ResourceUsage

__all__ = ["DIMENSIONS", "BudgetLedger", "PendingReservation"]

DIMENSIONS = (
    "model_calls",
    "retrieval_calls",
    "tool_calls",
    "output_tokens",
    "context_tokens",
    "cost_usd",
    "unknown_cost",
)
"""What a budget limits. ``unknown_cost`` is a call without a price under a cost cap."""


@dataclass(frozen=True, eq=False, slots=True)
class PendingReservation:
    """A promise of at least `minimum`, made by `BudgetLedger.reserve_pending`; its ledger settles it exactly once."""

    minimum: ResourceUsage
    ledger: BudgetLedger


class BudgetLedger:
    """Account of one run; all methods may be called from any thread.

    A reservation that does not fit is refused and changes nothing. What was really used is always recorded, and if it
    is more than the budget, the ledger stays in violation: every later reservation and charge raises. A cap of 0
    means none.

    Args:
        budget: the caps.
        parent: ledger of an enclosing run, on which everything counts too.

    Examples:
        >>> ledger = BudgetLedger(ExecutionBudget(max_model_calls=1))
        >>> ledger.reserve(ResourceUsage(model_calls=1))
        >>> ledger.usage.model_calls
        1
    """

    def __init__(self, budget: ExecutionBudget, *, parent: BudgetLedger | None = None) -> None:
        if not isinstance(cast("object", budget), ExecutionBudget):
            raise ValidationError(f"budget must be an ExecutionBudget, got {type(budget).__name__}")
        self._budget = budget
        self._parent = parent
        self._lock = RLock()
        self._usage = ResourceUsage()
        self._pending: set[PendingReservation] = set()
        self._violations: dict[str, str] = {}  # dimension -> what to say about it
        self._rejections: dict[str, str] = {}
        self._owner_run_id: str | None = None
        self._is_active = False

    # --- what it says ---------------------------------------------------------------------------------------

    @property
    def budget(self) -> ExecutionBudget:
        """The caps."""
        return self._budget

    @property
    def parent(self) -> BudgetLedger | None:
        """The ledger of the enclosing run."""
        return self._parent

    @property
    def lineage(self) -> tuple[BudgetLedger, ...]:
        """This ledger and all around it, from the inside out."""
        return (self,) if self._parent is None else (self, *self._parent.lineage)

    @property
    def usage(self) -> ResourceUsage:
        """What was reserved for good or charged."""
        with self._lock:
            return self._usage

    @property
    def pending(self) -> ResourceUsage:
        """The sum of the promises that are not settled yet."""
        with self._lock:
            return sum((promise.minimum for promise in self._pending), ResourceUsage())

    @property
    def actual_violations(self) -> tuple[str, ...]:
        """The `DIMENSIONS` in which more was used than allowed, in the order in which it happened."""
        with self._lock:
            return tuple(self._violations)

    @property
    def reservation_rejections(self) -> tuple[str, ...]:
        """The `DIMENSIONS` for which a reservation was refused, in the order in which it happened."""
        with self._lock:
            return tuple(self._rejections)

    @property
    def is_pristine(self) -> bool:
        """Nothing was reserved, charged or refused."""
        with self._lock:
            return self._usage.is_zero and not (self._pending or self._violations or self._rejections)

    @property
    def owner_run_id(self) -> str | None:
        """The run that has claimed the ledger."""
        with self._lock:
            return self._owner_run_id

    @property
    def is_active(self) -> bool:
        """A run has claimed the ledger and is not over."""
        with self._lock:
            return self._is_active

    def remaining(self, dimension: str) -> int | float | None:
        """Give what is left in a dimension, promises subtracted, at least 0; None without a cap.

        Raises:
            ValidationError: the dimension has no amount.
        """
        with self._lock:
            caps = _caps(self._budget)
            if dimension not in caps:
                raise ValidationError(f"dimension must be one of {', '.join(caps)}, got {dimension!r}")
            cap = caps[dimension]
            own = None if cap is None else max(0, cap - _amounts(self._usage + self.pending)[dimension])
        outer = None if self._parent is None else self._parent.remaining(dimension)
        return min((left for left in (own, outer) if left is not None), default=None)

    # --- before the fact ------------------------------------------------------------------------------------

    def reserve(self, delta: ResourceUsage) -> None:
        """Take an amount if it fits.

        Raises:
            BudgetExceededError: it does not fit, or the ledger is in violation; the usage is unchanged and the refusal
                remembered.
            ValidationError: the run that owns the ledger is over.
        """
        with self._locked() as ledgers:
            _refuse_unless_it_fits(ledgers, delta)
            for ledger in ledgers:
                ledger._usage += delta

    charge = reserve

    def reserve_pending(self, minimum: ResourceUsage) -> PendingReservation:
        """Hold an amount that a call will use at the least, until it is settled.

        Returns:
            The promise, for `commit_pending` or `cancel_pending`.

        Raises:
            BudgetExceededError: as `reserve`.
        """
        with self._locked() as ledgers:
            _refuse_unless_it_fits(ledgers, minimum)
            promise = PendingReservation(minimum, self)
            for ledger in ledgers:
                ledger._pending.add(promise)
            return promise

    def cancel_pending(self, promise: PendingReservation) -> None:
        """Let a promise go: nothing was used.

        Raises:
            ValidationError: the promise is not open here.
        """
        with self._locked() as ledgers:
            self._settle(promise, ledgers)

    # --- after the fact -------------------------------------------------------------------------------------

    def commit_pending(self, promise: PendingReservation, actual: ResourceUsage) -> None:
        """Settle a promise by what was really used.

        Raises:
            ValidationError: the promise is not open here.
            BudgetExceededError: as `charge_actual`; the usage is recorded.
        """
        with self._locked() as ledgers:
            self._settle(promise, ledgers)
            _record(ledgers, actual)

    def charge_actual(self, delta: ResourceUsage) -> None:
        """Record what was used, whether it fits or not.

        Raises:
            BudgetExceededError: after recording, when the ledger is in violation.
        """
        with self._locked() as ledgers:
            _record(ledgers, delta)

    def require_within_budget(self) -> None:
        """Check that nothing was refused and nothing overdrawn, even if somebody swallowed the error.

        Raises:
            BudgetExceededError: names the dimensions.
        """
        with self._lock:
            if self._violations:
                raise _overdrawn(self._violations)
            if self._rejections:
                raise _refused(self._rejections)

    # --- ownership ------------------------------------------------------------------------------------------

    def claim_for_run(self, run_id: str) -> None:
        """Bind the ledger to one run, for good.

        Raises:
            ValidationError: another run (or this one) has claimed it, or it is not pristine.
        """
        text(run_id, "run_id")
        with self._lock:
            if self._owner_run_id is not None:
                raise ValidationError(f"the budget ledger belongs to run {self._owner_run_id}; a run needs its own")
            if not self.is_pristine:
                raise ValidationError("the budget ledger was used before a run claimed it; a run needs a fresh one")
            self._owner_run_id = run_id
            self._is_active = True

    def release_from_run(self) -> None:
        """Say that the owning run is over: nothing can be reserved any more, late usage is still recorded."""
        with self._lock:
            self._is_active = False

    # --- inside ---------------------------------------------------------------------------------------------

    @contextmanager
    def _locked(self) -> Generator[tuple[BudgetLedger, ...]]:
        """Hold the locks of this ledger and of all around it; always from the inside out, so nobody waits in a ring."""
        with ExitStack() as locks:
            for ledger in self.lineage:
                locks.enter_context(ledger._lock)
            yield self.lineage

    def _settle(self, promise: PendingReservation, ledgers: tuple[BudgetLedger, ...]) -> None:
        if promise not in self._pending or promise.ledger is not self:
            raise ValidationError("the reservation is not open: it was settled before or belongs to another ledger")
        for ledger in ledgers:
            ledger._pending.remove(promise)


def _refuse_unless_it_fits(ledgers: tuple[BudgetLedger, ...], delta: ResourceUsage) -> None:
    refused: dict[str, str] = {}
    for ledger in ledgers:
        if ledger._owner_run_id is not None and not ledger._is_active:
            raise ValidationError(f"run {ledger._owner_run_id} is over; nothing can be called on its account")
    for ledger in reversed(ledgers):  # a refusal by an outer ledger is one of the inner ones too, not vice versa
        wanted = ledger._usage + ledger.pending + delta
        refused |= ledger._violations or _exceeded(ledger.budget, wanted, delta=delta)
        ledger._rejections.update(refused)
    if refused:
        raise _refused(refused)


def _record(ledgers: tuple[BudgetLedger, ...], delta: ResourceUsage) -> None:
    exceeded: dict[str, str] = {}
    for ledger in reversed(ledgers):
        ledger._usage += delta
        exceeded |= _exceeded(ledger.budget, ledger._usage, delta=ledger._usage)
        ledger._violations.update(exceeded)
    innermost = ledgers[0]
    if innermost._violations:
        raise _overdrawn(innermost._violations)


def _overdrawn(dimensions: dict[str, str]) -> BudgetExceededError:
    return BudgetExceededError(f"the run used more than its budget: {'; '.join(dimensions.values())}")


def _refused(dimensions: dict[str, str]) -> BudgetExceededError:
    return BudgetExceededError(f"the budget does not allow it: {'; '.join(dimensions.values())}")


def _caps(budget: ExecutionBudget) -> dict[str, int | float | None]:
    return {
        "model_calls": budget.max_model_calls,
        "retrieval_calls": budget.max_retrieval_calls,
        "tool_calls": budget.max_tool_calls,
        "output_tokens": budget.max_output_tokens,
        "context_tokens": budget.max_context_tokens,
        "cost_usd": budget.max_cost_usd,
    }


def _amounts(usage: ResourceUsage) -> dict[str, int | float]:
    return {
        "model_calls": usage.model_calls,
        "retrieval_calls": usage.retrieval_calls,
        "tool_calls": usage.tool_calls,
        "output_tokens": usage.output_tokens,
        "context_tokens": usage.input_tokens,
        "cost_usd": usage.total_cost_usd,
    }


def _exceeded(budget: ExecutionBudget, usage: ResourceUsage, *, delta: ResourceUsage) -> dict[str, str]:
    """Give the dimensions in which usage is over its cap and delta has a share, with what to say about each."""
    amounts = _amounts(usage)
    shares = _amounts(delta)
    exceeded = {
        dimension: f"{dimension} {amounts[dimension]:.12g}, allowed {cap:.12g}"
        for dimension, cap in _caps(budget).items()
        if cap is not None and amounts[dimension] > cap and shares[dimension] > 0
    }
    if budget.max_cost_usd is not None and delta.unpriced_model_calls:
        exceeded["unknown_cost"] = f"unknown_cost {usage.unpriced_model_calls} calls without a price under a cost cap"
    return exceeded
