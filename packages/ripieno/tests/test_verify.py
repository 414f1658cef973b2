"""Every verdict is reached by a run that deserves it, and foreign formats get the same treatment."""

import errno
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from _children import Child
from _runs import write_small_run
from _writers import write_artifacts

from ripieno.errors import InputError, IntegrityError, RipienoError
from ripieno.files import sha256_file
from ripieno.run import RunWriter
from ripieno.signing import write_key_pair
from ripieno.verify import (
    Check,
    SignatureState,
    VerifyOptions,
    VerifyReport,
    VerifyStatus,
    sign_run,
    verify,
)


def test_the_report_of_a_complete_run_says_what_was_looked_at(small_run: Path) -> None:
    report = verify(small_run)
    assert report.status is VerifyStatus.COMPLETE
    assert report.ok
    assert report.format == "run folder"
    assert report.digest == sha256_file(small_run / "run.json")
    assert report.signature is SignatureState.ABSENT
    assert [(check.name, check.ok) for check in report.checks] == [
        ("manifest", True), ("events", True), ("files", True), ("hashes", True), ("signature", True),
    ]  # fmt: skip
    assert report.checks[1].detail == "3 events and 2 artifacts in 7 lines"


def test_every_status_has_its_own_sentence_and_three_of_them_hold() -> None:
    assert len({status.meaning for status in VerifyStatus}) == len(VerifyStatus)
    assert [status for status in VerifyStatus if status.ok] == ["complete", "failed", "interrupted"]


def test_a_running_run_verifies_as_interrupted_so_far(tmp_path: Path) -> None:
    with RunWriter(tmp_path / "run", system="test", kind="x", config={}) as run:
        for step in range(3):
            run.event("step", step=step)
            report = verify(tmp_path / "run")
            assert (report.status, report.ok) == (VerifyStatus.INTERRUPTED, True)
            assert report.checks[1].detail.startswith(f"{step + 1} events")
        run.finish()
    assert verify(tmp_path / "run").status is VerifyStatus.COMPLETE


def test_a_run_can_be_verified_while_it_is_written(tmp_path: Path) -> None:
    writer = Child(write_artifacts, tmp_path / "run", 400)
    writer.wait_for_first_word()
    reports = [verify(tmp_path / "run")]
    while writer.process.is_alive():
        reports.append(verify(tmp_path / "run"))
    assert writer.acknowledged() == ["created", "finished"]
    assert [report.first_problem for report in reports if not report.ok] == []
    assert len(reports) >= 2
    assert verify(tmp_path / "run").status is VerifyStatus.COMPLETE


def test_a_moved_copied_or_linked_run_is_the_same_run(small_run: Path, tmp_path: Path) -> None:
    digest = verify(small_run).digest
    small_run.rename(tmp_path / "moved")
    (tmp_path / "latest").symlink_to("moved")
    assert verify(tmp_path / "latest", expect=digest).status is VerifyStatus.COMPLETE


@pytest.mark.parametrize(
    "kind", ["absent", "empty folder", "other folder", "file", "link to nothing", "foreign run.json"]
)
def test_what_is_no_run_is_said_to_be_none(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "thing"
    if kind == "file":
        path.write_bytes(b'"format":"ripieno.run/1"')
    elif kind == "link to nothing":
        path.symlink_to("nowhere")
    elif kind != "absent":
        path.mkdir()
        if kind == "other folder":
            (path / "notes.txt").write_bytes(b"hello")
        elif kind == "foreign run.json":
            (path / "run.json").write_bytes(b'{"format":"other"}')
            os.mkfifo(path / "events.jsonl")
    report = verify(path)
    assert (report.status, report.ok, report.digest) == (VerifyStatus.NOT_A_RUN, False, "")
    assert str(path) in report.first_problem


@pytest.mark.parametrize("digest", ["", "abc", "A" * 64, "g" * 64, "a" * 65])
def test_a_digest_that_is_none_is_bad_input(digest: str, small_run: Path) -> None:
    with pytest.raises(InputError, match="64 lowercase hex digits"):
        verify(small_run, expect=digest)


def test_signing_needs_a_run_that_verifies_and_happens_once(small_run: Path, tmp_path: Path) -> None:
    write_key_pair(tmp_path / "key")
    with pytest.raises(InputError, match="is no run folder"):
        sign_run(tmp_path, tmp_path / "key")
    path = sign_run(small_run, tmp_path / "key")
    before = path.read_bytes()
    with pytest.raises(InputError, match="File exists"):
        sign_run(small_run, tmp_path / "key")
    assert path.read_bytes() == before
    assert verify(small_run).signature is SignatureState.UNCHECKED
    assert "give --public-key" in verify(small_run).checks[-1].detail
    assert verify(small_run, public_key=tmp_path / "key.pub").signature is SignatureState.VALID

    damaged = write_small_run(tmp_path / "damaged")
    (damaged / "table.csv").unlink()
    with pytest.raises(IntegrityError, match=r"does not verify: table\.csv: missing"):
        sign_run(damaged, tmp_path / "key")
    assert not (damaged / "signature.json").exists()


def test_a_run_that_still_goes_is_not_signed(tmp_path: Path) -> None:
    write_key_pair(tmp_path / "key")
    with RunWriter(tmp_path / "run", system="test", kind="unit", config={}) as run:
        with pytest.raises(InputError, match="still being written"):
            sign_run(tmp_path / "run", tmp_path / "key")
        run.finish()
    sign_run(tmp_path / "run", tmp_path / "key")
    assert verify(tmp_path / "run", public_key=tmp_path / "key.pub").status is VerifyStatus.COMPLETE


@pytest.mark.parametrize("where", ["ripieno._run_folder.open_regular", "ripieno._run_folder.list_tree", "os.stat"])
def test_what_may_not_be_read_is_bad_input_and_no_verdict(
    where: str, small_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path, *_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    with monkeypatch.context() as patches:
        patches.setattr(where, refuse)
        with pytest.raises(InputError, match=f"cannot read {small_run}.*: Permission denied"):
            verify(small_run)


# Formats of other packages


class TextVerifier:
    """Accepts text files that say so."""

    name = "text"

    def recognises(self, path: Path) -> bool:
        return path.suffix == ".txt"

    def verify(self, path: Path, options: VerifyOptions) -> VerifyReport:
        ok = path.read_text() == "fine"
        status = VerifyStatus.COMPLETE if ok else VerifyStatus.TAMPERED
        checks = (Check("text", ok, path.read_text()),)
        return VerifyReport(str(path), self.name, status, "d" * 64, checks, "" if ok else "byte 0")


TEXT_VERIFIER = TextVerifier()


@pytest.fixture
def text_verifier(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install a package that brings a verifier."""
    register(tmp_path, monkeypatch, f"{__name__}:TEXT_VERIFIER")
    monkeypatch.setitem(sys.modules, __name__, sys.modules[__name__])


def register(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str) -> None:
    info = tmp_path / "site" / "other-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[ripieno.verifiers]\ntext = {target}\n")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    assert metadata.version("other") == "1.0"


@pytest.mark.usefixtures("text_verifier")
def test_a_registered_verifier_judges_its_own_format(tmp_path: Path, small_run: Path) -> None:
    (tmp_path / "a.txt").write_text("fine")
    (tmp_path / "b.txt").write_text("bad")
    report = verify(tmp_path / "a.txt")
    assert (report.format, report.status) == ("text", VerifyStatus.COMPLETE)
    assert verify(tmp_path / "b.txt").status is VerifyStatus.TAMPERED
    assert verify(small_run).format == "run folder"
    assert verify(tmp_path / "a.md").status is VerifyStatus.NOT_A_RUN


@pytest.mark.usefixtures("text_verifier")
def test_pins_hold_for_formats_whose_verifier_does_not_look_at_them(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("fine")
    write_key_pair(tmp_path / "key")
    assert verify(tmp_path / "a.txt", expect="d" * 64).ok
    assert "expected is eee" in verify(tmp_path / "a.txt", expect="e" * 64).first_problem
    report = verify(tmp_path / "a.txt", public_key=tmp_path / "key.pub")
    assert (report.status, report.ok) == (VerifyStatus.TAMPERED, False)
    assert "there is none" in report.first_problem


def test_a_verifier_that_cannot_be_loaded_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small_run: Path
) -> None:
    register(tmp_path, monkeypatch, "no_such_module:VERIFIER")
    assert verify(small_run).ok  # what we know ourselves does not depend on others
    with pytest.raises(RipienoError, match="the verifier 'text' cannot be loaded"):
        verify(tmp_path)


class BrokenVerifier(TextVerifier):
    """Raises, or answers what is no report."""

    def verify(self, path: Path, options: VerifyOptions) -> VerifyReport:
        if path.name == "raise.txt":
            raise ZeroDivisionError("lost")
        return None  # type: ignore[return-value] - the point of the class


BROKEN_VERIFIER = BrokenVerifier()


@pytest.mark.parametrize("name", ["raise.txt", "no report.txt"])
def test_a_verifier_that_fails_gives_no_verdict(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    register(tmp_path, monkeypatch, f"{__name__}:BROKEN_VERIFIER")
    monkeypatch.setitem(sys.modules, __name__, sys.modules[__name__])
    (tmp_path / name).write_text("fine")
    with pytest.raises(RipienoError, match=r"the verifier BrokenVerifier failed: (ZeroDivision|Attribute)Error"):
        verify(tmp_path / name)


# Size


@pytest.mark.slow
def test_an_artifact_of_2_gb_is_verified_in_under_100_mb(tmp_path: Path) -> None:
    with (tmp_path / "big").open("wb") as stream:
        stream.truncate(2 * 10**9)
    with RunWriter(tmp_path / "run", system="test", kind="big", config={}) as run:
        run.artifact("big", tmp_path / "big")
        run.finish()
    # VmHWM belongs to the program alone; what wait4 reports includes the process that started it.
    program = (
        "import atexit, pathlib, sys; from ripieno.cli import main\n"
        "atexit.register(lambda: print(pathlib.Path('/proc/self/status').read_text()))\n"
        "main(sys.argv[1:])"
    )
    command = [sys.executable, "-c", program, "verify", str(tmp_path / "run")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    peak_kb = int(done.stdout.partition("VmHWM:")[2].split()[0])
    assert 5_000 < peak_kb < 100 * 10**6 / 1024
    with (tmp_path / "run" / "big").open("r+b") as stream:
        stream.seek(10**9)
        stream.write(b"\x01")
    assert verify(tmp_path / "run").first_problem.startswith("big: changed")
    (tmp_path / "run" / "big").unlink()
