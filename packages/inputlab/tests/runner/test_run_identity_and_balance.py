"""When two runs are the same, and when two arms may be compared."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest

from agentinputlab.backends.llm import CallableBackend
from agentinputlab.contracts import (
    BalanceError,
    DependencyBinding,
    DependencyRole,
    FrozenAgentState,
    IntentContract,
    InterventionContext,
    TreatmentDefinition,
    ValidationError,
)
from agentinputlab.runner import BalanceAuditor, context_dependency_fingerprints, run_cache_key
from agentinputlab.selectors import NoOpIntervention

STATE = FrozenAgentState("q")


def model(revision: str = "1") -> CallableBackend:
    return CallableBackend(lambda _request: "x", model_id="m", revision=revision, callable_id="c")


@dataclass(frozen=True)
class Configured:
    top_k: Any = 5
    method_id: str = "test"
    release_id: str = "test.release"


def test_equal_runs_have_equal_keys_and_any_difference_that_counts_changes_it() -> None:
    context = InterventionContext(backend=model())
    assert run_cache_key(Configured(), STATE, context) == run_cache_key(
        Configured(), FrozenAgentState("q"), InterventionContext(backend=model())
    )
    keys = [
        run_cache_key(*arguments)
        for arguments in (
            (Configured(), STATE, context),
            (Configured(6), STATE, context),
            (NoOpIntervention(), STATE, context),
            (Configured(), FrozenAgentState("r"), context),
            (Configured(), STATE, InterventionContext(backend=model("2"))),
            (Configured(), STATE, InterventionContext()),
            (Configured(), STATE, replace(context, seed=1)),
            (Configured(), STATE, replace(context, run_config={"a": 1})),
            (Configured(), STATE, replace(context, intent_contract=IntentContract(required_entities=("a",)))),
            (Configured(), STATE, replace(context, strict_intent=False)),
        )
    ]
    assert len(set(keys)) == len(keys)


def test_what_cannot_be_named_cannot_be_cached() -> None:
    with pytest.raises(ValidationError, match="field top_k of Configured"):
        run_cache_key(Configured(object()), STATE, InterventionContext())
    with pytest.raises(ValidationError, match=r"InterventionContext\.retriever must have fingerprint"):
        run_cache_key(Configured(), STATE, InterventionContext(retriever=object()))


def test_every_dependency_has_its_slot() -> None:
    context = InterventionContext(
        backend=model(), tools={"add": model("2")}, external_runtime={"acquire.x": model("3"), "acquire.y": model("4")}
    )
    slots = context_dependency_fingerprints(context)
    assert list(slots) == ["backend", "external_runtime.acquire.x", "external_runtime.acquire.y", "tools.add"]
    assert len(set(slots.values())) == 4
    assert all(len(identity) == 64 for identity in slots.values())


def binding(slot: str, revision: str, role: DependencyRole = DependencyRole.NUISANCE) -> DependencyBinding:
    return DependencyBinding(slot, role, "impl", revision)


def test_arms_that_differ_in_the_treatment_only_are_balanced() -> None:
    auditor = BalanceAuditor.for_treatment(TreatmentDefinition("t", ("prompt",), ("reader",), ("retriever",)))
    arms = {
        "baseline": {"prompt": "none", "reader": binding("reader", "1"), "retriever": "a"},
        "treatment": {"prompt": "plan", "reader": binding("reader", "1", DependencyRole.CROSSED), "retriever": "b"},
    }
    report = auditor.require_balanced(arms)
    assert report.is_balanced
    assert report.as_dict()["arms"] == ("baseline", "treatment")


@pytest.mark.parametrize(
    ("treatment", "unequal", "undeclared"),
    [
        ({"reader": "2", "seed": "17"}, ("reader",), ()),
        ({"seed": "17"}, ("reader",), ()),
        ({"reader": "1", "seed": "18"}, (), ("seed",)),
        ({"reader": "1"}, (), ("seed",)),
        ({"reader": "1", "seed": "17", "extra": "x"}, (), ("extra",)),
    ],
)
def test_every_other_difference_is_listed(
    treatment: dict[str, str], unequal: tuple[str, ...], undeclared: tuple[str, ...]
) -> None:
    auditor = BalanceAuditor(("reader",))
    arms = {"baseline": {"reader": "1", "seed": "17"}, "treatment": treatment}
    report = auditor.audit(arms)
    assert (report.unequal_required_slots, report.undeclared_differences) == (unequal, undeclared)
    with pytest.raises(BalanceError, match=(unequal + undeclared)[0]):
        auditor.require_balanced(arms)


def test_a_required_slot_that_all_arms_lack_is_listed() -> None:
    report = BalanceAuditor(("reader",)).audit({"a": {}, "b": {}})
    assert report.unequal_required_slots == ("reader",)


def test_one_arm_is_no_comparison_and_contradictions_are_refused() -> None:
    with pytest.raises(ValidationError, match="two or more arms"):
        BalanceAuditor().audit({"a": {}})
    with pytest.raises(ValidationError, match="both hold reader"):
        BalanceAuditor(("reader",), may_differ=("reader",))
    with pytest.raises(ValidationError, match="binding of slot 'reader'"):
        BalanceAuditor().audit({"a": {"seed": binding("reader", "1")}, "b": {}})
