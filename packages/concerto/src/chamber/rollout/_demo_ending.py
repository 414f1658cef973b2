"""How a demo ends: its folder is verified, and what came out is said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from ripieno.errors import IntegrityError
from ripieno.verify import verify

__all__ = ["say_ending"]


def say_ending(
    folder: Path, digest: str, *, as_json: bool, headlines: list[str], summary: dict[str, Any], next_step: str
) -> None:
    """Verify what was just written, and say what came out and where to look.

    Args:
        folder: the run folder.
        digest: what pins it.
        as_json: print one JSON object instead of sentences.
        headlines: what came out.
        summary: what came out, as further fields of the JSON object.
        next_step: the end of the last sentence: what to do next.

    Raises:
        IntegrityError: the folder does not verify.
    """
    report = verify(folder, expect=digest)
    if not report.ok:
        raise IntegrityError(f"the run that was just written does not verify: {report.first_problem}")
    page = folder / "index.html"
    if as_json:
        where = {"folder": str(folder), "page": str(page), "digest": digest, "verified": report.ok}
        click.echo(json.dumps({**where, **summary}))
        return
    for sentence in headlines:
        click.echo(sentence)
    click.echo(f"Verified: every file of {folder} is as it was written (digest {digest}).")
    click.echo(f"Look at {page}; {next_step}")
