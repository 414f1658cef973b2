"""Strict reading of what a model answered: the wanted form, or one error that says what is wrong.

An error names the release, the stage and the defect, never the text itself: replies can repeat what a user said.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, cast

from agentinputlab.contracts.errors import AlgorithmOutputError
from ripieno.canonical import strict_loads
from ripieno.errors import InputError

__all__ = ["MAX_REPLY_CHARACTERS", "Reply", "ReplyObject"]

MAX_REPLY_CHARACTERS = 200_000
"""Longest reply that is read at all."""
_MAX_JSON_DEPTH = 20
_FENCED = re.compile(r"```[a-zA-Z]*\s*\n(?P<body>.*?)\n?\s*```", re.DOTALL)
_LIST_MARK = re.compile(r"^(?:\(?\d{1,3}[.):]|[-*•])\s+")


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer of a model, read in the form that the method asked for.

    Attributes:
        release_id: the release that asked.
        stage: what it asked for, as in the trace.
        raw: the answer as it came.
    """

    release_id: str
    stage: str
    raw: str

    def fail(self, problem: str) -> NoReturn:
        """Refuse the answer; ``problem`` completes the sentence "the reply of stage ... ".

        Raises:
            AlgorithmOutputError: always.
        """
        raise AlgorithmOutputError(f"{self.release_id}: the reply of stage {self.stage!r} {problem}")

    def text(self, *, max_characters: int = MAX_REPLY_CHARACTERS) -> str:
        """Give the whole answer, stripped.

        Raises:
            AlgorithmOutputError: it is empty, too long, or no valid Unicode.
        """
        text = self.raw.strip()
        if not text:
            self.fail("is empty")
        if len(text) > max_characters:
            self.fail(f"has {len(text)} characters, at most {max_characters} are read")
        try:
            text.encode()
        except UnicodeEncodeError:
            self.fail("holds a lone surrogate, which is no text")
        return text

    def line(self, *, max_characters: int = 2_000) -> str:
        """Give the answer that must be one line.

        Raises:
            AlgorithmOutputError: it is empty, too long, or more than one line.
        """
        text = self.text(max_characters=max_characters)
        if len(text.splitlines()) != 1:
            self.fail(f"must be one line, got {len(text.splitlines())}")
        return text

    def lines(self, *, at_least: int = 1, at_most: int, max_characters: int = 2_000) -> tuple[str, ...]:
        """Give the answer that must be a list, one entry a line; numbers and bullets are taken off.

        Raises:
            AlgorithmOutputError: too few or too many entries, a blank or too long one.
        """
        entries = tuple(_LIST_MARK.sub("", line.strip()).strip() for line in self.text().splitlines() if line.strip())
        if not at_least <= len(entries) <= at_most:
            self.fail(f"must list {at_least} to {at_most} entries, got {len(entries)}")
        for number, entry in enumerate(entries, start=1):
            if not entry:
                self.fail(f"has no text in entry {number}")
            if len(entry) > max_characters:
                self.fail(f"has {len(entry)} characters in entry {number}, at most {max_characters} are read")
        return entries

    def json_object(self) -> ReplyObject:
        """Give the one JSON object of the answer, which may stand in a code fence or between sentences.

        Raises:
            AlgorithmOutputError: there is none, it is not strict JSON (unique keys, finite numbers, not too deep),
                or there are several.
        """
        text = self.text()
        fenced = _FENCED.findall(text)
        if len(fenced) > 1:
            self.fail(f"must hold one JSON object, got {len(fenced)} code blocks")
        body = fenced[0] if fenced else text
        first, last = body.find("{"), body.rfind("}")
        if first < 0 or last < first:
            self.fail("holds no JSON object")
        try:
            value = strict_loads(body[first : last + 1], max_bytes=4 * MAX_REPLY_CHARACTERS, max_depth=_MAX_JSON_DEPTH)
        except InputError:
            value = None  # the parser's message may quote a key, so it is left out
        if not isinstance(value, dict):
            self.fail("is not one strict JSON object (unique keys, finite numbers, nothing cut off)")
        return ReplyObject(self, cast("dict[str, Any]", value))


@dataclass(frozen=True, slots=True)
class ReplyObject:
    """A JSON object out of a reply, whose fields are read with their type.

    Attributes:
        reply: where it was found.
        fields: its members.
        place: path of the object inside the reply, empty for the outermost.
    """

    reply: Reply
    fields: Mapping[str, Any]
    place: str = ""

    def only(self, *names: str) -> ReplyObject:
        """Give the object itself when it has exactly these fields.

        Raises:
            AlgorithmOutputError: one is missing, or there are others.
        """
        missing = [name for name in names if name not in self.fields]
        if missing:
            self.reply.fail(f"lacks the field {self._path(missing[0])}")
        if len(self.fields) > len(names):
            self.reply.fail(f"must have exactly the fields {', '.join(names)}{self._within()}")
        return self

    def text(self, name: str, *, max_characters: int = 4_000, may_be_empty: bool = False) -> str:
        """Give a text field, stripped.

        Raises:
            AlgorithmOutputError: missing, no string, empty or too long.
        """
        return self._text(self._value(name), self._path(name), max_characters, may_be_empty)

    def texts(self, name: str, *, at_least: int = 1, at_most: int, max_characters: int = 2_000) -> tuple[str, ...]:
        """Give a list of texts.

        Raises:
            AlgorithmOutputError: missing, no list, too few or too many entries, or an entry that is no text.
        """
        path = self._path(name)
        return tuple(
            self._text(item, f"{path}[{index}]", max_characters, may_be_empty=False)
            for index, item in enumerate(self._list(name, at_least, at_most))
        )

    def objects(self, name: str, *, at_least: int = 1, at_most: int) -> tuple[ReplyObject, ...]:
        """Give a list of objects.

        Raises:
            AlgorithmOutputError: missing, no list, too few or too many entries, or an entry that is no object.
        """
        path = self._path(name)
        found: list[ReplyObject] = []
        for index, item in enumerate(self._list(name, at_least, at_most)):
            if not isinstance(item, dict):
                self.reply.fail(f"must have an object in {path}[{index}]")
            found.append(ReplyObject(self.reply, cast("dict[str, Any]", item), f"{path}[{index}]"))
        return tuple(found)

    def mapping(self, name: str) -> dict[str, Any]:
        """Give a field that is an object of free form.

        Raises:
            AlgorithmOutputError: missing or no object.
        """
        value = self._value(name)
        if not isinstance(value, dict):
            self.reply.fail(f"must have an object in {self._path(name)}")
        return cast("dict[str, Any]", value)

    def number(self, name: str, *, low: float, high: float) -> float:
        """Give a number within bounds.

        Raises:
            AlgorithmOutputError: missing, no number, or out of bounds.
        """
        value = self._value(name)
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
            self.reply.fail(f"must have a number from {low} to {high} in {self._path(name)}")
        return float(value)

    def integer(self, name: str, *, low: int, high: int) -> int:
        """Give an integer within bounds.

        Raises:
            AlgorithmOutputError: missing, no integer, or out of bounds.
        """
        return self._integer(self._value(name), self._path(name), low, high)

    def integers(self, name: str, *, low: int, high: int, at_most: int) -> tuple[int, ...]:
        """Give a list, possibly empty, of integers within bounds.

        Raises:
            AlgorithmOutputError: missing, no list, too long, or an entry that is no such integer.
        """
        path = self._path(name)
        return tuple(
            self._integer(item, f"{path}[{index}]", low, high)
            for index, item in enumerate(self._list(name, 0, at_most))
        )

    def boolean(self, name: str) -> bool:
        """Give true or false.

        Raises:
            AlgorithmOutputError: missing or no boolean.
        """
        value = self._value(name)
        if not isinstance(value, bool):
            self.reply.fail(f"must have true or false in {self._path(name)}")
        return value

    def choice(self, name: str, options: Sequence[str]) -> str:
        """Give one of the options that the method offered.

        Raises:
            AlgorithmOutputError: missing, or none of them.
        """
        value = self._value(name)
        if value not in options:
            self.reply.fail(f"must have one of {', '.join(options)} in {self._path(name)}")
        return cast("str", value)

    def _value(self, name: str) -> Any:
        if name not in self.fields:
            self.reply.fail(f"lacks the field {self._path(name)}")
        return self.fields[name]

    def _list(self, name: str, at_least: int, at_most: int) -> list[Any]:
        value = self._value(name)
        if not isinstance(value, list):
            self.reply.fail(f"must have a list in {self._path(name)}")
        items = cast("list[Any]", value)
        if not at_least <= len(items) <= at_most:
            self.reply.fail(f"must have {at_least} to {at_most} entries in {self._path(name)}, got {len(items)}")
        return items

    def _text(self, value: object, path: str, max_characters: int, may_be_empty: bool) -> str:
        if not isinstance(value, str):
            self.reply.fail(f"must have text in {path}")
        text = value.strip()
        if not text and not may_be_empty:
            self.reply.fail(f"has no text in {path}")
        if len(text) > max_characters:
            self.reply.fail(f"has {len(text)} characters in {path}, at most {max_characters} are read")
        return text

    def _integer(self, value: object, path: str, low: int, high: int) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            self.reply.fail(f"must have an integer from {low} to {high} in {path}")
        return value

    def _path(self, name: str) -> str:
        return f"{self.place}.{name}" if self.place else name

    def _within(self) -> str:
        return f" in {self.place}" if self.place else ""
