"""From one sentence to a pack for review: the nearest pack lends its structure, nothing is invented.

No language model takes part. `retrieval` finds the pack whose README speaks most about the words of the sentence; its
layers, knobs, objectives and rules become the draft, with another name and another number of oscillators. How much of
the sentence that pack knows is said as a confidence, and a low one in words.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ripieno.files import sha256_file
from scpn_phase_orchestrator.binding.loader import SPEC_FILE_NAME, load_binding_spec
from scpn_phase_orchestrator.binding.types import BindingSpec, HierarchyLayer
from scpn_phase_orchestrator.binding.validator import binding_warnings, validate_binding_spec
from scpn_phase_orchestrator.binding.writer import binding_yaml
from scpn_phase_orchestrator.exceptions import BindingError
from scpn_phase_orchestrator.scaffold.catalogue import Pack, all_packs
from scpn_phase_orchestrator.scaffold.folder import check_name
from scpn_phase_orchestrator.scaffold.notebook import review_notebook
from scpn_phase_orchestrator.scaffold.retrieval import CONFIDENCE_DEFINITION, Retrieval, retrieve, words_of

__all__ = ["GeneratedPack", "adapt_pack", "generate_pack"]

MAX_INTENT = 2000
"""Longest accepted sentence, in characters."""
FALLBACK = "minimal_domain"
"""Whose structure is shown when no pack knows a word of the sentence."""
SEED = 42
SAME_RHYTHM = 0.05
"""Half-width of frequencies around one that the template gives alone, relative to it."""
_SIDES = {"good": "together", "bad": "apart", "": "(not judged)"}


@dataclass(frozen=True)
class GeneratedPack:
    """A pack for review.

    Attributes:
        name: of the pack.
        files: text by file name.
        retrieval: how its template was found.
        template: whose structure it has.
        spec: what it says.
        warnings: of the validator.
        dry_run_r: mean order parameter of the layers after the dry run.
    """

    name: str
    files: dict[str, str]
    retrieval: Retrieval
    template: str
    spec: BindingSpec
    warnings: tuple[str, ...]
    dry_run_r: float


def generate_pack(
    intent: str,
    *,
    name: str = "generated_domain",
    oscillators_per_layer: int = 8,
    dry_run_steps: int = 8,
) -> GeneratedPack:
    """Draft a pack from a sentence, run it for a few steps, and give its five files.

    Args:
        intent: what somebody wants, in English.
        name: of the pack.
        oscillators_per_layer: in every layer, at least 2.
        dry_run_steps: steps of the dry run, at least 1.

    Raises:
        BindingError: the intent says nothing or is too long, the name has other characters than ``[a-zA-Z0-9_-]``, or
            no valid spec follows.
        ValueError: a number is too small.
        EngineError: the draft diverges in the dry run.
    """
    check_name(name)
    if oscillators_per_layer < 2 or dry_run_steps < 1:
        raise ValueError("a draft needs at least 2 oscillators per layer and 1 step")
    if not words_of(intent) or len(intent) > MAX_INTENT:
        raise BindingError(
            f"the intent must say a subject in 1 to {MAX_INTENT} characters of English, got {intent[:60]!r}"
        )
    packs = all_packs()
    retrieval = retrieve(intent, packs)
    wanted = retrieval.matches[0].pack if retrieval.matches else FALLBACK
    template = next(pack for pack in packs if pack.name == wanted)
    files = {
        SPEC_FILE_NAME: _spec_text(adapt_pack(template.spec, name, oscillators_per_layer), template.name),
        "policy.yaml": _policy_text(template),
    }
    dry_run = _dry_run(files, dry_run_steps)
    files["README.md"] = _readme_text(name, intent, template.name, retrieval, dry_run)
    files["review_notebook.ipynb"] = review_notebook(name, intent, retrieval.in_words)
    audit = _audit_record(name, intent, template, retrieval, files, dry_run)
    files["audit.json"] = json.dumps(audit, indent=2, sort_keys=True) + "\n"
    return GeneratedPack(name, files, retrieval, template.name, dry_run.spec, dry_run.warnings, dry_run.mean_r)


def adapt_pack(spec: BindingSpec, name: str, oscillators_per_layer: int) -> BindingSpec:
    """Give a spec another name and other numbers of oscillators; the total coupling of each stays about the same.

    Frequencies fill the range that the layer had, evenly; a single one becomes a narrow range around itself. Coupling
    templates are left out, because they are matrices of the old size. The tier is ``research``.
    """
    sizes = sum(len(layer.oscillator_ids) for layer in spec.layers), oscillators_per_layer * len(spec.layers)
    coupling = replace(
        spec.coupling,
        base_strength=_rescaled(spec.coupling.base_strength, spec.coupling.decay_alpha, *sizes),
        templates={},
        template=None,
    )
    amplitude = spec.amplitude and replace(
        spec.amplitude,
        amp_coupling_strength=_rescaled(
            spec.amplitude.amp_coupling_strength, spec.amplitude.amp_coupling_decay, *sizes
        ),
    )
    return replace(
        spec,
        name=name,
        version="0.1.0",
        safety_tier="research",
        validation_tier="scaffold",
        layers=[_resized(layer, oscillators_per_layer) for layer in spec.layers],
        coupling=coupling,
        amplitude=amplitude,
        cross_channel_couplings=[replace(edge, template=None) for edge in spec.cross_channel_couplings],
        policy=None,
    )


def _resized(layer: HierarchyLayer, count: int) -> HierarchyLayer:
    omegas = None
    if layer.omegas:
        low, high = min(layer.omegas), max(layer.omegas)
        if low == high:
            low, high = low - SAME_RHYTHM * abs(low), high + SAME_RHYTHM * abs(high)
        omegas = [float(f"{low + (high - low) * k / (count - 1):.4g}") for k in range(count)]
    return replace(layer, oscillator_ids=[f"{layer.name}_{k}" for k in range(1, count + 1)], omegas=omegas)


def _rescaled(strength: float, decay: float, old: int, new: int) -> float:
    """Keep the mean row sum of ``strength exp(-decay |i - j|)``."""
    return float(f"{strength * _mean_row_sum(decay, old) / _mean_row_sum(decay, new):.4g}")


def _mean_row_sum(decay: float, count: int) -> float:
    total = math.fsum(2.0 * (count - gap) * math.exp(-decay * gap) for gap in range(1, count))
    return total / count if count > 1 else 1.0


def _spec_text(spec: BindingSpec, template: str) -> str:
    header = (
        f"# {spec.name}: a draft for review with the structure of the pack {template}. Nothing in it was measured.\n"
    )
    return header + binding_yaml(spec)


def _policy_text(template: Pack) -> str:
    path = template.spec.rule_file(template.path)
    header = f"# Rules of the pack {template.name}, as they stand there.\n"
    return header + (path.read_text(encoding="utf-8") if path.is_file() else "rules: []\n")


@dataclass(frozen=True)
class _DryRun:
    spec: BindingSpec
    warnings: tuple[str, ...]
    steps: int
    mean_r: float


def _dry_run(files: dict[str, str], steps: int) -> _DryRun:
    """Load, validate and run the draft from a folder of its own, as a user would."""
    from scpn_phase_orchestrator.runtime.simulation import simulate

    with TemporaryDirectory(prefix="spo-generate-") as scratch:
        for file, text in files.items():
            (Path(scratch) / file).write_text(text, encoding="utf-8")
        path = Path(scratch) / SPEC_FILE_NAME
        spec = load_binding_spec(path)
        problems = validate_binding_spec(spec)
        if problems:
            raise BindingError(f"no valid spec follows from the template: {problems[0]}")
        warnings = tuple(binding_warnings(spec))
        result = simulate(spec, steps=steps, seed=SEED, binding_spec_path=path)
    if result.history is None:
        raise ValueError(f"a dry run needs at least one step, got {steps}")
    return _DryRun(spec, warnings, steps, float(result.history.layer_r[-1].mean()))


def _readme_text(name: str, intent: str, template: str, retrieval: Retrieval, dry_run: _DryRun) -> str:
    layers = [
        f"| `{layer.name}` | {len(layer.oscillator_ids)} | {_SIDES[dry_run.spec.objectives.side_of(layer.index)]} |"
        for layer in dry_run.spec.layers
    ]
    matches = [f"* {match.pack}: {match.score:.2f} ({', '.join(match.words)})" for match in retrieval.matches]
    lines = [
        f"# {name}",
        "",
        "A draft for review, written by `spo generate` for:",
        "",
        f"> {' '.join(intent.split())}",
        "",
        "## Where it comes from",
        "",
        f"Layers, knobs, objectives and rules are those of the pack `{template}`, their names too. Frequencies fill",
        "the range that each layer has there, and the coupling keeps its sum. Nothing was measured, and nothing of the",
        "sentence above was understood beyond its words.",
        "",
        f"Confidence {retrieval.confidence:.2f} ({CONFIDENCE_DEFINITION}). In words, {retrieval.in_words}.",
        "",
        "Packs that share words with the sentence (BM25):",
        "",
        *(matches or ["* none"]),
        "",
        "## Layers",
        "",
        "| Layer | Oscillators | Should be |",
        "|---|---|---|",
        *layers,
        "",
        "## Dry run",
        "",
        f"{dry_run.steps} steps, seed {SEED}: it runs, and the mean order parameter is {dry_run.mean_r:.4f}.",
        "`spo compare` says whether supervision helps.",
    ]
    if dry_run.warnings:
        lines += ["", "## Warnings of the validator", "", *[f"* {warning}" for warning in dry_run.warnings]]
    lines += ["", "## Next", "", "Open `review_notebook.ipynb`, or:", "", "```"]
    lines += ["spo validate .", "spo compare .", "```"]
    return "\n".join(lines) + "\n"


def _audit_record(
    name: str, intent: str, template: Pack, retrieval: Retrieval, files: dict[str, str], dry_run: _DryRun
) -> dict[str, Any]:
    return {
        "record": "intent_generation",
        "name": name,
        "intent": intent,
        "intent_sha256": _sha256(intent),
        "retrieval": {
            "method": "BM25 over names and READMEs of the bundled packs",
            "matches": [
                {"pack": match.pack, "score": match.score, "words": list(match.words)} for match in retrieval.matches
            ],
            "confidence": retrieval.confidence,
            "confidence_definition": CONFIDENCE_DEFINITION,
            "confidence_in_words": retrieval.in_words,
            "unknown_words": list(retrieval.unknown_words),
        },
        "template": {"pack": template.name, "spec_sha256": sha256_file(template.path)},
        "schema_valid": True,
        "warnings": list(dry_run.warnings),
        "dry_run": {"steps": dry_run.steps, "seed": SEED, "R": dry_run.mean_r},
        "files": {file: _sha256(text) for file, text in files.items()},
        "review_required": True,
        "execution_permitted": False,
    }


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()
