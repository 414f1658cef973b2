"""The reference team of every task: controllers that are known to play it, for a first look and for checks.

Which conditions a task has, what its references can do, and who they are is all said here, one function per task. A
task of your own says it with `register_reference`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chamber.rollout.team import Controller, Seat, Team, TurnTeam, registered_seat
from ripieno.errors import InputError

__all__ = ["Reference", "reference", "reference_tasks", "register_reference"]

TeamBuilder = Callable[[Any, str | None], Team]


@dataclass(frozen=True, slots=True)
class Reference:
    """How a task is played by those who know it.

    Attributes:
        conditions: names of its conditions with one line each, the default first; empty when it has none.
        solvable: conditions in which the reference team succeeds; for a task without conditions, ``(None,)`` or
        nothing.
        build: makes the team for an environment and a condition.
        success: what counts as success, in a sentence for readers; empty for a task that has none.
    """

    conditions: Mapping[str, str]
    solvable: tuple[str | None, ...]
    build: TeamBuilder
    success: str = ""

    def condition(self, name: str | None) -> str | None:
        """Give a condition by name, the default for None.

        Raises:
            InputError: the task has no such condition; the message lists those it has.
        """
        if name is None:
            return next(iter(self.conditions), None)
        if name not in self.conditions:
            known = ", ".join(self.conditions) or "none: this task has no conditions"
            raise InputError(f"unknown condition {name!r}; known: {known}")
        return name


def reference(task_id: str) -> Reference:
    """Give the reference of a task.

    Raises:
        InputError: the task has none, because it has no environment.
    """
    if task_id not in _REFERENCES:
        raise InputError(f"task {task_id!r} has no environment to play in; playable: {', '.join(reference_tasks())}")
    return _REFERENCES[task_id]


def register_reference(task_id: str, how: Reference) -> None:
    """Say how a task of your own is played, so that ``chamber run`` and ``chamber check`` can play it.

    Args:
        task_id: the name under which `chamber.tasks.register_task` knows it.
        how: conditions and the team.

    Raises:
        ValueError: the task has a reference already.
    """
    if task_id in _REFERENCES:
        raise ValueError(f"task {task_id!r} has a reference already")
    _REFERENCES[task_id] = how


def reference_tasks() -> tuple[str, ...]:
    """Give the names of all tasks that can be played."""
    return tuple(_REFERENCES)


class _Still:
    """Does nothing: zero increments; the gripper entry, when there is one, as given."""

    def __init__(self, width: int, *, last: float = 0.0) -> None:
        self._action = np.zeros(width, dtype=np.float32)
        self._action[-1] = last

    def reset(self, *, seed: int | None = None) -> None:
        """There is nothing to forget."""

    def act(self, obs: Mapping[str, Any]) -> NDArray[np.float32]:
        """Give a fresh copy of the constant action."""
        return self._action.copy()


def _still_seat(env: Any, uid: str, *, last: float = 0.0) -> Seat:
    width = env.action_space[uid].shape[-1]
    return Seat(uid, "still", {"action_dim": str(width)}, _Still(width, last=last))


# --- planar push ----------------------------------------------------------------------------------------------


class _PushEgo:
    """The ego of the planar task: to the nearest landmark, straight."""

    def __init__(self, uid: str) -> None:
        from chamber.cell.config import EgoPolicy
        from chamber.cell.ego import LandmarkPolicy
        from chamber.envs.mpe_cooperative_push import DT, VELOCITY_BOUND

        self._policy = LandmarkPolicy(uid=uid, choice=EgoPolicy.NEAREST_LANDMARK, speed_limit=VELOCITY_BOUND, dt=DT)

    def reset(self, *, seed: int | None = None) -> None:
        self._policy.reset()

    def act(self, obs: Mapping[str, Any]) -> NDArray[np.float64]:
        return self._policy.act(obs)


def _push(env: Any, condition: str | None) -> Team:
    ego, partner = env.unwrapped.agent_uids
    return Team((Seat(ego, "nearest_landmark", {}, _PushEgo(ego)), registered_seat(partner, "push_cooperative")))


# --- stage 0 --------------------------------------------------------------------------------------------------


class _SmallMotions:
    """Smooth random motions, the same for the same seed."""

    def __init__(self, uid: str, width: int) -> None:
        self._uid = uid
        self._width = width
        self._phase = np.zeros(width)
        self._step = 0

    def reset(self, *, seed: int | None = None) -> None:
        from ripieno.randomness import derive_substream

        rng = derive_substream(f"rollout.small_motions.{self._uid}", root_seed=seed or 0).default_rng()
        self._phase = rng.uniform(0.0, 2.0 * np.pi, self._width)
        self._step = 0

    def act(self, obs: Mapping[str, Any]) -> NDArray[np.float32]:
        self._step += 1
        return (0.3 * np.sin(self._phase + 0.1 * self._step)).astype(np.float32)


def _stage0(env: Any, condition: str | None) -> Team:
    return Team(
        tuple(
            Seat(uid, "small_motions", {"action_dim": str(width)}, _SmallMotions(uid, width))
            for uid, width in ((uid, env.action_space[uid].shape[-1]) for uid in env.unwrapped.agent_uids)
        )
    )


# --- pick and place -------------------------------------------------------------------------------------------


class _UnmaskedEgo:
    """Plays on what the task knows, not on what the condition shows: it says whether the task can be solved at all."""

    def __init__(self, env: Any, controller: Controller) -> None:
        self._env = env
        self._controller = controller

    def reset(self, *, seed: int | None = None) -> None:
        self._controller.reset(seed=seed)

    def act(self, obs: Mapping[str, Any]) -> NDArray[np.floating[Any]]:
        return self._controller.act(self._env.unwrapped.privileged_observation())


def _pick_place(env: Any, condition: str | None) -> Team:
    from chamber.agents.pickplace_ego_scripted import ScriptedPickPlaceEgo

    task = env.unwrapped
    ego = ScriptedPickPlaceEgo(partner_uid=task.partner_uid)
    return Team(
        (
            Seat(task.ego_uid, "scripted_pick_place", {"partner_uid": task.partner_uid}, _UnmaskedEgo(env, ego)),
            _still_seat(env, task.partner_uid),
        )
    )


# --- co-carry -------------------------------------------------------------------------------------------------


def _co_carry(env: Any, condition: str | None) -> Team:
    from chamber.envs.cocarry import cocarry_matched_controller_specs, cocarry_xarm6_controller_spec

    task = env.unwrapped
    specs = cocarry_matched_controller_specs()
    ego = registered_seat(task.ego_uid, "cocarry_impedance", specs[task.ego_uid])
    if task.single_arm:
        return Team((ego, _still_seat(env, task.partner_uid, last=1.0)))
    if task.partner_uid == "xarm6_robotiq":
        return Team(
            (ego, registered_seat(task.partner_uid, "cocarry_xarm6_impedance", cocarry_xarm6_controller_spec()))
        )
    return Team((ego, registered_seat(task.partner_uid, "cocarry_impedance", specs[task.partner_uid])))


# --- co-insert ------------------------------------------------------------------------------------------------


def _co_insert(env: Any, condition: str | None) -> Team:
    from chamber.envs.coinsert import coinsert_matched_controller_specs

    task = env.unwrapped
    specs = coinsert_matched_controller_specs()
    ego = registered_seat(task.ego_uid, "coinsert_base_inserter", specs[task.ego_uid])
    if task.single_inserter:
        return Team((ego, _still_seat(env, task.partner_uid, last=-1.0)))
    return Team((ego, registered_seat(task.partner_uid, "coinsert_reference_holder", specs[task.partner_uid])))


# --- hand over and place --------------------------------------------------------------------------------------


def _handover(env: Any, condition: str | None) -> Team:
    from chamber.agents.handover_ego_scripted import ScriptedHandoverEgo
    from chamber.envs.handover_place import handover_conditions
    from chamber.partners.handover_presenter import presenter_spec

    presenter = presenter_spec(handover_conditions()[env.unwrapped.condition_id].presenter)
    return TurnTeam(
        (
            Seat("ego", "scripted_handover", {}, ScriptedHandoverEgo()),
            registered_seat("presenter", presenter.class_name, presenter.extra),
        ),
        turns=("presenter", "ego"),
    )


_PLACED = "The cube is within 0.025 m of the goal (green), and the ego is at rest."

_REFERENCES: dict[str, Reference] = {
    "mpe_cooperative_push": Reference({}, (), _push),
    "stage0_smoke": Reference({}, (), _stage0),
    "stage1_pickplace_as": Reference(
        {
            "stage1_pickplace_panda_plus_fetch_ego_aht_happo_per_agent": "beside a mobile manipulator",
            "stage1_pickplace_panda_only_mappo_shared_param": "beside a second Panda",
        },
        (
            "stage1_pickplace_panda_plus_fetch_ego_aht_happo_per_agent",
            "stage1_pickplace_panda_only_mappo_shared_param",
        ),
        _pick_place,
        _PLACED,
    ),
    "stage1_pickplace_om": Reference(
        {
            "stage1_pickplace_vision_only": "pictures, tool pose and goal",
            "stage1_pickplace_vision_plus_force_torque_plus_proprio": "pictures, joints and forces",
        },
        ("stage1_pickplace_vision_only", "stage1_pickplace_vision_plus_force_torque_plus_proprio"),
        _pick_place,
        _PLACED,
    ),
    "cocarry": Reference(
        {
            "cocarry_matched_panda_pair": "two Pandas with the same controller",
            "cocarry_single_arm_positive_control": "one arm alone: the free end drops",
            "cocarry_xarm6_partner": "beside an xArm6",
        },
        ("cocarry_matched_panda_pair", "cocarry_xarm6_partner"),
        _co_carry,
        "The middle of the bar is within 0.1 m of the goal (green) and the arms that hold it are at rest; from control "
        "step 15 on the bar was never tilted by 15 degrees, and no hand held it with 5 N or more.",
    ),
    "handover_place": Reference(
        {
            "handover_matched_reference": "the presenter hands over within reach of a wrist correction",
            "handover_presentation_mismatch": "the presenter hands over at a wrong angle",
        },
        ("handover_matched_reference",),
        _handover,
        "What remains of offset, grasp error and seating force after the ego's correction is below the limits of the "
        "condition.",
    ),
    "coinsert": Reference(
        {
            "coinsert_matched_reference": "one arm inserts, the other holds the socket",
            "coinsert_single_inserter_positive_control": "nobody holds the socket",
        },
        ("coinsert_matched_reference",),
        _co_insert,
        "The peg is 38 mm deep and within 5 degrees of the bore, everything is at rest, and neither the contact force "
        "(at most 64 N) nor the force at the holder's hand (at most 38 N) was ever too large.",
    ),
}
