"""Recorded signals from files to phase series.

Three nouns: a *signal table* is what a CSV, Parquet or WAV file holds; a *phase series* is one channel of it with
phase, frequency, amplitude and quality at every sample, and with *findings* that say what was missing, bridged, cut
or doubtful, and where.
"""

from scpn_phase_orchestrator.signals.extraction import METHODS, extract_phase_series
from scpn_phase_orchestrator.signals.files import read_signals
from scpn_phase_orchestrator.signals.phase_series import Finding, PhaseSeries, SampleState
from scpn_phase_orchestrator.signals.table import SignalTable

__all__ = [
    "METHODS",
    "Finding",
    "PhaseSeries",
    "SampleState",
    "SignalTable",
    "extract_phase_series",
    "read_signals",
]
