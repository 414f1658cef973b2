"""What the scripted agent would do next about one wish: look something up, ask, refuse, change or answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from workers.official_arenas.embedded.guidance import Guidance
from workers.official_arenas.embedded.transcript import Transcript
from workers.official_arenas.embedded.understanding import (
    Wish,
    find_address,
    find_cancel_reason,
    find_order_ids,
    find_payment_sources,
    mentions,
    split_alternatives,
)

__all__ = ["Answer", "Ask", "Deny", "Desk", "Lookup", "Step", "Write", "next_step"]


@dataclass(frozen=True, slots=True)
class Lookup:
    """Calls that have to be answered first."""

    calls: tuple[tuple[str, Mapping[str, Any]], ...]


@dataclass(frozen=True, slots=True)
class Ask:
    """Something only the customer knows."""

    text: str


@dataclass(frozen=True, slots=True)
class Deny:
    """A refusal with its reason."""

    text: str


@dataclass(frozen=True, slots=True)
class Answer:
    """What the customer wanted to know."""

    text: str


@dataclass(frozen=True, slots=True)
class Write:
    """A change that needs the customer's yes."""

    name: str
    arguments: Mapping[str, Any]
    summary: str


Step = Lookup | Ask | Deny | Answer | Write
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Desk:
    """What lies before the agent.

    Attributes:
        seen: the conversation.
        guidance: habits and known rules.
        user_id: the authenticated customer.
        first_said: the text that holds the wishes; what came later answers questions.
    """

    seen: Transcript
    guidance: Guidance
    user_id: str
    first_said: str

    @property
    def later_said(self) -> str:
        """What the customer said beside the wishes."""
        return "\n".join(text for text in self.seen.said if text != self.first_said)

    def order(self, order_id: str) -> Row | None:
        """Give an order as it was first read."""
        return self.seen.object("get_order_details", {"order_id": order_id})

    def profile(self) -> Row | None:
        """Give the customer's data as they were first read."""
        return self.seen.object("get_user_details", {"user_id": self.user_id})

    @property
    def read_profile(self) -> Lookup:
        """Read the customer's data."""
        return Lookup((("get_user_details", {"user_id": self.user_id}),))


def next_step(wishes: Sequence[Wish], desk: Desk) -> Step:  # noqa: PLR0911 - guard clauses
    """Give the next step for one wish, or for several of one kind about one order that are carried out together."""
    wish = wishes[0]
    if wish.kind == "user_address":
        return _change_user_address(wish, desk)
    if wish.kind == "stock":
        return _tell_stock(wish, desk)
    order_id = wish.order_id or _order_said_later(desk)
    if order_id is None:
        found = _find_order(wish, desk)
        if not isinstance(found, str):
            return found
        order_id = found
    if desk.seen.result("get_order_details", {"order_id": order_id}) is None:
        return Lookup((("get_order_details", {"order_id": order_id}),))
    order = desk.order(order_id)
    if order is None:
        return Deny(f"I cannot find an order {order_id}.")
    if desk.guidance.knows_own_orders and order["user_id"] != desk.user_id:
        return Deny(f"I cannot help with order {order_id}, because it belongs to another person.")
    steps = {
        "cancel": _cancel,
        "return": _return,
        "change": _change,
        "order_address": _change_order_address,
        "payment": _change_payment,
        "total": _tell_total,
    }
    return steps[wish.kind](wishes, desk, order)


# --- finding the order and the items ------------------------------------------------------------------------


def _order_said_later(desk: Desk) -> str | None:
    named = find_order_ids(desk.later_said)
    return named[0] if named else None


def _find_order(wish: Wish, desk: Desk) -> str | Step:
    """Look through the customer's orders: one after the other, or all at once when everything is gathered first."""
    profile = desk.profile()
    if profile is None:
        return desk.read_profile
    order_ids: list[str] = profile["orders"]
    unread = [key for key in order_ids if desk.seen.result("get_order_details", {"order_id": key}) is None]
    if unread and desk.guidance.gathers_all:
        return Lookup(tuple(("get_order_details", {"order_id": key}) for key in unread))
    for order_id in order_ids:
        if order_id in unread:
            return Lookup((("get_order_details", {"order_id": order_id}),))
        order = desk.order(order_id)
        if order is not None and any(mentions(wish.text, item["name"]) for item in order["items"]):
            return order_id
    return Ask("Which order is this about? Please give me the order number.")


def _named_items(wish: Wish, desk: Desk, order: Row) -> list[Row] | Ask:
    """Give the items of an order that a wish names: one for each product, and the best fit among several of one."""
    chosen: list[Row] = []
    for name in dict.fromkeys(item["name"] for item in order["items"]):
        if not mentions(wish.text, name):
            continue
        candidates = [item for item in order["items"] if item["name"] == name]
        if len(candidates) > 1 and mentions(wish.text, f"both {name}"):
            chosen += candidates
            continue
        said = f"{_before_target(wish.text, name)}\n{desk.later_said}"
        scores = [sum(mentions(said, value) for value in item["options"].values()) for item in candidates]
        best = max(scores)
        if desk.guidance.asks_which and scores.count(best) > 1:
            return Ask(
                f"There is more than one {name} in order {order['order_id']}. Which one do you mean? Please "
                "describe it."
            )
        chosen.append(candidates[scores.index(best)])
    return chosen


def _after_mention(text: str, name: str) -> str:
    start = text.casefold().find(name.casefold())
    return text[start + len(name) :] if start >= 0 else ""


def _target_words(text: str, name: str) -> str:
    """Give the words that say what an item shall become: what follows "for", "to" or "into" after its name."""
    words = _after_mention(text, name).replace(" for order", " in order")
    starts = [at + len(word) for word in (" for ", " to ", " into ") if (at := f" {words}".find(word)) >= 0]
    return f" {words}"[min(starts) :] if starts else ""


def _before_target(text: str, name: str) -> str:
    """Give the words that describe the item itself: all of them, without what it shall become."""
    target = _target_words(text, name)
    return text[: len(text) - len(target)] if target else text


def _original_method(order: Row) -> str:
    history = order["payment_history"]
    return history[0]["payment_method_id"] if history else ""


# --- changes ------------------------------------------------------------------------------------------------


def _status_denied(desk: Desk, order: Row, allowed: str, what: str) -> Deny | None:
    if not desk.guidance.knows_status or order["status"] == allowed:
        return None
    if allowed == "pending" and what not in {"cancelled", "changed"} and order["status"].startswith("pending"):
        return None
    return Deny(f"Order {order['order_id']} cannot be {what}, because it is {order['status']}.")


def _cancel(wishes: Sequence[Wish], desk: Desk, order: Row) -> Step:
    denied = _status_denied(desk, order, "pending", "cancelled")
    if denied:
        return denied
    order_id = order["order_id"]
    question = f"Why do you want to cancel order {order_id}: is it no longer needed, or was it ordered by mistake?"
    reason = find_cancel_reason(desk.seen.said)
    if reason is None and not desk.seen.times_said(question):
        return Ask(question)
    if reason in {None, "other"}:
        if desk.guidance.knows_cancel_reason:
            return Deny(
                f"I cannot cancel order {order_id} for this reason. An order can only be cancelled when it is no "
                "longer needed or was ordered by mistake."
            )
        reason = "no longer needed"
    arguments = {"order_id": order_id, "reason": reason}
    return Write("cancel_pending_order", arguments, f"cancel order {order_id} (reason: {reason})")


def _return(wishes: Sequence[Wish], desk: Desk, order: Row) -> Step:
    denied = _status_denied(desk, order, "delivered", "returned")
    if denied:
        return denied
    items: list[Row] = []
    for wish in wishes:
        found = _named_items(wish, desk, order)
        if isinstance(found, Ask):
            return found
        items += found
    if not items:
        return Ask(f"Which item of order {order['order_id']} would you like to return?")
    method = _original_method(order)
    names = " and the ".join(item["name"] for item in items)
    return Write(
        "return_delivered_order_items",
        {
            "order_id": order["order_id"],
            "item_ids": [item["item_id"] for item in items],
            "payment_method_id": method,
        },
        f"return the {names} from order {order['order_id']}, with the refund to {method}",
    )


def _change(wishes: Sequence[Wish], desk: Desk, order: Row) -> Step:
    if order["status"] != "delivered":
        denied = _status_denied(desk, order, "pending", "changed")
        if denied:
            return denied
    pairs: list[tuple[Row, str]] = []
    for wish in wishes:
        items = _named_items(wish, desk, order)
        if isinstance(items, Ask):
            return items
        pairs += [(item, _target_words(wish.text, item["name"])) for item in items]
    if not pairs:
        return Ask(f"Which item of order {order['order_id']} would you like to change?")
    product_ids = list(dict.fromkeys(item["product_id"] for item, _ in pairs))
    sources = find_payment_sources("\n".join(desk.seen.said))
    missing: list[tuple[str, Mapping[str, Any]]] = [
        ("get_product_details", {"product_id": key})
        for key in product_ids
        if desk.seen.result("get_product_details", {"product_id": key}) is None
    ]
    if sources and desk.profile() is None:
        missing.append(desk.read_profile.calls[0])
    if missing:
        return Lookup(tuple(missing))
    return _change_to(pairs, desk, order, sources)


def _change_to(pairs: Sequence[tuple[Row, str]], desk: Desk, order: Row, sources: Sequence[str]) -> Step:
    old: list[str] = []
    new: list[str] = []
    words: list[str] = []
    difference = 0.0
    for item, target in pairs:
        product = desk.seen.object("get_product_details", {"product_id": item["product_id"]}) or {"variants": {}}
        variant = _wanted_variant(item, target or desk.later_said, product, desk.guidance)
        if variant is None:
            question = f"Which options would you like for the {item['name']}?"
            if target or desk.seen.times_said(question):
                return Deny(f"I cannot change the {item['name']}, because no such variant is available.")
            return Ask(question)
        changed = [f"{key} {value}" for key, value in variant["options"].items() if item["options"].get(key) != value]
        old.append(item["item_id"])
        new.append(variant["item_id"])
        words.append(f"the {item['name']} to {', '.join(changed) or 'the same options'}")
        difference += variant["price"] - item["price"]
    method = _paying_method(desk, order, sources, round(difference, 2))
    exchanges = order["status"] == "delivered"
    return Write(
        "exchange_delivered_order_items" if exchanges else "modify_pending_order_items",
        {"order_id": order["order_id"], "item_ids": old, "new_item_ids": new, "payment_method_id": method},
        f"{'exchange' if exchanges else 'change'} {' and '.join(words)} in order {order['order_id']}, with the price "
        f"difference on {method}",
    )


def _wanted_variant(item: Row, target: str, product: Row, guidance: Guidance) -> Row | None:
    """Give the variant that the words ask for; the first that can be had, if the agent looks at that."""
    variants: list[Row] = list(product["variants"].values())
    values = {key: {variant["options"].get(key) for variant in variants} for key in item["options"]}
    for words in split_alternatives(target):
        named = {key: value for key in values for value in sorted(filter(None, values[key])) if mentions(words, value)}
        if not named:
            continue
        options = {**item["options"], **named}
        variant = next((row for row in variants if row["options"] == options), None)
        if variant is not None and (variant["available"] or not guidance.checks_availability):
            return variant
    return None


def _paying_method(desk: Desk, order: Row, sources: Sequence[str], amount: float) -> str:
    """Give the method that the customer named, else the one that the order was paid with."""
    methods: list[Row] = list((desk.profile() or {"payment_methods": {}})["payment_methods"].values())
    for source in sources:
        method = next((row for row in methods if row["source"] == source), None)
        if method is None:
            continue
        is_short = source == "gift_card" and method["balance"] < amount
        if not (is_short and desk.guidance.checks_balance):
            return method["id"]
    return _original_method(order)


def _change_order_address(wishes: Sequence[Wish], desk: Desk, order: Row) -> Step:
    denied = _status_denied(desk, order, "pending", "sent elsewhere")
    if denied:
        return denied
    address = find_address(wishes[0].text) or find_address(desk.later_said)
    order_id = order["order_id"]
    if address is None:
        return Ask(f"What is the full new address for order {order_id} (street, unit, city, state, country, zip code)?")
    return Write(
        "modify_pending_order_address",
        {"order_id": order_id, **address},
        f"ship order {order_id} to {', '.join(address.values())}",
    )


def _change_user_address(wish: Wish, desk: Desk) -> Step:
    address = find_address(wish.text) or find_address(desk.later_said)
    if address is None:
        return Ask("What is the full new address (street, unit, city, state, country, zip code)?")
    return Write(
        "modify_user_address",
        {"user_id": desk.user_id, **address},
        f"change the default address of your account to {', '.join(address.values())}",
    )


def _change_payment(wishes: Sequence[Wish], desk: Desk, order: Row) -> Step:
    denied = _status_denied(desk, order, "pending", "paid differently")
    if denied:
        return denied
    profile = desk.profile()
    if profile is None:
        return desk.read_profile
    sources = find_payment_sources(wishes[0].text) or find_payment_sources(desk.later_said)
    if not sources:
        return Ask(f"Which payment method would you like to use for order {order['order_id']}?")
    methods = (row for row in profile["payment_methods"].values() if row["source"] == sources[0])
    method = next(methods, None)
    if method is None:
        return Deny(f"I cannot change the payment, because your account has no {sources[0].replace('_', ' ')}.")
    return Write(
        "modify_pending_order_payment",
        {"order_id": order["order_id"], "payment_method_id": method["id"]},
        f"pay order {order['order_id']} with {method['id']}",
    )


# --- answers ------------------------------------------------------------------------------------------------


def _tell_stock(wish: Wish, desk: Desk) -> Step:
    if desk.seen.result("list_all_product_types", {}) is None:
        return Lookup((("list_all_product_types", {}),))
    types = desk.seen.object("list_all_product_types", {}) or {}
    product_id = next((key for name, key in types.items() if mentions(wish.text, name)), None)
    if product_id is None:
        return Ask("Which product would you like to know about?")
    if desk.seen.result("get_product_details", {"product_id": product_id}) is None:
        return Lookup((("get_product_details", {"product_id": product_id}),))
    product = desk.seen.object("get_product_details", {"product_id": product_id}) or {"name": "", "variants": {}}
    prices = [variant["price"] for variant in product["variants"].values() if variant["available"]]
    if not prices:
        return Answer(f"No variant of the {product['name']} is available right now.")
    return Answer(
        f"There are {len(prices)} variants of the {product['name']} available right now; the cheapest one costs "
        f"${min(prices):.2f}."
    )


def _tell_total(wishes: Sequence[Wish], desk: Desk, order: Row) -> Step:
    items = _named_items(wishes[0], desk, order)
    if isinstance(items, Ask):
        return items
    if not items:
        return Ask(f"Which items of order {order['order_id']} are meant?")
    arguments = {"expression": " + ".join(f"{item['price']:.2f}" for item in items)}
    total = desk.seen.result("calculate", arguments)
    if total is None:
        return Lookup((("calculate", arguments),))
    names = " and the ".join(item["name"] for item in items)
    return Answer(f"For the {names} you would get back ${float(total[1]):.2f} in total.")
