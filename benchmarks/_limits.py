"""Where derived force limits go: into the package, where they define a task, only with ``--publish``.

A benchmark that runs among all others, on any machine, must not change what success means.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import chamber.envs
from ripieno.canonical import INDENTED_LINE
from ripieno.files import write_atomic

PACKAGE_DATA = Path(chamber.envs.__file__).parent / "data"


def publish_if_asked(
    file_name: str, data: dict[str, object], *, arguments: Sequence[str] | None = None, folder: Path = PACKAGE_DATA
) -> bool:
    """Write the limits and their episodes for the task to read, if the command line says ``--publish``.

    Args:
        file_name: in ``folder``.
        data: limits, rule and episodes.
        arguments: of the command line; None is that of the process.
        folder: the package data of `chamber.envs`.

    Returns:
        Whether it was written.
    """
    parser = argparse.ArgumentParser(description="Derives force limits from matched episodes.")
    parser.add_argument("--publish", action="store_true", help=f"make them the limits of the task: write {file_name}")
    if not parser.parse_args(arguments).publish:
        print(f"{folder / file_name} stays as it is; --publish would write it")
        return False
    write_atomic(folder / file_name, INDENTED_LINE.dumps(data))
    (folder / file_name).chmod(0o644)
    return True
