"""The tools of the embedded retail arena beside those of an installed tau2, call by call, on one database each."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from workers.official_arenas.embedded.data_model import Database, RetailData
from workers.official_arenas.embedded.tools import TOOL_NAMES, RetailTools, tool_schemas

PARAMETERS = {row["function"]["name"]: row["function"]["parameters"]["properties"] for row in tool_schemas()}
VARIANT = "modify_pending_order_items: every item gets its own variant; tau2 gives all of them the last one"
PARSER = "calculate: a parser in place of Python's eval, so what is no plain arithmetic is refused in other words"
TYPES = "arguments of another name or type are refused in our words; tau2 leaves them to Python"
ABSENT = "a tool that this tau2 does not have"


@dataclass
class Tally:
    """What was compared and what differed."""

    calls: int = 0
    refused: int = 0
    documented: Counter[str] = field(default_factory=Counter[str])
    differences: list[str] = field(default_factory=list[str])

    def differs(self, what: str, ours: object, theirs: object) -> None:
        """Note a difference that nothing explains."""
        self.differences.append(f"{what}\n  ours:  {str(ours)[:600]}\n  tau2's: {str(theirs)[:600]}")


def whole(database: Database, data: RetailData) -> dict[str, Any]:
    """Give our database as plain JSON values."""
    return {
        "products": dict(data.products),
        "users": {key: database.user(key) for key in data.users},
        "orders": {key: database.order(key) for key in data.orders},
    }


class Pair:
    """Our tools and tau2's, each on a fresh database.

    Args:
        data: our database.
        environment: tau2's retail environment over the same data.
        tally: gets what differs.
    """

    def __init__(self, data: RetailData, environment: Any, tally: Tally) -> None:
        from tau2.data_model.message import ToolCall

        self._call_class = ToolCall
        self.data, self.database = data, Database(data)
        self.tools, self.environment, self.tally = RetailTools(self.database), environment, tally
        self.theirs = environment.tools.db
        self._has = {tool.name for tool in environment.get_tools()}

    def call(self, name: str, arguments: Mapping[str, Any]) -> None:
        """Make one call on both sides and compare the texts and the rows that it can have touched."""
        what = f"{name}({json.dumps(arguments)})"
        order_id, owner = self._rows(arguments)
        before = self._touched(order_id, owner)
        kept = self._copies(order_id, owner)
        ours = self.tools.call(name, arguments)
        answer = self.environment.get_response(self._call_class(id="1", name=name, arguments=dict(arguments)))
        self.tally.calls += 1
        self.tally.refused += ours.error
        reason = self._explained(name, arguments, ours, answer)
        if reason in {TYPES, ABSENT}:
            self.tally.documented[reason] += 1
            self._restore(kept)
            if (reason == TYPES and not ours.error) or self._touched(order_id, owner)[0] != before[0]:
                self.tally.differs(f"{what} should have been refused", ours.content, answer.content)
            return
        if reason == VARIANT:
            self.tally.documented[reason] += 1
            self._check_variants(what, order_id, arguments, json.loads(ours.content), json.loads(answer.content))
        elif reason == PARSER:
            self.tally.documented[reason] += 1
        elif (ours.content, ours.error) != (answer.content, answer.error):
            self.tally.differs(what, ours.content, answer.content)
        after = self._touched(order_id, owner)
        if after[0] != after[1]:
            self.tally.differs(f"the rows after {what}", *after)

    def check_database(self, where: str) -> None:
        """Compare both databases whole."""
        ours, theirs = whole(self.database, self.data), self.theirs.model_dump()
        if json.dumps(ours) != json.dumps(theirs):
            rows = [(table, key) for table in ours for key in ours[table]]
            places = [f"{table}.{key}" for table, key in rows if ours[table][key] != theirs[table][key]]
            self.tally.differs(f"the database {where}", places[:10], "another content there")

    def _rows(self, arguments: Mapping[str, Any]) -> tuple[str | None, str | None]:
        order_id, user_id = arguments.get("order_id"), arguments.get("user_id")
        if isinstance(order_id, str) and order_id in self.data.orders:
            return order_id, self.data.orders[order_id]["user_id"]
        return None, user_id if isinstance(user_id, str) and user_id in self.data.users else None

    def _touched(self, order_id: str | None, owner: str | None) -> tuple[str, str]:
        ours = [order_id and self.database.order(order_id), owner and self.database.user(owner)]
        rows = [order_id and self.theirs.orders[order_id], owner and self.theirs.users[owner]]
        return json.dumps(ours), json.dumps([row and row.model_dump() for row in rows])

    def _copies(self, order_id: str | None, owner: str | None) -> list[tuple[dict[str, Any], str, Any]]:
        rows = ((self.theirs.orders, order_id), (self.theirs.users, owner))
        return [(table, key, table[key].model_copy(deep=True)) for table, key in rows if key]

    def _restore(self, kept: list[tuple[dict[str, Any], str, Any]]) -> None:
        for table, key, row in kept:
            table[key] = row

    def _explained(self, name: str, arguments: Mapping[str, Any], ours: Any, answer: Any) -> str | None:
        """Give the documented reason for which the two may differ here, or None."""
        if name in TOOL_NAMES and name not in self._has:
            return ABSENT
        if name in TOOL_NAMES and not is_well_typed(name, arguments):
            return TYPES
        if name == "calculate" and ours.error and ours.content != answer.content:
            return PARSER
        if name == "modify_pending_order_items" and not ours.error and not answer.error:
            return VARIANT if len(set(arguments["new_item_ids"])) > 1 else None
        return None

    def _check_variants(
        self, what: str, order_id: str | None, arguments: Mapping[str, Any], ours: Any, theirs: Any
    ) -> None:
        """Every changed item must be its own variant here and the last one there; all else must be the same."""
        last = arguments["new_item_ids"][-1]
        for row, other in zip(ours["items"], theirs["items"], strict=True):
            if row["item_id"] in arguments["new_item_ids"] and row != other:
                variants = self.data.products[row["product_id"]]["variants"]
                own, product = variants[row["item_id"]], self.database.product_of_item(last)
                wrong = (product or {})["variants"][last]
                expected = ((own["price"], own["options"]), (wrong["price"], wrong["options"]))
                if expected != ((row["price"], row["options"]), (other["price"], other["options"])):
                    self.tally.differs(f"{what}, item {row['item_id']}", row, other)
                other.update(price=row["price"], options=row["options"])
        if json.dumps(ours) != json.dumps(theirs):
            self.tally.differs(what, ours, theirs)
        for item, row in zip(self.theirs.orders[order_id].items, ours["items"], strict=True):
            item.price, item.options = row["price"], dict(row["options"])


def is_well_typed(name: str, arguments: Mapping[str, Any]) -> bool:
    """Tell whether the arguments are those of the tool's schema."""
    wanted = PARAMETERS[name]
    if set(arguments) != set(wanted):
        return False
    for parameter, schema in wanted.items():
        value = arguments[parameter]
        if schema["type"] == "string" and not isinstance(value, str):
            return False
        if schema["type"] == "array" and not (isinstance(value, list) and all(isinstance(x, str) for x in value)):
            return False
    return True


# --- random calls -------------------------------------------------------------------------------------------

_OTHER_VALUES = (None, True, 0, -3, 2.5, "", [], ["x"], [1], {}, {"a": 1}, "#W0000000")
_TEXTS = ("", " ", "x", "Rue de l'Église 5", "東京", "a\nb", 'quo"te', "0" * 30, "\\", "😀")


class Caller:
    """Draws calls that are mostly possible: about orders, items and payment methods that fit together or nearly do."""

    def __init__(self, data: RetailData, draw: random.Random) -> None:
        self._data, self._draw = data, draw
        self._orders, self._users, self._products = list(data.orders), list(data.users), list(data.products)
        self._items = list(data.product_of_item)
        self._focus: list[str] = []

    def chain(self, length: int) -> Iterator[tuple[str, dict[str, Any]]]:
        """Give calls about few orders, so that one call meets what an earlier one left."""
        self._focus = self._draw.sample(self._orders, 12)
        for _ in range(length):
            name = self._draw.choice(TOOL_NAMES)
            order = self._data.orders[self._draw.choice(self._focus)]
            arguments = {parameter: self._value(parameter, order) for parameter in PARAMETERS[name]}
            if "new_item_ids" in arguments:
                arguments["new_item_ids"] = self._replacements(order, arguments["item_ids"])
            yield self._spoiled(name, arguments)

    def _one_in(self, number: int) -> bool:
        return self._draw.randrange(number) == 0

    def _value(self, parameter: str, order: Mapping[str, Any]) -> Any:
        draw, user = self._draw, self._data.users[order["user_id"]]
        if self._one_in(25):
            return draw.choice(_TEXTS)
        if parameter in {"order_id", "user_id"}:
            return order[parameter]
        if parameter in {"item_ids", "new_item_ids"}:
            return self._owned(order)
        if parameter == "expression":
            return self._expression()
        others = self._data.users[draw.choice(self._users)]["payment_methods"]
        possible = {
            "email": [user["email"], user["email"].upper(), " " + user["email"]],
            "first_name": [user["name"]["first_name"].upper(), user["name"]["first_name"]],
            "last_name": [user["name"]["last_name"].lower(), user["name"]["last_name"]],
            "payment_method_id": [*user["payment_methods"], *user["payment_methods"], *others],
            "item_id": self._items,
            "product_id": self._products,
            "reason": ["no longer needed", "ordered by mistake", "No longer needed", "too dear"],
        }
        return draw.choice(possible.get(parameter) or [user["address"].get(parameter, "x"), draw.choice(_TEXTS)])

    def _owned(self, order: Mapping[str, Any]) -> list[str]:
        draw = self._draw
        owned = [item["item_id"] for item in order["items"]]
        some = draw.sample(owned, draw.randint(0 if self._one_in(10) else 1, len(owned)))
        if self._one_in(12):
            some.append(draw.choice([*owned, draw.choice(self._items)]))
        return some

    def _replacements(self, order: Mapping[str, Any], item_ids: object) -> list[str]:
        """Variants of the same products, mostly to be had; some not, some of other products, some the same."""
        draw, chosen = self._draw, []
        for item_id in item_ids if isinstance(item_ids, list) else []:
            product = self._data.products.get(self._data.product_of_item.get(item_id, ""), None)
            variants = list(product["variants"].values()) if product else []
            there = [row["item_id"] for row in variants if row["available"] and row["item_id"] != item_id]
            any_of_them = [row["item_id"] for row in variants] or self._items
            chosen.append(draw.choice(any_of_them if self._one_in(8) or not there else there))
            if self._one_in(30):
                chosen[-1] = draw.choice([*self._items, *_TEXTS])
        if self._one_in(20):
            chosen = chosen[1:] if self._one_in(2) else [*chosen, *chosen[:1]]
        return chosen

    def _expression(self) -> str:
        draw = self._draw
        if self._one_in(3):
            return "".join(draw.choice("0123456789+-*/(). a") for _ in range(draw.randrange(12)))

        def part(depth: int) -> str:
            if depth == 0 or self._one_in(3):
                return draw.choice([str(draw.randrange(1000)), f"{draw.uniform(0, 500):.2f}", f"-{draw.randrange(9)}"])
            text = f"{part(depth - 1)} {draw.choice('+-*/')} {part(depth - 1)}"
            return f"({text})" if self._one_in(2) else text

        return part(draw.randrange(4))

    def _spoiled(self, name: str, arguments: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        draw = self._draw
        kind = draw.randrange(40)
        if kind == 0:
            return draw.choice(["launch_rocket", "", "get_order", "Calculate"]), arguments
        if kind == 1 and arguments:
            del arguments[draw.choice(list(arguments))]
        elif kind == 2:
            arguments["surprise"] = draw.choice(_OTHER_VALUES)
        elif kind in {3, 4, 5} and arguments:
            arguments[draw.choice(list(arguments))] = draw.choice(_OTHER_VALUES)
        return name, arguments
