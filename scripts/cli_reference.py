"""Write docs/reference/cli.md from the commands themselves: `.venv/bin/python scripts/cli_reference.py`."""

from __future__ import annotations

from pathlib import Path

import click

from ripieno.cli import cli

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "cli.md"
HEADER = """# Command line

This page is written by `scripts/cli_reference.py` from the commands themselves; a test keeps the two equal.
Exit codes everywhere: 0 all holds, 1 a verdict against what was given, 2 bad input or wrong usage.
"""


def render() -> str:
    """Give the page: every command's help, depth first."""
    return HEADER + "".join(_sections(cli, None, "ripieno"))


def _sections(command: click.Command, parent: click.Context | None, name: str) -> list[str]:
    width = {"terminal_width": 80, "max_content_width": 80}  # what fits beside the two menus of the site
    context = click.Context(command, info_name=name, parent=parent, **width, **command.context_settings)
    sections = [f"\n## {context.command_path}\n\n```text\n{command.get_help(context).strip()}\n```\n"]
    if isinstance(command, click.Group):
        for child_name in command.list_commands(context):
            child = command.get_command(context, child_name)
            assert child is not None
            sections += _sections(child, context, child_name)
    return sections


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
