"""Stand-in scorer: the order must be cancelled, and the judge content."""

from enum import StrEnum
from typing import Any

from tau2.data_model.simulation import SimulationRun
from tau2.evaluator import evaluator_nl_assertions


class EvaluationType(StrEnum):
    ALL = "all"
    ALL_WITH_NL_ASSERTIONS = "all_with_nl_assertions"


def evaluate_simulation(simulation: SimulationRun, task: Any, environment: Any, evaluation_type: Any) -> dict[str, Any]:
    if simulation.termination_reason not in {"user_stop", "agent_stop"}:
        return {"reward": 0.0}
    database = float(environment.db.orders["#W0000001"]["status"] == "cancelled")
    judged = evaluator_nl_assertions.evaluate(simulation.messages, task.evaluation_criteria.nl_assertions or [])
    return {"reward": database * judged, "reward_breakdown": {"DB": database, "NL_ASSERTION": judged}}
