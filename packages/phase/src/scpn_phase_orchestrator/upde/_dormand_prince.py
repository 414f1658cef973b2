"""Coefficients of the embedded Runge-Kutta pair of orders 5 and 4.

Dormand and Prince 1980, J. Comput. Appl. Math. 6, table 2.
"""

import numpy as np

__all__ = ["ERROR_WEIGHTS", "STAGE_WEIGHTS"]

STAGE_WEIGHTS = np.array(
    [
        [1 / 5, 0, 0, 0, 0, 0],
        [3 / 40, 9 / 40, 0, 0, 0, 0],
        [44 / 45, -56 / 15, 32 / 9, 0, 0, 0],
        [19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729, 0, 0],
        [9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656, 0],
        [35 / 384, 0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84],
    ]
)
"""Weights of the slopes in each later stage; the last row is the solution of fifth order."""

ERROR_WEIGHTS = np.array([71 / 57600, 0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40])
"""Weights of the seven slopes in the distance between the solutions of fifth and fourth order."""
