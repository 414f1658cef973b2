"""The guard before an official judge: an answer that does not cover every assertion exactly is no verdict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, cast

from ripieno.canonical import strict_loads
from ripieno.errors import InputError
from workers.official_arenas.protocol import OfficialArenaError

__all__ = ["RetailJudgeError", "check_judge_answer"]

_MAX_ANSWER_BYTES = 2**20


class RetailJudgeError(OfficialArenaError):
    """The judge's answer does not cover the assertions; nothing is scored from it."""


def check_judge_answer(answer: object, assertions: Sequence[str]) -> None:
    """Check an answer ``{"results": [{expectedOutcome, reasoning, metExpectation}]}`` against the assertions.

    Upstream takes an empty list for success; here it is an error.

    Raises:
        RetailJudgeError: not strict JSON, another number of rows, a verdict that is no boolean, a reasoning that is no
            text, or outcomes that are not exactly the assertions.
    """
    if not isinstance(answer, str):
        raise RetailJudgeError("Retail judge gave no text")
    try:
        value = strict_loads(answer, max_bytes=_MAX_ANSWER_BYTES)
    except InputError as error:
        raise RetailJudgeError("Retail judge answer is no strict JSON") from error
    found = cast("Mapping[str, Any]", value).get("results") if isinstance(value, dict) else None
    if not isinstance(found, list) or len(cast("list[object]", found)) != len(assertions):
        raise RetailJudgeError("Retail judge must give one result per assertion")
    rows = cast("list[object]", found)
    outcomes: list[str] = []
    for item in rows:
        row = cast("Mapping[str, Any]", item) if isinstance(item, dict) else {}
        if type(row.get("metExpectation")) is not bool or not isinstance(row.get("reasoning"), str):
            raise RetailJudgeError("Retail judge results must have boolean metExpectation and text reasoning")
        if not isinstance(row.get("expectedOutcome"), str):
            raise RetailJudgeError("Retail judge results must have text expectedOutcome")
        outcomes.append(row["expectedOutcome"])
    if Counter(outcomes) != Counter(assertions):
        raise RetailJudgeError("Retail judge outcomes differ from the assertions")
