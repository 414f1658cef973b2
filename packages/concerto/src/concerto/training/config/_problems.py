"""What is wrong with a file or an override, in one line: where, which setting, what was given, what was expected."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from concerto.training.config._composing import compose_values, environment_keys
from concerto.training.config._models import EgoAHTConfig

__all__ = ["config_problem"]

_GRAMMAR = "expected KEY=VALUE, such as happo.lr=1e-4"
_EXPECTATIONS = {
    "bool_parsing": "must be true or false",
    "bool_type": "must be true or false",
    "float_parsing": "must be a number",
    "float_type": "must be a number",
    "int_from_float": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_type": "must be a whole number",
    "invalid_key": "must have a name that is text",
    "model_type": "must be a mapping of settings",
    "string_pattern_mismatch": "must not be empty",
    "string_too_short": "must not be empty",
    "string_type": "must be text",
    "too_long": "must have two entries",
    "tuple_type": "must be a list of two uids",
}
"""Plainer words than the validator's, by its kinds of error."""
_SHOWN = 60
_SHOWN_OF_OVERRIDE = 200
_Location = tuple[int | str, ...]


def config_problem(error: Exception, *, config_path: Path, overrides: Sequence[str] = ()) -> str:
    """Say in one line what an error of `load_config` means.

    Args:
        error: what it raised.
        config_path: the file it was given.
        overrides: the overrides it was given.

    Returns:
        One line that names the file or the override, the setting, its value and what was expected instead.
    """
    if isinstance(error, ValidationError):
        return _validation_problem(error, config_path, overrides)
    in_file = _keys_of_file(config_path) if overrides else None
    if in_file is None:
        return f"{config_path}: {_file_problem(error, config_path)}"
    return _override_problem(_first_unfit(config_path, overrides), error, in_file)


def _file_problem(error: Exception, path: Path) -> str:
    from yaml import MarkedYAMLError

    if isinstance(error, MarkedYAMLError) and error.problem_mark is not None:
        return f"line {error.problem_mark.line + 1}: {error.problem}"
    if isinstance(error, UnicodeDecodeError):
        return f"is not UTF-8 text (byte {error.start})"
    if isinstance(error, RecursionError):
        return "is nested too deeply"
    if path.is_dir():
        return "is a folder, and a configuration is a file"
    is_there = path.with_suffix(".yaml").is_file()
    if path.suffix not in {"", ".yaml"} or (path.is_file() and not is_there):
        return "a configuration file must end in .yaml"
    return _first_line(error).removeprefix(f"{path} ") if is_there else "there is no such file"


# --- overrides that Hydra refuses ------------------------------------------------------------------------------------


def _first_unfit(config_path: Path, overrides: Sequence[str]) -> str:
    """The first override that does not fit the file and the overrides before it, given that one of them does not."""
    for count in range(1, len(overrides)):
        try:
            compose_values(config_path, overrides[:count])
        except Exception:  # noqa: BLE001 - whatever it was, the caller has it in hand
            return overrides[count - 1]
    return overrides[-1]


def _override_problem(text: str, error: Exception, in_file: frozenset[str]) -> str:
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    said = f"override {_shortened(text, _SHOWN_OF_OVERRIDE)}"
    try:
        override = OverridesParser.create().parse_override(text)
    except (HydraException, ValueError):  # of Python, for a number with thousands of digits
        return f"{said} cannot be read: {_GRAMMAR}; text with special characters is quoted"
    key = override.key_or_group
    if not key:
        return f"{said} names no setting: {_GRAMMAR}"
    if override.is_delete():
        return f"{said}: there is no {key!r} in the file that could be taken out"
    if not _is_setting(key):
        return f"{said}: {_no_such_setting(key)}"
    if override.is_sweep_override() or "Ambiguous value" in str(error):
        return f"{said} gives several values, and a run has one; a list is written {key}=[a,b], text is quoted"
    return f"{said}: {_misplaced_plus(text, key, in_file) or _first_line(error)}"


def _misplaced_plus(text: str, key: str, in_file: frozenset[str]) -> str | None:
    """What is wrong with the plus sign before a key, or with its absence."""
    bare = text.lstrip("+")
    n_plus = len(text) - len(bare)
    if n_plus == 0 and key not in in_file:
        return f"{key!r} is a setting that the file does not contain, so write it with a plus: +{bare}"
    if n_plus == 1 and key in in_file:
        return f"the file has {key!r} already, so write it without the plus: {bare}"
    return None


def _keys_of_file(config_path: Path) -> frozenset[str] | None:
    """Every dotted key that a file holds; None when the file itself cannot be read."""

    def walk(value: object, prefix: str) -> Iterator[str]:
        if isinstance(value, dict):
            for name, inner in value.items():
                yield f"{prefix}{name}"
                yield from walk(inner, f"{prefix}{name}.")

    try:
        return frozenset(walk(compose_values(config_path, ()), ""))
    except Exception:  # noqa: BLE001 - as above
        return None


# --- values that the models refuse -----------------------------------------------------------------------------------


def _validation_problem(error: ValidationError, config_path: Path, overrides: Sequence[str]) -> str:
    details = error.errors(include_url=False)
    # A misspelt key is the better news than the missing key that it was meant to be.
    first = min(details, key=lambda detail: detail["type"] != "extra_forbidden")
    problem = _value_problem(first, _dotted(first["loc"]))
    expected, got, _ = problem.rpartition(", got ")
    if got and any(_touches(key, first["loc"]) for key in environment_keys(config_path, overrides)):
        problem = f"{expected}, got something else from the environment"
    more = f" (and {len(details) - 1} more)" if len(details) > 1 else ""
    setting = problem.partition(" ")[0] if first["type"] != "extra_forbidden" else _dotted(first["loc"])
    override = _override_of(setting, overrides)
    if override is not None:
        return f"override {_shortened(override, _SHOWN_OF_OVERRIDE)}: {problem}{more}"
    return f"{config_path}{' with its overrides' if overrides else ''}: {problem}{more}"


def _touches(key: str, location: _Location) -> bool:
    """Whether a value at a key is, contains or belongs to the one at a location."""
    parts = tuple(map(str, location))
    return all(one == other for one, other in zip(key.split("."), parts, strict=False))


def _value_problem(detail: ErrorDetails, location: str) -> str:
    kind, given = detail["type"], _shortened(detail["input"])
    if kind == "extra_forbidden":
        return _no_such_setting(location)
    if kind == "missing":
        return f"{location} is missing"
    if kind == "value_error":
        said = detail["msg"].removeprefix("Value error, ")
        if not location:
            return said
        # A part's own validator begins with the field that it is about.
        return f"{location}.{said}" if _part_at(location) is not None else f"{location} {said}"
    if kind == "string_type" and isinstance(detail["input"], int | float):
        name = location.rpartition(".")[2]
        return (
            f"{location} must be text, got the number {given}; quote it: "
            f'{name}: "{given}" in a file, {location}="\'{given}\'" on a command line'
        )
    expectation = _EXPECTATIONS.get(kind) or re.sub(r"^\w+ should ", "must ", detail["msg"])
    return f"{location} {expectation}, got {given}"


def _override_of(location: str, overrides: Sequence[str]) -> str | None:
    """The last override that set a location, a part around it, or something below it."""
    for text in reversed(overrides):
        key = text.lstrip("+~").partition("=")[0]
        if location == key or location.startswith(f"{key}.") or key.startswith(f"{location}."):
            return text
    return None


# --- names of settings -----------------------------------------------------------------------------------------------


def _settings(model: type[BaseModel] = EgoAHTConfig, prefix: str = "") -> Iterator[tuple[str, type[BaseModel] | None]]:
    """Every dotted setting, with its model if it is a part."""
    for name, field in model.model_fields.items():
        annotation = field.annotation
        part = annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None
        yield f"{prefix}{name}", part
        if part is not None:
            yield from _settings(part, f"{prefix}{name}.")


def _part_at(location: str) -> type[BaseModel] | None:
    return dict(_settings()).get(location)


def _is_setting(key: str) -> bool:
    """Whether a key can be set: a known one, or a parameter of the partner, whose names are the partner's own."""
    return key in dict(_settings()) or key.startswith("partner.extra.")


def _no_such_setting(key: str) -> str:
    known = [name for name, _ in _settings()]
    parent, _, name = key.rpartition(".")
    near = get_close_matches(key, known, n=1, cutoff=0.75)
    if not near:  # the right name in the wrong part, or in none
        near = [setting for setting in known if setting.rpartition(".")[2] == name][:3]
    if near:
        return f"there is no setting {key!r}, did you mean {' or '.join(repr(setting) for setting in near)}?"
    parts = dict(_settings())
    holder = parts.get(parent, EgoAHTConfig) or EgoAHTConfig
    where = f"of {parent!r}" if holder is not EgoAHTConfig else "at the top"
    return f"there is no setting {key!r}; those {where} are {', '.join(holder.model_fields)}"


# --- words -----------------------------------------------------------------------------------------------------------


def _dotted(location: _Location) -> str:
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location)
    return text.removeprefix(".")


def _shortened(value: object, shown: int = _SHOWN) -> str:
    text = repr(value)
    return text if len(text) <= shown else f"{text[: shown - 3]}..."


def _first_line(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
