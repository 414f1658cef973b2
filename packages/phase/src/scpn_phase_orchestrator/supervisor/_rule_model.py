"""The parts of a rule file as plain data, checked when made."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from scpn_phase_orchestrator.binding.types import SCOPE_PATTERN, VALID_KNOBS, VALID_SEVERITIES
from scpn_phase_orchestrator.exceptions import PolicyError
from scpn_phase_orchestrator.supervisor.petri_net import COMPARISONS
from scpn_phase_orchestrator.supervisor.regimes import Regime

__all__ = ["MAX_PARTS", "MAX_RULES", "PolicyAction", "PolicyCondition", "PolicyDocument", "PolicyRule", "StlMonitor"]

MAX_RULES = 1000
"""Most rules in a file."""
MAX_PARTS = 32
"""Most conditions, and most actions, of one rule."""

_SCOPE = re.compile(SCOPE_PATTERN)


@dataclass(frozen=True)
class PolicyCondition:
    """A comparison of one metric with a threshold.

    Attributes:
        metric: name of the metric; one that does not exist makes the condition false.
        op: ``>``, ``>=``, ``<``, ``<=`` or ``==``.
        threshold: a finite number.
        layer: which layer, for the metrics that have one per layer; for `R_good` and `R_bad` the position in the list
            of good or bad layers.

    Raises:
        PolicyError: an unknown comparison, a threshold that is not finite, or a layer that is no integer >= 0.
    """

    metric: str
    op: str
    threshold: float
    layer: int | None = None

    def __post_init__(self) -> None:
        if self.op not in COMPARISONS:
            raise PolicyError(f"op must be one of {', '.join(COMPARISONS)}, got {self.op!r}")
        _require_finite(self.threshold, "threshold")
        if self.layer is not None and (type(self.layer) is not int or self.layer < 0):
            raise PolicyError(f"layer must be an integer >= 0, got {self.layer!r}")


@dataclass(frozen=True)
class PolicyAction:
    """A change of a knob that a rule proposes.

    Raises:
        PolicyError: an unknown knob or scope, a value that is not finite, or a time to live that is negative or not
            finite.
    """

    knob: str
    scope: str
    value: float
    ttl_s: float

    def __post_init__(self) -> None:
        if self.knob not in VALID_KNOBS:
            raise PolicyError(f"knob must be one of {', '.join(sorted(VALID_KNOBS))}, got {self.knob!r}")
        if not _SCOPE.fullmatch(self.scope):
            raise PolicyError(f"scope must be 'global' or 'layer_<index>', got {self.scope!r}")
        _require_finite(self.value, "value")
        _require_finite(self.ttl_s, "ttl_s", minimum=0.0)


@dataclass(frozen=True)
class PolicyRule:
    """When which actions are proposed.

    Attributes:
        name: unique in its file; actions are justified with it.
        regimes: the regimes in which the rule may fire.
        conditions: at least one.
        actions: at least one.
        logic: whether all conditions must hold (``AND``) or one of them (``OR``).
        cooldown_s: least time between two firings, in seconds of the engine's clock.
        max_fires: how often the rule fires at most; 0 sets no limit.

    Raises:
        PolicyError: a part is missing, too many, or out of its range.
    """

    name: str
    regimes: Sequence[Regime]
    conditions: Sequence[PolicyCondition]
    actions: Sequence[PolicyAction]
    logic: Literal["AND", "OR"] = "AND"
    cooldown_s: float = 0.0
    max_fires: int = 0

    def __post_init__(self) -> None:
        for part in ("regimes", "conditions", "actions"):
            values = tuple(getattr(self, part))
            if not 1 <= len(values) <= MAX_PARTS:
                raise PolicyError(f"rule '{self.name}': {part} must be 1 to {MAX_PARTS}, got {len(values)}")
            object.__setattr__(self, part, values)
        if self.logic not in {"AND", "OR"}:
            raise PolicyError(f"rule '{self.name}': logic must be AND or OR, got {self.logic!r}")
        _require_finite(self.cooldown_s, "cooldown_s", minimum=0.0)
        if type(self.max_fires) is not int or self.max_fires < 0:
            raise PolicyError(f"max_fires must be an integer >= 0, got {self.max_fires!r}")


@dataclass(frozen=True)
class StlMonitor:
    """A formula of signal temporal logic to be watched, as text; the supervisor keeps it and does not read it.

    Raises:
        PolicyError: a severity other than soft and hard.
    """

    name: str
    spec: str
    severity: str = "soft"

    def __post_init__(self) -> None:
        if self.severity not in VALID_SEVERITIES:
            raise PolicyError(f"severity must be soft or hard, got {self.severity!r}")


@dataclass(frozen=True)
class PolicyDocument:
    """A whole rule file; `source` and `lines` say where its parts stood, and are no part of what it says."""

    rules: tuple[PolicyRule, ...] = ()
    stl_monitors: tuple[StlMonitor, ...] = ()
    source: str = field(default="", repr=False, compare=False)
    lines: Mapping[str, int] = field(default_factory=dict[str, int], repr=False, compare=False)


def _require_finite(value: object, name: str, *, minimum: float = -math.inf) -> None:
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value) or value < minimum:
        limit = "" if minimum == -math.inf else f" >= {minimum:g}"
        raise PolicyError(f"{name} must be a finite number{limit}, got {value!r}")
