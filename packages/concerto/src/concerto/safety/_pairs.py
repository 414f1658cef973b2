"""Pairs of robots, the slack that belongs to each pair, and its JSON form."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterable, Sequence
from typing import Any, cast

LambdaDict = dict[tuple[str, str], float]
"""One slack per pair, in m/s^2; every key is canonical: ``key[0] < key[1]``."""


def canonical_pair_order(uids: Iterable[str]) -> list[str]:
    """Sort uids lexicographically.

    Raises:
        ValueError: a uid occurs twice.
    """
    ordered = sorted(uids)
    for left, right in itertools.pairwise(ordered):
        if left == right:
            raise ValueError(f"uids must be distinct, got {left!r} twice")
    return ordered


def canonical_pair_key(a: str, b: str) -> tuple[str, str]:
    """Give the key of a pair: the two uids in lexicographic order.

    Raises:
        ValueError: the uids are equal.
    """
    if a == b:
        raise ValueError(f"a pair needs two different uids, got {a!r} twice")
    return (a, b) if a < b else (b, a)


def make_pair_keys(uids: Iterable[str]) -> list[tuple[str, str]]:
    """List all pairs of the uids, the upper triangle over the sorted uids row by row.

    Raises:
        ValueError: a uid occurs twice.

    Examples:
        >>> make_pair_keys("cab")
        [('a', 'b'), ('a', 'c'), ('b', 'c')]
    """
    ordered = canonical_pair_order(uids)
    return [(a, b) for index, a in enumerate(ordered) for b in ordered[index + 1 :]]


def make_lambda_dict(uids: Iterable[str], *, fill: float = 0.0, ego_uid: str | None = None) -> LambdaDict:
    """Make a slack for every pair of the uids, or for the pairs of one ego.

    Args:
        uids: all robots.
        fill: value of every slack, m/s^2.
        ego_uid: keep only the pairs that contain this robot; what an ego-only filter expects.

    Raises:
        ValueError: a uid occurs twice, or ``ego_uid`` is not among them.
    """
    ordered = canonical_pair_order(uids)
    if ego_uid is not None and ego_uid not in ordered:
        raise ValueError(f"ego_uid must be one of {ordered}, got {ego_uid!r}")
    return {key: float(fill) for key in make_pair_keys(ordered) if ego_uid is None or ego_uid in key}


def lambda_to_jsonable(lambda_: LambdaDict) -> list[dict[str, Any]]:
    """Encode slacks as ``[{"a": ..., "b": ..., "value": ...}, ...]`` in `make_pair_keys` order.

    Raises:
        ValueError: a key is not canonical.
    """
    for a, b in lambda_:
        if a >= b:
            raise ValueError(f"lambda keys must be ordered pairs of different uids, got {(a, b)!r}")
    return [{"a": a, "b": b, "value": float(lambda_[a, b])} for a, b in sorted(lambda_)]


def lambda_from_jsonable(
    payload: object, *, uids: Iterable[str] | None = None, allow_empty: bool = False
) -> LambdaDict:
    """Decode slacks from their JSON form.

    Lists of objects are the current format. Lists of bare numbers in canonical pair order, and the empty
    list, are read as the older format, which names no robots and therefore needs ``uids``.

    Args:
        payload: the decoded JSON value.
        uids: robots of the older format.
        allow_empty: read the empty list as "no pairs" in place of the older format.

    Raises:
        TypeError: ``payload`` is no list, mixes the formats, or is in the older one without ``uids``.
        ValueError: a record is incomplete, a pair names one robot twice or occurs twice, or the older list has
            a wrong length.
    """
    if not isinstance(payload, list):
        raise TypeError(f"lambda must be decoded from a list, got {type(payload).__name__}")
    items = cast("list[object]", payload)
    if not items and allow_empty:
        return {}
    if items and isinstance(items[0], dict):
        return _lambda_from_records(items)
    if uids is None:
        raise TypeError("lambda as bare numbers names no robots: give uids, or records with a, b and value")
    warnings.warn(
        "lambda as bare numbers is deprecated and will be refused from version 1.0: write it with lambda_to_jsonable",
        DeprecationWarning,
        stacklevel=2,
    )
    keys = make_pair_keys(uids)
    if len(items) != len(keys):
        raise ValueError(f"lambda must have {len(keys)} values, one per pair, got {len(items)}")
    return {key: float(cast("float", value)) for key, value in zip(keys, items, strict=True)}


def _lambda_from_records(items: Sequence[object]) -> LambdaDict:
    result: LambdaDict = {}
    for item in items:
        if not isinstance(item, dict):
            raise TypeError(f"every item of lambda must be an object with a, b and value, got {item!r}")
        record = cast("dict[str, Any]", item)
        missing = [field for field in ("a", "b", "value") if field not in record]
        if missing:
            raise ValueError(f"every item of lambda must have a, b and value, got {record!r} without {missing}")
        key = canonical_pair_key(str(record["a"]), str(record["b"]))
        if key in result:
            raise ValueError(f"lambda has two values for the pair {key!r}")
        result[key] = float(record["value"])
    return result
