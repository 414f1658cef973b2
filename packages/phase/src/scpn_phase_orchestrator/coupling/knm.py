"""Coupling matrices: how strongly, and with which lag, each oscillator follows every other one.

Convention: ``K_ij`` is the influence of oscillator ``j`` on oscillator ``i``; a row belongs to the receiver.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import numpy as np

from ripieno.canonical import strict_loads
from scpn_phase_orchestrator._arrays import FloatArray, real_scalar, square_coupling, whole_number

__all__ = [
    "SCPN_CALIBRATION_ANCHORS",
    "SCPN_LAYER_NAMES",
    "SCPN_LAYER_TIMESCALES",
    "CouplingBuilder",
    "CouplingState",
]

SCPN_LAYER_TIMESCALES: Mapping[int, float] = {
    1: 1e-12,
    2: 1e-3,
    3: 1e-1,
    4: 1.0,
    5: 1e1,
    6: 1e2,
    7: 1e3,
    8: 1e4,
    9: 8.64e4,
    10: 6.048e5,
    11: 2.592e6,
    12: 3.15576e7,
    13: 3.15576e8,
    14: 3.15576e9,
    15: 3.15576e10,
    16: 1.0,
}
"""Characteristic time of each layer, in seconds.

Chosen for this package, as a ladder from molecular vibration (1 ps) over a spike (1 ms), a heartbeat (1 s), a day and a
year to a millennium. Layer 16 watches all others at the pace of one decision per second. Only ratios enter the matrix.
"""

SCPN_LAYER_NAMES: Mapping[int, str] = {
    1: "molecular vibration",
    2: "neural spiking",
    3: "neural rhythm",
    4: "heartbeat",
    5: "respiration",
    6: "vasomotion",
    7: "attention",
    8: "task",
    9: "day",
    10: "week",
    11: "month",
    12: "year",
    13: "decade",
    14: "century",
    15: "millennium",
    16: "oversight",
}
"""What moves at the time scale of each layer."""

SCPN_CALIBRATION_ANCHORS: Mapping[tuple[int, int], float] = {(1, 2): 0.302, (2, 3): 0.201, (3, 4): 0.252, (4, 5): 0.154}
"""Documented coupling strengths between adjacent layers that replace the formula."""

_LAYER_COUNT = len(SCPN_LAYER_TIMESCALES)


@dataclass(frozen=True, slots=True, eq=False)
class CouplingState:
    """The coupling in force.

    Attributes:
        knm: ``(n, n)`` phase coupling strengths in rad/s, zero diagonal.
        alpha: ``(n, n)`` phase lags in rad.
        active_template: name of the template that ``knm`` came from.
        knm_r: ``(n, n)`` amplitude coupling strengths in 1/s, zero diagonal; ``None`` without amplitudes.
    """

    knm: FloatArray
    alpha: FloatArray
    active_template: str
    knm_r: FloatArray | None = None


class CouplingBuilder:
    """Makes and exchanges coupling matrices."""

    def build(self, n: int, base_strength: float, decay_alpha: float) -> CouplingState:
        """Let the strength fall exponentially with the distance of the indices.

        ``K_ij = base_strength · exp(−decay_alpha |i − j|)``, zero diagonal, no lag, template ``default``.

        Args:
            n: number of oscillators, at least 1.
            base_strength: strength at distance zero, in rad/s, not negative.
            decay_alpha: decay per index, not negative.

        Raises:
            ValueError: an argument out of range.

        Examples:
            >>> CouplingBuilder().build(2, 0.5, 0.0).knm
            array([[0. , 0.5],
                   [0.5, 0. ]])
        """
        count = whole_number("n", n, minimum=1)
        knm = _decaying(
            count,
            real_scalar("base_strength", base_strength, minimum=0.0),
            real_scalar("decay_alpha", decay_alpha, minimum=0.0),
        )
        return CouplingState(knm=knm, alpha=np.zeros((count, count)), active_template="default")

    def build_with_amplitude(
        self, n: int, base_strength: float, decay_alpha: float, amp_strength: float, amp_decay: float
    ) -> CouplingState:
        """Add an amplitude coupling of the same form to `build`: ``knm_r_ij = amp_strength · exp(−amp_decay |i − j|)``.

        Raises:
            ValueError: an argument out of range.
        """
        state = self.build(n, base_strength, decay_alpha)
        knm_r = _decaying(
            len(state.knm),
            real_scalar("amp_strength", amp_strength, minimum=0.0),
            real_scalar("amp_decay", amp_decay, minimum=0.0),
        )
        return replace(state, knm_r=knm_r)

    def switch_template(self, state: CouplingState, name: str, templates: Mapping[str, object]) -> CouplingState:
        """Replace the strengths by those of a template; lags and amplitude coupling stay.

        Args:
            state: the coupling in force.
            name: which template.
            templates: ``(n, n)`` matrices by name.

        Raises:
            KeyError: no template of that name.
            ValueError: the matrix has another shape, is not finite, or has a diagonal other than zero.
        """
        if name not in templates:
            raise KeyError(f"no coupling template named {name!r}; known: {', '.join(sorted(templates)) or 'none'}")
        knm = square_coupling(f"templates[{name!r}]", templates[name], len(state.knm))
        return replace(state, knm=knm.copy(), active_template=name)

    def apply_handshakes(self, state: CouplingState, json_path: Path | str) -> CouplingState:
        """Set single strengths from a JSON file.

        The file holds ``{"matrix": [{"from_layer": 1, "to_layer": 2, "coupling_strength": 0.3}, ...]}``; layers count
        from 1 and are rows of the matrix. A strength that is not negative holds in both directions, a negative one only
        acts from ``from_layer`` on ``to_layer``. Later entries win.

        Raises:
            ValueError: a file that is no such JSON (duplicate keys and NaN included), a layer outside the matrix, or a
                layer coupled to itself; the message names the entry.
            OSError: a file that cannot be read.
        """
        knm = state.knm.copy()
        for place, entry in _handshakes(Path(json_path)):
            source = _layer_position(f"{place}.from_layer", entry["from_layer"], len(knm))
            target = _layer_position(f"{place}.to_layer", entry["to_layer"], len(knm))
            if source == target:
                raise ValueError(f"{place} must join two different layers, got {source + 1} twice")
            strength = real_scalar(f"{place}.coupling_strength", entry["coupling_strength"])
            knm[target, source] = strength
            if strength >= 0.0:
                knm[source, target] = strength
        return replace(state, knm=knm)

    def build_scpn_physics(self, k_base: float = 0.45, alpha_decay: float = 0.3) -> CouplingState:
        """Build the fixed matrix of 16 layers from their time scales.

        Between neighbours: the calibration anchors; 0.2 to layer 16; otherwise
        ``clip(k_base / (1 + 0.05 |ln(τ_n/τ_m)|), 0.1, 0.5)``. At distance 2, with the strengths ``k1``, ``k2`` of the
        two neighbour links between: ``clip(√(k1 k2) / (1 + 0.1 |ω_n − ω_m| / mean(ω_n, ω_m)), 0.01, 0.4)``,
        ``ω = 2π/τ``. Farther: ``clip(k_base exp(−alpha_decay·d), 0.001, 0.2)``. At least 0.05 between layers 1 and
        16, and 0.15 between 5 and 7.

        Args:
            k_base: strength scale, positive.
            alpha_decay: decay per layer beyond distance 2, not negative.

        Raises:
            ValueError: an argument out of range.
        """
        scale = real_scalar("k_base", k_base, above=0.0)
        decay = real_scalar("alpha_decay", alpha_decay, minimum=0.0)
        timescales = np.array([SCPN_LAYER_TIMESCALES[layer] for layer in range(1, _LAYER_COUNT + 1)])
        neighbour = np.clip(scale / (1.0 + 0.05 * np.abs(np.diff(np.log(timescales)))), 0.1, 0.5)
        neighbour[-1] = 0.2
        for (first, _), strength in SCPN_CALIBRATION_ANCHORS.items():
            neighbour[first - 1] = strength
        rates = 1.0 / timescales
        relative_gap = np.abs(rates[2:] - rates[:-2]) / ((rates[2:] + rates[:-2]) / 2.0)
        second = np.clip(np.sqrt(neighbour[:-1] * neighbour[1:]) / (1.0 + 0.1 * relative_gap), 0.01, 0.4)
        upper = np.diag(neighbour, 1) + np.diag(second, 2)
        for distance in range(3, _LAYER_COUNT):
            strength = float(np.clip(scale * np.exp(-decay * distance), 0.001, 0.2))
            upper += np.diag(np.full(_LAYER_COUNT - distance, strength), distance)
        upper[0, 15] = max(upper[0, 15], 0.05)
        upper[4, 6] = max(upper[4, 6], 0.15)
        return CouplingState(
            knm=upper + upper.T, alpha=np.zeros((_LAYER_COUNT, _LAYER_COUNT)), active_template="scpn_physics"
        )


def _decaying(count: int, strength: float, decay: float) -> FloatArray:
    positions = np.arange(count, dtype=np.float64)
    matrix = strength * np.exp(-decay * np.abs(positions[:, None] - positions[None, :]))
    np.fill_diagonal(matrix, 0.0)
    return matrix


def _handshakes(path: Path) -> list[tuple[str, Mapping[str, object]]]:
    try:
        document = strict_loads(path.read_bytes())
    except ValueError as error:
        raise ValueError(f"{path} is no handshake file: {error}") from error
    entries = cast("dict[str, object]", document).get("matrix") if isinstance(document, dict) else None
    if not (isinstance(entries, list) and all(isinstance(entry, dict) for entry in cast("list[object]", entries))):
        raise ValueError(f"{path} must hold an object with a list 'matrix' of objects")
    found: list[tuple[str, Mapping[str, object]]] = []
    for number, entry in enumerate(cast("list[dict[str, object]]", entries)):
        place = f"{path.name}: matrix[{number}]"
        missing = {"from_layer", "to_layer", "coupling_strength"} - entry.keys()
        if missing:
            raise ValueError(f"{place} lacks {', '.join(sorted(missing))}")
        found.append((place, entry))
    return found


def _layer_position(name: str, value: object, count: int) -> int:
    return whole_number(name, value, minimum=1, maximum=count) - 1
