"""Keys of model endpoints: what a key must look like, and the one that a named environment variable holds."""

from __future__ import annotations

import os

from agentinputlab.contracts.errors import ValidationError

__all__ = ["check_key", "named_key"]


def check_key(value: object, name: str) -> None:
    """Require what a header can carry.

    Raises:
        ValidationError: it is no string of visible ASCII characters; the text does not quote it.
    """
    if not isinstance(value, str) or not value or not value.isascii() or not value.isprintable() or " " in value:
        raise ValidationError(f"{name} must be a string of visible ASCII characters")


def named_key(variable: str, named_by: str) -> str:
    """Give the key in the environment variable that a person named.

    Args:
        variable: its name.
        named_by: the option or field that names it, for the message.

    Raises:
        ValidationError: it is not set, empty, or no key; whoever names a variable means a key to be sent.
    """
    shown = variable if variable.isidentifier() else "that"  # somebody may have typed the key in its place
    key = os.environ.get(variable)
    if not key:
        raise ValidationError(f"{named_by} names the variable {shown}, which is not set or empty: set it to the key")
    check_key(key, f"the key in {shown}")
    return key
