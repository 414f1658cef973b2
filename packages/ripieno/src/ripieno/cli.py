"""The ``ripieno`` command.

Exit codes: 0 all holds, 1 a verdict against the run, 2 bad input or nothing to judge. Everything but Click is
imported by the command that needs it, so that ``ripieno --help`` answers at once.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

from ripieno import __version__
from ripieno._printable import printable
from ripieno.errors import InputError, IntegrityError, RipienoError

if TYPE_CHECKING:
    from ripieno.verify import VerifyReport

__all__ = ["DEMO_GROUP", "cli", "main"]

DEMO_GROUP = "ripieno.demos"

_Command = TypeVar("_Command", bound=Callable[..., Any])
_PATH = click.Path(path_type=Path)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line; errors are one line on stderr unless ``--debug`` is among the arguments."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    for name in ("stdout", "stderr"):  # closed by the caller: no file of a run may get the number of that stream
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: PTH123, SIM115 - open until the end
    try:
        code = cli.main(arguments, prog_name="ripieno", standalone_mode=False)
        sys.stdout.flush()
    except (click.exceptions.Abort, KeyboardInterrupt):
        _fail("stopped", code=130)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        code = 2
    except click.ClickException as error:
        _fail(error.format_message(), code=2, debug="--debug" in arguments)
    except OSError as error:
        place = "" if error.filename is None else f"{error.filename}: "
        _fail(f"{place}{error.strerror or error}", code=2, debug="--debug" in arguments)
    except ImportError as error:  # of a package that a demo needs
        _fail(str(error), code=2, debug="--debug" in arguments)
    except RipienoError as error:
        _fail(str(error), code=1 if isinstance(error, IntegrityError) else 2, debug="--debug" in arguments)
    sys.exit(code if isinstance(code, int) else 0)


def _fail(message: str, *, code: int, debug: bool = False) -> NoReturn:
    if debug:
        traceback.print_exc()
    click.echo(f"ripieno: {printable(' '.join(message.split()))}", err=True)
    sys.exit(code)


@contextmanager
def _reader_may_leave() -> Generator[None]:
    """Write to a reader that may have had enough; what the command did and its exit code stand."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class _Commands(click.Group):
    def invoke(self, ctx: click.Context) -> Any:
        with _reader_may_leave():
            return super().invoke(ctx)


def _common_options(command: _Command) -> _Command:
    command = click.option("--debug", is_flag=True, expose_value=False, help="Show the traceback of an error.")(command)
    return click.option("--json", "as_json", is_flag=True, help="Write JSON for machines.")(command)


def _print_json(value: object) -> None:
    click.echo(json.dumps(value, indent=2))


def _print_rows(rows: Sequence[tuple[str, str, str]]) -> None:
    """Print rows of mark, name and detail; the mark is ``ok``, ``BAD`` or ``off`` (not needed)."""
    colours = {"ok": "green", "BAD": "red", "off": "yellow"}
    width = max((len(name) for _, name, _ in rows), default=0)
    for mark, name, detail in rows:
        click.echo(f"{_style(f'{mark:3}', colours[mark])}  {printable(name):{width}}  {printable(detail)}")


def _style(text: str, colour: str) -> str:
    return text if os.environ.get("NO_COLOR") else click.style(text, fg=colour, bold=True)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="ripieno")
def cli() -> None:
    """Evidence for runs: verify them byte by byte, sign them, read them.

    \b
    Example:
      ripieno demo
      ripieno verify FOLDER
    """


@cli.command("verify")
@click.argument("path", type=_PATH)
@click.option("--expect", metavar="DIGEST", help="Digest that the run must have.")
@click.option("--public-key", type=_PATH, metavar="FILE", help="Key that must have signed the run.")
@click.option("--require-complete", is_flag=True, help="Exit 1 unless the run reached its end.")
@_common_options
def verify_command(
    path: Path, expect: str | None, public_key: Path | None, require_complete: bool, as_json: bool
) -> int:
    """Check every byte of a run.

    Exit code 0: all holds (the status says whether the run was complete, failed or interrupted); 1: something
    does not, the first such thing is named; 2: this is no run.

    \b
    Example:
      ripieno verify runs/demo --public-key trusted.pub
    """
    from ripieno.verify import VerifyStatus, verify

    report = verify(path, expect=expect, public_key=public_key)
    if report.status is VerifyStatus.NOT_A_RUN and not as_json:
        raise InputError(report.first_problem)
    with _reader_may_leave():
        if as_json:
            _print_json(report.to_json())
        else:
            _print_verdict(report)
    if report.status is VerifyStatus.NOT_A_RUN:
        return 2
    if report.ok and require_complete and report.status is not VerifyStatus.COMPLETE:
        click.echo(f"refused by --require-complete: the run is {report.status.value}", err=True)
        return 1
    return 0 if report.ok else 1


def _print_verdict(report: VerifyReport) -> None:
    _print_rows([("ok" if row.ok else "BAD", row.name, row.detail) for row in report.checks])
    click.echo(f"\n{_style(report.status.value, 'green' if report.ok else 'red')}: {report.status.meaning}")
    if report.first_problem:
        click.echo(f"first problem: {printable(report.first_problem)}")
    if report.digest:
        click.echo(f"digest {printable(report.digest)}")


@cli.command("report")
@click.argument("runs", type=_PATH, metavar="RUN...", nargs=-1, required=True)
@click.option("--out", type=_PATH, metavar="FILE", help="Where to write the page; RUN.html by default.")
@click.option("--force", is_flag=True, help="Replace an existing page.")
@_common_options
def report_command(runs: Sequence[Path], out: Path | None, force: bool, as_json: bool) -> int:
    """Write one HTML page about a run or several.

    The page of one run lies beside its folder; the page of several compares them.

    \b
    Example:
      ripieno report runs/demo
      ripieno report runs/first runs/second --out both.html
    """
    from ripieno.files import create_only, write_atomic
    from ripieno.report import render_run, render_runs

    folders = [run.resolve() for run in runs]
    if out is None and len(folders) > 1:
        raise InputError("give --out FILE: the page of several runs belongs to none of them")
    out = Path(f"{folders[0]}.html") if out is None else out
    if any(out.resolve().is_relative_to(folder) for folder in folders):
        raise InputError(f"{out} lies in the run folder, where a new file would count as tampering")
    if not force and os.path.lexists(out):
        raise InputError(f"{out} exists already; give --force to replace it")
    page = (render_run(folders[0]) if len(folders) == 1 else render_runs(folders)).encode(errors="backslashreplace")
    if force:
        write_atomic(out, page)
    else:
        create_only(out, page)
    if as_json:
        _print_json({"page": str(out), "bytes": len(page)})
    else:
        click.echo(f"wrote {printable(str(out))}")
    return 0


@cli.command("doctor")
@_common_options
def doctor_command(as_json: bool) -> int:
    """Say what works on this machine, and how to mend the rest.

    Exit code 1 when something is missing that the installed packages need.

    \b
    Example:
      ripieno doctor
    """
    from ripieno.doctor import run_checks

    results = run_checks()
    rows: list[tuple[str, str, str]] = []
    for result in results:
        mark = "ok" if result.ok else "BAD" if result.required else "off"
        remedy = f" -> {result.remedy}" if result.remedy and not result.ok else ""
        rows.append((mark, result.name, result.detail + remedy))
    with _reader_may_leave():
        if as_json:
            _print_json([asdict(result) for result in results])
        else:
            _print_rows(rows)
    return 0 if all(result.ok or not result.required for result in results) else 1


@cli.command("keygen")
@click.argument("path", type=_PATH)
@click.option(
    "--algorithm",
    type=click.Choice(["ML-DSA-44", "ML-DSA-65", "ML-DSA-87"]),
    default="ML-DSA-65",
    show_default=True,
    help="Parameter set of FIPS 204.",
)
@_common_options
def keygen_command(path: Path, algorithm: str, as_json: bool) -> int:
    """Make a key pair: PATH is the private key, PATH.pub the public one.

    \b
    Example:
      ripieno keygen ~/ripieno.key
    """
    from ripieno._layout import MANIFEST
    from ripieno.signing import Algorithm, write_key_pair

    if (path.resolve().parent / MANIFEST).exists():
        raise InputError(f"{path} lies in a run folder, where a new file would count as tampering")
    public_path, name = write_key_pair(path, Algorithm(algorithm))
    if as_json:
        _print_json({"private_key": str(path), "public_key": str(public_path), "key_id": name})
    else:
        keys = f"private key {path} (keep it), public key {public_path} (give it away), key id {name}"
        click.echo(printable(keys))
    return 0


@cli.command("sign")
@click.argument("run", type=_PATH)
@click.option("--key", type=_PATH, required=True, metavar="FILE", help="Private key of `ripieno keygen`.")
@_common_options
def sign_command(run: Path, key: Path, as_json: bool) -> int:
    """Verify a run folder and put a signature over its digest into it.

    \b
    Example:
      ripieno sign runs/demo --key ~/ripieno.key
    """
    from ripieno.verify import sign_run

    path = sign_run(run, key)
    if as_json:
        _print_json({"signature": str(path)})
    else:
        click.echo(printable(f"wrote {path}; check it with: ripieno verify {run} --public-key {key}.pub"))
    return 0


class _DemoGroup(click.Group):
    """The demos of the installed packages, loaded when they are asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(entry.name for entry in metadata.entry_points(group=DEMO_GROUP))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        for entry in metadata.entry_points(group=DEMO_GROUP, name=cmd_name):
            try:
                return entry.load()
            except (Exception, SystemExit) as error:  # anybody's code
                reason = error if isinstance(error, (ImportError, AttributeError)) else type(error).__name__
                raise RipienoError(f"the demo {cmd_name!r} cannot be loaded: {reason}") from error
        return None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List every demo; one that cannot be loaded says so and leaves the others their line."""
        rows: list[tuple[str, str]] = []
        names = self.list_commands(ctx)
        limit = formatter.width - 6 - max(map(len, names), default=0)
        for name in names:
            try:
                command = self.get_command(ctx, name)
                rows.append((name, "" if command is None else command.get_short_help_str(limit)))
            except RipienoError as error:
                rows.append((name, f"({error})"))
        if rows:
            with formatter.section("Commands"):
                formatter.write_dl(rows)


@cli.group("demo", cls=_DemoGroup, invoke_without_command=True)
@_common_options
@click.pass_context
def demo_command(context: click.Context, as_json: bool) -> int:
    """Run the demo called NAME, or every demo with its defaults.

    \b
    Example:
      ripieno demo
    """
    if context.invoked_subcommand is not None:
        if as_json:
            raise InputError(f"--json belongs behind the name: ripieno demo {context.invoked_subcommand} --json")
        return 0
    names = demo_command.list_commands(context)
    if not names:
        raise InputError("no demo is installed; install a package that has one, e.g. ripieno-concerto")
    codes = [0]
    for name in names:
        command = demo_command.get_command(context, name)
        if command is not None:
            arguments = ["--json"] if as_json else []
            with command.make_context(name, arguments, parent=context) as demo_context:
                code = command.invoke(demo_context)
                codes.append(code if isinstance(code, int) else 0)
    return max(codes)
