"""The two worker commands as an operator starts them: what they print, and that they print nothing else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from counting_arena import SECRET
from ledger_lab import AUTHORIZATIONS, ENTRYPOINT, Lab, write

from workers.official_arenas import retail_capture, retail_driver
from workers.official_arenas._drafts import arena_entrypoint, draft_config, write_draft
from workers.official_arenas.protocol import OfficialArenaError
from workers.official_arenas.providers.fixture import FixtureProvider

DRIVER_MESSAGE = "Retail rejected or retained an unscored attempt; inspect owned ledger"
CAPTURE_MESSAGE = "Retail capture rejected; inspect owned receipts"


def command(module: Any, *arguments: object, stdin: bytes = b"", env: dict[str, str], as_file: bool = False) -> Any:
    start = [module.__file__] if as_file else ["-m", module.__name__]
    done = subprocess.run(
        [sys.executable, *start, *map(str, arguments)],
        input=stdin,
        capture_output=True,
        env={**os.environ, **env},
        check=False,
    )
    assert SECRET.encode() not in done.stdout + done.stderr
    return done.returncode, done.stdout.decode(), done.stderr.decode()


@pytest.fixture
def env(plugin_path: str) -> dict[str, str]:
    return {"PYTHONPATH": plugin_path}


@pytest.mark.parametrize("as_file", [True, False])
def test_the_driver_says_what_it_is_without_scope_or_arena(env: dict[str, str], as_file: bool) -> None:
    code, out, err = command(retail_driver, "--doctor", env=env, as_file=as_file)
    assert (code, err) == (0, "")
    assert json.loads(out) == {
        "protocol": "agentinputlab.official-arena-worker.v1",
        "worker_available": True,
        "scientific_ready": False,
        "requires_bound_execution_scope": True,
    }


@pytest.mark.parametrize(
    "stdin", [b"{}", b'{"a":1,"a":2}', b"", b"[]", b"\xff", b"[" * 10_000, b'{"a": NaN}', b"{} {}"]
)
def test_a_bad_request_gets_one_fixed_line(env: dict[str, str], stdin: bytes) -> None:
    code, out, err = command(retail_driver, stdin=stdin, env=env)
    assert (code, out) == (2, "")
    assert json.loads(err) == {"error": "OfficialArenaError", "message": DRIVER_MESSAGE}


@pytest.mark.parametrize("as_file", [True, False])
def test_a_bad_capture_gets_one_fixed_line(env: dict[str, str], as_file: bool) -> None:
    code, out, err = command(retail_capture, "--scope", "missing", "--scope-sha256", "x", env=env, as_file=as_file)
    assert (code, out) == (2, "")
    assert json.loads(err) == {"error": "OfficialArenaError", "message": CAPTURE_MESSAGE}


def test_both_options_of_a_capture_are_required(env: dict[str, str]) -> None:
    for arguments in ((), ("--scope", "x"), ("--scope-sha256", "x"), ("--draft-scope", "x")):
        assert command(retail_capture, *arguments, env=env)[0] == 2


def test_a_capture_prints_where_its_snapshot_is_and_nothing_of_the_user(lab: Lab, env: dict[str, str]) -> None:
    lab.behaviour["fail"] = ["1"]
    path, checksum = lab.capture_scope()
    code, out, err = command(retail_capture, "--scope", path, "--scope-sha256", checksum, env=env)
    assert (code, err) == (0, "")
    answer = json.loads(out)
    snapshot = Path(answer.pop("snapshot"))
    assert snapshot.parent == lab.captures
    assert answer == {"expected": 3, "captured": 2, "all_tasks_terminal": True, "formal_inference_started": False}


def test_a_pair_is_answered_on_stdout_once_and_again(paired: Lab, env: dict[str, str]) -> None:
    envelope = paired.envelope(behaviour={"baseline": "print"})
    environment = env | paired.execution_scope(envelope)
    first = command(retail_driver, stdin=json.dumps(envelope).encode(), env=environment)
    assert (first[0], first[2]) == (0, "")
    assert first[1] == json.dumps(json.loads(first[1]), sort_keys=True, ensure_ascii=False) + "\n"
    assert command(retail_driver, stdin=json.dumps(envelope).encode(), env=environment) == first
    assert paired.calls() == {"arm baseline": 1, "arm treatment": 1}


def test_the_reason_of_a_refusal_is_told_to_the_owner_only(paired: Lab, env: dict[str, str]) -> None:
    envelope = paired.envelope()
    environment = env | paired.execution_scope(envelope, allowed_cell_ids=["a" * 64])
    code, _, err = command(retail_driver, "--explain", stdin=json.dumps(envelope).encode(), env=environment)
    note = paired.ledger / "rejection.json"
    assert (code, json.loads(err)) == (
        2,
        {"error": "OfficialArenaError", "message": DRIVER_MESSAGE, "explained_in": str(note)},
    )
    assert note.stat().st_mode & 0o777 == 0o600
    assert json.loads(note.read_bytes())["check"] == "Retail cell is outside its approved frozen inventory"
    paired.ledger.chmod(0o755)  # no place for a note: the folder of the scope is the next one
    code, _, err = command(retail_driver, "--explain", stdin=json.dumps(envelope).encode(), env=environment)
    beside = paired.folder / "rejection.json"
    assert json.loads(err)["explained_in"] == str(beside)
    paired.folder.chmod(0o755)
    code, _, err = command(retail_driver, "--explain", stdin=json.dumps(envelope).encode(), env=environment)
    assert (code, json.loads(err)["explained_in"]) == (2, None)


def test_the_reason_of_a_refused_capture_is_told_to_the_owner_only(lab: Lab, env: dict[str, str]) -> None:
    path, checksum = lab.capture_scope(model_slot="")
    arguments = ("--scope", path, "--scope-sha256", checksum, "--explain")
    code, _, err = command(retail_capture, *arguments, env=env)
    assert (code, json.loads(err)["explained_in"]) == (2, str(lab.captures / "rejection.json"))
    assert json.loads((lab.captures / "rejection.json").read_bytes())["check"] == "Retail capture model slot is absent"
    lab.capture()
    from ripieno.verify import VerifyStatus, verify

    assert verify(lab.captures).status is VerifyStatus.COMPLETE


def test_a_drafted_capture_scope_becomes_valid_only_by_a_human(lab: Lab, env: dict[str, str]) -> None:
    write(lab.folder / "config.json", lab.config)
    draft = lab.folder / "draft.json"
    arguments = ("--draft-scope", draft, "--provider", "counting.retail", "--config", lab.folder / "config.json")
    more = ("--split", "train", "--limit", 3, "--model-slot", "slot-a", "--root", lab.captures)
    code, out, err = command(retail_capture, *arguments, *more, env=env)
    assert (code, err) == (0, "")
    assert json.loads(out)["execution_enabled"] is False
    scope = json.loads(draft.read_bytes())
    with pytest.raises(OfficialArenaError, match="Retail capture scope is not enabled or valid"):
        retail_capture.run(draft, json.loads(out)["sha256"])
    scope["execution_enabled"] = True
    with pytest.raises(OfficialArenaError, match="Retail human choice reference is invalid"):
        retail_capture.run(draft, write(draft, scope))
    scope["authorizations"] = AUTHORIZATIONS
    assert retail_capture.run(draft, write(draft, scope), durable=False)["disposition"]["all_tasks_terminal"]
    assert command(retail_capture, *arguments, *more, env=env)[0] == 2  # a draft never replaces a file


def test_a_drafted_execution_scope_allows_exactly_its_requests(paired: Lab, env: dict[str, str]) -> None:
    envelopes = [paired.envelope(task_id) for task_id in ("0", "1")]
    paths = [paired.folder / f"request-{index}.json" for index in range(2)]
    for path, envelope in zip(paths, envelopes, strict=True):
        write(path, envelope)
    draft = paired.folder / "draft.json"
    code, out, _ = command(retail_driver, "--draft-scope", draft, "--root", paired.ledger, "--request", *paths, env=env)
    assert (code, json.loads(out)["left_to_a_human"]) == (0, ["authorizations", "execution_enabled"])
    scope = json.loads(draft.read_bytes())
    assert scope["allowed_cell_ids"] == [retail_driver.cell_id(envelope) for envelope in envelopes]
    assert scope["execution_enabled"] is False
    checksum = write(draft, {**scope, "execution_enabled": True, "authorizations": AUTHORIZATIONS})
    environment = paired.environment(draft, checksum)
    assert retail_driver.run(envelopes[1], environment=environment, durable=False)["arms"]


def test_a_ledger_is_checked_on_the_command_line(paired: Lab, env: dict[str, str]) -> None:
    envelope = paired.envelope()
    retail_driver.run(envelope, environment=paired.execution_scope(envelope), durable=False)
    code, out, _ = command(retail_driver, "--verify", paired.cell(envelope), env=env)
    assert (code, json.loads(out)["status"]) == (0, "complete")
    (paired.cell(envelope) / "response.json").unlink()
    code, out, _ = command(retail_driver, "--verify", paired.cell(envelope), env=env)
    assert (code, json.loads(out)["first_problem"]) == (1, "response.json: is missing")


def test_arenas_have_short_names_and_some_a_default_config() -> None:
    assert arena_entrypoint("embedded") == "workers.official_arenas.providers.embedded_retail:factory"
    assert arena_entrypoint("tau2") == "workers.official_arenas.providers.tau_retail:factory"
    assert arena_entrypoint(ENTRYPOINT) == ENTRYPOINT
    assert draft_config(FixtureProvider(), None, split="train", limit=2)["limit"] == 2
    with pytest.raises(OfficialArenaError, match="Unknown arena"):
        arena_entrypoint("nowhere")


def test_an_arena_without_a_default_config_asks_for_one(lab: Lab) -> None:
    from counting_arena import CountingArena

    with pytest.raises(OfficialArenaError, match="give one with --config"):
        draft_config(CountingArena(), None, split="train", limit=1)
    with pytest.raises(OfficialArenaError, match="absent or symlinked"):
        draft_config(CountingArena(), lab.folder / "absent.json", split="train", limit=1)
    with pytest.raises(OfficialArenaError, match="Draft could not be written"):
        write_draft(lab.folder / "absent" / "draft.json", {})
