"""Frozen teammates: black boxes that a robot meets and cannot train.

The nouns: a :class:`PartnerSpec` says who a partner is; :func:`load_partner` makes one of it; every partner is a
:class:`FrozenPartner`, that is ``reset`` and ``act``. Controllers of arms are imported on first use, so that
a list or a help text stays fast.
"""

import importlib
from typing import TYPE_CHECKING

from chamber.partners.ablation import PartnerAblatedZero
from chamber.partners.api import FrozenPartner, PartnerSpec
from chamber.partners.heuristic import ScriptedHeuristicPartner
from chamber.partners.interface import PartnerBase
from chamber.partners.registry import list_registered, load_partner, register_partner

if TYPE_CHECKING:
    from chamber.partners.cocarry_blind import CoCarryBlindImpedancePartner
    from chamber.partners.cocarry_impedance import CoCarryImpedancePartner
    from chamber.partners.coinsert_impedance import CoInsertBaseInserter, CoInsertReferenceHolder
    from chamber.partners.handover_presenter import HandoverPresenterPartner

__all__ = [
    "CoCarryBlindImpedancePartner",
    "CoCarryImpedancePartner",
    "CoInsertBaseInserter",
    "CoInsertReferenceHolder",
    "FrozenPartner",
    "HandoverPresenterPartner",
    "PartnerAblatedZero",
    "PartnerBase",
    "PartnerSpec",
    "ScriptedHeuristicPartner",
    "list_registered",
    "load_partner",
    "register_partner",
]

_HOME_OF_LAZY_NAME = {
    "CoCarryBlindImpedancePartner": "cocarry_blind",
    "CoCarryImpedancePartner": "cocarry_impedance",
    "CoInsertBaseInserter": "coinsert_impedance",
    "CoInsertReferenceHolder": "coinsert_impedance",
    "HandoverPresenterPartner": "handover_presenter",
}


def __getattr__(name: str) -> object:
    if name in _HOME_OF_LAZY_NAME:
        value = getattr(importlib.import_module(f"{__name__}.{_HOME_OF_LAZY_NAME[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
