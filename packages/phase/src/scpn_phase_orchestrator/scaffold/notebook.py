"""A notebook that walks a reviewer through a generated pack."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["review_notebook"]

_LOAD = """\
import json
from pathlib import Path

from scpn_phase_orchestrator.binding import binding_warnings, load_binding_spec, validate_binding_spec

spec = load_binding_spec("binding_spec.yaml")
audit = json.loads(Path("audit.json").read_text(encoding="utf-8"))
print("template:", audit["template"]["pack"], " confidence:", audit["retrieval"]["confidence"])
print("errors:", validate_binding_spec(spec), " warnings:", binding_warnings(spec))"""

_LAYERS = """\
for layer in spec.layers:
    side = (
        "good" if layer.index in spec.objectives.good_layers
        else "bad" if layer.index in spec.objectives.bad_layers
        else "not judged"
    )
    print(f"{layer.index} {layer.name}: {len(layer.oscillator_ids)} oscillators, {side}, omegas {layer.omegas}")"""

_COMPARE = """\
from scpn_phase_orchestrator.runtime.compare import compare

comparison = compare(spec, steps=500, seeds=[42], binding_spec_path=Path("binding_spec.yaml"))
before, after = comparison.pairs[0].verdicts
print("open loop: ", before.sentence)
print("supervised:", after.sentence)
print(comparison.sentence)"""


def review_notebook(name: str, intent: str, confidence_in_words: str) -> str:
    """Give a notebook (nbformat 4.5) that loads, shows and compares the pack in its own folder."""
    cells = [
        _markdown(
            "intent",
            f"# Review of {name}\n\nWritten by `spo generate` for:\n\n> {' '.join(intent.split())}\n\n"
            f"Confidence of the template: {confidence_in_words}.\n\nRun the cells inside the folder of the pack.",
        ),
        _code("load", _LOAD),
        _markdown("layers-question", "Do these layers, frequencies and sides say what was meant?"),
        _code("layers", _LAYERS),
        _markdown("compare-question", "Does supervision help?"),
        _code("compare", _COMPARE),
        _markdown(
            "decision",
            "## Decision\n\n* [ ] layers and frequencies are mine\n* [ ] knobs and limits exist in my system\n"
            "* [ ] the README says what the pack models",
        ),
    ]
    notebook = {
        "cells": cells,
        "metadata": {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(notebook, indent=1, sort_keys=True) + "\n"


def _markdown(identifier: str, text: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "id": identifier, "metadata": {}, "source": text.splitlines(keepends=True)}


def _code(identifier: str, text: str) -> dict[str, Any]:
    return {
        "cell_type": "code",
        "execution_count": None,
        "id": identifier,
        "metadata": {},
        "outputs": [],
        "source": text.splitlines(keepends=True),
    }
