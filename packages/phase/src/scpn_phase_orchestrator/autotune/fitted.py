"""A proposed spec from fitted coupling."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ripieno.files import sha256_file
from scpn_phase_orchestrator.autotune.proposal import Proposal, grouped_by_frequency, propose
from scpn_phase_orchestrator.coupling.regression import CouplingFit

__all__ = ["propose_from_fit"]


def propose_from_fit(fit: CouplingFit, source: Path, *, name: str | None = None) -> Proposal:
    """Propose a spec with the fitted frequencies, coupled by the distinguishable couplings (template ``fitted``).

    ``base_strength``, which a run does not use beside a template, is the median magnitude of these couplings.

    Args:
        fit: what was found.
        source: the file that was fitted.
        name: of the spec; by default that of the source. Characters that a name cannot have become ``_``.

    Raises:
        BindingError: the names or numbers give no valid spec.
        OSError: the source cannot be read for its hash.
    """
    matrix = fit.matrix(distinguishable_only=True)
    found = np.abs(matrix[matrix != 0.0])
    comments = [f"Source: {source.name}; {fit.n_samples} samples, {fit.n_blocks} independent blocks."]
    comments += [
        f"omega of {f.name}: {f.omega:.6g} rad/s ({100 * fit.confidence:g} % interval {f.low:.6g} to {f.high:.6g})."
        for f in fit.frequencies
    ]
    comments += [
        f"{e.source} -> {e.receiver}: K {e.strength:.4g} rad/s ({e.low:.4g} to {e.high:.4g})"
        + (f", lag {e.lag:.3f} rad, which a template cannot say." if e.lag is not None else ".")
        for e in fit.edges
        if e.distinguishable
    ]
    if found.size:
        comments.append("Template 'fitted' is the matrix that couples a run; base_strength is unused beside it.")
    comments.append(
        "Question for you: which rhythms should lock (good_layers) and which should not (bad_layers)? The data cannot "
        "say; all layers are called good until you decide."
    )
    if not found.size:
        comments.append("No coupling is distinguishable from zero: base_strength is 0.")
    comments += [f"Warning: {warning}." for warning in fit.warnings]
    return propose(
        "".join(c if c.isalnum() or c in "_-" else "_" for c in (name or source.stem)) or "fitted",
        grouped_by_frequency(fit.names, [f.omega for f in fit.frequencies], "rhythm"),
        channel="P",
        extractor_type="hilbert",
        strength=float(np.median(found)) if found.size else 0.0,
        template=("fitted", fit.names, matrix) if found.size else None,
        comments=comments,
        evidence={"fit": fit.to_record(), "kind": "fit", "path": source.name, "sha256": sha256_file(source)},
    )
