"""What both runners share: one run, on its own account, watched from its first step to its last."""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Any, cast

from agentinputlab.contracts.errors import AlgorithmOutputError, ValidationError
from agentinputlab.contracts.intent import IntentCheck, check_intent_contract
from agentinputlab.contracts.lifecycle import InterventionContext
from agentinputlab.contracts.patch import InputPatch
from agentinputlab.contracts.state import FrozenAgentState
from agentinputlab.observability import (
    BudgetLedger,
    CallMeter,
    EventKind,
    ResourceUsage,
    RunMonitor,
    is_metered,
)
from agentinputlab.observability.instrumentation import meter_of, put_behind
from agentinputlab.runner._hidden import refuse_hidden_dependencies

__all__ = ["Session", "open_session", "require_ids"]

_WHOLE = ("model_calls", "retrieval_calls", "tool_calls", "embedding_calls", "unpriced_model_calls")
_WHOLE_AND_TOKENS = (*_WHOLE, "input_tokens", "output_tokens")


@dataclass(frozen=True, slots=True)
class Session:
    """One open run.

    Attributes:
        state: what it runs on.
        context: what the intervention gets; every call is metered.
        meter: where its usage goes.
    """

    state: FrozenAgentState
    context: InterventionContext
    meter: CallMeter

    def reconcile(self, counters: Mapping[str, Any]) -> None:
        """Charge, once, what an intervention counted and the ledger did not see.

        Raises:
            AlgorithmOutputError: a counter is not the number that its name says.
            BudgetExceededError: more than is allowed; it is recorded.
        """
        if not counters:
            return
        seen = self.meter.ledger.usage
        unseen: dict[str, Any] = {}
        for field in fields(ResourceUsage):
            counted = counters.get(field.name, 0)
            is_number = isinstance(counted, int | float) and not isinstance(counted, bool) and math.isfinite(counted)
            if not is_number or counted < 0 or (field.name in _WHOLE_AND_TOKENS and not isinstance(counted, int)):
                raise AlgorithmOutputError(f"trace counter {field.name} is not an amount: {counted!r:.80}")
            unseen[field.name] = max(0, counted - getattr(seen, field.name))
        if "cost_usd" not in counters:
            unseen["unpriced_model_calls"] = max(unseen["unpriced_model_calls"], unseen["model_calls"])
        usage = ResourceUsage(**unseen)
        if usage != ResourceUsage():
            self.meter.charge(usage, source="trace")

    def check_intent(self, patch: InputPatch, output: FrozenAgentState) -> IntentCheck | None:
        """Give the check of the intent contract, or None without a contract, and tell the monitor."""
        contract = self.context.intent_contract
        if contract is None:
            return None
        check = check_intent_contract(contract, self.state, patch, output)
        self.meter.monitor.emit(
            self.meter.run_id,
            EventKind.INTENT_CHECKED,
            {
                "preserved": check.preserved,
                "missing_entities": len(check.missing_entities),
                "missing_constraints": len(check.missing_constraints),
                "introduced_assumptions": len(check.introduced_assumptions),
                "strict": self.context.strict_intent,
            },
        )
        return check

    def require_within_budget(self) -> None:
        """Charge the machine time where it has a price, then check the account.

        Raises:
            BudgetExceededError: something was refused or overdrawn during the run, even if nobody raised it.
        """
        compute = self.meter.pricing.compute
        if compute is not None:
            cost = compute.cost_usd(cpu_seconds=self.meter.monitor.cpu_seconds(self.meter.run_id))
            self.meter.charge(ResourceUsage(compute_cost_usd=cost), source="process")
        self.meter.ledger.require_within_budget()


@contextmanager
def open_session(
    intervention: Any, state: FrozenAgentState, context: InterventionContext, *, monitor: RunMonitor | None, calls: str
) -> Generator[Session]:
    """Open a run: check the intervention, claim a ledger for the state's budget, put every call behind a meter.

    A run inside another run has a ledger of its own within that of the outer run, which hears of every charge too.

    Args:
        intervention: what will be run.
        state: what it runs on.
        context: what it may use.
        monitor: watches the run; by default that of the context, else a new one.
        calls: the method of the intervention that the run will call.

    Raises:
        ValidationError: an argument is of the wrong type, something executable is hidden in the intervention, or the
            context's ledger has another budget, is used, or belongs to a run that is over.
    """
    if not isinstance(cast("object", state), FrozenAgentState):
        raise ValidationError(f"state must be a FrozenAgentState, got {type(state).__name__}")
    if not isinstance(cast("object", context), InterventionContext):
        raise ValidationError(f"context must be an InterventionContext, got {type(context).__name__}")
    if isinstance(intervention, type):
        raise ValidationError(f"intervention must be an object, got the class {intervention.__name__}")
    if not callable(getattr(intervention, calls, None)):
        name = getattr(intervention, "release_id", f"a {type(intervention).__name__}")
        raise ValidationError(f"{name} cannot be run here: it has no {calls}(state, context)")
    refuse_hidden_dependencies(intervention)
    given = context.budget_ledger
    if given is not None and not isinstance(given, BudgetLedger):
        raise ValidationError(f"InterventionContext.budget_ledger must be a BudgetLedger, got {type(given).__name__}")
    outer = given if given is not None and given.is_active and is_metered(context) else None
    if given is None or outer is not None:
        ledger = BudgetLedger(state.budget, parent=outer)
    elif given.budget == state.budget:
        ledger = given
    else:
        raise ValidationError("InterventionContext.budget_ledger has another budget than the state")
    # An inner run is watched by whoever watches the outer one, so that both see what it uses.
    watcher = (monitor or context.monitor) if outer is None else context.monitor
    watcher = RunMonitor() if watcher is None else watcher
    if not isinstance(watcher, RunMonitor):
        raise ValidationError(f"InterventionContext.monitor must be a RunMonitor, got {type(watcher).__name__}")
    tags = {} if outer is None else {"parent_run_id": outer.owner_run_id}
    with watcher.run_scope(intervention.release_id, state.state_hash, tags) as run_id:
        ledger.claim_for_run(run_id)
        try:
            meter = meter_of(context, ledger=ledger, monitor=watcher, run_id=run_id)
            yield Session(state, put_behind(meter, context), meter)
        finally:
            ledger.release_from_run()


def require_ids(intervention: Any, output: Any, kind: type) -> None:
    """Check that what an intervention gave is of the right type and its own.

    Raises:
        AlgorithmOutputError: it is not.
    """
    if not isinstance(output, kind):
        raise AlgorithmOutputError(
            f"{intervention.release_id} must give one {kind.__name__}, got {type(output).__name__}"
        )
    given: Any = output
    for name in ("method_id", "release_id"):
        if getattr(given, name) != getattr(intervention, name):
            raise AlgorithmOutputError(
                f"{name} of the {kind.__name__} is {getattr(given, name)!r}, "
                f"that of the intervention {getattr(intervention, name)!r}"
            )
