"""What a partner is to everybody else: an identity, ``reset`` and ``act``, and nothing more."""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

__all__ = ["FrozenPartner", "PartnerSpec"]


class _ImmutableDict(dict[str, str]):
    """A dictionary that refuses every change, so that it can live inside a frozen specification."""

    def _refuse(self: Any, *_args: Any, **_kwargs: Any) -> NoReturn:
        raise TypeError("PartnerSpec.extra cannot be changed; make a new specification")

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> tuple[type[_ImmutableDict], tuple[dict[str, str]]]:
        return type(self), (dict(self),)


@dataclass(frozen=True)
class PartnerSpec:
    """Identity of a partner, and text parameters that the partner itself reads.

    NumPy integers, booleans and string subclasses are turned into plain ``int`` and ``str``, because the id is made
    of their text.

    Attributes:
        class_name: key of the partner in the registry.
        seed: training seed; 0 for a scripted partner.
        checkpoint_step: training step of the checkpoint; ``None`` for a scripted partner.
        weights_uri: where the weights are; ``None`` for a scripted partner.
        extra: parameters as text, immutable. They are not part of the id.

    Raises:
        TypeError: a field has another type.
    """

    class_name: str
    seed: int
    checkpoint_step: int | None
    weights_uri: str | None
    extra: dict[str, str] = field(default_factory=dict[str, str], hash=False)

    def __post_init__(self) -> None:
        step, uri = self.checkpoint_step, self.weights_uri
        plain: dict[str, Any] = {
            "class_name": _plain_text("class_name", self.class_name),
            "seed": _plain_integer("seed", self.seed),
            "checkpoint_step": None if step is None else _plain_integer("checkpoint_step", step),
            "weights_uri": None if uri is None else _plain_text("weights_uri", uri),
            "extra": _ImmutableDict(
                {
                    _plain_text("extra key", key): _plain_text(f"extra[{key!r}]", value)
                    for key, value in self.extra.items()
                }
            ),
        }
        for name, value in plain.items():
            object.__setattr__(self, name, value)

    @property
    def partner_id(self) -> str:
        """The first 16 hexadecimal digits of the SHA-256 of the identity fields' ``repr``.

        A safety filter starts its adaptation anew when it sees another id.
        """
        identity = (self.class_name, self.seed, self.checkpoint_step, self.weights_uri)
        return hashlib.sha256(repr(identity).encode("utf-8")).hexdigest()[:16]


@runtime_checkable
class FrozenPartner(Protocol):
    """A teammate that nobody can train or look into; by convention it is built as ``Class(spec)``."""

    spec: PartnerSpec

    def reset(self, *, seed: int | None = None) -> None:
        """Forget everything about the last episode; a seed, when used, names a substream."""
        ...

    def act(self, obs: Mapping[str, object], *, deterministic: bool = True) -> NDArray[np.floating[Any]]:
        """Give the action of the partner's own uid for one observation.

        Args:
            obs: ``agent[uid]`` with the robots' channels, ``comm`` and ``meta`` when wrapped, and for manipulation
                tasks ``extra`` with the task's own fields.
            deterministic: whether to avoid sampling; scripted partners ignore it.
        """
        ...


def _plain_text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"PartnerSpec {name} must be text, got {value!r}")
    return str(value)


def _plain_integer(name: str, value: Any) -> int:
    try:
        return int(operator.index(value))
    except TypeError:
        raise TypeError(f"PartnerSpec {name} must be an integer, got {value!r}") from None
