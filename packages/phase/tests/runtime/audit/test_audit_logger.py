"""What the log holds, to the byte, and what it refuses to hold."""

from __future__ import annotations

import hashlib
import hmac
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from audit_runs import compact, drive, judged, lines_of, records_of, sha256, state_of, stored
from hypothesis import given, settings
from hypothesis import strategies as st

from ripieno.verify import VerifyStatus
from scpn_phase_orchestrator.actuation.mapper import ControlAction
from scpn_phase_orchestrator.coupling.modulation import Modulation
from scpn_phase_orchestrator.exceptions import AuditError
from scpn_phase_orchestrator.runtime._array_references import ARRAYS_KEPT, array_reference
from scpn_phase_orchestrator.runtime.audit_logger import AuditLogger
from scpn_phase_orchestrator.runtime.audit_signing import key_id_for_secret
from scpn_phase_orchestrator.runtime.replay import ReplayEngine

STATE = state_of(np.array([0.1, 0.2, 0.3]), [2, 1])


def log_plain_step(log: AuditLogger, step: int = 0, **changes: Any) -> None:
    inputs: dict[str, Any] = {
        "phases": np.array([0.1, 0.2, 0.3]),
        "omegas": np.ones(3),
        "knm": np.zeros((3, 3)),
        "alpha": np.zeros((3, 3)),
        **changes,
    }
    log.log_step(step, inputs.pop("state", STATE), inputs.pop("actions", []), **inputs)


def test_unsigned_header_has_the_documented_hashes(tmp_path: Path) -> None:
    with AuditLogger(tmp_path / "log") as log:
        log.log_header(n_oscillators=2, dt=0.01, seed=7)
    header = records_of(tmp_path / "log")[0]
    assert header["_payload_hash"] == "e74fb2b2ca54bd85021551b08d56fc4392b99b143eb66800c5608f1581ef6747"
    assert header["_hash"] == "8ab050d6a0c1c0e1fbbe4e05dfeedb916e4fe2043400fb4cb63e32d3d74652fc"


@pytest.mark.parametrize("key", [None, "test-key"])
def test_every_line_is_what_the_documentation_says(
    key: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if key is not None:
        monkeypatch.setenv("SPO_AUDIT_KEY", key)
    with AuditLogger(tmp_path / "log") as log:
        drive(log)
    previous = "0" * 64
    for number, line in enumerate(lines_of(tmp_path / "log"), start=1):
        record = json.loads(line)
        assert line == stored(record)
        payload = {name: value for name, value in record.items() if not name.startswith("_")}
        assert record["_payload_hash"] == sha256(compact(payload))
        assert record["_previous_hash"] == previous
        clean = {name: value for name, value in record.items() if name != "_hash"}
        assert record["_hash"] == sha256(previous + compact(clean))
        if key is None:
            assert {name for name in record if name.startswith("_")} == {
                "_audit_mode", "_hash", "_payload_hash", "_previous_hash",
            }  # fmt: skip
            assert record["_audit_mode"] == "unsigned-development"
        else:
            material = {
                "audit_mode": "hmac-signed",
                "metadata": {"algorithm": "HMAC-SHA256", "key_id": key_id_for_secret(key)},
                "payload_hash": record["_payload_hash"],
                "previous_event_hash": previous,
                "schema_version": 1,
                "sequence": number,
                "stream_id": "spo-audit-jsonl",
                "timestamp_unix_ns": record["_audit_timestamp_unix_ns"],
            }
            value = hmac.new(key.encode(), compact(material).encode(), "sha256").hexdigest()
            expected = {"algorithm": "HMAC-SHA256", "key_id": key_id_for_secret(key), "value": value}
            assert record["_signature"] == expected
            assert record["_audit_sequence"] == number
            assert record["_audit_stream_id"] == "spo-audit-jsonl"
        previous = record["_hash"]
    assert judged(tmp_path / "log").status is VerifyStatus.COMPLETE


def test_a_step_has_the_documented_fields(closed_log: Path) -> None:
    records = records_of(closed_log)
    step = records[3]
    assert {name for name in step if not name.startswith("_")} == {
        "ts", "step", "regime", "regime_decided", "stability", "layers", "actions", "phases", "omegas_ref", "knm_ref",
        "alpha_ref", "zeta", "psi_drive",
    }  # fmt: skip
    assert step["actions"] == [
        {
            "knob": "K",
            "scope": "global",
            "value": 0.05,
            "ttl_s": 10.0,
            "justification": 'degraded: boost, "global" coupling',
        }
    ]
    assert records[-2]["event"] == "regime_transition"
    assert records[-1]["closing"] == {"records": 9, "steps": 6, "events": 2, "status": "complete"}


def test_matrices_are_written_once_and_named_afterwards(closed_log: Path) -> None:
    records = records_of(closed_log)
    for name in ("knm", "alpha", "omegas"):
        holders = [record for record in records if name in record]
        assert len(holders) == 1
        array = np.array(holders[0][name])
        shape = "x".join(map(str, array.shape))
        reference = hashlib.sha256(f"{shape}\n".encode() + array.astype("<f8").tobytes()).hexdigest()
        assert [record[f"{name}_ref"] for record in records if f"{name}_ref" in record] == [reference] * 5


def test_a_matrix_that_changed_in_place_is_written_again(tmp_path: Path) -> None:
    knm = np.zeros((3, 3))
    with AuditLogger(tmp_path / "log") as log:
        for step in range(4):
            knm[0, 1] = [0.0, 0.5, 0.0, 0.5][step]
            log_plain_step(log, step, knm=knm)
    steps = records_of(tmp_path / "log")
    assert ["knm" in step for step in steps[:4]] == [True, True, False, False]
    assert steps[2]["knm_ref"] == array_reference(np.zeros((3, 3)))
    assert steps[3]["knm_ref"] == array_reference(knm)


def test_an_array_is_forgotten_after_eight_others_by_writer_and_reader(tmp_path: Path) -> None:
    with AuditLogger(tmp_path / "log") as log:
        log.log_header(n_oscillators=3, dt=0.01)
        for step in [*range(ARRAYS_KEPT + 1), 1, 0]:
            log_plain_step(log, step, omegas=np.full(3, float(step)))
    records = records_of(tmp_path / "log")[1:-1]
    assert ["omegas" in record for record in records] == [True] * (ARRAYS_KEPT + 1) + [False, True]
    replay = ReplayEngine(tmp_path / "log")
    assert "omegas_ref" not in str(replay.verify(atol=10.0).problem)


def test_a_read_only_matrix_is_known_by_identity(tmp_path: Path) -> None:
    knm = np.zeros((3, 3))
    knm.flags.writeable = False
    with AuditLogger(tmp_path / "log") as log:
        for step in range(3):
            log_plain_step(log, step, knm=knm)
    assert ["knm" in record for record in records_of(tmp_path / "log")[:3]] == [True, False, False]


@pytest.mark.parametrize(("key", "limit"), [(None, 3000), ("secret", 3300)])
def test_a_step_of_64_oscillators_in_8_layers_stays_below_3_kB(
    key: str | None, limit: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if key is not None:
        monkeypatch.setenv("SPO_AUDIT_KEY", key)
    values = tuple(np.random.default_rng(3).random(8).tolist())
    modulation = Modulation(global_gain=1.1025, layer_gains=values, imprint=values, imprint_targets=("K",))

    def change(step: int, inputs: dict[str, Any]) -> None:
        inputs["modulation"] = modulation

    with AuditLogger(tmp_path / "log") as log:
        drive(log, 4, sizes=[8] * 8, change=change)
    assert max(len(line) for line in lines_of(tmp_path / "log")[2:]) < limit


def test_the_binding_config_is_written_once(tmp_path: Path) -> None:
    config = {"name": "pump", "layers": [{"name": "a"}]}
    with AuditLogger(tmp_path / "log") as log:
        log.log_header(n_oscillators=2, dt=0.01, binding_config=config)
    header = records_of(tmp_path / "log")[0]
    assert header["binding_config"] == config
    assert header["binding_summary_ref"] == sha256(compact(config))
    assert ReplayEngine(tmp_path / "log").load_header()["binding_summary"] == config


def test_an_event_with_a_step_is_no_step(closed_log: Path) -> None:
    replay = ReplayEngine(closed_log)
    assert len(replay.load()) == 9
    assert len(replay.step_entries()) == 6
    assert replay.verify().final_regime == "nominal"


def test_an_event_that_looks_like_a_step_is_no_step(tmp_path: Path) -> None:
    with AuditLogger(tmp_path / "log") as log:
        log.log_header(n_oscillators=3, dt=0.01)
        log.log_event("note", {"step": 1, "regime": "critical", "phases": [1.0], "layers": [], "actions": []})
    replay = ReplayEngine(tmp_path / "log")
    replay.load()
    assert replay.step_entries() == []
    assert replay.verify().final_regime is None


@pytest.mark.parametrize("name", ["", "closing", "step", "header", "a\nb", "x" * 129, 3])
def test_an_event_must_have_a_name_that_is_no_other_kind(name: Any, tmp_path: Path) -> None:
    with AuditLogger(tmp_path / "log") as log, pytest.raises(AuditError, match="event must be"):
        log.log_event(name)


@pytest.mark.parametrize("key", ["_hash", "_audit_mode", "_mine", "event", "header", "closing"])
def test_an_event_cannot_set_what_belongs_to_the_log(key: str, tmp_path: Path) -> None:
    with AuditLogger(tmp_path / "log") as log, pytest.raises(AuditError, match=key):
        log.log_event("note", {key: 1})


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"phases": np.array([0.1, math.nan, 0.3])}, "phases"),
        ({"omegas": np.array([0.1, math.inf, 0.3])}, "omegas"),
        ({"knm": np.full((3, 3), -math.inf)}, "knm"),
        ({"zeta": math.nan}, "finite"),
        ({"psi_drive": np.array([1.0, math.nan, 0.0])}, "psi_drive"),
        ({"actions": [ControlAction("K", "global", math.nan, 1.0, "why")]}, "record a step"),
        ({"state": state_of(np.array([0.1, math.nan, 0.2]), [2, 1])}, "finite"),
        ({"modulation": {"global_gain": math.inf}}, "record a step"),
        ({"omegas": None}, "needs omegas"),
    ],
)
def test_what_cannot_be_recorded_is_refused_and_nothing_is_written(
    changes: dict[str, Any], name: str, tmp_path: Path
) -> None:
    with AuditLogger(tmp_path / "log") as log:
        log_plain_step(log, 0)
        before = lines_of(tmp_path / "log")
        with pytest.raises(AuditError, match=name):
            log_plain_step(log, 1, **changes)
        assert lines_of(tmp_path / "log") == before
        log_plain_step(log, 2, knm=np.ones((3, 3)))
    assert judged(tmp_path / "log").status is VerifyStatus.COMPLETE
    assert records_of(tmp_path / "log")[-1]["closing"]["steps"] == 2


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"n_oscillators": 0}, "n_oscillators"),
        ({"n_oscillators": True}, "n_oscillators"),
        ({"dt": 0.0}, "dt"),
        ({"dt": math.nan}, "dt"),
        ({"dt": "0.01"}, "dt"),
        ({"method": "heun"}, "method"),
        ({"substeps": 0}, "substeps"),
        ({"seed": 1.5}, "seed"),
        ({"layer_sizes": [1]}, "layer_sizes"),
        ({"binding_config": {"x": math.nan}}, "header"),
    ],
)
def test_a_header_must_describe_a_run(arguments: dict[str, Any], name: str, tmp_path: Path) -> None:
    with AuditLogger(tmp_path / "log") as log, pytest.raises(AuditError, match=name):
        log.log_header(**{"n_oscillators": 2, "dt": 0.01, **arguments})
    assert len(lines_of(tmp_path / "log")) == 1


@pytest.mark.parametrize("path", [3, "", None, b"log"])
def test_a_path_must_be_one(path: Any) -> None:
    with pytest.raises(AuditError, match="path"):
        AuditLogger(path)


def test_an_exception_is_recorded_and_the_log_is_closed_as_failed(tmp_path: Path) -> None:
    def run() -> None:
        with AuditLogger(tmp_path / "log") as log:
            log_plain_step(log)
            raise ZeroDivisionError("ü broke")

    with pytest.raises(ZeroDivisionError):
        run()
    closing = records_of(tmp_path / "log")[-1]["closing"]
    assert closing["status"] == "failed"
    assert closing["error"] == {"type": "ZeroDivisionError", "message": "\\xfc broke"}
    assert judged(tmp_path / "log").status is VerifyStatus.FAILED


def test_an_interrupt_leaves_a_log_that_can_be_continued(tmp_path: Path) -> None:
    def run() -> None:
        with AuditLogger(tmp_path / "log") as log:
            drive(log)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run()
    assert judged(tmp_path / "log").status is VerifyStatus.INTERRUPTED
    with AuditLogger(tmp_path / "log") as log:
        drive(log)
    assert judged(tmp_path / "log", reexecute=True).status is VerifyStatus.COMPLETE
    headers = [record for record in records_of(tmp_path / "log") if record.get("header")]
    assert [header.get("continuation") for header in headers] == [None, 1]
    assert ReplayEngine(tmp_path / "log").verify().transitions == 10


def test_closing_twice_is_closing_once_and_nothing_follows(closed_log: Path, tmp_path: Path) -> None:
    log = AuditLogger(tmp_path / "other")
    log.close()
    log.close()
    assert len(lines_of(tmp_path / "other")) == 1
    with pytest.raises(AuditError, match="closed"):
        log.log_event("late")


# --- floats and text: the fast path writes what Python writes ---------------------------------------------------

FLOATS = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([0.0, -0.0, 1e-4, 9.99e-5, 1e16, 123456789012345680.0, 5e-324, 0.1, 1e22, 1e-5]),
    st.floats(0.0, 7.0),
)


@settings(max_examples=200, deadline=None)
@given(values=st.lists(FLOATS, min_size=1, max_size=6))
def test_numbers_are_written_as_python_writes_them(
    values: list[float], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("floats") / "log"
    n = len(values)
    with AuditLogger(path, fsync="never") as log:
        log.log_step(
            0, STATE, [], phases=np.array(values), omegas=np.ones(n), knm=np.zeros((n, n)), alpha=np.zeros((n, n)),
            zeta=values[0],
        )  # fmt: skip
    line = lines_of(path)[0]
    assert line == stored(json.loads(line))
    assert f'"phases": {json.dumps(values)}, '.encode() in line
    assert judged(path).status is VerifyStatus.COMPLETE


KEYS = st.text('aZ_é,:"\\\x7f', max_size=4)
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), FLOATS, st.text(st.characters(exclude_categories=["Cs"]))),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=3)),
    max_leaves=8,
)


@settings(max_examples=200, deadline=None)
@given(data=st.dictionaries(st.text('abZ 0é,:"\\\x00\x7f', max_size=5), JSON, max_size=4))
def test_any_event_is_written_as_python_writes_it_and_verifies(
    data: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("events") / "log"
    with AuditLogger(path, fsync="never") as log:
        log.log_event("note", data)
    line = lines_of(path)[0]
    record = json.loads(line)
    assert line == stored(record)
    assert record["_payload_hash"] == sha256(
        compact({key: value for key, value in record.items() if not key.startswith("_")})
    )
    assert {key: record[key] for key in data} == data | {key: record[key] for key in data if key == "ts"}
    assert judged(path).status is VerifyStatus.COMPLETE
