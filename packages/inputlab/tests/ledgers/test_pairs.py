"""Pairs: what a request and its scope must say, what is played, what is kept, and what is answered later."""

from __future__ import annotations

import hashlib
import json
import stat
from pathlib import Path
from typing import Any

import pytest
from counting_arena import SECRET, CountingArena
from hypothesis import given
from hypothesis import strategies as st
from ledger_lab import AUTHORIZATIONS, ENTRYPOINT, REFERENCE, Lab, files_of, resealed, write

from workers.official_arenas import retail_driver
from workers.official_arenas._scopes import execution_source_hashes
from workers.official_arenas.protocol import OfficialArenaError, content_hash, sha256_file
from workers.official_arenas.retail_driver import PairSession, RetailAttemptUnavailable
from workers.official_arenas.verification import verify_cell


def play(lab: Lab, envelope: dict[str, Any], **scope: Any) -> dict[str, Any]:
    environment = lab.execution_scope(envelope, **scope)
    return retail_driver.run(envelope, environment=environment, durable=False)


def refusal(lab: Lab, envelope: Any, environment: dict[str, str]) -> str:
    """The check that refused; no model was asked and the ledger was not touched."""
    before = files_of(lab.ledger)
    with pytest.raises(OfficialArenaError) as caught:
        retail_driver.run(envelope, environment=environment, durable=False)
    assert files_of(lab.ledger) == before
    assert lab.calls() == {}
    return str(caught.value)


def outcome(lab: Lab, envelope: dict[str, Any], role: str) -> dict[str, Any]:
    return json.loads((lab.cell(envelope) / role / "arm-outcome.json").read_bytes())


# --- a pair -------------------------------------------------------------------------------------------------


def test_a_scored_pair_has_two_rows_a_receipt_and_seven_private_files(paired: Lab) -> None:
    envelope = paired.envelope()
    response = play(paired, envelope)
    assert set(response) == {"schema_version", "protocol", "request_hash", "receipt", "arms"}
    assert [row["role"] for row in response["arms"]] == ["baseline", "treatment"]
    for row in response["arms"]:
        assert set(row) == {"role", "arm_id", "metrics", "trace_hash", "usage"}
        assert len(row["usage"]) == 11
        used = {name: amount for name, amount in row["usage"].items() if amount}
        assert used == {"model_calls": 1, "output_tokens": 5}
    assert len(response["receipt"]) == 12
    cell = paired.cell(envelope)
    terminal = json.loads((cell / "terminal.json").read_bytes())
    assert (len(terminal["files"]), terminal["status"], terminal["failed_roles"]) == (7, "paired_scored", [])
    assert terminal["response_sha256"] == content_hash(response)
    assert {stat.S_IMODE(path.stat().st_mode) for path in cell.rglob("*.json")} == {0o600}
    assert {stat.S_IMODE(path.stat().st_mode) for path in (cell, cell / "baseline", cell / "treatment")} == {0o700}
    assert {path.name for path in paired.ledger.iterdir()} == {content_hash(retail_driver.cell_identity(envelope))}


def test_the_same_request_again_is_answered_from_the_ledger(paired: Lab) -> None:
    envelope = paired.envelope()
    response = play(paired, envelope)
    before = files_of(paired.ledger)
    assert play(paired, envelope) == response
    with PairSession(paired.execution_scope(envelope), durable=True) as session:
        assert session.run(envelope) == session.run(envelope) == response
    assert files_of(paired.ledger) == before
    assert paired.calls() == {"arm baseline": 1, "arm treatment": 1}


def test_a_session_plays_many_pairs_with_one_scope(paired: Lab) -> None:
    envelopes = [paired.envelope(task_id) for task_id in paired.rows]
    with PairSession(paired.execution_scope(*envelopes), durable=False) as session:
        responses = [session.run(envelope) for envelope in envelopes]
    assert [response["receipt"]["checkpoint_id"] for response in responses] == ["0", "1", "2"]
    assert paired.calls() == {"arm baseline": 3, "arm treatment": 3}


def test_a_failing_treatment_is_kept_and_the_baseline_is_scored(paired: Lab) -> None:
    envelope = paired.envelope(behaviour={"treatment": "boom"})
    with pytest.raises(
        RetailAttemptUnavailable, match="Retail arm failure retained; both arms have dispositions, no retry"
    ):
        play(paired, envelope)
    assert outcome(paired, envelope, "baseline")["status"] == "scored_terminal"
    failed = outcome(paired, envelope, "treatment")
    assert failed["exception_sha256"] == "81f52337ebb4cb1669bb802c708807dde0519d15cb102a6313d26ad5cd821713"
    assert (failed["exception_type"], failed["retry_permitted"], failed["paper_endpoint"]) == (
        "ValueError",
        False,
        None,
    )
    terminal = json.loads((paired.cell(envelope) / "terminal.json").read_bytes())
    assert (terminal["failed_roles"], terminal["response_sha256"]) == (["treatment"], None)
    assert not (paired.cell(envelope) / "response.json").exists()
    with pytest.raises(
        RetailAttemptUnavailable, match="Retail failed attempt is retained and terminal; automatic retry is forbidden"
    ):
        play(paired, envelope)
    assert paired.calls() == {"arm baseline": 1, "arm treatment": 1}


def test_a_failing_baseline_does_not_spare_the_treatment(paired: Lab) -> None:
    envelope = paired.envelope(behaviour={"baseline": "boom"})
    with pytest.raises(RetailAttemptUnavailable):
        play(paired, envelope)
    assert outcome(paired, envelope, "treatment")["status"] == "scored_terminal"


def test_an_arm_over_its_cap_leaves_its_trace_and_is_not_scored(paired: Lab) -> None:
    envelope = paired.envelope(behaviour={"treatment": "overuse"})
    with pytest.raises(RetailAttemptUnavailable):
        play(paired, envelope)
    assert (paired.cell(envelope) / "treatment" / "trace.json").exists()
    assert outcome(paired, envelope, "treatment")["status"] == "failed_unscored"


def test_calls_of_the_intervention_count_against_the_cap_of_its_arm(paired: Lab) -> None:
    envelope = paired.envelope(treatment={"usage": {"model_calls": 8}})
    with pytest.raises(RetailAttemptUnavailable):
        play(paired, envelope)
    assert outcome(paired, envelope, "treatment")["status"] == "failed_unscored"
    assert outcome(paired, envelope, "baseline")["status"] == "scored_terminal"


@pytest.mark.parametrize(
    ("act", "message"),
    [
        ("other query", "Payload materialized_state differs from output_state_hash"),
        ("wider cap", "Payload materialized_state differs from output_state_hash"),
        ("cap as float", "Payload materialized_state differs from output_state_hash"),
        ("NaN for null", "Payload materialized_state is not a JSON value"),
        ("no usage", "Payload usage must be an object"),
        ("less usage", "Usage model_calls must be a non-negative integer, got int"),
        ("failed", "Payload of a failed intervention must say its failure"),
    ],
)
def test_an_arena_that_changes_its_payload_spoils_nothing_but_its_own_arm(paired: Lab, act: str, message: str) -> None:
    envelope = paired.envelope(behaviour={"treatment": act})
    as_given = json.dumps(envelope, sort_keys=True)
    with pytest.raises(RetailAttemptUnavailable):
        play(paired, json.loads(as_given))
    assert outcome(paired, envelope, "treatment")["exception_sha256"] == hashlib.sha256(message.encode()).hexdigest()
    assert outcome(paired, envelope, "baseline")["status"] == "scored_terminal"
    kept = json.loads((paired.cell(envelope) / "request.json").read_bytes())
    assert json.dumps(kept, sort_keys=True) == as_given
    assert verify_cell(paired.cell(envelope)).first_problem == ""


def test_arms_of_one_runtime_are_refused(paired: Lab) -> None:
    envelope = paired.envelope(behaviour={"baseline": "same runtime", "treatment": "same runtime"})
    with pytest.raises(RetailAttemptUnavailable):
        play(paired, envelope)
    message = b"Retail paired arms reused one native runtime"
    assert outcome(paired, envelope, "treatment")["exception_sha256"] == hashlib.sha256(message).hexdigest()


def test_arms_with_different_metrics_cannot_be_compared(paired: Lab) -> None:
    envelope = paired.envelope(behaviour={"metrics": {"treatment": {"bonus": 1.0}}})
    with pytest.raises(RetailAttemptUnavailable):
        play(paired, envelope)
    assert outcome(paired, envelope, "treatment")["status"] == "failed_unscored"


def test_equal_trajectories_have_equal_normalised_hashes_in_two_ledgers(paired: Lab) -> None:
    envelope = paired.envelope()
    hashes = []
    for name in ("ledger", "second"):
        root = paired.folder / name
        root.mkdir(mode=0o700, exist_ok=True)
        play(paired, envelope, output_root=str(root))
        outcomes = [
            json.loads((root / retail_driver.cell_id(envelope) / role / "arm-outcome.json").read_bytes())
            for role in ("baseline", "treatment")
        ]
        hashes.append([row["normalized_trace_hash"] for row in outcomes])
        assert outcomes[0]["runtime_nonce"] != outcomes[1]["runtime_nonce"]
    assert hashes[0] == hashes[1]


# --- the cell -----------------------------------------------------------------------------------------------


def test_a_changed_payload_conflicts_with_the_attempt_that_was_made(paired: Lab) -> None:
    envelope = paired.envelope()
    play(paired, envelope)
    other = paired.envelope(treatment={"duration_ms": 99})
    assert retail_driver.cell_id(other) == retail_driver.cell_id(envelope)
    with pytest.raises(
        OfficialArenaError, match="Retail existing logical cell has a different full request or scope"
    ) as caught:
        play(paired, other)
    assert type(caught.value) is OfficialArenaError


def test_another_scope_does_not_take_over_an_attempt(paired: Lab) -> None:
    envelope = paired.envelope()
    play(paired, envelope)
    with pytest.raises(OfficialArenaError, match="Retail existing logical cell has a different full request or scope"):
        play(paired, envelope, phase="formal")


@pytest.mark.parametrize(
    "change",
    [
        {"treatment": {"arm_parameters": {"k": 1}}},
        {"treatment": {"release_id": "other"}},
        {"treatment": {"profile_kind": "official_native"}},
        {"treatment": {"arm_id": "other"}},
        {"row": {"locked_dependency_hashes": {"official_runtime": "1" * 64, "more": "2" * 64}}},
    ],
)
def test_what_defines_a_trial_names_another_cell(paired: Lab, change: dict[str, Any]) -> None:
    assert retail_driver.cell_id(paired.envelope(**change)) != retail_driver.cell_id(paired.envelope())


def test_another_budget_is_another_cell(paired: Lab) -> None:
    envelope = paired.envelope()
    state = envelope["atomic_request"]["arms"][1]["payload"]["intervention_execution"]["materialized_state"]
    other = {**state, "budget": {**state["budget"], "max_model_calls": 1}}
    assert retail_driver.cell_id(paired.envelope(treatment={"state": other})) != retail_driver.cell_id(envelope)


@pytest.mark.parametrize("left", [[], ["pair-start.json"], ["pair-start.json", "request.json"]])
def test_a_slot_that_was_taken_and_not_ended_is_never_played(paired: Lab, left: list[str]) -> None:
    envelope = paired.envelope()
    play(paired, envelope)
    cell = paired.cell(envelope)
    kept = {name: (cell / name).read_bytes() for name in left}
    cell.rename(paired.folder / "aside")
    cell.mkdir(mode=0o700)
    for name, data in kept.items():
        write(cell / name, data)
    calls = paired.calls()
    with pytest.raises(RetailAttemptUnavailable, match="live or interrupted; automatic retry is forbidden"):
        play(paired, envelope)
    assert paired.calls() == calls


def test_nothing_of_the_evidence_can_be_changed_added_or_removed(paired: Lab) -> None:
    envelope = paired.envelope(behaviour={"files": True})
    response = play(paired, envelope)
    cell = paired.cell(envelope)
    differs = "Retail terminal or raw trajectory evidence differs"
    for path in sorted(cell.rglob("*.json")):
        data = path.read_bytes()
        for other in (data[:-2] + b" }\n", data + b"\n", None):
            path.unlink()
            if other is not None:
                write(path, other)
            with pytest.raises(OfficialArenaError) as caught:
                play(paired, envelope)
            if path.name == "terminal.json" and other is None:
                assert isinstance(caught.value, RetailAttemptUnavailable)
            elif path.name != "pair-start.json":
                assert str(caught.value) == differs, path
            write(path, data)
    added = cell / "treatment" / "notes.txt"
    write(added, b"x")
    with pytest.raises(OfficialArenaError, match=differs):
        play(paired, envelope)
    added.unlink()
    added.symlink_to(cell / "request.json")
    with pytest.raises(OfficialArenaError, match="Retail attempt contains a symlink"):
        play(paired, envelope)
    added.unlink()
    assert play(paired, envelope) == response


@pytest.mark.parametrize("kind", ["file", "link"])
def test_something_else_in_place_of_a_cell_is_refused(paired: Lab, kind: str) -> None:
    envelope = paired.envelope()
    play(paired, envelope)
    cell = paired.cell(envelope)
    aside = paired.folder / "aside"
    cell.rename(aside)
    if kind == "file":
        write(cell, b"{}")
    else:
        cell.symlink_to(aside)
    with pytest.raises(OfficialArenaError, match="Retail logical attempt directory is invalid"):
        play(paired, envelope)


# --- requests -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda _: {}, "Retail atomic envelope fields differ"),
        (lambda _: [], "Retail atomic envelope fields differ"),
        (lambda e: {**e, "extra": 1}, "Retail atomic envelope fields differ"),
        (lambda e: resealed({**e, "schema_version": True}), "Retail atomic envelope protocol differs"),
        (lambda e: resealed({**e, "protocol": "x"}), "Retail atomic envelope protocol differs"),
        (lambda e: {**e, "request_hash": "0" * 64}, "Retail full request hash differs"),
        (lambda e: {**e, "atomic_request": float("nan")}, "Retail full request hash differs"),
    ],
)
def test_an_envelope_is_checked_before_anything_else(paired: Lab, change: Any, message: str) -> None:
    envelope = paired.envelope()
    assert refusal(paired, change(envelope), paired.execution_scope(envelope)) == message


@pytest.mark.parametrize(
    ("part", "change"),
    [
        ("atomic_request", {"seed": 18}),
        ("atomic_request", {"seed": 17.0}),
        ("atomic_request", {"benchmark_id": "tau3.retail"}),
        ("atomic_request", {"source_revision": "e" * 40}),
        ("worker_parameters", {"provider_entrypoint": "os:system"}),
        ("worker_parameters", {"provider_entrypoint": "workers.official_arenas.providers.fixture:factory"}),
    ],
)
def test_another_seed_domain_source_or_provider_cannot_be_run(paired: Lab, part: str, change: dict[str, Any]) -> None:
    envelope = paired.envelope()
    environment = paired.execution_scope(envelope)
    other = resealed({**envelope, part: {**envelope[part], **change}})
    assert refusal(paired, other, environment) == "Retail cannot run another provider, domain, source or seed"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": 18}, "Payload seed differs from the request"),
        ({"arm_id": "x"}, "Payload arm_id differs from its arm"),
        ({"checkpoint_identity_hash": "0" * 64}, "Payload checkpoint_identity_hash differs from the request"),
        ({"model_slot": "other"}, "Payload model_slot differs from the captured checkpoint"),
    ],
)
def test_payloads_are_bound_to_arm_seed_checkpoint_and_slot(paired: Lab, change: Any, message: str) -> None:
    envelope = paired.envelope()
    arm = envelope["atomic_request"]["arms"][1]
    arm["payload"] = {**arm["payload"], **change}
    assert refusal(paired, resealed(envelope), paired.execution_scope(paired.envelope())) == message


def test_a_payload_made_from_another_visible_state_is_refused(paired: Lab) -> None:
    other = paired.envelope("1")["atomic_request"]["arms"][1]["payload"]
    envelope = paired.envelope()
    payload = envelope["atomic_request"]["arms"][1]["payload"]
    names = ("visible_state_hash", "intervention_execution")
    payload.update({name: other[name] for name in names})
    message = "Payload visible_state_hash differs from the captured checkpoint"
    assert refusal(paired, resealed(envelope), paired.execution_scope(paired.envelope())) == message


def test_an_origin_that_was_not_captured_is_refused(paired: Lab) -> None:
    envelope = paired.envelope()
    row = {**paired.rows["0"], "checkpoint_id": "7"}
    paired.rows["7"] = row
    message = "Retail protected replay identity differs"
    assert refusal(paired, paired.envelope("7"), paired.execution_scope(envelope)) == message


def test_a_preflight_that_does_not_pass_takes_no_slot(paired: Lab) -> None:
    envelope = paired.envelope(behaviour={"blockers": ["x"]})
    assert refusal(paired, envelope, paired.execution_scope(envelope)) == "Retail native preflight did not pass"


def test_another_scorer_than_the_lock_is_refused(paired: Lab) -> None:
    envelope = paired.envelope()
    envelope["worker_parameters"]["scorer_id"] = "other"
    message = "Retail provider identity differs from the worker lock"
    assert refusal(paired, resealed(envelope), paired.execution_scope(envelope)) == message


# --- scopes -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"schema_version": True}, "Retail execution scope is not enabled or valid"),
        ({"execution_enabled": "true"}, "Retail execution scope is not enabled or valid"),
        ({"phase": "train"}, "Retail execution scope is not enabled or valid"),
        ({"source_revision": "0" * 40}, "Retail execution scope is not enabled or valid"),
        ({"extra": 1}, "Retail execution scope differs"),
        ({"authorizations": {}}, "Retail human choice references are incomplete"),
        (
            {"authorizations": AUTHORIZATIONS | {"environment_models": REFERENCE | {"x": 1}}},
            "Retail human choice reference is invalid",
        ),
        *(
            ({name: "0" * 64}, "Retail worker source closure differs")
            for name in (
                "provider_source_sha256",
                "worker_support_sha256",
                "worker_source_sha256",
                "protocol_source_sha256",
                "provider_helper_sha256",
            )
        ),
        ({"provider_config_sha256": "0" * 64}, "Retail frozen provider config differs"),
        ({"allowed_cell_ids": []}, "Retail frozen cell inventory is invalid"),
        ({"allowed_cell_ids": ["A" * 64]}, "Retail frozen cell inventory is invalid"),
        ({"allowed_cell_ids": ["a" * 64, "a" * 64]}, "Retail frozen cell inventory is invalid"),
        ({"allowed_cell_ids": [["a"]]}, "Retail frozen cell inventory is invalid"),
        ({"allowed_cell_ids": ["a" * 64]}, "Retail cell is outside its approved frozen inventory"),
        ({"output_root": "relative"}, "Retail ledger root must be an existing owned private directory"),
        ({"output_root": "/proc/self/.."}, "Retail ledger root must be an existing owned private directory"),
    ],
)
def test_each_wrong_field_of_an_execution_scope_is_refused(paired: Lab, changes: Any, message: str) -> None:
    envelope = paired.envelope()
    assert refusal(paired, envelope, paired.execution_scope(envelope, **changes)) == message


def test_a_cell_outside_the_scope_is_refused_before_the_provider_is_checked(paired: Lab) -> None:
    envelope = paired.envelope(behaviour={"blockers": ["x"]})
    environment = paired.execution_scope(envelope, allowed_cell_ids=["a" * 64])
    assert refusal(paired, envelope, environment) == "Retail cell is outside its approved frozen inventory"


@pytest.mark.parametrize("checksum", ["", "A" * 64, "0" * 63])
def test_without_a_bound_scope_nothing_runs(paired: Lab, checksum: str) -> None:
    envelope = paired.envelope()
    environment = paired.execution_scope(envelope) | {retail_driver.SCOPE_SHA256_ENV: checksum}
    message = "Retail requires an explicitly bound execution scope"
    assert refusal(paired, envelope, environment) == message
    assert refusal(paired, envelope, {**environment, retail_driver.SCOPE_PATH_ENV: ""}) == message


def test_a_scope_that_is_a_link_or_has_other_bytes_is_refused(paired: Lab) -> None:
    envelope = paired.envelope()
    environment = paired.execution_scope(envelope)
    path = Path(environment[retail_driver.SCOPE_PATH_ENV])
    real = path.with_name("real.json")
    path.rename(real)
    path.symlink_to(real)
    assert refusal(paired, envelope, environment) == "Retail execution scope differs"
    path.unlink()
    path.write_bytes(real.read_bytes() + b" ")
    assert refusal(paired, envelope, environment) == "Retail execution scope differs"


def test_source_hashes_are_those_of_the_files(paired: Lab) -> None:
    import workers.official_arenas as package

    folder = Path(package.__file__).parent
    hashes = execution_source_hashes(CountingArena(), ENTRYPOINT)
    assert hashes["worker_source_sha256"] == sha256_file(folder / "retail_driver.py")
    assert hashes["worker_support_sha256"] == sha256_file(folder / "driver.py")
    assert hashes["protocol_source_sha256"] == sha256_file(folder / "protocol.py")
    assert hashes["provider_source_sha256"] == sha256_file(Path(CountingArena().source_files()["counting_arena.py"]))


# --- small pieces -------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers())))
def test_a_key_that_comes_twice_is_refused(pairs: list[tuple[str, int]]) -> None:
    names = [name for name, _ in pairs]
    if len(set(names)) == len(names):
        assert retail_driver._reject_duplicate_keys(pairs) == dict(pairs)
    else:
        with pytest.raises(OfficialArenaError, match="Retail JSON has duplicate fields"):
            retail_driver._reject_duplicate_keys(pairs)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b'{"a": 1, "a": 2}', "Retail JSON has duplicate fields"),
        (b'{"x": {"a": 1, "a": 2}}', "Retail JSON has duplicate fields"),
        (b'{"a": NaN}', "Retail bound file is invalid JSON"),
        (b'{"a": 1e999}', "Retail bound file is invalid JSON"),
        (b'{"a": 1} x', "Retail bound file is invalid JSON"),
        (b'{"a": "\xff"}', "Retail bound file is invalid JSON"),
        (b'{"a": "\\ud800"}', "Retail bound file is invalid JSON"),
        (b"[" * 100_000, "Retail bound file is invalid JSON"),
        (b'{"a":' * 5_000 + b"1" + b"}" * 5_000, "Retail bound file is invalid JSON"),
        (b"9" * 10_000, "Retail bound file is invalid JSON"),
        (b"[1]", "Retail bound file must be an object"),
        (b"", "Retail bound file is invalid JSON"),
    ],
)
def test_a_bound_file_that_two_readers_could_read_differently_is_refused(
    tmp_path: Path, data: bytes, message: str
) -> None:
    write(tmp_path / "x.json", data)
    with pytest.raises(OfficialArenaError, match=message):
        retail_driver._read(tmp_path / "x.json")


def test_a_bound_file_that_is_no_file_is_refused(tmp_path: Path) -> None:
    import os

    write(tmp_path / "real.json", {"a": 1})
    (tmp_path / "link.json").symlink_to(tmp_path / "real.json")
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "folder.json").mkdir()
    assert retail_driver._read(tmp_path / "real.json") == {"a": 1}
    for name in ("link.json", "pipe.json", "folder.json", "absent.json", "bad\0name"):
        with pytest.raises(OfficialArenaError, match="Retail bound file is absent or symlinked"):
            retail_driver._read(tmp_path / name)


def test_a_sealed_value_carries_the_hash_of_the_rest() -> None:
    assert retail_driver._sealed({"a": 1}) == {"a": 1, "receipt_sha256": content_hash({"a": 1})}


def test_what_an_arena_prints_reaches_no_console(
    paired: Lab, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    import io
    import sys

    envelope = paired.envelope(behaviour={"baseline": "print"})
    for name, value in paired.execution_scope(envelope).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(json.dumps(envelope).encode())))
    assert retail_driver.main([]) == 0
    out, err = capfd.readouterr()
    assert SECRET not in out + err
    assert json.loads(out)["arms"][0]["role"] == "baseline"
