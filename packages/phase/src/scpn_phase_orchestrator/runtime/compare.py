"""Open loop beside supervised, from the same initial phases: what supervision changed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from scpn_phase_orchestrator.binding.types import BindingSpec
from scpn_phase_orchestrator.runtime.simulation import SimulationResult, load_rules_beside, simulate
from scpn_phase_orchestrator.supervisor.policy_rules import PolicyRule
from scpn_phase_orchestrator.supervisor.verdict import MARGIN, Verdict

__all__ = ["Comparison", "Effect", "SeedComparison", "compare"]


class Effect(StrEnum):
    """What supervision did to the verdict."""

    BETTER = "better"
    EQUAL = "equal"
    WORSE = "worse"


@dataclass(frozen=True)
class SeedComparison:
    """Both runs from one seed.

    Attributes:
        seed: of the initial phases.
        open_loop: the run without actions.
        supervised: the run with supervisor and rules.
    """

    seed: int
    open_loop: SimulationResult
    supervised: SimulationResult

    @property
    def verdicts(self) -> tuple[Verdict, Verdict]:
        """Verdict of the open loop, verdict of the supervised run."""
        before, after = self.open_loop.verdict, self.supervised.verdict
        if before is None or after is None:
            raise ValueError("a comparison needs runs of at least one step")
        return before, after

    @property
    def uplift(self) -> float:
        """Score of the supervised run minus score of the open loop, -1 to 1."""
        before, after = self.verdicts
        return after.score - before.score

    @property
    def effect(self) -> Effect:
        """Which run has the better verdict; scores that differ by little of one outcome are equal."""
        before, after = self.verdicts
        if after.better_than(before):
            return Effect.BETTER
        return Effect.WORSE if before.better_than(after) else Effect.EQUAL


@dataclass(frozen=True)
class Comparison:
    """All seeds.

    Attributes:
        spec_name: name of the spec.
        steps: steps of every run.
        pairs: one comparison per seed.
    """

    spec_name: str
    steps: int
    pairs: tuple[SeedComparison, ...]

    @property
    def mean_uplift(self) -> float:
        """Mean of the uplifts."""
        return sum(pair.uplift for pair in self.pairs) / len(self.pairs)

    @property
    def effect(self) -> Effect:
        """The effect on more seeds than its opposite; where these balance, the sign of a clear mean uplift."""
        effects = [pair.effect for pair in self.pairs]
        surplus = effects.count(Effect.BETTER) - effects.count(Effect.WORSE)
        if surplus == 0 and abs(self.mean_uplift) <= MARGIN:
            return Effect.EQUAL
        return Effect.BETTER if (surplus or self.mean_uplift) > 0 else Effect.WORSE

    @property
    def sentence(self) -> str:
        """The effect in words."""
        count = len(self.pairs)
        seeds = f"{count} seed{'' if count == 1 else 's'}"
        if self.effect is Effect.EQUAL:
            return f"Supervision changed the verdict on none of {seeds} clearly (mean uplift {self.mean_uplift:+.3f})."
        concerned = [pair.verdicts for pair in self.pairs if pair.effect is self.effect]
        outcomes = sum(before.outcome.rank != after.outcome.rank for before, after in concerned)
        better, higher = ("better", "higher") if self.effect is Effect.BETTER else ("worse", "lower")
        parts = [f"a {better} outcome on {outcomes} of {seeds}"] if outcomes else []
        if len(concerned) > outcomes:
            parts.append(f"the same outcome with a {higher} score on {len(concerned) - outcomes} of {seeds}")
        return f"Supervision gave {' and '.join(parts)} (mean uplift {self.mean_uplift:+.3f})."

    def to_record(self) -> dict[str, Any]:
        """Give the comparison as JSON-safe values."""
        return {
            "spec_name": self.spec_name,
            "steps": self.steps,
            "effect": self.effect.value,
            "sentence": self.sentence,
            "mean_uplift": self.mean_uplift,
            "seeds": [
                {
                    "seed": pair.seed,
                    "effect": pair.effect.value,
                    "uplift": pair.uplift,
                    "open_loop": {**pair.open_loop.to_record(), "verdict": pair.verdicts[0].to_record()},
                    "supervised": {**pair.supervised.to_record(), "verdict": pair.verdicts[1].to_record()},
                }
                for pair in self.pairs
            ],
        }


def compare(
    spec: BindingSpec,
    *,
    steps: int = 1000,
    seeds: Sequence[int] = (42, 43, 44),
    binding_spec_path: Path | None = None,
    rules: Sequence[PolicyRule] | None = None,
    method: str | None = None,
    substeps: int | None = None,
    on_step: Callable[[object], None] | None = None,
) -> Comparison:
    """Run a spec twice from every seed, without and with supervision.

    Args:
        spec: a valid spec.
        steps: steps of every run, at least 1.
        seeds: of the initial phases, at least one.
        binding_spec_path: where the spec came from; rules are read beside it.
        rules: rules in place of those beside the spec.
        method: integration method in place of the spec's.
        substeps: parts of a step in place of the spec's.
        on_step: told of every step of every run; for progress.

    Raises:
        ValueError: no step or no seed, and whatever `simulate` raises.
    """
    if steps < 1:
        raise ValueError(f"steps must be at least 1 for a comparison, got {steps}")
    if not seeds:
        raise ValueError("seeds must hold at least one seed, got none")
    if rules is None:
        rules = [] if binding_spec_path is None else load_rules_beside(spec, binding_spec_path)

    def run(seed: int, *, policy_enabled: bool) -> SimulationResult:
        return simulate(
            spec,
            steps=steps,
            seed=seed,
            policy_enabled=policy_enabled,
            rules=rules,
            method=method,
            substeps=substeps,
            on_step=on_step,
        )

    pairs = tuple(
        SeedComparison(seed, run(seed, policy_enabled=False), run(seed, policy_enabled=True)) for seed in seeds
    )
    return Comparison(spec.name, steps, pairs)
