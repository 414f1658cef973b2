"""Draw the pictures of the README: `.venv/bin/python scripts/pictures.py runs/push-...`.

The planar push comes from a run folder; the power grid (1,000 steps from seed 42), the retail campaign (16 train tasks,
four changes) and the two arms (the rounds of the demo, one episode each) are run here.
"""

from __future__ import annotations

import sys
from itertools import cycle
from pathlib import Path
from tempfile import TemporaryDirectory

import matplotlib as mpl
import numpy as np

from chamber.arm_demo import GUARDED, MATCHED, ONE_ARM, UNGUARDED, demo_rounds
from chamber.cell.record import read_cell_record
from chamber.cell_report.trajectories import trajectory_figure
from chamber.rollout.pictures import Frame, captioned, png_bytes
from chamber.rollout.session import run_session
from chamber.rollout.snapshots import SessionPictures
from ripieno.report import FIGURE_STYLE
from scpn_phase_orchestrator.binding import load_binding_spec
from scpn_phase_orchestrator.domainpacks import resolve_spec_path
from scpn_phase_orchestrator.reporting.figures import comparison_figure
from scpn_phase_orchestrator.runtime.simulation import simulate
from workers.official_arenas.campaign.collect import collect_rows
from workers.official_arenas.campaign.figures import task_figure
from workers.official_arenas.campaign.plan import parse_plan
from workers.official_arenas.campaign.run import run_campaign

IMAGES = Path(__file__).parent.parent / "docs" / "images"
PLAN = {"release": "plan.plan_and_solve.ps_prompt"}
ASK = {"release": "own.text", "parameters": {"append_instruction": "Ask when it is unclear which item is meant."}}
FORGET = {"release": "own.text", "parameters": {"replace_context": "Be brief and friendly."}}
RETAIL_TREATMENTS = {
    "plan-first": [PLAN],
    "ask-if-unclear": [ASK],
    "plan-and-ask": [PLAN, ASK],
    "policy-lost": [FORGET],
}
LOOK = {"dpi": 120, "bbox_inches": "tight", "facecolor": "white"}


def main(run: Path | None) -> None:
    """Draw a picture of every system."""
    IMAGES.mkdir(exist_ok=True)
    with mpl.rc_context(FIGURE_STYLE):
        if run is not None:
            record = read_cell_record(run)
            figure = trajectory_figure(record.cell, record.outcomes, record.cell.partners[0].label)
            figure.savefig(IMAGES / "planar-push.png", metadata={"Software": None}, **LOOK)
        path = resolve_spec_path("power_grid")
        spec = load_binding_spec(path)
        before, after = (
            simulate(spec, steps=1_000, policy_enabled=enabled, binding_spec_path=path).history
            for enabled in (False, True)
        )
        assert before is not None
        assert after is not None
        comparison_figure(before, after).savefig(IMAGES / "power-grid.png", metadata={"Software": None}, **LOOK)
        treatments = [{"name": name, "members": members} for name, members in RETAIL_TREATMENTS.items()]
        plan = parse_plan({"split": "train", "treatments": treatments})
        with TemporaryDirectory() as scratch:
            result = run_campaign(plan, Path(scratch).resolve() / "retail", command=["scripts/pictures.py"])
            figure = task_figure(plan, collect_rows(result.folder, plan))
        figure.savefig(IMAGES / "retail-pairs.png", metadata={"Software": None}, **LOOK)
    (IMAGES / "two-arms.png").write_bytes(png_bytes(two_arms()))


def two_arms() -> Frame:
    """Give four moments of the demo with arms, one episode a round, in two rows."""
    pictures = SessionPictures(take=lambda env: env.unwrapped.picture())
    with TemporaryDirectory() as scratch:
        run_session(demo_rounds(1), Path(scratch) / "arms", pictures=pictures)
    shots = {(shot.round_name, place): shot.frame for shot, place in zip(pictures.snapshots, cycle(range(3)))}
    panels = [
        captioned(shots[MATCHED, 2], "two arms: the bar is level at the goal"),
        captioned(shots[ONE_ARM, 2], "one arm: the free end has dropped"),
        captioned(shots[UNGUARDED, 1], "the partner (orange) swings its elbow into our wrist (blue)"),
        captioned(shots[GUARDED, 1], "the same partner, with the safety filter: our arm gives way"),
    ]
    return np.concatenate([np.concatenate(panels[:2], axis=1), np.concatenate(panels[2:], axis=1)])


if __name__ == "__main__":
    main(Path(sys.argv[1]) if sys.argv[1:] else None)
