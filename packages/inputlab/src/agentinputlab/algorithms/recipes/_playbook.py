"""A playbook: short pieces of advice with a record of whether they helped, changed by small edits only."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from agentinputlab.contracts._checks import Record, entries, exact_fields, load, put, text, whole
from agentinputlab.contracts.errors import ValidationError
from agentinputlab.contracts.serialization import content_hash, to_jsonable

__all__ = ["Playbook", "PlaybookEntry"]


@dataclass(frozen=True, slots=True)
class PlaybookEntry(Record):
    """One piece of advice.

    Attributes:
        entry_id: its name, which edits refer to; never used again after removal.
        section: heading under which it stands.
        advice: the text, one line.
        helpful: how often it was said to have helped.
        harmful: how often it was said to have misled.
    """

    entry_id: str
    section: str
    advice: str
    helpful: int = 0
    harmful: int = 0

    def __post_init__(self) -> None:
        for name in ("entry_id", "section", "advice"):
            text(getattr(self, name), f"PlaybookEntry.{name}")
            put(self, **{name: " ".join(getattr(self, name).split())})
        whole(self.helpful, "PlaybookEntry.helpful")
        whole(self.harmful, "PlaybookEntry.harmful")


@dataclass(frozen=True, slots=True)
class Playbook(Record):
    """Entries in the order in which they were added; every change gives a new playbook.

    Attributes:
        entries: the pieces of advice; ids are unique.
        next_number: number of the next new entry.
    """

    entries: tuple[PlaybookEntry, ...] = ()
    next_number: int = 1

    def __post_init__(self) -> None:
        rows = entries(self.entries, "Playbook.entries", PlaybookEntry)
        ids = [row.entry_id for row in rows]
        if len(set(ids)) != len(ids):
            raise ValidationError("Playbook.entries must have unique ids")
        whole(self.next_number, "Playbook.next_number", minimum=1)
        put(self, entries=rows)

    @classmethod
    def from_dict(cls, value: object) -> Playbook:
        """Give the playbook that a mapping, such as `as_dict`, describes.

        Raises:
            ValidationError: an unknown, missing or wrong field, which is named.
        """
        mapping = dict(exact_fields(value, "playbook", allowed=("entries", "next_number"), required=("entries",)))
        rows: tuple[object, ...] = entries(mapping["entries"], "playbook.entries", object)
        mapping["entries"] = tuple(load(PlaybookEntry, row, "playbook entry") for row in rows)
        return cls(**mapping)

    def as_dict(self) -> dict[str, Any]:
        """Give the playbook as JSON values."""
        return to_jsonable(self)

    @property
    def playbook_hash(self) -> str:
        """The content hash of `as_dict`."""
        return content_hash(self)

    @property
    def text(self) -> str:
        """The playbook as an agent reads it: sections in order of their first entry, one entry a line."""
        sections: dict[str, list[str]] = {}
        for entry in self.entries:
            sections.setdefault(entry.section, []).append(f"- [{entry.entry_id}] {entry.advice}")
        return "\n\n".join("\n".join((f"## {section}", *lines)) for section, lines in sections.items())

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of the entries, in order."""
        return tuple(entry.entry_id for entry in self.entries)

    def add(self, section: str, advice: str) -> Playbook:
        """Give the playbook with one more entry; itself when the same advice is in it already."""
        new = PlaybookEntry(entry_id=f"p{self.next_number:03d}", section=section, advice=advice)
        if any(entry.advice.casefold() == new.advice.casefold() for entry in self.entries):
            return self
        return Playbook((*self.entries, new), self.next_number + 1)

    def revise(self, entry_id: str, advice: str) -> Playbook:
        """Give the playbook with another text in one entry, which keeps its record."""
        return self._changed({entry_id: replace(self._entry(entry_id), advice=advice)})

    def remove(self, entry_id: str) -> Playbook:
        """Give the playbook without one entry."""
        self._entry(entry_id)
        return replace(self, entries=tuple(entry for entry in self.entries if entry.entry_id != entry_id))

    def mark(self, *, helpful: Iterable[str], harmful: Iterable[str]) -> Playbook:
        """Give the playbook with one more count for each of these entries."""
        changed = {entry.entry_id: entry for entry in self.entries}
        for entry_id in dict.fromkeys(helpful):
            changed[entry_id] = replace(self._entry(entry_id), helpful=changed[entry_id].helpful + 1)
        for entry_id in dict.fromkeys(harmful):
            self._entry(entry_id)
            changed[entry_id] = replace(changed[entry_id], harmful=changed[entry_id].harmful + 1)
        return self._changed(changed)

    def prune(self, at_most: int) -> Playbook:
        """Give the playbook with at most so many entries: the ones that misled most go first, of equals the oldest."""
        surplus = len(self.entries) - at_most
        if surplus <= 0:
            return self
        ranked = sorted(self.entries, key=lambda entry: entry.helpful - entry.harmful)
        gone = {entry.entry_id for entry in ranked[:surplus]}
        return replace(self, entries=tuple(entry for entry in self.entries if entry.entry_id not in gone))

    def _entry(self, entry_id: str) -> PlaybookEntry:
        for entry in self.entries:
            if entry.entry_id == entry_id:
                return entry
        raise ValidationError(f"the playbook has no entry {entry_id!r:.40}")

    def _changed(self, changed: dict[str, PlaybookEntry]) -> Playbook:
        return replace(self, entries=tuple(changed.get(entry.entry_id, entry) for entry in self.entries))
