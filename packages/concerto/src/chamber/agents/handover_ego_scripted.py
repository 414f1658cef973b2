"""The scripted ego of the handover task: it corrects what it sees, and asks for a re-grasp when that is not enough."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from chamber._observations import as_array, leaf

__all__ = ["ScriptedHandoverEgo"]

_DEFAULT_ANGULAR_WINDOW_DEG = 5.0


class ScriptedHandoverEgo:
    """Places a part that it got with a lateral offset and a grasp-pose error; it has no memory and learns nothing.

    With l the lateral offset (m), e the error (deg), t the range of its translation and w that of its wrist, an action
    is ``[translate_x, translate_y, reorient_deg, regrasp]``, float64:

    * the translation is -l, shortened to length t when it is longer;
    * the wrist turns by ``clip(-e, -w, w)``;
    * a re-grasp is asked for (1.0) when what is left, ``max(0, |e| - w)``, is not below the angular window. Whether
      there is time for one is up to the environment.

    Args:
        translation_range_m: t, >= 0.
        wrist_correction_deg: w, >= 0.

    Raises:
        ValueError: a range is negative or not a number.
    """

    def __init__(self, *, translation_range_m: float = 0.10, wrist_correction_deg: float = 15.0) -> None:
        for name, value in (
            ("translation_range_m", translation_range_m),
            ("wrist_correction_deg", wrist_correction_deg),
        ):
            if not value >= 0.0:
                raise ValueError(f"{name} must be >= 0, got {value}")
        self._translation_range_m = float(translation_range_m)
        self._wrist_correction_deg = float(wrist_correction_deg)

    def reset(self, *, seed: int | None = None) -> None:
        """Do nothing: there is no state, and nothing to seed."""

    def act(self, obs: Mapping[str, object]) -> NDArray[np.float64]:
        """Give the action for a part that was presented, shape ``(4,)``.

        Args:
            obs: ``lateral_offset`` (2,), ``grasp_pose_error_deg``, and ``spec["angular_window_deg"]`` (5 when absent).

        Raises:
            RuntimeError: nothing was presented yet: an offset or error is absent or None.
            ValueError: one of them is not finite or has another shape.
        """
        offset = _finite(obs, "lateral_offset", 2)
        (error,) = _finite(obs, "grasp_pose_error_deg", 1)
        window = leaf(obs, "spec", "angular_window_deg")
        window_deg = _DEFAULT_ANGULAR_WINDOW_DEG if window is None else float(np.asarray(window))

        translation = -offset
        length = math.hypot(*translation)
        if length > self._translation_range_m:
            translation = translation * (self._translation_range_m / length)
        wrist = self._wrist_correction_deg
        left_over = max(0.0, abs(error) - wrist)
        regrasp = 1.0 if left_over >= window_deg else 0.0
        return np.array([*translation, np.clip(-error, -wrist, wrist), regrasp])


def _finite(obs: Mapping[str, object], name: str, count: int) -> NDArray[np.float64]:
    value = obs.get(name)
    if value is None:
        raise RuntimeError(f"the observation has no {name}: the ego acts after the presenter")
    array = as_array(value)
    vector = np.asarray(value if array is None else array, dtype=np.float64).ravel()
    if vector.shape != (count,) or not np.isfinite(vector).all():
        raise ValueError(f"{name} must be {count} finite numbers, got {vector.tolist()}")
    return vector
