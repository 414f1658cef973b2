"""The attack list: what can be done to a finished run, one test per attack.

The first part is everything that ends in a refusal by itself. The second part is for an attacker who knows the
format and computes every hash again: only a pinned digest or a signature stops that one.
"""

import hashlib
import json
import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from _runs import files_of, read_manifest_json, reseal_manifest, rewrite_everything, write_small_run

from ripieno._layout import CLOSING_MEMBERS, FINAL_MEMBERS
from ripieno.canonical import canonical_json
from ripieno.receipts import seal
from ripieno.signing import Algorithm, key_id, load_public_key, write_key_pair
from ripieno.verify import SignatureState, VerifyReport, VerifyStatus, sign_run, verify


@pytest.fixture
def key(tmp_path: Path) -> Path:
    write_key_pair(tmp_path / "key")
    return tmp_path / "key"


@pytest.fixture
def public_key(key: Path) -> Path:
    return key.with_name("key.pub")


@pytest.fixture
def signed_run(small_run: Path, key: Path) -> Path:
    sign_run(small_run, key)
    return small_run


def refused(folder: Path, *, naming: str = "", **options) -> VerifyReport:
    report = verify(folder, **options)
    assert report.status is VerifyStatus.TAMPERED
    assert not report.ok
    assert report.first_problem
    assert naming in report.first_problem
    return report


def accepted(folder: Path, status: VerifyStatus = VerifyStatus.COMPLETE, **options) -> VerifyReport:
    report = verify(folder, **options)
    assert (report.status, report.first_problem) == (status, "")
    assert all(check.ok for check in report.checks)
    return report


def test_the_untouched_run_is_accepted_and_small(signed_run: Path, public_key: Path) -> None:
    digest = accepted(signed_run).digest
    accepted(signed_run, public_key=public_key, expect=digest)
    assert sum(path.stat().st_size for path in files_of(signed_run)) < 30_000


# --- every byte ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "mask", [0x01, pytest.param(0x20, marks=pytest.mark.slow), pytest.param(0x80, marks=pytest.mark.slow)]
)
def test_flip_every_single_byte_of_every_file(mask: int, signed_run: Path, public_key: Path) -> None:
    n_flips = 0
    for path in files_of(signed_run):
        data = path.read_bytes()
        with path.open("r+b", buffering=0) as stream:
            for place, byte in enumerate(data):
                os.pwrite(stream.fileno(), bytes([byte ^ mask]), place)
                with_key = verify(signed_run, public_key=public_key)
                assert with_key.status is VerifyStatus.TAMPERED, (path.name, place)
                assert path.name in with_key.first_problem, (path.name, place, with_key.first_problem)
                assert not verify(signed_run).ok, (path.name, place)
                os.pwrite(stream.fileno(), bytes([byte]), place)
                n_flips += 1
    accepted(signed_run, public_key=public_key)
    assert n_flips == sum(path.stat().st_size for path in files_of(signed_run))


# --- whole files --------------------------------------------------------------------------------------------

FILES = ["run.json", "events.jsonl", "signature.json", "table.csv", "figures/curve.svg"]
EVERY_FILE = pytest.mark.parametrize("name", FILES)


def test_the_list_of_files_in_this_file_is_whole(signed_run: Path) -> None:
    assert sorted(FILES) == [path.relative_to(signed_run).as_posix() for path in files_of(signed_run)]


@EVERY_FILE
def test_delete_a_file(name: str, signed_run: Path, public_key: Path) -> None:
    (signed_run / name).unlink()
    if name == "signature.json":  # an unsigned run is no damage; whoever trusts a key asks for it
        accepted(signed_run)
        refused(signed_run, public_key=public_key, naming="a signature by key")
    else:
        refused(signed_run, naming=Path(name).name)


@EVERY_FILE
def test_truncate_a_file_at_every_length(name: str, signed_run: Path) -> None:
    data = (signed_run / name).read_bytes()
    for length in range(len(data)):
        (signed_run / name).write_bytes(data[:length])
        report = refused(signed_run, naming=name)
    assert "bytes long, recorded are" in report.first_problem or name.endswith((".json", ".jsonl"))


@EVERY_FILE
@pytest.mark.parametrize("tail", [b"\n", b" ", b"\0", b"x", b"{}\n"])
def test_append_to_a_file(name: str, tail: bytes, signed_run: Path) -> None:
    with (signed_run / name).open("ab") as stream:
        stream.write(tail)
    refused(signed_run, naming=name)


@pytest.mark.parametrize("other", FILES)
@EVERY_FILE
def test_swap_two_files(name: str, other: str, signed_run: Path) -> None:
    a, b = (signed_run / name).read_bytes(), (signed_run / other).read_bytes()
    (signed_run / name).write_bytes(b)
    (signed_run / other).write_bytes(a)
    if name == other:
        accepted(signed_run)
    else:
        refused(signed_run)


@EVERY_FILE
def test_rename_a_file(name: str, signed_run: Path, public_key: Path) -> None:
    (signed_run / name).rename(signed_run / "renamed")
    refused(signed_run, public_key=public_key)
    refused(signed_run)


@EVERY_FILE
@pytest.mark.parametrize("kind", ["link to a copy", "dangling link", "folder", "pipe", "socket"])
def test_replace_a_file_by_something_else(
    kind: str, name: str, signed_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = signed_run / name
    copy = shutil.copy(path, tmp_path / "copy")
    path.unlink()
    if kind == "link to a copy":
        path.symlink_to(copy)
    elif kind == "dangling link":
        path.symlink_to("nowhere")
    elif kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)  # opening it for reading would wait for ever
    else:
        monkeypatch.chdir(path.parent)  # the path of a socket must be short
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(path.name)
    refused(signed_run, naming=Path(name).name)


def test_change_an_artifact_but_not_its_length(signed_run: Path) -> None:
    (signed_run / "table.csv").write_bytes(b"a,b\n1,3\n")
    refused(signed_run, naming="table.csv: changed; its SHA-256 is ")


def test_an_endless_manifest_is_not_read(signed_run: Path) -> None:
    os.truncate(signed_run / "run.json", 2**40)
    refused(signed_run, naming="run.json is longer than")


def test_replace_a_folder_by_a_link_to_a_copy(signed_run: Path, tmp_path: Path) -> None:
    shutil.copytree(signed_run / "figures", tmp_path / "copy")
    shutil.rmtree(signed_run / "figures")
    (signed_run / "figures").symlink_to(tmp_path / "copy")
    refused(signed_run, naming="figures")


@pytest.mark.parametrize(
    "name",
    ["added", ".hidden", ".partial-3", ".partial-run.json", ".run.json.0123456789abcdef.tmp", "figures/added",
     "Run.json", "events.jsonl.bak", "\x1b[31mred", os.fsdecode(b"\xff")],
)  # fmt: skip
def test_add_a_file(name: str, signed_run: Path) -> None:
    (signed_run / name).write_bytes(b"")
    refused(signed_run, naming=f"{name}: added")


@pytest.mark.parametrize("name", ["empty", ".git", "figures/empty"])
def test_add_an_empty_folder(name: str, signed_run: Path) -> None:
    (signed_run / name).mkdir()
    refused(signed_run, naming=f"{name}: added: a folder")


def test_add_a_loop_of_links(signed_run: Path) -> None:
    (signed_run / "loop").symlink_to(".")
    refused(signed_run, naming="loop: added: a link")


def test_add_a_very_deep_folder(signed_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(signed_run)
    for _ in range(60):
        os.mkdir("d" * 200)  # noqa: PTH102 - the whole path would be too long for the system
        os.chdir("d" * 200)
    refused(signed_run, naming="File name too long")


# --- the chain of events ------------------------------------------------------------------------------------


def edit_lines(folder: Path, edit: Callable[[list[bytes]], list[bytes]]) -> None:
    path = folder / "events.jsonl"
    path.write_bytes(b"".join(edit(path.read_bytes().splitlines(keepends=True))))


@pytest.mark.parametrize(
    ("attack", "line"),
    [
        (lambda x: [x[0], x[2], x[1], *x[3:]], 2),
        (lambda x: [*x[:2], *x[3:]], 3),
        (lambda x: [*x[:2], x[1], *x[2:]], 3),
        (lambda x: x[1:], 1),
        (lambda x: x[::-1], 1),
        (lambda x: [*x, x[-1]], 8),
    ],
    ids=["swap", "remove", "double", "behead", "reverse", "repeat the end"],
)
def test_reorder_lines(attack: Callable[[list[bytes]], list[bytes]], line: int, signed_run: Path) -> None:
    edit_lines(signed_run, attack)
    refused(signed_run, naming=f"events.jsonl line {line} (bytes ")


def test_cut_the_last_lines_off(signed_run: Path) -> None:
    for _ in range(6):
        edit_lines(signed_run, lambda x: x[:-1])
        refused(signed_run, naming="events.jsonl ends at byte")


def test_replace_the_whole_chain_by_that_of_another_run(signed_run: Path, tmp_path: Path) -> None:
    other = write_small_run(tmp_path / "other", rewards=(9.0, 9.0, 9.0))
    shutil.copy(other / "events.jsonl", signed_run / "events.jsonl")
    refused(signed_run, naming="events.jsonl line 1")


def test_replace_the_manifest_by_that_of_another_run(signed_run: Path, tmp_path: Path) -> None:
    other = write_small_run(tmp_path / "other")
    shutil.copy(other / "run.json", signed_run / "run.json")
    refused(signed_run, naming="events.jsonl line 1")


# --- the manifest -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "attack",
    [
        lambda data: json.dumps(json.loads(data), indent=2).encode() + b"\n",
        lambda data: b"\xef\xbb\xbf" + data,
        lambda data: data.replace(b"\n", b"\r\n"),
        lambda data: data.replace(b'"kind"', b'"kin\\u0064"'),
        lambda data: data.replace(b'{"artifacts"', b'{"kind":"other","artifacts"'),
        lambda data: b"[" * len(data),
        lambda data: data[:0],
        lambda data: data.replace(data, b"null\n"),
        lambda data: data.replace(data, b"{}\n"),
        lambda data: data[:-2] + b',"zzz":1}\n',
    ],
    ids=["indent", "byte order mark", "line ends", "escape", "double key", "nest", "empty", "null", "{}", "new key"],
)
def test_write_the_manifest_differently(attack: Callable[[bytes], bytes], signed_run: Path) -> None:
    path = signed_run / "run.json"
    path.write_bytes(attack(path.read_bytes()))
    refused(signed_run, naming="run.json")


@pytest.mark.parametrize(
    ("changes", "naming"),
    [
        ({"config": {"gain": 0.2, "steps": 3}}, "config_sha256"),
        ({"seeds": {"root": 8}}, "events.jsonl line 1"),
        ({"git": {"sha": "0" * 40, "dirty": False}}, "events.jsonl line 1"),
        ({"started_at": "2020-01-01T00:00:00+00:00"}, "events.jsonl line 1"),
        ({"status": "failed"}, "the closing record is not the one"),
        ({"summary": {"total_reward": 100}}, "the closing record is not the one"),
        ({"ended_at": "2020-01-01T00:00:00+00:00"}, "the closing record is not the one"),
        ({"artifacts": {}}, "the artifacts are not those"),
        ({"events": {"lines": 1, "head": "0" * 64, "size": 1}}, "events.jsonl is not the one"),
        ({"status": "running"}, "members missing or not known"),
        ({"status": "splendid"}, "status is 'splendid'"),
        ({"format": "ripieno.run/2"}, "format is 'ripieno.run/2'"),
        ({"inputs": []}, "inputs has the wrong type"),
        ({"extra": 1}, "members missing or not known: extra"),
    ],
)
def test_edit_the_manifest_and_compute_its_seal_again(changes: dict[str, object], naming: str, small_run: Path) -> None:
    reseal_manifest(small_run, changes)
    refused(small_run, naming=naming)


def test_edit_an_artifact_and_its_hash_in_the_manifest(small_run: Path) -> None:
    (small_run / "table.csv").write_bytes(b"a,b\n9,9\n")
    artifacts = read_manifest_json(small_run)["artifacts"]
    artifacts["table.csv"]["sha256"] = hashlib.sha256(b"a,b\n9,9\n").hexdigest()
    reseal_manifest(small_run, {"artifacts": artifacts})
    refused(small_run, naming="the artifacts are not those")


# --- records that point outside -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["../outside", "/etc/hostname", "figures/../table.csv", ".", "run.json", "a\\..\\b"])
def test_record_an_artifact_outside_the_folder(name: str, small_run: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").write_bytes(b"<svg/>\n")

    def point_outside(bodies, manifest) -> None:
        line = next(body for body in bodies if body.get("payload", {}).get("artifact") == "figures/curve.svg")
        line["payload"]["artifact"] = name

    rewrite_everything(small_run, point_outside)
    refused(small_run, naming="events.jsonl line 6: artifact name")


@pytest.mark.parametrize(
    "payload",
    [{}, {"event": "x"}, {"event": "x", "fields": []}, {"event": "x", "fields": {}, "more": 1}, {"opening": {}},
     {"artifact": "new", "size": "1", "sha256": ""}, {"artifact": [1], "size": 1, "sha256": ""},
     {"artifact": "table.csv", "size": 8, "sha256": "0" * 64}, {"artifact": "new", "size": True, "sha256": ""}],
)  # fmt: skip
def test_record_what_is_no_record(payload: dict[str, object], small_run: Path) -> None:
    def insert(bodies, manifest) -> None:
        bodies.insert(6, {"payload": payload})

    rewrite_everything(small_run, insert)
    refused(small_run, naming="events.jsonl line 7: not a record of a run")


# --- signatures ---------------------------------------------------------------------------------------------


def edit_signature(folder: Path, changes: dict[str, object]) -> None:
    path = folder / "signature.json"
    statement = {key: item for key, item in json.loads(path.read_bytes()).items() if key != "receipt_sha256"}
    path.write_bytes(canonical_json(seal(statement | changes)) + b"\n")


def test_copy_the_signature_of_another_run(signed_run: Path, key: Path, tmp_path: Path, public_key: Path) -> None:
    other = write_small_run(tmp_path / "other")
    sign_run(other, key)
    shutil.copy(other / "signature.json", signed_run / "signature.json")
    refused(signed_run, naming="signature.json: the signature is about")
    edit_signature(signed_run, {"digest": verify(signed_run).digest})
    refused(signed_run, public_key=public_key, naming="not by key")


def test_sign_with_another_key(small_run: Path, tmp_path: Path, public_key: Path) -> None:
    write_key_pair(tmp_path / "attacker")
    sign_run(small_run, tmp_path / "attacker")
    accepted(small_run, public_key=tmp_path / "attacker.pub")
    report = refused(small_run, public_key=public_key, naming="the trusted one is")
    assert report.signature is SignatureState.INVALID
    edit_signature(small_run, {"key_id": key_id(load_public_key(public_key))})
    refused(small_run, public_key=public_key, naming="not by key")


def test_sign_with_a_weaker_algorithm(small_run: Path, tmp_path: Path, public_key: Path) -> None:
    write_key_pair(tmp_path / "weak", Algorithm.ML_DSA_44)
    sign_run(small_run, tmp_path / "weak")
    refused(small_run, public_key=public_key, naming="ML-DSA-44")


@pytest.mark.parametrize(
    "changes",
    [
        {"algorithm": "none"},
        {"signature": ""},
        {"signature": "ZZ" * 3309},
        {"digest": 1},
        {"format": "x"},
        {"more": ""},
    ],
)
def test_malformed_signatures_are_found_without_a_key(changes: dict[str, object], signed_run: Path) -> None:
    edit_signature(signed_run, changes)
    refused(signed_run, naming="signature.json: malformed")


@pytest.mark.parametrize("data", [b"", b"\n", b"null\n", b"[]\n", b"{}\n", b"{}", b"\xff\n", b"[" * 60_000])
def test_a_signature_file_that_is_no_statement(data: bytes, signed_run: Path) -> None:
    (signed_run / "signature.json").write_bytes(data)
    refused(signed_run, naming="signature.json: malformed")


def test_an_endless_signature_file_is_not_read(signed_run: Path) -> None:
    os.truncate(signed_run / "signature.json", 2**40)
    refused(signed_run, naming="signature.json: malformed")


# --- the attacker who computes every hash again -------------------------------------------------------------


def improve_the_reward(bodies, manifest) -> None:
    bodies[3]["payload"]["fields"]["reward"] = 99.5
    bodies[-1]["closing"]["summary"]["total_reward"] = 101


def test_rewrite_everything_is_stopped_by_a_pinned_digest(small_run: Path) -> None:
    pinned = accepted(small_run).digest
    rewrite_everything(small_run, improve_the_reward)
    accepted(small_run)  # nothing in the folder can show it: this is why digests are pinned and runs signed
    refused(small_run, expect=pinned, naming=f"expected is {pinned}")


def test_rewrite_everything_is_stopped_by_a_signature(signed_run: Path, public_key: Path) -> None:
    rewrite_everything(signed_run, improve_the_reward)
    refused(signed_run, public_key=public_key, naming="signature.json: the signature is about")
    (signed_run / "signature.json").unlink()
    refused(signed_run, public_key=public_key, naming="a signature by key")


def test_rewriting_nothing_gives_the_same_run(small_run: Path) -> None:
    before = [path.read_bytes() for path in files_of(small_run)]
    rewrite_everything(small_run, lambda *_: None)
    assert [path.read_bytes() for path in files_of(small_run)] == before


def pretend_interrupted(folder: Path, n_lines: int) -> None:
    """Turn a complete run into one that looks killed after some lines, to hide how it ended."""
    manifest = read_manifest_json(folder)
    for name in (*CLOSING_MEMBERS, *FINAL_MEMBERS, "receipt_sha256"):
        manifest.pop(name)
    (folder / "run.json").write_bytes(canonical_json(seal({**manifest, "status": "running"})) + b"\n")
    edit_lines(folder, lambda x: x[:n_lines])
    for path in files_of(folder):
        if path.name not in ("run.json", "events.jsonl"):
            path.unlink()
    (folder / "figures").rmdir()


def test_pretend_that_the_run_was_interrupted_is_stopped_by_a_pin_or_a_key(signed_run: Path, public_key: Path) -> None:
    pinned = accepted(signed_run).digest
    pretend_interrupted(signed_run, n_lines=3)
    accepted(signed_run, VerifyStatus.INTERRUPTED)
    refused(signed_run, expect=pinned)
    refused(signed_run, public_key=public_key)


# --- interrupted runs ---------------------------------------------------------------------------------------


@pytest.fixture
def interrupted_run(tmp_path: Path) -> Path:
    return write_small_run(tmp_path / "interrupted", finish=False)


def test_flip_every_byte_of_an_interrupted_run(interrupted_run: Path) -> None:
    accepted(interrupted_run, VerifyStatus.INTERRUPTED)
    for path in files_of(interrupted_run):
        data = path.read_bytes()
        for place in range(len(data)):
            path.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
            refused(interrupted_run, naming=path.name)
        path.write_bytes(data)


@pytest.mark.parametrize("name", ["run.json", "events.jsonl", "table.csv", "figures/curve.svg"])
def test_delete_a_file_of_an_interrupted_run(name: str, interrupted_run: Path) -> None:
    (interrupted_run / name).unlink()
    refused(interrupted_run, naming=Path(name).name)


def test_cut_an_interrupted_run_before_its_first_line(interrupted_run: Path) -> None:
    first_line = (interrupted_run / "events.jsonl").read_bytes().splitlines(keepends=True)[0]
    for length in (0, 10, len(first_line) - 1):
        (interrupted_run / "events.jsonl").write_bytes(first_line[:length])
        refused(interrupted_run, naming="events.jsonl line 1 (bytes 0 to ")


def test_add_to_an_interrupted_run(interrupted_run: Path) -> None:
    for name in (
        "added",
        ".partial-",
        ".partial-x",
        ".partial-3",
        ".partial-06",
        ".partial-²",
        ".partial-run.json.tmp",
    ):
        (interrupted_run / name).write_bytes(b"")
        refused(interrupted_run, naming=f"{name}: added")
        (interrupted_run / name).unlink()


def test_only_one_unfinished_file_is_excused(interrupted_run: Path) -> None:
    (interrupted_run / ".partial-6").write_bytes(b"half an art")
    accepted(interrupted_run, VerifyStatus.INTERRUPTED)
    (interrupted_run / ".partial-7").write_bytes(b"")
    refused(interrupted_run, naming=".partial-7: added")


def test_the_digest_of_an_interrupted_run_covers_its_events_and_can_be_signed(
    interrupted_run: Path, key: Path, public_key: Path
) -> None:
    pinned = accepted(interrupted_run, VerifyStatus.INTERRUPTED).digest
    sign_run(interrupted_run, key)
    accepted(interrupted_run, VerifyStatus.INTERRUPTED, expect=pinned, public_key=public_key)
    edit_lines(interrupted_run, lambda x: x[:4])
    (interrupted_run / "table.csv").unlink()
    shutil.rmtree(interrupted_run / "figures")
    refused(interrupted_run, naming="signature.json")
    (interrupted_run / "signature.json").unlink()
    accepted(interrupted_run, VerifyStatus.INTERRUPTED)
    refused(interrupted_run, expect=pinned)
