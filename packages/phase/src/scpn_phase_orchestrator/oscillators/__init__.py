"""From measured signals to phases.

Three nouns: an *extractor* reads one signal, event list or symbol sequence and gives *phase states* (phase, angular
frequency, amplitude, quality); the *scorer* says what a set of states is worth. `signals` makes whole phase series.
"""

from scpn_phase_orchestrator.oscillators.base import PhaseExtractor, PhaseState
from scpn_phase_orchestrator.oscillators.factory import build_extractor
from scpn_phase_orchestrator.oscillators.informational import InformationalExtractor
from scpn_phase_orchestrator.oscillators.init_phases import extract_initial_phases
from scpn_phase_orchestrator.oscillators.physical import PhysicalExtractor
from scpn_phase_orchestrator.oscillators.quality import PhaseQualityScorer
from scpn_phase_orchestrator.oscillators.symbolic import SymbolicExtractor
from scpn_phase_orchestrator.oscillators.wavelet import WaveletExtractor
from scpn_phase_orchestrator.oscillators.zero_crossing import ZeroCrossingExtractor

__all__ = [
    "InformationalExtractor",
    "PhaseExtractor",
    "PhaseQualityScorer",
    "PhaseState",
    "PhysicalExtractor",
    "SymbolicExtractor",
    "WaveletExtractor",
    "ZeroCrossingExtractor",
    "build_extractor",
    "extract_initial_phases",
]
