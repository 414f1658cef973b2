"""What a finished training run looks like: its curve as files, and a page that holds everything worth a look."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from chamber.cell_report.training import slope_table
from concerto.training.learning_signal_check import (
    DEFAULT_MIN_EPISODES,
    CheckStatus,
    SlopeReport,
    curve_json,
    slope_report_values,
)
from ripieno.report import FIGURE_STYLE, Figure, Section, Table, Verdict, figure_to_svg, render_page

if TYPE_CHECKING:
    from concerto.training.config import EgoAHTConfig
    from concerto.training.protocols import RewardCurve

__all__ = ["FinishedRun", "result_files"]

_LEARNER_PANELS = (
    ("policy_loss", "loss of the policy"),
    ("value_loss", "loss of the value estimate"),
    ("dist_entropy", "entropy of the policy"),
    ("approx_kl", "change of the policy (KL)"),
)
_MEANINGS = {
    "actor_grad_norm": "norm of the policy's gradient, before it is limited to 10",
    "advantage_mean": "how much better actions were than the critic expected, in units of reward",
    "advantage_std": "its scatter; the learner divides by it",
    "approx_kl": "how far an update moves the policy: far above 0.02, steps are too large",
    "clip_fraction": "share of samples beyond the clip; near 0 the policy hardly moves, above 0.3 steps are too large",
    "dist_entropy": "how widely actions scatter (nats); falls as the policy becomes sure",
    "explained_variance": "1: the critic predicts the returns; 0: no better than a constant; below 0: worse",
    "kl_estimate": "approx kl by another estimate, which sees rare large changes",
    "learning_rate": "of the optimiser",
    "override_norm_mean": "by how much the safety layer changed an action where it did",
    "override_rate": "share of actions that the safety layer changed",
    "policy_loss": "minus the clipped surrogate; its level says little",
    "ratio_max": "largest probability of an action over what it was when the action was drawn",
    "ratio_min": "smallest one",
    "value_loss": "squared error of the critic, in squared units of reward",
    "value_mean": "what the critic expects, in units of reward",
    "value_std": "how much it tells states apart: near 0, not at all",
}
_NEXT = {
    CheckStatus.FAILED: (
        "Next: a slow rise shows with more frames (total_frames). If the change of the policy is far above 0.02, lower "
        "happo.lr; if it is near 0, raise it. Whether the reward can rise at all beside this partner, a random ego and "
        "a rule of your own say; see 'When a run does not learn' in the explanation of training."
    ),
    CheckStatus.INSUFFICIENT_DATA: (
        f"Next: more frames (total_frames); the check needs {DEFAULT_MIN_EPISODES} episodes."
    ),
}
"""What to do about a curve that does not pass."""
_VERDICTS = {
    CheckStatus.PASSED: Verdict("good", "Learning", "The reward per episode grows, and chance does not explain it."),
    CheckStatus.FAILED: Verdict(
        "bad", "Not learning", "The reward per episode does not grow, or chance could explain it."
    ),
    CheckStatus.INSUFFICIENT_DATA: Verdict(
        "warning",
        "Too short",
        "There are too few episodes to say whether the ego learns.",
    ),
    CheckStatus.INVALID: Verdict("bad", "Invalid", "The reward of an episode is not a finite number."),
}
_SAFETY_ROWS = (
    ("n_filter_calls", "Decisions"),
    ("n_braking_fires", "Braking took over (decisions)"),
    ("n_fallback_fires", "The fallback answered (decisions)"),
    ("n_qp_infeasible", "No action satisfied every constraint (decisions)"),
    ("lambda_steady_state", "Slack in the steady state (m/s²)"),
    ("lambda_min_observed", "Smallest slack (m/s²)"),
    ("lambda_max_observed", "Largest slack (m/s²)"),
    ("lambda_clamp_bound", "Clamp of the slack (m/s²)"),
    ("saturated", "The slack is saturated"),
)


@dataclass(frozen=True)
class FinishedRun:
    """A run and what was measured of it.

    Attributes:
        cfg: what was run.
        curve: what it earned.
        report: of the learning-signal check.
        log: events of its log, those of earlier processes included, but for what was played again after a resumption.
        frames: of the whole run.
        seconds: of wall time that this process took, from building the environment to the last checkpoint.
        frames_per_second: of this process once it stepped, updates and checkpoints included.
    """

    cfg: EgoAHTConfig
    curve: RewardCurve
    report: SlopeReport
    log: Sequence[Mapping[str, Any]]
    frames: int
    seconds: float
    frames_per_second: float

    @property
    def safety_summary(self) -> Mapping[str, Any] | None:
        """What the safety layer did; None when there was none."""
        finals = [line for line in self.log if line.get("event") == "safety_telemetry_final"]
        if not finals or not finals[-1].get("safety_enabled"):
            return None
        return {name: finals[-1][name] for name, _ in _SAFETY_ROWS if name in finals[-1]}

    def learner_scalars(self) -> list[Mapping[str, Any]]:
        """Give the metrics of every update, in order."""
        return [line for line in self.log if line.get("metric_namespace") == "train"]


def result_files(run: FinishedRun) -> dict[str, bytes | str]:
    """Make the curve as JSON, PNG and SVG, and the page ``index.html``."""
    from concerto.training._curve_figures import slope_figure, write_figure

    figure = slope_figure(run.curve, run.report)
    record = curve_json(run.curve, slope_report_values(run.report))
    with TemporaryDirectory() as scratch:
        paths = [write_figure(figure, Path(scratch) / name) for name in ("curve.png", "curve.svg")]
        pictures: dict[str, bytes | str] = {path.name: path.read_bytes() for path in paths}
    return {"curve.json": f"{record}\n", **pictures, "index.html": _page(run, figure_to_svg(figure))}


def _page(run: FinishedRun, curve_svg: str) -> str:
    cfg, curve = run.cfg, run.curve
    return render_page(
        title=f"Training on {cfg.env.task}",
        lead=(
            f"An ego learned for {run.frames:,} frames beside the frozen partner {cfg.partner.class_name}, "
            f"seed {cfg.seed}."
        ),
        verdict=_VERDICTS[run.report.status],
        sections=[
            _curve_section(run, curve_svg),
            *_learner_section(run),
            _safety_section(run),
            _setting_section(run),
            _files_section(run),
        ],
        footer=f"Run {curve.run_id}.",
    )


def _curve_section(run: FinishedRun, curve_svg: str) -> Section:
    report = run.report
    rewards = list(run.curve.per_episode_ego_rewards)
    n = len(rewards)
    last = rewards[-10:]
    return Section(
        heading="Learning curve",
        text=f"""
Every point is the sum of the ego's rewards in one of {n} training episodes, in which it explores; the line is the least
squares fit that the check is about. The last {len(last)} episodes have the mean {_mean(last):.3f}, the first
{len(rewards[:10])} had {_mean(rewards[:10]):.3f}.

{_NEXT.get(report.status, "")}
""",
        figures=[Figure(curve_svg, "Reward per episode.", f"Learning curve of {n} episodes: {report.status.name}.")],
        tables=[slope_table(report)],
    )


def _learner_section(run: FinishedRun) -> list[Section]:
    scalars = run.learner_scalars()
    panels = [(name, words) for name, words in _LEARNER_PANELS if any(_is_number(line.get(name)) for line in scalars)]
    if not panels:
        return []
    last = scalars[-1]
    shown = {name: last[name] for name in sorted(last) if _is_number(last[name]) and name not in {"seed", "step"}}
    return [
        Section(
            heading="The learner",
            text=f"What the {len(scalars)} updates of actor and critic report.",
            figures=[
                Figure(
                    _learner_svg(scalars, panels),
                    "Means over all minibatches of an update.",
                    f"Courses of {', '.join(words for _, words in panels)} over the frames.",
                )
            ],
            tables=[
                Table(
                    ["Metric", "At the last update", "What it says"],
                    [
                        [name.replace("_", " "), f"{float(value):.4g}", _MEANINGS.get(name, "")]
                        for name, value in shown.items()
                    ],
                    caption="Every metric of the learner.",
                )
            ],
        )
    ]


def _learner_svg(scalars: Sequence[Mapping[str, Any]], panels: Sequence[tuple[str, str]]) -> str:
    import matplotlib as mpl
    from matplotlib.figure import Figure as MatplotlibFigure

    with mpl.rc_context(FIGURE_STYLE):
        figure = MatplotlibFigure(figsize=(7.2, 1.9 * math.ceil(len(panels) / 2)))
        axes = figure.subplots(math.ceil(len(panels) / 2), 2, squeeze=False, sharex=True).ravel()
        for place, (name, words) in zip(axes, panels, strict=False):
            points = [(line["step"], line[name]) for line in scalars if _is_number(line.get(name))]
            place.plot(*zip(*points, strict=True))
            place.set_title(words)
        for place in axes[len(panels) :]:
            place.set_axis_off()
        for place in axes[max(0, len(panels) - 2) : len(panels)]:
            place.set_xlabel("frames")
        return figure_to_svg(figure)


def _safety_section(run: FinishedRun) -> Section:
    final = run.safety_summary
    if final is None:
        return Section(heading="Safety", text="No safety layer was between policy and environment.")
    scalars = run.learner_scalars()
    rates = [float(line["override_rate"]) for line in scalars if _is_number(line.get("override_rate"))]
    share = f" It overrode {100 * _mean(rates):.1f} % of the ego's actions." if rates else ""
    rows = [[words, _plain(final[name])] for name, words in _SAFETY_ROWS if name in final]
    return Section(
        heading="Safety",
        text=f"The safety stack decided every action of the ego.{share} The learner is told what was really done.",
        tables=[Table(["Quantity", "Value"], rows, caption="Telemetry of the safety stack over the whole run.")],
    )


def _setting_section(run: FinishedRun) -> Section:
    cfg, happo = run.cfg, run.cfg.happo
    rows: list[list[object]] = [
        ["Task", cfg.env.task],
        ["Condition", cfg.env.condition_id or "-"],
        ["Copies of the environment", cfg.env.num_envs],
        ["Partner", cfg.partner.class_name],
        ["Frames", run.frames],
        ["Seconds", f"{run.seconds:.1f}"],
        ["Frames per second", f"{run.frames_per_second:,.0f}"],
        ["Rollout, minibatch, epochs", f"{happo.rollout_length}, {happo.batch_size}, {happo.n_epochs}"],
        ["Learning rate, discount, clip", f"{happo.lr:g}, {happo.gamma:g}, {happo.clip_eps:g}"],
        ["Device", cfg.runtime.device],
    ]
    return Section(
        heading="What was run, and how fast",
        text=(
            "Times are wall time of the process that finished the run: seconds with set-up, frames per second from the "
            "first step on, with updates and checkpoints. config.yaml has every setting."
        ),
        tables=[Table(["Setting", "Value"], rows, caption="The run.")],
    )


def _files_section(run: FinishedRun) -> Section:
    stem = f"{run.curve.run_id}_step"
    return Section(
        heading="How to check this run, and how to go on",
        text=f"""
'ripieno verify FOLDER' checks every byte of the folder that holds this page against run.json and its hash chain.
'chamber-spike train --config FOLDER/config.yaml' runs the same again: on one kind of machine, to the same bytes.

The checkpoints are artifacts/{stem}<frames>.pt, each with a sidecar that holds its SHA-256; 'chamber play --checkpoint
FILE --partner NAME' plays one beside any partner. The log is logs/{run.curve.run_id}.jsonl, one JSON object per line.
""",
    )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else math.nan


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _plain(value: object) -> object:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else value
