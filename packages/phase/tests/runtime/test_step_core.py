"""The step core: stepping is simulating, metrics are what they claim, knobs reach the engine."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scpn_phase_orchestrator.actuation.mapper import ControlAction
from scpn_phase_orchestrator.binding.loader import load_binding_spec
from scpn_phase_orchestrator.binding.types import (
    ActuatorMapping,
    AmplitudeSpec,
    BindingSpec,
    ChannelSpec,
    DriverSpec,
    HierarchyLayer,
    ImprintSpec,
    ObjectivePartition,
    OscillatorFamily,
    ProtocolNetSpec,
    ProtocolTransitionSpec,
    SupervisorSpec,
)
from scpn_phase_orchestrator.runtime.simulation import simulate
from scpn_phase_orchestrator.runtime.step_core import StepCore
from scpn_phase_orchestrator.upde.engine import UPDEEngine
from scpn_phase_orchestrator.upde.order_params import compute_order_parameter, compute_plv
from scpn_phase_orchestrator.upde.pac import modulation_index

S1 = load_binding_spec(Path(__file__).parents[1] / "s1.yaml")
AMPLITUDE = AmplitudeSpec(mu=1.0, epsilon=0.3, amp_coupling_strength=0.2)


def specs() -> st.SearchStrategy[BindingSpec]:
    """Variations of S1 that touch every branch of the loop."""
    return st.builds(
        lambda amplitude, imprint, strategy, control: replace(
            S1,
            amplitude=amplitude,
            imprint_model=imprint,
            control_period_s=control,
            supervisor=SupervisorSpec(strategy=strategy),
            actuators=[
                ActuatorMapping("k", "K", "global", (0.0, 3.0), 0.3),
                ActuatorMapping("k1", "K", "layer_1", (0.0, 3.0)),
                ActuatorMapping("z", "zeta", "global", (0.0, 1.0)),
            ],
        ),
        st.sampled_from([None, AMPLITUDE]),
        st.sampled_from([None, ImprintSpec(0.1, 2.0, ["K"]), ImprintSpec(0.5, 1.0, ["alpha", "mu"])]),
        st.sampled_from(["mean_coherence", "objectives"]),
        st.sampled_from([0.01, 0.03, 0.05]),
    )


class TestSteppingIsSimulating:
    @given(spec=specs(), seed=st.integers(0, 2**31), steps=st.integers(1, 60), policy_enabled=st.booleans())
    @settings(max_examples=25, deadline=None)
    def test_step_by_step_gives_the_bits_of_a_run(
        self, spec: BindingSpec, seed: int, steps: int, policy_enabled: bool
    ) -> None:
        core = StepCore(spec, seed=seed, policy_enabled=policy_enabled)
        outcomes = [core.step() for _ in range(steps)]
        result = simulate(spec, steps=steps, seed=seed, policy_enabled=policy_enabled)
        assert core.phases.tobytes() == result.final_phases.tobytes()
        assert tuple(outcome.r_good for outcome in outcomes) == result.r_good_history
        assert tuple(outcome.r_bad for outcome in outcomes) == result.r_bad_history
        assert sum(len(outcome.actions) for outcome in outcomes) == result.action_total
        assert core.regime == result.final_regime

    def test_two_cores_share_nothing(self) -> None:
        alone = StepCore(S1)
        alone_phases = [alone.step().phases for _ in range(20)]
        first, second = StepCore(S1), StepCore(S1, seed=3)
        for expected in alone_phases:
            second.step()
            assert first.step().phases.tobytes() == expected.tobytes()

    @given(spec=specs(), seed=st.integers(0, 1000))
    @settings(max_examples=15, deadline=None)
    def test_knobs_stay_within_their_limits_in_a_run(self, spec: BindingSpec, seed: int) -> None:
        core = StepCore(spec, seed=seed)
        for _ in range(120):
            outcome = core.step()
            assert 0.0 <= outcome.modulation.global_gain <= 3.0
            assert all(0.0 <= gain <= 3.0 for gain in outcome.modulation.layer_gains)
            assert 0.0 <= np.max(outcome.zeta) <= 1.0


class TestMetrics:
    def test_an_outcome_repeats_with_a_plain_engine(self) -> None:
        core = StepCore(S1)
        engine = UPDEEngine(5, dt=0.01)
        for _ in range(30):
            outcome = core.step()
            effective = outcome.modulation.apply(outcome.coupling, core.layer_of)
            again = engine.step(
                outcome.inputs, outcome.omegas, effective.knm, outcome.zeta, outcome.psi, effective.alpha
            )
            assert again.tobytes() == outcome.phases.tobytes()

    def test_layer_metrics_are_those_of_the_phases(self) -> None:
        core = StepCore(S1)
        outcome = core.step()
        first, second = outcome.phases[:3], outcome.phases[3:]
        assert [(layer.R, layer.psi) for layer in outcome.state.layers] == [
            compute_order_parameter(first),
            compute_order_parameter(second),
        ]
        alignment = outcome.state.cross_layer_alignment
        assert alignment[0, 1] == alignment[1, 0] == pytest.approx(compute_plv(first[:2], second))
        assert outcome.state.stability_proxy == pytest.approx(outcome.layer_r.mean())
        assert outcome.r_good == pytest.approx(outcome.layer_r[0])

    def test_objectives_take_layers_together_and_skip_unknown_ones(self) -> None:
        both = replace(S1, objectives=ObjectivePartition([0, 1, 77], []))
        outcome = StepCore(both).step()
        assert outcome.r_good == pytest.approx(compute_order_parameter(outcome.phases)[0])
        assert outcome.r_bad == 0.0

    def test_an_empty_layer_counts_as_incoherent(self) -> None:
        spec = replace(S1, layers=[S1.layers[0], HierarchyLayer("nobody", 5, []), S1.layers[1]])
        for one in (spec, replace(spec, amplitude=AMPLITUDE, imprint_model=ImprintSpec(0.1, 2.0, ["K"]))):
            core = StepCore(one)
            outcome = core.step()
            assert (outcome.state.layers[1].R, outcome.state.layers[1].psi) == (0.0, 0.0)
            assert core.layer_osc_ranges == {0: [0, 1, 2], 5: [], 1: [3, 4]}

    def test_amplitude_metrics_look_at_the_last_twenty_steps(self) -> None:
        core = StepCore(replace(S1, amplitude=AMPLITUDE))
        outcomes = [core.step() for _ in range(33)]
        assert all(outcome.state.pac_max == 0.0 for outcome in outcomes[:19])
        phases = np.array([outcome.phases for outcome in outcomes[-20:]])
        amplitudes = np.array([outcome.amplitudes for outcome in outcomes[-20:]])
        expected = max(modulation_index(phases[:, k], amplitudes[:, k]) for k in range(5))
        state = outcomes[-1].state
        assert state.pac_max == expected > 0.0
        assert state.mean_amplitude == pytest.approx(amplitudes[-1].mean())
        assert state.layers[1].amplitude_spread == pytest.approx(amplitudes[-1, 3:].std() / amplitudes[-1, 3:].mean())
        assert state.subcritical_fraction == 0.0

    def test_inputs_of_a_step_are_the_outputs_of_the_one_before(self) -> None:
        core = StepCore(replace(S1, amplitude=AMPLITUDE))
        first, second = core.step(), core.step()
        assert second.inputs.tobytes() == first.phases.tobytes()
        assert first.amplitudes is not None
        assert second.input_amplitudes is not None
        assert second.input_amplitudes.tobytes() == first.amplitudes.tobytes()

    def test_imprint_grows_with_coherence_and_is_seen_before_its_update(self) -> None:
        core = StepCore(replace(S1, imprint_model=ImprintSpec(0.0, 5.0, ["K"])))
        outcomes = [core.step() for _ in range(3)]
        assert outcomes[0].state.imprint_mean == 0.0
        expected = 0.01 * (3 * outcomes[0].layer_r[0] + 2 * outcomes[0].layer_r[1]) / 5
        assert outcomes[1].state.imprint_mean == pytest.approx(expected)
        assert outcomes[2].modulation.imprint is not None
        np.testing.assert_allclose(
            outcomes[2].modulation.imprint, 0.01 * (outcomes[0].layer_r + outcomes[1].layer_r), rtol=1e-12
        )


class TestKnobsReachTheEngine:
    def test_a_gain_on_a_layer_moves_the_block_of_that_layer(self) -> None:
        core = StepCore(replace(S1, actuators=[]), policy_enabled=False)
        base = core.coupling.knm
        core.knobs.apply(ControlAction("K", "layer_1", -0.5, 1.0, ""), 0)
        core.step()
        knm = core.effective_coupling.knm
        np.testing.assert_array_equal(knm[:3, :3], base[:3, :3])
        np.testing.assert_allclose(knm[3:], 0.5 * base[3:])
        np.testing.assert_allclose(knm[:, 3:], 0.5 * base[:, 3:])

    def test_a_lag_acts_and_expires(self) -> None:
        lagged, plain = StepCore(S1, policy_enabled=False), StepCore(S1, policy_enabled=False)
        lagged.knobs.apply(ControlAction("alpha", "layer_0", 0.8, 0.03, ""), 0)
        for step in range(5):
            ours, theirs = lagged.step(), plain.step()
            alpha = lagged.effective_coupling.alpha
            assert (alpha[:3] == (0.8 if step < 2 else 0.0)).all()
            assert not alpha[3:].any()
            assert (ours.phases == theirs.phases).all() == False  # noqa: E712 - the paths have parted for good

    def test_a_phase_action_beats_the_driver_while_it_lives(self) -> None:
        spec = replace(S1, drivers=DriverSpec(physical={"zeta": 0.1, "frequency": 1.0}))
        core = StepCore(spec, policy_enabled=False)
        core.step()
        core.knobs.apply(ControlAction("Psi", "global", 2.5, 0.03, ""), 0)
        driven = [core.step().psi for _ in range(4)]
        assert driven[:2] == [2.5, 2.5]
        assert driven[2:] == [pytest.approx(np.sin(2 * np.pi * t)) for t in (0.03, 0.04)]

    def test_a_drive_on_one_layer_leaves_the_other_alone(self) -> None:
        core = StepCore(S1, policy_enabled=False)
        core.knobs.apply(ControlAction("zeta", "layer_1", 0.4, 1.0, ""), 0)
        outcome = core.step()
        np.testing.assert_allclose(outcome.zeta, [0.1, 0.1, 0.1, 0.5, 0.5])


class TestControl:
    def test_the_critical_action_names_the_declared_index_of_the_weakest_layer(self) -> None:
        spec = replace(
            S1,
            layers=[replace(S1.layers[0], index=4), replace(S1.layers[1], index=9)],
            objectives=ObjectivePartition([4], [9]),
            boundaries=[replace(S1.boundaries[0], lower=0.99)],
        )
        outcome = StepCore(spec).step()
        assert outcome.regime == "critical"
        weakest = [4, 9][int(outcome.layer_r.argmin())]
        assert [(action.knob, action.scope) for action in outcome.actions] == [
            ("zeta", "global"),
            ("K", f"layer_{weakest}"),
        ]

    def test_a_protocol_net_decides_the_regime(self) -> None:
        net = ProtocolNetSpec(
            places=["starting", "steady"],
            initial={"starting": 1},
            place_regime={"starting": "DEGRADED", "steady": "NOMINAL"},
            transitions=[ProtocolTransitionSpec("settle", [{"place": "starting"}], [{"place": "steady"}], "R_0 > 0.9")],
        )
        core = StepCore(replace(S1, protocol_net=net))
        outcomes = [core.step() for _ in range(150)]
        assert outcomes[0].regime == "degraded"
        assert outcomes[-1].regime == "nominal"
        (fired,) = [event for event in core.events.history if event.kind == "petri_transition"]
        assert fired.step % 5 == 0
        assert outcomes[fired.step].state.layers[0].R > 0.9

    def test_a_late_channel_shows_the_layer_as_it_was(self) -> None:
        spec = replace(
            S1,
            oscillator_families={**S1.oscillator_families, "storm": OscillatorFamily("late", "event")},
            channels={"late": ChannelSpec(role="lagged telemetry")},
        )
        core = StepCore(spec)
        first, second = core.step(), core.step()
        assert first.execution.is_raw
        assert second.state.layers[1].R == first.layer_r[1] != second.layer_r[1]

    def test_an_open_loop_never_ticks(self) -> None:
        core = StepCore(S1, policy_enabled=False)
        outcomes = [core.step() for _ in range(20)]
        assert not any(outcome.is_control_tick or outcome.actions for outcome in outcomes)
        assert core.knobs.is_at_base


def test_a_history_longer_than_its_first_block_is_whole() -> None:
    result = simulate(replace(S1, control_period_s=100.0), steps=2500)
    history = result.history
    assert history is not None
    assert history.layer_r.shape == (2500, 2)
    assert history.r_good.tolist() == list(result.r_good_history)
    assert history.time_s[-1] == pytest.approx(25.0)
    assert [step for step, _ in history.actions] == [0]
    # The one action of step 0 lives for ten seconds.
    assert history.k_global[0] == 1.0
    assert (history.k_global[1:1000] == 1.05).all()
    assert (history.k_global[1000:] == 1.0).all()
    assert (history.k_layers == 1.0).all()
