"""Exact match and token F1 of short answers, as question-answering benchmarks define them."""

from __future__ import annotations

import re
import string
from collections.abc import Sequence
from typing import NamedTuple

from agentinputlab.contracts.errors import ValidationError
from agentinputlab.metrics.overlap import overlap_of_tokens

__all__ = ["AnswerScore", "exact_match", "normalise_answer", "score_answer", "token_f1"]

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)
_CLOSED_ANSWERS = frozenset({"yes", "no", "noanswer"})


class AnswerScore(NamedTuple):
    """The best score over the accepted answers.

    Attributes:
        exact_match: 1.0 if the prediction is one of them.
        f1: highest token F1.
    """

    exact_match: float
    f1: float


def normalise_answer(text: str) -> str:
    """Give an answer in lower case without punctuation, articles and double blanks (Rajpurkar et al. 2016, SQuAD).

    Examples:
        >>> normalise_answer("The  Eiffel-Tower!")
        'eiffeltower'
    """
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def exact_match(prediction: str, answer: str) -> float:
    """Give 1.0 if two answers are equal after `normalise_answer`, else 0.0."""
    return float(normalise_answer(prediction) == normalise_answer(answer))


def token_f1(prediction: str, answer: str) -> float:
    """Give the F1 of the words of two normalised answers (SQuAD).

    Yes, no and "no answer" agree wholly or not at all (Yang et al. 2018, HotpotQA).

    Examples:
        >>> token_f1("in Paris", "Paris")
        0.6666666666666666
        >>> token_f1("yes it is", "yes")
        0.0
    """
    predicted, expected = normalise_answer(prediction), normalise_answer(answer)
    if (predicted in _CLOSED_ANSWERS or expected in _CLOSED_ANSWERS) and predicted != expected:
        return 0.0
    return overlap_of_tokens(predicted.split(), expected.split()).f1


def score_answer(prediction: str, answers: Sequence[str]) -> AnswerScore:
    """Score a prediction against all accepted answers and keep the best of each score.

    Raises:
        ValidationError: there is no accepted answer.

    Examples:
        >>> score_answer("Paris, France", ["Paris", "the city of Paris"])
        AnswerScore(exact_match=0.0, f1=0.6666666666666666)
    """
    if not answers:
        raise ValidationError("answers must hold at least one accepted answer")
    return AnswerScore(
        max(exact_match(prediction, answer) for answer in answers),
        max(token_f1(prediction, answer) for answer in answers),
    )
