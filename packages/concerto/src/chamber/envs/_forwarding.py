"""Attributes of an environment seen through its wrappers, which Gymnasium 1 no longer forwards."""

from __future__ import annotations

from typing import Any

__all__ = ["AttributeForwarding", "find_attribute"]


class AttributeForwarding:
    """Mixin, before `gymnasium.Wrapper` in the bases, that looks up unknown attributes in the wrapped environment.

    It reaches through wrappers that do not forward. Never forwarded are ``env``, which is missing only before
    construction, and names of Python protocols such as ``__deepcopy__``, which would act on the wrong object.
    """

    def __getattr__(self, name: str) -> Any:
        if name == "env" or (name.startswith("__") and name.endswith("__")):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return self.env.get_wrapper_attr(name)


def find_attribute(env: Any, name: str) -> Any | None:
    """Give an attribute of an environment or of what it wraps; None when nobody has it."""
    value = getattr(env, name, None)
    if value is not None:
        return value
    look_deeper = getattr(env, "get_wrapper_attr", None)
    if look_deeper is None:
        return None
    try:
        return look_deeper(name)
    except AttributeError:
        return None
