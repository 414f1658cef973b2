"""One HTML page about a run, for somebody who has never seen it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ripieno.files import write_atomic
from ripieno.report import FIGURE_STYLE, Figure, Section, Table, figure_to_svg, render_page
from scpn_phase_orchestrator.reporting import figures

if TYPE_CHECKING:
    from scpn_phase_orchestrator.binding.types import BindingSpec
    from scpn_phase_orchestrator.runtime.history import RunHistory
    from scpn_phase_orchestrator.runtime.simulation import SimulationResult
    from scpn_phase_orchestrator.supervisor.verdict import Verdict

__all__ = ["history_figures", "render_comparison_page", "render_run_page", "verdict_table", "write_run_page"]

MAX_ACTIONS = 200
"""Most actions that a page lists; it says how many it leaves out."""
_MEASURES_IN_WORDS = (
    "R, drawn for good layers, says how far the phases of a layer agree at one moment; lock, drawn for bad layers, is "
    "the coherence beyond chance over as long as the verdict looks at, from 0 (free) to 1 (locked)."
)
_LAYER_ALT = (
    "R of every good and lock level of every bad layer over time, with target and ceiling. " + _MEASURES_IN_WORDS
)
_ORDER_CAPTION = (
    "R of all good and of all bad layers from moment to moment; it is 1 when all phases agree. Free oscillators meet "
    "again and again, so R of a bad layer may touch 1 without being locked: its lock level decides."
)


def render_run_page(result: SimulationResult, spec: BindingSpec) -> str:
    """Give the page of one run: the answer first, then pictures, then what the supervisor did.

    Raises:
        ValueError: the result carries no history.
    """
    history = _history(result)
    mode = "supervised" if result.policy_enabled else "open loop"
    sections = [
        Section("What came out", _outcome_text(result, spec), tables=_verdict_tables(result.verdict)),
        Section("Over time", figures=history_figures(history)),
        Section("What the supervisor did", _action_text(history), tables=_action_tables(history)),
        Section("What ran", tables=[_structure_table(spec), _knob_table(spec)]),
    ]
    size = (
        f"{history.final_phases.size} oscillators in {len(spec.layers)} layers, {spec.sample_period_s:g} s a step, "
        f"{spec.control_period_s:g} s a decision."
    )
    return render_page(
        title=f"{spec.name}: {result.steps} steps, {mode}",
        lead=size if result.verdict is None else f"{result.verdict.sentence} {size}",
        sections=sections,
    )


def render_comparison_page(open_loop: SimulationResult, supervised: SimulationResult, spec: BindingSpec) -> str:
    """Give the page of two runs from one seed: open loop beside supervised.

    Raises:
        ValueError: a result carries no history, or no step.
    """
    import matplotlib as mpl

    verdict_before, verdict_after = open_loop.verdict, supervised.verdict
    if verdict_before is None or verdict_after is None:
        raise ValueError("runs without a step cannot be compared")
    verdicts = verdict_before, verdict_after
    before, after = _history(open_loop), _history(supervised)
    with mpl.rc_context(FIGURE_STYLE):
        side_by_side = Figure(
            figure_to_svg(figures.comparison_figure(before, after)),
            f"The same start, open loop beside supervised. {_layer_caption(after)}",
            f"Open loop and supervised: {_LAYER_ALT}",
        )
    sections = [
        Section(
            "What supervision changed",
            _measures_text(supervised.verdict, spec),
            figures=[side_by_side],
            tables=[_runs_table(open_loop, supervised, *verdicts), _layers_table(*verdicts, spec)],
        ),
        Section("The supervised run over time", figures=history_figures(after)),
        Section("What the supervisor did", _action_text(after), tables=_action_tables(after)),
        Section("What ran", tables=[_structure_table(spec), _knob_table(spec)]),
    ]
    return render_page(
        title=f"{spec.name}: what supervision changes",
        lead=_comparison_answer(*verdicts),
        sections=sections,
    )


def write_run_page(result: SimulationResult, spec: BindingSpec, path: Path | str) -> Path:
    """Write the page of one run, whole or not at all."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, render_run_page(result, spec).encode("utf-8"))
    return path


def history_figures(history: RunHistory) -> list[Figure]:
    """Draw a run for a page: order and regimes, layers, knobs, phases, coupling."""
    import matplotlib as mpl

    pictures = (
        (
            figures.order_figure,
            _ORDER_CAPTION,
            "R of the good and of the bad layers together over time, with the regime below.",
        ),
        (figures.layer_figure, _layer_caption(history), _LAYER_ALT),
        (
            figures.knob_figure,
            "What was turned: gain 1 is the coupling as the spec declares it; alpha is a lag added to a layer.",
            "Gains on the coupling, lags of layers and strength of the drive over time.",
        ),
        (
            figures.phase_circle_figure,
            "Phases at the end. Points close together are in step.",
            "Final phases of all oscillators on circles, one for each layer.",
        ),
        (
            figures.coupling_figure,
            "Coupling at the end, after knobs and constraints.",
            "Heat map of the effective coupling matrix with the layers marked.",
        ),
    )
    with mpl.rc_context(FIGURE_STYLE):
        return [Figure(figure_to_svg(draw(history)), caption, alt) for draw, caption, alt in pictures]


def verdict_table(verdict: Verdict) -> Table:
    """Give the finding for every layer of the objective."""
    rows = [
        (
            layer.name,
            "together" if layer.is_good else "apart",
            layer.mean_r,
            layer.lock,
            "yes" if layer.holds else "no",
        )
        for layer in verdict.layers
    ]
    headers = ("layer", "should be", "mean R", "lock", "holds")
    return Table(
        headers,
        rows,
        f"The last {verdict.judged_steps} steps. Lock is coherence beyond what unrelated phases show by chance.",
    )


def _layer_caption(history: RunHistory) -> str:
    """Say what a picture of layers shows and how the verdict reads it."""
    if len(history.layer_names) > figures.MAX_NAMED_LAYERS:
        return f"{_MEASURES_IN_WORDS} The scale shows the target of good layers and the ceiling of bad ones."
    return (
        f"{_MEASURES_IN_WORDS} The verdict looks at the shaded end: it wants the R of good layers above the dotted "
        "target on average, and the dot of each bad layer below the dashed ceiling; behind it, pale, its R."
    )


def _history(result: SimulationResult) -> RunHistory:
    if result.history is None:
        raise ValueError("this result carries no history; run it with history kept")
    return result.history


def _measures_text(verdict: Verdict | None, spec: BindingSpec) -> str:
    """Explain what the verdict is made of."""
    if verdict is None:
        return "Without a step there is nothing to judge."
    return (
        f"Judged are the last {verdict.judged_steps} steps. A good layer should hold together: its order parameter R, "
        f"which is 1 when all its phases agree, must reach {spec.supervisor.good_target:g} on average. A bad layer "
        "should stay apart: its lock, the coherence beyond what unrelated phases show by chance (0 free, 1 locked), is "
        f"to be {spec.supervisor.bad_ceiling:g} at most. The score is the weighted mean of the good layers' R and of "
        "one minus the bad layers' lock; 1 is best."
    )


def _outcome_text(result: SimulationResult, spec: BindingSpec) -> str:
    return (
        f"{_measures_text(result.verdict, spec)}\n\n"
        f"At the last step R is {result.r_good:.4f} over all good layers and {result.r_bad:.4f} over all bad ones, "
        f"at that moment only. Regime: {_regime(result)}. {result.action_total} actions, "
        f"{result.boundary_violation_total} boundary violations."
    )


def _regime(result: SimulationResult) -> str:
    # Nobody judges the regime of an open loop: the one that it began with would read like a finding.
    return result.final_regime if result.policy_enabled else "not judged"


def _comparison_answer(before: Verdict, after: Verdict) -> str:
    if after.better_than(before):
        word = "Supervision helped."
    else:
        word = "Supervision did harm." if before.better_than(after) else "Supervision changed nothing clearly."
    return f"{word} Open loop: {before.sentence} Supervised: {after.sentence}"


def _runs_table(open_loop: SimulationResult, supervised: SimulationResult, before: Verdict, after: Verdict) -> Table:
    rows = [
        (
            name,
            verdict.good_r,
            verdict.bad_lock,
            verdict.score,
            _regime(result),
            verdict.outcome.value.replace("_", " "),
        )
        for name, result, verdict in (("open loop", open_loop, before), ("supervised", supervised, after))
    ]
    return Table(
        ("run", "lowest R of good", "highest lock of bad", "score", "regime", "outcome"),
        rows,
        f"{open_loop.steps} steps each from the same phases. The regime is judged by the supervisor; an open loop "
        "has none.",
    )


def _layers_table(before: Verdict, after: Verdict, spec: BindingSpec) -> Table:
    wanted = {
        True: f"together: R at least {spec.supervisor.good_target:g}",
        False: f"apart: lock at most {spec.supervisor.bad_ceiling:g}",
    }
    rows = [
        (
            one.name,
            wanted[one.is_good],
            *(
                cell
                for layer in (one, other)
                for cell in (layer.mean_r if layer.is_good else layer.lock, "yes" if layer.holds else "no")
            ),
        )
        for one, other in zip(before.layers, after.layers, strict=True)
    ]
    return Table(
        ("layer", "should be", "open loop", "holds", "supervised", "holds"),
        rows,
        "Layer by layer: mean R of good ones, lock of bad ones.",
    )


def _verdict_tables(verdict: Verdict | None) -> Sequence[Table]:
    return () if verdict is None or not verdict.layers else (verdict_table(verdict),)


def _action_text(history: RunHistory) -> str:
    if not history.actions:
        return "It did not act." if history.is_supervised else "An open loop has no supervisor."
    counts = Counter(f"{action.knob} of {action.scope}" for _, action in history.actions)
    return "Actions: " + ", ".join(f"{count} on {name}" for name, count in counts.most_common()) + "."


def _action_tables(history: RunHistory) -> Sequence[Table]:
    if not history.actions:
        return ()
    shown = history.actions[:MAX_ACTIONS]
    rows = [
        (step, action.knob, action.scope, action.value, action.ttl_s, action.justification) for step, action in shown
    ]
    left_out = len(history.actions) - len(shown)
    caption = f"The first {len(shown)} actions; {left_out:,} more are left out." if left_out else "Every action."
    return (Table(("step", "knob", "scope", "value", "lives for (s)", "reason"), rows, caption),)


def _structure_table(spec: BindingSpec) -> Table:
    sides = {"good": "together", "bad": "apart", "": ""}
    rows = [
        (
            layer.index,
            layer.name,
            len(layer.oscillator_ids),
            sides[spec.objectives.side_of(layer.index)],
            ", ".join(layer.oscillator_ids),
        )
        for layer in spec.layers
    ]
    return Table(("index", "layer", "oscillators", "should be", "names"), rows, "Layers.")


def _knob_table(spec: BindingSpec) -> Table:
    rows = [
        (actuator.name, actuator.knob, actuator.scope, actuator.limits[0], actuator.limits[1])
        for actuator in spec.actuators
    ]
    return Table(("actuator", "knob", "scope", "from", "to"), rows, "What the supervisor may turn, and how far.")
