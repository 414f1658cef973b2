"""A score, a count or a receipt that was changed and sealed again is found where trace or request contradict it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from campaign_lab import TREATMENT, copy_of

from ripieno.receipts import seal
from ripieno.verify import VerifyStatus, verify
from workers.official_arenas._evidence import evidence_bytes
from workers.official_arenas.campaign.plan import parse_plan
from workers.official_arenas.campaign.run import run_campaign
from workers.official_arenas.protocol import (
    BUDGET_OVERRIDE_PATH_ENV,
    BUDGET_OVERRIDE_SHA256_ENV,
    content_hash,
    normalized_trace_hash,
)
from workers.official_arenas.retail_driver import cell_files, verify_cell

Value = dict[str, Any]


def embedded(out: Path, **fields: Any) -> Path:
    plan = {"arena": "embedded", "split": "test", "treatments": [TREATMENT], "durable": False, **fields}
    return run_campaign(parse_plan(plan), out, command=["a command"]).folder


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The ledger of a pair whose treatment lost what its baseline solved."""
    folder = embedded(tmp_path_factory.mktemp("embedded") / "out")
    lost = next(
        row
        for row in json.loads((folder / "results.json").read_text())
        if row["treated"]["score"] == 0.0 and row["baseline"]["score"] == 1.0
    )
    return folder / "pairs" / lost["slot"] / lost["cell_id"]


@pytest.fixture
def cell(played: Path, tmp_path: Path) -> Path:
    return copy_of(played, tmp_path / played.name)


def forge(
    cell: Path,
    *,
    outcome: Callable[[Value], object] | None = None,
    trace: Callable[[Value], object] | None = None,
    receipt: Callable[[Value], object] | None = None,
) -> None:
    """Change the treatment, and everything that says the same elsewhere in the cell, and seal it all again."""
    path, trace_path, answer = (
        cell / "treatment" / "arm-outcome.json",
        cell / "treatment" / "trace.json",
        cell / "response.json",
    )
    said, response = json.loads(path.read_bytes()), json.loads(answer.read_bytes())
    del said["receipt_sha256"]
    if trace is not None:
        messages = json.loads(trace_path.read_bytes())
        trace(messages)
        trace_path.write_bytes(evidence_bytes(messages))
        said["result"]["trace_hash"] = content_hash(messages)
        said["normalized_trace_hash"] = normalized_trace_hash(messages)
    if outcome is not None:
        outcome(said)
    if receipt is not None:
        receipt(response["receipt"])
    path.write_bytes(evidence_bytes(seal(said)))
    response["arms"] = [response["arms"][0], said["result"]]
    answer.write_bytes(evidence_bytes(response))
    terminal = json.loads((cell / "terminal.json").read_bytes())
    del terminal["receipt_sha256"]
    terminal |= {"response_sha256": content_hash(response), "files": cell_files(cell)}
    (cell / "terminal.json").write_bytes(evidence_bytes(seal(terminal)))


def solved(said: Value) -> None:
    said["result"]["metrics"] |= {"official_reward": 1.0, "terminal_success": 1.0}


def without_cost_of_the_intervention(said: Value) -> None:
    assert said["result"]["usage"]["cpu_seconds"] > 0.0
    said["result"]["usage"]["cpu_seconds"] = 0.0


def good_score(trace: Value) -> None:
    trace["reward_info"]["reward"] = 1.0
    trace["reward_info"]["parts"] = dict.fromkeys(trace["reward_info"]["parts"], 1.0)
    trace["reward_info"]["database_hash"] = trace["reward_info"]["gold_database_hash"]


def one_runtime(receipt: Value) -> None:
    receipt["arms"][1]["runtime_instance_id"] = receipt["arms"][0]["runtime_instance_id"]


LIES: dict[str, tuple[dict[str, Callable[[Value], object]], str]] = {
    "a score": ({"outcome": solved}, "treatment/arm-outcome.json: has another score than its trace gives"),
    "a score, and the reasons for it": (
        {"outcome": solved, "trace": good_score},
        "treatment/trace.json: does not support the score that it holds",
    ),
    "how it ended": (
        {"outcome": lambda said: said["trace_measurement"].update(termination="max_steps")},
        "treatment/arm-outcome.json: says of its trace what the trace does not",
    ),
    "what the intervention used": (
        {"outcome": without_cost_of_the_intervention},
        "treatment/arm-outcome.json: used less than its intervention alone",
    ),
    "that the intervention failed": (
        {"outcome": lambda said: said.update(intervention_failure={"scope": "intervention"})},
        "treatment/arm-outcome.json: says of its intervention what the request does not",
    ),
    "whose arm it is": (
        {"outcome": lambda said: said["result"].update(arm_id="treatment.another")},
        "treatment/arm-outcome.json: is of another arm than was asked for",
    ),
    "the scorer": (
        {"receipt": lambda receipt: receipt.update(scorer_revision="0" * 64)},
        "response.json: has the receipt of another request",
    ),
    "the origin of an arm": (
        {"receipt": lambda receipt: receipt["arms"][1].update(origin_state_hash="0" * 64)},
        "response.json: has the receipt of another request",
    ),
    "that each arm had a runtime of its own": (
        {"receipt": one_runtime},
        "response.json: says that both arms ran in one runtime",
    ),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_cell_that_was_changed_and_sealed_again_is_found_when_it_contradicts_itself(cell: Path, lie: str) -> None:
    changes, said = LIES[lie]
    forge(cell, **changes)
    report = verify_cell(cell)
    assert report.status is VerifyStatus.TAMPERED
    assert said in report.first_problem


def test_sealing_an_unchanged_cell_again_verifies(cell: Path) -> None:
    """Otherwise the test above would find the sealing and not the lie."""
    forge(cell)
    assert verify_cell(cell).status is VerifyStatus.COMPLETE


def test_the_verdict_does_not_depend_on_the_budget_of_whoever_verifies(
    cell: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(BUDGET_OVERRIDE_PATH_ENV, "/nowhere/budget.json")
    monkeypatch.setenv(BUDGET_OVERRIDE_SHA256_ENV, "0" * 64)
    assert verify_cell(cell).status is VerifyStatus.COMPLETE
    forge(cell, outcome=solved)
    assert verify_cell(cell).status is VerifyStatus.TAMPERED


@pytest.mark.parametrize("multiplier", [0.25, 0.5])
def test_scores_after_a_hard_stop_or_an_early_end_follow_from_their_traces_too(
    tmp_path: Path, multiplier: float
) -> None:
    folder = embedded(tmp_path / "out", split="train", tasks=8, budget_multiplier=multiplier)
    rows = json.loads((folder / "results.json").read_text())
    assert any(row["baseline"]["hard_stops"] > 0 for row in rows if row["baseline"])
    assert verify(folder).status is VerifyStatus.COMPLETE
