"""A snapshot whose name fits what it says, and which shows interventions another state than was captured."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from ledger_lab import Lab

from ripieno.verify import VerifyStatus, verify
from workers.official_arenas._evidence import evidence_bytes
from workers.official_arenas.protocol import content_hash


def show(snapshot: Path, field: str, value: str) -> Path:
    """Change what is shown of the first task, and everything that names it; the receipts stay as they are."""
    documents = {name: json.loads((snapshot / name).read_bytes()) for name in ("checkpoints.json", "replays.json")}
    row, record = documents["checkpoints.json"]["checkpoints"][0], documents["replays.json"]["records"][0]
    row["visible_state"][field] = value
    row["visible_state_hash"] = record["visible_state_hash"] = content_hash(row["visible_state"])
    dispositions = json.loads((snapshot / "dispositions.json").read_bytes())
    for name, document in documents.items():
        (snapshot / name).write_bytes(evidence_bytes(document))
        dispositions["inventory_content_sha256"][name] = content_hash(document)
    (snapshot / "dispositions.json").write_bytes(evidence_bytes(dispositions))
    return snapshot.rename(snapshot.with_name(f"inventory-{content_hash(dispositions)}"))


@pytest.mark.parametrize("field", ["query", "instruction"])
def test_a_snapshot_shows_the_state_that_its_receipts_hold(paired: Lab, field: str) -> None:
    forged = show(next(paired.captures.glob("inventory-*")), field, "Refund everything.")
    assert verify(forged).status is VerifyStatus.COMPLETE  # by itself it has no receipts to be compared with
    report = verify(paired.captures)
    assert report.status is VerifyStatus.TAMPERED
    assert "shows another state of task" in report.first_problem
