"""Which token comes next."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ripieno.randomness import derive_substream

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Chooser"]


class Chooser:
    """Take the likeliest token at temperature 0, else draw one.

    Args:
        temperature: divides the scores; 0 draws nothing.
        top_p: draw from the smallest set of likeliest tokens that has this probability (Holtzman et al. 2020).
        seed: of the draws.
    """

    def __init__(self, temperature: float, *, top_p: float, seed: int) -> None:
        self._temperature = temperature
        self._top_p = top_p
        self._draws = derive_substream("agentinputlab.smollm2", root_seed=seed).default_rng() if temperature else None

    def __call__(self, logits: NDArray[np.float32]) -> int:
        """Give the token chosen by these scores; of equal ones the first."""
        if self._draws is None:
            return int(np.argmax(logits))
        scaled = logits.astype(np.float64) / self._temperature
        order = np.argsort(-scaled, kind="stable")
        weights = np.exp(scaled[order] - scaled[order[0]])
        sums = np.cumsum(weights / weights.sum())
        count = int(np.searchsorted(sums, self._top_p)) + 1
        place = np.searchsorted(sums[:count], self._draws.random() * sums[min(count, len(sums)) - 1], side="right")
        return int(order[min(int(place), count - 1, len(order) - 1)])
