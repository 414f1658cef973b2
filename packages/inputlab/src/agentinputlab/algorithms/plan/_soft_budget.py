"""How a number of tokens is divided among the parts of a task."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from agentinputlab.contracts.errors import ValidationError

__all__ = ["SCHEDULES", "divide_tokens"]

SCHEDULES: Mapping[str, Callable[[int, int], float]] = {
    "uniform": lambda _index, _count: 1.0,
    "linear": lambda index, count: float(count - index),
    "polynomial": lambda index, count: float(count - index) ** 2,
    "exponential": lambda index, _count: 0.5**index,
    "cosine": lambda index, count: 0.5 * (1.0 + math.cos(math.pi * index / count)),
}
"""Weight of part ``index`` (from 0) of ``count``: early parts get more, because an error there spoils the rest."""


def divide_tokens(total: int, difficulties: Sequence[float], *, schedule: str) -> tuple[int, ...]:
    r"""Divide tokens in proportion to schedule weight times difficulty (Lin et al. 2025, section on budget scheduling).

    Part j gets $b_j = B\, w_j d_j / \sum_k w_k d_k$, rounded by largest remainders (earlier parts first on ties), so
    that the parts add up to the total.

    Args:
        total: tokens to divide, at least one a part.
        difficulties: how hard each part is, positive and finite.
        schedule: one of `SCHEDULES`.

    Returns:
        Tokens of each part, each at least 1.

    Raises:
        ValidationError: an argument is not as described.

    Examples:
        >>> divide_tokens(100, [1.0, 1.0, 2.0], schedule="uniform")
        (25, 25, 50)
    """
    if schedule not in SCHEDULES:
        raise ValidationError(f"schedule must be one of {', '.join(SCHEDULES)}, got {schedule!r:.80}")
    count = len(difficulties)
    if count == 0 or not all(math.isfinite(difficulty) and difficulty > 0.0 for difficulty in difficulties):
        raise ValidationError("difficulties must be one or more positive finite numbers")
    if total < count:
        raise ValidationError(f"total must be at least one token for each of {count} parts, got {total}")
    weights = [SCHEDULES[schedule](index, count) * difficulty for index, difficulty in enumerate(difficulties)]
    spare = total - count  # every part has one token before the rest is divided
    shares = [spare * weight / math.fsum(weights) for weight in weights]
    tokens = [1 + math.floor(share) for share in shares]
    by_remainder = sorted(range(count), key=lambda index: (math.floor(shares[index]) - shares[index], index))
    for index in by_remainder[: total - sum(tokens)]:
        tokens[index] += 1
    return tuple(tokens)
