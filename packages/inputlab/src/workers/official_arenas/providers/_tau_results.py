"""What a played arm becomes: metrics, trace, usage and the private files beside them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agentinputlab.backends.tokens import TOKEN_COUNTER
from workers.official_arenas._first_capture import _create_only
from workers.official_arenas.protocol import ProviderArmResult, content_hash, merge_usage
from workers.official_arenas.providers._tau_agent import ArmPlay
from workers.official_arenas.providers._tau_records import token_usage

__all__ = ["scored_result", "terminal_zero_result"]

_UNSCORED_TERMINATIONS = frozenset(
    {
        "timeout",
        "max_steps",
        "too_many_errors",
        "agent_error",
        "user_error",
        "infrastructure_error",
        "context_window_exceeded",
        "unexpected_error",
    }
)
_NATIVE_SCORE = "native_official_evaluator"
_ZERO_SCORE = "predeclared_terminal_zero_not_fabricated_official_reward"
_UNPRICED = "local_unpriced_not_free"


def _environment_usage(play: ArmPlay) -> dict[str, Any]:
    """What user and judge used; outside the agent's budget."""
    counted = [token_usage(usage) for usage in play.environment_usage]
    known = [usage for usage in counted if usage is not None]
    return {
        "model_calls": len(counted),
        "input_tokens": sum(usage["input_tokens"] for usage in known),
        "output_tokens": sum(usage["output_tokens"] for usage in known),
        "token_usage_incomplete": len(known) < len(counted),
        "outside_agent_budget": True,
    }


def _usage(play: ArmPlay) -> dict[str, Any]:
    return merge_usage({**play.allowance.used, "unpriced_model_calls": play.allowance.used["model_calls"]})


def _result(
    trace: dict[str, Any],
    metrics: Mapping[str, float],
    play: ArmPlay,
    instance: str,
    work_dir: Path,
    durable: bool,
) -> ProviderArmResult:
    trace.update(
        {
            "hard_stops": int(metrics["adapter_hard_stops"]),
            "discarded_tool_calls": play.allowance.discarded_tool_calls,
            "agent_usage_incomplete": play.allowance.incomplete_usage,
            "environment_usage": _environment_usage(play),
            "token_counter": TOKEN_COUNTER,
            "pricing": _UNPRICED,
        }
    )
    if play.hook is not None:
        receipt = {"fingerprint": play.hook.fingerprint(), "generations": play.hook_receipts}
        _create_only(work_dir / "live-history.json", receipt, durable=durable)
        trace["live_history_sha256"] = content_hash(receipt)
        instance = content_hash({"instance": instance, "live_history_sha256": trace["live_history_sha256"]})
    return ProviderArmResult(metrics=dict(metrics), trace=trace, usage=_usage(play), runtime_instance_id=instance)


def scored_result(
    simulation: Mapping[str, Any], play: ArmPlay, instance: str, work_dir: Path, durable: bool
) -> ProviderArmResult:
    _create_only(work_dir / "simulation.json", simulation, durable=durable)
    termination = str(simulation["termination_reason"])
    reward = float((simulation.get("reward_info") or {}).get("reward", 0.0))
    stopped = play.allowance.hard_stops > 0 or termination in _UNSCORED_TERMINATIONS
    metrics = {
        "official_reward": reward,
        "terminal_success": 0.0 if stopped else reward,
        "cost": 0.0,
        "adapter_hard_stops": float(play.allowance.hard_stops),
    }
    trace = {
        "messages": list(simulation["messages"]),
        "termination": termination,
        "reward_info": simulation.get("reward_info"),
        "score_provenance": _NATIVE_SCORE,
    }
    return _result(trace, metrics, play, instance, work_dir, durable)


def terminal_zero_result(reason: str, play: ArmPlay, instance: str, work_dir: Path, durable: bool) -> ProviderArmResult:
    metrics = {"official_reward": 0.0, "terminal_success": 0.0, "cost": 0.0, "adapter_hard_stops": 1.0}
    trace: dict[str, Any] = {"messages": play.trajectory, "termination": reason, "score_provenance": _ZERO_SCORE}
    _create_only(
        work_dir / "terminal-zero.json",
        {
            "reason": reason,
            "score_provenance": _ZERO_SCORE,
            "metrics": metrics,
            "usage": _usage(play),
            "messages": play.trajectory,
        },
        durable=durable,
    )
    return _result(trace, metrics, play, instance, work_dir, durable)
