"""From data to a proposed spec.

A *proposal* is a valid spec with comments that say what every part rests on; nothing runs it until a person has read
it. `spo auto-bind` makes one from a time series, an event log or a graph, `spo fit --spec-out` from fitted coupling.
"""

from scpn_phase_orchestrator.autotune.proposal import Proposal, ProposedLayer, grouped_by_frequency, propose
from scpn_phase_orchestrator.autotune.sindy import PhaseEquation, discover_phase_equations
from scpn_phase_orchestrator.autotune.sources import bind_event_log, bind_graph, bind_time_series

__all__ = [
    "PhaseEquation",
    "Proposal",
    "ProposedLayer",
    "bind_event_log",
    "bind_graph",
    "bind_time_series",
    "discover_phase_equations",
    "grouped_by_frequency",
    "propose",
]
