"""Scores of answers: word overlap, exact match and F1 of short answers, and how two arms compare.

Pure functions over texts and numbers. Statistics over many pairs are in `agentinputlab.analysis`.
"""

from agentinputlab.metrics.answers import AnswerScore, exact_match, normalise_answer, score_answer, token_f1
from agentinputlab.metrics.overlap import Overlap, jaccard, token_overlap
from agentinputlab.metrics.pairs import Harm, harm, pair_scores

__all__ = [
    "AnswerScore",
    "Harm",
    "Overlap",
    "exact_match",
    "harm",
    "jaccard",
    "normalise_answer",
    "pair_scores",
    "score_answer",
    "token_f1",
    "token_overlap",
]
