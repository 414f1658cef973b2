"""Stand-in agent."""

from typing import Any

from pydantic import BaseModel

from tau2.data_model.message import MultiToolMessage, SystemMessage
from tau2.utils.llm_utils import generate


class LLMAgentState(BaseModel):
    system_messages: list[Any]
    messages: list[Any]


class LLMAgent:
    def __init__(self, tools: list[Any], domain_policy: str, llm: str, llm_args: dict[str, Any] | None = None) -> None:
        self.tools, self.domain_policy, self.llm, self.llm_args = tools, domain_policy, llm, dict(llm_args or {})

    @property
    def system_prompt(self) -> str:
        return f"<instructions>\nHelp.\n</instructions>\n<policy>\n{self.domain_policy}\n</policy>"

    def get_init_state(self, message_history: list[Any] | None = None) -> LLMAgentState:
        return LLMAgentState(
            system_messages=[SystemMessage(content=self.system_prompt)], messages=list(message_history or ())
        )

    @classmethod
    def is_stop(cls, message: Any) -> bool:
        return not message

    def set_seed(self, seed: int) -> None:
        self.llm_args["seed"] = seed

    def generate_next_message(self, message: Any, state: LLMAgentState) -> tuple[Any, LLMAgentState]:
        state.messages.extend(message.tool_messages if isinstance(message, MultiToolMessage) else [message])
        answer = generate(
            model=self.llm, messages=state.system_messages + state.messages, tools=self.tools, **self.llm_args
        )
        state.messages.append(answer)
        return answer, state
