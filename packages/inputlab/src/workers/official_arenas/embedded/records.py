"""What a first turn becomes: a visible checkpoint, and the protected history that an arm restores."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from workers.official_arenas.embedded.arena import Arena
from workers.official_arenas.embedded.config import BENCHMARK_ID, SEED
from workers.official_arenas.embedded.tools import TOOL_NAMES, tool_schemas, tool_schemas_json
from workers.official_arenas.protocol import content_hash, shared_budget, visible_shared_budget

__all__ = ["capture_record"]

_ELIGIBLE_FAMILIES = ("reformulate", "decompose", "clarify", "curate")


def capture_record(
    config: Mapping[str, Any], arena: Arena, task_id: str, query: str, history: list[dict[str, Any]]
) -> dict[str, Any]:
    """Give the five-field record: what interventions may see, and what only a worker may read."""
    budget = shared_budget(config)
    return {
        "checkpoint_id": task_id,
        "group_key": task_id,
        "visible_state": {
            "query": query,
            "task_id": task_id,
            "instruction": arena.policy,
            "context": [
                _block("official_policy", arena.policy, "public_policy", {}),
                _block("official_tool_catalog", tool_schemas_json(), "tool_schemas", {"tool_defs_hash": _tools_hash()}),
            ],
            "messages": [{"role": "user", "content": query, "name": None}],
            "tool_names": list(TOOL_NAMES),
            "metadata": {
                "benchmark_id": BENCHMARK_ID,
                "arena": arena.label,
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
            "initial_message_history": history,
            "capture_attempt": 1,
            "capture_seed": SEED,
            "locked_dependency_hashes": dict(config["locked_dependency_hashes"]),
        },
    }


def _block(block_id: str, text: str, source: str, metadata: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "text": text,
        "block_id": block_id,
        "source": f"{BENCHMARK_ID}.{source}",
        "score": None,
        "metadata": dict(metadata),
    }


@lru_cache(maxsize=1)
def _tools_hash() -> str:
    return content_hash(list(tool_schemas()))
