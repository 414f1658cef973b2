"""Stand-in of playing and scoring."""

from typing import Any

from tau2.evaluator.evaluator import EvaluationType, evaluate_simulation


def run_simulation(orchestrator: Any, *, evaluation_type: Any = EvaluationType.ALL) -> Any:
    simulation = orchestrator.run()
    simulation.reward_info = evaluate_simulation(
        simulation, orchestrator.task, orchestrator.environment, evaluation_type
    )
    return simulation
