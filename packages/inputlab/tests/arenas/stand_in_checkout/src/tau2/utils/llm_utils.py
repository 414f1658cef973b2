"""Stand-in language model: replies that a test puts here, per caller, in order."""

from typing import Any

from tau2.data_model.message import AssistantMessage, ToolCall

REPLIES: dict[str, list[Any]] = {"agent": [], "user": [], "judge": []}
SEEN: list[dict[str, Any]] = []


def _caller(messages: list[Any]) -> str:
    system = str(messages[0].content)
    if "<instructions>" in system:
        return "agent"
    return "user" if system.startswith("# User Simulation Guidelines") else "judge"


def generate(model: str, messages: list[Any], tools: Any = None, tool_choice: Any = None, **arguments: Any) -> Any:
    caller = _caller(messages)
    SEEN.append({"caller": caller, "model": model, "messages": [m.model_dump() for m in messages], **arguments})
    print(f"stand-in model call with {messages[-1].content}")  # a chatty library: nothing of this may be seen
    reply = REPLIES[caller].pop(0)
    if isinstance(reply, Exception):
        raise reply
    calls = [ToolCall(id=f"call-{len(SEEN)}-{i}", **call) for i, call in enumerate(reply.get("tool_calls", ()))]
    usage = reply.get("usage", {"prompt_tokens": 10, "completion_tokens": 5})
    return AssistantMessage(content=reply.get("content"), tool_calls=calls or None, cost=0.0, usage=usage)
