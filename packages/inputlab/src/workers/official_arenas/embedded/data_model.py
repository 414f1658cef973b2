"""The shop: products, users and orders as validated rows, and a database that copies a row only when it writes.

The fields are those of tau2-bench's retail domain, so its own data files load unchanged.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, cast

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from ripieno.canonical import canonical_json
from workers.official_arenas.protocol import OfficialArenaError

__all__ = [
    "ORDER_STATUSES",
    "Database",
    "Order",
    "Product",
    "RetailData",
    "User",
    "describe_validation_error",
    "load_retail_data",
]

ORDER_STATUSES = (
    "processed",
    "pending",
    "pending (item modified)",
    "delivered",
    "cancelled",
    "exchange requested",
    "return requested",
)
"""Every status an order can have."""


class _Row(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Variant(_Row):
    """One version of a product that can be bought."""

    item_id: str
    options: dict[str, str]
    available: bool
    price: float = Field(ge=0, allow_inf_nan=False)


class Product(_Row):
    """A type of product with all of its variants, by item id."""

    name: str
    product_id: str
    variants: dict[str, Variant]


class Name(_Row):
    """Name of a person."""

    first_name: str
    last_name: str


class Address(_Row):
    """A postal address."""

    address1: str
    address2: str
    city: str
    country: str
    state: str
    zip: str


class CreditCard(_Row):
    """A payment card."""

    source: Literal["credit_card"]
    id: str
    brand: str
    last_four: str


class GiftCard(_Row):
    """A gift card and what is left on it."""

    source: Literal["gift_card"]
    id: str
    balance: float = Field(ge=0, allow_inf_nan=False)


class Paypal(_Row):
    """A PayPal account."""

    source: Literal["paypal"]
    id: str


PaymentMethod = Annotated[CreditCard | GiftCard | Paypal, Field(discriminator="source")]


class User(_Row):
    """A customer."""

    user_id: str
    name: Name
    address: Address
    email: str
    payment_methods: dict[str, PaymentMethod]
    orders: list[str]


class OrderItem(_Row):
    """One piece in an order, with the price and options it was bought with."""

    name: str
    product_id: str
    item_id: str
    price: float = Field(ge=0, allow_inf_nan=False)
    options: dict[str, str]


class Fulfillment(_Row):
    """A parcel."""

    tracking_id: list[str]
    item_ids: list[str]


class Payment(_Row):
    """A payment or a refund."""

    transaction_type: Literal["payment", "refund"]
    amount: float = Field(ge=0, allow_inf_nan=False)
    payment_method_id: str


class Order(_Row):
    """An order; the last seven fields are None until a tool fills them."""

    order_id: str
    user_id: str
    address: Address
    items: list[OrderItem]
    status: Literal[
        "processed",
        "pending",
        "pending (item modified)",
        "delivered",
        "cancelled",
        "exchange requested",
        "return requested",
    ]
    fulfillments: list[Fulfillment]
    payment_history: list[Payment]
    cancel_reason: Literal["no longer needed", "ordered by mistake"] | None = None
    exchange_items: list[str] | None = None
    exchange_new_items: list[str] | None = None
    exchange_payment_method_id: str | None = None
    exchange_price_difference: float | None = None
    return_items: list[str] | None = None
    return_payment_method_id: str | None = None


class _Tables(_Row):
    products: dict[str, Product]
    users: dict[str, User]
    orders: dict[str, Order]


_TABLES = TypeAdapter(_Tables)
_TABLE_NAMES = ("orders", "products", "users")  # in the order of canonical JSON

Rows = Mapping[str, Mapping[str, Any]]


def describe_validation_error(error: ValidationError) -> str:
    """Say where a value is wrong and what was expected there; never what it holds."""
    first = error.errors(include_input=False, include_url=False)[0]
    place = ".".join(str(part) for part in first["loc"]) or "the whole value"
    return f"{place}: {first['msg']}"


@dataclass(frozen=True, slots=True)
class RetailData:
    """A validated shop that nobody changes; every `Database` starts from one.

    Attributes:
        products: rows by product id.
        users: rows by user id.
        orders: rows by order id.
        product_of_item: product id by item id.
    """

    products: Rows
    users: Rows
    orders: Rows
    product_of_item: Mapping[str, str]
    _encoded: Mapping[str, Mapping[str, bytes]] = field(repr=False)

    def row_bytes(self, table: str, key: str) -> bytes:
        """Give ``"key":row`` as canonical JSON."""
        return self._encoded[table][key]


def load_retail_data(value: object) -> RetailData:
    """Give the shop of a parsed ``db.json``.

    Raises:
        OfficialArenaError: a field is missing, unknown or wrong (the message names it), a row lies under another
            id than its own, or something refers to a row that does not exist.
    """
    try:
        tables = _TABLES.validate_python(value)
    except ValidationError as error:
        raise OfficialArenaError(f"Retail data is invalid at {describe_validation_error(error)}") from error
    _check_references(tables)
    plain = tables.model_dump(mode="json")
    encoded = {name: {key: _row_bytes(key, row) for key, row in plain[name].items()} for name in _TABLE_NAMES}
    product_of_item = {item_id: key for key, row in plain["products"].items() for item_id in row["variants"]}
    return RetailData(plain["products"], plain["users"], plain["orders"], product_of_item, encoded)


def _row_bytes(key: str, row: Mapping[str, Any]) -> bytes:
    return json.dumps(key, ensure_ascii=False).encode() + b":" + canonical_json(dict(row))


def _check_references(tables: _Tables) -> None:
    for product in tables.products.values():
        _same(product.product_id, tables.products, product, "products")
        if any(variant.item_id != key for key, variant in product.variants.items()):
            raise OfficialArenaError("Retail data has a variant under another id than its own")
    for user in tables.users.values():
        _same(user.user_id, tables.users, user, "users")
        if any(method.id != key for key, method in user.payment_methods.items()):
            raise OfficialArenaError("Retail data has a payment method under another id than its own")
        if any(order_id not in tables.orders for order_id in user.orders):
            raise OfficialArenaError("Retail data has a user with an order that does not exist")
    for order in tables.orders.values():
        _same(order.order_id, tables.orders, order, "orders")
        if order.user_id not in tables.users:
            raise OfficialArenaError("Retail data has an order of a user that does not exist")
        known = tables.users[order.user_id].payment_methods
        if any(row.payment_method_id not in known for row in order.payment_history):
            raise OfficialArenaError("Retail data has an order paid by a method that its user does not have")


def _same(identity: str, table: Mapping[str, object], row: object, name: str) -> None:
    if table.get(identity) is not row:
        raise OfficialArenaError(f"Retail data has a row of {name} under another id than its own")


class Database:
    """One conversation's view of a shop: reads share the rows of the shop, a write copies the row first.

    Rows that are read must not be changed; ask for `writable_order` or `writable_user`.
    """

    __slots__ = ("_data", "_orders", "_users")

    def __init__(self, data: RetailData) -> None:
        self._data = data
        self._orders: dict[str, dict[str, Any]] = {}
        self._users: dict[str, dict[str, Any]] = {}

    @property
    def products(self) -> Rows:
        """All products by id."""
        return self._data.products

    @property
    def users(self) -> Rows:
        """All users by id, as they were at the start; use `user` for one that may have changed."""
        return self._data.users

    def product_of_item(self, item_id: str) -> Mapping[str, Any] | None:
        """Give the product that an item id is a variant of, or None."""
        product_id = self._data.product_of_item.get(item_id)
        return None if product_id is None else self._data.products[product_id]

    def order(self, order_id: str) -> Mapping[str, Any] | None:
        """Give an order, or None."""
        return self._orders.get(order_id) or self._data.orders.get(order_id)

    def user(self, user_id: str) -> Mapping[str, Any] | None:
        """Give a user, or None."""
        return self._users.get(user_id) or self._data.users.get(user_id)

    def writable_order(self, order_id: str) -> dict[str, Any]:
        """Give this database's own copy of an order."""
        return _own(self._orders, self._data.orders, order_id)

    def writable_user(self, user_id: str) -> dict[str, Any]:
        """Give this database's own copy of a user."""
        return _own(self._users, self._data.users, user_id)

    def content_hash(self) -> str:
        """Give the `content_hash` of the whole database ``{orders, products, users}``.

        Rows that were not written are not encoded again: their canonical bytes are those of the shop.
        """
        digest = hashlib.sha256()
        changed: Mapping[str, Mapping[str, Any]] = {"orders": self._orders, "users": self._users, "products": {}}
        separator = b"{"
        for table in _TABLE_NAMES:
            digest.update(separator + f'"{table}":{{'.encode())
            digest.update(b",".join(self._encoded_rows(table, changed[table])))
            digest.update(b"}")
            separator = b","
        digest.update(b"}")
        return digest.hexdigest()

    def _encoded_rows(self, table: str, changed: Mapping[str, Any]) -> list[bytes]:
        rows = cast("Rows", getattr(self._data, table))
        return [
            _row_bytes(key, changed[key]) if key in changed else self._data.row_bytes(table, key)
            for key in sorted(rows)
        ]


def _own(copies: dict[str, dict[str, Any]], rows: Rows, key: str) -> dict[str, Any]:
    if key not in copies:
        copies[key] = _copied(rows[key])
    return copies[key]


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_copied(item) for item in cast("list[Any]", value)]
    return value
