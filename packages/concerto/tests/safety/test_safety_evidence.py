"""No collision is the ego's fault: thousands of seeded encounters, decided by a judge that does not know the filter.

`benchmarks/safety_evidence.py` runs the same encounters and writes the tables.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pytest

from concerto.testing.encounters import (
    EncounterOutcome,
    EncounterSettings,
    documented_default,
    run_encounters,
    safety_stack,
    unfiltered,
)
from concerto.testing.responsibility import Verdict

SMOKE = range(200)
FULL = range(10_000)


def verdicts(outcomes: Iterable[EncounterOutcome]) -> Counter[Verdict | None]:
    return Counter(partner.verdict for outcome in outcomes for partner in outcome.partners)


def assert_blameless(outcomes: list[EncounterOutcome]) -> None:
    """Partners kept their word: every contact found the ego at rest, and it never gave up being able to stop."""
    guilty = [outcome.index for outcome in outcomes if outcome.n_at_fault]
    assert guilty == [], f"contacts at fault in encounters {guilty}"
    careless = [outcome.index for outcome in outcomes if any(partner.lapses for partner in outcome.partners)]
    assert careless == [], f"the ego gave up being able to stop in encounters {careless}"
    assert verdicts(outcomes)[Verdict.NOT_AT_FAULT_BRAKING] == 0
    assert sum(outcome.out_of_bounds for outcome in outcomes) == 0


def test_the_safety_stack_is_never_at_fault_in_200_encounters() -> None:
    assert_blameless(run_encounters(SMOKE, safety_stack))


def test_the_same_encounters_are_dangerous_without_a_filter() -> None:
    outcomes = run_encounters(SMOKE, unfiltered)
    assert sum(outcome.n_at_fault > 0 for outcome in outcomes) > 0.9 * len(outcomes)


def test_the_documented_default_is_at_fault_in_some_of_the_same_encounters() -> None:
    """What the judge says about a filter that counts on partners to brake; the stack is there because of this."""
    assert verdicts(run_encounters(SMOKE, documented_default))[Verdict.AT_FAULT] > 0


def test_the_safety_stack_is_never_at_fault_when_partners_declare_a_speed_as_well() -> None:
    assert_blameless(run_encounters(SMOKE, safety_stack, settings=EncounterSettings(declared_speed=1.5)))


@pytest.mark.slow
def test_the_safety_stack_is_never_at_fault_in_10000_encounters() -> None:
    outcomes = run_encounters(FULL, safety_stack)
    assert_blameless(outcomes)
    assert verdicts(outcomes)[Verdict.NOT_AT_FAULT_AT_REST] > 1000, "partners do drive at the ego"
