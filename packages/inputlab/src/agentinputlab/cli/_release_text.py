"""How people write releases and their parameters on a command line and in plans."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from agentinputlab.contracts.errors import ValidationError

__all__ = ["MAX_INPUT_BYTES", "parse_release", "read_json_file", "read_text_file"]

MAX_INPUT_BYTES = 16 * 2**20
_NEXT_PARAMETER = re.compile(r",(?=[A-Za-z_]\w*=)")


def parse_release(text: str) -> tuple[str, dict[str, Any]]:
    """Read ``RELEASE`` or ``RELEASE:key=value,key=value``.

    A value is JSON where it parses as JSON, the content of a file where it reads ``@FILE`` (a JSON value for
    ``@FILE.json``, else its text), and itself otherwise. A comma ends a value only before the next ``key=``.

    Raises:
        ValidationError: the text does not follow the form, or a file is too long or not UTF-8.
        OSError: a file cannot be read.
    """
    release, _, rest = text.partition(":")
    parameters: dict[str, Any] = {}
    for item in _NEXT_PARAMETER.split(rest) if rest else ():
        name, separator, value = item.partition("=")
        if not separator or not name.isidentifier():
            raise ValidationError(f"parameters of {release} must read key=value")  # a value may be a prompt
        if name in parameters:
            raise ValidationError(f"parameter {name} of {release} is given twice")
        parameters[name] = _value(value)
    return release, parameters


def _value(text: str) -> Any:
    from ripieno.canonical import strict_loads
    from ripieno.errors import InputError

    if text.startswith("@"):
        path = Path(text[1:])
        return read_json_file(path) if path.suffix == ".json" else read_text_file(path)
    try:
        return strict_loads(text)
    except InputError:
        return text


def read_json_file(path: Path) -> Any:
    """Read a JSON file strictly.

    Raises:
        InputError: it is no JSON; the message names the file.
        ValidationError: it is too long or not UTF-8.
        OSError: it cannot be read.
    """
    from ripieno.canonical import strict_loads
    from ripieno.errors import InputError

    try:
        return strict_loads(read_text_file(path), max_bytes=MAX_INPUT_BYTES)
    except InputError as error:
        raise InputError(f"file {path}: {error}") from error


def read_text_file(path: Path) -> str:
    """Read a text file.

    Raises:
        ValidationError: it is no regular file, too long or not UTF-8.
        OSError: it cannot be read.
    """
    from ripieno.errors import IntegrityError
    from ripieno.files import open_regular

    try:
        with open_regular(path) as stream:
            data = stream.read(MAX_INPUT_BYTES + 1) or b""
    except IntegrityError as error:  # of a file that somebody names, not of evidence
        raise ValidationError(str(error)) from error
    if len(data) > MAX_INPUT_BYTES:
        raise ValidationError(f"file {path} is larger than {MAX_INPUT_BYTES} bytes")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise ValidationError(f"file {path} is not UTF-8 at byte {error.start}") from error
