"""The runners: an intervention goes in, and a record of what it did comes out, or its error."""

from __future__ import annotations

from agentinputlab.contracts.enums import PatchOp
from agentinputlab.contracts.errors import IntentViolationError, StateConflictError
from agentinputlab.contracts.intent import IntentCheck
from agentinputlab.contracts.lifecycle import (
    CompositeIntervention,
    CompositeResult,
    Intervention,
    InterventionContext,
)
from agentinputlab.contracts.patch import InputPatch
from agentinputlab.contracts.state import FrozenAgentState
from agentinputlab.observability import RunMonitor
from agentinputlab.runner._session import open_session, require_ids
from agentinputlab.runner.records import CompositeRunRecord, InterventionStatus, RunRecord

__all__ = ["CompositeInterventionRunner", "InterventionRunner"]


class InterventionRunner:
    """Runs interventions, each within the budget of its state.

    Args:
        monitor: watches all runs; by default that of the context, else a new one for each run.
    """

    def __init__(self, *, monitor: RunMonitor | None = None) -> None:
        self._monitor = monitor

    def run(self, intervention: Intervention, state: FrozenAgentState, context: InterventionContext) -> RunRecord:
        """Give the record of one run.

        Args:
            intervention: what to run.
            state: what it sees, with its budget.
            context: what it may use.

        Raises:
            ValidationError: an argument is wrong, or a field of the intervention hides something executable.
            AlgorithmOutputError: the intervention gave something else than a patch of its own.
            StateConflictError: the patch is for another state.
            BudgetExceededError: the run wanted or used more than the budget, even if the intervention hid that.
            IntentViolationError: the intent contract is broken, and the context is strict about it.
            Exception: whatever else the intervention raised, unchanged.
        """
        return self.run_applied(intervention, state, context)[0]

    def run_applied(
        self, intervention: Intervention, state: FrozenAgentState, context: InterventionContext
    ) -> tuple[RunRecord, FrozenAgentState]:
        """Give the record of one run, and the state that its patch makes of the given one.

        Raises:
            Exception: as `run`.
        """
        with open_session(intervention, state, context, monitor=self._monitor, calls="propose") as session:
            monitor, run_id = session.meter.monitor, session.meter.run_id
            with monitor.stage(run_id, "propose"):
                patch = intervention.propose(state, session.context)
            require_ids(intervention, patch, InputPatch)
            session.reconcile(patch.trace.counters)
            with monitor.stage(run_id, "apply"):
                output = patch.apply(state)
            check = session.check_intent(patch, output)
            if check is not None and context.strict_intent and not check.preserved:
                raise IntentViolationError(_broken(intervention.release_id, check))
            session.require_within_budget()
        snapshot = monitor.snapshot(run_id)
        record = RunRecord(
            release_id=patch.release_id,
            input_state_hash=patch.source_state_hash,  # `apply` has compared it with the state's own
            output_state_hash=output.state_hash,
            patch=patch,
            status=InterventionStatus.declared(patch.metadata) or _status(patch),
            monitor_run_id=run_id,
            duration_ms=snapshot.duration_ms,
            usage=snapshot.usage,
            intent_check=check,
            token_counters=snapshot.token_counters,
        )
        return record, output


class CompositeInterventionRunner:
    """Runs composite interventions, which give an answer instead of a patch.

    Args:
        monitor: watches all runs; by default that of the context, else a new one for each run.
    """

    def __init__(self, *, monitor: RunMonitor | None = None) -> None:
        self._monitor = monitor

    def run(
        self, intervention: CompositeIntervention, state: FrozenAgentState, context: InterventionContext
    ) -> CompositeRunRecord:
        """Give the record of one run; an intent contract is about patches and is not looked at.

        Raises:
            ValidationError: an argument is wrong, or a field of the intervention hides something executable.
            AlgorithmOutputError: the intervention gave something else than a result of its own.
            StateConflictError: the result is for another state.
            BudgetExceededError: the run wanted or used more than the budget.
            Exception: whatever else the intervention raised, unchanged.
        """
        with open_session(intervention, state, context, monitor=self._monitor, calls="run") as session:
            monitor, run_id = session.meter.monitor, session.meter.run_id
            with monitor.stage(run_id, "run"):
                result = intervention.run(state, session.context)
            require_ids(intervention, result, CompositeResult)
            if result.source_state_hash != state.state_hash:
                raise StateConflictError(
                    f"the result is for state {result.source_state_hash}, the run was on {state.state_hash}"
                )
            session.reconcile(result.trace.counters)
            session.require_within_budget()
        snapshot = monitor.snapshot(run_id)
        return CompositeRunRecord(
            release_id=result.release_id,
            input_state_hash=state.state_hash,
            result=result,
            status=InterventionStatus.declared(result.metadata) or InterventionStatus.SUCCESS,
            monitor_run_id=run_id,
            duration_ms=snapshot.duration_ms,
            usage=snapshot.usage,
            token_counters=snapshot.token_counters,
        )


def _status(patch: InputPatch) -> InterventionStatus:
    changes = any(operation.op is not PatchOp.NO_OP for operation in patch.operations)
    return InterventionStatus.SUCCESS if changes else InterventionStatus.NO_OP


def _broken(release_id: str, check: IntentCheck) -> str:
    """Say how much is broken; the phrases are the user's and stay in the check."""
    parts = [
        f"{len(phrases)} {name}"
        for name, phrases in (
            ("required entities missing", check.missing_entities),
            ("required constraints missing", check.missing_constraints),
            ("forbidden assumptions introduced", check.introduced_assumptions),
        )
        if phrases
    ]
    return f"{release_id} broke the intent contract: {', '.join(parts)}"
