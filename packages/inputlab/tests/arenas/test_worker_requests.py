"""Everything that a paired worker is told is checked before an arm is played: one test per way to lie."""

import hashlib
import json
import os

import pytest

import workers.official_arenas.driver as worker
from workers.official_arenas.protocol import (
    BUDGET_OVERRIDE_PATH_ENV,
    BUDGET_OVERRIDE_SHA256_ENV,
    OfficialArenaError,
    standard_shared_budget,
    visible_shared_budget,
)


def refused(pair, match):
    with pytest.raises(OfficialArenaError, match=match):
        worker.run(pair.envelope(), environment=pair.environment)


def test_envelope_has_exactly_its_fields(make_pair):
    envelope = make_pair().envelope()
    for broken in ([], {}, {**envelope, "extra": 1}, {k: v for k, v in envelope.items() if k != "protocol"}):
        with pytest.raises(OfficialArenaError, match="Atomic envelope"):
            worker.run(broken, environment={})


@pytest.mark.parametrize("change", [{"schema_version": True}, {"schema_version": 2}, {"protocol": "other"}])
def test_envelope_version_is_the_integer_one_and_its_protocol(change, make_pair, make_envelope):
    pair = make_pair()
    with pytest.raises(OfficialArenaError, match=r"Atomic envelope (schema_version|protocol) must be"):
        worker.run(make_envelope(pair.request, pair.parameters, **change), environment=pair.environment)


def test_envelope_hash_covers_every_field(make_pair):
    pair = make_pair()
    envelope = pair.envelope()
    envelope["worker_parameters"] = {**pair.parameters, "bridge_id": "other"}
    with pytest.raises(OfficialArenaError, match="request_hash differs"):
        worker.run(envelope, environment=pair.environment)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("schema_version", True),
        ("protocol", "other"),
        ("provider_entrypoint", " "),
        ("provider_config", []),
        ("replay_inventory_environment", ""),
        ("expected_replay_inventory_sha256", "A" * 64),
        ("bridge_id", None),
        ("scorer_revision", 3),
        ("replay_inventory_environment", "FIXTURE_REPLAYS_SHA256"),
    ],
)
def test_wrong_parameter_is_named(name, value, make_pair):
    pair = make_pair()
    pair.parameters[name] = value
    refused(pair, "Worker parameters")


def test_parameters_have_exactly_their_fields(make_pair):
    pair = make_pair()
    pair.parameters["extra"] = 1
    refused(pair, r"Worker parameters fields differ: missing \[\], 1 unknown")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("benchmark_id", ""),
        ("origin_state_hash", "0" * 63),
        ("replay_identity", None),
        ("seed", True),
        ("seed", -1),
        ("locked_dependency_hashes", {}),
        ("locked_dependency_hashes", {"official_runtime": "1"}),
        ("arms", []),
        ("arms", "ab"),
    ],
)
def test_wrong_request_field_is_refused(name, value, make_pair):
    pair = make_pair()
    pair.request[name] = value
    refused(pair, "Atomic request")


def test_arms_are_one_baseline_and_one_treatment_with_distinct_ids(make_pair):
    pair = make_pair()
    pair.request["arms"][1]["role"] = "baseline"
    refused(pair, "one baseline and one treatment")
    pair = make_pair()
    for arm in pair.request["arms"]:
        arm["arm_id"] = arm["payload"]["arm_id"] = "same"
    refused(pair, "distinct arm_id")


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("arm_id", "arm-other", "arm_id differs"),
        ("seed", 18, "seed differs"),
        ("seed", 17.0, "seed differs"),
        ("checkpoint_identity_hash", "0" * 64, "checkpoint_identity_hash differs"),
        ("visible_state_hash", "0" * 64, "input_state_hash differs"),
        ("schema_version", True, "schema_version must be 1"),
        ("protocol", "other", "protocol must be"),
        ("intervention_execution", None, "intervention_execution must be an object"),
    ],
)
def test_payload_is_bound_to_arm_seed_and_checkpoint(name, value, message, make_pair):
    pair = make_pair()
    pair.request["arms"][1]["payload"][name] = value
    refused(pair, message)


def test_payload_starts_from_the_captured_visible_state(make_pair):
    pair = make_pair()
    payload = pair.request["arms"][0]["payload"]
    payload["visible_state_hash"] = payload["intervention_execution"]["input_state_hash"] = "0" * 64
    refused(pair, "visible_state_hash differs from the captured checkpoint")


def test_payload_is_of_the_model_slot_that_captured(make_pair, make_inventory):
    pair = make_pair()
    pair.bind_inventory(json.dumps(make_inventory([{**pair.record, "model_slot": "another-slot"}])).encode())
    refused(pair, "model_slot differs from the captured checkpoint")


def test_older_inventory_without_visible_hash_still_plays(make_pair, make_inventory):
    pair = make_pair()
    record = {name: value for name, value in pair.record.items() if name != "visible_state_hash"}
    pair.bind_inventory(json.dumps(make_inventory([record])).encode())
    assert worker.run(pair.envelope(), environment=pair.environment)["schema_version"] == 1


def test_materialized_state_has_the_hash_that_the_payload_says(make_pair):
    pair = make_pair()
    pair.request["arms"][0]["payload"]["intervention_execution"]["materialized_state"]["query"] = "another query"
    refused(pair, "differs from output_state_hash")


def test_provider_locks_are_those_of_the_replay_and_part_of_the_request(make_pair):
    pair = make_pair()
    pair.request["locked_dependency_hashes"] = {"official_runtime": "3" * 64}
    refused(pair, "not part of the locks of the request")
    pair = make_pair()
    pair.parameters["provider_config"]["locked_dependency_hashes"] = {"official_runtime": "2" * 64}
    refused(pair, "differ from the replay record")
    pair = make_pair()
    pair.parameters["provider_config"]["locked_dependency_hashes"] = {}
    refused(pair, "Provider locks must be a non-empty object")


@pytest.mark.parametrize(
    ("where", "name", "value", "message"),
    [
        ("request", "benchmark_id", "embedded.retail", "checkpoint_identity_hash differs"),
        ("parameters", "scorer_id", "other", "scorer differs"),
        ("parameters", "scorer_revision", "other", "scorer differs"),
        ("parameters", "provider_entrypoint", "os:getcwd", "accepted arenas"),
    ],
)
def test_pair_is_of_the_arena_that_plays_it(where, name, value, message, make_pair):
    pair = make_pair()
    getattr(pair, where)[name] = value
    refused(pair, message)


@pytest.mark.parametrize(("cap", "calls"), [(0, 1), (1, 1)])
def test_cap_of_zero_allows_none_and_a_cap_of_one_allows_one(cap, calls, make_pair):
    pair = make_pair(max_tool_calls=cap)
    if calls <= cap:
        worker.run(pair.envelope(), environment=pair.environment)
    else:
        refused(pair, "used 1 tool_calls, its max_tool_calls is 0")


def test_zero_caps_that_are_kept_are_accepted(make_pair):
    pair = make_pair(max_model_calls=0, max_retrieval_calls=0, max_output_tokens=0, max_context_tokens=0)
    assert worker.run(pair.envelope(), environment=pair.environment)["arms"][0]["usage"]["model_calls"] == 0


@pytest.mark.parametrize(
    ("cap", "usage"),
    [
        ({"max_model_calls": 1}, {"model_calls": 2}),
        ({"max_retrieval_calls": 0}, {"retrieval_calls": 1}),
        ({"max_output_tokens": 10}, {"output_tokens": 11}),
        ({"max_context_tokens": 10}, {"input_tokens": 11}),
        ({"max_cost_usd": 1.0}, {"cost_usd": 0.6, "compute_cost_usd": 0.6}),
        ({"max_cost_usd": 1.0}, {"model_calls": 1, "unpriced_model_calls": 1}),
        ({"max_tool_calls": -1}, {}),
        ({"max_tool_calls": True}, {}),
        ({"max_tool_calls": None}, {}),
    ],
)
def test_usage_of_the_intervention_counts_against_the_arm(cap, usage, make_pair):
    pair = make_pair(**cap)
    pair.request["arms"][1]["payload"]["intervention_execution"]["usage"] = usage
    refused(pair, "^Arm ")


def test_operators_shared_budget_must_be_that_of_the_arms(make_pair, tmp_path):
    budget = standard_shared_budget(0.5)
    path = tmp_path / "budget.json"
    path.write_text(json.dumps(budget))
    override = {
        BUDGET_OVERRIDE_PATH_ENV: str(path),
        BUDGET_OVERRIDE_SHA256_ENV: hashlib.sha256(path.read_bytes()).hexdigest(),
    }
    pair = make_pair()
    pair.environment.update(override)
    refused(pair, "budget differs from the shared budget")
    pair = make_pair(**visible_shared_budget(budget))
    pair.environment.update(override)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in override.items():
            patch.setitem(os.environ, name, value)
        assert worker.run(pair.envelope(), environment=pair.environment)["arms"]


# --- the inventory ------------------------------------------------------------------------------------------


def test_digest_variable_must_be_the_one_that_the_parameters_expect(make_pair):
    pair = make_pair()
    pair.environment["FIXTURE_REPLAYS_SHA256"] = "0" * 64
    refused(pair, "digest differs from the one that the parameters expect")


def test_inventory_bytes_must_have_the_digest(make_pair):
    pair = make_pair()
    pair.inventory_path.write_bytes(pair.inventory_path.read_bytes() + b" ")
    refused(pair, "file differs from its digest")


@pytest.mark.parametrize("missing", ["FIXTURE_REPLAYS", "FIXTURE_REPLAYS_SHA256"])
def test_inventory_needs_both_variables(missing, make_pair):
    pair = make_pair()
    del pair.environment[missing]
    refused(pair, "both of its environment variables")


def test_inventory_may_not_be_a_link_a_pipe_or_a_folder(make_pair, tmp_path):
    pair = make_pair()
    link = tmp_path / "link"
    link.symlink_to(pair.inventory_path)
    os.mkfifo(tmp_path / "pipe")
    for path in (link, tmp_path / "pipe", tmp_path, tmp_path / "absent"):
        pair.environment["FIXTURE_REPLAYS"] = str(path)
        refused(pair, "readable regular file")


def test_inventory_longer_than_64_mib_is_not_read(make_pair):
    pair = make_pair()
    with pair.inventory_path.open("wb") as stream:
        stream.truncate(64 * 2**20 + 1)
    refused(pair, "at most 64 MiB")


@pytest.mark.parametrize(
    "data",
    [b'{"a":1,"a":1}', b"[" * 100_000, b"\xff\xfe", b"{}", b"[]", b"null", b'{"x":' * 3000 + b"1" + b"}" * 3000],
)
def test_inventory_that_is_no_inventory_is_refused(data, make_pair):
    pair = make_pair()
    pair.bind_inventory(data)
    refused(pair, "Replay inventory")


@pytest.mark.parametrize(
    "change",
    [
        {"schema_version": True},
        {"protocol": "other"},
        {"benchmark_id": " "},
        {"record_count": 2},
        {"record_count": True},
        {"records": {}},
        {"surplus": 1},
        {"benchmark_id": "another.arena"},
    ],
)
def test_inventory_field_that_lies_is_refused(change, make_pair, make_inventory):
    pair = make_pair()
    pair.bind_inventory(json.dumps({**make_inventory([pair.record]), **change}).encode())
    refused(pair, "Replay inventory")


@pytest.mark.parametrize(
    "change",
    [
        {"origin_state_hash": "0" * 64},
        {"replay_identity": "0" * 64},
        {"protected": {"fixture": True, "locked_dependency_hashes": {"official_runtime": "1" * 64}, "planted": 1}},
        {"protected": []},
        {"checkpoint_id": "fixture-2"},
        {"visible_state_hash": "short"},
        {"model_slot": ""},
        {"surplus": 1},
    ],
)
def test_replay_record_names_its_protected_content(change, make_pair, make_inventory):
    pair = make_pair()
    pair.bind_inventory(json.dumps(make_inventory([{**pair.record, **change}])).encode())
    refused(pair, "Replay inventory")


def test_inventory_repeats_no_checkpoint_and_holds_the_requested_one(make_pair, make_inventory):
    pair = make_pair()
    pair.bind_inventory(json.dumps(make_inventory([pair.record, pair.record])).encode())
    refused(pair, "repeats a checkpoint")
    pair.bind_inventory(json.dumps(make_inventory([])).encode())
    refused(pair, "does not hold the requested checkpoint")
