"""From a YAML file to a :class:`Cell`, or to one line that says what is wrong with it and where."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Hashable
from importlib import resources
from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from chamber.cell.checkpoint import checkpoint_sha256
from chamber.cell.config import Cell, EgoPolicy
from chamber.partners.api import PartnerSpec
from chamber.partners.registry import list_registered, load_partner
from ripieno.errors import InputError

__all__ = [
    "CHECKPOINT_NAME",
    "default_cell_text",
    "parse_cell",
    "pin_checkpoint",
    "read_cell_text",
    "trained_cell_text",
]

CHECKPOINT_NAME = "ego.pt"
"""What the checkpoint of a trained ego is called in the run folder, and so in the cell that was run."""

_MAX_BYTES = 1_000_000


def default_cell_text() -> str:
    """Give the text of the cell that comes with the package."""
    return _shipped("planar_push.yaml")


def trained_cell_text() -> str:
    """Give the text of the cell that comes with the package for an ego of one's own training."""
    return _shipped("planar_push_trained.yaml")


def _shipped(name: str) -> str:
    return (resources.files("chamber") / "cells" / name).read_text(encoding="utf-8")


def pin_checkpoint(
    cell: Cell, *, source: str, folder: Path, checkpoint: Path | None = None
) -> tuple[Cell, Path | None]:
    """Find the checkpoint of a trained ego, and make its hash a part of the cell.

    Args:
        cell: as it was parsed.
        source: name of its file, for messages.
        folder: which the checkpoint's path in the cell is relative to.
        checkpoint: file to take instead.

    Returns:
        The cell with the hash of its checkpoint, and the file; a cell without a trained ego as it was, and None.

    Raises:
        InputError: there is no such file, it is not the one that the cell pins, or the ego is none that is trained.
    """
    if cell.ego.policy is not EgoPolicy.TRAINED:
        if checkpoint is not None:
            raise InputError(f"{source}: ego.policy is {cell.ego.policy.value!r}, so there is no use for a checkpoint")
        return cell, None
    if checkpoint is None and cell.ego.checkpoint is None:
        raise InputError(f"{source}: ego.policy is 'trained': name its file with ego.checkpoint or --checkpoint")
    path = folder / (cell.ego.checkpoint or "") if checkpoint is None else checkpoint
    try:
        sha256 = checkpoint_sha256(path)
    except InputError as error:
        raise InputError(f"{source}: {error}") from error
    if cell.ego.checkpoint_sha256 not in {None, sha256}:
        raise InputError(
            f"{source}: ego.checkpoint_sha256 is {cell.ego.checkpoint_sha256}, but {path} has {sha256}: another file"
        )
    ego = cell.ego.model_copy(update={"checkpoint": CHECKPOINT_NAME, "checkpoint_sha256": sha256})
    return cell.model_copy(update={"ego": ego}), path


def read_cell_text(path: Path) -> str:
    """Read a cell file.

    Raises:
        InputError: it cannot be read, is longer than 1 MB, or is no UTF-8 text.
    """
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise InputError(f"{path}: cannot read the cell file: {error.strerror}") from error
    if len(data) > _MAX_BYTES:
        raise InputError(f"{path}: a cell file has at most {_MAX_BYTES} bytes")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: the cell file is not UTF-8 text (byte {error.start})") from error


def parse_cell(text: str, *, source: str) -> Cell:
    """Parse and check a cell, including that every partner can be built.

    Args:
        text: the YAML text.
        source: name of the file, for messages.

    Raises:
        InputError: what is wrong, in one line that begins with ``source``.
    """
    try:
        # _StrictLoader is a SafeLoader: it builds plain values only.
        raw = yaml.load(text, Loader=_StrictLoader)  # noqa: S506
    except yaml.YAMLError as error:
        raise InputError(f"{source}: {_yaml_problem(error)}") from error
    except RecursionError as error:
        raise InputError(f"{source}: the YAML is nested too deeply") from error
    if not isinstance(raw, dict):
        raise InputError(f"{source}: a cell must be a mapping of settings, got {type(raw).__name__}")
    try:
        # Through JSON, because strict validation then takes a list for a tuple and still no text for a number.
        cell = Cell.model_validate_json(json.dumps(raw, default=str))
    except ValidationError as error:
        raise InputError(f"{source}: {_validation_problem(error)}") from error
    _build_every_partner(cell, source)
    return cell


class _StrictLoader(yaml.SafeLoader):
    """Refuses repeated keys, and aliases, by which a small file could become a huge one."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise yaml.MarkedYAMLError(problem="aliases are not allowed", problem_mark=self.peek_event().start_mark)
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[object] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, str):
                raise yaml.MarkedYAMLError(problem=f"key {key!r} is not text", problem_mark=key_node.start_mark)
            if key in seen:
                raise yaml.MarkedYAMLError(problem=f"key {key!r} appears twice", problem_mark=key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep=deep)


def _yaml_problem(error: yaml.YAMLError) -> str:
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        return f"line {error.problem_mark.line + 1}: {error.problem}"
    return "not valid YAML: " + " ".join(str(error).split())


def _validation_problem(error: ValidationError) -> str:
    details = error.errors(include_url=False)
    # A misspelt key is the better news than the missing key that it was meant to be.
    first = min(details, key=lambda detail: detail["type"] != "extra_forbidden")
    more = f" (and {len(details) - 1} more)" if len(details) > 1 else ""
    path = _dotted(first["loc"])
    if first["type"] == "extra_forbidden":
        return f"unknown key {path!r}{_suggestion(first)}{more}"
    if first["type"] == "missing":
        return f"key {path!r} is missing{more}"
    if first["type"] == "value_error":
        message = first["msg"].removeprefix("Value error, ")
        return f"{path}: {message}{more}" if path else f"{message}{more}"
    message = re.sub(r"^\w+ should ", "must ", first["msg"])
    return f"{path} {message}, got {_shortened(first['input'])}{more}"


def _dotted(location: tuple[int | str, ...]) -> str:
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location)
    return text.removeprefix(".")


def _shortened(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _suggestion(detail: ErrorDetails) -> str:
    model: type[BaseModel] = Cell
    for part in detail["loc"][:-1]:
        if isinstance(part, str):
            model = _model_of(model.model_fields[part].annotation)
    names = sorted(model.model_fields)
    near = difflib.get_close_matches(str(detail["loc"][-1]), names, n=1)
    return f", did you mean {near[0]!r}?" if near else f"; known: {', '.join(names)}"


def _model_of(annotation: object) -> type[BaseModel]:
    """The settings class inside an annotation such as ``tuple[PartnerEntry, ...]``."""
    candidates = (annotation, *get_args(annotation))
    return next(item for item in candidates if isinstance(item, type) and issubclass(item, BaseModel))


def _build_every_partner(cell: Cell, source: str) -> None:
    known = list_registered()
    for index, entry in enumerate(cell.partners):
        where = f"{source}: partners[{index}]"
        if entry.class_name not in known:
            near = difflib.get_close_matches(entry.class_name, known, n=1)
            hint = f", did you mean {near[0]!r}?" if near else f"; known: {', '.join(known)}"
            raise InputError(f"{where}.class_name: unknown partner {entry.class_name!r}{hint}")
        try:
            load_partner(PartnerSpec(entry.class_name, 0, None, None, entry.extra))
        except ValueError as error:
            raise InputError(f"{where}.extra: {error}") from error
