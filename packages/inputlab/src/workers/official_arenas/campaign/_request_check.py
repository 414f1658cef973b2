"""Whether a request asks for what the plan says: this treatment, of this captured state, as its patch makes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from agentinputlab.contracts import FrozenAgentState, InputPatch
from agentinputlab.contracts.errors import AgentInputLabError
from workers.official_arenas._evidence import read_regular
from workers.official_arenas._pair_ledger import REQUEST
from workers.official_arenas._written import RequestReading
from workers.official_arenas.campaign.folder import read_json
from workers.official_arenas.campaign.plan import CampaignPlan
from workers.official_arenas.protocol import intervention_usage

__all__ = ["planned_parameters", "request_problem"]

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


def planned_parameters(plan: CampaignPlan) -> dict[str, Any]:
    """Give what the changed arm of every treatment must say of what changed it, by the treatment's name."""
    return {
        treatment.name: {"members": [member.model_dump(mode="json") for member in treatment.members]}
        for treatment in plan.treatments
    }


def request_problem(
    planned: Mapping[str, Any],
    row: Mapping[str, str],
    checkpoint: Mapping[str, Any] | None,
    request: RequestReading,
    *,
    root: Path,
) -> str:
    """Give what is wrong with the request of an indexed pair; empty when all holds.

    Args:
        planned: see `planned_parameters`.
        row: of the index: ``slot``, ``treatment``, ``task``, ``cell_id``.
        checkpoint: the captured row of the task, or None when the snapshot has none.
        request: as it lies among the requests of the campaign.
        root: of the campaign.
    """
    if checkpoint is None or row["treatment"] not in planned:
        return "it is of a task that was not captured, or of a treatment that is not in the plan"
    if request.cell_id != row["cell_id"]:
        return "its request is that of another pair"
    kept = Path(root, "pairs", row["slot"], row["cell_id"], REQUEST)
    if kept.exists() and not _is_copy(kept, request):
        return "it was played from another request"
    atomic = request.envelope["atomic_request"]
    if any(atomic[name] != checkpoint[name] for name in _IDENTITY):
        return "it is of another origin than was captured"
    captured = cache(lambda: FrozenAgentState.from_dict(checkpoint["visible_state"]))
    for arm in atomic["arms"]:
        problem = _arm_problem(arm, row, planned[row["treatment"]], checkpoint, captured)
        if problem:
            return f"{arm['role']}: {problem}"
    return ""


def _is_copy(kept: Path, request: RequestReading) -> bool:
    """Tell whether a file says what the request says; equal bytes say the same."""
    return read_regular(kept) == request.data or read_json(kept) == request.envelope


def _arm_problem(
    arm: Mapping[str, Any],
    row: Mapping[str, str],
    parameters: Mapping[str, Any],
    checkpoint: Mapping[str, Any],
    captured: Callable[[], FrozenAgentState],
) -> str:
    payload, execution = arm["payload"], arm["payload"]["intervention_execution"]
    is_baseline = arm["role"] == "baseline"
    if payload["arm_id"] != ("baseline.unchanged" if is_baseline else f"treatment.{row['treatment']}"):
        return "it is of another arm than the plan says"
    if is_baseline and any(map(intervention_usage(payload).__getitem__, _SPENT)):
        return "it says that leaving the input alone asked a model or a tool"
    if payload["arm_parameters"] != ({} if is_baseline else parameters):
        return "it was changed by something else than the plan says"
    if payload["model_slot"] != row["slot"] or payload["visible_state_hash"] != checkpoint["visible_state_hash"]:
        return "it starts from another state or model than was captured"
    return _patch_problem(execution, captured, is_baseline=is_baseline)


def _patch_problem(execution: Mapping[str, Any], captured: Callable[[], FrozenAgentState], *, is_baseline: bool) -> str:
    """Apply the patch to the captured state again."""
    try:
        before = captured()
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
