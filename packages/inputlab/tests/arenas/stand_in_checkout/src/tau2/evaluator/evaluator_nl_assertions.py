"""Stand-in judge of assertions; like the original it takes an empty list of results for success."""

import json
from typing import Any

from tau2.data_model.message import SystemMessage
from tau2.utils.llm_utils import generate

DEFAULT_LLM = "somebody-elses-model"
DEFAULT_ARGUMENTS = {"temperature": 0.7}


def evaluate(messages: list[Any], assertions: list[str]) -> float:
    if not assertions:
        return 1.0
    system = SystemMessage(content=f"Expected outcomes: {assertions}")
    answer = generate(model=DEFAULT_LLM, messages=[system], **DEFAULT_ARGUMENTS)
    return float(all(row["metExpectation"] for row in json.loads(answer.content)["results"]))
