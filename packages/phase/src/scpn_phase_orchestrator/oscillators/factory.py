"""From the name of an extractor in a spec to the extractor."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any

from scpn_phase_orchestrator.binding.types import EXTRACTOR_ALIASES, resolve_extractor_type
from scpn_phase_orchestrator.oscillators.base import PhaseExtractor
from scpn_phase_orchestrator.oscillators.informational import InformationalExtractor
from scpn_phase_orchestrator.oscillators.physical import PhysicalExtractor
from scpn_phase_orchestrator.oscillators.symbolic import SymbolicExtractor
from scpn_phase_orchestrator.oscillators.wavelet import WaveletExtractor
from scpn_phase_orchestrator.oscillators.zero_crossing import ZeroCrossingExtractor

__all__ = ["EXTRACTOR_SETTINGS", "build_extractor"]

EXTRACTOR_SETTINGS: dict[str, frozenset[str]] = {
    "hilbert": frozenset({"band", "filter_order", "edge_trim"}),
    "wavelet": frozenset({"band"}),
    "zero_crossing": frozenset({"hysteresis"}),
    "event": frozenset(),
    "ring": frozenset({"n_states"}),
    "graph": frozenset({"n_states"}),
}
"""Extractor -> keys that its ``config`` may have."""

_CONTINUOUS: dict[str, Callable[..., PhaseExtractor]] = {
    "hilbert": PhysicalExtractor,
    "wavelet": WaveletExtractor,
    "zero_crossing": ZeroCrossingExtractor,
    "event": InformationalExtractor,
}


def build_extractor(
    extractor_type: str, *, node_id: str, n_states: int = 2, config: Mapping[str, Any] | None = None
) -> PhaseExtractor:
    """Build the extractor that a spec names.

    Args:
        extractor_type: ``hilbert``, ``wavelet``, ``zero_crossing``, ``event``, ``ring``, ``graph`` or one of the
            aliases ``physical``, ``informational``, ``symbolic``.
        node_id: the oscillator.
        n_states: states of a symbolic extractor, unless ``config`` says otherwise.
        config: settings of the extractor, see `EXTRACTOR_SETTINGS`.

    Raises:
        ValueError: unknown type, unknown setting (the message names the nearest valid one) or a value out of range.

    Examples:
        >>> build_extractor("ring", node_id="valve", config={"n_states": 4}).extract([1], 1.0)[0].channel
        'S'
    """
    kind = resolve_extractor_type(extractor_type)
    if kind not in EXTRACTOR_SETTINGS:
        known = sorted({*EXTRACTOR_SETTINGS, *EXTRACTOR_ALIASES})
        raise ValueError(f"extractor_type must be one of {', '.join(known)}, got {extractor_type!r:.80}")
    settings = dict(config or {})
    for key in settings:
        if key not in EXTRACTOR_SETTINGS[kind]:
            valid = sorted(EXTRACTOR_SETTINGS[kind])
            near = get_close_matches(str(key), valid, n=1)
            hint = f"; did you mean '{near[0]}'?" if near else ""
            raise ValueError(
                f"unknown setting {key!r:.80} of extractor '{kind}' (valid: {', '.join(valid) or 'none'}){hint}"
            )
    if kind in _CONTINUOUS:
        return _CONTINUOUS[kind](node_id, **settings)
    mode = "graph" if kind == "graph" else "ring"
    return SymbolicExtractor(settings.get("n_states", n_states), node_id, mode)
