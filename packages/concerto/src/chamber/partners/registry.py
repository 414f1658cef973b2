"""Which partners there are, and how a specification becomes one."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar, cast

from chamber.partners.api import FrozenPartner, PartnerSpec

__all__ = [
    "PartnerParameter",
    "describe_partner",
    "list_registered",
    "load_partner",
    "partner_parameters",
    "register_partner",
]

_PartnerClass = TypeVar("_PartnerClass", bound=type)

_BUILT_IN: dict[str, str] = {
    "cocarry_admittance": "chamber.partners.cocarry_policy_shift",
    "cocarry_blind_impedance": "chamber.partners.cocarry_blind",
    "cocarry_erratic": "chamber.partners.cocarry_erratic",
    "cocarry_impedance": "chamber.partners.cocarry_impedance",
    "cocarry_nullspace_impedance": "chamber.partners.cocarry_policy_shift",
    "cocarry_slew_impedance": "chamber.partners.cocarry_policy_shift",
    "cocarry_stiff_impedance": "chamber.partners.cocarry_policy_shift",
    "cocarry_xarm6_impedance": "chamber.partners.cocarry_xarm6",
    "coinsert_base_inserter": "chamber.partners.coinsert_impedance",
    "coinsert_reference_holder": "chamber.partners.coinsert_impedance",
    "handover_presenter": "chamber.partners.handover_presenter",
    "partner_ablated_zero": "chamber.partners.ablation",
    "push_cooperative": "chamber.partners.push_cooperative",
    "push_pursuer": "chamber.partners.push_pursuer",
    "push_stubborn": "chamber.partners.push_stubborn",
    "scripted_heuristic": "chamber.partners.heuristic",
}
"""Module of every partner that comes with the package; it is imported when the partner is first needed."""

_registered: dict[str, type] = {}


def register_partner(class_name: str) -> Callable[[_PartnerClass], _PartnerClass]:
    """Make a class decorator that registers a partner under ``class_name``.

    Raises:
        ValueError: the key is taken.
    """

    def register(cls: _PartnerClass) -> _PartnerClass:
        reserved_for = _BUILT_IN.get(class_name, cls.__module__)
        if class_name in _registered or reserved_for != cls.__module__:
            raise ValueError(f"Partner class '{class_name}' is already registered")
        _registered[class_name] = cls
        return cls

    return register


def load_partner(spec: PartnerSpec) -> FrozenPartner:
    """Build a fresh partner, in any process, whether or not its module was imported before.

    Raises:
        KeyError: no partner of this key; the message lists those there are.
        ValueError: the partner refuses its parameters.
    """
    return cast("Callable[[PartnerSpec], FrozenPartner]", _class_of(spec.class_name))(spec)


def describe_partner(class_name: str) -> str:
    """Give the first line of a partner's docstring, empty when it has none.

    Raises:
        KeyError: no partner of this key; the message lists those there are.
    """
    return (inspect.getdoc(_class_of(class_name)) or "").partition("\n")[0]


@dataclass(frozen=True, slots=True)
class PartnerParameter:
    """A parameter that a partner reads from ``PartnerSpec.extra``.

    Attributes:
        name: its key.
        default: what is taken when it is absent, as text; None when it must be given.
        unit: of its number; empty when it has none, or none is declared.
    """

    name: str
    default: str | None
    unit: str


def partner_parameters(class_name: str) -> tuple[PartnerParameter, ...]:
    """Give the parameters that a partner declares, none when it declares none.

    A class declares them in its attributes ``defaults`` (name to default, as text), ``required`` (names without a
    default) and ``units`` (name to unit, where there is one).

    Raises:
        KeyError: no partner of this key; the message lists those there are.
    """
    cls = _class_of(class_name)
    units: Mapping[str, str] = getattr(cls, "units", {})
    defaults: Mapping[str, str] = getattr(cls, "defaults", {})
    required: Sequence[str] = getattr(cls, "required", ())
    return tuple(
        PartnerParameter(name, default, units.get(name, ""))
        for name, default in {**dict.fromkeys(required), **defaults}.items()
    )


def list_registered() -> list[str]:
    """Give the sorted keys of all partners that :func:`load_partner` can build."""
    return sorted(_registered.keys() | _BUILT_IN.keys())


def _class_of(key: str) -> type:
    if key not in _registered and key in _BUILT_IN:
        importlib.import_module(_BUILT_IN[key])
    if key not in _registered:
        known = ", ".join(list_registered()) or "<none>"
        raise KeyError(f"Unknown partner class '{key}'; known: {known}")
    return _registered[key]
