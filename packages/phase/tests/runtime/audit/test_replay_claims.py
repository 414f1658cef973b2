"""What a log claims beside the inputs of its steps, rewritten by somebody who can make every hash fit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from audit_runs import compact, drive, judged, rechain, records_of, sha256
from click.testing import CliRunner

from ripieno.verify import VerifyStatus
from scpn_phase_orchestrator.binding.loader import load_binding_spec
from scpn_phase_orchestrator.binding.types import BindingSpec, ChannelSpec
from scpn_phase_orchestrator.coupling.knm import CouplingBuilder
from scpn_phase_orchestrator.domainpacks import resolve_spec_path
from scpn_phase_orchestrator.runtime.audit_logger import AuditLogger
from scpn_phase_orchestrator.runtime.cli._audit import replay as replay_command
from scpn_phase_orchestrator.runtime.replay import ReplayEngine, ReplayReport
from scpn_phase_orchestrator.runtime.simulation import SimulationScenarioContext, simulate

STEPS = 30
Records = list[dict[str, Any]]


@pytest.fixture(scope="module")
def supervised(tmp_path_factory: pytest.TempPathFactory) -> Records:
    """A supervised run of a pack with amplitudes, actions on gains and lags, and three layers."""
    path = resolve_spec_path("queuewaves")
    log_path = tmp_path_factory.mktemp("run") / "log"
    with AuditLogger(log_path) as log:
        simulate(load_binding_spec(path), steps=STEPS, audit_logger=log, binding_spec_path=path)
    return records_of(log_path)


def replayed(records: Records, path: Path) -> ReplayReport:
    path.write_bytes(rechain(records))
    return ReplayEngine(path).verify()


def changed(records: Records, change: Callable[[Records], object]) -> Records:
    copied = [{**record, **{k: _copy(v) for k, v in record.items()}} for record in records]
    change(copied)
    return copied


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copy(item) for key, item in value.items()}
    return [_copy(item) for item in value] if isinstance(value, list) else value


def test_the_run_holds_and_its_actions_were_compared(supervised: Records, tmp_path: Path) -> None:
    report = replayed(supervised, tmp_path / "log")
    part = report.determinism[0]
    assert (report.problem, part.actions_checked, part.knob_resets, part.first_step) == ("", STEPS, 0, 0)
    assert report.is_bit_identical


CHANGES: list[tuple[str, Callable[[Records], object], str]] = [
    ("R by its last bits", lambda rs: rs[9]["layers"][0].update(R=rs[9]["layers"][0]["R"] + 3e-16), "order parameters"),
    ("mean phase", lambda rs: rs[9]["layers"][0].update(psi=0.1), "order parameters"),
    ("stability", lambda rs: rs[9].update(stability=0.999), "stability"),
    ("regime", lambda rs: rs[9].update(regime="critical"), "has 'critical'"),
    ("decided regime", lambda rs: rs[9].update(regime_decided="critical"), "decides 'critical'"),
    ("regime that is none", lambda rs: rs[STEPS].update(regime_decided="calm"), "is none"),
    ("number of a step", lambda rs: rs[9].update(step=4711), "followed by step 4711"),
    ("number of a step twice", lambda rs: rs[9].update(step=7), "followed by step 7"),
    ("no actions", lambda rs: [r.update(actions=[]) for r in rs[1 : STEPS + 1]], "gains or lags"),
    ("action on another layer", lambda rs: rs[1]["actions"][0].update(scope="layer_1"), "step 1 has gains or lags"),
    ("stronger action", lambda rs: rs[1]["actions"][0].update(value=9.0), "limits"),
    ("shorter action", lambda rs: [a.update(ttl_s=0.3) for r in rs[1:12] for a in r["actions"]], "gains or lags"),
    ("action on no knob", lambda rs: rs[9].update(actions=[{**rs[1]["actions"][0], "knob": "Q"}]), "cannot be"),
    ("text in place of numbers", lambda rs: rs[9].update(phases=[str(v) for v in rs[9]["phases"]]), "must be numbers"),
    ("truth value for a number", lambda rs: rs[9].update(psi_drive=True), "must be numbers"),
    ("seed", lambda rs: rs[0].update(seed=1), "phases of the seed 1"),
    ("step of time", lambda rs: rs[0].update(dt=0.1 + 1e-14), "sample_period_s"),
    ("endless step of time", lambda rs: rs[0].update(dt=10**400), "too large"),
    ("mode", lambda rs: rs[0].pop("amplitude_mode"), "cannot be executed"),
    ("layers grouped otherwise", lambda rs: rs[0].update(layer_sizes=[1, 2, 3]), "layer_sizes"),
    ("layers beyond the phases", lambda rs: rs[0].update(layer_sizes=[2, 1, 2 * 10**9]), "add up to 6"),
    ("negative layers", lambda rs: rs[0].update(layer_sizes=[-2, 1, 7]), "layer_sizes"),
    ("spec", lambda rs: rs[0]["binding_config"].update(name="other"), "binding_summary_ref"),
    ("spec without its hash", lambda rs: rs[0].pop("binding_summary_ref"), "binding_summary_ref"),
    ("stability beyond doubles", lambda rs: rs[9].update(stability=10**400), "a step record must have"),
    ("R beyond doubles", lambda rs: rs[9]["layers"][0].update(R=10**400), "a step record must have"),
    ("wrong continuation", lambda rs: rs[0].update(continuation=3), "continuation must be 0"),
]


@pytest.mark.parametrize(("name", "change", "problem"), CHANGES, ids=[name for name, _, _ in CHANGES])
def test_a_false_claim_does_not_survive_execution(
    name: str, change: Callable[[Records], object], problem: str, supervised: Records, tmp_path: Path
) -> None:
    report = replayed(changed(supervised, change), tmp_path / "log")
    assert problem in report.problem, name


def test_a_spec_with_another_number_of_oscillators_is_refused_even_with_its_hash(
    supervised: Records, tmp_path: Path
) -> None:
    def change(records: Records) -> None:
        records[0]["binding_config"]["oscillator_count"] = 7
        records[0]["binding_summary_ref"] = sha256(compact(records[0]["binding_config"]))

    assert "oscillator_count 7" in replayed(changed(supervised, change), tmp_path / "log").problem


def test_elsewhere_a_mean_phase_is_still_held_to_the_tolerance(supervised: Records, tmp_path: Path) -> None:
    def change(records: Records) -> None:
        records[0]["platform"] = "another machine"
        records[9]["layers"][0]["psi"] += 1e-14

    report = replayed(changed(supervised, change), tmp_path / "log")
    assert (report.problem, report.is_bit_identical) == ("", False)

    def further(records: Records) -> None:
        change(records)
        records[9]["layers"][0]["psi"] += 1e-9

    assert "order parameters" in replayed(changed(supervised, further), tmp_path / "other").problem


# --- channels ---------------------------------------------------------------------------------------------------


@pytest.fixture
def delayed(s1_path: Path, tmp_path: Path) -> Records:
    spec = load_binding_spec(s1_path)
    spec.drivers.informational["confidence_weight"] = 0.5
    spec.channels = {"I": ChannelSpec(role="delayed and uncertain")}
    with AuditLogger(tmp_path / "channels") as log:
        simulate(spec, steps=STEPS, audit_logger=log)
    return records_of(tmp_path / "channels")


def test_what_channels_make_of_layers_is_confirmed(delayed: Records, tmp_path: Path) -> None:
    sources = {layer["evidence_source"] for record in delayed[2:9] for layer in record["channel_runtime"]["layers"]}
    assert "held_previous_tick" in sources
    assert replayed(delayed, tmp_path / "log").problem == ""


def test_layers_that_no_channel_made_are_found(delayed: Records, tmp_path: Path) -> None:
    def claim(records: Records, *, also_evidence: bool) -> None:
        record = records[9]
        for layer, evidence in zip(record["layers"], record["channel_runtime"]["layers"], strict=True):
            layer["R"] = 0.9
            if also_evidence:
                evidence["executed_R"] = 0.9
        record["stability"] = 0.9

    report = replayed(changed(delayed, lambda rs: claim(rs, also_evidence=False)), tmp_path / "log")
    assert "is not the one that its evidence describes" in report.problem
    report = replayed(changed(delayed, lambda rs: claim(rs, also_evidence=True)), tmp_path / "other")
    assert "is not what its channel makes of it" in report.problem


# --- scenarios --------------------------------------------------------------------------------------------------


def _disturbed(spec: BindingSpec, path: Path, hook: Callable[[SimulationScenarioContext], None]) -> ReplayReport:
    with AuditLogger(path) as log:
        simulate(spec, steps=STEPS, audit_logger=log, scenario_hook=hook)
    return ReplayEngine(path).verify()


def test_a_scenario_that_sets_everything_is_no_false_claim(tmp_path: Path) -> None:
    spec = load_binding_spec(resolve_spec_path("queuewaves"))

    def hook(context: SimulationScenarioContext) -> None:
        context.zeta, context.psi_target = 0.02 * context.step, 0.1
        if context.step in (12, 19):
            context.coupling = replace(context.coupling, knm=CouplingBuilder().build(6, 0.9, 0.1).knm)
        if context.step in (0, 7):
            context.phases = context.phases + 0.1

    report = _disturbed(spec, tmp_path / "log", hook)
    assert (report.problem, report.is_bit_identical) == ("", True)
    assert report.determinism[0].actions_checked == STEPS


def test_a_scenario_that_keeps_the_coupling_fixed_is_counted(tmp_path: Path) -> None:
    spec = load_binding_spec(resolve_spec_path("queuewaves"))
    fixed = CouplingBuilder().build(6, 0.9, 0.1)

    def hook(context: SimulationScenarioContext) -> None:
        context.coupling = replace(fixed, knm_r=context.coupling.knm_r)

    report = _disturbed(spec, tmp_path / "log", hook)
    assert report.problem == ""
    assert report.determinism[0].knob_resets > 0
    output = CliRunner().invoke(replay_command, [str(tmp_path / "log"), "--verify"]).output
    assert "Gains set back, as by a hook, although actions would still hold:" in output


# --- what is not compared is said -------------------------------------------------------------------------------


def test_a_log_whose_steps_lost_their_inputs_is_no_verified_run(closed_log: Path) -> None:
    records = records_of(closed_log)
    for record in records[1:7]:
        for name in ("phases", "omegas", "omegas_ref", "knm", "knm_ref", "alpha", "alpha_ref", "zeta", "psi_drive"):
            record.pop(name, None)
    closed_log.write_bytes(rechain(records))
    result = CliRunner().invoke(replay_command, [str(closed_log), "--verify"])
    assert result.exit_code == 1
    assert "no step record has inputs" in result.output
    assert judged(closed_log, reexecute=True).status is VerifyStatus.TAMPERED


def test_a_step_without_inputs_is_named(closed_log: Path) -> None:
    records = records_of(closed_log)
    del records[6]["phases"]
    closed_log.write_bytes(rechain(records))
    output = CliRunner().invoke(replay_command, [str(closed_log), "--verify"]).output
    assert "Without inputs, so not executed: 1 steps" in output
    assert judged(closed_log, reexecute=True).checks[-1].detail.endswith("; 1 not compared")


def test_steps_that_are_all_overridden_are_not_called_confirmed(closed_log: Path) -> None:
    records = records_of(closed_log)
    del records[0]["layer_sizes"]
    for record in records[1:7]:
        record["phases_overridden"] = True
    closed_log.write_bytes(rechain(records))
    output = CliRunner().invoke(replay_command, [str(closed_log), "--verify"]).output
    assert "Set by a hook, so not compared: 5 transitions" in output
    assert "Agreement: nothing was compared" in output
    assert "bit for bit" not in output
    assert "none to compare; 5 not compared" in judged(closed_log, reexecute=True).checks[-1].detail


def test_a_log_that_lost_its_first_steps_says_where_it_begins(closed_log: Path) -> None:
    records = records_of(closed_log)
    first = records[1]
    records[3] = {**records[3], **{name: first[name] for name in ("knm", "alpha", "omegas")}}
    for name in ("knm_ref", "alpha_ref", "omegas_ref"):
        del records[3][name]
    del records[1:3]
    records[-1]["closing"].update(records=7, steps=4)
    closed_log.write_bytes(rechain(records))
    output = CliRunner().invoke(replay_command, [str(closed_log), "--verify"]).output
    assert "Begins with step 2: what led there is not in the log" in output


def test_a_second_header_is_said_to_link_nothing(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log = AuditLogger(path)
    drive(log, 3)
    log.abandon()
    with AuditLogger(path) as again:
        drive(again, 3)
    result = CliRunner().invoke(replay_command, [str(path), "--verify"])
    assert result.exit_code == 0
    assert "Begins anew after an interruption: nothing links the steps on both sides" in result.output
