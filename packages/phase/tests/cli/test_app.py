"""The command tree: help without loading, one line of answer to bad input, exit codes."""

import subprocess
import sys
from types import SimpleNamespace

import click
import pytest
from click.testing import CliRunner

from scpn_phase_orchestrator.runtime.cli import main, meta_transfer_manifest, simulate
from scpn_phase_orchestrator.runtime.cli._app import COMMANDS, one_line


def spo(*arguments, **options):
    command = [sys.executable, "-c", "from scpn_phase_orchestrator.runtime.cli import main; main()", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_of_the_table_exists_with_its_line_of_help_and_an_example(name):
    command = main.get_command(click.Context(main), name)
    assert command is not None
    assert command.name == name
    assert command.help is not None
    first_paragraph = " ".join(command.help.split("\n\n")[0].split())
    assert first_paragraph == COMMANDS[name][2]
    assert f"spo {name}" in command.help
    assert CliRunner().invoke(main, [name, "--help"]).exit_code == 0


def test_help_loads_no_numeric_library():
    code = (
        "import sys; from click.testing import CliRunner; from scpn_phase_orchestrator.runtime.cli import main; "
        "r = CliRunner().invoke(main, ['--help']); assert r.exit_code == 0, r.output; "
        "print([m for m in ('numpy', 'numba', 'scipy', 'yaml', 'matplotlib', 'rich') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_reader_that_has_gone_ends_the_command_silently():
    command = f"{sys.executable} -c 'from scpn_phase_orchestrator.runtime.cli import main; main()' schema | head -c 20"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert done.stderr == ""


def test_an_unknown_command_names_its_neighbour():
    done = spo("comapre", "power_grid")
    assert done.returncode == 2
    assert "Did you mean 'compare'?" in done.stderr


def test_an_input_that_is_refused_is_one_line_and_a_traceback_on_request():
    done = spo("packs", "nothing_of_this_name")
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("Error: no pack, file or folder is named 'nothing_of_this_name'")
    traced = spo("--debug", "packs", "nothing_of_this_name")
    assert traced.returncode == 1
    assert "Traceback" in traced.stderr


def test_a_defect_of_this_program_is_told_apart_from_refused_input(monkeypatch):
    @click.command()
    def broken():
        raise KeyError("no such\x1bkey")

    name = "scpn_phase_orchestrator.runtime.cli._broken"
    monkeypatch.setitem(sys.modules, name, SimpleNamespace(broken=broken))
    monkeypatch.setitem(COMMANDS, "broken", ("_broken", "broken", "Fails."))
    done = CliRunner().invoke(main, ["broken"])
    assert done.exit_code == 3
    assert done.stderr == "Internal error: KeyError: 'no such\\x1bkey' (spo --debug ... shows where)\n"


def test_hostile_text_cannot_move_the_cursor():
    assert one_line("a\x1b[2Jb\nc") == "a\\x1b[2Jb c"
    assert one_line("left\u202eright \ud800") == "left\\u202eright \\ud800"


def test_documented_names_can_be_imported():
    assert callable(simulate)
    assert isinstance(meta_transfer_manifest, click.Command)
