"""Two interventions on the same states, with the same dependencies, scored by one function."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from agentinputlab.analysis.paired import PairedOutcome, PairedSummary, summarise_pairs
from agentinputlab.contracts.errors import ValidationError
from agentinputlab.contracts.lifecycle import Intervention, InterventionContext
from agentinputlab.contracts.serialization import content_hash
from agentinputlab.contracts.state import FrozenAgentState
from agentinputlab.observability import BudgetLedger, ResourceUsage, RunMonitor
from agentinputlab.runner import (
    BalanceAuditor,
    BalanceReport,
    InterventionRunner,
    InterventionStatus,
    context_dependency_fingerprints,
)

__all__ = ["ArmOutcome", "PairedStudy", "PairedStudyResult", "Score", "StudyPair"]

Score = Callable[[FrozenAgentState, FrozenAgentState], float]
"""From the original and the changed state to a finite number; the higher, the better."""
_INTERVENTION_SLOT = "intervention"


@dataclass(frozen=True, slots=True)
class ArmOutcome:
    """What one intervention came to on one state.

    Attributes:
        score: of the changed state; None when the intervention failed.
        status: what it came to; None when it failed.
        failure: type of the error that stopped it; None when all is well.
        usage: what it used, until it failed too.
    """

    score: float | None
    status: InterventionStatus | None
    failure: str | None
    usage: ResourceUsage


@dataclass(frozen=True, slots=True)
class StudyPair:
    """Both outcomes on one state, which its task id names."""

    unit_id: str
    baseline: ArmOutcome
    treatment: ArmOutcome


@dataclass(frozen=True, slots=True)
class PairedStudyResult:
    """What a study gave.

    Attributes:
        pairs: one per state, in their order; failures are among them.
        balance: what the arms have in common.
        summary: the paired difference, with failures in the denominator.
    """

    pairs: tuple[StudyPair, ...]
    balance: BalanceReport
    summary: PairedSummary

    @property
    def baseline_usage(self) -> ResourceUsage:
        """What the baseline used over all states."""
        return sum((pair.baseline.usage for pair in self.pairs), ResourceUsage())

    @property
    def treatment_usage(self) -> ResourceUsage:
        """What the treatment used over all states."""
        return sum((pair.treatment.usage for pair in self.pairs), ResourceUsage())


@dataclass(frozen=True, slots=True)
class PairedStudy:
    """A comparison that differs in the intervention, and in what is declared besides, and in nothing else.

    Attributes:
        baseline: the intervention to compare with, such as `agentinputlab.selectors.NoOpIntervention`.
        treatment: the intervention in question.
        score: judges a changed state.
        baseline_context: what the baseline may use.
        treatment_context: what the treatment may use; equal to that of the baseline but for ``may_differ``.
        may_differ: slots of the contexts that belong to the treatment, such as ``retriever``.

    Examples:
        >>> from agentinputlab.selectors import NoOpIntervention
        >>> study = PairedStudy(NoOpIntervention(), NoOpIntervention(), score=lambda before, after: len(after.query))
        >>> study.run([FrozenAgentState("capital france", task_id="q1")], seed=1).summary.ties
        1
    """

    baseline: Intervention
    treatment: Intervention
    score: Score
    baseline_context: InterventionContext = field(default_factory=InterventionContext)
    treatment_context: InterventionContext | None = None
    may_differ: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name, context in self._contexts().items():
            if context.budget_ledger is not None:
                raise ValidationError(f"{name}_context.budget_ledger must be None: every run of a study has its own")

    def run(
        self, states: Sequence[FrozenAgentState], *, seed: int = 0, monitor: RunMonitor | None = None
    ) -> PairedStudyResult:
        """Run both interventions once on every state. A failure is an outcome and stays in the denominator.

        Args:
            states: the units, each with a task id of its own.
            seed: of the bootstrap interval.
            monitor: watches all runs.

        Raises:
            ValidationError: there are no states, a task id is blank or there twice, a dependency has no fingerprint,
                or a score is not a finite number.
            BalanceError: the arms differ in something that is not declared; nothing was run.
        """
        units = [state.task_id for state in states]
        if not units or not all(unit.strip() for unit in units) or len(set(units)) != len(units):
            raise ValidationError("states must not be empty, and each needs a task_id of its own")
        contexts = self._contexts()
        auditor = BalanceAuditor(may_differ=(_INTERVENTION_SLOT, *self.may_differ))
        balance = auditor.require_balanced(
            {
                "baseline": _slots(self.baseline, contexts["baseline"]),
                "treatment": _slots(self.treatment, contexts["treatment"]),
            }
        )
        watcher = RunMonitor() if monitor is None else monitor
        pairs = tuple(
            StudyPair(
                state.task_id,
                self._outcome(self.baseline, state, contexts["baseline"], watcher),
                self._outcome(self.treatment, state, contexts["treatment"], watcher),
            )
            for state in states
        )
        outcomes = [PairedOutcome(pair.unit_id, pair.baseline.score, pair.treatment.score) for pair in pairs]
        return PairedStudyResult(pairs, balance, summarise_pairs(outcomes, seed=seed))

    def _contexts(self) -> dict[str, InterventionContext]:
        return {"baseline": self.baseline_context, "treatment": self.treatment_context or self.baseline_context}

    def _outcome(
        self, intervention: Intervention, state: FrozenAgentState, context: InterventionContext, monitor: RunMonitor
    ) -> ArmOutcome:
        account = BudgetLedger(state.budget)
        try:
            own = replace(context, budget_ledger=account)
            record = InterventionRunner(monitor=monitor).run(intervention, state, own)
        except Exception as error:  # noqa: BLE001 - whatever stopped it is its outcome, and it is counted
            run_id = account.owner_run_id  # None: it failed before its run began
            usage = ResourceUsage() if run_id is None else monitor.snapshot(run_id).usage
            return ArmOutcome(score=None, status=None, failure=type(error).__name__, usage=usage)
        score = cast("object", self.score(state, record.patch.apply(state)))
        if isinstance(score, bool) or not isinstance(score, int | float) or not math.isfinite(score):
            raise ValidationError(f"score of unit {state.task_id!r} must be a finite number, got {score!r:.80}")
        return ArmOutcome(score=float(score), status=record.status, failure=None, usage=record.usage)


def _slots(intervention: Intervention, context: InterventionContext) -> dict[str, str]:
    settings: dict[str, Any] = {
        "seed": context.seed,
        "run_config": context.run_config,
        "intent_contract": context.intent_contract,
        "strict_intent": context.strict_intent,
    }
    identity = getattr(intervention, "implementation_identity", intervention.release_id)
    return {
        _INTERVENTION_SLOT: identity,
        **{name: content_hash(value) for name, value in settings.items()},
        **context_dependency_fingerprints(context),
    }
