"""What a campaign is to measure, fixed before the first model call."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from agentinputlab.cli._release_text import parse_release
from agentinputlab.contracts.errors import ValidationError
from agentinputlab.contracts.serialization import content_hash

__all__ = [
    "CampaignPlan",
    "Member",
    "ModelSlot",
    "Prices",
    "Treatment",
    "load_plan",
    "parse_plan",
    "treatment_from_text",
]

PROTOCOL = "agentinputlab.campaign-plan.v1"
_NAME = r"^[a-z0-9][a-z0-9_.+-]{0,99}$"
Name = Annotated[str, StringConstraints(pattern=_NAME)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Prices(_Strict):
    """Money per million tokens, in any one currency; there are no built-in prices.

    Attributes:
        input_per_million: for tokens read.
        output_per_million: for tokens written.
    """

    input_per_million: float = Field(ge=0.0, allow_inf_nan=False)
    output_per_million: float = Field(ge=0.0, allow_inf_nan=False)


class Agent(_Strict):
    """The evaluated agent of a slot, in the words of the arena's configuration.

    Attributes:
        backend: ``scripted`` (the arena's rule policy) or ``openai`` (an OpenAI-compatible endpoint on this machine).
        model: name of the model.
        args: arguments of the endpoint (``api_base``, ``max_tokens``, ...); empty for ``scripted``.
    """

    backend: Literal["scripted", "openai"] = "scripted"
    model: str = Field(default="scripted-agent.v1", min_length=1)
    args: dict[str, Any] = Field(default_factory=dict)


class InterventionModel(_Strict):
    """The model that interventions may call; without one, a treatment that needs a model fails and is counted.

    Attributes:
        kind: ``agent`` (the slot's own endpoint), ``rules`` (a file of scripted replies), ``arena`` (the scripted
            replies that come with the arena) or ``none``.
        rules: the file, for ``rules``; its hash becomes part of the plan.
        rules_sha256: filled in when the plan is prepared.
    """

    kind: Literal["none", "agent", "rules", "arena"] = "none"
    rules: str | None = None
    rules_sha256: str | None = None

    @model_validator(mode="after")
    def _rules_name_a_file(self) -> InterventionModel:
        if (self.kind == "rules") != (self.rules is not None):
            raise ValueError("rules must name a file when kind is 'rules', and only then")
        return self


class ModelSlot(_Strict):
    """One model under test.

    Attributes:
        name: how results call it.
        agent: the evaluated agent.
        intervention_model: who answers interventions that ask a model.
        prices: for the cost shown beforehand and the cost per arm; unknown without it.
    """

    name: Name = "scripted"
    agent: Agent = Field(default_factory=Agent)
    intervention_model: InterventionModel = Field(default_factory=InterventionModel)
    prices: Prices | None = None


class Member(_Strict):
    """One intervention: a registered release and its parameters."""

    release: Name
    parameters: dict[str, Any] = Field(default_factory=dict)


class Treatment(_Strict):
    """A change of the input that is compared with the unchanged input: one intervention, or several in order.

    Attributes:
        name: how results call it.
        members: the interventions.
    """

    name: Name
    members: tuple[Member, ...] = Field(min_length=1)


ARENA_NAMES: Mapping[str, str] = {
    "embedded": "embedded.retail",
    "tau2": "tau3.retail",
    "fixture": "fixture.common_support",
}
"""Short names that people type."""


class CampaignPlan(_Strict):
    """Everything that decides what a campaign measures and how it is judged.

    Attributes:
        arena: name of an installed arena.
        split: ``train`` (phase engineering) or ``test`` (phase formal).
        tasks: how many of the split's tasks, from the first; None takes all.
        treatments: what is compared with the unchanged input, each alone.
        slots: the models under test.
        alpha: level of the exact test; Holm's correction covers all treatments and slots.
        bootstrap_seed: of the intervals.
        budget_multiplier: of the standard shared budget of an arm.
        durable: whether every receipt is forced to disk. Off, a power failure can lose acknowledged work.
        stop_after_failures: stop after so many pairs in a row without a score, say because an endpoint died; the same
            command goes on with those that were not started. None plays on.
    """

    protocol: Literal["agentinputlab.campaign-plan.v1"] = PROTOCOL
    arena: Name = "embedded.retail"
    split: Literal["train", "test"] = "test"
    tasks: int | None = Field(default=None, ge=1)
    treatments: tuple[Treatment, ...] = Field(min_length=1)
    slots: tuple[ModelSlot, ...] = Field(default=(ModelSlot(),), min_length=1)
    alpha: float = Field(default=0.05, gt=0.0, lt=1.0)
    bootstrap_seed: int = Field(default=17, ge=0)
    budget_multiplier: float = Field(default=1.0, gt=0.0, le=1000.0)
    durable: bool = True
    stop_after_failures: int | None = Field(default=None, ge=1)

    @model_validator(mode="after")
    def _names_are_distinct(self) -> CampaignPlan:
        for what, names in (
            ("treatments", [treatment.name for treatment in self.treatments]),
            ("slots", [slot.name for slot in self.slots]),
        ):
            if len(set(names)) != len(names):
                raise ValueError(f"{what} must have distinct names, got {', '.join(names)}")
        return self

    @property
    def phase(self) -> str:
        """``engineering`` for the train split, ``formal`` for the test split."""
        return "engineering" if self.split == "train" else "formal"

    def record(self) -> dict[str, Any]:
        """Give the plan as JSON values; ``stop_after_failures`` is in it only where it is set."""
        record = self.model_dump(mode="json")
        if self.stop_after_failures is None:  # plans of before it have the same hash as ever
            del record["stop_after_failures"]
        return record

    @property
    def plan_hash(self) -> str:
        """`content_hash` of `record`."""
        return content_hash(self.record())


def treatment_from_text(text: str) -> Treatment:
    """Read ``release``, ``release:key=value,key=value`` or several of them joined by ``+``.

    `agentinputlab.cli._release_text.parse_release` says how values are read.

    Raises:
        ValidationError: the text does not follow the form.

    Examples:
        >>> treatment_from_text("plan.plan_and_solve.ps_prompt").name
        'plan.plan_and_solve.ps_prompt'
    """
    members = tuple(_member_from_text(part.strip()) for part in text.split("+"))
    name = "+".join(member.release for member in members)
    if any(member.parameters for member in members):
        name = f"{name}-{content_hash([member.model_dump(mode='json') for member in members])[:8]}"
    return _validated(Treatment, {"name": name, "members": [member.model_dump() for member in members]})


def own_text_treatment(name: str, parameters: Mapping[str, str]) -> Treatment:
    """Give the treatment that changes the input by texts of your own, see `agentinputlab.algorithms.own_text`."""
    return _validated(Treatment, {"name": name, "members": [{"release": "own.text", "parameters": dict(parameters)}]})


def _member_from_text(text: str) -> Member:
    release, parameters = parse_release(text)
    return _validated(Member, {"release": release, "parameters": parameters})


def parse_plan(value: object) -> CampaignPlan:
    """Check a plan; a treatment may be written as a text (see `treatment_from_text`).

    Raises:
        ValidationError: a field is wrong; the message names it.
    """
    if not isinstance(value, Mapping):
        raise ValidationError(f"a campaign plan must be a mapping, got {type(value).__name__}")
    fields: dict[str, Any] = {str(key): item for key, item in value.items()}
    if isinstance(fields.get("arena"), str):
        fields["arena"] = ARENA_NAMES.get(fields["arena"], fields["arena"])
    treatments = fields.get("treatments")
    if isinstance(treatments, Sequence) and not isinstance(treatments, str):
        fields["treatments"] = [
            treatment_from_text(item).model_dump() if isinstance(item, str) else item for item in treatments
        ]
    return _validated(CampaignPlan, fields)


def load_plan(path: Path) -> CampaignPlan:
    """Read a plan from YAML or JSON; a rules file is looked for beside it.

    Raises:
        ValidationError: the file cannot be read or a field is wrong.
    """
    import yaml

    from ripieno.errors import IntegrityError
    from ripieno.files import open_regular

    try:
        with open_regular(path) as stream:
            data = stream.read(1024 * 1024 + 1)
    except (OSError, IntegrityError) as error:
        raise ValidationError(
            f"campaign plan {path}: {error.strerror if isinstance(error, OSError) else error}"
        ) from error
    if len(data) > 1024 * 1024:
        raise ValidationError(f"campaign plan {path} is longer than 1 MiB")
    try:
        value = yaml.load(data.decode("utf-8"), Loader=_unique_key_loader())  # noqa: S506 - a safe loader with a stricter mapping
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # ValueError: no UTF-8, no such day, endless digits
        raise ValidationError(f"campaign plan {path} is not valid YAML: {_where(error)}") from None
    plan = parse_plan(value)
    return plan.model_copy(update={"slots": tuple(_with_rules_beside(slot, path.parent) for slot in plan.slots)})


def _where(error: Exception) -> str:
    """Say what is wrong and at which line, without the line: it may hold a prompt or a key."""
    import yaml

    if not isinstance(error, yaml.MarkedYAMLError):
        return " ".join(str(error).split())[:200] if type(error) is yaml.YAMLError else type(error).__name__
    place = "" if error.problem_mark is None else f" in line {error.problem_mark.line + 1}"
    return f"{error.problem or error.context}{place}"


def _with_rules_beside(slot: ModelSlot, folder: Path) -> ModelSlot:
    model = slot.intervention_model
    if model.rules is None:
        return slot
    return slot.model_copy(
        update={"intervention_model": model.model_copy(update={"rules": str((folder / model.rules).resolve())})}
    )


def _unique_key_loader() -> Any:
    """A safe YAML loader that refuses duplicate keys and aliases (which can grow without bound)."""
    import yaml

    class Loader(yaml.SafeLoader):
        def compose_node(self, parent: Any, index: Any) -> Any:
            if self.check_event(yaml.AliasEvent):
                raise yaml.YAMLError("aliases are not allowed")
            return super().compose_node(parent, index)

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            keys = [self.construct_object(key, deep=True) for key, _ in node.value]
            for key in keys:
                if not isinstance(key, str):
                    raise yaml.YAMLError(f"keys must be text, got {key!r}")
            if len(set(keys)) != len(keys):
                raise yaml.YAMLError("a key is given twice")
            return super().construct_mapping(node, deep)

    return Loader


def _validated(model: type[Any], fields: Mapping[str, Any]) -> Any:
    from pydantic import ValidationError as PydanticError

    try:
        return model.model_validate_json(_json(fields))
    except PydanticError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or model.__name__
        reason = re.sub(r"^Value error, ", "", first["msg"])
        raise ValidationError(f"{place}: {reason}{_shown(first)}") from None


_NOT_SHOWN = frozenset({"missing", "extra_forbidden", "dict_type", "model_type", "tuple_type"})


def _shown(found: Mapping[str, Any]) -> str:
    """Give the wrong value of a field of ours; anything else may hold a prompt or a key."""
    value = found["input"]
    if found["type"] in _NOT_SHOWN or isinstance(value, (Mapping, list)):
        return ""
    return f", got {value!r:.80}"


def _json(fields: Mapping[str, Any]) -> bytes:
    """Validation reads JSON, so that lists become tuples and nothing else is coerced."""
    from ripieno.canonical import canonical_json
    from ripieno.errors import InputError

    try:
        return canonical_json(dict(fields))
    except InputError as error:
        raise ValidationError(f"campaign plan: {error}") from error
