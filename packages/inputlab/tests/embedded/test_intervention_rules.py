"""The packaged replies: every intervention that asks a model can be tried in the arena without one."""

from __future__ import annotations

from typing import Any

import pytest

from agentinputlab.backends.llm import ScriptedBackend
from agentinputlab.backends.scripted import load_rules
from agentinputlab.contracts import FrozenAgentState, InterventionContext
from agentinputlab.registry import AlgorithmRegistry
from agentinputlab.runner import InterventionRunner
from workers.official_arenas.embedded.arena import INTERVENTION_RULES
from workers.official_arenas.providers.embedded_retail import EmbeddedRetailProvider, default_config

ASKS_A_MODEL = [
    "rewrite.query2doc.querygym_live",
    "rewrite.reformer.pattern_concat",
    "rewrite.infocqr.zero_shot",
    "plan.plan_and_solve.plan_call",
    "plan.decomp.full",
    "plan.decomp.common_support",
    "plan.plan_and_budget.live_soft_budget",
    "plan.llm_compiler.planner",
    "clarify.udcs.repo_native_prompt_route",
    "clarify.future_turns.simulated",
    "clarify.active_task_disambiguation.information_gain",
    "clarify.ask_or_assume.monitor",
    "curate.recomp.abstractive_prompted",
    "curate.acon.observation",
]
ASKS_THE_CUSTOMER = {
    "clarify.udcs.repo_native_prompt_route",
    "clarify.active_task_disambiguation.information_gain",
    "clarify.ask_or_assume.monitor",
}
CHANGES_NOTHING = {"rewrite.infocqr.zero_shot", "clarify.future_turns.simulated"}


def changed_state(release: str, task_id: str) -> FrozenAgentState:
    """What a release makes of a task's visible state with the packaged replies."""
    record, _ = EmbeddedRetailProvider()._first_turn(default_config("train"), task_id)
    state = FrozenAgentState.from_dict(record["visible_state"])
    intervention: Any = AlgorithmRegistry.default().resolve_entrypoint(release)()
    context = InterventionContext(backend=ScriptedBackend(load_rules(INTERVENTION_RULES)))
    result = InterventionRunner().run(intervention, state, context)
    output = result.patch.apply(state)
    assert output.state_hash == result.output_state_hash
    return output


@pytest.mark.parametrize("release", ASKS_A_MODEL)
def test_every_release_that_asks_a_model_gets_a_usable_answer(release: str) -> None:
    record, _ = EmbeddedRetailProvider()._first_turn(default_config("train"), "14")
    before = FrozenAgentState.from_dict(record["visible_state"])
    after = changed_state(release, "14")
    assert (after.state_hash == before.state_hash) == (release in CHANGES_NOTHING)
    assert ("clarification_request" in after.metadata) == (release in ASKS_THE_CUSTOMER)


@pytest.mark.parametrize("release", sorted(ASKS_THE_CUSTOMER))
def test_a_clear_request_is_not_asked_about(release: str) -> None:
    assert "clarification_request" not in changed_state(release, "0").metadata
