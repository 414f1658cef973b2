"""How many steps of retrieval a question needs, judged by rules over its words."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import NamedTuple

__all__ = ["Complexity", "Judgement", "judge_complexity"]


class Complexity(StrEnum):
    """The classes of Jeong et al. 2024."""

    NONE = "A"
    SINGLE = "B"
    MULTIPLE = "C"


class Judgement(NamedTuple):
    """A class and the rule that gave it.

    Attributes:
        complexity: the class.
        rule: name of the rule, for the trace.
    """

    complexity: Complexity
    rule: str


_TALK = re.compile(r"^\W*(hi|hello|hey|thanks|thank you|good (morning|afternoon|evening)|bye|goodbye|ok|okay)\b")
_TRANSFORM = re.compile(
    r"^\W*(please\s+)?(translate|rewrite|rephrase|paraphrase|proofread|format|calculate|compute|convert|write (a|an|me)"
    r"|make up)\b"
)
_COMPARE = re.compile(
    r"\b(compare|compared|difference between|versus|vs|both|either|which of (the )?(two|three)"
    r"|(older|younger|larger|smaller|earlier|later|more|less|higher|lower|longer|shorter|taller|bigger|cheaper|better)"
    r" (than|or))\b"
)
_NESTED = re.compile(
    r"\b(of|by|in|with|from|to) the \w+(\s\w+){0,3} (who|whom|whose|that|which|where|of the)\b"
    r"|\b(who|whose|that|which) \w+ed? the \w+ (of|that|who|which)\b"
)
_QUESTION_WORD = re.compile(r"\b(who|whom|whose|what|which|when|where|why|how)\b")
_SEVERAL_CLAUSES = re.compile(r"\band\s+(then|also|who|whom|whose|what|which|when|where|why|how)\b")


def judge_complexity(question: str) -> Judgement:
    """Judge by the first rule that holds.

    1. ``small_talk``: begins with a greeting, thanks or goodbye and has at most six words: no retrieval.
    2. ``transformation``: asks to translate, rewrite, compute ... what it contains itself: no retrieval.
    3. ``comparison``: compares two things: several steps.
    4. ``nested``: asks for something of something that is itself described: several steps.
    5. ``several_questions``: more than one question mark, or question words joined by "and": several steps.
    6. ``otherwise``: one step.

    Examples:
        >>> judge_complexity("Who wrote Middlemarch?").complexity.value
        'B'
        >>> judge_complexity("Which is older, the Prado or the Louvre? Compare both.").rule
        'comparison'
    """
    text = question.casefold()
    if _TALK.search(text) and len(text.split()) <= 6 and not _QUESTION_WORD.search(text):
        return Judgement(Complexity.NONE, "small_talk")
    if _TRANSFORM.search(text):
        return Judgement(Complexity.NONE, "transformation")
    if _COMPARE.search(text):
        return Judgement(Complexity.MULTIPLE, "comparison")
    if _NESTED.search(text):
        return Judgement(Complexity.MULTIPLE, "nested")
    if text.count("?") > 1 or _SEVERAL_CLAUSES.search(text):
        return Judgement(Complexity.MULTIPLE, "several_questions")
    return Judgement(Complexity.SINGLE, "otherwise")
