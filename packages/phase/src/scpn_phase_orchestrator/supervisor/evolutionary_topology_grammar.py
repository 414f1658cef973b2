"""Bounded mutations of a coupling topology, listed for review: edges added, removed, reweighted, communities bridged.

Every candidate changes one edge of the *given* topology; nothing is selected and nothing is applied. Give an evaluator
to get a ranked shortlist. Hashes are the SHA-256 of the canonical JSON of a record whose own hash is empty.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations, pairwise, product
from typing import Any, Literal, cast

from ripieno.canonical import CANONICAL
from scpn_phase_orchestrator.exceptions import ValidationError
from scpn_phase_orchestrator.supervisor._grammar_review import REVIEW_FLAGS, RankedCandidate, rank_candidates
from scpn_phase_orchestrator.supervisor._review_fields import (
    finite_number,
    integer,
    non_negative_number,
    positive_number,
)

__all__ = [
    "TopologyEdge",
    "TopologyMutationCandidate",
    "TopologyMutationSearchReport",
    "TopologyNode",
    "read_topology",
    "run_offline_evolutionary_topology_mutation_search",
]

SCHEMA_NAME = "evolutionary_topology_mutation_grammar"
SCHEMA_VERSION = "0.1.0"
CLAIM_BOUNDARY = "offline_topology_mutation_grammar_review_only"

Operation = Literal["edge_add", "edge_remove", "edge_reweight", "community_bridge"]
_PHASES = 17
"""Number of different sizes that a change takes."""


@dataclass(frozen=True, order=True)
class TopologyNode:
    """A node and the community it belongs to, if any."""

    node_id: int
    community: str | None = None


@dataclass(frozen=True, order=True)
class TopologyEdge:
    """An undirected edge; the smaller node comes first."""

    source: int
    target: int
    weight: float = 1.0

    @property
    def pair(self) -> tuple[int, int]:
        """Both nodes."""
        return self.source, self.target


@dataclass(frozen=True)
class TopologyMutationCandidate:
    """One changed edge.

    Attributes:
        candidate_id: ``g001-c001-x001``: generation, place in it, number in the report, all from 1.
        generation: from 1.
        mutation_index: number of the candidate in the report, from 0.
        operation: ``edge_add``, ``edge_remove``, ``edge_reweight`` or ``community_bridge``.
        source: smaller node of the edge.
        target: the other one.
        original_weight: before; ``None`` for an edge that is not there.
        mutated_weight: after; ``None`` for an edge that is removed.
        mutation_delta: signed size of the change that the grammar asked for.
        status: ``accepted`` or ``blocked``.
        blocked_reasons: why it was blocked.
        candidate_hash: hash of this record with this field empty.
    """

    candidate_id: str
    generation: int
    mutation_index: int
    operation: Operation
    source: int
    target: int
    original_weight: float | None
    mutated_weight: float | None
    mutation_delta: float
    status: Literal["accepted", "blocked"]
    blocked_reasons: tuple[str, ...]
    candidate_hash: str = ""

    def to_audit_record(self) -> dict[str, Any]:
        """Give the candidate as JSON values."""
        return {**asdict(self), "blocked_reasons": list(self.blocked_reasons)}


@dataclass(frozen=True)
class TopologyMutationSearchReport:
    """Every candidate of a search.

    Attributes:
        nodes: the given nodes, sorted.
        edges: the given edges, sorted.
        source_topology_hash: hash of nodes and edges.
        generation_count: number of generations.
        population_size: candidates per generation.
        mutation_step: size of a change.
        min_edge_weight: smallest weight that a candidate may have.
        max_edge_weight: largest one.
        edge_add_base_weight: weight that new edges start from.
        max_add_candidates: most absent edges that are considered.
        candidates: in order.
        accepted_count: number of accepted candidates.
        blocked_count: number of the others.
        report_hash: hash of the record with this field empty; the shortlist is not part of it.
        shortlist: the best candidates of an evaluator; empty without one.
    """

    nodes: tuple[TopologyNode, ...]
    edges: tuple[TopologyEdge, ...]
    source_topology_hash: str
    generation_count: int
    population_size: int
    mutation_step: float
    min_edge_weight: float
    max_edge_weight: float
    edge_add_base_weight: float
    max_add_candidates: int
    candidates: tuple[TopologyMutationCandidate, ...]
    accepted_count: int
    blocked_count: int
    report_hash: str = ""
    shortlist: tuple[RankedCandidate, ...] = ()

    def to_audit_record(self) -> dict[str, Any]:
        """Give the report as JSON values, without the shortlist."""
        return {
            "schema_name": SCHEMA_NAME,
            "schema_version": SCHEMA_VERSION,
            "claim_boundary": CLAIM_BOUNDARY,
            **{key: value for key, value in self.__dict__.items() if key != "shortlist"},
            **REVIEW_FLAGS,
            "nodes": [asdict(node) for node in self.nodes],
            "edges": [asdict(edge) for edge in self.edges],
            "candidates": [candidate.to_audit_record() for candidate in self.candidates],
        }


@dataclass(frozen=True)
class _Axis:
    operation: Operation
    pair: tuple[int, int]
    weight: float | None


def read_topology(
    nodes: Sequence[Mapping[str, Any]], edges: Sequence[Mapping[str, Any]]
) -> tuple[tuple[TopologyNode, ...], tuple[TopologyEdge, ...]]:
    """Read nodes and edges, sorted.

    Args:
        nodes: ``{node_id | id: integer, community?}``.
        edges: ``{nodes: [a, b]}`` or ``{source, target}``, with ``weight`` (1.0, at least 0).

    Raises:
        ValidationError: a node twice, an edge twice, an edge from a node to itself or to an unknown one, or a field of
            the wrong kind.
    """
    read_nodes = sorted((_node(node) for node in nodes), key=lambda node: node.node_id)
    for before, node in pairwise(read_nodes):
        if before.node_id == node.node_id:
            raise ValidationError(f"node_id must be unique, {node.node_id} is there twice")
    known = {node.node_id for node in read_nodes}
    read_edges = sorted((_edge(edge) for edge in edges), key=lambda edge: edge.pair)
    for edge in read_edges:
        unknown = [node_id for node_id in edge.pair if node_id not in known]
        if unknown:
            raise ValidationError(f"the edge {list(edge.pair)} names the unknown nodes {unknown}")
    for before, edge in pairwise(read_edges):
        if before.pair == edge.pair:
            raise ValidationError(f"the edge {list(edge.pair)} is there twice")
    return tuple(read_nodes), tuple(read_edges)


def _node(node: Mapping[str, Any]) -> TopologyNode:
    if not isinstance(node, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ValidationError(f"a node must be a mapping, got {node!r:.80}")
    value = node["node_id"] if "node_id" in node else node.get("id")
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValidationError(f"node_id must be an integer, got {value!r:.80}")
    community = node.get("community")
    return TopologyNode(value, None if community is None else str(community))


def _edge(edge: Mapping[str, Any]) -> TopologyEdge:
    if not isinstance(edge, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ValidationError(f"an edge must be a mapping, got {edge!r:.80}")
    ends = edge["nodes"] if "nodes" in edge else [edge.get("source"), edge.get("target")]
    if not isinstance(ends, list | tuple) or len(cast("Sequence[object]", ends)) != 2:
        raise ValidationError(f"nodes of an edge must be a pair of node ids, got {ends!r:.80}")
    pair: list[int] = []
    for end in cast("Sequence[object]", ends):
        if isinstance(end, bool) or not isinstance(end, int):
            raise ValidationError(f"an end of an edge must be an integer node id, got {end!r:.80}")
        pair.append(end)
    if pair[0] == pair[1]:
        raise ValidationError(f"an edge must join two nodes, got {pair}")
    return TopologyEdge(
        min(pair), max(pair), non_negative_number(edge.get("weight", 1.0), f"weight of the edge {pair}")
    )


def _bridges(nodes: tuple[TopologyNode, ...], present: Mapping[tuple[int, int], float]) -> list[tuple[int, int]]:
    """Give the first absent edge between every two neighbouring communities (``None`` first, then by text)."""
    members: dict[str | None, list[int]] = {}
    for node in nodes:
        members.setdefault(node.community, []).append(node.node_id)
    labels = sorted(members, key=lambda label: (label is not None, label or ""))
    bridges: list[tuple[int, int]] = []
    for left, right in pairwise(labels):
        pairs = ((min(pair), max(pair)) for pair in product(members[left], members[right]))
        first = next((pair for pair in pairs if pair not in present), None)
        if first is not None:
            bridges.append(first)
    return bridges


def _axes(nodes: tuple[TopologyNode, ...], edges: tuple[TopologyEdge, ...], max_add_candidates: int) -> list[_Axis]:
    present = {edge.pair: edge.weight for edge in edges}
    pairs = combinations((node.node_id for node in nodes), 2)
    absent = [pair for pair in pairs if pair not in present][:max_add_candidates]
    return [
        *(_Axis("edge_add", pair, None) for pair in absent),
        *(_Axis("edge_remove", pair, weight) for pair, weight in present.items()),
        *(_Axis("edge_reweight", pair, weight) for pair, weight in present.items()),
        *(_Axis("community_bridge", pair, None) for pair in sorted(_bridges(nodes, present))),
    ]


@dataclass(frozen=True)
class _Limits:
    step: float
    low: float
    high: float
    base: float


def _mutated(axis: _Axis, delta: float, limits: _Limits) -> tuple[float | None, tuple[str, ...]]:
    """Give the new weight of an edge and why it is blocked."""
    if axis.operation == "edge_remove":
        return None, () if axis.weight and axis.weight > 0.0 else ("edge_remove_from_zero_weight",)
    family = "edge_reweight" if axis.operation == "edge_reweight" else "edge_add"
    weight = limits.base + abs(delta) if axis.weight is None else axis.weight + delta
    if weight < limits.low:
        return weight, (f"{family}_below_min_weight",)
    if weight > limits.high:
        return weight, (f"{family}_above_max_weight",)
    return weight, ()


def _candidate(
    axis: _Axis, phase: int, generation: int, place: int, index: int, limits: _Limits
) -> TopologyMutationCandidate:
    size = limits.step * (0.5 + ((phase - 1) % _PHASES) / _PHASES)
    delta = size if (generation + place) % 2 == 0 else -size
    weight, reasons = _mutated(axis, delta, limits)
    candidate = TopologyMutationCandidate(
        candidate_id=f"g{generation + 1:03d}-c{place + 1:03d}-x{index + 1:03d}",
        generation=generation + 1,
        mutation_index=index,
        operation=axis.operation,
        source=axis.pair[0],
        target=axis.pair[1],
        original_weight=axis.weight,
        mutated_weight=weight,
        mutation_delta=delta,
        status="blocked" if reasons else "accepted",
        blocked_reasons=reasons,
    )
    return replace(candidate, candidate_hash=CANONICAL.hash(candidate.to_audit_record()))


def run_offline_evolutionary_topology_mutation_search(
    nodes: Sequence[Mapping[str, Any]],
    edges: Sequence[Mapping[str, Any]],
    *,
    generation_count: int = 2,
    population_size: int = 8,
    mutation_step: float = 0.05,
    min_edge_weight: float = 0.0,
    max_edge_weight: float = 10.0,
    edge_add_base_weight: float = 0.4,
    max_add_candidates: int = 16,
    evaluator: Callable[[TopologyMutationCandidate], float] | None = None,
    shortlist_size: int = 5,
) -> TopologyMutationSearchReport:
    r"""List bounded mutations of a topology.

    A cursor walks the axes (additions, removals, reweightings, bridges, each in the order of their nodes) round and
    round. With :math:`a` the cursor after its step, a change has the size :math:`\text{step}\,(0.5 + ((a - 1) \bmod
    17) / 17)`, upwards when generation plus place (from 0) is even. New edges get the base weight plus that size.

    Args:
        nodes: see `read_topology`.
        edges: see `read_topology`.
        generation_count: at least 1.
        population_size: candidates per generation, at least 1.
        mutation_step: above 0.
        min_edge_weight: smallest weight that a candidate may have, at least 0.
        max_edge_weight: largest one, at least the smallest.
        edge_add_base_weight: weight that new edges start from, at least 0.
        max_add_candidates: most absent edges that are considered, at least 0.
        evaluator: scores an accepted candidate, higher is better; without one there is no shortlist.
        shortlist_size: longest shortlist.

    Raises:
        ValidationError: a malformed topology, nothing to change in it, or a number that is not allowed.
    """
    read_nodes, read_edges = read_topology(nodes, edges)
    integer(generation_count, "generation_count", minimum=1)
    integer(population_size, "population_size", minimum=1)
    integer(max_add_candidates, "max_add_candidates")
    limits = _Limits(
        step=positive_number(mutation_step, "mutation_step"),
        low=non_negative_number(min_edge_weight, "min_edge_weight"),
        high=finite_number(max_edge_weight, "max_edge_weight"),
        base=non_negative_number(edge_add_base_weight, "edge_add_base_weight"),
    )
    if limits.high < limits.low:
        raise ValidationError(f"max_edge_weight must be at least min_edge_weight {limits.low!r}, got {limits.high!r}")
    axes = _axes(read_nodes, read_edges, max_add_candidates)
    if not axes:
        raise ValidationError("the topology has no edge to change and no pair of nodes to join")
    candidates: list[TopologyMutationCandidate] = []
    cursor = 0
    for generation in range(generation_count):
        for place in range(population_size):
            axis = axes[cursor]
            cursor = (cursor + 1) % len(axes)
            candidates.append(_candidate(axis, cursor, generation, place, len(candidates), limits))
    accepted = sum(candidate.status == "accepted" for candidate in candidates)
    topology = {"nodes": [asdict(node) for node in read_nodes], "edges": [asdict(edge) for edge in read_edges]}
    report = TopologyMutationSearchReport(
        nodes=read_nodes,
        edges=read_edges,
        source_topology_hash=CANONICAL.hash(topology),
        generation_count=generation_count,
        population_size=population_size,
        mutation_step=limits.step,
        min_edge_weight=limits.low,
        max_edge_weight=limits.high,
        edge_add_base_weight=limits.base,
        max_add_candidates=max_add_candidates,
        candidates=tuple(candidates),
        accepted_count=accepted,
        blocked_count=len(candidates) - accepted,
        shortlist=rank_candidates(candidates, evaluator, limit=shortlist_size) if evaluator is not None else (),
    )
    return replace(report, report_hash=CANONICAL.hash(report.to_audit_record()))
