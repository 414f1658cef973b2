# ruff: noqa: D101, D102, D103, E501, ISC004 - tables of texts, read as prose
"""The 24 tasks and the policy of the embedded retail arena, as plans that `make_retail_arena` fills with ids."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]

POLICY = [
    "# Customer service policy",
    "",
    "You help customers of the shop with their orders, returns, exchanges, account data and questions about products.",
    "",
    "## The customer",
    "- Find out first who the customer is: look up the user id by email address, or by first name, last name and zip "
    "code. Do so even when the customer brings a user id.",
    "- One conversation serves one customer. Deny every request about an order or account of another person.",
    "- State only what the customer or a tool has told you. Give no opinions and no promises.",
    "",
    "## Before a change",
    "- Tell the customer what you are going to do, with all details, and wait for a clear yes before you call a tool "
    "that changes anything.",
    "- Do what the customer wants within these rules, and nothing beyond it.",
    "",
    "## The changes",
    "- Cancel: only a pending order can be cancelled. The reason must be 'no longer needed' or 'ordered by mistake'; deny "
    "a cancellation for any other reason. A gift card is refunded at once, other methods within a week.",
    "- Change items: only a pending order, and only once, so find out everything that shall change beforehand. Every new "
    "item is another variant of the same product. The price difference is paid or refunded with one method.",
    "- Change the payment: only a pending order. A gift card must cover the whole amount.",
    "- Change the shipping address: only a pending order.",
    "- Change the default address of an account: at any time.",
    "- Return: only a delivered order, and only once. The refund goes to the original payment method or to a gift card.",
    "- Exchange: only a delivered order, and only once, for other variants of the same products.",
    "",
    "## People",
    "- Transfer the customer to a human agent if the request is outside of what your tools can do, such as damage or "
    "compensation, and in no other case.",
]

TEST_IDS = ("16", "17", "18", "19", "20", "21", "22", "23")


@dataclass(frozen=True)
class ItemPlan:
    name: str
    options: tuple[str, ...]


@dataclass(frozen=True)
class OrderPlan:
    items: tuple[ItemPlan, ...]
    status: str
    paid_with: str = "credit_card"


def order(status: str, *items: tuple[str, tuple[str, ...]], paid_with: str = "credit_card") -> OrderPlan:
    return OrderPlan(tuple(ItemPlan(name, options) for name, options in items), status, paid_with)


class Facts:
    """What a plan can speak of once everything has an id."""

    def __init__(self, shop: Any, number: int, people: list[Json], orders: list[list[Json]]) -> None:
        self._shop, self._number = shop, number
        self.user = people[number]
        self.orders = orders[number]
        self._all_orders = orders

    @property
    def names(self) -> Json:
        person = self.user["name"]
        return {
            "email": self.user["email"],
            "name": f"{person['first_name']} {person['last_name']}",
            "zip": self.user["address"]["zip"],
            "other": self._all_orders[0][0]["order_id"],  # an order of the first task's customer
            **{f"o{number}": row["order_id"] for number, row in enumerate(self.orders)},
        }

    @property
    def other_order(self) -> Json:
        return self._all_orders[0][0]

    def method(self, source: str) -> str:
        return next(key for key, row in self.user["payment_methods"].items() if row["source"] == source)

    def item(self, order_number: int, item_number: int) -> Json:
        return self.orders[order_number]["items"][item_number]

    def variant(self, name: str, *options: str) -> str:
        return self._shop.variant(name, options)["item_id"]

    def prices(self, name: str) -> list[float]:
        variants = self._shop.products[self._shop.product_id[name]]["variants"].values()
        return [row["price"] for row in variants if row["available"]]

    # Calls of the gold trajectories.

    def find(self) -> Json:
        return call("find_user_id_by_email", email=self.user["email"])

    def find_by_name(self) -> Json:
        person = self.user["name"]
        return call("find_user_id_by_name_zip", **person, zip=self.user["address"]["zip"])

    def profile(self) -> Json:
        return call("get_user_details", user_id=self.user["user_id"])

    def look(self, number: int = 0) -> Json:
        return call("get_order_details", order_id=self.orders[number]["order_id"])

    def product(self, name: str) -> Json:
        return call("get_product_details", product_id=self._shop.product_id[name])

    def send_back(self, number: int, *items: int) -> Json:
        return call(
            "return_delivered_order_items",
            order_id=self.orders[number]["order_id"],
            item_ids=[self.item(number, item)["item_id"] for item in items],
            payment_method_id=self.orders[number]["payment_history"][0]["payment_method_id"],
        )

    def change(self, number: int, *pairs: tuple[int, str], source: str = "") -> Json:
        row = self.orders[number]
        method = self.method(source) if source else row["payment_history"][0]["payment_method_id"]
        tool = "exchange_delivered_order_items" if row["status"] == "delivered" else "modify_pending_order_items"
        return call(
            tool,
            order_id=row["order_id"],
            item_ids=[self.item(number, item)["item_id"] for item, _ in pairs],
            new_item_ids=[new for _, new in pairs],
            payment_method_id=method,
        )

    def cancel(self, number: int, reason: str) -> Json:
        return call("cancel_pending_order", order_id=self.orders[number]["order_id"], reason=reason)


def call(name: str, **arguments: Any) -> Json:
    return {"name": name, "arguments": arguments}


@dataclass(frozen=True)
class TaskPlan:
    """One task before ids are known; texts may hold ``{email}``, ``{name}``, ``{zip}``, ``{o0}``, ``{o1}``, ``{other}``."""

    id: str
    purpose: str
    orders: tuple[OrderPlan, ...]
    opening: str
    reason_for_call: str
    gold: Callable[[Facts], list[Json]]
    approvals: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]
    correction: str
    answers: dict[str, str] = field(default_factory=dict)
    identify_by: str = "email"
    payment_sources: tuple[str, ...] = ("credit_card",)
    gift_card_balance: float = 0.0
    assertions: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...] = ()
    communicate: Callable[[Facts], list[str]] = lambda _: []
    gold_reply: str = "Everything is done. Is there anything else I can help you with?"
    needs: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def variants_needed(self) -> list[ItemPlan]:
        return [ItemPlan(name, options) for name, options in self.needs]

    def build(self, shop: Any, people: list[Json], orders: list[list[Json]]) -> Json:
        facts = Facts(shop, int(self.id), people, orders)
        info = self.communicate(facts)
        names = {**facts.names, **{f"info{number}": text for number, text in enumerate(info)}}

        def fill(text: str) -> str:
            return text.format(**names)

        answers = {
            "email": f"My email address is {facts.names['email']}."
            if self.identify_by == "email"
            else "I do not remember which email address I used.",
            "name_zip": f"My name is {facts.names['name']} and my zip code is {facts.names['zip']}.",
            **{slot: fill(text) for slot, text in self.answers.items()},
        }
        basis = ["DB", *(["COMMUNICATE"] if info else []), *(["NL_ASSERTION"] if self.assertions else [])]
        return {
            "id": self.id,
            "description": {"purpose": self.purpose},
            "user_scenario": {
                "persona": None,
                "instructions": {
                    "domain": "retail",
                    "reason_for_call": fill(self.reason_for_call),
                    "known_info": f"You are {facts.names['name']}, zip code {facts.names['zip']}.",
                    "unknown_info": None,
                    "task_instructions": "Tell what you are asked. Agree to what fits your wish. Be brief.",
                },
            },
            "initial_state": None,
            "evaluation_criteria": {
                "actions": [
                    {"action_id": f"{self.id}_{number}", **row, "info": None}
                    for number, row in enumerate(self.gold(facts))
                ],
                "communicate_info": info,
                "nl_assertions": [text for text, _, _ in self.assertions],
                "reward_basis": basis,
            },
            "embedded": {
                "user": {
                    "opening": fill(self.opening),
                    "identify_by": self.identify_by,
                    "answers": answers,
                    "approvals": [
                        {"require": [fill(text) for text in require], "forbid": list(forbid)}
                        for require, forbid in self.approvals
                    ],
                    "correction": fill(self.correction),
                },
                "predicates": [
                    {"assertion": text, "require": [fill(row) for row in require], "forbid": list(forbid)}
                    for text, require, forbid in self.assertions
                ],
                "gold_reply": fill(self.gold_reply),
            },
        }


LAMP, MUG, JACKET, KETTLE = "Desk Lamp", "Travel Mug", "Rain Jacket", "Electric Kettle"
BACKPACK, MAT, CLOCK, FAN = "Hiking Backpack", "Yoga Mat", "Wall Clock", "Table Fan"
NOTEBOOK, SPEAKER, HOSE, BLANKET = "Notebook Set", "Bluetooth Speaker", "Garden Hose", "Cotton Blanket"

NEW_HOME = {
    "address1": "12 Harbour Road", "address2": "Apt 4", "city": "Millbrook", "state": "OR", "country": "USA",
    "zip": "97471",
}  # fmt: skip
NEW_OFFICE = {
    "address1": "208 Quarry Road", "address2": "Suite 11", "city": "Ashford", "state": "WA", "country": "USA",
    "zip": "98304",
}  # fmt: skip


def written(address: dict[str, str]) -> str:
    return ", ".join(address.values())


def many_orders(first: tuple[str, tuple[str, ...]]) -> tuple[OrderPlan, ...]:
    """Six orders, the wanted one first."""
    return (
        order("delivered", first),
        order("processed", (HOSE, ("10 m", "jet"))),
        order("delivered", (NOTEBOOK, ("lined", "soft"))),
        order("cancelled", (FAN, ("25 W", "ivory"))),
        order("processed", (SPEAKER, ("10 hour", "coral"))),
        order("delivered", (JACKET, ("navy", "medium"))),
    )


TASKS: list[TaskPlan] = [
    TaskPlan(
        id="0",
        purpose="Cancel a pending order.",
        orders=(order("pending", (FAN, ("40 W", "ivory"))),),
        opening="Hello, I want to cancel order {o0}. I no longer need it. My email is {email}.",
        reason_for_call="You want order {o0} cancelled, because you no longer need it.",
        gold=lambda f: [f.find(), f.look(), f.cancel(0, "no longer needed")],
        approvals=((("cancel",), ()),),
        correction="I only want order {o0} to be cancelled.",
        answers={"order_id": "It is order {o0}.", "reason": "I no longer need it.", "item": "The whole order {o0}."},
    ),
    TaskPlan(
        id="1",
        purpose="Return two items; the customer is found by name and zip code.",
        orders=(order("delivered", (MAT, ("6 mm", "teal")), (FAN, ("25 W", "charcoal")), (HOSE, ("20 m", "spray"))),),
        opening="Hi, I would like to return the Yoga Mat and the Table Fan from order {o0}.",
        reason_for_call="You want to return the yoga mat and the table fan of order {o0}, but keep the garden hose.",
        gold=lambda f: [f.find_by_name(), f.look(), f.send_back(0, 0, 1)],
        approvals=((("return", "yoga mat", "table fan"), ("hose",)),),
        correction="I would like to return the Yoga Mat and the Table Fan, nothing else.",
        answers={
            "order_id": "It is order {o0}.",
            "item": "The Yoga Mat and the Table Fan.",
            "payment": "To the original payment method.",
            "reason": "I do not use them.",
        },
        identify_by="name_zip",
    ),
    TaskPlan(
        id="2",
        purpose="Change the default address of the account.",
        orders=(order("delivered", (KETTLE, ("1.2 litre", "glass"))),),
        opening="Hello, please change the default address of my account to "
        + written(NEW_HOME)
        + ". My email is {email}.",
        reason_for_call="You have moved and want the default address of your account changed.",
        gold=lambda f: [f.find(), call("modify_user_address", user_id=f.user["user_id"], **NEW_HOME)],
        approvals=((("12 harbour road",), ()),),
        correction="The default address of my account should become " + written(NEW_HOME) + ".",
        answers={
            "address": "The new address is " + written(NEW_HOME) + ".",
            "item": "Only the default address of my account.",
        },
    ),
    TaskPlan(
        id="3",
        purpose="Two changes of one pending order, in two sentences.",
        orders=(order("pending", (CLOCK, ("oak", "25 cm"))),),
        opening="Hi, my email is {email}. Please ship order {o0} to "
        + written(NEW_OFFICE)
        + ". Also let me pay for order {o0} with my paypal account.",
        reason_for_call="Order {o0} shall go to your office and be paid with PayPal.",
        gold=lambda f: [
            f.find(),
            f.look(),
            f.profile(),
            call("modify_pending_order_address", order_id=f.orders[0]["order_id"], **NEW_OFFICE),
            call(
                "modify_pending_order_payment", order_id=f.orders[0]["order_id"], payment_method_id=f.method("paypal")
            ),
        ],
        approvals=((("208 quarry road",), ()), (("paypal",), ())),
        correction="Order {o0} should go to " + written(NEW_OFFICE) + " and be paid with paypal.",
        answers={
            "order_id": "It is order {o0}.",
            "address": "The new address is " + written(NEW_OFFICE) + ".",
            "payment": "With my paypal account.",
            "item": "The address and the payment of order {o0}.",
        },
        payment_sources=("credit_card", "paypal"),
    ),
    TaskPlan(
        id="4",
        purpose="A cancellation for a reason that the policy does not allow is denied.",
        orders=(order("pending", (SPEAKER, ("20 hour", "graphite"))),),
        opening="I want to cancel order {o0}, because I found it cheaper somewhere else. My email is {email}.",
        reason_for_call="You want order {o0} cancelled, because another shop is cheaper. You give no other reason.",
        gold=lambda f: [f.find(), f.look()],
        approvals=((("cancel", "{o0}"), (r"\b(?:cannot|can't|unable)\b",)),),
        correction="I want order {o0} to be cancelled.",
        answers={
            "order_id": "It is order {o0}.",
            "reason": "I found it cheaper somewhere else, that is the only reason.",
            "item": "The whole order {o0}.",
        },
        assertions=(
            (
                "The agent says that the order cannot be cancelled for this reason.",
                (r"\b(?:cannot|can't|can not|unable to|not able to|not possible)\b",),
                (r"\bDone: cancel\b", r"\bhas been cancel", r"\btransferred\b"),
            ),
        ),
        gold_reply="I am sorry, the order cannot be cancelled for this reason. Is there anything else?",
    ),
    TaskPlan(
        id="5",
        purpose="Damage and compensation go to a human agent.",
        orders=(order("delivered", (KETTLE, ("1.7 litre", "steel"))),),
        opening="Hello, my email is {email}. The Electric Kettle that I bought burnt my kitchen counter. I want "
        "compensation, so let me talk to a human.",
        reason_for_call="The kettle of order {o0} damaged your kitchen counter and you want compensation.",
        gold=lambda f: [
            f.find(),
            call("transfer_to_human_agents", summary="The customer asks for compensation of damage."),
        ],
        approvals=((("transfer",), ()), (("human",), ())),
        correction="I want to talk to a human about compensation.",
        answers={
            "order_id": "It is order {o0}.",
            "item": "The Electric Kettle.",
            "reason": "It burnt my kitchen counter.",
        },
        assertions=(
            (
                "The agent hands the customer over to a human agent.",
                (r"\btransferr?(?:ed|ing)\b|\bhuman agent\b",),
                (r"\bI cannot help with that\b",),
            ),
        ),
        gold_reply="You are being transferred to a human agent.",
    ),
    TaskPlan(
        id="6",
        purpose="A question about stock and price.",
        orders=(order("delivered", (SPEAKER, ("10 hour", "graphite"))),),
        opening="Hi, my email is {email}. How many variants of the Bluetooth Speaker are available right now, and what "
        "does the cheapest one cost?",
        reason_for_call="You want to know how many variants of the speaker are in stock and the lowest price.",
        gold=lambda f: [f.find(), call("list_all_product_types"), f.product(SPEAKER)],
        approvals=(),
        correction="I only want to know how many variants of the Bluetooth Speaker are available, and the lowest price.",
        answers={"item": "The Bluetooth Speaker.", "option": "All of them."},
        communicate=lambda f: [str(len(f.prices(SPEAKER))), f"{min(f.prices(SPEAKER)):.2f}"],
        assertions=(
            ("The agent says how many variants are available.", (r"\b{info0}\b",), ()),
            ("The agent says what the cheapest available variant costs.", (r"\b{info1}\b",), ()),
        ),
        gold_reply="There are {info0} variants and the cheapest costs ${info1}. Is there anything else?",
    ),
    TaskPlan(
        id="7",
        purpose="Return an item without knowing the order, with many orders on the account.",
        orders=many_orders((CLOCK, ("walnut", "35 cm"))),
        opening="Hi, please send the Wall Clock that I received back for me. I do not have the order number. My email is "
        "{email}.",
        reason_for_call="You want to return the wall clock. You do not know the order number.",
        gold=lambda f: [f.find(), f.profile(), f.look(), f.send_back(0, 0)],
        approvals=((("return|send", "wall clock"), ()),),
        correction="I only want to return the Wall Clock.",
        answers={
            "order_id": "I do not know the number.",
            "item": "The Wall Clock.",
            "payment": "To the original payment method.",
            "reason": "It is too large.",
        },
    ),
    TaskPlan(
        id="8",
        purpose="Exchange for a variant that is sold out, with a second choice.",
        orders=(order("delivered", (LAMP, ("white", "warm"))),),
        opening="Please exchange the Desk Lamp in order {o0} for the brass one with the cool bulb, or if that is not "
        "available, the black one with the cool bulb. My email is {email}.",
        reason_for_call="The desk lamp of order {o0} shall become brass and cool; if it is sold out, black and cool.",
        gold=lambda f: [f.find(), f.look(), f.product(LAMP), f.change(0, (0, f.variant(LAMP, "black", "cool")))],
        approvals=((("lamp", "brass"), ()), (("lamp", "black"), ())),
        correction="I would like the brass one with the cool bulb, or if that is not available, the black one.",
        answers={
            "order_id": "It is order {o0}.",
            "item": "The Desk Lamp.",
            "option": "Brass with the cool bulb, or if that is not available, black with the cool bulb.",
            "payment": "With the card that I paid with.",
        },
        needs=((LAMP, ("black", "cool")),),
    ),
    TaskPlan(
        id="9",
        purpose="Change an item; the gift card does not cover the difference.",
        orders=(order("pending", (JACKET, ("navy", "small"))),),
        opening="Please change the Rain Jacket in order {o0} to the large red one. Pay the difference with my gift card, "
        "or with my credit card if the balance is too low. My email is {email}.",
        reason_for_call="The jacket of order {o0} shall become large and red, paid with gift card or else credit card.",
        gold=lambda f: [
            f.find(),
            f.look(),
            f.profile(),
            f.product(JACKET),
            f.change(0, (0, f.variant(JACKET, "red", "large")), source="credit_card"),
        ],
        approvals=((("jacket", "red", "gift"), ()), (("jacket", "red", "credit"), ())),
        correction="I want the large red Rain Jacket; pay with the gift card if it is enough, else with the credit card.",
        answers={
            "order_id": "It is order {o0}.",
            "item": "The Rain Jacket.",
            "option": "The large red one.",
            "payment": "With my gift card, or with my credit card if the balance is too low.",
        },
        payment_sources=("gift_card", "credit_card"),
        gift_card_balance=0.35,
        needs=((JACKET, ("red", "large")),),
    ),
    TaskPlan(
        id="10",
        purpose="Change two items of a pending order, told in two sentences; items can be changed once only.",
        orders=(order("pending", (NOTEBOOK, ("lined", "hard")), (MUG, ("12 oz", "green"))),),
        opening="Please change the Notebook Set in order {o0} to the dotted one. Also change the Travel Mug in that order "
        "to the 20 oz one. My email is {email}.",
        reason_for_call="In order {o0} the notebook set shall become dotted and the mug 20 oz.",
        gold=lambda f: [
            f.find(),
            f.look(),
            f.product(NOTEBOOK),
            f.product(MUG),
            f.change(0, (0, f.variant(NOTEBOOK, "dotted", "hard")), (1, f.variant(MUG, "20 oz", "green"))),
        ],
        approvals=((("notebook", "dotted"), ()), (("mug", "20 oz"), ())),
        correction="The Notebook Set should become dotted and the Travel Mug 20 oz, all else as it is.",
        answers={
            "order_id": "It is order {o0}.",
            "item": "The Notebook Set and the Travel Mug.",
            "option": "The dotted Notebook Set and the 20 oz Travel Mug.",
            "payment": "With the card that I paid with.",
        },
        needs=((NOTEBOOK, ("dotted", "hard")), (MUG, ("20 oz", "green"))),
    ),
    TaskPlan(
        id="11",
        purpose="Exchange two items of a delivered order, told in two sentences; one exchange per order.",
        orders=(order("delivered", (BLANKET, ("single", "plain")), (HOSE, ("10 m", "jet"))),),
        opening="Please exchange the Cotton Blanket in order {o0} for the double one. And swap the Garden Hose in that "
        "order for the 30 m one. My email is {email}.",
        reason_for_call="In order {o0} the blanket shall become double and the hose 30 m.",
        gold=lambda f: [
            f.find(),
            f.look(),
            f.product(BLANKET),
            f.product(HOSE),
            f.change(0, (0, f.variant(BLANKET, "double", "plain")), (1, f.variant(HOSE, "30 m", "jet"))),
        ],
        approvals=((("blanket", "double"), ()), (("hose", "30 m"), ())),
        correction="The Cotton Blanket should become the double one and the Garden Hose the 30 m one.",
        answers={
            "order_id": "It is order {o0}.",
            "item": "The Cotton Blanket and the Garden Hose.",
            "option": "The double Cotton Blanket and the 30 m Garden Hose.",
            "payment": "With the card that I paid with.",
        },
        needs=((BLANKET, ("double", "plain")), (HOSE, ("30 m", "jet"))),
    ),
    TaskPlan(
        id="12",
        purpose="Two wishes in one sentence: a cancellation and a return.",
        orders=(order("pending", (MAT, ("4 mm", "plum"))), order("delivered", (HOSE, ("30 m", "spray")))),
        opening="Please cancel order {o0}, which I ordered by mistake, and return the Garden Hose from order {o1}. My "
        "email is {email}.",
        reason_for_call="Order {o0} was a mistake; the garden hose of order {o1} goes back.",
        gold=lambda f: [f.find(), f.look(0), f.look(1), f.cancel(0, "ordered by mistake"), f.send_back(1, 0)],
        approvals=((("cancel", "{o0}"), ()), (("return", "hose"), ())),
        correction="Order {o0} should be cancelled and the Garden Hose of order {o1} returned.",
        answers={
            "order_id": "Orders {o0} and {o1}.",
            "item": "All of order {o0}, and the Garden Hose of order {o1}.",
            "reason": "I ordered it by mistake.",
            "payment": "To the original payment method.",
        },
    ),
    TaskPlan(
        id="13",
        purpose="Two wishes in one sentence: a return and a new default address.",
        orders=(order("delivered", (BLANKET, ("double", "striped"))),),
        opening="I want to return the Cotton Blanket from order {o0} and change the default address of my account to "
        + written(NEW_HOME)
        + ". My email is {email}.",
        reason_for_call="The blanket of order {o0} goes back, and your account gets a new default address.",
        gold=lambda f: [
            f.find(),
            f.look(),
            f.send_back(0, 0),
            call("modify_user_address", user_id=f.user["user_id"], **NEW_HOME),
        ],
        approvals=((("return", "blanket"), ()), (("12 harbour road",), ())),
        correction="The Cotton Blanket goes back, and my default address becomes " + written(NEW_HOME) + ".",
        answers={
            "order_id": "It is order {o0}.",
            "item": "The Cotton Blanket, and the default address of my account.",
            "address": "The new address is " + written(NEW_HOME) + ".",
            "payment": "To the original payment method.",
            "reason": "It is too warm.",
        },
    ),
    TaskPlan(
        id="14",
        purpose="Return one of two items of the same kind; only the customer knows which.",
        orders=(order("delivered", (BACKPACK, ("olive", "35 L")), (BACKPACK, ("slate", "20 L"))),),
        opening="I want to return the Hiking Backpack from order {o0}. My email is {email}.",
        reason_for_call="You want to return the slate backpack with 20 L of order {o0} and keep the olive one.",
        gold=lambda f: [f.find(), f.look(), f.send_back(0, 1)],
        approvals=((("return", "backpack"), ("olive", "35 L")),),
        correction="I mean the slate one, 20 L.",
        answers={
            "order_id": "It is order {o0}.",
            "item": "The slate one, 20 L.",
            "payment": "To the original payment method.",
            "reason": "It is too small.",
        },
    ),
    TaskPlan(
        id="15",
        purpose="Exchange one of two items of the same kind; only the customer knows which.",
        orders=(order("delivered", (MUG, ("12 oz", "grey")), (MUG, ("16 oz", "green"))),),
        opening="Please exchange the Travel Mug from order {o0} for the 20 oz version. My email is {email}.",
        reason_for_call="The green mug with 16 oz of order {o0} shall become 20 oz, in the same color.",
        gold=lambda f: [f.find(), f.look(), f.product(MUG), f.change(0, (1, f.variant(MUG, "20 oz", "green")))],
        approvals=((("mug", "20 oz"), ("grey",)),),
        correction="I mean the green one, and the color stays as it is.",
        answers={
            "order_id": "It is order {o0}.",
            "item": "The green one.",
            "option": "The 20 oz version in the same color.",
            "payment": "With the card that I paid with.",
        },
        needs=((MUG, ("20 oz", "green")), (MUG, ("20 oz", "grey"))),
    ),
    TaskPlan(
        id="16",
        purpose="Pay a pending order with another method.",
        orders=(order("pending", (LAMP, ("black", "warm"))),),
        opening="Hello, please let me pay for order {o0} with my paypal account instead. My email is {email}.",
        reason_for_call="Order {o0} shall be paid with PayPal.",
        gold=lambda f: [
            f.find(),
            f.look(),
            f.profile(),
            call(
                "modify_pending_order_payment", order_id=f.orders[0]["order_id"], payment_method_id=f.method("paypal")
            ),
        ],
        approvals=((("paypal",), ()),),
        correction="I only want to pay order {o0} with paypal.",
        answers={
            "order_id": "It is order {o0}.",
            "payment": "With my paypal account.",
            "item": "Only the payment of order {o0}.",
        },
        payment_sources=("credit_card", "paypal"),
    ),
    TaskPlan(
        id="17",
        purpose="A request about another person's order is denied.",
        orders=(order("delivered", (MAT, ("6 mm", "plum"))),),
        opening="I want to cancel order {other}. It was placed by my sister and she no longer needs it. My email is "
        "{email}.",
        reason_for_call="You want your sister's order {other} cancelled.",
        gold=lambda f: [f.find(), call("get_order_details", order_id=f.other_order["order_id"])],
        approvals=((("cancel",), (r"\b(?:cannot|can't|unable)\b",)),),
        correction="I want order {other} to be cancelled.",
        answers={
            "order_id": "It is order {other}.",
            "reason": "My sister no longer needs it.",
            "item": "The whole order {other}.",
        },
        assertions=(
            (
                "The agent says that it cannot help with another person's order.",
                (r"\b(?:cannot|can't|can not|unable to|not able to|not possible)\b",),
                (r"\bDone: cancel\b", r"\bhas been cancel"),
            ),
        ),
        gold_reply="I cannot help with this order, because it belongs to another person. Is there anything else?",
    ),
    TaskPlan(
        id="18",
        purpose="A question that needs a sum.",
        orders=(order("delivered", (MAT, ("8 mm", "teal")), (CLOCK, ("metal", "25 cm")), (MUG, ("16 oz", "grey"))),),
        opening="Hi, my email is {email}. How much money would I get back in total for the Yoga Mat and the Wall Clock in "
        "order {o0}?",
        reason_for_call="You want to know what the yoga mat and the wall clock of order {o0} cost together.",
        gold=lambda f: [
            f.find(),
            f.look(),
            call("calculate", expression=f"{f.item(0, 0)['price']:.2f} + {f.item(0, 1)['price']:.2f}"),
        ],
        approvals=(),
        correction="I only want to know how much I would get back for the Yoga Mat and the Wall Clock.",
        answers={"order_id": "It is order {o0}.", "item": "The Yoga Mat and the Wall Clock."},
        communicate=lambda f: [f"{f.item(0, 0)['price'] + f.item(0, 1)['price']:.2f}"],
        assertions=(("The agent says what both items cost together.", (r"\b{info0}\b",), ()),),
        gold_reply="You would get back ${info0} in total. Is there anything else?",
    ),
    TaskPlan(
        id="19",
        purpose="Return an item without knowing the order, with many orders on the account.",
        orders=many_orders((BLANKET, ("single", "checked"))),
        opening="Hello, I would like to return the Cotton Blanket that came last week. I cannot find the order number. My "
        "email is {email}.",
        reason_for_call="You want to return the cotton blanket. You do not know the order number.",
        gold=lambda f: [f.find(), f.profile(), f.look(), f.send_back(0, 0)],
        approvals=((("return", "blanket"), ()),),
        correction="I only want to return the Cotton Blanket.",
        answers={
            "order_id": "I do not know the number.",
            "item": "The Cotton Blanket.",
            "payment": "To the original payment method.",
            "reason": "The pattern does not suit me.",
        },
    ),
    TaskPlan(
        id="20",
        purpose="Change an item to a variant that is sold out, with a second choice.",
        orders=(order("pending", (BACKPACK, ("olive", "20 L"))),),
        opening="Please change the Hiking Backpack in order {o0} to the orange one with 35 L, or if that is not available, "
        "the slate one with 35 L. My email is {email}.",
        reason_for_call="The backpack of order {o0} shall become orange with 35 L; if it is sold out, slate with 35 L.",
        gold=lambda f: [
            f.find(),
            f.look(),
            f.product(BACKPACK),
            f.change(0, (0, f.variant(BACKPACK, "slate", "35 L"))),
        ],
        approvals=((("backpack", "orange"), ()), (("backpack", "slate"), ())),
        correction="I would like the orange one with 35 L, or if that is not available, the slate one with 35 L.",
        answers={
            "order_id": "It is order {o0}.",
            "item": "The Hiking Backpack.",
            "option": "Orange with 35 L, or if that is not available, slate with 35 L.",
            "payment": "With the card that I paid with.",
        },
        needs=((BACKPACK, ("slate", "35 L")),),
    ),
    TaskPlan(
        id="21",
        purpose="Return two items of one order, told in two sentences; one return per order.",
        orders=(
            order(
                "delivered",
                (SPEAKER, ("30 hour", "coral")),
                (KETTLE, ("0.8 litre", "steel")),
                (LAMP, ("white", "cool")),
            ),
        ),
        opening="Please return the Bluetooth Speaker from order {o0}. I would also like to send back the Electric Kettle "
        "in that order. My email is {email}.",
        reason_for_call="The speaker and the kettle of order {o0} go back, the lamp stays.",
        gold=lambda f: [f.find(), f.look(), f.send_back(0, 0, 1)],
        approvals=((("return", "speaker"), ("lamp",)), (("return", "kettle"), ("lamp",))),
        correction="The Bluetooth Speaker and the Electric Kettle go back, the lamp stays.",
        answers={
            "order_id": "It is order {o0}.",
            "item": "The Bluetooth Speaker and the Electric Kettle.",
            "payment": "To the original payment method.",
            "reason": "They are too loud.",
        },
    ),
    TaskPlan(
        id="22",
        purpose="Two wishes in one sentence: a new shipping address and a cancellation.",
        orders=(order("pending", (NOTEBOOK, ("blank", "soft"))), order("pending", (FAN, ("55 W", "charcoal")))),
        opening="Please ship order {o0} to "
        + written(NEW_OFFICE)
        + " and cancel order {o1}, which I no longer need. My "
        "email is {email}.",
        reason_for_call="Order {o0} shall go to your office; order {o1} is no longer needed.",
        gold=lambda f: [
            f.find(),
            f.look(0),
            f.look(1),
            call("modify_pending_order_address", order_id=f.orders[0]["order_id"], **NEW_OFFICE),
            f.cancel(1, "no longer needed"),
        ],
        approvals=((("208 quarry road",), ()), (("cancel", "{o1}"), ())),
        correction="Order {o0} goes to " + written(NEW_OFFICE) + " and order {o1} should be cancelled.",
        answers={
            "order_id": "Orders {o0} and {o1}.",
            "address": "The new address is " + written(NEW_OFFICE) + ".",
            "reason": "I no longer need it.",
            "item": "The address of order {o0}, and all of order {o1}.",
        },
    ),
    TaskPlan(
        id="23",
        purpose="Change one of two items of the same kind; only the customer knows which.",
        orders=(order("pending", (JACKET, ("navy", "medium")), (JACKET, ("yellow", "small"))),),
        opening="Please change the Rain Jacket in order {o0} to size large. My email is {email}.",
        reason_for_call="The yellow jacket of order {o0} shall become large, the navy one stays as it is.",
        gold=lambda f: [f.find(), f.look(), f.product(JACKET), f.change(0, (1, f.variant(JACKET, "yellow", "large")))],
        approvals=((("jacket", "large"), ("navy",)),),
        correction="I mean the yellow one, in large.",
        answers={
            "order_id": "It is order {o0}.",
            "item": "The yellow one.",
            "option": "Size large.",
            "payment": "With the card that I paid with.",
        },
        needs=((JACKET, ("yellow", "large")), (JACKET, ("navy", "large"))),
    ),
]
