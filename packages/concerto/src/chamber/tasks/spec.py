"""What a task is, as one frozen record."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

__all__ = ["HETEROGENEITY_AXES", "AdmissionStatus", "AxisValidity", "TaskSpec"]

HETEROGENEITY_AXES = ("AS", "OM", "CR", "CM", "PF", "SA")
"""Ways in which partners differ: action space, observation modality, control rate, communication, partner identity and
safety."""


class AxisValidity(StrEnum):
    """What is known about a task as an instrument for one axis."""

    VALIDATED = "validated"
    """It discriminates along this axis."""
    NULL = "null"
    """It was measured and shows no effect."""
    INVALID = "invalid"
    """It cannot show one."""
    UNTESTED = "untested"
    """Nobody has measured it."""


class AdmissionStatus(StrEnum):
    """How far a task has come; only an admitted one carries claims about cooperation."""

    DIAGNOSTIC = "DIAGNOSTIC"
    CONTROL = "CONTROL"
    CANDIDATE = "CANDIDATE"
    ADMITTED = "ADMITTED"
    CLOSED = "CLOSED"


def _all_untested() -> dict[str, AxisValidity]:
    return dict.fromkeys(HETEROGENEITY_AXES, AxisValidity.UNTESTED)


class TaskSpec(BaseModel):
    """One version of one task.

    Attributes:
        task_id: stable name.
        version: any change of behaviour, success predicate or stress instrument makes a new one; 0 has no environment.
        tier: 0 diagnostics of the rig, 1 controls, 2 cooperation tasks, 3 candidates and closures.
        title: one line.
        env_factory: dotted path of the factory; None without an environment.
        sim_backend: what it runs on: ``mujoco``, ``pure_python`` or ``unspecified (spec-only)``.
        n_agents: number of robots.
        action_space_summary, observation_summary: for a reader.
        stress_channel: the force that shows how partners load each other; None without a coupling by force.
        axes: what is known per heterogeneity axis; exactly the six.
        admission_status: see `AdmissionStatus`.
        evidence: paths in the repository.
        notes: for a reader.
        factory_defaults: keyword arguments that `chamber.tasks.make` passes unless they are overridden.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    task_id: str
    version: Annotated[int, Field(ge=0)]
    tier: Literal[0, 1, 2, 3]
    title: str
    env_factory: str | None
    sim_backend: str
    n_agents: Annotated[int, Field(ge=1)]
    action_space_summary: str
    observation_summary: str
    stress_channel: str | None
    axes: dict[str, AxisValidity] = Field(default_factory=_all_untested)
    admission_status: AdmissionStatus
    evidence: list[str] = Field(default_factory=list[str])
    notes: str
    factory_defaults: dict[str, Any] = Field(default_factory=dict[str, Any])

    @property
    def slug(self) -> str:
        """Name with version, as in ``cocarry@v2``."""
        return f"{self.task_id}@v{self.version}"

    @model_validator(mode="after")
    def _check(self) -> Self:
        missing, extra = (
            sorted(set(HETEROGENEITY_AXES) - set(self.axes)),
            sorted(set(self.axes) - set(HETEROGENEITY_AXES)),
        )
        if missing or extra:
            raise ValueError(f"axes must be exactly {', '.join(HETEROGENEITY_AXES)}; missing {missing}, extra {extra}")
        if self.env_factory is not None and "." not in self.env_factory:
            raise ValueError(f"env_factory must be a dotted path, got {self.env_factory!r}")
        return self
