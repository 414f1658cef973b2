"""Requests that the package builds itself: interventions run once, failures stay, and the driver accepts the result."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from ledger_lab import AUTHORIZATIONS, write

from agentinputlab.contracts import FrozenAgentState, InputPatch, InterventionContext, ProfileKind, SemanticFamily
from agentinputlab.contracts.errors import AlgorithmOutputError
from agentinputlab.selectors import NoOpIntervention
from workers.official_arenas import retail_capture, retail_driver
from workers.official_arenas._payloads import Arm, build_payloads
from workers.official_arenas.protocol import OfficialArenaError, intervention_usage, materialized_state
from workers.official_arenas.providers.fixture import FixtureProvider

RELEASE = "plan.plan_and_solve.ps_prompt"
FIXTURE = "workers.official_arenas.providers.fixture:factory"


class Fixture:
    """A captured fixture arena of two tasks, with everything a pair needs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.provider = FixtureProvider()
        self.config = self.provider.campaign_config(split="train", limit=2, agent={}, budget=None)
        for name in ("captures", "ledger"):
            (folder / name).mkdir(mode=0o700)
        draft = retail_capture.draft_scope(
            self.provider, self.config, output_root=folder / "captures", phase="engineering", model_slot="none"
        )
        checksum = write(folder / "capture.json", self.enabled(draft))
        self.snapshot: Path = retail_capture.run(folder / "capture.json", checksum, durable=False)["snapshot"]
        rows = json.loads((self.snapshot / "checkpoints.json").read_bytes())["checkpoints"]
        self.row: dict[str, Any] = rows[0]

    @staticmethod
    def enabled(draft: dict[str, Any]) -> dict[str, Any]:
        return {**draft, "execution_enabled": True, "authorizations": AUTHORIZATIONS}

    def environment(self, envelope: dict[str, Any]) -> dict[str, str]:
        draft = retail_driver.draft_scope(
            self.provider,
            self.config,
            output_root=self.folder / "ledger",
            phase="engineering",
            cell_ids=[retail_driver.cell_id(envelope)],
        )
        return {
            retail_driver.SCOPE_PATH_ENV: str(self.folder / "execution.json"),
            retail_driver.SCOPE_SHA256_ENV: write(self.folder / "execution.json", self.enabled(draft)),
            "AILAB_RETAIL_REPLAY_INVENTORY": str(self.snapshot / "replays.json"),
            "AILAB_RETAIL_REPLAY_INVENTORY_SHA256": envelope["worker_parameters"]["expected_replay_inventory_sha256"],
        }

    def payload(self, intervention: Any) -> dict[str, Any]:
        return retail_driver.build_payload(
            self.row, arm_id="arm", intervention=intervention, arm_parameters={"k": 1}, model_slot="none"
        )


@pytest.fixture
def fixture(tmp_path: Path) -> Fixture:
    tmp_path.chmod(0o700)
    return Fixture(tmp_path)


def build(fixture: Fixture, **changes: Any) -> dict[str, Any]:
    options = {"checkpoint_id": "0", "treatment": RELEASE, "entrypoint": FIXTURE, **changes}
    return retail_driver.build_request(
        fixture.snapshot / "checkpoints.json", fixture.snapshot / "replays.json", **options
    )


def test_a_built_request_is_played_and_the_treatment_saw_its_own_state(fixture: Fixture) -> None:
    envelope = build(fixture)
    baseline, treatment = (arm["payload"] for arm in envelope["atomic_request"]["arms"])
    assert materialized_state(baseline) == fixture.row["visible_state"]
    assert materialized_state(treatment) != fixture.row["visible_state"]
    assert (baseline["release_id"], treatment["release_id"]) == ("baseline.no_op", RELEASE)
    response = retail_driver.run(envelope, environment=fixture.environment(envelope), durable=False)
    assert [row["role"] for row in response["arms"]] == ["baseline", "treatment"]


def test_the_command_prints_the_same_request(fixture: Fixture) -> None:
    files = (str(fixture.snapshot / "checkpoints.json"), str(fixture.snapshot / "replays.json"))
    options = ("--checkpoint", "0", "--treatment", RELEASE, "--provider", "fixture.common_support")
    done = subprocess.run(
        [sys.executable, "-m", "workers.official_arenas.retail_driver", "--build-request", *files, *options],
        capture_output=True,
        env=dict(os.environ),
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    printed = json.loads(done.stdout)
    assert retail_driver.cell_id(printed) == retail_driver.cell_id(build(fixture))
    assert retail_driver.run(printed, environment=fixture.environment(printed), durable=False)["arms"]


class Failing:
    """An intervention that cannot give a patch: its model answered nonsense, or it has a defect."""

    method_id = "failing"
    release_id = "failing.always"
    family = SemanticFamily.REFORMULATE
    implementation_identity = "tests"
    profile_kind = ProfileKind.CONTROLLED_ADAPTER

    def __init__(self, kind: type[Exception]) -> None:
        self.kind = kind

    def propose(self, state: FrozenAgentState, context: InterventionContext) -> Any:
        raise self.kind("the reply was a parrot")


@pytest.mark.parametrize(("kind", "category"), [(AlgorithmOutputError, "typed"), (ZeroDivisionError, "unexpected")])
def test_a_failed_intervention_keeps_the_state_and_stays_in_the_denominator(
    fixture: Fixture, kind: type[Exception], category: str
) -> None:
    payload = fixture.payload(Failing(kind))
    execution = payload["intervention_execution"]
    assert (execution["status"], execution["failure"]["category"]) == ("failed", category)
    assert execution["failure"]["exception_type"] == kind.__name__
    assert materialized_state(payload) == fixture.row["visible_state"]
    assert intervention_usage(payload)["model_calls"] == 0
    baseline = retail_driver.build_payload(
        fixture.row, arm_id="base", intervention=NoOpIntervention(), arm_parameters={}, model_slot="none"
    )
    envelope = retail_driver.build_envelope(
        fixture.provider,
        fixture.config,
        fixture.row,
        baseline_payload=baseline,
        treatment_payload=payload,
        expected_replay_inventory_sha256=build(fixture)["worker_parameters"]["expected_replay_inventory_sha256"],
    )
    assert retail_driver.run(envelope, environment=fixture.environment(envelope), durable=False)["arms"]
    outcome = json.loads(
        (fixture.folder / "ledger" / retail_driver.cell_id(envelope) / "treatment" / "arm-outcome.json").read_bytes()
    )
    assert outcome["intervention_failure"]["exception_type"] == kind.__name__
    assert "parrot" not in json.dumps(outcome["intervention_failure"])


def test_a_checkpoint_whose_state_was_changed_is_refused(fixture: Fixture) -> None:
    fixture.row["visible_state"]["query"] = "other"
    with pytest.raises(OfficialArenaError, match="Checkpoint visible_state differs from its visible_state_hash"):
        fixture.payload(NoOpIntervention())


def test_a_checkpoint_that_is_in_no_inventory_is_refused(fixture: Fixture) -> None:
    with pytest.raises(OfficialArenaError, match="Checkpoint is not in both inventories"):
        build(fixture, checkpoint_id="9")


def test_locks_per_model_slot_are_those_of_the_slot(fixture: Fixture) -> None:
    payload = fixture.payload(NoOpIntervention())
    row = dict(fixture.row)
    locks = row.pop("locked_dependency_hashes")

    def envelope(slot: str) -> dict[str, Any]:
        return retail_driver.build_envelope(
            fixture.provider,
            fixture.config,
            {**row, "locked_dependency_hashes_by_model_slot": {slot: locks}},
            baseline_payload=payload,
            treatment_payload=payload,
            expected_replay_inventory_sha256="0" * 64,
        )

    assert envelope("none")["atomic_request"]["locked_dependency_hashes"] == locks
    with pytest.raises(OfficialArenaError, match="Checkpoint has no locks for this model slot"):
        envelope("other")


class Spoiling(NoOpIntervention):
    """Changes what it was given, in spite of all that is frozen, and gives a patch all the same."""

    def propose(self, state: FrozenAgentState, context: InterventionContext) -> Any:
        object.__setattr__(state, "query", "spoilt")
        return super().propose(state, context)


class OwnWords(InputPatch):
    """A patch of a class of its own, which describes itself in its own way."""

    def as_dict(self) -> dict[str, Any]:
        return {"own": True}

    @property
    def patch_hash(self) -> str:
        return "5" * 64


class SpeaksForItself(NoOpIntervention):
    def propose(self, state: FrozenAgentState, context: InterventionContext) -> Any:
        patch = super().propose(state, context)
        return OwnWords(**{field.name: getattr(patch, field.name) for field in fields(InputPatch)})


def without_measures(payload: dict[str, Any]) -> dict[str, Any]:
    execution = {**payload["intervention_execution"], "usage": None, "duration_ms": None}
    return {**payload, "intervention_execution": execution}


@pytest.mark.parametrize("intervention", [NoOpIntervention(), Spoiling(), SpeaksForItself(), Failing(KeyError)])
def test_arms_built_together_are_those_that_each_alone_gives(fixture: Fixture, intervention: Any) -> None:
    arms = [Arm("base", NoOpIntervention(), {}), Arm("changed", intervention, {"a": [1]})]
    together = build_payloads(fixture.row, arms, model_slot="none")
    alone = [
        retail_driver.build_payload(
            fixture.row,
            arm_id=arm.arm_id,
            intervention=arm.intervention,
            arm_parameters=arm.parameters,
            model_slot="none",
        )
        for arm in arms
    ]
    for one, other in zip(together, alone, strict=True):
        failure, alike = (item["intervention_execution"]["failure"] for item in (one, other))
        if failure is not None:
            failure["monitor_run_id"] = alike["monitor_run_id"]
        assert without_measures(one) == without_measures(other)


def test_a_spoilt_checkpoint_reaches_no_other_pair_and_its_own_is_refused(fixture: Fixture) -> None:
    arms = [Arm("base", NoOpIntervention(), {}), Arm("changed", Spoiling(), {})]
    base, spoilt = build_payloads(fixture.row, arms, model_slot="none")
    assert materialized_state(base) == fixture.row["visible_state"]
    with pytest.raises(OfficialArenaError, match="materialized_state differs from output_state_hash"):
        materialized_state(spoilt)
    (after,) = build_payloads(fixture.row, arms[:1], model_slot="none")
    assert materialized_state(after) == fixture.row["visible_state"]


def test_a_patch_of_another_class_speaks_for_itself(fixture: Fixture) -> None:
    execution = fixture.payload(SpeaksForItself())["intervention_execution"]
    assert (execution["patch"], execution["patch_hash"]) == ({"own": True}, "5" * 64)
