"""How the filters under trial are built and called, the same for the ego alone and for several robots."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, cast

from concerto.safety.api import AgentControlModel, EgoOnlySafetyFilter, FloatArray, JointSafetyFilter, SafetyMode
from concerto.testing._arrays import copy_of, flat
from concerto.testing._scenes import EGO, Rows, Scene, SceneMaker
from ripieno.randomness import derive_substream

EgoOnlyFilterFactory = Callable[[Mapping[str, AgentControlModel]], EgoOnlySafetyFilter]
"""Builds a new filter of the ego's action for control models by uid."""
JointFilterFactory = Callable[[Mapping[str, AgentControlModel]], JointSafetyFilter]
"""Builds a new filter of several actions for control models by uid."""


@dataclass(frozen=True)
class Answer:
    """What a filter returned: the action per controlled robot, as it came, and the telemetry."""

    actions: dict[str, object]
    info: Mapping[str, Any]

    def numbers(self) -> dict[str, FloatArray]:
        """Give the actions as plain vectors."""
        return {uid: flat(action) for uid, action in self.actions.items()}

    def as_bytes(self) -> list[bytes]:
        """Give the numbers as bytes, in the order of the uids."""
        return [action.tobytes() for _, action in sorted(self.numbers().items())]


@dataclass(frozen=True)
class FilterTrial:
    """A filter factory and how to call what it builds.

    Attributes:
        make: builds a filter.
        mode: which robots the filter controls.
        rows: the settings that its rows have to follow.
    """

    make: EgoOnlyFilterFactory | JointFilterFactory
    mode: SafetyMode
    rows: Rows

    @property
    def ego_only(self) -> bool:
        """Whether only the ego is controlled."""
        return self.mode is SafetyMode.EGO_ONLY

    def maker(self, stream: str) -> SceneMaker:
        """Give a source of scenes that depends on the settings and the name alone."""
        return _scene_maker(self.mode, self.rows, stream)

    @property
    def active_scenes(self) -> tuple[Scene, ...]:
        """Scenes in 2-D and 3-D with one to three partners that need the filter."""
        return _active_scenes(self.mode, self.rows)

    def answer(self, scene: Scene) -> Answer:
        """Ask a new filter."""
        return self.call(self.make(scene.models), scene)

    def call(self, safety_filter: object, scene: Scene, **changes: Any) -> Answer:
        """Ask a filter, with some of the arguments replaced; the scene is copied first."""
        scene = copy_of_scene(scene)
        arguments: dict[str, Any] = {
            "proposed_action": scene.actions[EGO] if self.ego_only else scene.actions,
            "obs": {"agent_states": scene.snapshots, "meta": {"partner_id": None}},
            "state": scene.state(),
            "bounds": scene.bounds,
        }
        if self.ego_only:
            arguments |= {"ego_uid": EGO, "partner_predicted_states": scene.forecasts, "dt": scene.dt}
        elif self.mode is SafetyMode.SHARED_CONTROL:
            arguments |= {"ego_uid": EGO, "partner_action_bound": scene.partner_action_bound}
        actions, info = cast("Any", safety_filter).filter(**{**arguments, **changes})
        return Answer({EGO: actions} if self.ego_only else dict(actions), info)


def _scene_maker(mode: SafetyMode, rows: Rows, stream: str) -> SceneMaker:
    rng = derive_substream(f"concerto.testing.filters.{mode.value}.{stream}").default_rng()
    bound = 0.1 if mode is SafetyMode.SHARED_CONTROL else None
    return SceneMaker(rng, rows, ego_only=mode is SafetyMode.EGO_ONLY, partner_action_bound=bound)


@cache
def _active_scenes(mode: SafetyMode, rows: Rows) -> tuple[Scene, ...]:
    """Draw the scenes once: finding them takes longer than trying a filter in them, and every call gets copies."""
    maker = _scene_maker(mode, rows, "active")
    return tuple(maker.active(dim=dim, n_partners=n) for dim in (2, 3) for n in (1, 1, 2, 3))


def copy_of_scene(scene: Scene) -> Scene:
    """Give a scene that shares no array and no dict with the original."""
    return replace(
        scene,
        snapshots={uid: copy_of(snapshot) for uid, snapshot in scene.snapshots.items()},
        actions={uid: action.copy() for uid, action in scene.actions.items()},
        forecasts={uid: copy_of(snapshot) for uid, snapshot in scene.forecasts.items()},
        slack=dict(scene.slack),
    )
