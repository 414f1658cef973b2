"""What the hand-written controllers of arms share: parameters, how observations are read, and delayed commands.

An arm gets normalised joint steps: 1 asks for a target 0.1 rad from where the joint is measured now, once per control
step of 0.05 s. Cartesian commands are metres (and radians) per control step, in the frame of the arm's base.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from chamber._observations import as_array, leaf
from chamber.agents._transforms import rotation_from_rpy
from chamber.partners._parameters import finite_floats, warn_about_unknown_keys
from chamber.partners.api import PartnerSpec
from chamber.partners.interface import PartnerBase

__all__ = [
    "CONTROL_PERIOD_S",
    "JOINT_STEP_PER_ACTION_RAD",
    "ArmPartner",
    "CommandDelay",
    "FloatArray",
    "read_rows",
]

FloatArray = NDArray[np.float64]

CONTROL_PERIOD_S = 0.05
JOINT_STEP_PER_ACTION_RAD = 0.1


class ArmPartner(PartnerBase):
    """A controller of one arm that stands somewhere in the world.

    Without the fields of the observation that it needs, a partner stands still: zeros for the arm, and the gripper as
    always. ``n_incomplete_observations`` counts these calls since the last reset; a field with fewer components than
    needed, or one that is not finite, counts as missing too.

    Args:
        spec: ``extra`` may hold the keys of ``defaults``, as text. An unknown key has no effect and gives a
            ``UserWarning``.

    Raises:
        ValueError: a parameter is no finite number, or out of its range.
    """

    defaults: ClassVar[Mapping[str, str]] = {
        "uid": "panda_wristcam",
        "base_xyz": "0,0,0",
        "base_yaw_deg": "0",
        "urdf_path": "",
    }
    """Every parameter and its default: ``uid``, the pose of the arm's base in the world, m and degrees about z, and the
    file of another chain than the built-in one."""
    units: ClassVar[Mapping[str, str]] = {"base_xyz": "m", "base_yaw_deg": "degrees"}
    """Units of parameters that have one."""

    def __init__(self, spec: PartnerSpec) -> None:
        super().__init__(spec)
        warn_about_unknown_keys(spec, self.defaults.keys())
        self._uid = self._text("uid")
        self._base_position = finite_floats("base_xyz", self._text("base_xyz"), count=3)
        yaw = math.radians(self._number("base_yaw_deg", minimum=-math.inf))
        self._base_rotation = rotation_from_rpy((0.0, 0.0, yaw))
        self.n_incomplete_observations = 0

    def reset(self, *, seed: int | None = None) -> None:
        """Forget the last episode; the seed has no effect, because nothing here is drawn."""
        self.n_incomplete_observations = 0

    def _text(self, name: str) -> str:
        return self.spec.extra.get(name, self.defaults[name])

    def _number(self, name: str, *, minimum: float = 0.0) -> float:
        number = float(finite_floats(name, self._text(name), count=1)[0])
        if number < minimum:
            raise ValueError(f"{name} must be >= {minimum:g}; got {self._text(name)!r}")
        return number


class CommandDelay:
    """Gives every command a fixed number of calls later, and zeros until then; every row has a queue of its own.

    Args:
        n_rows: number of rows.
        width: components of a command.
        n_calls: delay, >= 1.
    """

    def __init__(self, n_rows: int, *, width: int, n_calls: int) -> None:
        self._held = np.zeros((n_rows, n_calls, width), dtype=np.float32)
        self._oldest = np.zeros(n_rows, dtype=np.int64)

    def clear(self, rows: NDArray[np.int64] | slice) -> None:
        """Forget what is held back in some rows."""
        self._held[rows] = 0.0
        self._oldest[rows] = 0

    def swap(self, commands: NDArray[np.float32], rows: NDArray[np.int64]) -> None:
        """Exchange ``commands[rows]``, in place, for those of the delay earlier; the other rows are not touched."""
        n_calls = self._held.shape[1]
        oldest = self._oldest[rows]
        newest = commands[rows]
        commands[rows] = self._held[rows, oldest]
        self._held[rows, oldest] = newest
        self._oldest[rows] = (oldest + 1) % n_calls


def read_rows(obs: Mapping[str, object], *path: str, size: int, is_batch: bool) -> FloatArray | None:
    """Give the first ``size`` components of a field, array or tensor, as an array of its own, shape ``(n, size)``.

    Args:
        obs: the observation.
        path: keys that lead to the field.
        size: components needed.
        is_batch: whether the field has one row per environment; else n is 1, and of a field with more axes than one
            the first environment counts.

    Returns:
        None when the field is missing or has fewer components.
    """
    field = leaf(obs, *path)
    array = field if isinstance(field, np.ndarray) else as_array(field)
    if array is None:
        return None
    if not is_batch and (array.ndim != 2 or len(array) != 1):
        array = (array[:1] if array.ndim > 1 else array).reshape(1, -1)
    if array.ndim != 2 or array.shape[1] < size:
        return None
    return array[:, :size].astype(np.float64, order="C")
