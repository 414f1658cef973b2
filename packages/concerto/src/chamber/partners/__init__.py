"""Frozen teammates: black boxes that a robot meets and cannot train.

The nouns: a :class:`PartnerSpec` says who a partner is; :func:`load_partner` makes one of it; every partner is a
:class:`FrozenPartner`, that is ``reset`` and ``act``.
"""

from chamber.partners.ablation import PartnerAblatedZero
from chamber.partners.api import FrozenPartner, PartnerSpec
from chamber.partners.heuristic import ScriptedHeuristicPartner
from chamber.partners.interface import PartnerBase
from chamber.partners.registry import list_registered, load_partner, register_partner

__all__ = [
    "FrozenPartner",
    "PartnerAblatedZero",
    "PartnerBase",
    "PartnerSpec",
    "ScriptedHeuristicPartner",
    "list_registered",
    "load_partner",
    "register_partner",
]
