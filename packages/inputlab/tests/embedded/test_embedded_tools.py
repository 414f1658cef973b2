"""Every tool: what it changes, and what it refuses in which words."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.official_arenas.embedded.arithmetic import MAX_CHARACTERS, evaluate
from workers.official_arenas.embedded.data_model import Database, load_retail_data
from workers.official_arenas.embedded.tools import TOOL_NAMES, RetailTools, tool_schemas

ADDRESS = {"address1": "1 A St", "address2": "", "city": "B", "state": "CA", "country": "USA", "zip": "90000"}


def item(item_id: str, color: str, price: float) -> dict[str, Any]:
    return {"name": "Cup", "product_id": "7", "item_id": item_id, "price": price, "options": {"color": color}}


def variant(item_id: str, color: str, price: float, *, available: bool = True) -> dict[str, Any]:
    return {"item_id": item_id, "options": {"color": color}, "available": available, "price": price}


def order(order_id: str, status: str, *items: dict[str, Any], paid: str = "credit_card_1") -> dict[str, Any]:
    total = round(sum(row["price"] for row in items), 2)
    return {
        "order_id": order_id,
        "user_id": "ann_lee_1",
        "address": ADDRESS,
        "items": list(items),
        "status": status,
        "fulfillments": [],
        "payment_history": [{"transaction_type": "payment", "amount": total, "payment_method_id": paid}],
    }


@pytest.fixture
def tools() -> RetailTools:
    variants = [
        variant("11", "red", 10.0),
        variant("12", "blue", 12.5),
        variant("13", "green", 9.25),
        variant("14", "gold", 99.0),
        variant("15", "grey", 10.0, available=False),
        variant("16", "pink", 10.23),
    ]
    user = {
        "user_id": "ann_lee_1",
        "name": {"first_name": "Ann", "last_name": "Lee"},
        "address": ADDRESS,
        "email": "Ann@example.com",
        "payment_methods": {
            "credit_card_1": {"source": "credit_card", "id": "credit_card_1", "brand": "Visa", "last_four": "1234"},
            "gift_card_1": {"source": "gift_card", "id": "gift_card_1", "balance": 15.1},
            "paypal_1": {"source": "paypal", "id": "paypal_1"},
        },
        "orders": ["#W1", "#W2", "#W3", "#W4", "#W5"],
    }
    orders = [
        order("#W1", "pending", item("11", "red", 10.0), item("12", "blue", 12.5)),
        order("#W2", "delivered", item("11", "red", 10.0), item("11", "red", 10.0)),
        order("#W3", "pending", item("11", "red", 10.0), paid="gift_card_1"),
        order("#W4", "processed", item("11", "red", 10.0)),
        order("#W5", "pending", item("14", "gold", 99.0)),
    ]
    data = load_retail_data(
        {
            "products": {
                "7": {"name": "Cup", "product_id": "7", "variants": {row["item_id"]: row for row in variants}}
            },
            "users": {"ann_lee_1": user},
            "orders": {row["order_id"]: row for row in orders},
        }
    )
    return RetailTools(Database(data))


def done(tools: RetailTools, name: str, **arguments: Any) -> Any:
    result = tools.call(name, arguments)
    assert not result.error, result.content
    return json.loads(result.content)


def refused(tools: RetailTools, name: str, **arguments: Any) -> str:
    before = tools._db.content_hash()
    result = tools.call(name, arguments)
    assert result.error
    assert tools._db.content_hash() == before, "a refused call changed something"
    return result.content.removeprefix("Error: ")


def balance(tools: RetailTools) -> float:
    return done(tools, "get_user_details", user_id="ann_lee_1")["payment_methods"]["gift_card_1"]["balance"]


def test_sixteen_tools_in_their_order() -> None:
    assert TOOL_NAMES == (
        "calculate",
        "cancel_pending_order",
        "exchange_delivered_order_items",
        "find_user_id_by_name_zip",
        "find_user_id_by_email",
        "get_order_details",
        "get_product_details",
        "get_item_details",
        "get_user_details",
        "list_all_product_types",
        "modify_pending_order_address",
        "modify_pending_order_items",
        "modify_pending_order_payment",
        "modify_user_address",
        "return_delivered_order_items",
        "transfer_to_human_agents",
    )
    schemas = [row["function"] for row in tool_schemas()]
    assert [row["name"] for row in schemas] == list(TOOL_NAMES)
    assert schemas[2]["parameters"]["required"] == ["order_id", "item_ids", "new_item_ids", "payment_method_id"]
    assert schemas[10]["parameters"]["required"] == [
        "order_id", "address1", "address2", "city", "state", "country", "zip",
    ]  # fmt: skip


def test_reading(tools: RetailTools) -> None:
    assert tools.call("find_user_id_by_email", {"email": "ANN@example.com"}).content == "ann_lee_1"
    found = tools.call("find_user_id_by_name_zip", {"first_name": "ann", "last_name": "LEE", "zip": "90000"})
    assert found.content == "ann_lee_1"
    assert done(tools, "get_order_details", order_id="#W1")["status"] == "pending"
    assert done(tools, "get_item_details", item_id="12")["price"] == 12.5
    assert set(done(tools, "get_product_details", product_id="7")["variants"]) == {"11", "12", "13", "14", "15", "16"}
    assert done(tools, "list_all_product_types") == {"Cup": "7"}
    assert tools.call("transfer_to_human_agents", {"summary": "x"}).content == "Transfer successful"
    assert tools.call("calculate", {"expression": "(1 + 2) * 3.333"}).content == "10.0"


def test_what_does_not_exist_is_not_found(tools: RetailTools) -> None:
    assert refused(tools, "get_order_details", order_id="#W9") == "Order not found"
    assert refused(tools, "get_user_details", user_id="x") == "User not found"
    assert refused(tools, "find_user_id_by_email", email="x") == "User not found"
    assert refused(tools, "find_user_id_by_name_zip", first_name="Ann", last_name="Lee", zip="1") == "User not found"
    assert refused(tools, "get_product_details", product_id="8") == "Product not found"
    assert refused(tools, "get_item_details", item_id="99") == "Item not found"
    assert refused(tools, "launch_rocket") == "Tool 'launch_rocket' not found."


def test_results_are_json_in_ascii_whatever_was_written(tools: RetailTools) -> None:
    result = tools.call("modify_user_address", {"user_id": "ann_lee_1", **ADDRESS, "city": "Orléans"})
    assert r'"city": "Orl\u00e9ans"' in result.content
    assert json.loads(result.content)["address"]["city"] == "Orléans"


def test_cancel_refunds_every_payment(tools: RetailTools) -> None:
    changed = done(tools, "cancel_pending_order", order_id="#W1", reason="no longer needed")
    assert (changed["status"], changed["cancel_reason"]) == ("cancelled", "no longer needed")
    refund = {"transaction_type": "refund", "amount": 22.5, "payment_method_id": "credit_card_1"}
    assert changed["payment_history"][1:] == [refund]
    done(tools, "cancel_pending_order", order_id="#W3", reason="ordered by mistake")
    assert balance(tools) == 25.1, "a gift card is refunded at once"


def test_cancel_after_a_change_of_payment_refunds_every_row_of_the_history_as_tau2_does(tools: RetailTools) -> None:
    done(tools, "modify_pending_order_payment", order_id="#W1", payment_method_id="paypal_1")
    changed = done(tools, "cancel_pending_order", order_id="#W1", reason="no longer needed")
    refunds = changed["payment_history"][3:]
    assert [row["payment_method_id"] for row in refunds] == ["credit_card_1", "paypal_1", "credit_card_1"]
    assert {(row["transaction_type"], row["amount"]) for row in refunds} == {("refund", 22.5)}


def test_cancel_refusals(tools: RetailTools) -> None:
    cannot = "Non-pending order cannot be cancelled"
    assert refused(tools, "cancel_pending_order", order_id="#W2", reason="no longer needed") == cannot
    assert refused(tools, "cancel_pending_order", order_id="#W1", reason="cheaper elsewhere") == "Invalid reason"


def change(order_id: str, old: list[str], new: list[str], method: str) -> dict[str, Any]:
    return {"order_id": order_id, "item_ids": old, "new_item_ids": new, "payment_method_id": method}


def test_exchange_records_a_sorted_request_and_the_difference(tools: RetailTools) -> None:
    arguments = change("#W2", ["11", "11"], ["13", "12"], "gift_card_1")
    changed = done(tools, "exchange_delivered_order_items", **arguments)
    assert changed["status"] == "exchange requested"
    assert changed["exchange_new_items"] == ["12", "13"]
    assert changed["exchange_price_difference"] == 1.75
    assert [row["item_id"] for row in changed["items"]] == ["11", "11"], "an exchange is only requested"
    assert balance(tools) == 15.1


@pytest.mark.parametrize(
    ("order_id", "old", "new", "method", "message"),
    [
        ("#W1", ["11"], ["12"], "paypal_1", "Non-delivered order cannot be exchanged"),
        ("#W2", ["11", "11", "11"], ["12", "12", "12"], "paypal_1", "Number of 11 not found."),
        ("#W2", ["11"], ["12", "13"], "paypal_1", "The number of items to be exchanged should match."),
        ("#W2", ["11"], ["15"], "paypal_1", "New item 15 not found or available"),
        ("#W2", ["11"], ["77"], "paypal_1", "Variant not found"),
        ("#W2", ["11"], ["12"], "paypal_9", "Payment method not found"),
        ("#W2", ["11"], ["14"], "gift_card_1", "Insufficient gift card balance to pay for the price difference"),
    ],
)
def test_exchange_refusals(
    tools: RetailTools, order_id: str, old: list[str], new: list[str], method: str, message: str
) -> None:
    arguments = change(order_id, old, new, method)
    assert refused(tools, "exchange_delivered_order_items", **arguments) == message


def test_modify_items_gives_every_item_its_own_variant(tools: RetailTools) -> None:
    arguments = change("#W1", ["11", "12"], ["13", "11"], "gift_card_1")
    changed = done(tools, "modify_pending_order_items", **arguments)
    assert changed["status"] == "pending (item modified)"
    assert [(row["item_id"], row["price"], row["options"]["color"]) for row in changed["items"]] == [
        ("13", 9.25, "green"),
        ("11", 10.0, "red"),
    ]
    assert changed["payment_history"][-1] == {
        "transaction_type": "refund", "amount": 3.25, "payment_method_id": "gift_card_1",
    }  # fmt: skip
    assert balance(tools) == 18.35
    assert refused(tools, "modify_pending_order_items", **arguments) == "Non-pending order cannot be modified"
    assert (
        refused(tools, "cancel_pending_order", order_id="#W1", reason="no longer needed")
        == "Non-pending order cannot be cancelled"
    )
    done(tools, "modify_pending_order_address", order_id="#W1", **ADDRESS)


def test_modify_items_takes_what_is_dearer_from_the_gift_card(tools: RetailTools) -> None:
    done(tools, "modify_pending_order_items", **change("#W1", ["11"], ["12"], "gift_card_1"))
    assert balance(tools) == 12.6


def test_modify_items_pays_the_difference_unrounded_and_exchange_asks_for_it_rounded(tools: RetailTools) -> None:
    # In floats 10.23 - 10.0 is a little more than 0.23.
    paid = done(tools, "modify_pending_order_items", **change("#W1", ["11"], ["16"], "paypal_1"))["payment_history"][-1]
    assert paid["amount"] == 10.23 - 10.0 != 0.23
    asked = done(tools, "exchange_delivered_order_items", **change("#W2", ["11"], ["16"], "paypal_1"))
    assert asked["exchange_price_difference"] == 0.23


def test_exchange_of_nothing_is_a_request_without_items(tools: RetailTools) -> None:
    result = tools.call("exchange_delivered_order_items", change("#W2", [], [], "paypal_1"))
    assert '"exchange_items": [], "exchange_new_items": []' in result.content
    assert '"exchange_price_difference": 0,' in result.content


@pytest.mark.parametrize(
    ("order_id", "old", "new", "method", "message"),
    [
        ("#W2", ["11"], ["12"], "paypal_1", "Non-pending order cannot be modified"),
        ("#W1", ["13"], ["12"], "paypal_1", "13 not found"),
        ("#W1", ["11"], ["12", "13"], "paypal_1", "The number of items to be exchanged should match"),
        ("#W1", ["11"], ["11"], "paypal_1", "The new item id should be different from the old item id"),
        ("#W1", ["11"], ["15"], "paypal_1", "New item 15 not found or available"),
        ("#W1", ["11"], ["77"], "paypal_1", "Variant not found"),
        ("#W1", ["11", "12"], ["15", "12"], "paypal_1", "New item 15 not found or available"),
        ("#W1", ["11"], ["12"], "paypal_9", "Payment method not found"),
        ("#W1", ["11"], ["14"], "gift_card_1", "Insufficient gift card balance to pay for the new item"),
    ],
)
def test_modify_items_refusals(
    tools: RetailTools, order_id: str, old: list[str], new: list[str], method: str, message: str
) -> None:
    arguments = change(order_id, old, new, method)
    assert refused(tools, "modify_pending_order_items", **arguments) == message


def test_modify_payment_pays_and_refunds(tools: RetailTools) -> None:
    changed = done(tools, "modify_pending_order_payment", order_id="#W3", payment_method_id="paypal_1")
    kinds = [(row["transaction_type"], row["payment_method_id"]) for row in changed["payment_history"]]
    assert kinds == [("payment", "gift_card_1"), ("payment", "paypal_1"), ("refund", "gift_card_1")]
    assert balance(tools) == 25.1


def test_modify_payment_refusals(tools: RetailTools) -> None:
    def message(order_id: str, method: str) -> str:
        return refused(tools, "modify_pending_order_payment", order_id=order_id, payment_method_id=method)

    assert message("#W2", "paypal_1") == "Non-pending order cannot be modified"
    assert message("#W1", "paypal_9") == "Payment method not found"
    assert message("#W1", "credit_card_1") == "The new payment method should be different from the current one"
    assert message("#W5", "gift_card_1") == "Insufficient gift card balance to pay for the order"
    done(tools, "modify_pending_order_payment", order_id="#W1", payment_method_id="paypal_1")
    assert message("#W1", "credit_card_1") == "There should be exactly one payment for a pending order"


def test_addresses(tools: RetailTools) -> None:
    new = {**ADDRESS, "city": "Elsewhere"}
    assert done(tools, "modify_pending_order_address", order_id="#W1", **new)["address"] == new
    assert done(tools, "modify_user_address", user_id="ann_lee_1", **new)["address"] == new
    for table in ("get_order_details", "get_user_details"):
        shown = done(tools, table, **({"order_id": "#W1"} if "order" in table else {"user_id": "ann_lee_1"}))
        assert list(shown["address"]) == ["address1", "address2", "city", "country", "state", "zip"], "as in the shop"
    assert done(tools, "get_order_details", order_id="#W3")["address"]["city"] == "B"
    assert (
        refused(tools, "modify_pending_order_address", order_id="#W2", **new) == "Non-pending order cannot be modified"
    )
    assert refused(tools, "modify_user_address", user_id="x", **new) == "User not found"


def test_return_goes_to_the_original_method_or_a_gift_card(tools: RetailTools) -> None:
    def message(order_id: str, items: list[str], method: str) -> str:
        arguments = {"order_id": order_id, "item_ids": items, "payment_method_id": method}
        return refused(tools, "return_delivered_order_items", **arguments)

    assert message("#W1", ["11"], "credit_card_1") == "Non-delivered order cannot be returned"
    assert message("#W2", ["11"], "paypal_9") == "Payment method not found"
    assert message("#W2", ["11"], "paypal_1") == "Payment method should be the original payment method"
    assert message("#W2", ["11", "12"], "credit_card_1") == "Some item not found"
    arguments = {"order_id": "#W2", "item_ids": ["11"], "payment_method_id": "gift_card_1"}
    changed = done(tools, "return_delivered_order_items", **arguments)
    assert (changed["status"], changed["return_items"]) == ("return requested", ["11"])
    assert changed["return_payment_method_id"] == "gift_card_1"


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({}, "order_id, reason"),
        ({"order_id": "#W1"}, "order_id, reason"),
        ({"order_id": "#W1", "reason": "no longer needed", "now": True}, "order_id, reason"),
        ({"order_id": 1, "reason": "no longer needed"}, "order_id must be text"),
    ],
)
def test_wrong_arguments_come_back_as_an_error_for_the_agent(
    tools: RetailTools, arguments: dict[str, Any], named: str
) -> None:
    assert named in refused(tools, "cancel_pending_order", **arguments)


@pytest.mark.parametrize("items", ["11", [11], [["11"]], None])
def test_a_list_of_items_is_a_list_of_texts(tools: RetailTools, items: object) -> None:
    arguments = {"order_id": "#W2", "item_ids": items, "payment_method_id": "credit_card_1"}
    assert refused(tools, "return_delivered_order_items", **arguments) == "item_ids must be a list of texts"


# --- arithmetic ---------------------------------------------------------------------------------------------

_expressions = st.recursive(
    st.integers(0, 999).map(str) | st.floats(0, 999, width=16).map(lambda value: f"{value:.3f}"),
    lambda inner: (
        st.tuples(inner, st.sampled_from([" + ", "-", " * ", "+-"]), inner).map("".join)
        | inner.map(lambda text: f"({text})")
    ),
    max_leaves=12,
)


@given(_expressions)
def test_arithmetic_agrees_with_python(expression: str) -> None:
    if len(expression) <= MAX_CHARACTERS:
        assert evaluate(expression) == pytest.approx(float(eval(expression)))


@pytest.mark.parametrize("expression", ["6-09", "007", "029 * 2", "1.5 + 01"])
def test_whole_numbers_with_leading_zeros_are_refused_as_by_python(tools: RetailTools, expression: str) -> None:
    assert refused(tools, "calculate", expression=expression) == "Invalid expression"
    assert [evaluate(text) for text in ("0", "00", "07.5", "0.5", "10")] == [0, 0, 7.5, 0.5, 10]


@pytest.mark.parametrize("expression", ["2 ** 3a", "import os", "1e5", "x", "1,000", "__name__"])
def test_other_characters_are_refused(tools: RetailTools, expression: str) -> None:
    assert refused(tools, "calculate", expression=expression) == "Invalid characters in expression"


@pytest.mark.parametrize(
    "expression", ["", "1 +", "(1", "1)", "1 1", "2 ** 3", "1 / 0", "1..2", "()", "(" * 90, "-" * 90 + "1", "9" * 401]
)
def test_what_has_no_value_is_refused(tools: RetailTools, expression: str) -> None:
    assert refused(tools, "calculate", expression=expression) == "Invalid expression"
