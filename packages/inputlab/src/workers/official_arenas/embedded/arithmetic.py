"""Arithmetic over a text with digits and operators, by a small parser with bounds."""

from __future__ import annotations

import math
import re

__all__ = ["MAX_CHARACTERS", "MAX_DEPTH", "evaluate"]

MAX_CHARACTERS = 400
"""Longest expression that is read."""
MAX_DEPTH = 40
"""Deepest nesting of parentheses and signs."""

_ALLOWED = re.compile(r"[0-9+\-*/(). ]*")
_TOKEN = re.compile(r"\s*(?:(\d+\.?\d*|\.\d+)|([-+*/()]))")


def evaluate(expression: str) -> float:
    """Give the value of an expression of numbers, ``+ - * /`` and parentheses; whole numbers are exact until divided.

    Raises:
        ValueError: other characters (``Invalid characters in expression``), or no finite value
            (``Invalid expression``).
    """
    if not _ALLOWED.fullmatch(expression):
        raise ValueError("Invalid characters in expression")
    if len(expression) > MAX_CHARACTERS:
        raise ValueError("Invalid expression")
    try:
        value = float(_Parser(_tokens(expression)).whole())
    except OverflowError as error:  # of a whole number that no float can hold
        raise ValueError("Invalid expression") from error
    if not math.isfinite(value):
        raise ValueError("Invalid expression")
    return value


def _tokens(expression: str) -> list[str]:
    tokens: list[str] = []
    position, text = 0, expression.rstrip()
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise ValueError("Invalid expression")
        tokens.append(match[1] or match[2])
        position = match.end()
    return tokens


class _Parser:
    """Recursive descent: sum of products of signed numbers and parentheses."""

    def __init__(self, tokens: list[str]) -> None:
        self._tokens = tokens
        self._next = 0

    def whole(self) -> float:
        value = self._sum(0)
        if self._next != len(self._tokens):
            raise ValueError("Invalid expression")
        return value

    def _peek(self) -> str:
        return self._tokens[self._next] if self._next < len(self._tokens) else ""

    def _take(self) -> str:
        token = self._peek()
        self._next += 1
        return token

    def _sum(self, depth: int) -> float:
        value = self._product(depth)
        while self._peek() in {"+", "-"}:
            value = value + self._product(depth) if self._take() == "+" else value - self._product(depth)
        return value

    def _product(self, depth: int) -> float:
        value = self._signed(depth)
        while self._peek() in {"*", "/"}:
            if self._take() == "*":
                value *= self._signed(depth)
                continue
            divisor = self._signed(depth)
            if divisor == 0:
                raise ValueError("Invalid expression")
            value /= divisor
        return value

    def _signed(self, depth: int) -> float:
        if depth > MAX_DEPTH:
            raise ValueError("Invalid expression")
        mark = self._take()
        if mark in {"+", "-"}:
            value = self._signed(depth + 1)
            return value if mark == "+" else -value
        if mark == "(":
            value = self._sum(depth + 1)
            if self._take() != ")":
                raise ValueError("Invalid expression")
            return value
        if not mark or mark in {")", "*", "/"}:
            raise ValueError("Invalid expression")
        if "." in mark:
            return float(mark)
        if mark.startswith("0") and mark.strip("0"):  # Python refuses such whole numbers, and with it tau2
            raise ValueError("Invalid expression")
        return int(mark)
