"""Judge anybody's safety filter, control model or emergency controller by the code that judges ours.

Every ``check_...`` function raises `ConformanceError` with the first clause of the contract that does not hold
and says how to mend it. The ``..._checks`` functions give the same checks as a list for `run_all`, which tries
all of them and reports rows:

    >>> from concerto.safety.api import DoubleIntegratorControlModel
    >>> rows = run_all(control_model_checks(DoubleIntegratorControlModel("ego", 2)))
    >>> all(row.passed for row in rows)
    True

The names of the safety evidence, `concerto.testing.encounters` and `concerto.testing.responsibility`, load on
first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from concerto.testing.conformance import Check, CheckRow, ConformanceError, run_all
from concerto.testing.control_models import check_control_model, control_model_checks
from concerto.testing.emergency import check_emergency_controller, emergency_controller_checks
from concerto.testing.filters import (
    EgoOnlyFilterFactory,
    JointFilterFactory,
    check_ego_only_filter,
    check_joint_filter,
    ego_only_filter_checks,
    joint_filter_checks,
)

if TYPE_CHECKING:
    from concerto.testing.encounters import (
        Behaviour,
        Controller,
        ControllerFactory,
        Encounter,
        EncounterOutcome,
        EncounterSettings,
        Partner,
        PartnerOutcome,
        Run,
        documented_default,
        draw_encounter,
        run_encounter,
        run_encounters,
        safety_stack,
        simulate,
        unfiltered,
    )
    from concerto.testing.responsibility import (
        BrakingLimit,
        Contact,
        DeclaredMotion,
        Lapse,
        RecordedPartner,
        Recording,
        Tolerances,
        Verdict,
        can_still_stop,
        find_lapses,
        judge_contacts,
        least_clearance,
    )

__all__ = [
    "Behaviour",
    "BrakingLimit",
    "Check",
    "CheckRow",
    "ConformanceError",
    "Contact",
    "Controller",
    "ControllerFactory",
    "DeclaredMotion",
    "EgoOnlyFilterFactory",
    "Encounter",
    "EncounterOutcome",
    "EncounterSettings",
    "JointFilterFactory",
    "Lapse",
    "Partner",
    "PartnerOutcome",
    "RecordedPartner",
    "Recording",
    "Run",
    "Tolerances",
    "Verdict",
    "can_still_stop",
    "check_control_model",
    "check_ego_only_filter",
    "check_emergency_controller",
    "check_joint_filter",
    "control_model_checks",
    "documented_default",
    "draw_encounter",
    "ego_only_filter_checks",
    "emergency_controller_checks",
    "find_lapses",
    "joint_filter_checks",
    "judge_contacts",
    "least_clearance",
    "run_all",
    "run_encounter",
    "run_encounters",
    "safety_stack",
    "simulate",
    "unfiltered",
]

_EVIDENCE_MODULES = ("encounters", "responsibility")


def __getattr__(name: str) -> object:
    if name in __all__:
        for module_name in _EVIDENCE_MODULES:
            module = importlib.import_module(f"{__name__}.{module_name}")
            if name in module.__all__:
                globals()[name] = getattr(module, name)
                return globals()[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
