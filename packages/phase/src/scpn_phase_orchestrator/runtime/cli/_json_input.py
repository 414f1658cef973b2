"""Reading the JSON files that commands take, and printing what they answer.

One strict loader for all of them: duplicate keys, NaN, Infinity and bytes behind the value are refused, and
every message names the artifact that was being read.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import click

from ripieno.canonical import ASCII, INDENTED_LINE, MAX_BYTES, strict_loads
from ripieno.errors import InputError, RipienoError
from ripieno.files import write_atomic

__all__ = [
    "BUNDLE_VERSION",
    "INPUT_FILE",
    "OUTPUT_FILE",
    "array_of_objects_field",
    "boolean_field",
    "emit",
    "failing_as",
    "integer_field",
    "load_json",
    "load_json_lines",
    "load_json_object",
    "number_field",
    "output_option",
    "print_json",
    "read_bytes",
    "read_text",
    "refuse_input",
    "string_array_field",
    "string_field",
    "text_field",
    "with_bundle_hash",
    "write_output",
]

INPUT_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
OUTPUT_FILE = click.Path(dir_okay=False, path_type=Path)
BUNDLE_VERSION = "1.0.0"
"""Of the bundles that the review commands write."""


def output_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--output FILE``, which writes what is printed to a file as well."""
    return click.option(
        "--output", "-o", type=OUTPUT_FILE, default=None, help="Write the result here as well (replaced as a whole)."
    )(command)


def read_bytes(path: Path, *, artifact: str) -> bytes:
    """Read a file of at most `MAX_BYTES` bytes; it may be a pipe.

    Raises:
        ClickException: it cannot be read, or is longer.
    """
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise click.ClickException(f"cannot read {artifact} file {path}: {error.strerror}") from error
    if len(data) > MAX_BYTES:
        raise click.ClickException(f"cannot read {artifact} file {path}: it has more than {MAX_BYTES} bytes")
    return data


def read_text(path: Path, *, artifact: str) -> str:
    """Read a UTF-8 text.

    Raises:
        ClickException: it cannot be read or is no UTF-8.
    """
    try:
        return read_bytes(path, artifact=artifact).decode()
    except UnicodeDecodeError as error:
        raise click.ClickException(f"cannot read {artifact} file {path}: byte {error.start} is not UTF-8") from error


def load_json(path: Path, *, artifact: str) -> Any:
    """Read one JSON value.

    Raises:
        ClickException: it cannot be read or is malformed.
    """
    try:
        return strict_loads(read_bytes(path, artifact=artifact))
    except InputError as error:
        raise click.ClickException(f"malformed {artifact} JSON: {error}") from error


def load_json_object(path: Path, *, artifact: str) -> dict[str, Any]:
    """Read one JSON object.

    Raises:
        ClickException: it cannot be read, is malformed or is no object.
    """
    value = load_json(path, artifact=artifact)
    if not isinstance(value, dict):
        raise click.ClickException(f"{artifact} payload must be a JSON object")
    return cast("dict[str, Any]", value)


def load_json_lines(path: Path, *, artifact: str) -> list[dict[str, Any]]:
    """Read a file of one JSON object a line; blank lines count but say nothing.

    Raises:
        ClickException: it cannot be read, a line is malformed or no object, or there is none.
    """
    records: list[dict[str, Any]] = []
    for number, line in enumerate(read_bytes(path, artifact=artifact).split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            value = strict_loads(line)
        except InputError as error:
            raise click.ClickException(f"malformed {artifact} JSONL at line {number}: {error}") from error
        if not isinstance(value, dict):
            raise click.ClickException(f"{artifact} JSONL line {number} must be a JSON object")
        records.append(cast("dict[str, Any]", value))
    if not records:
        raise click.ClickException(f"{artifact} JSONL must contain at least one record")
    return records


def _required(payload: Mapping[str, Any], field: str) -> Any:
    if field not in payload:
        raise click.ClickException(f"{field} is required")
    return payload[field]


def number_field(payload: Mapping[str, Any], field: str) -> float:
    """Read a number; a boolean is none."""
    value = _required(payload, field)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise click.ClickException(f"{field} must be a number")
    try:
        return float(value)
    except OverflowError:
        raise click.ClickException(f"{field} must be a number within the range of doubles") from None


def integer_field(payload: Mapping[str, Any], field: str) -> int:
    """Read an integer; a boolean is none."""
    value = _required(payload, field)
    if isinstance(value, bool) or not isinstance(value, int):
        raise click.ClickException(f"{field} must be an integer")
    return value


def boolean_field(payload: Mapping[str, Any], field: str) -> bool:
    """Read a boolean."""
    value = _required(payload, field)
    if not isinstance(value, bool):
        raise click.ClickException(f"{field} must be a boolean")
    return value


def string_field(payload: Mapping[str, Any], field: str) -> str:
    """Read a string, which may be blank."""
    value = _required(payload, field)
    if not isinstance(value, str):
        raise click.ClickException(f"{field} must be a string")
    return value


def text_field(payload: Mapping[str, Any], field: str) -> str:
    """Read a string that is not blank."""
    value = _required(payload, field)
    if not isinstance(value, str) or not value.strip():
        raise click.ClickException(f"{field} must be a non-empty string")
    return value


def string_array_field(payload: Mapping[str, Any], field: str) -> list[str]:
    """Read an array of strings."""
    value = _required(payload, field)
    if not isinstance(value, list) or not all(isinstance(item, str) for item in cast("list[object]", value)):
        raise click.ClickException(f"{field} must be a JSON array of strings")
    return cast("list[str]", value)


def array_of_objects_field(payload: Mapping[str, Any], field: str) -> list[dict[str, Any]]:
    """Read an array of objects; one that is absent is no array."""
    value = payload.get(field)
    if not isinstance(value, list):
        raise click.ClickException(f"{field} must be a JSON array")
    items = cast("list[object]", value)
    for index, item in enumerate(items):
        if not isinstance(item, dict):
            raise click.ClickException(f"{field}[{index}] must be a JSON object")
    return cast("list[dict[str, Any]]", items)


@contextmanager
def failing_as(what: str) -> Generator[None]:
    """Turn what the block refuses into a `ClickException` that begins with what failed."""
    try:
        yield
    except (TypeError, ValueError, RipienoError) as error:
        raise click.ClickException(f"{what} failed: {error}") from error


def with_bundle_hash(bundle: Mapping[str, Any]) -> dict[str, Any]:
    """Give a bundle with its ``bundle_hash``, the SHA-256 of the compact sorted ASCII JSON of everything else."""
    return {**bundle, "bundle_hash": ASCII.hash(dict(bundle))}


def print_json(value: object) -> None:
    """Print a JSON value as every command does: sorted keys, two spaces a level."""
    click.echo(INDENTED_LINE.dumps(value).decode(), nl=False)


def refuse_input(path: Path) -> None:
    """Refuse to write to a file that the running command reads.

    Raises:
        ClickException: ``path`` is one of the command's arguments or options that must exist.
    """
    context = click.get_current_context(silent=True)
    if context is None or not path.exists():
        return
    for parameter in context.command.params:
        if not (isinstance(parameter.type, click.Path) and parameter.type.exists):
            continue
        given = context.params.get(parameter.name or "")
        for source in given if isinstance(given, tuple) else (given,):
            if isinstance(source, Path) and source.exists() and path.samefile(source):
                raise click.ClickException(f"{path} is read by this command: give another name for the output")


def write_output(path: Path, data: bytes, *, artifact: str) -> None:
    """Write a file, whole or not at all, and never over an input of the running command.

    Raises:
        ClickException: it cannot be written.
    """
    refuse_input(path)
    try:
        write_atomic(path, data)
    except OSError as error:
        raise click.ClickException(f"cannot write {artifact} {path}: {error.strerror}") from error


def emit(payload: object, output: Path | None, *, artifact: str) -> None:
    """Print a JSON value, and write the same text to a file when one is given.

    Raises:
        ClickException: the file cannot be written.
    """
    if output is not None:
        write_output(output, INDENTED_LINE.dumps(payload), artifact=artifact)
    print_json(payload)
