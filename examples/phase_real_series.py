"""Phases of five public recordings: sunspots, carbon dioxide, and three pulses with their defects.

The files ship inside the packages statsmodels and heartpy (``pip install statsmodels heartpy``); no code of them runs.

    python examples/phase_real_series.py [FOLDER FOR FIGURES]
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from scpn_phase_orchestrator.signals import extract_phase_series, read_signals
from scpn_phase_orchestrator.signals.drawing import draw_phase_series, frequency_chart

RECORDINGS: list[tuple[str, str, str, dict[str, Any]]] = [
    ("sunspots", "statsmodels", "datasets/sunspots/sunspots.csv", {}),
    ("co2", "statsmodels", "datasets/co2/co2.csv", {}),
    ("pulse", "heartpy", "data/data.csv", {"sample_rate": 100.0}),
    ("pulse-with-dropout", "heartpy", "data/data2.csv", {"time_column": "timer", "time_unit": "ms"}),
    ("pulse-clipped", "heartpy", "data/data3.csv", {}),
]


def packaged(package: str, name: str) -> Path:
    """Path of a data file of an installed package, without importing the package."""
    found = find_spec(package)
    if found is None or not found.submodule_search_locations:
        raise SystemExit(f"this example reads a recording of {package}: pip install {package}")
    return Path(found.submodule_search_locations[0]) / name


def main(arguments: list[str]) -> None:
    """Print frequency, quality and findings of every recording; draw it where a folder is given."""
    for label, package, name, options in RECORDINGS:
        table = read_signals(packaged(package, name), **options)
        (series,), _ = extract_phase_series(table)
        cycle = 1.0 / series.mean_frequency
        print(f"{label}: one cycle lasts {cycle:.3g} {series.time_unit}, quality {series.mean_quality:.2f}")
        print(f"  {frequency_chart(series)}")
        for remark in [*table.notes, *(finding.text for finding in series.findings)]:
            print(f"  - {remark}")
        if arguments:
            folder = Path(arguments[0])
            folder.mkdir(parents=True, exist_ok=True)
            draw_phase_series([series]).savefig(folder / f"{label}.png", dpi=150)


if __name__ == "__main__":
    main(sys.argv[1:])
