"""Write docs/reference/*cli.md from the commands themselves.

Run it with `.venv/bin/python scripts/cli_reference.py`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import click

from agentinputlab.cli._app import agentinputlab
from chamber.cli._app import chamber
from chamber.cli.analyze import analyze
from chamber.cli.spike import spike
from ripieno.cli import cli as ripieno
from scpn_phase_orchestrator.runtime.cli import main as spo

REFERENCE = Path(__file__).parent.parent / "docs" / "reference"
RIPIENO_HEADER = """# Command line: ripieno

This page is written by `scripts/cli_reference.py` from the commands themselves; a test keeps the two equal.
Exit codes everywhere: 0 all holds, 1 a verdict against what was given, 2 bad input or wrong usage.
"""
CHAMBER_HEADER = """# Command line: chamber

This page is written by `scripts/cli_reference.py` from the commands themselves; a test keeps the two equal.

| Exit code | Means |
|---|---|
| 0 | done; a check or a replay holds |
| 1 | a check does not hold, a replay comes out otherwise, or a folder does not verify |
| 2 | wrong usage, refused input, or something that is needed is not installed |

`CHAMBER_RENDER_BACKEND=none` switches rendering off; tasks that observe no pictures run without it.
"""
TRAINING_HEADER = """# Command lines: chamber-spike and chamber-analyze

This page is written by `scripts/cli_reference.py` from the commands themselves; a test keeps the two equal.

| Exit code | Means |
|---|---|
| 0 | done |
| 2 | wrong usage, refused input, an unknown run, or something that is needed is not installed |
| 3 | `--check-guarantee`: the learning-signal check did not pass |
| 130 | stopped by Ctrl-C; `chamber-spike train` has saved a checkpoint and printed the command that goes on |

`chamber play` (see [chamber](chamber-cli.md)) puts a trained ego beside any partner. A third command, `concerto`,
prints the version.
"""
SPO_HEADER = """# Command line: spo

This page is written by `scripts/cli_reference.py` from the commands themselves; a test keeps the two equal.

| Exit code | Means |
|---|---|
| 0 | done, and the verdict, if there is one, is positive |
| 1 | the input was refused, or the verdict is negative: the table below says which commands give one |
| 2 | wrong usage: an unknown option, or a name or path that leads nowhere |
| 3 | a defect of this program; `spo --debug ...` shows the traceback |
| 130 | interrupted by Ctrl-C; what was written so far stays valid |

| Command | Ends with 1 although its input was fine when |
|---|---|
| `compare` | supervised runs end with a worse verdict than open-loop ones |
| `sweep` | a cell failed |
| `validate` | the spec or its rule file is invalid |
| `replay`, `report`, `explain`, `watch` | the log or stream does not hold, or a step does not lead to the next |
| `quickstart` | anything that it checks does not hold |

`twin-confidence --fail-on-critical` ends with 2 when a tick is critical.

Messages go to standard error, results to standard output. With `--json`, standard output is one JSON value.
"""

INPUTLAB_HEADER = """# Command line: agentinputlab

This page is written by `scripts/cli_reference.py` from the commands themselves; a test keeps the two equal.

| Exit code | Means |
|---|---|
| 0 | done; a preflight says ready |
| 1 | a check failed: `doctor`, `smoke`, `validate-registry`; or a folder does not verify, whatever is asked of it |
| 2 | wrong usage, refused input, or not ready |
| 3 | an experiment has failures, which stay in the count: it ran to its end, or `--stop-after-failures` stopped it |
| 130 | interrupted by Ctrl-C; the same command goes on from there |

Messages go to standard error, results to standard output. With `--json`, standard output is one JSON value. Nothing
that a simulated user said, no prompt and no key is ever printed.
"""


def render_ripieno() -> str:
    """Give the page on `ripieno`: every command's help, depth first."""
    return RIPIENO_HEADER + "".join(_sections(ripieno, None, "ripieno"))


def render_chamber() -> str:
    """Give the page on `chamber`."""
    return CHAMBER_HEADER + "".join(_sections(chamber, None, "chamber"))


def render_training() -> str:
    """Give the page on `chamber-spike` and `chamber-analyze`."""
    commands = {"chamber-spike": spike, "chamber-analyze": analyze}
    return TRAINING_HEADER + "".join(text for name, group in commands.items() for text in _sections(group, None, name))


def render_spo() -> str:
    """Give the page on `spo`."""
    return SPO_HEADER + "".join(_sections(spo, None, "spo"))


def render_inputlab() -> str:
    """Give the page on `agentinputlab`."""
    return INPUTLAB_HEADER + "".join(_sections(agentinputlab, None, "agentinputlab"))


PAGES: dict[str, Callable[[], str]] = {
    "cli.md": render_ripieno,
    "chamber-cli.md": render_chamber,
    "training-cli.md": render_training,
    "phase-cli.md": render_spo,
    "inputlab-cli.md": render_inputlab,
}
"""Name of a page -> what gives its text."""


def _sections(command: click.Command, parent: click.Context | None, name: str) -> list[str]:
    width = {"terminal_width": 80, "max_content_width": 80}  # what fits beside the two menus of the site
    context = click.Context(command, info_name=name, parent=parent, **{**command.context_settings, **width})
    sections = [f"\n## {context.command_path}\n\n```text\n{command.get_help(context).strip()}\n```\n"]
    if isinstance(command, click.Group):
        for child_name in command.list_commands(context):
            child = command.get_command(context, child_name)
            assert child is not None
            sections += _sections(child, context, child_name)
    return sections


if __name__ == "__main__":
    is_check = sys.argv[1:] == ["--check"]  # in a process of its own: a command remembers how it was called before
    for page, render in PAGES.items():
        path, text = REFERENCE / page, render()
        if not is_check:
            path.write_text(text, encoding="utf-8")
        elif path.read_text(encoding="utf-8") != text:
            sys.exit(f"{page} is not what the commands say; run: .venv/bin/python scripts/cli_reference.py")
