"""``ripieno demo phase``: one pack open loop and supervised, both logs verified and replayed, one page."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from scpn_phase_orchestrator.binding.types import BindingSpec
    from scpn_phase_orchestrator.runtime.replay import ReplayReport
    from scpn_phase_orchestrator.runtime.simulation import SimulationResult

__all__ = ["run_demo"]


@click.command("phase")
@click.option("--pack", default="power_grid", show_default=True, help="Pack, folder or spec file to run.")
@click.option("--steps", type=click.IntRange(min=1, max=1_000_000), default=1000, show_default=True, help="Steps.")
@click.option("--seed", type=click.IntRange(min=0), default=42, show_default=True, help="Of the initial phases.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Run folder to make; it must not exist. Default: runs/phase-<UTC timestamp>.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object.")
@click.option("--debug", is_flag=True, expose_value=False, help="Show the traceback of an error.")
def run_demo(pack: str, steps: int, seed: int, out: Path | None, as_json: bool) -> None:
    """Run a domain pack open loop and supervised, and replay both.

    Both runs start from the same phases. Each writes an audit log, which is verified and re-executed step by step; the
    page shows what supervision changed.

    Example: ripieno demo phase --pack queuewaves --out runs/queues
    """
    # Everything is imported late: `ripieno --help` loads this module.
    from ripieno.errors import InputError, IntegrityError
    from ripieno.run import RunWriter
    from ripieno.verify import verify
    from scpn_phase_orchestrator.binding.loader import load_binding_spec
    from scpn_phase_orchestrator.binding.validator import validate_binding_spec
    from scpn_phase_orchestrator.domainpacks import resolve_spec_path
    from scpn_phase_orchestrator.exceptions import SPOError
    from scpn_phase_orchestrator.reporting.run_page import render_comparison_page
    from scpn_phase_orchestrator.runtime.cli._gate import needs_acknowledgement

    try:
        path = resolve_spec_path(pack)
        spec = load_binding_spec(path)
        problems = validate_binding_spec(spec)
    except SPOError as error:
        raise InputError(str(error)) from error
    if problems:
        raise InputError(f"{path}: {'; '.join(problems)}")
    if needs_acknowledgement(spec, path):
        raise InputError(
            f"safety_tier='{spec.safety_tier}' is not enforced here; 'spo compare' says what simulating {path} needs"
        )
    folder = out if out is not None else Path("runs") / f"phase-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    rules = path.parent / (spec.policy or "policy.yaml")
    inputs = {"spec": path, **({"rules": rules} if rules.is_file() else {})}
    config = {"spec": spec.name, "steps": steps, "seed": seed}
    with (
        RunWriter(
            folder, system="phase", kind="comparison", config=config, seeds={"phases": seed}, inputs=inputs
        ) as run,
        TemporaryDirectory() as scratch,
    ):
        for name, source in inputs.items():
            run.artifact(f"{name}{source.suffix}", source)
        results: dict[str, SimulationResult] = {}
        for name, enabled in (("open_loop", False), ("supervised", True)):
            log = Path(scratch) / f"{name}.jsonl"
            results[name] = _recorded_run(spec, path, steps, seed, log, enabled=enabled)
            replay = _replayed(log)
            run.artifact(log.name, log)
            run.event("run", name=name, replayed_transitions=replay.transitions, **_portable(results[name]))
        before, after = results["open_loop"], results["supervised"]
        run.artifact("index.html", render_comparison_page(before, after, spec))
        headline = _headline(before, after)
        digest = run.finish(summary={"headline": headline})
    report = verify(folder, expect=digest)
    if not report.ok:
        raise IntegrityError(f"the run that was just written does not verify: {report.first_problem}")
    page = folder / "index.html"
    if as_json:
        click.echo(
            json.dumps(
                {"folder": str(folder), "page": str(page), "digest": digest, "verified": True, "headline": headline}
            )
        )
        return
    click.echo(headline)
    click.echo(
        f"Both audit logs hold, and replay gave the same bits in every one of {max(0, steps - 1)} transitions each."
    )
    click.echo(f"Verified: every file of {folder} is as it was written (digest {digest}).")
    click.echo(f"Look at {page}; replay again with: spo replay {folder / 'supervised.jsonl'} --verify")


def _recorded_run(
    spec: BindingSpec, path: Path, steps: int, seed: int, log: Path, *, enabled: bool
) -> SimulationResult:
    from scpn_phase_orchestrator.runtime.audit_logger import AuditLogger
    from scpn_phase_orchestrator.runtime.simulation import simulate

    with AuditLogger(log, create_only=True) as logger:
        return simulate(
            spec, steps=steps, seed=seed, policy_enabled=enabled, audit_logger=logger, binding_spec_path=path
        )


def _replayed(log: Path) -> ReplayReport:
    """Verify and re-execute a log that was just written."""
    from ripieno.errors import IntegrityError
    from scpn_phase_orchestrator.runtime.replay import ReplayEngine

    report = ReplayEngine(log).verify()
    if not report.ok or not report.is_bit_identical:
        raise IntegrityError(f"{log.name} does not replay: {report.to_record()}")
    return report


def _portable(result: SimulationResult) -> dict[str, object]:
    """What a run folder's log keeps of a result; numbers as text, so that any language reads the same."""
    verdict = result.verdict
    return {
        "r_good": f"{result.r_good:.6f}",
        "r_bad": f"{result.r_bad:.6f}",
        "regime": result.final_regime,
        "actions": result.action_total,
        "verdict": None if verdict is None else verdict.outcome.value,
    }


def _headline(before: SimulationResult, after: SimulationResult) -> str:
    sentences = [result.verdict.sentence if result.verdict else "no step" for result in (before, after)]
    return f"{before.spec_name}, open loop: {sentences[0]} Supervised: {sentences[1]}"
