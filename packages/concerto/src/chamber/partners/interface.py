"""The base class that keeps a partner frozen: every door to training is shut on lookup."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from chamber.partners.api import FrozenPartner, PartnerSpec

__all__ = ["PartnerBase", "assert_frozen"]

_FORBIDDEN_ATTRS = frozenset(
    {
        "train",
        "learn",
        "update",
        "update_params",
        "fit",
        "set_weights",
        "load_state_dict",
        "named_parameters",
    }
)


class PartnerBase:
    """Stores the specification and forbids every name that would train or open the partner.

    The error comes on lookup, not on the call: a trainer's freeze gate takes the failed lookup of
    ``named_parameters`` as proof. A subclass that defines such a name cannot even be created.

    Args:
        spec: identity and parameters of the partner.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        defined = sorted(name for name in _FORBIDDEN_ATTRS if hasattr(cls, name))
        if defined:
            raise TypeError(f"{_refusal(cls, defined[0])} Remove it from the class.")

    def __init__(self, spec: PartnerSpec) -> None:
        self.spec = spec

    def __getattr__(self, name: str) -> NoReturn:
        if name in _FORBIDDEN_ATTRS:
            raise AttributeError(_refusal(type(self), name))
        raise AttributeError(name)

    def __setattr__(self, name: str, value: object) -> None:
        if name in _FORBIDDEN_ATTRS:
            raise AttributeError(_refusal(type(self), name))
        super().__setattr__(name, value)

    def reset(self, *, seed: int | None = None) -> None:
        """Forget everything about the last episode; a partner without memory has nothing to do."""

    def act(self, obs: Mapping[str, object], *, deterministic: bool = True) -> NDArray[np.floating[Any]]:
        """Give the action of the partner's own uid for one observation."""
        raise NotImplementedError(f"{type(self).__name__} does not define act")


def assert_frozen(partner: FrozenPartner) -> None:
    """Check that no name that would train or open a partner can be looked up on it.

    Raises:
        TypeError: a forbidden name is reachable; the message names it.
    """
    reachable = sorted(name for name in _FORBIDDEN_ATTRS if hasattr(partner, name))
    if reachable:
        raise TypeError(f"{type(partner).__name__} is not frozen: {', '.join(reachable)} can be reached")


def _refusal(cls: type, name: str) -> str:
    return (
        f"FrozenPartner of class '{cls.__name__}' forbids attribute '{name}' "
        "(ADR-009 §Consequences: black-box AHT — no joint training)."
    )
