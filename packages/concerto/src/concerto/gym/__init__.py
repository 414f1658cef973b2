"""Put the safety stack around a Gymnasium environment, single or vectorised.

`SafetyWrapper` filters the ego's action before the environment sees it and writes what it did into ``info``;
`SafetyVectorWrapper` does the same for a vector environment. Both need Gymnasium, which is an optional part of
the package.
"""

from __future__ import annotations

import importlib.util

if importlib.util.find_spec("gymnasium") is None:
    raise ImportError("concerto.gym needs gymnasium: pip install 'ripieno-concerto[chamber]'", name="gymnasium")

from concerto.gym.cost import CostFunction, contact_cost, contact_or_violation_cost, violation_cost
from concerto.gym.outcome import SafetyOutcome
from concerto.gym.vector import SafetyVectorWrapper
from concerto.gym.wrapper import SafetyWrapper

__all__ = [
    "CostFunction",
    "SafetyOutcome",
    "SafetyVectorWrapper",
    "SafetyWrapper",
    "contact_cost",
    "contact_or_violation_cost",
    "violation_cost",
]
