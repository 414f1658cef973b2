# ruff: noqa: D102, D103 - tables of texts, read as prose
"""Write the four data files of the embedded retail arena: ``python scripts/make_retail_arena.py [DIRECTORY]``.

Prices, ids, stock and the orders that no task is about come from named random streams; names, tasks and policy are
written here. The same script gives the same bytes on every machine, and a test compares them with the package data.
"""

from __future__ import annotations

import itertools
import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from retail_arena_tasks import POLICY, TASKS, TEST_IDS, OrderPlan, TaskPlan

from ripieno.randomness import derive_substream

DATA = Path(__file__).parents[1] / "packages/inputlab/src/workers/official_arenas/embedded/data"
ORDER_COUNT = 48

PRODUCTS: dict[str, tuple[float, dict[str, tuple[str, ...]]]] = {
    "Desk Lamp": (38.0, {"finish": ("brass", "black", "white"), "bulb": ("warm", "cool")}),
    "Travel Mug": (17.0, {"size": ("12 oz", "16 oz", "20 oz"), "color": ("green", "grey")}),
    "Rain Jacket": (64.0, {"color": ("navy", "red", "yellow"), "size": ("small", "medium", "large")}),
    "Electric Kettle": (45.0, {"capacity": ("0.8 litre", "1.2 litre", "1.7 litre"), "material": ("steel", "glass")}),
    "Hiking Backpack": (82.0, {"color": ("olive", "slate", "orange"), "volume": ("20 L", "35 L")}),
    "Yoga Mat": (29.0, {"thickness": ("4 mm", "6 mm", "8 mm"), "color": ("teal", "plum")}),
    "Wall Clock": (33.0, {"frame": ("oak", "walnut", "metal"), "diameter": ("25 cm", "35 cm")}),
    "Table Fan": (41.0, {"power": ("25 W", "40 W", "55 W"), "color": ("ivory", "charcoal")}),
    "Notebook Set": (14.0, {"ruling": ("lined", "dotted", "blank"), "cover": ("soft", "hard")}),
    "Bluetooth Speaker": (57.0, {"battery": ("10 hour", "20 hour", "30 hour"), "color": ("coral", "graphite")}),
    "Garden Hose": (26.0, {"length": ("10 m", "20 m", "30 m"), "nozzle": ("jet", "spray")}),
    "Cotton Blanket": (49.0, {"size": ("single", "double"), "pattern": ("plain", "striped", "checked")}),
}
# What a task needs to be out of stock, or to be had; the rest is drawn.
UNAVAILABLE = {
    ("Desk Lamp", ("brass", "cool")),
    ("Hiking Backpack", ("orange", "35 L")),
    ("Yoga Mat", ("8 mm", "plum")),
}
SOLD_OUT_SHARE = 0.12

FIRST_NAMES = (
    "Nora", "Elias", "Priya", "Tomas", "Ingrid", "Kofi", "Leila", "Marek", "Yuna", "Rafael", "Astrid", "Dinesh",
    "Wanda", "Jonas", "Amara", "Felix", "Soraya", "Viktor", "Hana", "Emil", "Paloma", "Idris", "Greta", "Osman",
)  # fmt: skip
LAST_NAMES = (
    "Quill", "Harrow", "Menon", "Lindqvist", "Berg", "Asante", "Farouk", "Novak", "Tanaka", "Ortega", "Holm", "Rao",
    "Kessler", "Wren", "Okafor", "Marsh", "Haddad", "Petrov", "Sato", "Falk", "Vega", "Bello", "Winter", "Demir",
)  # fmt: skip
PLACES = (
    ("Millbrook", "OR"), ("Ashford", "WA"), ("Cedar Falls", "IA"), ("Lakeport", "MI"), ("Stonehill", "VT"),
    ("Riverton", "UT"), ("Fairhaven", "MA"), ("Oakdale", "MN"),
)  # fmt: skip
STREETS = ("Birch Lane", "Harbour Road", "Mill Street", "Orchard Avenue", "Quarry Road", "Station Street")
BRANDS = ("Visa", "Mastercard", "Maestro")


@dataclass
class Ids:
    """Draws identifiers that are never the same twice."""

    stream: Any
    taken: set[int] = field(default_factory=set)

    def draw(self, digits: int) -> str:
        while True:
            number = int(self.stream.integers(10 ** (digits - 1), 10**digits))
            if number not in self.taken:
                self.taken.add(number)
                return str(number)


def stream(name: str) -> Any:
    return derive_substream(f"inputlab.embedded_retail.{name}", root_seed=17).default_rng()


def build_products(ids: Ids) -> dict[str, Any]:
    rng = stream("products")
    needed = {(plan.name, plan.options) for task in TASKS for plan in task.variants_needed()}
    products: dict[str, Any] = {}
    for name, (base, options) in PRODUCTS.items():
        product_id = ids.draw(10)
        variants: dict[str, Any] = {}
        for values in itertools.product(*options.values()):
            # Later options are the larger or finer ones and cost more.
            level = sum(choices.index(value) for choices, value in zip(options.values(), values, strict=True))
            price = round(base * (1 + 0.07 * level) * float(rng.uniform(0.97, 1.03)), 2)
            drawn = float(rng.uniform())
            available = (name, values) not in UNAVAILABLE and (drawn >= SOLD_OUT_SHARE or (name, values) in needed)
            item_id = ids.draw(10)
            variants[item_id] = {
                "item_id": item_id,
                "options": dict(zip(options, values, strict=True)),
                "available": available,
                "price": price,
            }
        products[product_id] = {"name": name, "product_id": product_id, "variants": variants}
    return products


class Shop:
    """The tables while they are filled."""

    def __init__(self) -> None:
        self.ids = Ids(stream("ids"))
        self.products = build_products(self.ids)
        self.product_id = {row["name"]: key for key, row in self.products.items()}
        self.users: dict[str, Any] = {}
        self.orders: dict[str, Any] = {}

    def variant(self, name: str, options: tuple[str, ...]) -> dict[str, Any]:
        variants = self.products[self.product_id[name]]["variants"].values()
        return next(row for row in variants if tuple(row["options"].values()) == options)

    def add_user(self, number: int, task: TaskPlan) -> dict[str, Any]:
        rng = stream(f"user.{number}")
        first, last = FIRST_NAMES[number], LAST_NAMES[number]
        city, state = PLACES[int(rng.integers(len(PLACES)))]
        methods: dict[str, Any] = {}
        for source in task.payment_sources:
            method_id = f"{source}_{self.ids.draw(7)}"
            details: dict[str, Any] = {"source": source, "id": method_id}
            if source == "credit_card":
                details |= {"brand": BRANDS[int(rng.integers(len(BRANDS)))], "last_four": self.ids.draw(4)}
            elif source == "gift_card":
                details["balance"] = task.gift_card_balance
            methods[method_id] = details
        user_id = f"{first.lower()}_{last.lower()}_{self.ids.draw(4)}"
        self.users[user_id] = {
            "user_id": user_id,
            "name": {"first_name": first, "last_name": last},
            "address": {
                "address1": f"{int(rng.integers(1, 900))} {STREETS[int(rng.integers(len(STREETS)))]}",
                "address2": f"Unit {int(rng.integers(1, 60))}",
                "city": city,
                "country": "USA",
                "state": state,
                "zip": self.ids.draw(5),
            },
            "email": f"{first.lower()}.{last.lower()}@example.com",
            "payment_methods": methods,
            "orders": [],
        }
        return self.users[user_id]

    def add_order(self, user: dict[str, Any], plan: OrderPlan) -> dict[str, Any]:
        order_id = f"#W{self.ids.draw(7)}"
        items: list[dict[str, Any]] = []
        for wanted in plan.items:
            variant = self.variant(wanted.name, wanted.options)
            items.append(
                {
                    "name": wanted.name,
                    "product_id": self.product_id[wanted.name],
                    "item_id": variant["item_id"],
                    "price": variant["price"],
                    "options": variant["options"],
                }
            )
        methods = user["payment_methods"]
        method_id = next(key for key, row in methods.items() if row["source"] == plan.paid_with)
        total = round(sum(item["price"] for item in items), 2)
        history = [{"transaction_type": "payment", "amount": total, "payment_method_id": method_id}]
        order: dict[str, Any] = {
            "order_id": order_id,
            "user_id": user["user_id"],
            "address": user["address"],
            "items": items,
            "status": plan.status,
            "fulfillments": [],
            "payment_history": history,
        }
        if plan.status in {"processed", "delivered", "exchange requested", "return requested"}:
            order["fulfillments"] = [
                {"tracking_id": [self.ids.draw(9)], "item_ids": [item["item_id"] for item in items]}
            ]
        if plan.status == "cancelled":
            order["cancel_reason"] = "ordered by mistake"
            history.append({**history[0], "transaction_type": "refund"})
        elif plan.status == "return requested":
            order |= {"return_items": [items[0]["item_id"]], "return_payment_method_id": method_id}
        elif plan.status == "exchange requested":
            order |= {
                "exchange_items": [items[0]["item_id"]],
                "exchange_new_items": [items[0]["item_id"]],
                "exchange_payment_method_id": method_id,
                "exchange_price_difference": 0.0,
            }
        elif plan.status == "pending (item modified)":
            history.append({"transaction_type": "refund", "amount": 0.0, "payment_method_id": method_id})
        self.orders[order_id] = order
        user["orders"].append(order_id)
        return order


def filler_orders(shop: Shop, count: int) -> None:
    """Orders that no task is about, of customers whose tasks name their orders; no product of the task in them."""
    from retail_arena_tasks import ItemPlan

    rng = stream("filler")
    statuses = (
        "processed",
        "cancelled",
        "return requested",
        "exchange requested",
        "pending (item modified)",
        "delivered",
    )
    owners = [task for task in TASKS if len(task.orders) < 3]
    for number in range(count):
        task = owners[number % len(owners)]
        user = list(shop.users.values())[int(task.id)]
        used = {item.name for plan in task.orders for item in plan.items}
        names = [name for name in PRODUCTS if name not in used]
        name = names[int(rng.integers(len(names)))]
        values = tuple(options[int(rng.integers(len(options)))] for options in PRODUCTS[name][1].values())
        source = next(iter(user["payment_methods"].values()))["source"]
        shop.add_order(user, OrderPlan((ItemPlan(name, values),), statuses[number % len(statuses)], source))


def build() -> dict[str, Any]:
    """Give the four files by name, as JSON values."""
    shop = Shop()
    people: list[dict[str, Any]] = []
    orders: list[list[dict[str, Any]]] = []
    for number, task in enumerate(TASKS):
        user = shop.add_user(number, task)
        people.append(user)
        orders.append([shop.add_order(user, plan) for plan in task.orders])
    filler_orders(shop, ORDER_COUNT - len(shop.orders))
    tasks = [task.build(shop, people, orders) for task in TASKS]
    train = [task.id for task in TASKS if task.id not in TEST_IDS]
    return {
        "db.json": {"products": shop.products, "users": shop.users, "orders": shop.orders},
        "tasks.json": tasks,
        "split_tasks.json": {"train": train, "test": list(TEST_IDS)},
        "policy.json": {"lines": POLICY},
    }


def encode(value: object) -> bytes:
    """Give the bytes of a data file."""
    return (json.dumps(value, indent=1, ensure_ascii=False) + "\n").encode()


def main(arguments: list[str]) -> None:
    directory = Path(arguments[0]) if arguments else DATA
    directory.mkdir(parents=True, exist_ok=True)
    for name, value in build().items():
        (directory / name).write_bytes(encode(value))
        print(directory / name)


if __name__ == "__main__":
    main(sys.argv[1:])
