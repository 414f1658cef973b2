"""What a campaign needs and what it can cost at most, found out before anything is spent."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentinputlab.analysis.cost import CallBound, CostBound, bound_cost
from agentinputlab.contracts.enums import SemanticFamily
from agentinputlab.contracts.errors import AgentInputLabError, ValidationError
from agentinputlab.contracts.lifecycle import is_intervention
from ripieno.errors import IntegrityError, RipienoError
from ripieno.files import sha256_file
from workers.official_arenas._budgets import standard_shared_budget
from workers.official_arenas._console import quiet_console
from workers.official_arenas.campaign.endpoints import address_problem, silent_endpoints
from workers.official_arenas.campaign.plan import CampaignPlan, ModelSlot, Treatment
from workers.official_arenas.providers import resolve_named

__all__ = [
    "Preflight",
    "build_intervention",
    "pin_rules",
    "preflight",
    "resolve_arena",
    "rules_file",
    "silent_endpoints",
    "slot_config",
    "slot_spends",
]

_ARMS = 2


@dataclass(frozen=True, slots=True)
class Preflight:
    """What was found out.

    Attributes:
        tasks: ids of the expected tasks, in order.
        pairs: number of pairs that will be started at most.
        cost: upper bounds of what will be spent.
        spends: whether any model outside this process will be asked.
        blockers: what stops the campaign; empty when it can start.
    """

    tasks: tuple[str, ...]
    pairs: int
    cost: CostBound
    spends: bool
    blockers: tuple[str, ...]

    @property
    def is_ready(self) -> bool:
        """Whether nothing stops it."""
        return not self.blockers

    def as_dict(self) -> dict[str, Any]:
        """Give it as JSON values."""
        return {
            "ready": self.is_ready,
            "blockers": list(self.blockers),
            "tasks": list(self.tasks),
            "pairs": self.pairs,
            "spends": self.spends,
            "cost_at_most": self.cost.as_dict(),
        }


def preflight(plan: CampaignPlan) -> Preflight:
    """Check everything that can be checked without a model call, and bound the cost.

    Raises:
        ValidationError: the arena is not installed.
        OfficialArenaError: a slot's configuration is refused by the arena.
    """
    provider = resolve_arena(plan.arena)
    blockers: list[str] = []
    bounds: list[CallBound] = []
    tasks: tuple[str, ...] = ()
    for treatment in plan.treatments:
        blockers += _problems_of(treatment)
    for slot in plan.slots:
        config = slot_config(plan, slot)
        with quiet_console():  # an arena may load libraries that greet
            problems = (*_problems_of_model(plan, slot), *provider.doctor(config))
        blockers += [f"slot {slot.name}: {problem}" for problem in problems]
        tasks = tuple(provider.task_ids(config))
        bounds += _bounds(plan, slot, provider.environment_calls_bound(config), len(tasks))
    return Preflight(
        tasks=tasks,
        pairs=len(tasks) * len(plan.treatments) * len(plan.slots),
        cost=bound_cost(bounds),
        spends=any(slot_spends(slot) for slot in plan.slots),
        blockers=tuple(dict.fromkeys(blockers)),
    )


def resolve_arena(name: str) -> Any:
    """Give a provider of an installed arena by its name.

    Raises:
        OfficialArenaError: no such arena is installed, or it has another name than its entry point.
    """
    return resolve_named(name)


def slot_config(plan: CampaignPlan, slot: ModelSlot) -> dict[str, Any]:
    """Give the arena's configuration of one slot.

    Raises:
        ValidationError: the plan wants more tasks than the split has.
        OfficialArenaError: the arena refuses it.
    """
    provider = resolve_arena(plan.arena)
    size = provider.split_sizes.get(plan.split)
    if plan.tasks is not None and size and plan.tasks > size:
        raise ValidationError(
            f"tasks must be at most {size}, the size of split {plan.split} of {plan.arena}, got {plan.tasks}"
        )
    return provider.campaign_config(
        split=plan.split,
        limit=plan.tasks,
        agent=slot.agent.model_dump(mode="json"),
        budget=standard_shared_budget(plan.budget_multiplier),
    )


def slot_spends(slot: ModelSlot) -> bool:
    """Tell whether a slot asks a model outside this process."""
    return slot.agent.backend != "scripted" or slot.intervention_model.kind == "agent"


def build_intervention(treatment: Treatment) -> Any:
    """Give a fresh intervention of a treatment; several members become one composition.

    Raises:
        AgentInputLabError: a release is unknown, not implemented or no intervention, or a parameter is wrong.
    """
    from agentinputlab.algorithms.composition import ComposedIntervention
    from agentinputlab.algorithms.constructors import make_intervention

    members = [make_intervention(member.release, dict(member.parameters)) for member in treatment.members]
    for member, made in zip(treatment.members, members, strict=True):
        if not is_intervention(made):
            raise ValidationError(f"{member.release} changes no input, as a treatment has to (it has no propose)")
    return members[0] if len(members) == 1 else ComposedIntervention(tuple(members))


def _problems_of(treatment: Treatment) -> list[str]:
    try:
        intervention = build_intervention(treatment)
    except AgentInputLabError as error:
        return [f"treatment {treatment.name}: {error}"]
    if any(_retrieves(member) for member in getattr(intervention, "members", (intervention,))):
        return [f"treatment {treatment.name}: it searches documents, and a campaign has no retriever to give it"]
    return []


def _retrieves(intervention: Any) -> bool:
    """Tell what the card of a registered release says it needs; of another one, whether its family is to acquire."""
    from agentinputlab.registry import AlgorithmRegistry
    from agentinputlab.registry.cards import Needs

    registry = AlgorithmRegistry.default()
    if registry.has_release(intervention.release_id):
        return registry.get_release(intervention.release_id).needs is Needs.RETRIEVAL
    return SemanticFamily(intervention.family) is SemanticFamily.ACQUIRE


def _problems_of_model(plan: CampaignPlan, slot: ModelSlot) -> list[str]:
    """Say what would let every call of a model fail, or every intervention that asks one, after captures were paid."""
    model = slot.intervention_model
    address = address_problem(slot)
    if address is not None:
        return [address]
    if model.kind == "agent" and (slot.agent.backend != "openai" or "api_base" not in slot.agent.args):
        return ["intervention_model.kind 'agent' needs agent.backend 'openai' with args.api_base"]
    from agentinputlab.backends.scripted import load_rules

    try:
        rules = rules_file(plan, slot)
        if rules is not None:
            load_rules(rules)
    except (AgentInputLabError, RipienoError, OSError) as error:
        return [f"intervention_model.rules: {error}"]
    return []


def _bounds(plan: CampaignPlan, slot: ModelSlot, environment: tuple[int, int], tasks: int) -> list[CallBound]:
    """Upper bounds of a slot: the shared budget covers an arm with its intervention; user and judge come on top."""
    budget = standard_shared_budget(plan.budget_multiplier)
    prices = (None, None) if slot.prices is None else (slot.prices.input_per_million, slot.prices.output_per_million)
    played = tasks * len(plan.treatments) * _ARMS
    if not slot_spends(slot):
        prices = (0.0, 0.0)
    user, judge = environment
    rows = [
        CallBound(
            "agent and intervention, both sides of every pair",
            slot.name,
            played * budget["max_model_calls"],
            played * budget["max_context_tokens"],
            played * budget["max_output_tokens"],
            *prices,
        )
    ]
    if user:
        rows.append(CallBound("simulated user", slot.name, tasks + played * user, None, None, *prices))
    if judge:
        rows.append(CallBound("judge", slot.name, played * judge, None, None, *prices))
    return rows


def rules_file(plan: CampaignPlan, slot: ModelSlot) -> Path | None:
    """Give the file of scripted replies that a slot's interventions are answered from, or None.

    Raises:
        ValidationError: the arena brings none.
    """
    model = slot.intervention_model
    if model.kind != "arena":
        return None if model.rules is None else Path(model.rules)
    provider = resolve_arena(plan.arena)
    if not hasattr(provider, "intervention_rules"):
        raise ValidationError(f"slot {slot.name}: arena {plan.arena} brings no scripted replies for interventions")
    return provider.intervention_rules()


def pin_rules(plan: CampaignPlan) -> CampaignPlan:
    """Give the plan with the hash of every rules file that it names.

    Raises:
        ValidationError: a file cannot be read, or the plan names another hash.
    """
    return plan.model_copy(update={"slots": tuple(_pinned(plan, slot) for slot in plan.slots)})


def _pinned(plan: CampaignPlan, slot: ModelSlot) -> ModelSlot:
    model, rules = slot.intervention_model, rules_file(plan, slot)
    if rules is None:
        return slot
    try:
        found = sha256_file(rules)
    except (OSError, IntegrityError) as error:
        raise ValidationError(f"slot {slot.name}: rules file {rules} cannot be read") from error
    if model.rules_sha256 not in (None, found):
        raise ValidationError(f"slot {slot.name}: rules file {rules} differs from rules_sha256 of the plan")
    return slot.model_copy(update={"intervention_model": model.model_copy(update={"rules_sha256": found})})
