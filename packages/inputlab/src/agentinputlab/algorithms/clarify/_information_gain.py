"""How much a question tells apart: expected information gain in bits."""

from __future__ import annotations

import math
from collections.abc import Sequence

from agentinputlab.contracts.errors import ValidationError

__all__ = ["entropy_bits", "expected_information_gain", "normalized"]


def normalized(weights: Sequence[float]) -> tuple[float, ...]:
    """Give the probabilities that are proportional to weights.

    Raises:
        ValidationError: there are none, one is negative or not finite, or all are 0.
    """
    if not weights or any(not math.isfinite(weight) or weight < 0 for weight in weights) or not any(weights):
        raise ValidationError("weights must be finite numbers >= 0, at least one of them > 0")
    largest = max(weights)
    scaled = [weight / largest for weight in weights]  # neither overflow nor a sum of subnormal numbers
    total = math.fsum(scaled)
    return tuple(weight / total for weight in scaled)


def entropy_bits(probabilities: Sequence[float]) -> float:
    """Give Shannon's entropy of a distribution, in bits: ``-sum p log2 p``, with ``0 log 0 = 0``."""
    return math.fsum(-p * math.log2(p) for p in probabilities if p > 0)


def expected_information_gain(weights: Sequence[float], answers: Sequence[str]) -> float:
    """Give what one question is expected to tell about which hypothesis is true, in bits.

    ``H(h) - sum_a P(a) H(h | a)``, where hypothesis ``i`` has a prior proportional to ``weights[i]`` and answers the
    question by ``answers[i]``. As every hypothesis has one answer, this equals the entropy of the answers: 0 when all
    answer alike, ``log2 n`` when ``n`` equally likely hypotheses all answer differently. Answers are the same when
    they differ in case and spacing only.

    Args:
        weights: of the hypotheses, length ``n``.
        answers: of the hypotheses, length ``n``.

    Raises:
        ValidationError: the lengths differ, or the weights are none.

    Reference:
        Kobalczyk et al., *Active Task Disambiguation with LLMs*, ICLR 2025.

    Examples:
        >>> expected_information_gain([1, 1, 1, 1], ["yes", "yes", "no", "no"])
        1.0
    """
    if len(weights) != len(answers):
        raise ValidationError(f"answers must have one entry per weight: {len(weights)}, got {len(answers)}")
    mass: dict[str, list[float]] = {}
    for probability, answer in zip(normalized(weights), answers, strict=True):
        mass.setdefault(" ".join(answer.casefold().split()), []).append(probability)
    return max(0.0, entropy_bits([math.fsum(parts) for parts in mass.values()]))
