"""What a first turn of tau2 becomes: a visible checkpoint, and the protected history that an arm restores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from workers.official_arenas.protocol import (
    canonical_json,
    content_hash,
    shared_budget,
    visible_shared_budget,
)
from workers.official_arenas.providers._tau_config import BENCHMARK_ID, SEED

__all__ = ["capture_record", "token_usage"]

_ELIGIBLE_FAMILIES = ("reformulate", "decompose", "clarify", "curate")


def token_usage(usage: object) -> dict[str, Any] | None:
    if not isinstance(usage, Mapping):
        return None
    given = {"input_tokens": usage.get("prompt_tokens"), "output_tokens": usage.get("completion_tokens")}
    return given if all(type(value) is int and value >= 0 for value in given.values()) else None


def capture_record(
    config: Mapping[str, Any],
    task_id: str,
    query: str,
    history: Sequence[Mapping[str, Any]],
    *,
    policy: str,
    tools: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    budget = shared_budget(config)
    catalog = canonical_json(list(tools))
    return {
        "checkpoint_id": task_id,
        "group_key": task_id,
        "visible_state": {
            "query": query,
            "task_id": task_id,
            "instruction": policy,
            "context": [
                _block("official_policy", policy, "tau3.retail.public_policy", {}),
                _block(
                    "official_tool_catalog",
                    catalog,
                    "tau3.retail.tool_schemas",
                    {"tool_defs_hash": content_hash(list(tools))},
                ),
            ],
            "messages": [{"role": "user", "content": query, "name": None}],
            "tool_names": [str(tool["function"]["name"]) for tool in tools],
            "metadata": {
                "benchmark_id": BENCHMARK_ID,
                "checkpoint_phase": "after_initial_user_message",
                "clarification_roundtrip_available": True,
                "state_restore_available": True,
                "capture_attempt": 1,
                "capture_seed": SEED,
                "acquire_structural_na": "no_native_KB_or_approved_public_retriever",
            },
            "budget": None if budget is None else visible_shared_budget(budget),
        },
        "eligible_families": list(_ELIGIBLE_FAMILIES),
        "protected": {
            "task_id": task_id,
            "initial_message_history": [{**message, "timestamp": None, "turn_idx": None} for message in history],
            "capture_attempt": 1,
            "capture_seed": SEED,
            "locked_dependency_hashes": dict(config["locked_dependency_hashes"]),
        },
    }


def _block(block_id: str, text: str, source: str, metadata: Mapping[str, Any]) -> dict[str, Any]:
    return {"text": text, "block_id": block_id, "source": source, "score": None, "metadata": dict(metadata)}
