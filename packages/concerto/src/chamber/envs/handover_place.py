"""Handover and placement: a presenter hands a part over, the ego seats it within a tolerance and a time budget.

An episode has two steps. In the first the presenter acts, ``[offset_x, offset_y, error_deg, delay_s]``: how it leaves
the part in the ego's gripper. In the second the ego acts, ``[translate_x, translate_y, reorient_deg, regrasp]``. What
couples them is the grasp-pose error: a small one the wrist corrects, a large one needs a re-grasp, and that takes time.

The defaults are placeholders; a pre-registered study brings its own numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import ArrayLike, NDArray

from chamber.envs._actions import read_numbers
from chamber.envs._closing import RefusesWhenClosed
from chamber.envs._copies import chosen_copies
from chamber.envs._handover_rules import (
    FailureMode,
    PlacementOutcome,
    applied_translation,
    evaluate_handover_place_success,
    resolve_placement,
)
from chamber.envs._integers import require_integer
from chamber.envs._spaces import Observation
from ripieno.randomness import derive_substream

__all__ = [
    "HANDOVER_ABLATED_STAGING_OFFSET_M",
    "HANDOVER_DEFAULT_ANGULAR_STIFFNESS_N_PER_DEG",
    "HANDOVER_DEFAULT_ANGULAR_WINDOW_DEG",
    "HANDOVER_DEFAULT_CONTACT_STIFFNESS_N_PER_M",
    "HANDOVER_DEFAULT_LATERAL_WINDOW_M",
    "HANDOVER_DEFAULT_REACQUIRE_RANGE_DEG",
    "HANDOVER_DEFAULT_REGRASP_BUDGET_S",
    "HANDOVER_DEFAULT_REGRASP_DURATION_S",
    "HANDOVER_DEFAULT_SEATING_FORCE_LIMIT_N",
    "HANDOVER_DEFAULT_TARGET_POSE",
    "HANDOVER_DEFAULT_TRANSLATION_RANGE_M",
    "HANDOVER_DEFAULT_WRIST_CORRECTION_DEG",
    "HANDOVER_DELTA_MIN_PP",
    "HANDOVER_EGO_DIM",
    "HANDOVER_GOAL_JITTER_HALF_M",
    "HANDOVER_HORIZON",
    "HANDOVER_K_EPISODES",
    "HANDOVER_MATCHED_REFERENCE",
    "HANDOVER_N_BOOT",
    "HANDOVER_PHASE_PLACE",
    "HANDOVER_PHASE_PRESENT",
    "HANDOVER_PRESENTATION_DIM",
    "HANDOVER_PRESENTATION_MISMATCH",
    "HANDOVER_TAU_SOLV",
    "FailureMode",
    "HandoverCondition",
    "HandoverPlaceEnv",
    "PlacementOutcome",
    "evaluate_handover_place_success",
    "handover_conditions",
    "make_handover_place_env",
    "resolve_placement",
]

HANDOVER_HORIZON = 2
HANDOVER_PHASE_PRESENT = 0
HANDOVER_PHASE_PLACE = 1
HANDOVER_PRESENTATION_DIM = 4
HANDOVER_EGO_DIM = 4

HANDOVER_DELTA_MIN_PP = 20.0
"""Smallest gap between matched and mismatched success that counts as coupling, percentage points."""
HANDOVER_TAU_SOLV = 0.90
"""Success of the matched pair from which a cell counts as solvable."""
HANDOVER_N_BOOT = 10000
HANDOVER_K_EPISODES = 20

HANDOVER_DEFAULT_LATERAL_WINDOW_M = 1e-3
HANDOVER_DEFAULT_ANGULAR_WINDOW_DEG = 5.0
HANDOVER_DEFAULT_SEATING_FORCE_LIMIT_N = 75.0
HANDOVER_DEFAULT_TRANSLATION_RANGE_M = 0.10
HANDOVER_DEFAULT_WRIST_CORRECTION_DEG = 15.0
HANDOVER_DEFAULT_REACQUIRE_RANGE_DEG = 90.0
HANDOVER_DEFAULT_REGRASP_BUDGET_S = 1.0
HANDOVER_DEFAULT_REGRASP_DURATION_S = 2.0
HANDOVER_DEFAULT_CONTACT_STIFFNESS_N_PER_M = 3.75e4
"""Half the force limit at the edge of the lateral window: 75 N / (2 x 1 mm)."""
HANDOVER_DEFAULT_ANGULAR_STIFFNESS_N_PER_DEG = 7.5
"""Half the force limit at the edge of the angular window: 75 N / (2 x 5 deg)."""
HANDOVER_DEFAULT_TARGET_POSE = (0.0, 0.0, 0.0)
HANDOVER_GOAL_JITTER_HALF_M = 5e-3
HANDOVER_ABLATED_STAGING_OFFSET_M = 0.35
"""How far off a part lies that nobody presents: beyond every reach."""

HANDOVER_MATCHED_REFERENCE = "handover_matched_reference"
HANDOVER_PRESENTATION_MISMATCH = "handover_presentation_mismatch"

_SUBSTREAM = "env.handover_place"
_USUAL_LOW = (-1.0, -1.0, -180.0, 0.0)
_USUAL_HIGH = (1.0, 1.0, 180.0, 60.0)

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class HandoverCondition:
    """One condition of the task.

    Attributes:
        condition_id: its name.
        presenter: which presenter it seats, ``"matched"`` or ``"mismatched"``.
        description: what it asks.
    """

    condition_id: str
    presenter: str
    description: str


_CONDITIONS = {
    condition.condition_id: condition
    for condition in (
        HandoverCondition(
            HANDOVER_MATCHED_REFERENCE,
            "matched",
            "The presenter hands the part over as the ego expects it: can the cell be solved?",
        ),
        HandoverCondition(
            HANDOVER_PRESENTATION_MISMATCH,
            "mismatched",
            "The presenter hands the part over with a grasp-pose error: what does a stranger cost?",
        ),
    )
}


def handover_conditions() -> dict[str, HandoverCondition]:
    """Give a copy of the table of conditions, by id."""
    return dict(_CONDITIONS)


class _Reading(spaces.Box):
    """Numbers that may be plain Python numbers, and with ``is_late`` are None until the part was presented."""

    def __init__(self, shape: tuple[int, ...], *, is_late: bool) -> None:
        super().__init__(-np.inf, np.inf, shape, np.float64)
        self.is_late = is_late

    def contains(self, x: Any) -> bool:
        """Say whether ``x`` can be this reading."""
        if x is None:
            return self.is_late
        try:
            numbers = np.asarray(x, dtype=np.float64)
        except (TypeError, ValueError):
            return False
        return numbers.shape == self.shape and not np.isnan(numbers).any()


class HandoverPlaceEnv(RefusesWhenClosed[Observation, FloatArray]):
    """Two steps: the presenter's, with reward 0, and the ego's, with reward 1 if the part is seated, else 0.

    Observation: ``phase``; ``target_pose`` (x, y in m and yaw in rad); ``spec`` with the limits and the budget;
    ``lateral_offset`` (2,) and ``grasp_pose_error_deg``, which are None before the part was presented. Offsets are
    relative to the target, so where it is never changes an outcome. Action: four float64 numbers, see the module. The
    bounds of the action space hold what either side usually asks for: 1 m, half a turn, a delay of a minute or a flag;
    finite numbers outside are taken as they are.

    ``reset(seed=k)`` starts episode k of the run that ``root_seed`` names; without a seed the first episode is number
    ``root_seed`` and every other one follows the one before. ``info["initial_state_seed"]`` is that number.

    Args:
        condition_id: which condition it is run for; it is recorded, the presenter is the caller's.
        root_seed: seed of the run.
        lateral_window_m, angular_window_deg, seating_force_limit_n: limits within which a part is seated, > 0.
        translation_range_m, wrist_correction_deg, reacquire_range_deg: how much the ego corrects, >= 0.
        regrasp_budget_s: time for a re-grasp; negative for none at all.
        regrasp_duration_s: time that a re-grasp takes, >= 0.
        contact_stiffness_n_per_m, angular_stiffness_n_per_deg: what residuals cost in force, >= 0.
        target_pose: where the part has to go before jitter.
        presenter_ablated: nobody presents: the part lies 0.35 m away, whatever the presenter does.
        follow_reorientation: the wrist turns by the angle that the ego commands, instead of by the best one.

    Raises:
        KeyError: there is no such condition; the message lists those there are.
        ValueError: a number is out of range.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 - Gymnasium declares it per instance

    def __init__(
        self,
        *,
        condition_id: str = HANDOVER_MATCHED_REFERENCE,
        root_seed: int = 0,
        lateral_window_m: float = HANDOVER_DEFAULT_LATERAL_WINDOW_M,
        angular_window_deg: float = HANDOVER_DEFAULT_ANGULAR_WINDOW_DEG,
        seating_force_limit_n: float = HANDOVER_DEFAULT_SEATING_FORCE_LIMIT_N,
        translation_range_m: float = HANDOVER_DEFAULT_TRANSLATION_RANGE_M,
        wrist_correction_deg: float = HANDOVER_DEFAULT_WRIST_CORRECTION_DEG,
        reacquire_range_deg: float = HANDOVER_DEFAULT_REACQUIRE_RANGE_DEG,
        regrasp_budget_s: float = HANDOVER_DEFAULT_REGRASP_BUDGET_S,
        regrasp_duration_s: float = HANDOVER_DEFAULT_REGRASP_DURATION_S,
        contact_stiffness_n_per_m: float = HANDOVER_DEFAULT_CONTACT_STIFFNESS_N_PER_M,
        angular_stiffness_n_per_deg: float = HANDOVER_DEFAULT_ANGULAR_STIFFNESS_N_PER_DEG,
        target_pose: Sequence[float] = HANDOVER_DEFAULT_TARGET_POSE,
        presenter_ablated: bool = False,
        follow_reorientation: bool = False,
    ) -> None:
        if condition_id not in _CONDITIONS:
            raise KeyError(f"unknown handover condition {condition_id!r}; known: {', '.join(sorted(_CONDITIONS))}")
        self.condition = _CONDITIONS[condition_id]
        self.root_seed = require_integer("root_seed", root_seed, at_least=0)
        self.presenter_ablated = presenter_ablated
        self.follow_reorientation = follow_reorientation
        self._limits = {
            "lateral_window_m": lateral_window_m,
            "angular_window_deg": angular_window_deg,
            "seating_force_limit_n": seating_force_limit_n,
        }
        self._abilities = {
            "translation_range_m": translation_range_m,
            "wrist_correction_deg": wrist_correction_deg,
            "reacquire_range_deg": reacquire_range_deg,
            "regrasp_duration_s": regrasp_duration_s,
            "contact_stiffness_n_per_m": contact_stiffness_n_per_m,
            "angular_stiffness_n_per_deg": angular_stiffness_n_per_deg,
        }
        for name, value in self._limits.items():
            if not value > 0.0:
                raise ValueError(f"{name} must be > 0, got {value}")
        for name, value in self._abilities.items():
            if not value >= 0.0:
                raise ValueError(f"{name} must be >= 0, got {value}")
        if math.isnan(regrasp_budget_s):
            raise ValueError(f"regrasp_budget_s must be a number, got {regrasp_budget_s}")
        self.regrasp_budget_s = regrasp_budget_s
        self._nominal_target = _vector("target_pose", target_pose, 3)
        self._target = self._nominal_target
        self._presentation: FloatArray | None = None
        self._next_seed = self.root_seed
        self._can_step = False
        self.action_space = spaces.Box(np.array(_USUAL_LOW), np.array(_USUAL_HIGH), dtype=np.float64)
        self.observation_space = spaces.Dict(
            {
                "phase": spaces.Discrete(HANDOVER_HORIZON),
                "target_pose": _Reading((3,), is_late=False),
                "spec": spaces.Dict({name: _Reading((), is_late=False) for name in self._spec()}),
                "lateral_offset": _Reading((2,), is_late=True),
                "grasp_pose_error_deg": _Reading((), is_late=True),
            }
        )

    @property
    def condition_id(self) -> str:
        """Id of the condition it is run for."""
        return self.condition.condition_id

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Move the target by its jitter and wait for the presenter.

        Args:
            seed: number of the episode, see the class.
            options: nothing, or ``env_idx`` with the one copy there is.

        Raises:
            ValueError: the seed is no integer >= 0, or there is another option.
            gymnasium.error.ClosedEnvironmentError: it was closed.
        """
        self._require_open("reset")
        chosen_copies(options, num_envs=1)
        episode = self._next_seed if seed is None else require_integer("seed", seed, at_least=0)
        self._next_seed = episode + 1
        run = f".run.{self.root_seed}" if self.root_seed else ""
        self.np_random = derive_substream(f"{_SUBSTREAM}{run}", root_seed=episode).default_rng()
        self._target = self._nominal_target.copy()
        self._target[:2] += self.np_random.uniform(-HANDOVER_GOAL_JITTER_HALF_M, HANDOVER_GOAL_JITTER_HALF_M, 2)
        self._presentation = None
        self._can_step = True
        return self._observation(), {"initial_state_seed": episode}

    def step(self, action: ArrayLike) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Present the part, or place it.

        Args:
            action: shape ``(4,)``: the presenter's in the first step, the ego's in the second, whose last number asks
                for a re-grasp when it is above 0.5.

        Returns:
            Observation, reward, ``terminated``, ``truncated`` (always False), and ``info``: after the placement the
            fields of `PlacementOutcome`, and ``placed_xy_m``, where the part is.

        Raises:
            ValueError: the action is not four finite numbers; nothing has changed then.
            gymnasium.error.ResetNeeded: there was no reset, or the part is placed.
            gymnasium.error.ClosedEnvironmentError: it was closed.
        """
        self._require_open("step")
        if not self._can_step:
            raise gym.error.ResetNeeded("call reset() before step(); an episode has two steps")
        if self._presentation is None:
            presentation = _vector("action of the presenter", action, HANDOVER_PRESENTATION_DIM)
            if self.presenter_ablated:
                presentation = np.array([HANDOVER_ABLATED_STAGING_OFFSET_M, 0.0, 0.0, 0.0])
            self._presentation = presentation
            return self._observation(), 0.0, False, False, {}
        translate_x, translate_y, reorient_deg, regrasp = _vector(
            "action of the ego", action, HANDOVER_EGO_DIM
        ).tolist()
        self._can_step = False
        offset, (error_deg, delay_s) = self._presentation[:2], self._presentation[2:].tolist()
        outcome = resolve_placement(
            lateral_offset_m=offset,
            grasp_pose_error_deg=error_deg,
            timing_skew_s=delay_s,
            ego_translation_m=(translate_x, translate_y),
            ego_reorient_deg=reorient_deg,
            ego_regrasp_requested=regrasp > 0.5,
            regrasp_budget_s=self.regrasp_budget_s,
            follow_reorientation=self.follow_reorientation,
            **self._abilities,
            **self._limits,
        )
        moved = applied_translation((translate_x, translate_y), self._abilities["translation_range_m"])
        info = {**asdict(outcome), "placed_xy_m": self._target[:2] + offset + moved}
        return self._observation(), float(outcome.success), True, False, info

    def _spec(self) -> dict[str, float]:
        return {**self._limits, "regrasp_budget_s": self.regrasp_budget_s}

    def _observation(self) -> Observation:
        presented = self._presentation
        return {
            "phase": HANDOVER_PHASE_PRESENT if presented is None else HANDOVER_PHASE_PLACE,
            "target_pose": self._target.copy(),
            "spec": self._spec(),
            "lateral_offset": None if presented is None else presented[:2].copy(),
            "grasp_pose_error_deg": None if presented is None else float(presented[2]),
        }


def make_handover_place_env(
    *,
    condition_id: str = HANDOVER_MATCHED_REFERENCE,
    root_seed: int = 0,
    free_regrasp: bool = False,
    **parameters: Any,
) -> HandoverPlaceEnv:
    """Build a `HandoverPlaceEnv`.

    Args:
        condition_id: see there.
        root_seed: see there.
        free_regrasp: make re-grasps cost no time, which takes the coupling away: a diagnostic, never a result.
        **parameters: all other arguments of `HandoverPlaceEnv`.

    Raises:
        KeyError: there is no such condition.
        ValueError: a number is out of range.
    """
    if free_regrasp:
        parameters["regrasp_budget_s"] = math.inf
    return HandoverPlaceEnv(condition_id=condition_id, root_seed=root_seed, **parameters)


def _vector(name: str, value: ArrayLike, length: int) -> FloatArray:
    try:
        vector = read_numbers(value)
    except TypeError as error:
        raise ValueError(f"{name} must be {length} finite numbers, got {error}") from None
    if vector.shape != (length,) or not np.isfinite(vector).all():
        raise ValueError(f"{name} must be {length} finite numbers, got {vector.tolist()}")
    return vector
