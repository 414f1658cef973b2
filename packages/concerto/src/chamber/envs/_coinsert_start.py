"""Where the inserter starts: its ready pose, or one with the tool moved aside and turned not at all."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from chamber.agents._chain import SerialChain
from chamber.agents._chain_tables import CHAINS
from chamber.envs._panda_poses import PANDA_RETRACTED_QPOS

__all__ = ["COINSERT_HOLDER_QPOS", "COINSERT_READY_QPOS", "COINSERT_RETRACTED_QPOS", "moved_aside"]

FloatArray = NDArray[np.float64]

COINSERT_READY_QPOS = (0.0, -0.1, 0.0, -2.2, 0.0, 2.1, 0.785, 0.04, 0.04)
"""Where the inserter starts, rad and m: the tip of the peg 12 mm above the mouth of the socket."""
COINSERT_HOLDER_QPOS = (0.5, *COINSERT_READY_QPOS[1:])
COINSERT_RETRACTED_QPOS = PANDA_RETRACTED_QPOS
"""Where an arm stands that has no part in an episode, rad and m."""

_MOST_ITERATIONS = 50
_TOLERANCE = 1e-12


def moved_aside(qpos: FloatArray, offset: FloatArray) -> FloatArray:
    """Give joint positions of a Panda whose tool is moved by ``offset`` and turned as before.

    Newton's method on ``[p(q) - p*; 1/2 sum_i r_i(q) x r_i*]``, the r being the columns of the orientation, with the
    pseudo-inverse of the Jacobian, from the given positions on: the nearest solution, and no joint moves much.

    Args:
        qpos: arm and fingers, shape ``(9,)``; the fingers stay.
        offset: in the frame of the base, m, shape ``(3,)``; some centimetres.

    Raises:
        ValueError: the tool cannot get there.
    """
    chain = SerialChain(CHAINS["panda"])
    arm = qpos[: chain.n_joints].copy()
    position, rotation, _ = chain.tcp_kinematics(arm)
    target = position + offset
    for _ in range(_MOST_ITERATIONS):
        position, turned, jacobian = chain.tcp_kinematics(arm)
        turn = 0.5 * np.cross(turned, rotation, axis=0).sum(axis=1)
        error = np.concatenate([target - position, turn])
        if np.abs(error).max() < _TOLERANCE:
            return np.concatenate([arm, qpos[chain.n_joints :]])
        arm += np.linalg.pinv(jacobian) @ error
    raise ValueError(f"the tool cannot be moved by {offset.tolist()} m from here")
