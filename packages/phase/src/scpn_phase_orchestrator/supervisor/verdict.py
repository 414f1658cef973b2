"""What a run achieved, judged on the layers that its spec calls good and bad."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scpn_phase_orchestrator.binding.types import BindingSpec
from scpn_phase_orchestrator.monitor.coherence import lock_level, longest_beat_s

__all__ = [
    "JUDGED_SHARE",
    "MARGIN",
    "LayerFinding",
    "Outcome",
    "Verdict",
    "judge",
    "judged_steps",
    "longest_bad_beat_s",
]

JUDGED_SHARE = 0.25
"""Share of a run, at its end, that the verdict looks at, unless a beat of a bad layer is longer."""
STEADY_R = 0.1
"""Range of R over the judged steps up to which a good layer counts as settled."""
MARGIN = 0.05
"""Difference of two scores of one outcome below which neither run counts as better."""


class Outcome(StrEnum):
    """What was achieved; `rank` orders outcomes from worst to best."""

    NEITHER = "neither"
    BAD_APART_ONLY = "bad_apart_only"
    GOOD_TOGETHER_ONLY = "good_together_only"
    ACHIEVED = "achieved"

    @property
    def rank(self) -> int:
        """0 for nothing, 1 for one half of the objective, 2 for the whole."""
        return _RANKS[self]


_RANKS = {Outcome.NEITHER: 0, Outcome.BAD_APART_ONLY: 1, Outcome.GOOD_TOGETHER_ONLY: 1, Outcome.ACHIEVED: 2}


@dataclass(frozen=True)
class LayerFinding:
    """One layer at the end of a run.

    Attributes:
        name: the layer.
        is_good: whether the spec wants it coherent (otherwise apart).
        mean_r: mean order parameter over the judged steps.
        lock: coherence beyond chance over the judged steps, 0 to 1.
        holds: whether it is as the spec wants it.
    """

    name: str
    is_good: bool
    mean_r: float
    lock: float
    holds: bool


@dataclass(frozen=True)
class Verdict:
    """What a run achieved.

    Attributes:
        outcome: the judgement.
        score: weighted mean of the good layers' R and of one minus the bad layers' lock level, 0 to 1.
        layers: the finding for every layer of the objective.
        judged_steps: steps at the end of the run that were looked at.
        is_short: whether that is less than one beat of a bad layer, or a good layer is still on its way in a run
            shorter than its beat.
    """

    outcome: Outcome
    score: float
    layers: tuple[LayerFinding, ...]
    judged_steps: int
    is_short: bool = False

    @property
    def is_achieved(self) -> bool:
        """Whether every good layer holds together and every bad one stays apart."""
        return self.outcome is Outcome.ACHIEVED

    @property
    def good_r(self) -> float | None:
        """Lowest mean R of the good layers; ``None`` without one."""
        return min((layer.mean_r for layer in self.layers if layer.is_good), default=None)

    @property
    def bad_lock(self) -> float | None:
        """Highest lock level of the bad layers; ``None`` without one."""
        return max((layer.lock for layer in self.layers if not layer.is_good), default=None)

    @property
    def sentence(self) -> str:
        """The judgement in words."""
        good = [layer for layer in self.layers if layer.is_good]
        bad = [layer for layer in self.layers if not layer.is_good]
        parts = [_good_part(good), _bad_part(bad)]
        heading = {
            Outcome.ACHIEVED: "Achieved",
            Outcome.GOOD_TOGETHER_ONLY: "Half achieved",
            Outcome.BAD_APART_ONLY: "Half achieved",
            Outcome.NEITHER: "Not achieved",
        }[self.outcome]
        short = ", less than one beat of a layer: run it longer" if self.is_short else ""
        return f"{heading}: {'; '.join(part for part in parts if part)} (last {self.judged_steps} steps{short})."

    def better_than(self, other: Verdict) -> bool:
        """Tell whether this run did better: a better outcome, or the same one with a clearly higher score."""
        if self.outcome.rank != other.outcome.rank:
            return self.outcome.rank > other.outcome.rank
        return self.score > other.score + MARGIN

    def to_record(self) -> dict[str, Any]:
        """Give the verdict as JSON-safe values."""
        return {
            "outcome": self.outcome.value,
            "sentence": self.sentence,
            "score": self.score,
            "good_r": self.good_r,
            "bad_lock": self.bad_lock,
            "judged_steps": self.judged_steps,
            "is_short": self.is_short,
            "layers": [
                {
                    "name": layer.name,
                    "objective": "good" if layer.is_good else "bad",
                    "mean_r": layer.mean_r,
                    "lock": layer.lock,
                    "holds": layer.holds,
                }
                for layer in self.layers
            ],
        }


def longest_bad_beat_s(spec: BindingSpec) -> float:
    """Give the longest beat of the bad layers in seconds; 0 where none beats."""
    bad = spec.objectives.bad_layers
    return max((longest_beat_s(layer.omegas or ()) for layer in spec.layers if layer.index in bad), default=0.0)


def judged_steps(spec: BindingSpec, steps: int) -> int:
    """Give how many steps at the end of a run of ``steps`` are judged, at least 1."""
    beat_steps = longest_bad_beat_s(spec) / spec.sample_period_s
    return max(1, round(steps * JUDGED_SHARE), math.ceil(min(steps, beat_steps)))


def judge(spec: BindingSpec, layer_r: NDArray[np.float64]) -> Verdict:
    """Judge a run by the coherence of its layers over its last quarter, or one beat of a bad layer if that is longer.

    A good layer holds when its mean R reaches ``spec.supervisor.good_target``; a bad one when its lock level
    stays at or below ``spec.supervisor.bad_ceiling``.

    Args:
        spec: the spec that ran.
        layer_r: order parameter of every layer at every step, shape ``(T, L)``, T at least 1.

    Raises:
        ValueError: no step was recorded, or the number of layers differs.
    """
    steps, n_layers = layer_r.shape
    if steps < 1:
        raise ValueError("a run without a step has no verdict")
    if n_layers != len(spec.layers):
        raise ValueError(f"layer_r must have {len(spec.layers)} columns, got {n_layers}")
    judged = judged_steps(spec, steps)
    tail = layer_r[-judged:]
    sizes = np.array([max(1, len(layer.oscillator_ids)) for layer in spec.layers], dtype=np.int64)
    mean_r = tail.mean(axis=0)
    lock = lock_level((tail * tail).mean(axis=0), sizes)
    position = {layer.index: k for k, layer in enumerate(spec.layers)}
    findings: list[LayerFinding] = []
    for is_good, indices in ((True, spec.objectives.good_layers), (False, spec.objectives.bad_layers)):
        for index in indices:
            if index not in position:
                continue
            k = position[index]
            holds = mean_r[k] >= spec.supervisor.good_target if is_good else lock[k] <= spec.supervisor.bad_ceiling
            findings.append(LayerFinding(spec.layers[k].name, is_good, float(mean_r[k]), float(lock[k]), bool(holds)))
    is_short = judged < longest_bad_beat_s(spec) / spec.sample_period_s or any(
        steps < longest_beat_s(layer.omegas or ()) / spec.sample_period_s and np.ptp(tail[:, k]) > STEADY_R
        for k, layer in enumerate(spec.layers)
        if layer.index in spec.objectives.good_layers
    )
    return Verdict(_outcome(findings), _score(spec, findings), tuple(findings), judged, is_short)


def _outcome(findings: Sequence[LayerFinding]) -> Outcome:
    good_holds = all(layer.holds for layer in findings if layer.is_good)
    bad_holds = all(layer.holds for layer in findings if not layer.is_good)
    if good_holds and bad_holds:
        return Outcome.ACHIEVED
    # A spec that declares one side only has achieved nothing when that side fails.
    if good_holds and any(layer.is_good for layer in findings):
        return Outcome.GOOD_TOGETHER_ONLY
    if bad_holds and any(not layer.is_good for layer in findings):
        return Outcome.BAD_APART_ONLY
    return Outcome.NEITHER


def _score(spec: BindingSpec, findings: Sequence[LayerFinding]) -> float:
    total, weights = 0.0, 0.0
    good = [layer.mean_r for layer in findings if layer.is_good]
    bad = [1.0 - layer.lock for layer in findings if not layer.is_good]
    for weight, values in ((spec.objectives.good_weight, good), (spec.objectives.bad_weight, bad)):
        if values:
            total += weight * sum(values) / len(values)
            weights += weight
    return total / weights if weights > 0 else 0.0


def _names(layers: Sequence[LayerFinding]) -> str:
    return ", ".join(layer.name for layer in layers)


def _good_part(good: Sequence[LayerFinding]) -> str:
    if not good:
        return ""
    loose = [layer for layer in good if not layer.holds]
    if not loose:
        return f"all good layers hold together (lowest mean R {min(layer.mean_r for layer in good):.2f})"
    return f"{_names(loose)} should hold together but R is {min(layer.mean_r for layer in loose):.2f}"


def _bad_part(bad: Sequence[LayerFinding]) -> str:
    if not bad:
        return ""
    locked = [layer for layer in bad if not layer.holds]
    if not locked:
        return f"all bad layers are kept apart (highest lock {max(layer.lock for layer in bad):.2f})"
    verb = "is" if len(locked) == 1 else "are"
    return f"{_names(locked)} should stay apart but {verb} locked ({max(layer.lock for layer in locked):.2f})"
