"""``ripieno demo push``: run the planar push cell with and without the safety stack, verify it, say where to look."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import click

from chamber._progress import progress_bar

__all__ = ["run_demo"]


@click.command("push")
@click.option(
    "--cell",
    "cell_path",
    type=click.Path(path_type=Path),
    help="Cell to run (YAML). Default: the preregistered cell of the package.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Run folder to make; it must not exist. Default: runs/push-<UTC timestamp>.",
)
@click.option(
    "--episodes",
    type=click.IntRange(min=1, max=10_000),
    help="Episodes per partner and condition, instead of the cell's own.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object.")
@click.option("--debug", is_flag=True, expose_value=False, help="Show the traceback of an error.")
def run_demo(cell_path: Path | None, out: Path | None, episodes: int | None, as_json: bool) -> None:
    """Run the planar push task with and without the safety stack.

    The partners are three black boxes. Takes half a minute the first time, because it compiles, and seconds later. It
    verifies its own output and says where to look.

    Example: ripieno demo push --out runs/first
    """
    # Everything is imported late: `ripieno --help` loads this module, and bad input should be answered at once.
    from chamber.cell.loading import default_cell_text, parse_cell, read_cell_text

    text = default_cell_text() if cell_path is None else read_cell_text(cell_path)
    cell = parse_cell(text, source="planar_push.yaml" if cell_path is None else str(cell_path))
    if episodes is not None:
        cell = cell.model_copy(update={"episodes": episodes})
    folder = out if out is not None else Path("runs") / f"push-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"

    from chamber.cell.runner import run_cell
    from chamber.cell_report import render_cell_page
    from chamber.cell_report.page import headline
    from ripieno.errors import IntegrityError
    from ripieno.verify import verify

    with progress_bar(cell.n_episodes) as progress:
        result = run_cell(cell, folder, cell_text=text, pages={"index.html": render_cell_page}, progress=progress)
    report = verify(folder, expect=result.digest)
    if not report.ok:
        raise IntegrityError(f"the run that was just written does not verify: {report.first_problem}")
    summary = {
        "folder": str(folder),
        "page": str(folder / "index.html"),
        "digest": result.digest,
        "verified": report.ok,
        "headline": headline(result.record),
    }
    if as_json:
        click.echo(json.dumps(summary))
        return
    click.echo(summary["headline"])
    click.echo(f"Verified: every file of {folder} is as it was written (digest {result.digest}).")
    click.echo(f"Look at {folder / 'index.html'}; check again with: ripieno verify {folder} --expect {result.digest}")
