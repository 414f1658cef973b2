"""How many pairs an experiment needs before its exact test can see an effect."""

from __future__ import annotations

from agentinputlab.contracts._checks import whole
from agentinputlab.contracts.errors import ValidationError

__all__ = ["MAX_PAIRS", "exact_power", "required_pairs"]

MAX_PAIRS = 20_000
"""More pairs than anybody plans for; the search ends there."""


def exact_power(pairs: int, *, helps: float, hurts: float, alpha: float = 0.05) -> float:
    """Give the chance that the exact two-sided sign (McNemar) test rejects, over all ways the pairs can fall.

    The number of differing pairs is binomial with probability ``helps + hurts``; given it, wins are binomial with
    probability ``helps / (helps + hurts)``. The power is the sum over both, without approximation.

    Args:
        pairs: paired tasks, at least 1.
        helps: share of tasks that fail with the original input and succeed with the changed one.
        hurts: share of tasks the other way round.
        alpha: level of the test.

    Raises:
        ValidationError: a number is outside its range.

    Examples:
        >>> round(exact_power(40, helps=0.3, hurts=0.05), 3)
        0.741
    """
    _check(helps, hurts, alpha)
    if whole(pairs, "pairs", minimum=1) > MAX_PAIRS:
        raise ValidationError(f"pairs must lie between 1 and {MAX_PAIRS}, got {pairs}")
    if helps + hurts == 0.0:
        return 0.0
    import numpy as np
    from scipy.stats import binom

    # Outside this range of differing pairs lies less than 1e-12 of the probability.
    low, high = (int(bound) for bound in binom.interval(1.0 - 1e-12, pairs, helps + hurts))
    differing = np.arange(max(low, 0), min(high, pairs) + 1)
    # The two-sided p-value of k <= n/2 is twice the lower tail; `critical` is the largest k that rejects, -1 for none.
    critical = binom.ppf(alpha / 2.0, differing, 0.5)
    critical = np.where(binom.cdf(critical, differing, 0.5) <= alpha / 2.0, critical, critical - 1.0)
    share = helps / (helps + hurts)
    rejects = binom.cdf(critical, differing, 1.0 - share) + binom.cdf(critical, differing, share)
    return float(np.clip(np.sum(binom.pmf(differing, pairs, helps + hurts) * rejects), 0.0, 1.0))


def required_pairs(*, helps: float, hurts: float, power: float = 0.8, alpha: float = 0.05) -> int:
    """Give the smallest number of pairs from which on the exact power stays at or above the wanted one.

    The exact power saw-tooths as pairs are added; the number given is the first with enough power whose next ten
    successors have enough too.

    Raises:
        ValidationError: a number is outside its range, helps equals hurts, or more than `MAX_PAIRS` are needed.

    Examples:
        >>> required_pairs(helps=0.3, hurts=0.05)
        45
    """
    _check(helps, hurts, alpha)
    if not 0.0 < power < 1.0:
        raise ValidationError(f"power must lie between 0 and 1, got {power!r}")
    if helps == hurts:
        raise ValidationError(
            f"helps and hurts must differ, both are {helps!r}: no number of tasks can tell them apart"
        )

    def is_enough(pairs: int) -> bool:
        return exact_power(pairs, helps=helps, hurts=hurts, alpha=alpha) >= power

    step = 1
    while not is_enough(step):
        if step == MAX_PAIRS:
            raise ValidationError(
                f"more than {MAX_PAIRS} pairs are needed to see helps={helps!r} against hurts={hurts!r}"
            )
        step = min(2 * step, MAX_PAIRS)
    low, high = step // 2, step
    while high - low > 1:  # near enough to walk from
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    pairs = max(1, high - 12)
    while not all(is_enough(pairs + offset) for offset in range(11) if pairs + offset <= MAX_PAIRS):
        pairs += 1
    return pairs


def _check(helps: float, hurts: float, alpha: float) -> None:
    for name, value in (("helps", helps), ("hurts", hurts)):
        if not 0.0 <= value <= 1.0:
            raise ValidationError(f"{name} must lie between 0 and 1, got {value!r}")
    if helps + hurts > 1.0:
        raise ValidationError(f"helps and hurts must not exceed 1 together, got {helps!r} and {hurts!r}")
    if not 0.0 < alpha < 1.0:
        raise ValidationError(f"alpha must lie between 0 and 1, got {alpha!r}")
