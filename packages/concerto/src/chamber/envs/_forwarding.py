"""Attributes of an environment seen through its wrappers, which Gymnasium 1 no longer forwards."""

from __future__ import annotations

from typing import Any

__all__ = ["AttributeForwarding", "find_attribute"]

_OWN = frozenset({"env", "save_training_state", "load_training_state"})


class AttributeForwarding:
    """Mixin, before `gymnasium.Wrapper` in the bases, that looks up unknown attributes in the wrapped environment.

    It reaches through wrappers that do not forward. Never forwarded are ``env``, which is missing only before
    construction, names of Python protocols such as ``__deepcopy__``, which would act on the wrong object, and saving
    and loading, which would leave out what the wrapper remembers (`chamber.envs._training_state`).
    """

    def __getattr__(self, name: str) -> Any:
        if name in _OWN or (name.startswith("__") and name.endswith("__")):
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
