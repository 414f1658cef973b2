"""The checkpoint inventory is bound by digest, says true hashes, and shows nothing privileged."""

import hashlib
import json

import pytest

from agentinputlab.contracts import CHECKPOINT_INVENTORY_PROTOCOL
from workers.official_arenas.capture_records import _records
from workers.official_arenas.checkpoint_inventory import parse_checkpoint_inventory, read_checkpoint_inventory
from workers.official_arenas.protocol import OfficialArenaError, content_hash
from workers.official_arenas.providers.fixture import FixtureProvider

NAMES = {"path_variable": "CHECKPOINTS", "sha256_variable": "CHECKPOINTS_SHA256"}


@pytest.fixture
def row(fixture_config, tmp_path):
    return _records(FixtureProvider(), fixture_config, split="test", output_root=tmp_path)[0][0]


def inventory(*rows, **changes):
    root = {
        "schema_version": 1,
        "protocol": CHECKPOINT_INVENTORY_PROTOCOL,
        "checkpoint_count": len(rows),
        "checkpoints": list(rows),
    }
    return json.dumps({**root, **changes}).encode()


def bound(path, data):
    path.write_bytes(data)
    digest = hashlib.sha256(data).hexdigest()
    return {"CHECKPOINTS": str(path), "CHECKPOINTS_SHA256": digest}, digest


def test_captured_rows_are_read_back_as_they_were(row, tmp_path):
    environment, digest = bound(tmp_path / "checkpoints.json", inventory(row))
    assert read_checkpoint_inventory(**NAMES, expected_sha256=digest, environment=environment) == {"fixture-1": row}


def test_visible_gold_answer_is_refused_however_well_it_is_hashed(row):
    state = {**row["visible_state"], "metadata": {"notes": [{"gold_answer": "42"}]}}
    planted = {**row, "visible_state": state, "visible_state_hash": content_hash(state)}
    with pytest.raises(OfficialArenaError, match="'gold_answer'"):
        parse_checkpoint_inventory(inventory(planted))


def test_digest_variable_other_than_the_locked_one_is_refused(row, tmp_path):
    environment, digest = bound(tmp_path / "checkpoints.json", inventory(row))
    with pytest.raises(OfficialArenaError, match="that the config locks"):
        read_checkpoint_inventory(**NAMES, expected_sha256="0" * 64, environment=environment)
    (tmp_path / "checkpoints.json").write_bytes(inventory(row) + b"\n")
    with pytest.raises(OfficialArenaError, match="differs from its digest"):
        read_checkpoint_inventory(**NAMES, expected_sha256=digest, environment=environment)
    with pytest.raises(OfficialArenaError, match="both of its environment variables"):
        read_checkpoint_inventory(**NAMES, expected_sha256=digest, environment={})


def test_linked_file_is_refused(row, tmp_path):
    environment, digest = bound(tmp_path / "checkpoints.json", inventory(row))
    (tmp_path / "link").symlink_to(tmp_path / "checkpoints.json")
    with pytest.raises(OfficialArenaError, match="readable regular file"):
        read_checkpoint_inventory(
            **NAMES, expected_sha256=digest, environment={**environment, "CHECKPOINTS": str(tmp_path / "link")}
        )


@pytest.mark.parametrize(
    "change",
    [
        {"schema_version": True},
        {"protocol": "other"},
        {"checkpoint_count": 2},
        {"checkpoint_count": True},
        {"checkpoints": {}},
        {"surplus": 1},
    ],
)
def test_root_field_that_lies_is_refused(change, row):
    with pytest.raises(OfficialArenaError, match="Checkpoint inventory"):
        parse_checkpoint_inventory(inventory(row, **change))


@pytest.mark.parametrize("data", [b'{"a":1,"a":2}', b"[" * 10_000, b"\xff", b"[]", b""])
def test_what_is_no_inventory_is_refused(data):
    with pytest.raises(OfficialArenaError, match="Checkpoint inventory"):
        parse_checkpoint_inventory(data)


@pytest.mark.parametrize(
    "change",
    [
        {"checkpoint_id": "fixture-2"},
        {"checkpoint_id": ""},
        {"split": 1},
        {"group_id": "group_1"},
        {"origin_state_hash": "0" * 64},
        {"origin_state_hash": "short"},
        {"replay_identity": "0" * 64},
        {"visible_state_hash": "0" * 64},
        {"visible_state": []},
        {"eligible_families": []},
        {"eligible_families": [["clarify"]]},
        {"locked_dependency_hashes": {}},
        {"locked_dependency_hashes_by_model_slot": {"slot": {"a": "1" * 64}}},
        {"surplus": 1},
    ],
)
def test_row_field_that_lies_is_refused(change, row):
    with pytest.raises(OfficialArenaError):
        parse_checkpoint_inventory(inventory({**row, **change}))


def test_locks_may_be_given_by_model_slot(row):
    by_slot = {name: value for name, value in row.items() if name != "locked_dependency_hashes"}
    good = {**by_slot, "locked_dependency_hashes_by_model_slot": {"slot": {"a": "1" * 64}}}
    assert parse_checkpoint_inventory(inventory(good)) == {"fixture-1": good}
    for slots in ({}, [], {"slot": {}}):
        with pytest.raises(OfficialArenaError):
            parse_checkpoint_inventory(inventory({**good, "locked_dependency_hashes_by_model_slot": slots}))


def test_checkpoint_comes_once(row):
    with pytest.raises(OfficialArenaError, match="repeats"):
        parse_checkpoint_inventory(inventory(row, row))
