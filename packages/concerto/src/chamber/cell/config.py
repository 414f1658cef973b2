"""A preregistered cell as data: what is run, and what will be concluded from which number.

Every field refuses unknown keys, other types and numbers outside its range. The cell is the configuration of its
run, so the hash of the configuration in ``run.json`` covers every value: two runs with the same hash ran the same cell.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    StringConstraints,
    model_serializer,
    model_validator,
)

__all__ = [
    "Cell",
    "Condition",
    "DecisionRule",
    "EgoPolicy",
    "EgoSettings",
    "PartnerEntry",
    "ReportedNumber",
    "SafetySettings",
    "TaskSettings",
]

Label = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,39}$")]
Sentence = Annotated[str, StringConstraints(min_length=1, max_length=500, strip_whitespace=True)]
Positive = Annotated[float, Field(gt=0.0)]
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


class Condition(StrEnum):
    """How the ego's nominal action reaches the environment."""

    WITHOUT_STACK = "without_stack"
    WITH_STACK = "with_stack"

    @property
    def words(self) -> str:
        """The name as a person reads it."""
        return self.value.replace("_", " ")


class TaskName(StrEnum):
    """Tasks that a cell can run."""

    MPE_COOPERATIVE_PUSH = "mpe_cooperative_push"


class EgoPolicy(StrEnum):
    """Nominal policies of the ego."""

    NEAREST_LANDMARK = "nearest_landmark"
    """It drives straight to the landmark that is nearest to its start."""
    FARTHEST_LANDMARK = "farthest_landmark"
    """It drives straight to the landmark that is farthest from its start."""
    TRAINED = "trained"
    """It does what it has learned: its policy is read from a checkpoint."""


class ReportedNumber(StrEnum):
    """Numbers that a decision rule can look at."""

    CONTACTS_AT_FAULT = "contacts_at_fault"
    CONTACTS_NOT_AT_FAULT = "contacts_not_at_fault"
    EPISODES_WITH_CONTACT_AT_FAULT = "episodes_with_contact_at_fault"
    MEAN_REWARD = "mean_reward"
    SUCCESS_RATE = "success_rate"

    @property
    def words(self) -> str:
        """The name as a person reads it."""
        return self.value.replace("_", " ")


class _Settings(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, strict=True)


class TaskSettings(_Settings):
    """The task and the geometry that contacts and success are judged by."""

    name: TaskName
    episode_length: Annotated[int, Field(ge=1, le=10_000)]
    robot_radius_m: Annotated[float, Field(gt=0.0, le=0.5)]
    start_separation_m: Annotated[float, Field(ge=0.0, le=1.5)]
    cover_radius_m: Annotated[float, Field(gt=0.0, le=1.0)]

    @property
    def safety_distance_m(self) -> float:
        """Distance of the centres at which the two discs touch, metres."""
        return 2.0 * self.robot_radius_m

    @model_validator(mode="after")
    def _starts_apart(self) -> Self:
        if self.start_separation_m <= self.safety_distance_m:
            raise ValueError(
                f"start_separation_m must be more than two radii ({self.safety_distance_m:g} m), "
                f"got {self.start_separation_m:g}"
            )
        return self


class EgoSettings(_Settings):
    """The robot whose safety is in question.

    Attributes:
        policy: what it would do if nobody were in the way.
        speed_limit_m_s: largest magnitude of each velocity component; what a trained policy wants is clipped to it.
        checkpoint: file of a trained policy, relative to the cell's file; None when it is given with the command.
        checkpoint_sha256: hash of that file, which makes the cell one of exactly this policy.
    """

    policy: EgoPolicy
    speed_limit_m_s: Annotated[float, Field(gt=0.0, le=1.0)]
    checkpoint: Annotated[str, StringConstraints(min_length=1, max_length=1000)] | None = None
    checkpoint_sha256: Sha256 | None = None

    @model_validator(mode="after")
    def _has_a_checkpoint_only_when_trained(self) -> Self:
        if self.policy is not EgoPolicy.TRAINED and (self.checkpoint, self.checkpoint_sha256) != (None, None):
            raise ValueError(f"a checkpoint belongs to the policy 'trained', not to {self.policy.value!r}")
        return self

    @model_serializer(mode="wrap")
    def _without_absent_keys(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """The hash of a cell with another policy stays what it was before there were trained ones."""
        return {name: value for name, value in serialize(self).items() if value is not None}


class PartnerEntry(_Settings):
    """One black-box partner: its label in the report, and what the registry needs to build it."""

    label: Label
    class_name: Annotated[str, StringConstraints(min_length=1, max_length=200)]
    extra: dict[str, str] = Field(default_factory=dict)


class SafetySettings(_Settings):
    """What the safety stack is told about the world."""

    partner_max_speed_m_s: Positive
    cbf_gamma_per_s: Positive = 5.0


class DecisionRule(_Settings):
    """One conclusion, fixed before the run: the claim holds when the number lies within the limits."""

    claim: Sentence
    number: ReportedNumber
    condition: Condition
    partner: Label | None = None
    at_least: float | None = None
    at_most: float | None = None

    @model_validator(mode="after")
    def _has_a_limit(self) -> Self:
        if self.at_least is None and self.at_most is None:
            raise ValueError("a decision rule needs at_least, at_most or both")
        return self

    def holds(self, value: float) -> bool:
        """Say whether a measured number fulfils the rule."""
        not_below = self.at_least is None or value >= self.at_least
        not_above = self.at_most is None or value <= self.at_most
        return not_below and not_above


class Cell(_Settings):
    """Everything that fixes a run; see the fields of its parts.

    Attributes:
        name: identifier of the cell.
        question: what the run is to answer, one sentence for people.
        task: task and geometry.
        ego: the robot in question.
        partners: the partners, with distinct labels.
        episodes: episodes per partner and condition; all share the same start states.
        root_seed: seed of every random stream.
        conditions: how the ego is run.
        safety: settings of the stack.
        decision_rules: what will be concluded from which number.
    """

    name: Label
    question: Sentence
    task: TaskSettings
    ego: EgoSettings
    partners: Annotated[tuple[PartnerEntry, ...], Field(min_length=1, max_length=100)]
    episodes: Annotated[int, Field(ge=1, le=10_000)]
    root_seed: Annotated[int, Field(ge=0, lt=2**53)]
    conditions: Annotated[tuple[Condition, ...], Field(min_length=1)]
    safety: SafetySettings
    decision_rules: Annotated[tuple[DecisionRule, ...], Field(min_length=1)]

    @property
    def n_episodes(self) -> int:
        """Number of episodes of a whole run, over all partners and conditions."""
        return len(self.partners) * len(self.conditions) * self.episodes

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        labels = [partner.label for partner in self.partners]
        _refuse_repeats("partner label", labels)
        _refuse_repeats("condition", [condition.value for condition in self.conditions])
        for rule in self.decision_rules:
            if rule.condition not in self.conditions:
                raise ValueError(
                    f"a decision rule looks at {rule.condition.value!r}, which is not among the conditions"
                )
            if rule.partner is not None and rule.partner not in labels:
                raise ValueError(f"a decision rule looks at partner {rule.partner!r}; the partners are {labels}")
        return self


def _refuse_repeats(what: str, values: list[str]) -> None:
    repeated = sorted({value for value in values if values.count(value) > 1})
    if repeated:
        raise ValueError(f"{what} {repeated[0]!r} appears more than once")
