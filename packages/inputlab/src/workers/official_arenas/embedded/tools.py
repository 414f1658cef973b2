"""The sixteen tools of the shop: what they read and write, what they refuse, and how a model is told of them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any, cast

from workers.official_arenas.embedded.arithmetic import evaluate
from workers.official_arenas.embedded.data_model import Database
from workers.official_arenas.embedded.errors import ToolError

__all__ = [
    "CANCEL_REASONS",
    "TOOL_NAMES",
    "WRITE_TOOLS",
    "RetailTools",
    "ToolResult",
    "tool_schemas",
    "tool_schemas_json",
]

CANCEL_REASONS = ("no longer needed", "ordered by mistake")
"""The reasons for which an order can be cancelled."""

_ADDRESS = ("address1", "address2", "city", "state", "country", "zip")
_LISTS = frozenset({"item_ids", "new_item_ids"})

# Tool -> its parameters in order, and what a model reads about it.
_TOOLS: Mapping[str, tuple[tuple[str, ...], str]] = MappingProxyType(
    {
        "calculate": (("expression",), "Evaluate an expression of numbers, + - * / and parentheses."),
        "cancel_pending_order": (
            ("order_id", "reason"),
            "Cancel a pending order and refund it. The reason is 'no longer needed' or 'ordered by mistake'.",
        ),
        "exchange_delivered_order_items": (
            ("order_id", "item_ids", "new_item_ids", "payment_method_id"),
            "Exchange items of a delivered order for other variants of the same products; once per order.",
        ),
        "find_user_id_by_name_zip": (("first_name", "last_name", "zip"), "Find a user id by full name and zip code."),
        "find_user_id_by_email": (("email",), "Find a user id by email address."),
        "get_order_details": (("order_id",), "Show an order: status, items, payments, address."),
        "get_product_details": (("product_id",), "Show a product with all of its variants, prices and availability."),
        "get_item_details": (("item_id",), "Show one variant: options, price, availability."),
        "get_user_details": (("user_id",), "Show a user: address, payment methods, orders."),
        "list_all_product_types": ((), "List the names of all products with their product ids."),
        "modify_pending_order_address": (("order_id", *_ADDRESS), "Change the shipping address of a pending order."),
        "modify_pending_order_items": (
            ("order_id", "item_ids", "new_item_ids", "payment_method_id"),
            "Change items of a pending order to other variants of the same products; once per order.",
        ),
        "modify_pending_order_payment": (
            ("order_id", "payment_method_id"),
            "Pay a pending order with another payment method.",
        ),
        "modify_user_address": (("user_id", *_ADDRESS), "Change the default address of a user."),
        "return_delivered_order_items": (
            ("order_id", "item_ids", "payment_method_id"),
            "Return items of a delivered order; the refund goes to the original payment method or a gift card.",
        ),
        "transfer_to_human_agents": (("summary",), "Hand the user over to a human agent, with a summary."),
    }
)
TOOL_NAMES: tuple[str, ...] = tuple(_TOOLS)
"""All tools in the order in which a model sees them."""
WRITE_TOOLS = frozenset(
    {
        "cancel_pending_order",
        "exchange_delivered_order_items",
        "modify_pending_order_address",
        "modify_pending_order_items",
        "modify_pending_order_payment",
        "modify_user_address",
        "return_delivered_order_items",
    }
)
"""The tools that change the database."""


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a call gave.

    Attributes:
        content: text that the agent reads.
        error: whether the call was refused.
    """

    content: str
    error: bool = False


@lru_cache(maxsize=1)
def tool_schemas() -> tuple[Mapping[str, Any], ...]:
    """Give the tools as OpenAI function schemas, in order. Shared: do not change them."""
    return tuple(
        {
            "type": "function",
            "function": {
                "name": name,
                "description": description,
                "parameters": {
                    "type": "object",
                    "properties": {
                        parameter: {"type": "array", "items": {"type": "string"}}
                        if parameter in _LISTS
                        else {"type": "string"}
                        for parameter in parameters
                    },
                    "required": list(parameters),
                    "additionalProperties": False,
                },
            },
        }
        for name, (parameters, description) in _TOOLS.items()
    )


@lru_cache(maxsize=1)
def tool_schemas_json() -> str:
    """Give `tool_schemas` as one line of JSON with sorted keys."""
    return json.dumps(tool_schemas(), sort_keys=True, ensure_ascii=False)


def _json(value: object) -> str:
    return json.dumps(value)  # as tau2 writes it: other scripts as escapes


def _money(value: float) -> float:
    return round(value, 2)


class RetailTools:
    """The tools of one conversation over its database."""

    def __init__(self, database: Database) -> None:
        self._db = database
        self._tools: Mapping[str, Callable[..., str]] = {name: getattr(self, f"_{name}") for name in TOOL_NAMES}

    def call(self, name: str, arguments: Mapping[str, Any]) -> ToolResult:
        """Carry out one call; whatever is wrong with it comes back as an error text for the agent."""
        tool = self._tools.get(name)
        if tool is None:
            return ToolResult(f"Error: Tool '{name}' not found.", error=True)
        try:
            return ToolResult(tool(**_checked_arguments(name, arguments)))
        except ToolError as error:
            return ToolResult(f"Error: {error}", error=True)

    # --- reading --------------------------------------------------------------------------------------------

    def _order(self, order_id: str) -> Mapping[str, Any]:
        return _found(self._db.order(order_id), "Order")

    def _user(self, user_id: str) -> Mapping[str, Any]:
        return _found(self._db.user(user_id), "User")

    def _payment_method(self, user_id: str, method_id: str) -> Mapping[str, Any]:
        return _found(self._user(user_id)["payment_methods"].get(method_id), "Payment method")

    def _calculate(self, expression: str) -> str:
        try:
            return str(_money(evaluate(expression)))
        except ValueError as error:
            raise ToolError(str(error)) from error

    def _find_user_id_by_name_zip(self, first_name: str, last_name: str, zip: str) -> str:  # noqa: A002 - documented
        wanted = (first_name.lower(), last_name.lower(), zip)
        for user_id, user in self._db.users.items():
            name = user["name"]
            current = self._user(user_id)["address"]["zip"]
            if (name["first_name"].lower(), name["last_name"].lower(), current) == wanted:
                return user_id
        raise ToolError("User not found")

    def _find_user_id_by_email(self, email: str) -> str:
        wanted = email.lower()
        for user_id, user in self._db.users.items():
            if user["email"].lower() == wanted:
                return user_id
        raise ToolError("User not found")

    def _get_order_details(self, order_id: str) -> str:
        return _json(self._order(order_id))

    def _get_product_details(self, product_id: str) -> str:
        return _json(_found(self._db.products.get(product_id), "Product"))

    def _get_item_details(self, item_id: str) -> str:
        product = _found(self._db.product_of_item(item_id), "Item")
        return _json(product["variants"][item_id])

    def _get_user_details(self, user_id: str) -> str:
        return _json(self._user(user_id))

    def _list_all_product_types(self) -> str:
        return _json({row["name"]: key for key, row in sorted(self._db.products.items(), key=_product_name)})

    def _transfer_to_human_agents(self, summary: str) -> str:
        return "Transfer successful"

    # --- writing --------------------------------------------------------------------------------------------

    def _cancel_pending_order(self, order_id: str, reason: str) -> str:
        order = self._order(order_id)
        if order["status"] != "pending":
            raise ToolError("Non-pending order cannot be cancelled")
        if reason not in CANCEL_REASONS:
            raise ToolError("Invalid reason")
        # As tau2 does: one refund for each row, those of an earlier change of payment included.
        refunds = [_transaction("refund", row["amount"], row["payment_method_id"]) for row in order["payment_history"]]
        changed = self._db.writable_order(order_id)
        changed["status"], changed["cancel_reason"] = "cancelled", reason
        changed["payment_history"] += refunds
        for row in refunds:
            self._charge_gift_card(order["user_id"], row["payment_method_id"], -row["amount"])
        return _json(changed)

    def _exchange_delivered_order_items(
        self, order_id: str, item_ids: list[str], new_item_ids: list[str], payment_method_id: str
    ) -> str:
        order = self._order(order_id)
        if order["status"] != "delivered":
            raise ToolError("Non-delivered order cannot be exchanged")
        owned = Counter(item["item_id"] for item in order["items"])
        for item_id, count in Counter(item_ids).items():
            if count > owned[item_id]:
                raise ToolError(f"Number of {item_id} not found.")
        if len(item_ids) != len(new_item_ids):
            raise ToolError("The number of items to be exchanged should match.")
        difference = _money(self._price_difference(order, item_ids, new_item_ids))
        method = self._payment_method(order["user_id"], payment_method_id)
        if method["source"] == "gift_card" and method["balance"] < difference:
            raise ToolError("Insufficient gift card balance to pay for the price difference")
        changed = self._db.writable_order(order_id)
        changed["status"] = "exchange requested"
        changed["exchange_items"], changed["exchange_new_items"] = sorted(item_ids), sorted(new_item_ids)
        changed["exchange_payment_method_id"], changed["exchange_price_difference"] = payment_method_id, difference
        return _json(changed)

    def _modify_pending_order_items(
        self, order_id: str, item_ids: list[str], new_item_ids: list[str], payment_method_id: str
    ) -> str:
        order = self._order(order_id)
        if order["status"] != "pending":
            raise ToolError("Non-pending order cannot be modified")
        owned = Counter(item["item_id"] for item in order["items"])
        for item_id, count in Counter(item_ids).items():
            if count > owned[item_id]:
                raise ToolError(f"{item_id} not found")
        if len(item_ids) != len(new_item_ids):
            raise ToolError("The number of items to be exchanged should match")
        difference = self._price_difference(order, item_ids, new_item_ids, must_differ=True)
        method = self._payment_method(order["user_id"], payment_method_id)
        if method["source"] == "gift_card" and method["balance"] < difference:
            raise ToolError("Insufficient gift card balance to pay for the new item")
        changed = self._db.writable_order(order_id)
        for old, new in zip(item_ids, new_item_ids, strict=True):
            item = next(row for row in changed["items"] if row["item_id"] == old)
            variant = self._variant(item["product_id"], new)
            item.update(item_id=new, price=variant["price"], options=dict(variant["options"]))
        kind = "payment" if difference > 0 else "refund"
        changed["payment_history"].append(_transaction(kind, float(abs(difference)), payment_method_id))
        self._charge_gift_card(order["user_id"], payment_method_id, difference)
        changed["status"] = "pending (item modified)"
        return _json(changed)

    def _modify_pending_order_payment(self, order_id: str, payment_method_id: str) -> str:
        order = self._order(order_id)
        if "pending" not in order["status"]:
            raise ToolError("Non-pending order cannot be modified")
        method = self._payment_method(order["user_id"], payment_method_id)
        history = order["payment_history"]
        if len(history) != 1 or history[0]["transaction_type"] != "payment":
            raise ToolError("There should be exactly one payment for a pending order")
        amount, old = history[0]["amount"], history[0]["payment_method_id"]
        if old == payment_method_id:
            raise ToolError("The new payment method should be different from the current one")
        if method["source"] == "gift_card" and method["balance"] < amount:
            raise ToolError("Insufficient gift card balance to pay for the order")
        changed = self._db.writable_order(order_id)
        changed["payment_history"] += [
            _transaction("payment", amount, payment_method_id),
            _transaction("refund", amount, old),
        ]
        self._charge_gift_card(order["user_id"], payment_method_id, amount)
        self._charge_gift_card(order["user_id"], old, -amount)
        return _json(changed)

    def _modify_pending_order_address(self, order_id: str, **address: str) -> str:
        if "pending" not in self._order(order_id)["status"]:
            raise ToolError("Non-pending order cannot be modified")
        changed = self._db.writable_order(order_id)
        changed["address"] = {name: address[name] for name in changed["address"]}  # in the order of the shop
        return _json(changed)

    def _modify_user_address(self, user_id: str, **address: str) -> str:
        self._user(user_id)
        changed = self._db.writable_user(user_id)
        changed["address"] = {name: address[name] for name in changed["address"]}  # in the order of the shop
        return _json(changed)

    def _return_delivered_order_items(self, order_id: str, item_ids: list[str], payment_method_id: str) -> str:
        order = self._order(order_id)
        if order["status"] != "delivered":
            raise ToolError("Non-delivered order cannot be returned")
        method = self._payment_method(order["user_id"], payment_method_id)
        if method["source"] != "gift_card" and payment_method_id != order["payment_history"][0]["payment_method_id"]:
            raise ToolError("Payment method should be the original payment method")
        owned = Counter(item["item_id"] for item in order["items"])
        if any(count > owned[item_id] for item_id, count in Counter(item_ids).items()):
            raise ToolError("Some item not found")
        changed = self._db.writable_order(order_id)
        changed["status"] = "return requested"
        changed["return_items"], changed["return_payment_method_id"] = sorted(item_ids), payment_method_id
        return _json(changed)

    # --- shared ---------------------------------------------------------------------------------------------

    def _variant(self, product_id: str, item_id: str) -> Mapping[str, Any]:
        variants = _found(self._db.products.get(product_id), "Product")["variants"]
        variant = _found(variants.get(item_id), "Variant")
        if not variant["available"]:
            raise ToolError(f"New item {item_id} not found or available")
        return variant

    def _price_difference(
        self,
        order: Mapping[str, Any],
        item_ids: Sequence[str],
        new_item_ids: Sequence[str],
        *,
        must_differ: bool = False,
    ) -> float:
        """Give what the new items cost more, not rounded; pairs are checked in their order, as tau2 does."""
        difference: float = 0  # without items it stays a whole number
        for old, new in zip(item_ids, new_item_ids, strict=True):
            if must_differ and old == new:
                raise ToolError("The new item id should be different from the old item id")
            item = next(row for row in order["items"] if row["item_id"] == old)
            difference += self._variant(item["product_id"], new)["price"] - item["price"]
        return difference

    def _charge_gift_card(self, user_id: str, method_id: str, amount: float) -> None:
        if self._payment_method(user_id, method_id)["source"] == "gift_card":
            card = self._db.writable_user(user_id)["payment_methods"][method_id]
            card["balance"] = _money(card["balance"] - amount)


def _found(row: Mapping[str, Any] | None, what: str) -> Mapping[str, Any]:
    if row is None:
        raise ToolError(f"{what} not found")
    return row


def _product_name(entry: tuple[str, Mapping[str, Any]]) -> str:
    return entry[1]["name"]


def _transaction(kind: str, amount: float, method_id: str) -> dict[str, Any]:
    return {"transaction_type": kind, "amount": amount, "payment_method_id": method_id}


def _checked_arguments(name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    parameters = _TOOLS[name][0]
    if set(arguments) != set(parameters):
        raise ToolError(f"{name} takes exactly the arguments {', '.join(parameters) or 'none'}")
    for parameter in parameters:
        value = arguments[parameter]
        if parameter not in _LISTS:
            if not isinstance(value, str):
                raise ToolError(f"{parameter} must be text")
        elif not isinstance(value, list) or not all(isinstance(item, str) for item in cast("list[object]", value)):
            raise ToolError(f"{parameter} must be a list of texts")
    return {parameter: arguments[parameter] for parameter in parameters}
