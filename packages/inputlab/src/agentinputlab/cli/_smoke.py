"""``agentinputlab smoke``: one tiny experiment without a network, explained."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

import click

if TYPE_CHECKING:
    from agentinputlab.contracts.lifecycle import Intervention

__all__ = ["run_smoke", "smoke"]


@click.command("smoke")
@click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object.")
@click.pass_context
def smoke(ctx: click.Context, as_json: bool) -> None:
    """Run one tiny experiment without a network and say what happened.

    A query is expanded with a passage that a model could have written, and the expanded query searches two documents.
    It proves that the parts fit together here, and nothing about any model.

    Example: agentinputlab smoke --json
    """
    result = run_smoke()
    if as_json:
        click.echo(json.dumps(result))
    else:
        word, top = "OK" if result["ok"] else "FAILED", result["top_document_id"]
        click.echo(f"offline smoke: {word} - {result['release_id']} -> {top}")
        click.echo("The query 'capital france' was expanded by a prepared passage, without any model or network;")
        click.echo(f"the expanded query then ranked two documents, and {top!r} came first (wanted: 'fr').")
        click.echo("Next: agentinputlab retail run --treatment plan.plan_and_solve.ps_prompt --out runs/first")
    ctx.exit(0 if result["ok"] else 1)


def run_smoke() -> dict[str, Any]:
    """Run query2doc's fixture and BM25 and give what came out."""
    from agentinputlab.algorithms.rewrite._fixture import (
        FIXTURE_DOCUMENTS,
        FIXTURE_PROFILE,
        FIXTURE_STATE,
        FixtureQuery2Doc,
    )
    from agentinputlab.backends.retrieval import Document, InMemoryBM25Retriever
    from agentinputlab.contracts.lifecycle import InterventionContext
    from agentinputlab.runner import InterventionRunner

    record = InterventionRunner().run(cast("Intervention", FixtureQuery2Doc()), FIXTURE_STATE, InterventionContext())
    expanded = record.patch.apply(FIXTURE_STATE)
    documents = [Document(doc_id, text) for doc_id, text in FIXTURE_DOCUMENTS.items()]
    top = InMemoryBM25Retriever(documents).retrieve(expanded.query, top_k=1)[0].document.doc_id
    return {
        "ok": top == "fr" and str(record.status) == "success",
        "offline": True,
        "profile_kind": FIXTURE_PROFILE,
        "release_id": record.release_id,
        "input_state_hash": record.input_state_hash,
        "patch_hash": record.patch.patch_hash,
        "top_document_id": top,
    }
