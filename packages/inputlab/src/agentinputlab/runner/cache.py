"""The identity of a run: equal keys mean that nothing that decides the result differs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from agentinputlab.contracts.errors import ValidationError
from agentinputlab.contracts.lifecycle import CompositeIntervention, Intervention, InterventionContext
from agentinputlab.contracts.serialization import content_hash, to_jsonable
from agentinputlab.contracts.state import FrozenAgentState
from agentinputlab.runner._hidden import declared_fields

__all__ = ["RUN_CACHE_SCHEMA", "context_dependency_fingerprints", "intervention_parameters", "run_cache_key"]

RUN_CACHE_SCHEMA: Final = "agentinputlab-run-cache-v2"
"""Version of what a cache key covers."""
_SLOTS = ("backend", "dense_embedder", "retriever", "vector_searcher", "external_runtime", "artifact_manager")


def run_cache_key(
    intervention: Intervention | CompositeIntervention, state: FrozenAgentState, context: InterventionContext
) -> str:
    """Give the content hash of everything that decides what a run gives.

    It covers the intervention with its parameters, the state with its budget, seed, configuration and intent contract
    of the context, and the fingerprint of every dependency.

    Raises:
        ValidationError: a parameter is no JSON value, or a dependency has no fingerprint; it is named.
    """
    return content_hash(
        {
            "schema": RUN_CACHE_SCHEMA,
            "method_id": intervention.method_id,
            "release_id": intervention.release_id,
            "implementation_identity": getattr(intervention, "implementation_identity", None),
            "profile_kind": getattr(intervention, "profile_kind", None),
            "parameters": intervention_parameters(intervention),
            "state_hash": state.state_hash,
            "seed": context.seed,
            "run_config": context.run_config,
            "intent_contract": context.intent_contract,
            "strict_intent": context.strict_intent,
            "dependencies": context_dependency_fingerprints(context),
        }
    )


def context_dependency_fingerprints(context: InterventionContext) -> dict[str, str]:
    """Give the identity of everything executable in a context: slot, or ``tools.<name>``, to SHA-256.

    Raises:
        ValidationError: a dependency has no usable ``fingerprint()``; its slot is named.
    """
    holders = {slot: getattr(context, slot) for slot in _SLOTS if getattr(context, slot) is not None}
    runtime = holders.get("external_runtime")
    if isinstance(runtime, Mapping):
        del holders["external_runtime"]
        workers = cast("Mapping[str, Any]", runtime)
        holders |= {f"external_runtime.{name}": worker for name, worker in workers.items()}
    holders |= {f"tools.{name}": tool for name, tool in context.tools.items()}
    return {slot: _fingerprint(slot, holder) for slot, holder in sorted(holders.items())}


def _fingerprint(slot: str, holder: Any) -> str:
    make = getattr(holder, "fingerprint", None)
    if not callable(make):
        raise ValidationError(f"InterventionContext.{slot} must have fingerprint() to be part of a cache key")
    identity = make()
    if not isinstance(identity, str | Mapping) or not identity:
        raise ValidationError(
            f"fingerprint() of InterventionContext.{slot} must give text or a mapping, got {type(identity).__name__}"
        )
    try:
        return content_hash(identity)
    except (TypeError, ValueError) as error:
        raise ValidationError(f"fingerprint() of InterventionContext.{slot} must be JSON: {error}") from error


def intervention_parameters(intervention: object) -> dict[str, Any]:
    """Give what an intervention was made with as JSON: its ``parameters``, or else every field that it declares.

    Raises:
        ValidationError: a value is no JSON; it is named.
    """
    parameters = getattr(intervention, "parameters", None)
    if isinstance(parameters, Mapping):
        named = iter(cast("Mapping[str, Any]", parameters).items())
    else:
        named = declared_fields(intervention)
    values: dict[str, Any] = {}
    for name, value in named:
        try:
            values[name] = to_jsonable(value)
        except (TypeError, ValueError) as error:
            raise ValidationError(f"field {name} of {type(intervention).__name__} is no JSON value: {error}") from error
    return values
