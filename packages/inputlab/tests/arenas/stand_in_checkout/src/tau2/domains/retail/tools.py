"""Stand-in tools: one that reads, one that writes."""

from typing import Any


class Tool:
    def __init__(self, name: str) -> None:
        self.name = name

    @property
    def openai_schema(self) -> dict[str, Any]:
        return {
            "type": "function",
            "function": {
                "name": self.name,
                "description": "An order.",
                "parameters": {"type": "object", "properties": {"order_id": {"type": "string"}}},
            },
        }


TOOLS = (Tool("get_order_details"), Tool("cancel_pending_order"))
