"""The commands that list bounded mutations of rules, nets and topologies for review; none of them acts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from scpn_phase_orchestrator.runtime.cli._json_input import (
    BUNDLE_VERSION,
    INPUT_FILE,
    array_of_objects_field,
    emit,
    failing_as,
    load_json,
    load_json_object,
    output_option,
    read_text,
    with_bundle_hash,
)

if TYPE_CHECKING:
    from scpn_phase_orchestrator.supervisor._grammar_review import RankedCandidate, ReviewCandidate

__all__ = ["evolutionary_petri_mutation", "evolutionary_policy_dsl_search", "evolutionary_topology_mutation"]

_COUNT = click.IntRange(min=1)
_POSITIVE = click.FloatRange(min=0.0, min_open=True)
_NOT_NEGATIVE = click.FloatRange(min=0.0)


MOST_CANDIDATES = 100_000
"""Most candidates of all generations together: nobody reviews more, and a bundle is held in memory."""


def _refuse_too_many(generations: int, population: int) -> None:
    if generations * population > MOST_CANDIDATES:
        raise click.UsageError(
            f"{generations} generations of {population} candidates are more than {MOST_CANDIDATES} candidates"
        )


def _scores_option(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "--scores",
        type=INPUT_FILE,
        default=None,
        help="JSON object of candidate id to score (higher is better), e.g. from replays; adds a ranked shortlist.",
    )(command)


def _shortlist_option(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "--shortlist", "shortlist_size", type=_COUNT, default=5, show_default=True, help="Longest shortlist."
    )(command)


def _ranked(
    scores: Path | None, candidates: tuple[ReviewCandidate, ...], shortlist_size: int
) -> tuple[RankedCandidate, ...] | None:
    if scores is None:
        return None
    from scpn_phase_orchestrator.supervisor._grammar_review import rank_candidates, scores_as_evaluator

    given = load_json_object(scores, artifact="scores")
    return rank_candidates(candidates, scores_as_evaluator(given, candidates), limit=shortlist_size)


def _emit_grammar_bundle(
    grammar: str, report: Mapping[str, Any], shortlist: tuple[RankedCandidate, ...] | None, output: Path | None
) -> None:
    bundle = with_bundle_hash(
        {
            "schema": "scpn_evolutionary_grammar_review_bundle_v1",
            "version": BUNDLE_VERSION,
            "grammar": grammar,
            "execution_disabled": True,
            "actuation_permitted": False,
            "live_merge_permitted": False,
            "hot_patch_permitted": False,
            "operator_review_required": True,
            "non_actuating": True,
            "report": dict(report),
        }
    )
    if shortlist is not None:
        bundle["shortlist"] = [place.to_audit_record() for place in shortlist]
    emit(bundle, output, artifact="evolutionary grammar review bundle")


@click.command("evolutionary-policy-dsl-search")
@click.argument("policy_dsl_file", type=INPUT_FILE)
@click.option("--generations", type=_COUNT, default=2, show_default=True, help="Number of generations.")
@click.option("--population", type=_COUNT, default=6, show_default=True, help="Candidates per generation.")
@click.option("--mutation-step", type=_POSITIVE, default=0.05, show_default=True, help="Smallest change of a constant.")
@_scores_option
@_shortlist_option
@output_option
def evolutionary_policy_dsl_search(
    policy_dsl_file: Path,
    generations: int,
    population: int,
    mutation_step: float,
    scores: Path | None,
    shortlist_size: int,
    output: Path | None,
) -> None:
    """List bounded mutations of policy rules for review.

    POLICY_DSL_FILE holds one rule a line: rule NAME: if METRIC OP NUMBER [and ...] then set TARGET = NUMBER. Every
    candidate moves one constant; those that leave [0, 1] are rejected. Nothing is selected unless you give scores, and
    nothing is applied.

    \b
    Examples:
      spo evolutionary-policy-dsl-search rules.dsl
      spo evolutionary-policy-dsl-search rules.dsl --generations 1 --scores scores.json -o bundle.json
    """
    from scpn_phase_orchestrator.supervisor.evolutionary_policy_dsl import run_offline_evolutionary_policy_dsl_search

    _refuse_too_many(generations, population)
    text = read_text(policy_dsl_file, artifact="policy DSL")
    with failing_as("evolutionary policy-DSL search"):
        report = run_offline_evolutionary_policy_dsl_search(
            text, generation_count=generations, population_size=population, mutation_step=mutation_step
        )
        shortlist = _ranked(scores, report.candidates, shortlist_size)
    _emit_grammar_bundle("policy-dsl", report.to_audit_record(), shortlist, output)


@click.command("evolutionary-petri-mutation")
@click.argument("net_json", type=INPUT_FILE)
@click.option("--generations", type=_COUNT, default=2, show_default=True, help="Number of generations.")
@click.option("--candidates-per-generation", type=_COUNT, default=6, show_default=True, help="Candidates in each.")
@click.option("--mutation-step", type=_POSITIVE, default=0.1, show_default=True, help="Relative size of a change.")
@click.option("--max-arc-weight", type=_COUNT, default=4, show_default=True, help="Largest weight of a new arc.")
@click.option("--max-token-bound", type=_COUNT, default=128, show_default=True, help="Largest bound of a place.")
@_scores_option
@_shortlist_option
@output_option
def evolutionary_petri_mutation(
    net_json: Path,
    generations: int,
    candidates_per_generation: int,
    mutation_step: float,
    max_arc_weight: int,
    max_token_bound: int,
    scores: Path | None,
    shortlist_size: int,
    output: Path | None,
) -> None:
    """List bounded mutations of a Petri net for review.

    NET_JSON describes places, transitions with guard weights, and arcs. Every candidate adds one arc, moves one guard
    weight or moves one token bound of the given net; nothing is applied.

    \b
    Example:
      spo evolutionary-petri-mutation net.json --candidates-per-generation 4
    """
    from scpn_phase_orchestrator.supervisor.evolutionary_petri_grammar import (
        run_offline_evolutionary_petri_mutation_grammar,
    )

    _refuse_too_many(generations, candidates_per_generation)
    net = load_json(net_json, artifact="net")
    if not isinstance(net, dict | list):
        raise click.ClickException("net payload must be a JSON object or array")
    with failing_as("evolutionary Petri mutation"):
        plan = run_offline_evolutionary_petri_mutation_grammar(
            net,
            generation_count=generations,
            candidates_per_generation=candidates_per_generation,
            mutation_step=mutation_step,
            max_arc_weight=max_arc_weight,
            max_token_bound=max_token_bound,
        )
        shortlist = _ranked(scores, plan.candidates, shortlist_size)
    _emit_grammar_bundle("petri", plan.to_audit_record(), shortlist, output)


@click.command("evolutionary-topology-mutation")
@click.argument("topology_json", type=INPUT_FILE)
@click.option("--generations", type=_COUNT, default=2, show_default=True, help="Number of generations.")
@click.option("--population", type=_COUNT, default=8, show_default=True, help="Candidates per generation.")
@click.option("--mutation-step", type=_POSITIVE, default=0.05, show_default=True, help="Size of a change.")
@click.option("--min-edge-weight", type=_NOT_NEGATIVE, default=0.0, show_default=True, help="Smallest weight.")
@click.option("--max-edge-weight", type=_NOT_NEGATIVE, default=10.0, show_default=True, help="Largest weight.")
@click.option(
    "--edge-add-base-weight", type=_NOT_NEGATIVE, default=0.4, show_default=True, help="What new edges start from."
)
@click.option(
    "--max-add-candidates", type=click.IntRange(min=0), default=16, show_default=True, help="Most edges to be added."
)
@_scores_option
@_shortlist_option
@output_option
def evolutionary_topology_mutation(
    topology_json: Path,
    generations: int,
    population: int,
    mutation_step: float,
    min_edge_weight: float,
    max_edge_weight: float,
    edge_add_base_weight: float,
    max_add_candidates: int,
    scores: Path | None,
    shortlist_size: int,
    output: Path | None,
) -> None:
    """List bounded mutations of a coupling topology for review.

    TOPOLOGY_JSON is {"nodes": [{"id": 1, "community": "a"}, ...], "edges": [{"nodes": [1, 2], "weight": 0.5}, ...]}.
    Every candidate adds, removes or reweights one edge, or bridges two communities; nothing is applied.

    \b
    Example:
      spo evolutionary-topology-mutation topology.json --population 6
    """
    from scpn_phase_orchestrator.supervisor.evolutionary_topology_grammar import (
        run_offline_evolutionary_topology_mutation_search,
    )

    _refuse_too_many(generations, population)
    topology = load_json_object(topology_json, artifact="topology")
    nodes, edges = array_of_objects_field(topology, "nodes"), array_of_objects_field(topology, "edges")
    with failing_as("evolutionary topology mutation"):
        report = run_offline_evolutionary_topology_mutation_search(
            nodes,
            edges,
            generation_count=generations,
            population_size=population,
            mutation_step=mutation_step,
            min_edge_weight=min_edge_weight,
            max_edge_weight=max_edge_weight,
            edge_add_base_weight=edge_add_base_weight,
            max_add_candidates=max_add_candidates,
        )
        shortlist = _ranked(scores, report.candidates, shortlist_size)
    _emit_grammar_bundle("topology", report.to_audit_record(), shortlist, output)
