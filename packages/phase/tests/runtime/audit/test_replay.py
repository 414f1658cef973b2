"""Every recorded step, executed again, leads to the next one: bit for bit on the same machine."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from audit_runs import drive, judged, lines_of, rechain, records_of, replayed

from ripieno.verify import VerifyStatus
from scpn_phase_orchestrator.binding.loader import load_binding_spec
from scpn_phase_orchestrator.binding.types import AmplitudeSpec, BindingSpec, ChannelSpec, GeometrySpec, ImprintSpec
from scpn_phase_orchestrator.coupling.knm import CouplingBuilder
from scpn_phase_orchestrator.coupling.modulation import Modulation
from scpn_phase_orchestrator.exceptions import AuditError
from scpn_phase_orchestrator.runtime.audit_logger import AuditLogger
from scpn_phase_orchestrator.runtime.replay import ReplayEngine, ReplayReport
from scpn_phase_orchestrator.runtime.simulation import SimulationScenarioContext, simulate
from scpn_phase_orchestrator.upde.engine import UPDEEngine
from scpn_phase_orchestrator.upde.stuart_landau import StuartLandauEngine


def simulated(spec: BindingSpec, path: Path, steps: int = 30, **options: Any) -> ReplayEngine:
    with AuditLogger(path) as log:
        simulate(spec, steps=steps, audit_logger=log, **options)
    return replayed(path)


def confirmed(replay: ReplayEngine, transitions: int) -> ReplayReport:
    report = replay.verify()
    assert report.problem == ""
    assert report.check.status is VerifyStatus.COMPLETE
    assert report.transitions == transitions
    assert report.is_bit_identical
    assert all(part.is_exact and part.max_r_deviation == 0.0 for part in report.determinism)
    return report


def test_s1_with_30_steps_is_verified_as_documented(s1_path: Path, tmp_path: Path) -> None:
    replay = simulated(load_binding_spec(s1_path), tmp_path / "log")
    entries = replay.load()
    assert len(entries) == 32
    assert replay.verify_integrity(entries) == (True, 32)
    engine = replay.build_engine(replay.load_header())
    assert isinstance(engine, UPDEEngine)
    assert replay.verify_determinism_chained(engine, replay.step_entries(entries)) == (True, 29)
    assert replay.closing is not None
    confirmed(replay, 29)


def test_editing_one_digit_of_a_phase_is_found(s1_path: Path, tmp_path: Path) -> None:
    replay = simulated(load_binding_spec(s1_path), tmp_path / "log")
    entries = replay.load()
    entries[12]["phases"][3] = float(f"{entries[12]['phases'][3]:.14f}1")
    assert replay.verify_integrity(entries) == (False, 12)
    lines = lines_of(tmp_path / "log")
    text = lines[12].decode()
    place = text.index('"phases": [') + 20
    digit = str((int(text[place]) + 1) % 10)
    lines[12] = (text[:place] + digit + text[place + 1 :]).encode()
    (tmp_path / "log").write_bytes(b"".join(lines))
    again = ReplayEngine(tmp_path / "log")
    assert again.verify_integrity(again.load()) == (False, 12)


def test_an_edited_phase_with_fitting_hashes_fails_determinism(closed_log: Path) -> None:
    records = records_of(closed_log)
    records[4]["phases"][1] += 1e-13
    closed_log.write_bytes(rechain(records))
    replay = replayed(closed_log)
    engine = replay.build_engine(replay.load_header())
    assert replay.verify_determinism_chained(engine, replay.load()) == (False, 2)
    assert replay.verify_determinism_chained(engine, replay.load(), atol=1e-6) == (True, 5)
    report = replay.verify()
    assert report.problem.startswith("line 5: step 2 does not lead to step 3")
    assert judged(closed_log, reexecute=True).status is VerifyStatus.TAMPERED


@pytest.mark.parametrize("change", [{"backend": "other"}, {"platform": "another processor"}])
def test_a_run_of_another_backend_or_machine_is_held_to_the_tolerance(change: dict[str, str], closed_log: Path) -> None:
    records = records_of(closed_log)
    records[0].update(change)
    records[4]["phases"][1] += 1e-13
    closed_log.write_bytes(rechain(records))
    report = ReplayEngine(closed_log).verify()
    assert report.ok
    assert not report.is_bit_identical
    assert 0.0 < report.determinism[0].max_r_deviation < 1e-12
    assert 5e-14 < report.determinism[0].max_phase_deviation < 2e-13
    records[4]["phases"][1] += 1e-11
    closed_log.write_bytes(rechain(records))
    assert not ReplayEngine(closed_log).verify().ok


@pytest.mark.parametrize("method", ["euler", "rk4", "rk45"])
@pytest.mark.parametrize("substeps", [1, 3])
def test_every_method_is_replayed(method: str, substeps: int, s1_path: Path, tmp_path: Path) -> None:
    spec = load_binding_spec(s1_path)
    confirmed(simulated(spec, tmp_path / "log", method=method, substeps=substeps), 29)


@pytest.mark.parametrize("method", ["euler", "rk4", "rk45"])
def test_amplitudes_are_replayed(method: str, s1_path: Path, tmp_path: Path) -> None:
    spec = load_binding_spec(s1_path)
    spec.amplitude = AmplitudeSpec(mu=1.0, epsilon=0.2, amp_coupling_strength=0.1)
    replay = simulated(spec, tmp_path / "log", method=method)
    confirmed(replay, 29)
    engine = replay.build_engine(replay.load_header())
    assert isinstance(engine, StuartLandauEngine)
    assert replay.verify_determinism_sl_chained(engine, replay.load()) == (True, 29)
    entries = replay.load()
    entries[20]["amplitudes"][0] += 1e-12
    assert replay.verify_determinism_sl_chained(engine, entries) == (False, 18)


def test_amplitudes_are_required_of_an_amplitude_replay(closed_log: Path) -> None:
    replay = replayed(closed_log)
    engine = StuartLandauEngine(5, 0.01)
    with pytest.raises(ValueError, match="has no amplitudes"):
        replay.verify_determinism_sl_chained(engine, replay.load())


@pytest.mark.parametrize("targets", [["K"], ["alpha"], ["K", "alpha", "mu"]])
@pytest.mark.parametrize("has_amplitudes", [False, True])
def test_imprint_and_geometry_are_replayed(
    targets: list[str], has_amplitudes: bool, s1_path: Path, tmp_path: Path
) -> None:
    spec = load_binding_spec(s1_path)
    spec.imprint_model = ImprintSpec(decay_rate=0.02, saturation=2.0, modulates=targets)
    spec.geometry_prior = GeometrySpec("symmetric_non_negative", {})
    if has_amplitudes:
        spec.amplitude = AmplitudeSpec(mu=1.0, epsilon=0.2, amp_coupling_strength=0.1)
    confirmed(simulated(spec, tmp_path / "log"), 29)


def test_phases_set_by_a_hook_are_replayed_and_not_compared(s1_path: Path, tmp_path: Path) -> None:
    def hook(context: SimulationScenarioContext) -> None:
        if context.step in (0, 10, 11):
            context.phases = context.phases + context.rng.normal(0.0, 0.3, len(context.phases))

    replay = simulated(load_binding_spec(s1_path), tmp_path / "log", scenario_hook=hook)
    report = confirmed(replay, 27)
    assert report.determinism[0].overridden == 2
    assert report.determinism[0].outputs == 30
    engine = replay.build_engine(replay.load_header())
    assert replay.verify_determinism_chained(engine, replay.load()) == (True, 27)


def test_a_step_with_set_phases_is_still_held_to_its_outcome(s1_path: Path, tmp_path: Path) -> None:
    def hook(context: SimulationScenarioContext) -> None:
        if context.step == 10:
            context.phases = context.phases[::-1].copy()

    simulated(load_binding_spec(s1_path), tmp_path / "log", scenario_hook=hook)
    records = records_of(tmp_path / "log")
    records[11]["phases"][0] = 1.0
    (tmp_path / "log").write_bytes(rechain(records))
    assert "step 10 claims order parameters" in ReplayEngine(tmp_path / "log").verify().problem


def test_everything_else_that_a_hook_changes_is_replayed(s1_path: Path, tmp_path: Path) -> None:
    def hook(context: SimulationScenarioContext) -> None:
        context.zeta = 0.01 * context.step
        context.psi_target = 0.1 * context.step
        if context.step == 5:
            context.omegas = context.omegas * 1.5
        if context.step == 8:
            context.coupling = CouplingBuilder().build(5, 0.9, 0.1)
        if context.step >= 20:
            context.omegas = context.omegas + context.rng.normal(size=5)

    confirmed(simulated(load_binding_spec(s1_path), tmp_path / "log", scenario_hook=hook), 29)


def test_modulated_layers_and_drives_of_single_oscillators_are_replayed(tmp_path: Path) -> None:
    def change(step: int, inputs: dict[str, Any]) -> None:
        inputs["zeta"] = np.linspace(0.0, 0.1 * step, 5)
        inputs["psi"] = np.linspace(0.1, 0.2, 5)
        inputs["modulation"] = Modulation(
            global_gain=1.05**step, layer_gains=(1.1, 0.9), layer_lags=(0.0, 0.01 * step), constraints=("symmetric",)
        )
        if step == 3:
            inputs["phases"], inputs["overridden"] = inputs["phases"] * 0.5, True

    with AuditLogger(tmp_path / "log") as log:
        drive(log, 6, change=change)
    report = ReplayEngine(tmp_path / "log").verify()
    assert (report.problem, report.transitions, report.is_bit_identical) == ("", 4, True)


def test_a_modulation_of_layers_needs_their_sizes(tmp_path: Path) -> None:
    def change(step: int, inputs: dict[str, Any]) -> None:
        inputs["modulation"] = Modulation(layer_gains=(1.1, 0.9))

    with AuditLogger(tmp_path / "log") as log:
        drive(log, 3, change=change)
    records = records_of(tmp_path / "log")
    del records[0]["layer_sizes"]
    (tmp_path / "log").write_bytes(rechain(records))
    assert "layer_sizes" in ReplayEngine(tmp_path / "log").verify().problem


def test_a_log_with_full_matrices_in_every_record_is_replayed(closed_log: Path) -> None:
    records = records_of(closed_log)
    first = records[1]
    for record in records[2:7]:
        for name in ("knm", "alpha", "omegas"):
            del record[f"{name}_ref"]
            record[name] = first[name]
    closed_log.write_bytes(rechain(records))
    assert ReplayEngine(closed_log).verify().transitions == 5


def test_a_part_of_a_loaded_log_is_executed_with_the_matrices_before_it(closed_log: Path) -> None:
    replay = replayed(closed_log)
    engine = replay.build_engine(replay.load_header())
    entries = replay.load()
    assert replay.verify_determinism_chained(engine, entries[3:6]) == (True, 2)
    assert replay.verify_determinism_chained(engine, entries[:2]) == (True, 0)
    assert replay.verify_determinism_chained(engine, []) == (True, 0)


def test_channels_that_hold_back_a_layer_do_not_disturb_the_replay(s1_path: Path, tmp_path: Path) -> None:
    spec = load_binding_spec(s1_path)
    spec.drivers.informational["confidence_weight"] = 0.5
    spec.channels = {"I": ChannelSpec(role="uncertain confidence")}
    replay = simulated(spec, tmp_path / "log")
    assert "channel_runtime" in replay.load()[1]
    confirmed(replay, 29)


def test_steps_without_phases_are_recorded_and_passed_over(s1_path: Path, tmp_path: Path) -> None:
    with AuditLogger(tmp_path / "log") as log:
        drive(log, 3)
        state = replayed(tmp_path / "log").replay_step(records_of(tmp_path / "log")[1])
        log.log_step(3, state, [])
    replay = replayed(tmp_path / "log")
    assert len(replay.step_entries()) == 3
    assert replay.verify().ok


def test_a_step_record_gives_back_its_state(closed_log: Path) -> None:
    replay = replayed(closed_log)
    record = replay.step_entries()[2]
    state = replay.replay_step(record)
    assert [layer.R for layer in state.layers] == [layer["R"] for layer in record["layers"]]
    assert (state.stability_proxy, state.regime_id) == (record["stability"], "nominal")
    with pytest.raises(ValueError, match="not a step record"):
        replay.replay_step({"step": 1})


def test_a_log_without_a_header_cannot_be_executed(closed_log: Path) -> None:
    records = records_of(closed_log)[1:]
    records[-1]["closing"]["records"] = 8
    closed_log.write_bytes(rechain(records))
    replay = replayed(closed_log)
    with pytest.raises(AuditError, match="no header record"):
        replay.load_header()
    report = replay.verify()
    assert report.check.status is VerifyStatus.COMPLETE
    assert "no header record" in report.problem
    assert replay.verify(reexecute=False).ok


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"n_oscillators": 0}, "n_oscillators"),
        ({"n_oscillators": True}, "n_oscillators"),
        ({"n_oscillators": 2.0}, "n_oscillators"),
        ({"dt": 0}, "dt"),
        ({"dt": True}, "dt"),
        ({"dt": "0.01"}, "dt"),
        ({"dt": 1e999}, "dt"),
        ({"method": "heun"}, "method"),
        ({"method": ["euler"]}, "method"),
        ({"substeps": 0}, "substeps"),
        ({"n_oscillators": None}, "n_oscillators"),
    ],
)
def test_a_header_that_describes_no_engine_is_refused(change: dict[str, Any], name: str, closed_log: Path) -> None:
    replay = replayed(closed_log)
    with pytest.raises(ValueError, match=name):
        replay.build_engine({**replay.load_header(), **change})


def test_a_run_that_diverges_when_it_is_executed_again_is_a_verdict(closed_log: Path) -> None:
    records = records_of(closed_log)
    records[3]["zeta"] = 1e300
    closed_log.write_bytes(rechain(records))
    assert ReplayEngine(closed_log).verify().problem.startswith("line 4 cannot be executed: ")


def test_verifying_takes_memory_that_does_not_grow_with_the_log(tmp_path: Path) -> None:
    def peak(steps: int) -> int:
        path = tmp_path / str(steps)
        random = np.random.default_rng(1)

        def change(step: int, inputs: dict[str, Any]) -> None:
            inputs["omegas"] = random.normal(size=20)  # a new array for every record

        with AuditLogger(path, fsync="never") as log:
            drive(log, steps, sizes=[10, 10], change=change, events=0)
        tracemalloc.start()
        assert ReplayEngine(path).verify().ok
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    peak(3)
    assert peak(600) < 1.5 * peak(60) + 100_000
