"""What the run commands print for people: one line of what runs, small charts, tables."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np

from ripieno._printable import printable
from scpn_phase_orchestrator._arrays import FloatArray
from scpn_phase_orchestrator.binding.types import BindingSpec
from scpn_phase_orchestrator.runtime.history import RunHistory

__all__ = ["chart", "final_line", "sparkline", "table", "what_runs"]

CHART_WIDTH = 48
MAX_CHART_LAYERS = 12
_BLOCKS = "▁▂▃▄▅▆▇█"
_ASCII = ".:-=+*#@"


def what_runs(spec: BindingSpec, steps: int, seed: int, *, is_supervised: bool, n_rules: int, is_dry: bool) -> str:
    """Say in one line what is about to run."""
    n = sum(len(layer.oscillator_ids) for layer in spec.layers)
    how = "open loop"
    if is_supervised:
        rules = f" and {n_rules} rule{'' if n_rules == 1 else 's'}" if n_rules else ""
        how = f"supervised by {spec.supervisor.strategy}{rules}"
    dry = f" (tier {spec.safety_tier}: simulation only)" if is_dry else ""
    seconds = steps * spec.sample_period_s
    return (
        f"{spec.name}: {n} oscillators in {len(spec.layers)} layers, {steps} steps of {spec.sample_period_s:g} s "
        f"({seconds:g} s), {how}, seed {seed}{dry}"
    )


def final_line(r_good: float, r_bad: float, regime: str, mean_amplitude: float | None) -> str:
    """Give the documented last line of a run."""
    amplitude = "" if mean_amplitude is None else f"  mean_amplitude={mean_amplitude:.4f}"
    return f"R_good={r_good:.4f}  R_bad={r_bad:.4f}  regime={regime}{amplitude}"


def sparkline(values: FloatArray, width: int = CHART_WIDTH, *, is_ascii: bool = False) -> str:
    """Draw numbers from 0 to 1 as a row of blocks, each the mean of its share of the values.

    Examples:
        >>> import numpy as np
        >>> sparkline(np.array([0.0, 0.5, 1.0]))
        '▁▅█'
    """
    blocks = _ASCII if is_ascii else _BLOCKS
    parts = np.array_split(values, min(width, len(values))) if len(values) else []
    levels = [min(max(round(float(part.mean()) * (len(blocks) - 1)), 0), len(blocks) - 1) for part in parts]
    return "".join(blocks[level] for level in levels)


def chart(history: RunHistory) -> list[str]:
    """Draw R of every layer over time; of many layers, those of the objective and the first others."""
    good, bad = set(history.good_positions), set(history.bad_positions)
    order = [*history.good_positions, *history.bad_positions]
    order += [k for k in range(len(history.layer_names)) if k not in good and k not in bad]
    shown = sorted(order[:MAX_CHART_LAYERS])
    names = {k: printable(history.layer_names[k]) for k in shown}
    width = max(map(len, names.values()))
    is_ascii = not _can_print(_BLOCKS)
    lines = [
        f"  {names[k]:<{width}}  {'good' if k in good else 'bad ' if k in bad else '    '}  "
        f"{sparkline(history.layer_r[:, k], is_ascii=is_ascii)}  {history.layer_r[-1, k]:.2f}"
        for k in shown
    ]
    if len(order) > len(shown):
        lines.append(f"  ... and {len(order) - len(shown)} more layers")
    return lines


def table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Align rows under headers; the first column to the left, the others to the right."""
    cells = [[printable(text) for text in row] for row in (headers, *rows)]
    widths = [max(len(row[k]) for row in cells) for k in range(len(headers))]
    return [
        "  ".join(
            text.ljust(width) if k == 0 else text.rjust(width)
            for k, (text, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    ]


def _can_print(text: str) -> bool:
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
