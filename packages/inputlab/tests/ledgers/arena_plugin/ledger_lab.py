"""A private folder with enabled scopes around the counting arena; shared by the tests beside it."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from counting_arena import LOCKS, CountingArena

from agentinputlab.contracts import FrozenAgentState
from ripieno.canonical import INDENTED_UNICODE_LINE
from workers.official_arenas import retail_capture, retail_driver
from workers.official_arenas.protocol import checkpoint_identity_hash, content_hash

REFERENCE = {"source_kind": "human_message", "thread_id": "thread-1", "message_sha256": "a" * 64}
AUTHORIZATIONS = {"scope": REFERENCE, "environment_models": REFERENCE}
ENTRYPOINT = "counting_arena:factory"
SLOT = "slot-a"


def write(path: Path, value: Any) -> str:
    """Write JSON (or bytes) and give the SHA-256."""
    data = value if isinstance(value, bytes) else INDENTED_UNICODE_LINE.dumps(value)
    path.write_bytes(data)
    path.chmod(0o600)
    return hashlib.sha256(data).hexdigest()


def payload(row: dict[str, Any], role: str, **changes: Any) -> dict[str, Any]:
    """An arm that starts from the captured state; the treatment has a longer query."""
    state = FrozenAgentState.from_dict(row["visible_state"]).canonical_dict()
    if role == "treatment":
        state["query"] += " Think first."
    state = changes.pop("state", state)
    execution = {
        "status": "success",
        "input_state_hash": row["visible_state_hash"],
        "output_state_hash": content_hash(state),
        "patch": {},
        "patch_hash": content_hash({}),
        "materialized_state": state,
        "runtime_product_sha256": "0" * 64,
        "intervention_builder_sha256": "0" * 64,
        "usage": changes.pop("usage", {}),
        "duration_ms": changes.pop("duration_ms", 1),
        "intent_check": None,
        "failure": None,
    }
    return {
        "schema_version": 1,
        "protocol": "agentinputlab.executable-release-payload.v1",
        "arm_id": f"arm-{role}",
        "release_id": f"release.{role}",
        "family": "reformulate",
        "profile_kind": "controlled_adapter",
        "model_slot": SLOT,
        "seed": 17,
        "checkpoint_identity_hash": checkpoint_identity_hash(row),
        "visible_state_hash": row["visible_state_hash"],
        "pre_action": True,
        "arm_parameters": {},
        "intervention_execution": execution,
        **changes,
    }


@dataclass
class Lab:
    """One folder: a capture root, a ledger root, scopes and the file of counted model calls."""

    folder: Path
    limit: int = 3
    split: str = "train"
    behaviour: dict[str, Any] = field(default_factory=dict)
    slot: str = SLOT

    def __post_init__(self) -> None:
        for path in (self.captures, self.ledger):
            path.mkdir(mode=0o700)

    @property
    def captures(self) -> Path:
        return self.folder / "captures"

    @property
    def ledger(self) -> Path:
        return self.folder / "ledger"

    @property
    def calls_file(self) -> Path:
        return self.folder / "calls.txt"

    @property
    def config(self) -> dict[str, Any]:
        return {
            "task_split_name": self.split,
            "limit": self.limit,
            "locked_dependency_hashes": LOCKS,
            "calls": str(self.calls_file),
            "behaviour": self.behaviour,
        }

    def calls(self) -> Counter[str]:
        """How often each slot asked the model."""
        return Counter(self.calls_file.read_text().splitlines()) if self.calls_file.exists() else Counter()

    # --- capture

    def capture_scope(self, **changes: Any) -> tuple[Path, str]:
        """An enabled capture scope."""
        draft = retail_capture.draft_scope(
            CountingArena(),
            self.config,
            output_root=self.captures,
            phase="engineering" if self.split == "train" else "formal",
            model_slot=self.slot,
        )
        scope = {**draft, "execution_enabled": True, "authorizations": AUTHORIZATIONS, **changes}
        path = self.folder / "capture-scope.json"
        return path, write(path, scope)

    def capture(self, *, durable: bool = False, **changes: Any) -> dict[str, Any]:
        path, checksum = self.capture_scope(**changes)
        return retail_capture.run(path, checksum, durable=durable)

    # --- pairs

    def prepare(self) -> None:
        """Capture once, so that pairs have an origin."""
        snapshot = self.capture()["snapshot"]
        self.replays = snapshot / "replays.json"
        rows = json.loads((snapshot / "checkpoints.json").read_bytes())["checkpoints"]
        self.rows = {row["checkpoint_id"]: row for row in rows}
        self.calls_file.unlink()

    def envelope(self, task_id: str = "0", **changes: Any) -> dict[str, Any]:
        """A request; ``baseline`` and ``treatment`` change payloads, everything else parameters."""
        row = self.rows[task_id]
        payloads = {role: payload(row, role, **changes.pop(role, {})) for role in ("baseline", "treatment")}
        return retail_driver.build_envelope(
            CountingArena(),
            {**self.config, "behaviour": {**self.behaviour, **changes.pop("behaviour", {})}},
            {**row, **changes.pop("row", {})},
            baseline_payload=payloads["baseline"],
            treatment_payload=payloads["treatment"],
            expected_replay_inventory_sha256=hashlib.sha256(self.replays.read_bytes()).hexdigest(),
            entrypoint=ENTRYPOINT,
        )

    def execution_scope(self, *envelopes: dict[str, Any], **changes: Any) -> dict[str, str]:
        """An enabled execution scope for the pairs, as the environment that binds it."""
        draft = retail_driver.draft_scope(
            CountingArena(),
            envelopes[0]["worker_parameters"]["provider_config"],
            output_root=self.ledger,
            phase="engineering",
            cell_ids=[retail_driver.cell_id(envelope) for envelope in envelopes],
            entrypoint=ENTRYPOINT,
        )
        scope = {**draft, "execution_enabled": True, "authorizations": AUTHORIZATIONS, **changes}
        path = self.folder / "execution-scope.json"
        return self.environment(path, write(path, scope))

    def environment(self, scope: Path, checksum: str) -> dict[str, str]:
        return {
            retail_driver.SCOPE_PATH_ENV: str(scope),
            retail_driver.SCOPE_SHA256_ENV: checksum,
            "AILAB_RETAIL_REPLAY_INVENTORY": str(self.replays),
            "AILAB_RETAIL_REPLAY_INVENTORY_SHA256": hashlib.sha256(self.replays.read_bytes()).hexdigest(),
        }

    def cell(self, envelope: dict[str, Any]) -> Path:
        return self.ledger / retail_driver.cell_id(envelope)


def files_of(root: Path) -> dict[str, bytes]:
    """Every file below a folder that is not a leftover of an interrupted write."""
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and not any(part.endswith(".partial") for part in path.relative_to(root).parts)
    }


def resealed(envelope: dict[str, Any]) -> dict[str, Any]:
    """The envelope with the hash of what it now says."""
    rest = {name: item for name, item in envelope.items() if name != "request_hash"}
    return {**rest, "request_hash": content_hash(rest)}
