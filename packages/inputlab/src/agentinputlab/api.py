"""The toolkit as functions: look a release up, make it, run it on a state.

`agentinputlab-serve` offers the same over an authenticated loopback server (`agentinputlab.server`).

Examples:
    >>> from agentinputlab import FrozenAgentState
    >>> intervention = create_intervention("plan.plan_and_solve.ps_prompt")
    >>> result = run_intervention(intervention, FrozenAgentState(query="Return my order"))
    >>> result["record"]["status"], result["scored"]
    ('success', False)
"""

from __future__ import annotations

import dataclasses
import inspect
from typing import TYPE_CHECKING, Any

from agentinputlab.contracts.lifecycle import InterventionContext
from agentinputlab.contracts.serialization import to_jsonable
from agentinputlab.registry import AlgorithmRegistry

if TYPE_CHECKING:
    from agentinputlab.contracts.lifecycle import CompositeIntervention, Intervention
    from agentinputlab.contracts.state import FrozenAgentState

__all__ = [
    "catalog",
    "create_intervention",
    "describe_intervention",
    "main",
    "run_composite_intervention",
    "run_intervention",
]


def describe_intervention(release_id: str, *, registry: AlgorithmRegistry | None = None) -> dict[str, Any]:
    """Give a release's card and the parameters of its constructor, without making one.

    Returns:
        ``release_id``, ``method_id``, ``family``, ``runnable``, ``blocker`` and ``parameters``: a list of
        ``{name, annotation, required, default}``; defaults that are not JSON values are given as text.

    Raises:
        RegistryError: there is no such release.
    """
    registry = registry or AlgorithmRegistry.default()
    release = registry.get_release(release_id)
    return {
        "release_id": release.id,
        "method_id": release.method_id,
        "family": str(registry.get_method(release.method_id).semantic_family),
        "runnable": release.runnable,
        "blocker": release.blocker,
        "parameters": _parameters(registry.resolve_entrypoint(release_id)) if release.runnable else [],
    }


def _parameters(constructor: Any) -> list[dict[str, Any]]:
    made = _made_defaults(constructor)
    return [
        {
            "name": parameter.name,
            "annotation": str(parameter.annotation).removeprefix("<class '").removesuffix("'>"),
            "required": parameter.default is inspect.Parameter.empty,
            "default": None
            if parameter.default is inspect.Parameter.empty
            else _shown(made.get(parameter.name, parameter.default)),
        }
        for parameter in inspect.signature(constructor).parameters.values()
        if parameter.kind not in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    ]


def _made_defaults(constructor: Any) -> dict[str, Any]:
    """Give the defaults that a dataclass makes by a function; its signature shows a placeholder for them."""
    if not dataclasses.is_dataclass(constructor):
        return {}
    return {
        field.name: field.default_factory()
        for field in dataclasses.fields(constructor)
        if field.default_factory is not dataclasses.MISSING
    }


def _shown(default: object) -> Any:
    try:
        return to_jsonable(default)
    except TypeError:
        return repr(default)


def create_intervention(release_id: str, **parameters: Any) -> Any:
    """Make the intervention of a release: of a registered one, of ``own.text``, or of an installed package.

    Args:
        release_id: names the release; it cannot be given as a parameter.
        **parameters: of its constructor.

    Raises:
        RegistryError: there is no such release.
        AlgorithmUnavailableError: it cannot be run here.
        ValidationError: a parameter is unknown, missing or wrong.
    """
    from agentinputlab.algorithms.constructors import make_intervention

    return make_intervention(release_id, parameters)


def run_intervention(
    intervention: Intervention, state: FrozenAgentState, context: InterventionContext | None = None
) -> dict[str, Any]:
    """Run an intervention on a state and give the record and the state that an agent would now see.

    The result is not a benchmark score, and says so: ``scored`` is False and ``benchmark_score`` None.

    Raises:
        AgentInputLabError: whatever stopped it; nothing is swallowed.
    """
    from agentinputlab.runner import InterventionRunner

    record = InterventionRunner().run(intervention, state, context or InterventionContext())
    return {
        "record": record.as_dict(),
        "state": record.patch.apply(state).canonical_dict(),
        "scored": False,
        "benchmark_score": None,
    }


def run_composite_intervention(
    intervention: CompositeIntervention, state: FrozenAgentState, context: InterventionContext | None = None
) -> dict[str, Any]:
    """Run a composite intervention, which answers by itself, and give its record; nothing is scored.

    Raises:
        AgentInputLabError: whatever stopped it; nothing is swallowed.
    """
    from agentinputlab.runner import CompositeInterventionRunner

    record = CompositeInterventionRunner().run(intervention, state, context or InterventionContext())
    return {"record": record.as_dict(), "scored": False, "benchmark_score": None}


def catalog() -> dict[str, Any]:
    """Give every method with its releases, as the registry has them, and which can be run."""
    registry = AlgorithmRegistry.default()
    return {
        "registry_hash": registry.document_hash,
        "methods": [method.as_dict() for method in registry.list_methods()],
        "runnable": [release.id for release in registry.list_releases() if release.runnable],
    }


def main() -> None:
    """Run ``agentinputlab-serve``."""
    from agentinputlab.server.command import serve

    serve(prog_name="agentinputlab-serve")
