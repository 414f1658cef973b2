"""Whether a request asks for what the plan says: this treatment, of this captured state, as its patch makes it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agentinputlab.contracts import FrozenAgentState, InputPatch
from agentinputlab.contracts.errors import AgentInputLabError
from workers.official_arenas import retail_driver
from workers.official_arenas.campaign.folder import read_json
from workers.official_arenas.campaign.plan import CampaignPlan, Treatment
from workers.official_arenas.protocol import intervention_usage

__all__ = ["request_problem"]

_IDENTITY = ("benchmark_id", "checkpoint_id", "source_revision", "origin_state_hash", "replay_identity")
_SPENT = (
    "model_calls",
    "retrieval_calls",
    "embedding_calls",
    "tool_calls",
    "input_tokens",
    "output_tokens",
    "unpriced_model_calls",
)
"""What an arm's budget is reduced by; doing nothing takes time and nothing else."""


def request_problem(
    plan: CampaignPlan, row: Mapping[str, str], checkpoint: Mapping[str, Any] | None, *, root: Path
) -> str:
    """Give what is wrong with the request of an indexed pair; empty when all holds.

    Args:
        plan: of the campaign.
        row: of the index: ``slot``, ``treatment``, ``task``, ``cell_id``.
        checkpoint: the captured row of the task, or None when the snapshot has none.
        root: of the campaign.
    """
    envelope = read_json(root / "requests" / row["slot"] / row["treatment"] / f"{row['task']}.json")
    treatment = next((item for item in plan.treatments if item.name == row["treatment"]), None)
    if checkpoint is None or treatment is None:
        return "it is of a task that was not captured, or of a treatment that is not in the plan"
    if retail_driver.cell_id(envelope) != row["cell_id"]:
        return "its request is that of another pair"
    kept = root / "pairs" / row["slot"] / row["cell_id"] / "request.json"
    if kept.exists() and read_json(kept) != envelope:
        return "it was played from another request"
    request = envelope["atomic_request"]
    if any(request[name] != checkpoint[name] for name in _IDENTITY):
        return "it is of another origin than was captured"
    for arm in request["arms"]:
        problem = _arm_problem(arm, treatment, row["slot"], checkpoint)
        if problem:
            return f"{arm['role']}: {problem}"
    return ""


def _arm_problem(arm: Mapping[str, Any], treatment: Treatment, slot: str, checkpoint: Mapping[str, Any]) -> str:
    payload, execution = arm["payload"], arm["payload"]["intervention_execution"]
    is_baseline = arm["role"] == "baseline"
    if payload["arm_id"] != ("baseline.unchanged" if is_baseline else f"treatment.{treatment.name}"):
        return "it is of another arm than the plan says"
    if is_baseline and any(intervention_usage(payload)[name] for name in _SPENT):
        return "it says that leaving the input alone asked a model or a tool"
    members = {"members": [member.model_dump(mode="json") for member in treatment.members]}
    if payload["arm_parameters"] != ({} if is_baseline else members):
        return "it was changed by something else than the plan says"
    if payload["model_slot"] != slot or payload["visible_state_hash"] != checkpoint["visible_state_hash"]:
        return "it starts from another state or model than was captured"
    return _patch_problem(execution, checkpoint, is_baseline=is_baseline)


def _patch_problem(execution: Mapping[str, Any], checkpoint: Mapping[str, Any], *, is_baseline: bool) -> str:
    """Apply the patch to the captured state again."""
    try:
        before = FrozenAgentState.from_dict(checkpoint["visible_state"])
        patch = None if execution["patch"] is None else InputPatch.from_dict(execution["patch"])
        after = before if patch is None else patch.apply(before)
    except AgentInputLabError:
        return "its patch does not fit the captured state"
    if patch is not None and patch.patch_hash != execution["patch_hash"]:
        return "its patch has another hash"
    if is_baseline and after.state_hash != before.state_hash:
        return "it was changed"
    if after.state_hash != execution["output_state_hash"]:
        return "what was played is not what its patch makes of the captured state"
    return ""
