"""Two point robots cover two landmarks on a square: small, deterministic, and needing no simulator.

The counterpart of ``simple_spread`` of the multi-particle environments (Lowe et al. 2017, arXiv 1706.02275),
with velocity commands instead of forces.
"""

from __future__ import annotations

import math
import operator
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces
from numpy.typing import ArrayLike, NDArray

from chamber.envs._closing import RefusesWhenClosed
from chamber.envs._integers import require_integer
from chamber.envs._spaces import Observation
from chamber.errors import ActionError
from concerto.safety.api import AgentSnapshot, Bounds, VelocityCommandControlModel
from ripieno.randomness import derive_substream

if TYPE_CHECKING:
    from concerto.safety.stopping import PartnerMotionBound

__all__ = [
    "DEFAULT_EPISODE_LENGTH",
    "DT",
    "N_LANDMARKS",
    "POSITION_BOUND",
    "RENDER_CAMERA",
    "ROBOT_RADIUS_M",
    "VELOCITY_BOUND",
    "MPECooperativePushEnv",
]

DEFAULT_EPISODE_LENGTH = 50
N_LANDMARKS = 2
POSITION_BOUND = 1.0
"""Half the side of the square, metres."""
VELOCITY_BOUND = 1.0
"""Limit of each component of a velocity command, metres per second."""
DT = 0.1
"""Time between two steps, seconds."""
ROBOT_RADIUS_M = 0.1
"""Radius of the disc that the safety filter takes a robot for, metres; the dynamics know no contact."""
RENDER_CAMERA = "render_camera"
"""Name of the only camera; it looks down on the square."""

_SUBSTREAM = "env.mpe_cooperative_push"
_N_AGENTS = 2
_STATE_DIM = 4 + 2 * N_LANDMARKS + 2 * (_N_AGENTS - 1)

FloatArray = NDArray[np.float64]
_Point = tuple[float, float]


class MPECooperativePushEnv(RefusesWhenClosed[Observation, dict[str, Any]]):
    """Both robots share the reward: minus the sum over landmarks of the distance to the nearest robot.

    An action is a velocity command per robot, ``Box(-1, 1, (2,), float32)``; it is clipped to that box and reached
    at once: ``velocity = a``, ``position = clip(position + a * DT, -1, 1)``. A robot observes, as float32,
    ``[own position 2, own velocity 2, landmark - own position 2 x 2, other robot - own position 2]``.

    ``reset(seed=k)`` starts episode ``k`` of the run that ``root_seed`` names; without a seed the current stream
    goes on. Equal root seed, reset seed and actions give the same bytes.

    Args:
        agent_uids: two distinct uids, in the order in which start positions are drawn.
        episode_length: steps until ``truncated``.
        root_seed: seed of the run.
        robot_radius: radius in the snapshots for the safety filter and in pictures, metres.
        render_mode: ``"rgb_array"`` or None.

    Raises:
        ValueError: not two distinct uids, an episode length below 1, a radius that is not positive, or another render
            mode.
    """

    metadata: dict[str, Any] = {  # noqa: RUF012 - Gymnasium declares it per instance
        "render_modes": ["rgb_array"],
        "render_fps": round(1.0 / DT),
    }

    def __init__(
        self,
        *,
        agent_uids: tuple[str, str] = ("ego", "partner"),
        episode_length: int = DEFAULT_EPISODE_LENGTH,
        root_seed: int = 0,
        robot_radius: float = ROBOT_RADIUS_M,
        render_mode: str | None = None,
    ) -> None:
        uids = tuple(agent_uids)
        if len(uids) != _N_AGENTS or len(set(uids)) != _N_AGENTS:
            raise ValueError(f"agent_uids must be two distinct uids, got {uids!r}")
        episode_length = require_integer("episode_length", episode_length, at_least=1)
        root_seed = require_integer("root_seed", root_seed, at_least=0)
        if not (math.isfinite(robot_radius) and robot_radius > 0.0):
            raise ValueError(f"robot_radius must be positive and finite, got {robot_radius!r}")
        if render_mode not in {None, "rgb_array"}:
            raise ValueError(f"render_mode must be 'rgb_array' or None, got {render_mode!r}")
        self.agent_uids: tuple[str, str] = (uids[0], uids[1])
        self.episode_length = episode_length
        self.root_seed = root_seed
        self.robot_radius = float(robot_radius)
        self.render_mode = render_mode
        command = spaces.Box(-VELOCITY_BOUND, VELOCITY_BOUND, (2,), np.float32)
        state = spaces.Box(-np.inf, np.inf, (_STATE_DIM,), np.float32)
        self.action_space = spaces.Dict(dict.fromkeys(uids, command))
        self.observation_space = spaces.Dict(
            {"agent": spaces.Dict({uid: spaces.Dict({"state": state}) for uid in uids})}
        )
        self.np_random = derive_substream(_SUBSTREAM, root_seed=root_seed).default_rng()
        # Plain numbers: on four of them, an array operation costs more than all the arithmetic of a step.
        self._landmarks: tuple[_Point, ...] = ((0.0, 0.0),) * N_LANDMARKS
        self._positions: tuple[_Point, _Point] = ((0.0, 0.0), (0.0, 0.0))
        self._last_positions = self._positions
        self._velocities: tuple[_Point, _Point] = ((0.0, 0.0), (0.0, 0.0))
        self._was_clipped = (False, False)
        self._n_steps = 0
        self._path = [self._positions]

    @property
    def clipped_uids(self) -> tuple[str, ...]:
        """Whose command the last step had to clip."""
        return tuple(uid for uid, far in zip(self.agent_uids, self._was_clipped, strict=True) if far)

    @property
    def landmarks(self) -> FloatArray:
        """Landmark positions, a copy, shape ``(2, 2)``, metres."""
        return np.array(self._landmarks)

    def position(self, uid: str) -> FloatArray:
        """Position of one robot in full precision, a copy, shape ``(2,)``, metres."""
        return np.array(self._positions[self.agent_uids.index(uid)])

    def velocity(self, uid: str) -> FloatArray:
        """Velocity command that one robot follows, a copy, shape ``(2,)``, metres per second."""
        return np.array(self._velocities[self.agent_uids.index(uid)])

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Draw landmarks, then start positions in uid order; velocities are zero.

        Args:
            seed: index of the episode under the root seed; ``None`` continues the current stream.
            options: unused.

        Raises:
            gymnasium.error.ClosedEnvironmentError: it was closed.
        """
        self._require_open("reset")
        if seed is not None:
            name = f"{_SUBSTREAM}.episode.{operator.index(seed)}"
            self.np_random = derive_substream(name, root_seed=self.root_seed).default_rng()
        drawn = self.np_random.uniform(-POSITION_BOUND, POSITION_BOUND, (N_LANDMARKS + _N_AGENTS, 2)).tolist()
        *landmarks, first, second = ((x, y) for x, y in drawn)
        self._landmarks = tuple(landmarks)
        self._positions = self._last_positions = (first, second)
        self._velocities = ((0.0, 0.0), (0.0, 0.0))
        self._was_clipped = (False, False)
        self._n_steps = 0
        self._path = [self._positions]
        return self._observation(), {}

    def step(self, action: Mapping[str, ArrayLike]) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Move both robots, then observe and reward.

        Args:
            action: velocity command of shape ``(2,)`` for each uid. Other keys are ignored with a warning.

        Returns:
            Observation, shared reward, ``terminated`` (always False), ``truncated``, and an empty ``info``.

        Raises:
            ActionError: (a ValueError) a uid is missing, or a command is not two finite numbers; nothing has changed
                then.
            gymnasium.error.ClosedEnvironmentError: it was closed.
        """
        self._require_open("step")
        first_uid, second_uid = self.agent_uids
        first = self._command(action, first_uid)
        second = self._command(action, second_uid)
        if len(action) > _N_AGENTS:
            extra = sorted(set(action) - set(self.agent_uids))
            warnings.warn(f"step() ignores the action of unknown uids {extra}", stacklevel=2)
        velocities = _clipped(first, VELOCITY_BOUND), _clipped(second, VELOCITY_BOUND)
        self._was_clipped = velocities[0] != first, velocities[1] != second
        self._velocities = velocities
        self._last_positions = self._positions
        self._positions = _moved(self._positions[0], velocities[0]), _moved(self._positions[1], velocities[1])
        self._n_steps += 1
        if self.render_mode is not None:
            self._path.append(self._positions)
        return self._observation(), self._reward(), False, self._n_steps >= self.episode_length, {}

    # --- pictures -------------------------------------------------------------------------------------------

    # Gymnasium types render() by the wider union of all render modes.
    def render(self) -> NDArray[np.uint8] | None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Give the picture of the present state, shape ``(height, width, 3)``; None without a render mode."""
        return None if self.render_mode is None else self.picture()

    def picture(self, camera: str = RENDER_CAMERA, *, step: int | None = None) -> NDArray[np.uint8]:
        """Draw the square from above, with the ways that the robots came.

        Without a render mode the ways are not kept, and only the present state can be drawn.

        Args:
            camera: `RENDER_CAMERA`, the only one.
            step: a control step of the running episode, 0 for its start; None is the present one.

        Raises:
            ValueError: there is no such camera or step.
            ChamberEnvCompatibilityError: Pillow is not installed.
        """
        from chamber.envs._planar_picture import PlanarScene, draw_scene

        if camera != RENDER_CAMERA:
            raise ValueError(f"camera must be {RENDER_CAMERA!r}, got {camera!r}")
        last = self._n_steps if step is None else step
        if self.render_mode is None and last != self._n_steps:
            raise ValueError(f"without a render mode only the present step {self._n_steps} can be drawn, got {step!r}")
        if not 0 <= last <= self._n_steps:
            raise ValueError(f"step must be in 0..{self._n_steps}, got {step!r}")
        path = [self._positions] if self.render_mode is None else self._path[: last + 1]
        scene = PlanarScene(
            uids=self.agent_uids,
            paths=np.array(path),
            landmarks=self.landmarks,
            radius=self.robot_radius,
            half_side=POSITION_BOUND,
            time_s=last * DT,
        )
        return draw_scene(scene)

    # --- what the safety stack asks -------------------------------------------------------------------------

    @property
    def control_timestep(self) -> float:
        """Time between two steps, seconds."""
        return DT

    def build_control_models(self) -> dict[str, VelocityCommandControlModel]:
        """Give how a command moves each robot: it is reached at once and held for the whole step."""
        return {uid: VelocityCommandControlModel(uid, 2, DT, is_immediate=True) for uid in self.agent_uids}

    def build_bounds(self) -> Bounds:
        """Give the limits of a step; within one, a robot at rest can reach the velocity bound."""
        return Bounds(
            action_linf_component=VELOCITY_BOUND,
            cartesian_accel_capacity=VELOCITY_BOUND / DT,
            action_rate=2.0 * VELOCITY_BOUND,
            comm_latency_ms=0.0,
            force_limit=50.0,
        )

    def build_partner_motion(self) -> PartnerMotionBound:
        """Give the worst that a partner can do: any velocity, at once, of at most the speed of the box's corner."""
        from concerto.safety.stopping import PartnerMotionBound

        return PartnerMotionBound(max_acceleration=math.inf, max_speed=math.sqrt(2.0) * VELOCITY_BOUND)

    def build_agent_snapshots(self) -> dict[str, AgentSnapshot]:
        """Give what a sensor would: positions, and mean velocities over the last step (zero at the start).

        The mean velocity differs from the command where a wall cut the motion short.
        """
        first_uid, second_uid = self.agent_uids
        (ax, ay), (bx, by) = self._positions
        (ax0, ay0), (bx0, by0) = self._last_positions
        radius = self.robot_radius
        return {
            first_uid: AgentSnapshot.of_numbers((ax, ay, (ax - ax0) / DT, (ay - ay0) / DT), radius),
            second_uid: AgentSnapshot.of_numbers((bx, by, (bx - bx0) / DT, (by - by0) / DT), radius),
        }

    def executable_action(self, uid: str, action: FloatArray) -> FloatArray:
        """Give a command that will be carried out in full: the given one, or standing still.

        A certificate of a command holds for the whole motion. Where a wall or the box of commands would cut it short,
        the robot stands still instead.

        Args:
            uid: the robot.
            action: velocity command, shape ``(2,)``, metres per second.

        Returns:
            ``action`` itself, or fresh zeros.
        """
        x, y = self._positions[self.agent_uids.index(uid)]
        vx, vy = action.tolist()
        is_in_box = abs(vx) <= VELOCITY_BOUND and abs(vy) <= VELOCITY_BOUND
        stays_inside = abs(x + vx * DT) <= POSITION_BOUND and abs(y + vy * DT) <= POSITION_BOUND
        return action if is_in_box and stays_inside else np.zeros(2)

    # --- parts of a step ------------------------------------------------------------------------------------

    @staticmethod
    def _command(action: Mapping[str, ArrayLike], uid: str) -> _Point:
        if uid not in action:
            raise ActionError(f"step() action missing uid {uid!r}; got keys {sorted(action)}")
        try:
            command = np.asarray(action[uid], dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise ActionError(f"step() action[{uid!r}] must be 2 finite numbers: {error}") from error
        if command.shape == (2,):
            x, y = command.tolist()
            if math.isfinite(x) and math.isfinite(y):
                return x, y
        raise ActionError(f"step() action[{uid!r}] must be 2 finite numbers, got {command!r}")

    def _reward(self) -> float:
        (ax, ay), (bx, by) = self._positions
        total = 0.0
        for x, y in self._landmarks:
            # Root of the sum of squares and not `hypot`, whose last bit can differ: records hold exact numbers.
            first = math.sqrt((ax - x) * (ax - x) + (ay - y) * (ay - y))
            second = math.sqrt((bx - x) * (bx - x) + (by - y) * (by - y))
            total += min(first, second)
        return -total

    def _observation(self) -> Observation:
        (ax, ay), (bx, by) = self._positions
        (avx, avy), (bvx, bvy) = self._velocities
        (px, py), (qx, qy) = self._landmarks
        first_uid, second_uid = self.agent_uids
        first = (ax, ay, avx, avy, px - ax, py - ay, qx - ax, qy - ay, bx - ax, by - ay)
        second = (bx, by, bvx, bvy, px - bx, py - by, qx - bx, qy - by, ax - bx, ay - by)
        return {
            "agent": {
                first_uid: {"state": np.array(first, np.float32)},
                second_uid: {"state": np.array(second, np.float32)},
            }
        }


def _clipped(point: _Point, bound: float) -> _Point:
    x, y = point
    return max(-bound, min(bound, x)), max(-bound, min(bound, y))


def _moved(position: _Point, velocity: _Point) -> _Point:
    """Where a robot is after a step; walls stop each component on its own."""
    return _clipped((position[0] + velocity[0] * DT, position[1] + velocity[1] * DT), POSITION_BOUND)
