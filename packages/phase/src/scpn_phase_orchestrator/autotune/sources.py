"""Proposals from the three kinds of data that `spo auto-bind` reads: time series, event logs, graphs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import numpy as np

from ripieno.canonical import MAX_BYTES, strict_loads
from ripieno.errors import InputError
from ripieno.files import open_regular, sha256_file
from scpn_phase_orchestrator._compat import TWO_PI
from scpn_phase_orchestrator.autotune.proposal import Proposal, ProposedLayer, grouped_by_frequency, propose
from scpn_phase_orchestrator.autotune.sindy import discover_phase_equations
from scpn_phase_orchestrator.exceptions import BindingError, ExtractorError
from scpn_phase_orchestrator.oscillators.informational import InformationalExtractor
from scpn_phase_orchestrator.signals.csv_text import LARGEST
from scpn_phase_orchestrator.signals.extraction import extract_phase_series
from scpn_phase_orchestrator.signals.files import read_signals
from scpn_phase_orchestrator.signals.table import SECONDS_PER_UNIT

__all__ = ["bind_event_log", "bind_graph", "bind_time_series"]

_SOURCE_KEYS = ("source", "channel", "id", "name", "type")
_TIME_KEYS = ("time_s", "time", "timestamp", "t")


def bind_time_series(
    path: Path,
    name: str,
    *,
    sample_rate: float | None = None,
    threshold: float = 0.05,
    min_r_squared: float = 0.9,
    min_samples_per_parameter: float = 5.0,
) -> Proposal:
    """Propose a spec from the numeric columns of a CSV file: one oscillator per column, layers by frequency.

    Coupling comes from the accepted phase equations (`discover_phase_equations`), their matrix is the template
    ``discovered``; without any accepted sine the default strength is used and a comment says so.

    Raises:
        BindingError: the file gives no phases or no valid spec.
        OSError: it cannot be read.
    """
    try:
        table = read_signals(path, sample_rate=sample_rate)
        series, refused = extract_phase_series(table)
        phases = np.column_stack([s.usable_phase for s in series])
        names = [s.name for s in series]
        equations = discover_phase_equations(
            phases,
            table.sample_period_s,
            names=names,
            threshold=threshold,
            min_r_squared=min_r_squared,
            min_samples_per_parameter=min_samples_per_parameter,
        )
    except ExtractorError as error:
        raise BindingError(str(error)) from error
    per_second = 1.0 / SECONDS_PER_UNIT[table.time_unit]
    omegas = [TWO_PI * s.mean_frequency * per_second for s in series]
    accepted = {equation.target: equation for equation in equations if equation.accepted}
    for position, label in enumerate(names):
        if label in accepted:
            omegas[position] = accepted[label].omega
    matrix = np.zeros((len(names), len(names)))
    for label, equation in accepted.items():
        for source, value in equation.terms.items():
            matrix[names.index(label), names.index(source)] = value
    found = np.abs(matrix[matrix != 0.0])
    comments = [f"Source: {path.name}, {table.values.shape[0]} samples, one per {table.sample_period_s:.6g} s."]
    comments += [f"Note: {note}." for note in table.notes]
    comments += [f"Left out: {finding.text}." for finding in refused]
    for s, omega in zip(series, omegas, strict=True):
        findings = "; ".join(f.text for f in s.findings if f.kind != "edge") or "nothing to report"
        comments.append(f"{s.name}: omega {omega:.6g} rad/s, quality {s.mean_quality:.2f}; {findings}.")
    comments.append(
        f"Coupling: {found.size} term(s) of {len(accepted)} accepted phase equation(s), see template 'discovered'."
        if found.size
        else "Coupling: no phase equation with a coupling term was accepted; the strength is a placeholder."
    )
    bands = [s.band for s in series if s.band is not None]
    band = [min(low for low, _ in bands) * per_second, max(high for _, high in bands) * per_second]
    return propose(
        name,
        grouped_by_frequency(names, omegas, "rhythm"),
        channel="P",
        extractor_type="hilbert",
        config={"band": band},
        strength=float(np.median(found)) if found.size else None,
        template=("discovered", names, matrix) if found.size else None,
        comments=comments,
        equations=equations,
        evidence={
            "channels": [s.summary() for s in series],
            "kind": "time-series-csv",
            "notes": list(table.notes),
            "path": path.name,
            "sha256": sha256_file(path),
            "sindy": {
                "min_r_squared": min_r_squared,
                "min_samples_per_parameter": min_samples_per_parameter,
                "threshold": threshold,
            },
        },
    )


def bind_event_log(path: Path, name: str) -> Proposal:
    """Propose a spec from a JSON event log: one oscillator per source, one turn per event.

    The file holds a list of events or ``{"events": [...]}``. An event has a source (``source``, ``channel``, ``id``,
    ``name`` or ``type``) and a time (``time_s``, ``time``, ``timestamp`` or ``t``: seconds or an ISO 8601 text).

    Raises:
        BindingError: malformed log, or no source with two different times; the message names the event.
        OSError: it cannot be read.
    """
    document = _load(path)
    events = _list_of_objects(document, "events", path.name)
    times: dict[str, list[float]] = {}
    for position, event in enumerate(events):
        where = f"{path.name}: events[{position}]"
        source = _first(event, _SOURCE_KEYS, where)
        if not isinstance(source, str) or not source:
            raise BindingError(f"{where}: source must be a non-empty text, got {source!r:.60}")
        times.setdefault(source, []).append(_moment(_first(event, _TIME_KEYS, where), where))
    names: list[str] = []
    omegas: list[float] = []
    comments = [f"Source: {path.name}, {len(events)} events of {len(times)} source(s)."]
    sources: list[dict[str, Any]] = []
    for source, stamps in sorted(times.items()):
        apart = np.diff(np.unique(stamps))
        if apart.size and apart.min() < 1.0 / LARGEST:
            raise BindingError(f"{path.name}: two events of {source!r:.60} are only {apart.min():g} s apart")
        (state,) = InformationalExtractor(source).extract(sorted(stamps), 1.0)
        sources.append({"n_events": len(stamps), "omega": state.omega, "quality": state.quality, "source": source})
        if state.omega == 0.0:
            comments.append(f"Left out: {source} has fewer than two different times.")
            continue
        names.append(source)
        omegas.append(state.omega)
        comments.append(f"{source}: {len(stamps)} events, omega {state.omega:.6g} rad/s, quality {state.quality:.2f}.")
    if not names:
        raise BindingError(f"{path.name}: no source has two events at different times")
    comments.append("Coupling: an event log says nothing about it here; the strength is a placeholder.")
    return propose(
        name,
        grouped_by_frequency(names, omegas, "events"),
        channel="I",
        extractor_type="event",
        comments=comments,
        evidence={"kind": "event-log-json", "path": path.name, "sha256": sha256_file(path), "sources": sources},
    )


def bind_graph(path: Path, name: str) -> Proposal:
    """Propose a spec from a JSON graph: one oscillator per node, one layer per connected component.

    The file holds ``{"nodes": [...], "edges": [...]}``; a node is a text or ``{"id": text, "omega": rad/s}``, an edge
    ``{"source": id, "target": id, "weight": number}`` with weight 1 by default; ``"directed": true`` keeps the
    direction (source drives target), else both ends drive each other. The weights become the template ``graph``.

    Raises:
        BindingError: malformed graph; the message names the node or edge.
        OSError: it cannot be read.
    """
    document = _load(path)
    if not isinstance(document, Mapping):
        raise BindingError(f"{path.name}: must be an object with 'nodes' and 'edges'")
    graph = cast("Mapping[str, Any]", document)
    omegas = _nodes(graph, path.name)
    names = list(omegas)
    directed = graph.get("directed", False)
    if not isinstance(directed, bool):
        raise BindingError(f"{path.name}: directed must be true or false, got {directed!r:.60}")
    matrix = np.zeros((len(names), len(names)))
    for position, edge in enumerate(_list_of_objects(graph, "edges", path.name)):
        where = f"{path.name}: edges[{position}]"
        ends = [_first(edge, (key,), where) for key in ("source", "target")]
        for end in ends:
            if not isinstance(end, str) or end not in omegas:
                raise BindingError(f"{where}: unknown node {end!r:.60}")
        source, target = names.index(ends[0]), names.index(ends[1])
        if source == target:
            raise BindingError(f"{where}: an edge must join two different nodes, got {ends[0]!r:.60} twice")
        weight = _number(edge.get("weight", 1.0), f"{where}: weight")
        matrix[target, source] = weight
        if not directed:
            matrix[source, target] = weight
    layers = [
        ProposedLayer(f"component_{number}", tuple(names[k] for k in part), tuple(omegas[names[k]] for k in part))
        for number, part in enumerate(_components(matrix), start=1)
    ]
    weights = np.abs(matrix[matrix != 0.0])
    return propose(
        name,
        layers,
        channel="S",
        extractor_type="graph",
        config={"n_states": max(2, len(names))},
        strength=float(np.median(weights)) if weights.size else 0.0,
        template=("graph", names, matrix) if weights.size else None,
        comments=[
            f"Source: {path.name}, {len(names)} nodes, {weights.size} directed influence(s).",
            "Frequencies: 1 rad/s where the graph gives none. Couplings: the weights, see template 'graph'.",
        ],
        evidence={
            "directed": directed,
            "kind": "graph-json",
            "n_components": len(layers),
            "n_nodes": len(names),
            "path": path.name,
            "sha256": sha256_file(path),
        },
    )


def _nodes(graph: Mapping[str, Any], source: str) -> dict[str, float]:
    nodes = graph.get("nodes")
    if not isinstance(nodes, list) or not nodes:
        raise BindingError(f"{source}: nodes must be a non-empty array")
    omegas: dict[str, float] = {}
    for position, node in enumerate(cast("list[Any]", nodes)):
        where = f"{source}: nodes[{position}]"
        entry: Mapping[str, Any] = cast("Mapping[str, Any]", node) if isinstance(node, Mapping) else {"id": node}
        identifier = _first(entry, ("id", "name"), where)
        if not isinstance(identifier, str) or not identifier:
            raise BindingError(f"{where}: id must be a non-empty text, got {identifier!r:.60}")
        if identifier in omegas:
            raise BindingError(f"{where}: node {identifier!r:.60} appears twice")
        omegas[identifier] = _number(entry.get("omega", 1.0), f"{where}: omega")
    return omegas


def _components(matrix: np.ndarray[Any, np.dtype[np.float64]]) -> list[list[int]]:
    from scipy.sparse.csgraph import connected_components

    count, label = connected_components(matrix != 0.0, directed=False)
    return [np.flatnonzero(label == k).tolist() for k in range(int(count))]


def _load(path: Path) -> Any:
    try:
        with open_regular(path) as stream:
            return strict_loads(stream.read(MAX_BYTES + 1))
    except InputError as error:
        raise BindingError(f"{path.name}: {error}") from error


def _list_of_objects(document: Any, key: str, source: str) -> Sequence[Mapping[str, Any]]:
    found: Any = cast("Mapping[str, Any]", document).get(key) if isinstance(document, Mapping) else document
    if not isinstance(found, list) or (key == "events" and not found):
        raise BindingError(f"{source}: {key} must be a{' non-empty' if key == 'events' else 'n'} array")
    for position, entry in enumerate(cast("list[Any]", found)):
        if not isinstance(entry, Mapping):
            raise BindingError(f"{source}: {key}[{position}] must be an object, got {entry!r:.60}")
    return cast("Sequence[Mapping[str, Any]]", found)


def _first(entry: Mapping[str, Any], keys: Sequence[str], where: str) -> Any:
    for key in keys:
        if key in entry:
            return entry[key]
    raise BindingError(f"{where}: one of {', '.join(keys)} is required")


def _number(value: Any, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) <= LARGEST:
        raise BindingError(f"{where} must be a finite number, at most {LARGEST:g} in size, got {value!r:.60}")
    return float(value)


def _moment(value: Any, where: str) -> float:
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value)
        except ValueError as error:
            raise BindingError(f"{where}: time must be seconds or an ISO date, got {value!r:.60}") from error
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    return _number(value, f"{where}: time")
