"""Captures: what a scope must say, what one attempt leaves, and what becomes of it in a snapshot."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from counting_arena import CountingArena
from ledger_lab import AUTHORIZATIONS, REFERENCE, Lab, files_of, write

from ripieno.canonical import INDENTED_UNICODE_LINE
from workers.official_arenas import retail_capture
from workers.official_arenas._first_capture import _create_only, _saved_capture, capture_batch
from workers.official_arenas.protocol import OfficialArenaError, content_hash


def refused(lab: Lab, **changes: Any) -> str:
    """The check that refuses a changed scope; nothing was captured."""
    with pytest.raises(OfficialArenaError) as caught:
        lab.capture(**changes)
    assert lab.calls() == {}
    return str(caught.value)


# --- scopes -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"schema_version": True}, "Retail capture scope is not enabled or valid"),
        ({"schema_version": 2}, "Retail capture scope is not enabled or valid"),
        ({"execution_enabled": 1}, "Retail capture scope is not enabled or valid"),
        ({"execution_enabled": False}, "Retail capture scope is not enabled or valid"),
        ({"protocol": "agentinputlab.retail-execution-scope.v1"}, "Retail capture scope is not enabled or valid"),
        ({"source_revision": "0" * 41}, "Retail capture scope is not enabled or valid"),
        ({"phase": ["formal"]}, "Retail capture scope is not enabled or valid"),
        ({"authorizations": {"scope": REFERENCE}}, "Retail human choice references are incomplete"),
        (
            {"authorizations": AUTHORIZATIONS | {"scope": REFERENCE | {"thread_id": " "}}},
            "Retail human choice reference is invalid",
        ),
        (
            {"authorizations": AUTHORIZATIONS | {"scope": REFERENCE | {"message_sha256": "A" * 64}}},
            "Retail human choice reference is invalid",
        ),
        (
            {"authorizations": AUTHORIZATIONS | {"scope": REFERENCE | {"source_kind": "model"}}},
            "Retail human choice reference is invalid",
        ),
        ({"provider_config_sha256": "0" * 64}, "Retail capture source or effective config differs"),
        ({"provider_config": []}, "Retail capture source or effective config differs"),
        ({"source_sha256": {}}, "Retail capture source or effective config differs"),
        ({"phase": "formal"}, "Retail capture phase and official split differ"),
        ({"expected_task_ids": ["0", "0", "1"]}, "Retail capture expected task inventory is invalid"),
        ({"expected_task_ids": ["a", "b", "c"]}, "Retail capture expected task inventory is invalid"),
        ({"expected_task_ids": ["0", "1"]}, "Retail capture expected task inventory is invalid"),
        ({"expected_task_ids": ["0", "1", "٢"]}, "Retail capture expected task inventory is invalid"),
        ({"expected_task_ids": ["0", "1", 2]}, "Retail capture expected task inventory is invalid"),
        ({"model_slot": " "}, "Retail capture model slot is absent"),
        ({"output_root": "captures"}, "Retail capture root must be an existing owned private directory"),
        ({"output_root": 7}, "Retail capture root must be an existing owned private directory"),
        ({"expected_task_ids": ["2", "1", "0"]}, "Retail scoped official task order differs"),
        ({"extra": 1}, "Retail capture scope fields or checksum differ"),
    ],
)
def test_each_wrong_field_of_a_scope_is_refused_by_its_own_check(lab: Lab, changes: Any, message: str) -> None:
    assert refused(lab, **changes) == message


def test_a_scope_whose_bytes_are_not_those_of_the_checksum_is_refused(lab: Lab) -> None:
    path, checksum = lab.capture_scope()
    path.write_bytes(path.read_bytes() + b"\n")
    with pytest.raises(OfficialArenaError, match="Retail capture scope fields or checksum differ"):
        retail_capture.run(path, checksum)


def test_engineering_may_not_use_the_test_split(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    assert refused(Lab(tmp_path, split="test"), phase="engineering") == "Retail capture phase and official split differ"


@pytest.mark.parametrize("mode", [0o750, 0o701, 0o777])
def test_a_root_that_others_may_enter_is_refused(lab: Lab, mode: int) -> None:
    lab.captures.chmod(mode)
    assert refused(lab) == "Retail capture root must be an existing owned private directory"


def test_a_root_below_a_link_is_refused(lab: Lab) -> None:
    (lab.folder / "link").symlink_to(lab.folder)
    root = str(lab.folder / "link" / "captures")
    assert refused(lab, output_root=root) == "Retail capture root must be an existing owned private directory"


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a directory away")
def test_a_root_of_another_owner_is_refused(lab: Lab) -> None:
    os.chown(lab.captures, 65534, 65534)
    assert refused(lab) == "Retail capture root must be an existing owned private directory"


def test_a_preflight_that_does_not_pass_stops_before_any_call(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    lab = Lab(tmp_path, behaviour={"blockers": ["ValueError: no model"]})
    assert refused(lab) == "Retail native capture preflight did not pass"


# --- runs ---------------------------------------------------------------------------------------------------


def test_three_captured_tasks_leave_six_private_files_and_one_snapshot(lab: Lab) -> None:
    result = lab.capture(durable=True)
    names = sorted(path.name for path in lab.captures.glob("first-capture-*.json"))
    assert names == [f"first-capture-{n}{end}.json" for n in (0, 1, 2) for end in ("-start", "")]
    assert {stat.S_IMODE(path.stat().st_mode) for path in lab.captures.rglob("*.json")} == {0o600}
    snapshot: Path = result["snapshot"]
    assert stat.S_IMODE(snapshot.stat().st_mode) == 0o700
    assert sorted(path.name for path in snapshot.iterdir()) == [
        "checkpoints.json",
        "dispositions.json",
        "replays.json",
        "units.json",
    ]
    assert snapshot.name == f"inventory-{content_hash(result['disposition'])}"
    hashes = result["disposition"]["inventory_content_sha256"]
    assert hashes["units.json"] == "702e0383ef4117e2072f827054582645ffc7131322dde8c6494c101ffe6a9316"
    assert [path.name for path in lab.captures.iterdir() if path.name.startswith(".")] == []


def test_capturing_again_gives_the_same_snapshot_and_asks_nobody(lab: Lab) -> None:
    first = lab.capture()
    calls = lab.calls()
    assert lab.capture() == first
    assert lab.calls() == calls == {"capture 0": 1, "capture 1": 1, "capture 2": 1}


def test_a_failed_capture_stays_in_the_denominator_and_is_not_repeated(lab: Lab) -> None:
    lab.behaviour["fail"] = ["1"]
    document = lab.capture()["disposition"]
    assert (document["expected_denominator"], document["captured_task_ids"]) == (3, ["0", "2"])
    assert document["all_tasks_terminal"] is True
    receipt = json.loads((lab.captures / "first-capture-1.json").read_bytes())
    assert receipt["exception_type"] == "RuntimeError"
    assert "parrot" not in json.dumps(receipt)
    assert lab.capture()["disposition"] == document
    assert max(lab.calls().values()) == 1


def test_a_start_without_a_result_is_reserved_and_never_tried_again(lab: Lab) -> None:
    binding = content_hash(CountingArena()._validate_config(lab.config))
    start = {"protocol": "retail-first-capture.v1", "config_binding": binding, "task_id": "1", "seed": 17, "attempt": 1}
    write(lab.captures / "first-capture-1-start.json", start)
    result = lab.capture()
    document = result["disposition"]
    assert document["dispositions"][1] == {"task_id": "1", "status": "reserved_unresolved", "retry_permitted": False}
    assert document["all_tasks_terminal"] is False
    assert [path.name for path in result["snapshot"].iterdir()] == ["dispositions.json"]
    assert document["inventory_content_sha256"] == {}
    assert lab.calls() == {"capture 0": 1, "capture 2": 1}


def test_no_byte_of_a_receipt_can_be_changed(lab: Lab) -> None:
    lab.capture()
    path = lab.captures / "first-capture-1.json"
    data = path.read_bytes()
    for index in range(0, len(data), 7):
        path.write_bytes(data[:index] + bytes([data[index] ^ 1]) + data[index + 1 :])
        with pytest.raises(OfficialArenaError, match="Retail existing capture receipt differs"):
            lab.capture()
    for other in (data + b"\n", data[:-1], data.replace(b"  ", b"   ", 1), b"", b"[]", b"\xff"):
        path.write_bytes(other)
        with pytest.raises(OfficialArenaError, match="Retail existing capture receipt differs"):
            lab.capture()
    path.write_bytes(data)
    assert max(lab.calls().values()) == 1


def test_a_receipt_of_another_task_or_a_link_is_refused(lab: Lab) -> None:
    lab.capture()
    path = lab.captures / "first-capture-1.json"
    other = (lab.captures / "first-capture-2.json").read_bytes()
    path.write_bytes(other)
    with pytest.raises(OfficialArenaError, match="Retail existing capture receipt differs"):
        lab.capture()
    path.unlink()
    path.symlink_to(lab.captures / "first-capture-2.json")
    with pytest.raises(OfficialArenaError, match="Retail capture receipt is absent or symlinked"):
        lab.capture()


@pytest.mark.parametrize(
    "record",
    [
        {"checkpoint_id": "9"},
        {"protected": {"task_id": "9"}},
        {"extra": 1},
        {"visible_state": {"query": float("nan")}},
        {"visible_state": {1: "x"}},
    ],
)
def test_a_record_that_says_something_else_is_a_failed_capture(lab: Lab, record: dict[Any, Any]) -> None:
    arena = CountingArena()
    first_turn = arena._first_turn

    class Odd(CountingArena):
        def _first_turn(self, config: Any, task_id: str) -> Any:
            captured, usage = first_turn(config, task_id)
            return {**captured, **record}, usage

    batch = capture_batch(Odd(), lab.config, output_root=lab.captures, durable=False)
    assert {row["status"] for row in batch["dispositions"]} == {"capture_failed"}
    assert batch["records"] == []


@pytest.mark.parametrize("task_ids", [["../x"], ["٣"], [""], ["1" * 65], ["1\n"]])
def test_a_task_id_that_is_no_plain_number_is_refused_before_any_call(lab: Lab, task_ids: list[str]) -> None:
    lab.behaviour["task_ids"] = task_ids
    with pytest.raises(OfficialArenaError, match="Retail task ID is not a safe official identity"):
        capture_batch(CountingArena(), lab.config, output_root=lab.captures)
    assert lab.calls() == {}
    assert list(lab.captures.iterdir()) == []


def test_no_tasks_at_all_is_an_error(lab: Lab) -> None:
    lab.limit = 0
    with pytest.raises(OfficialArenaError, match="Retail capture resolved no official tasks"):
        capture_batch(CountingArena(), lab.config, output_root=lab.captures)


def test_progress_is_told_for_every_task(lab: Lab) -> None:
    lab.behaviour["fail"] = ["2"]
    told: list[tuple[str, str]] = []
    retail_capture.run(*lab.capture_scope(), durable=False, on_task=lambda task, status: told.append((task, status)))
    assert told == [("0", "captured"), ("1", "captured"), ("2", "capture_failed")]


def test_a_receipt_is_created_whole_private_and_only_once(tmp_path: Path) -> None:
    value = {"b": "é", "a": [1]}
    _create_only(tmp_path / "x.json", value)
    assert (tmp_path / "x.json").read_bytes() == INDENTED_UNICODE_LINE.dumps(value)
    assert stat.S_IMODE((tmp_path / "x.json").stat().st_mode) == 0o600
    assert (tmp_path / "x.json").stat().st_nlink == 1
    with pytest.raises(FileExistsError):
        _create_only(tmp_path / "x.json", {})
    (tmp_path / "dangling.json").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FileExistsError):
        _create_only(tmp_path / "dangling.json", {})
    with pytest.raises(ValueError, match="nan"):
        _create_only(tmp_path / "nan.json", {"x": float("nan")})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dangling.json", "x.json"]


def test_a_saved_receipt_with_duplicate_keys_is_refused(lab: Lab) -> None:
    lab.capture()
    path = lab.captures / "first-capture-0.json"
    binding = json.loads(path.read_bytes())["config_binding"]
    assert _saved_capture(path, binding=binding, task_id="0")["terminal"] == "captured"
    path.write_bytes(path.read_bytes().replace(b'"attempt": 1,', b'"attempt": 1,\n  "attempt": 1,'))
    with pytest.raises(OfficialArenaError, match="Retail existing capture receipt differs"):
        _saved_capture(path, binding=binding, task_id="0")
    with pytest.raises(OfficialArenaError, match="Retail capture receipt is absent or symlinked"):
        _saved_capture(lab.captures / "first-capture-7.json", binding=binding, task_id="7")


# --- projection ---------------------------------------------------------------------------------------------


def project(lab: Lab, batch: dict[str, Any]) -> dict[str, Any]:
    return retail_capture.project_batch(
        CountingArena(),
        lab.config,
        batch,
        root=lab.captures,
        phase="engineering",
        model_slot="s",
        scope_sha256="0" * 64,
        durable=False,
    )


def batch_of(lab: Lab) -> dict[str, Any]:
    return capture_batch(CountingArena(), lab.config, output_root=lab.captures, durable=False)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda b: b.update(protocol="x"), "Retail capture dispositions differ from the expected inventory"),
        (lambda b: b.update(config_binding="x"), "Retail capture dispositions differ from the expected inventory"),
        (lambda b: b["dispositions"].reverse(), "Retail capture dispositions differ from the expected inventory"),
        (
            lambda b: b["dispositions"][0].update(retry_permitted=True),
            "Retail capture dispositions differ from the expected inventory",
        ),
        (
            lambda b: b["dispositions"][0].update(status="lost"),
            "Retail capture dispositions differ from the expected inventory",
        ),
        (lambda b: b["records"].append(b["records"][0]), "Retail capture repeats a checkpoint"),
        (
            lambda b: b["dispositions"][0].update(status="reserved_unresolved"),
            "Retail unresolved capture changed during projection",
        ),
        (lambda b: b["dispositions"][0].update(receipt_sha256="0" * 64), "Retail capture terminal receipt differs"),
        (lambda b: b["dispositions"][0].update(status="capture_failed"), "Retail capture terminal receipt differs"),
        (
            lambda b: b["records"].__setitem__(0, {**b["records"][0], "group_key": "x"}),
            "Retail projected checkpoint differs from its receipt",
        ),
        (
            lambda b: b["records"].append({**b["records"][0], "checkpoint_id": "1"}),
            "Retail failed capture cannot have a fabricated checkpoint",
        ),
        (
            lambda b: b["records"].append({**b["records"][0], "checkpoint_id": "8"}),
            "Retail captured checkpoint inventory differs",
        ),
        (lambda b: b.update(all_tasks_terminal=False), "Retail batch terminality differs"),
    ],
)
def test_a_batch_that_contradicts_its_receipts_is_not_projected(lab: Lab, change: Any, message: str) -> None:
    lab.behaviour["fail"] = ["1"]
    batch = batch_of(lab)
    change(batch)
    with pytest.raises(OfficialArenaError, match=message):
        project(lab, batch)
    assert list(lab.captures.glob("inventory-*")) == []


def test_only_failures_give_a_snapshot_without_inventories(lab: Lab) -> None:
    lab.behaviour["fail"] = ["0", "1", "2"]
    result = project(lab, batch_of(lab))
    assert result["disposition"]["all_tasks_terminal"] is True
    assert [path.name for path in result["snapshot"].iterdir()] == ["dispositions.json"]


def test_history_and_binding_stand_in_the_replay_inventory_only(lab: Lab) -> None:
    snapshot: Path = lab.capture()["snapshot"]
    replays = json.loads((snapshot / "replays.json").read_bytes())
    checkpoints = json.loads((snapshot / "checkpoints.json").read_bytes())
    assert all(record["protected"]["history"] for record in replays["records"])
    assert "history" not in json.dumps(checkpoints)
    for record, row in zip(replays["records"], checkpoints["checkpoints"], strict=True):
        assert record["visible_state_hash"] == row["visible_state_hash"] == content_hash(row["visible_state"])
        assert record["model_slot"] == "slot-a"


def test_a_changed_snapshot_is_refused_and_left_alone(lab: Lab) -> None:
    snapshot: Path = lab.capture()["snapshot"]
    for name, message in (
        ("units.json", "Retail retained inventory artifact differs"),
        ("dispositions.json", "Retail inventory snapshot changed or is interrupted"),
    ):
        data = (snapshot / name).read_bytes()
        for other in (data + b" ", None):
            (snapshot / name).unlink()
            if other is not None:
                write(snapshot / name, other)
            before = files_of(lab.captures)
            with pytest.raises(OfficialArenaError, match=message):
                lab.capture()
            assert files_of(lab.captures) == before
            write(snapshot / name, data)
    lab.capture()


def test_a_snapshot_replaced_by_a_link_is_refused(lab: Lab) -> None:
    snapshot: Path = lab.capture()["snapshot"]
    elsewhere = lab.folder / "elsewhere"
    snapshot.rename(elsewhere)
    snapshot.symlink_to(elsewhere)
    with pytest.raises(OfficialArenaError, match="Retail inventory snapshot changed or is interrupted"):
        lab.capture()


def test_an_empty_directory_in_place_of_a_snapshot_is_no_obstacle(lab: Lab) -> None:
    result = lab.capture()
    for path in result["snapshot"].iterdir():
        path.unlink()
    assert lab.capture() == result
    assert len(list(result["snapshot"].iterdir())) == 4


def test_one_root_holds_receipts_of_one_config_only(lab: Lab) -> None:
    lab.capture()
    lab.limit = 4
    with pytest.raises(OfficialArenaError, match="Retail existing capture receipt differs"):
        lab.capture()


def test_every_module_that_a_worker_loads_is_pinned(plugin_path: str) -> None:
    import subprocess
    import sys

    program = (
        "import sys; from workers.official_arenas import retail_capture, retail_driver, _scopes\n"
        "names = {m.replace('.', '/') + '.py' for m in sys.modules if m.startswith('workers.official_arenas.')}\n"
        "from counting_arena import CountingArena\n"
        "pinned = set(_scopes.source_pins(CountingArena()))\n"
        "print(sorted(names - pinned - {'workers/official_arenas/providers.py'}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": plugin_path},
        check=False,
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")
