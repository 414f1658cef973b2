"""Stand-in user."""

from typing import Any

from pydantic import BaseModel

from tau2.data_model.message import SystemMessage, UserMessage
from tau2.utils.llm_utils import generate


class UserState(BaseModel):
    messages: list[Any]


class UserSimulator:
    tools = None

    def __init__(self, llm: str, llm_args: dict[str, Any]) -> None:
        self.llm, self.llm_args = llm, dict(llm_args)

    def get_init_state(self, message_history: list[Any] | None = None) -> UserState:
        return UserState(messages=list(message_history or ()))

    @classmethod
    def is_stop(cls, message: Any) -> bool:
        return any(token in (message.content or "") for token in ("###STOP###", "###TRANSFER###", "###OUT-OF-SCOPE###"))

    def set_seed(self, seed: int) -> None:
        self.llm_args["seed"] = seed

    def generate_next_message(self, message: Any, state: UserState) -> tuple[Any, UserState]:
        state.messages.append(message)
        system = SystemMessage(content="# User Simulation Guidelines")
        answer = generate(model=self.llm, messages=[system, *state.messages], **self.llm_args)
        said = UserMessage(content=answer.content, cost=0.0, usage=answer.usage)
        state.messages.append(said)
        return said, state
