"""The command says in one line what is wrong, in JSON what a machine wants, and nothing that a terminal obeys."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from _runs import write_small_run

from ripieno.cli import cli, main
from ripieno.files import sha256_file

Ripieno = Callable[..., tuple[int, str, str]]


@pytest.fixture
def ripieno(capsys: pytest.CaptureFixture[str]) -> Ripieno:
    """Run the command in this process and give exit code, stdout and stderr."""

    def run(*arguments: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as caught:
            main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return int(caught.value.code or 0), out, err

    return run


def assert_refused(result: tuple[int, str, str], *words: str) -> None:
    code, out, err = result
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert err.startswith("ripieno: ")
    for word in words:
        assert word in err


COMMANDS = sorted(cli.commands)


def test_the_commands_are_the_documented_ones() -> None:
    assert COMMANDS == ["demo", "doctor", "keygen", "report", "sign", "verify"]


@pytest.mark.parametrize("command", [[], *[[name] for name in COMMANDS]])
def test_every_help_has_an_example_and_every_command_speaks_json(command: list[str], ripieno: Ripieno) -> None:
    code, out, err = ripieno(*command, "--help")
    assert (code, err) == (0, "")
    assert "Example:" in out
    assert not command or "--json" in out


def test_without_arguments_there_is_help_on_stderr(ripieno: Ripieno) -> None:
    code, out, err = ripieno()
    assert (code, out) == (2, "")
    assert "Example:" in err


def test_version(ripieno: Ripieno) -> None:
    from ripieno import __version__

    assert ripieno("--version") == (0, f"ripieno, version {__version__}\n", "")


def test_start_up_imports_nothing_heavy() -> None:
    program = "import sys, ripieno.cli; print(*sys.modules)"
    modules = set(
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    )
    assert "click" in modules
    heavy = {"numpy", "numba", "scipy", "matplotlib", "ray", "cryptography", "rich", "jinja2", "orjson", "ripieno.run"}
    assert not modules & heavy


# verify


def test_verify_a_run(small_run: Path, ripieno: Ripieno) -> None:
    code, out, err = ripieno("verify", small_run)
    assert (code, err) == (0, "")
    assert [line.split()[:2] for line in out.splitlines()[:5]] == [
        ["ok", "manifest"], ["ok", "events"], ["ok", "files"], ["ok", "hashes"], ["ok", "signature"],
    ]  # fmt: skip
    assert "\ncomplete: The run reached its end" in out
    assert out.splitlines()[-1] == f"digest {sha256_file(small_run / 'run.json')}"


def test_verify_a_damaged_run(small_run: Path, ripieno: Ripieno) -> None:
    with (small_run / "events.jsonl").open("r+b") as stream:
        stream.seek(20)
        stream.write(b"?")
    code, out, _ = ripieno("verify", small_run)
    assert code == 1
    assert re.search(r"first problem: events\.jsonl line 1 \(bytes 0 to \d+\): ", out)
    assert "tampered: " in out
    code, out, _ = ripieno("verify", small_run, "--json")
    assert (code, json.loads(out)["status"], json.loads(out)["ok"]) == (1, "tampered", False)


def test_an_interrupted_run_holds_but_is_not_complete(tmp_path: Path, ripieno: Ripieno) -> None:
    run = write_small_run(tmp_path / "run", finish=False)
    code, out, _ = ripieno("verify", run)
    assert (code, "interrupted: " in out) == (0, True)
    code, _, said = ripieno("verify", run, "--require-complete")
    assert (code, said) == (1, "refused by --require-complete: the run is interrupted\n")
    assert ripieno("verify", write_small_run(tmp_path / "other"), "--require-complete")[0] == 0


def test_verify_json_holds_everything_that_the_table_says(small_run: Path, ripieno: Ripieno) -> None:
    code, out, _ = ripieno("verify", small_run, "--json")
    report = json.loads(out)
    assert code == 0
    assert set(report) == {
        "path", "format", "status", "meaning", "ok", "digest", "signature", "first_problem", "checks",
    }  # fmt: skip
    assert [row["name"] for row in report["checks"]] == ["manifest", "events", "files", "hashes", "signature"]


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_what_is_no_run(options: list[str], tmp_path: Path, ripieno: Ripieno) -> None:
    for path in (tmp_path, tmp_path / "absent"):
        result = ripieno("verify", path, *options)
        assert result[0] == 2
        if options:
            assert json.loads(result[1])["status"] == "not_a_run"
        else:
            assert_refused(result, str(path), "is no run")


def test_pins(small_run: Path, ripieno: Ripieno) -> None:
    digest = sha256_file(small_run / "run.json")
    assert ripieno("verify", small_run, "--expect", digest)[0] == 0
    code, out, _ = ripieno("verify", small_run, "--expect", "0" * 64)
    assert code == 1
    assert f"first problem: the digest is {digest}, expected is {'0' * 64}" in out
    assert_refused(ripieno("verify", small_run, "--expect", "123"), "64 lowercase hex digits")


def test_keygen_sign_and_verify(small_run: Path, tmp_path: Path, ripieno: Ripieno) -> None:
    key = tmp_path / "key"
    code, out, _ = ripieno("keygen", key, "--json")
    assert code == 0
    key_id = json.loads(out)["key_id"]
    assert ripieno("sign", small_run, "--key", key)[0] == 0
    code, out, _ = ripieno("verify", small_run)
    assert (code, f"signature not checked: give --public-key ({key_id})" in out) == (0, True)
    code, out, _ = ripieno("verify", small_run, "--public-key", f"{key}.pub")
    assert (code, f"signed by the given key ({key_id})" in out) == (0, True)
    assert_refused(ripieno("sign", small_run, "--key", key), "File exists")
    assert_refused(ripieno("keygen", key), "File exists")
    assert_refused(ripieno("keygen", small_run / "key"), "count as tampering")
    assert not (small_run / "key").exists()
    (small_run / "signature.json").unlink()
    code, out, _ = ripieno("verify", small_run, "--public-key", f"{key}.pub")
    assert (code, f"a signature by key {key_id} is required" in out) == (1, True)
    assert ripieno("keygen", tmp_path / "strong", "--algorithm", "ML-DSA-87")[0] == 0
    assert json.loads(ripieno("sign", small_run, "--key", tmp_path / "strong", "--json")[1]) == {
        "signature": str(small_run / "signature.json")
    }


def test_a_damaged_run_is_not_signed(small_run: Path, tmp_path: Path, ripieno: Ripieno) -> None:
    ripieno("keygen", tmp_path / "key")
    (small_run / "table.csv").unlink()
    code, out, err = ripieno("sign", small_run, "--key", tmp_path / "key")
    assert (code, out) == (1, "")
    assert "does not verify: table.csv: missing" in err


# report, doctor, demo


def test_report_writes_one_page_beside_the_run(small_run: Path, tmp_path: Path, ripieno: Ripieno) -> None:
    code, out, _ = ripieno("report", small_run)
    assert (code, out) == (0, f"wrote {tmp_path / 'run.html'}\n")
    assert (tmp_path / "run.html").read_text().startswith("<!")
    assert ripieno("verify", small_run)[0] == 0
    assert_refused(ripieno("report", small_run), "exists already")
    assert ripieno("report", small_run, "--force")[0] == 0
    code, out, _ = ripieno("report", small_run, "--out", tmp_path / "other.html", "--json")
    assert json.loads(out) == {"page": str(tmp_path / "other.html"), "bytes": (tmp_path / "other.html").stat().st_size}
    assert_refused(ripieno("report", small_run, "--out", small_run / "page.html"), "lies in the run folder")
    assert ripieno("verify", small_run)[0] == 0


def test_report_compares_several_runs(small_run: Path, tmp_path: Path, ripieno: Ripieno) -> None:
    other = write_small_run(tmp_path / "other", rewards=(9.0,))
    assert_refused(ripieno("report", small_run, other), "give --out FILE")
    assert_refused(ripieno("report", small_run, other, "--out", other / "page.html"), "lies in the run folder")
    assert_refused(ripieno("report", small_run, tmp_path, "--out", tmp_path.parent / "p.html"), f"{tmp_path} is no run")
    code, _, _ = ripieno("report", small_run, other, "--out", tmp_path / "both.html")
    assert code == 0
    assert "<td>other</td>" in (tmp_path / "both.html").read_text()


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_doctor_says_what_is_needed_and_what_is_not(options: list[str], ripieno: Ripieno) -> None:
    code, out, err = ripieno("doctor", *options)
    assert err == ""
    if options:
        rows = json.loads(out)
        assert code == (0 if all(row["ok"] or not row["required"] for row in rows) else 1)
        assert {"name", "ok", "detail", "remedy", "required"} == set(rows[0])
    else:
        assert {line.split()[0] for line in out.splitlines()} <= {"ok", "off", "BAD"}


@click.command("small")
@click.option("--n", default=3)
@click.option("--json", "as_json", is_flag=True)
def small_demo(n: int, as_json: bool) -> int:
    """Count."""
    click.echo(json.dumps({"n": n}) if as_json else f"counted to {n}")
    return 0


@click.command("failing")
def failing_demo() -> int:
    """Find that something does not hold."""
    return 1


@pytest.fixture
def only_demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Make an installation in which one package brings one demo."""

    def install(target: str) -> None:
        info = tmp_path / "site" / "other-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[ripieno.demos]\nsmall = {target}\n" if target else "")
        monkeypatch.setattr(sys, "path", [str(tmp_path / "site")])

    return install


def test_demo_runs_one_or_every_registered_demo(only_demo, ripieno: Ripieno, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "demo_of_the_test", sys.modules[__name__])
    only_demo("demo_of_the_test:small_demo")
    assert ripieno("demo") == (0, "counted to 3\n", "")
    assert ripieno("demo", "--json") == (0, '{"n": 3}\n', "")
    assert ripieno("demo", "small", "--n", "5") == (0, "counted to 5\n", "")
    assert_refused(ripieno("demo", "--json", "small"), "ripieno demo small --json")
    assert_refused(ripieno("demo", "absent"), "absent")
    assert_refused(ripieno("demo", "small", "--n", "x"), "--n", "'x'")


def test_the_verdict_of_a_demo_is_the_exit_code(only_demo, ripieno: Ripieno, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "demo_of_the_test", sys.modules[__name__])
    only_demo("demo_of_the_test:failing_demo")
    assert ripieno("demo") == (1, "", "")
    assert ripieno("demo", "small") == (1, "", "")


def test_a_demo_that_is_missing_or_broken_is_named(only_demo, ripieno: Ripieno) -> None:
    only_demo("no_such_module:demo")
    assert_refused(ripieno("demo"), "the demo 'small' cannot be loaded", "no_such_module")


def test_without_any_demo_there_is_a_hint(only_demo, ripieno: Ripieno) -> None:
    only_demo("")
    assert_refused(ripieno("demo"), "no demo is installed")


# Errors


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["fly"], ["No such command", "fly"]),
        (["verify"], ["Missing argument", "PATH"]),
        (["verify", "x", "--colour"], ["No such option", "--colour"]),
        (["sign", "x"], ["Missing option", "--key"]),
        (["sign", "x", "--key", "/nowhere"], ["/nowhere", "No such file"]),
        (["verify", "x", "--public-key", "/nowhere"], ["/nowhere", "No such file"]),
        (["keygen", "/nowhere/key"], ["/nowhere/key", "No such file"]),
        (["keygen", "k", "--algorithm", "RSA"], ["--algorithm", "RSA"]),
        (["report", "/nowhere/run", "--out", "/nowhere/page"], ["/nowhere/run"]),
        (["report", "/"], ["lies in the run folder"]),
        (["keygen", "/"], ["key file /: "]),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(arguments: list[str], words: list[str], ripieno: Ripieno) -> None:
    assert_refused(ripieno(*arguments), *words)


def test_debug_shows_the_traceback(ripieno: Ripieno) -> None:
    code, _, err = ripieno("verify", "x", "--expect", "1", "--debug")
    assert code == 2
    assert "Traceback (most recent call last)" in err
    assert err.splitlines()[-1].startswith("ripieno: the expected digest must be")


def test_names_cannot_command_the_terminal(small_run: Path, ripieno: Ripieno) -> None:
    for name in ("\x1b[2J\x1b[31mok\r\n", "\u202egpj.exe", os.fsdecode(b"\xff\xfe")):
        (small_run / name).write_bytes(b"")
        code, out, _ = ripieno("verify", small_run)
        assert code == 1
        assert all(character.isprintable() or character == "\n" for character in out)
        assert json.loads(ripieno("verify", small_run, "--json")[1])["first_problem"].startswith(name)
        (small_run / name).unlink()


@pytest.mark.parametrize("no_color", [True, False])
def test_colours_only_where_they_are_wanted(no_color: bool, small_run: Path) -> None:
    program = "import pty, sys; sys.exit(pty.spawn([sys.executable, '-m', 'ripieno', *sys.argv[1:]]) >> 8)"
    environment = {key: item for key, item in os.environ.items() if key != "NO_COLOR"} | (
        {"NO_COLOR": "1"} if no_color else {}
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "verify", str(small_run)],
        capture_output=True, check=True, env=environment, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert (b"\x1b[" in done.stdout) is not no_color
    assert b"complete" in done.stdout


@pytest.mark.parametrize("holds", [True, False])
def test_the_exit_code_is_the_verdict_whoever_reads(holds: bool, small_run: Path) -> None:
    if not holds:
        (small_run / "added").write_bytes(b"")
    for output in ("| true", "| sleep 0", ">&-", ">&- 2>&-"):
        for option in ("", "--json"):
            command = f"set -o pipefail; '{sys.executable}' -m ripieno verify '{small_run}' {option} {output}"
            done = subprocess.run(["bash", "-c", command], capture_output=True, check=False)
            assert (done.returncode, done.stderr) == (0 if holds else 1, b""), command


def test_closed_streams_do_not_lend_their_number_to_a_file_of_the_run(tmp_path: Path, small_run: Path) -> None:
    command = f"'{sys.executable}' -m ripieno keygen '{tmp_path / 'key'}' >&- 2>&-"
    assert subprocess.run(["bash", "-c", command], check=False).returncode == 0
    command = f"'{sys.executable}' -m ripieno sign '{small_run}' --key '{tmp_path / 'key'}' >&- 2>&-"
    assert subprocess.run(["bash", "-c", command], check=False).returncode == 0
    command = f"'{sys.executable}' -m ripieno verify '{small_run}' --public-key '{tmp_path / 'key.pub'}'"
    assert subprocess.run(["bash", "-c", command], capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize("name", ["\x1b[2Jrun", os.fsdecode(b"run\xff")])
def test_every_command_prints_the_name_of_any_folder(name: str, small_run: Path, ripieno: Ripieno) -> None:
    run = small_run.rename(small_run.with_name(name))
    for arguments in (("keygen", f"{run}.key"), ("sign", run, "--key", f"{run}.key"), ("verify", run), ("report", run)):
        code, out, err = ripieno(*arguments)
        assert (code, err) == (0, "")
        assert all(character.isprintable() or character == "\n" for character in out)


def test_a_reader_that_goes_away_is_no_error(small_run: Path) -> None:
    command = f"'{sys.executable}' -m ripieno verify '{small_run}' --json | head -c 1"
    done = subprocess.run(["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, check=True)
    assert (done.stdout, done.stderr) == (b"{", b"")
