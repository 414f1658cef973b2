"""Draw the pictures of the README: `.venv/bin/python scripts/pictures.py runs/push-...`.

The planar push comes from a run folder; the power grid (1,000 steps from seed 42), the retail campaign (16 train tasks,
four changes), the two arms (the rounds of the demo, one episode each) and the training (the shipped planar
configuration, then one start beside a partner that it has not met) are run here, and so is the arm task of the how-to.
"""

from __future__ import annotations

import re
import sys
from itertools import cycle
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle

from chamber.benchmarks.training_runner import run_training
from chamber.cell.record import read_cell_record
from chamber.cell_report.trajectories import trajectory_figure
from chamber.configs import shipped_config_path
from chamber.learning import load_policy
from chamber.rollout.arm_rounds import GUARDED, MATCHED, ONE_ARM, UNGUARDED, demo_rounds
from chamber.rollout.config import SessionConfig, TrainedEgo, make_environment, make_team
from chamber.rollout.guard import Guard
from chamber.rollout.pictures import Frame, captioned, png_bytes
from chamber.rollout.session import run_session
from chamber.rollout.snapshots import SessionPictures
from concerto.training.config import load_config
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
HOW_TO = IMAGES.parent / "how-to" / "bring-your-own-arm-task.md"
PLAN = {"release": "plan.plan_and_solve.ps_prompt"}
ASK = {"release": "own.text", "parameters": {"append_instruction": "Ask when it is unclear which item is meant."}}
FORGET = {"release": "own.text", "parameters": {"replace_context": "Be brief and friendly."}}
RETAIL_TREATMENTS = {
    "plan-first": [PLAN],
    "ask-if-unclear": [ASK],
    "plan-and-ask": [PLAN, ASK],
    "policy-lost": [FORGET],
}
STRANGER = "push_stubborn"
START = 15
"""A start beside the stranger in which the ego, without the stack, drives into it."""
MEAN_OF = 100
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
        training().savefig(IMAGES / "training.png", metadata={"Software": None}, **LOOK)
    (IMAGES / "two-arms.png").write_bytes(png_bytes(two_arms()))
    (IMAGES / "own-arm-task.png").write_bytes(png_bytes(own_arm_task()))


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


def own_arm_task() -> Frame:
    """Give the end of an episode of the task that the how-to builds up."""
    *parts, _ = re.findall(r"```python\n(.*?)```", HOW_TO.read_text(encoding="utf-8"), re.DOTALL)
    names: dict[str, Any] = {}
    exec("\n".join(parts), names)
    env = names["PressEnv"](render_mode="rgb_array")
    team = names["press_team"](env, None)
    obs, _ = env.reset(seed=1)
    team.reset(seed=1)
    is_over = False
    while not is_over:
        obs, _, terminated, truncated, _ = env.step(team.act(obs))
        is_over = terminated or truncated
    return env.render()


def training() -> Figure:
    """Give the learning curve of the shipped configuration, and its ego beside a stranger, without and with stack."""
    figure = Figure(figsize=(12.0, 3.9), layout="tight")
    left, *right = figure.subplots(1, 3, width_ratios=(1.7, 1.0, 1.0))
    with TemporaryDirectory() as scratch:
        places = [f"log_dir={scratch}", f"artifacts_root={scratch}"]
        name = "mpe_cooperative_push"
        curve, _ = run_training(load_config(config_path=shipped_config_path(name), overrides=places))
        rewards = np.asarray(curve.per_episode_ego_rewards)
        means = np.convolve(rewards, np.full(MEAN_OF, 1.0 / MEAN_OF), mode="valid")
        left.plot(rewards, color="C0", alpha=0.3, linewidth=0.6, label="one episode")
        left.plot(np.arange(MEAN_OF - 1, len(rewards)), means, color="C1", label=f"mean of the last {MEAN_OF}")
        left.set(title="While it learns", xlabel="training episode", ylabel="reward per episode (m), 0 is best")
        left.legend(loc="lower right")
        policy = load_policy(curve.checkpoint_paths[-1], ego_uid="ego")
        ego = TrainedEgo(checkpoint_sha256=policy.checkpoint_sha256, run_id=policy.run_id, step=policy.step)
        for axes, guard in zip(right, (Guard.WATCH, Guard.ON), strict=True):
            config = SessionConfig.of(name, ego=ego, partner=STRANGER, guard=guard)
            draw_paths(axes, config, {policy.checkpoint_sha256: curve.checkpoint_paths[-1]})
            axes.set_title(f"A stranger, {'with' if guard is Guard.ON else 'without'} the stack")
    right[-1].legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


def draw_paths(axes: Axes, config: SessionConfig, checkpoints: dict[str, Path]) -> None:
    """Draw the paths of one episode, and the robots where they come nearest."""
    env = make_environment(config)
    team, plane = make_team(config, env, checkpoints=checkpoints), env.unwrapped
    obs, _ = env.reset(seed=START)
    team.reset(seed=START)
    uids = plane.agent_uids
    paths, is_over = [[plane.position(uid) for uid in uids]], False
    while not is_over:
        obs, _, terminated, truncated, _ = env.step(team.act(obs))
        paths.append([plane.position(uid) for uid in uids])
        is_over = terminated or truncated
    path = np.asarray(paths)
    distances = np.linalg.norm(path[:, 0] - path[:, 1], axis=1)
    nearest = int(np.argmin(distances))
    for k, uid in enumerate(uids):
        axes.plot(*path[:, k].T, color=f"C{k}", label=uid)
        axes.plot(*path[0, k], "o", color="white", markeredgecolor=f"C{k}", markersize=5)
        axes.add_patch(Circle(tuple(path[nearest, k]), plane.robot_radius, color=f"C{k}", alpha=0.6))
    axes.plot(*plane.landmarks.T, "*", color="C2", markersize=11, linestyle="none", label="landmark")
    gap = distances[nearest] - 2.0 * plane.robot_radius
    ticks = (-1.0, 0.0, 1.0)
    axes.set(xlim=(-1.1, 1.1), ylim=(-1.1, 1.1), xticks=ticks, yticks=ticks, xlabel=f"m; smallest gap {gap:+.2f} m")
    axes.set_aspect("equal")
    env.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]) if sys.argv[1:] else None)
