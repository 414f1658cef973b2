"""Draw the pictures of the README from a run: `.venv/bin/python scripts/pictures.py runs/push-...`."""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib as mpl

from chamber.cell.record import read_cell_record
from chamber.cell_report.trajectories import trajectory_figure
from ripieno.report import FIGURE_STYLE

IMAGES = Path(__file__).parent.parent / "docs" / "images"


def main(run: Path) -> None:
    """Draw what the first partner of a cell does with and without the stack."""
    record = read_cell_record(run)
    IMAGES.mkdir(exist_ok=True)
    with mpl.rc_context(FIGURE_STYLE):
        figure = trajectory_figure(record.cell, record.outcomes, record.cell.partners[0].label)
        look = {"dpi": 120, "bbox_inches": "tight", "facecolor": "white"}
        figure.savefig(IMAGES / "planar-push.png", metadata={"Software": None}, **look)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
