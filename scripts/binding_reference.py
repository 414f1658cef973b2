"""Write docs/reference/binding-spec.md from the tables of the loader.

Run it with `.venv/bin/python scripts/binding_reference.py`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from scpn_phase_orchestrator.binding._descriptors import (
    REQUIRED,
    Boolean,
    Field,
    Free,
    Integer,
    Listing,
    Nullable,
    Number,
    Record,
    Table,
    Text,
)
from scpn_phase_orchestrator.binding.schema import SPEC
from scpn_phase_orchestrator.supervisor._rule_file import _DOCUMENT as RULES
from scpn_phase_orchestrator.supervisor.policy_rules import MAX_PARTS, MAX_RULES, METRICS

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "reference" / "binding-spec.md"
EXAMPLE = ROOT / "examples" / "binding_spec_complete.yaml"

HEADER = """# Binding spec

A binding spec says which oscillators there are, how they act on each other, what is wanted of them and what may be
moved. This page is written by `scripts/binding_reference.py` from the table by which specs are read; a test keeps the
two equal. `spo schema` prints the same as JSON Schema, for editors.

* A spec is a `.yaml`, `.yml` or `.json` file; in a pack it is called `binding_spec.yaml`.
* Nothing is coerced: `"0.5"` is no number, NaN and infinity are refused. A key that is there twice is an error, and so
  is an unknown key; the message names the nearest valid one. Every message gives line and path.
* A `layer_<index>` in a scope and the numbers in `objectives` are the declared `index` of a layer. `R_<k>` in
  boundaries and guards counts layers by their position in the list, from 0.
* Oscillators are numbered through all layers in the order in which they stand; a matrix has one row (the receiver) and
  one column (the sender) for each.
* The coupling formula is `K_ij = base_strength * exp(-decay_alpha * |i - j|)` with a zero diagonal.
* A channel id is a letter, then at most 63 letters, digits, `_` or `-`.
* What is legal but unwise is a warning: see [Write a pack](../how-to/write-a-pack.md).
"""
RULE_HEADER = f"""
## Rule files

A file `policy.yaml` beside the spec, or the one that `policy` names. Rules act after the supervisor, in the order of
the file: every rule whose regime and conditions fit fires. At most {MAX_RULES} rules, each with at most {MAX_PARTS}
conditions and {MAX_PARTS} actions; of `condition` and `conditions` one is given, likewise of `action` and `actions`.

Metrics: {", ".join(f"`{name}`" for name in sorted(METRICS))}.

`layer` is the position of a layer; for `R_good` and `R_bad` it is the position in the list of good or bad layers, and
without it they are the mean over that list.
"""
_PLURALS = {"number": "numbers", "text": "texts", "integer": "integers"}


def render() -> str:
    """Give the page."""
    example = EXAMPLE.read_text(encoding="utf-8")
    return (
        HEADER
        + "\n## The spec\n"
        + "".join(_Tables(SPEC).sections())
        + RULE_HEADER
        + "".join(_Tables(RULES).sections())
        + "\n## A complete example\n\nEvery key once. It is `examples/binding_spec_complete.yaml`, and it runs.\n\n"
        + f"```yaml\n{example}```\n"
    )


class _Tables:
    """The tables of a mapping and of all mappings in it; equal ones are shown once."""

    def __init__(self, root: Record) -> None:
        self._places: list[tuple[Record, list[str]]] = []
        self._collect(root, "")

    def _collect(self, record: Record, place: str) -> None:
        for known, places in self._places:
            if known == record:
                places.append(place)
                return
        self._places.append((record, [place]))
        for entry in record.fields:
            for suffix, inner in _records(entry.kind):
                self._collect(inner, f"{place}.{entry.key}{suffix}".lstrip("."))

    def sections(self) -> Iterator[str]:
        """Give heading and table of every mapping."""
        for record, places in self._places:
            if places != [""]:
                yield f"\n### {', '.join(f'`{place}`' for place in places)} {{#{_anchor(places[0])}}}\n"
            yield "\n| Key | Type | Default | Meaning |\n|---|---|---|---|\n"
            for entry in record.fields:
                yield self._row(entry)
            if record.others is not None:
                yield f"| a channel id | {self._words(record.others.value)} | | Drive of that channel. |\n"
            if record.is_open:
                yield "\nFurther keys are kept as they are.\n"

    def _row(self, entry: Field) -> str:
        if entry.default is REQUIRED:
            default = "**required**"
        else:
            default = "none" if entry.default is None else f"`{json.dumps(entry.default)}`"
        aliases = f" Also called {', '.join(f'`{name}`' for name in entry.aliases)}." if entry.aliases else ""
        return f"| `{entry.key}` | {self._words(entry.kind)} | {default} | {_escaped(entry.help)}{aliases} |\n"

    def _words(self, kind: Any) -> str:
        """Say a type."""
        match kind:
            case Nullable(inner):
                words = f"{self._words(inner)}, or `null`"
            case Listing(item=item, min_items=least, max_items=most):
                count = f"{least} " if least == most else "one or more " if least else ""
                each = self._words(item)
                words = f"list of {count}{_PLURALS[each]}" if each in _PLURALS else f"list of {count}({each})"
            case Table(value=value):
                words = f"mapping: name to ({self._words(value)})"
            case Record():
                places = next(places for known, places in self._places if known == kind)
                words = f"[mapping](#{_anchor(places[0])})"
            case _:
                words = self._words(kind.inner) if hasattr(kind, "inner") else _simple_words(kind)
        return words


def _simple_words(kind: Any) -> str:
    match kind:
        case Text(choices=choices) if choices:
            words = "one of " + ", ".join(f"`{choice}`" for choice in sorted(choices))
        case Text(pattern_help=help_text):
            words = _escaped(help_text.split(" (")[0]) or "text"
        case Number():
            bounds = ((kind.minimum, "≥"), (kind.above, ">"), (kind.maximum, "≤"), (kind.below, "<"))
            said = " and ".join(f"{sign} {bound:g}" for bound, sign in bounds if bound is not None)
            words = _escaped(f"number {said}".rstrip())
        case Integer(minimum=minimum):
            words = "integer" if minimum is None else f"integer ≥ {minimum}"
        case Boolean():
            words = "`true` or `false`"
        case Free():
            words = "mapping"
        case _:
            words = "one of " + ", ".join(f"`{word}`" for word in kind.meanings) + ", in any case"
    return words


def _records(kind: Any) -> list[tuple[str, Record]]:
    """Give the mappings with known keys in a value, and where in it they are."""
    match kind:
        case Record():
            return [("", kind)]
        case Listing(item=item):
            return [(f"[]{suffix}", one) for suffix, one in _records(item)]
        case Table(value=value):
            return [(f".NAME{suffix}", one) for suffix, one in _records(value)]
        case _:
            return _records(kind.inner) if hasattr(kind, "inner") else []


def _anchor(place: str) -> str:
    return re.sub(r"\W+", "-", place).strip("-")


def _escaped(text: str) -> str:
    return text.replace("<", "&lt;")


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
