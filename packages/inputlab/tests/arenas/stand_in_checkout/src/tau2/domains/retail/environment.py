"""Stand-in environment."""

import json
from typing import Any

from tau2.data_model.message import ToolMessage
from tau2.domains.retail.data_model import RetailDB
from tau2.domains.retail.tools import TOOLS
from tau2.domains.retail.utils import RETAIL_DB_PATH, RETAIL_DIR


class Environment:
    def __init__(self) -> None:
        self.db = RetailDB.model_validate(json.loads(RETAIL_DB_PATH.read_text()))
        self.closed = False

    def get_policy(self) -> str:
        return (RETAIL_DIR / "policy.md").read_text()

    def get_tools(self) -> list[Any]:
        return list(TOOLS)

    def close(self) -> None:
        self.closed = True

    def answer(self, call: Any) -> ToolMessage:
        order = self.db.orders.get(call.arguments.get("order_id"))
        if order is None:
            return ToolMessage(id=call.id, content="Error: Order not found", error=True)
        if call.name == "cancel_pending_order":
            order["status"] = "cancelled"
        return ToolMessage(id=call.id, content=json.dumps(order))


def get_environment() -> Environment:
    return Environment()
