"""``agentinputlab datasets``: what there is, and fetching what a person has accepted."""

from __future__ import annotations

import json
from pathlib import Path

import click

__all__ = ["datasets"]

_MIB = 2**20


@click.group("datasets")
def datasets() -> None:
    """Find benchmark data; download only what you accept.

    \b
    Examples:
      agentinputlab datasets list
      agentinputlab datasets show beir.fiqa_2018
    """


@datasets.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list.")
def list_command(as_json: bool) -> None:
    """List the benchmark cells and where each can be run; downloads nothing.

    \b
    Example:
      agentinputlab datasets list --json
    """
    from agentinputlab.benchmarks import load_benchmark_registry

    cells = load_benchmark_registry().list_cells()
    if as_json:
        click.echo(json.dumps([cell.as_dict() for cell in cells]))
        return
    width = max(len(cell.id) for cell in cells)
    for cell in cells:
        click.echo(f"{cell.id.ljust(width)}  {cell.runnable!s:<13}  {', '.join(cell.requires) or 'nothing else'}")


@datasets.command("show")
@click.argument("cell_id", metavar="ID")
def show(cell_id: str) -> None:
    """Show one benchmark cell: its task, measures, and what a number of it needs.

    \b
    Example:
      agentinputlab datasets show beir.fiqa_2018
    """
    from agentinputlab.benchmarks import load_benchmark_registry

    click.echo(json.dumps(load_benchmark_registry().get_cell(cell_id).as_dict(), indent=2, ensure_ascii=False))


@datasets.command("prepare")
@click.argument("cell_id", metavar="ID")
@click.option("--url", required=True, help="Address of the file. None is known by heart: take it from its publisher.")
@click.option("--sha256", required=True, help="Hash that the file must have.")
@click.option("--cache-dir", type=click.Path(path_type=Path), required=True, help="Where files are kept.")
@click.option("--offline", is_flag=True, help="Only look into the cache.")
@click.option("--accept-license-review", is_flag=True, help="Say that you have read the licence of the data.")
@click.option("--max-download-mib", type=click.IntRange(min=1), default=512, show_default=True, help="Longest file.")
@click.option(
    "--max-prepared-mib", type=click.IntRange(min=1), default=512, show_default=True, help="Largest unpacked."
)
def prepare(
    cell_id: str,
    url: str,
    sha256: str,
    cache_dir: Path,
    offline: bool,
    accept_license_review: bool,
    max_download_mib: int,
    max_prepared_mib: int,
) -> None:
    """Fetch the data of a cell from an address that you name, check its hash, and unpack a ZIP.

    \b
    Example:
      agentinputlab datasets prepare beir.fiqa_2018 --url https://example.org/fiqa.zip --sha256 HEX \\
        --cache-dir data --accept-license-review
    """
    from agentinputlab.benchmarks import load_benchmark_registry
    from agentinputlab.cli._places import require_place_outside_runs
    from agentinputlab.contracts.errors import ValidationError
    from agentinputlab.datasets import fetch, unpack

    cell = load_benchmark_registry().get_cell(cell_id)
    if not accept_license_review:
        raise ValidationError(
            f"the licence of the data of {cell.id} is for you to read; then add --accept-license-review"
        )
    require_place_outside_runs(cache_dir, within=True)
    path = fetch(url, sha256, cache_dir, max_bytes=max_download_mib * _MIB, offline=offline)
    click.echo(f"{path}: has the hash that was asked for")
    if path.suffix == ".zip":
        folder = cache_dir / f"{cell.id}-{sha256[:12]}"
        if not folder.exists():
            unpack(path, folder, max_bytes=max_prepared_mib * _MIB)
        click.echo(f"{folder}: unpacked")


@datasets.command("prepare-trec-sample")
@click.option("--cache-dir", type=click.Path(path_type=Path), required=True, help="Where the folder is made.")
def prepare_trec_sample(cache_dir: Path) -> None:
    """Write a tiny corpus, queries and judgements in TREC's formats, for trying retrievers.

    \b
    Example:
      agentinputlab datasets prepare-trec-sample --cache-dir data
    """
    from agentinputlab.cli._places import require_place_outside_runs
    from agentinputlab.datasets import write_trec_sample

    require_place_outside_runs(cache_dir, within=True)
    for path in write_trec_sample(cache_dir / "trec-sample"):
        click.echo(path)
