"""The objective supervisor moves the levers of the layer that is wrong, and only those."""

from dataclasses import replace

import numpy as np
import pytest

from scpn_phase_orchestrator.actuation.knobs import KnobLedger
from scpn_phase_orchestrator.actuation.mapper import ControlAction
from scpn_phase_orchestrator.binding import load_binding_spec
from scpn_phase_orchestrator.binding.types import ActuatorMapping, ObjectivePartition
from scpn_phase_orchestrator.exceptions import PolicyError
from scpn_phase_orchestrator.monitor.boundaries import BoundaryState
from scpn_phase_orchestrator.runtime.simulation import simulate
from scpn_phase_orchestrator.supervisor.events import EventBus
from scpn_phase_orchestrator.supervisor.objectives import DEGRADED_CAP, ObjectiveSupervisor
from scpn_phase_orchestrator.supervisor.petri_adapter import PetriNetAdapter
from scpn_phase_orchestrator.supervisor.petri_net import Arc, Guard, Marking, PetriNet, Place, Transition
from scpn_phase_orchestrator.supervisor.regimes import Regime, RegimeManager

CALM = BoundaryState(violations=[], soft_violations=[], hard_violations=[])
HARD = BoundaryState(violations=["x"], soft_violations=[], hard_violations=["x"])


def actuator(knob, scope, low, high):
    return ActuatorMapping(f"{knob}_{scope}", knob, scope, (low, high), None, "value")


K_ALL = actuator("K", "global", 0.5, 3.0)
K_GOOD = actuator("K", "layer_0", 0.0, 3.0)
K_BAD = actuator("K", "layer_1", 0.0, 3.0)
LAG_BAD = actuator("alpha", "layer_1", 0.0, 3.1)
DRIVE = actuator("zeta", "global", 0.0, 2.0)


def setup(path, *actuators, weights=(1.0, 1.0)):
    spec = load_binding_spec(path)
    objectives = replace(spec.objectives, good_weight=weights[0], bad_weight=weights[1])
    supervisor = replace(spec.supervisor, strategy="objectives")
    spec = replace(spec, actuators=list(actuators), objectives=objectives, supervisor=supervisor)
    knobs = KnobLedger.from_spec(spec, base_zeta=0.0)
    return ObjectiveSupervisor(spec, RegimeManager()), knobs


def decide(supervisor, knobs, good, bad, *, step=0, boundary=CALM, times=1):
    for _ in range(times):
        supervisor.observe(np.array([good, bad]))
    return [(a.knob, a.scope, a.value) for a in supervisor.decide(boundary, knobs, step=step)]


def test_a_locked_bad_layer_loses_its_own_coupling_and_nobody_elses(s1_path):
    supervisor, knobs = setup(s1_path, K_ALL, K_GOOD, K_BAD)
    ((knob, scope, value),) = decide(supervisor, knobs, good=0.97, bad=1.0)
    assert (knob, scope) == ("K", "layer_1")
    assert value < 0


def test_a_loose_good_layer_gains_its_own_coupling_before_the_common_one(s1_path):
    supervisor, knobs = setup(s1_path, K_ALL, K_GOOD, K_BAD)
    ((knob, scope, value),) = decide(supervisor, knobs, good=0.4, bad=0.5)
    assert (knob, scope) == ("K", "layer_0")
    assert value > 0
    supervisor, knobs = setup(s1_path, K_ALL, K_BAD)
    ((knob, scope, value),) = decide(supervisor, knobs, good=0.4, bad=0.5)
    assert (knob, scope) == ("K", "global")
    assert value > 0


def test_low_mean_coherence_alone_never_raises_anything(s1_path):
    supervisor, knobs = setup(s1_path, K_ALL, K_GOOD, K_BAD, DRIVE)
    assert decide(supervisor, knobs, good=0.97, bad=0.0) == []


def test_common_coupling_is_not_raised_beside_a_bad_layer_that_has_no_lever(s1_path):
    supervisor, knobs = setup(s1_path, K_ALL)
    assert decide(supervisor, knobs, good=0.4, bad=0.83) == []


def test_a_bad_layer_without_any_coupling_left_asks_for_nobody_elses(s1_path):
    supervisor, knobs = setup(s1_path, K_ALL, K_BAD)
    knobs.apply(ControlAction("K", "layer_1", -0.99, 5.0, "taken away"), 0)
    assert decide(supervisor, knobs, good=0.97, bad=1.0) == []


def test_weights_decide_between_opposite_wishes_for_one_lever(s1_path):
    for good_weight, bad_weight, sign in ((10.0, 0.1, 0), (0.1, 10.0, -1)):
        supervisor, knobs = setup(s1_path, K_ALL, weights=(good_weight, bad_weight))
        moves = decide(supervisor, knobs, good=0.1, bad=1.0)
        assert np.sign(sum(value for _, _, value in moves)) == sign


def test_the_next_lever_takes_over_where_one_is_exhausted(s1_path):
    supervisor, knobs = setup(s1_path, K_BAD, LAG_BAD)
    used = set()
    for step in range(40):
        supervisor.observe(np.array([0.97, 1.0]))
        for action in supervisor.decide(CALM, knobs, step=step):
            used.add(action.knob)
            knobs.apply(action, step)
        knobs.begin_step()
    assert used == {"K", "alpha"}
    assert knobs.value("alpha", "layer_1") == pytest.approx(3.1)
    assert 0.0 < knobs.value("K", "layer_1") < 0.02


def test_a_lag_is_not_turned_further_once_it_repels_most(s1_path):
    supervisor, knobs = setup(s1_path, actuator("alpha", "layer_1", 0.0, 6.0))
    for step in range(40):
        supervisor.observe(np.array([0.97, 1.0]))
        for action in supervisor.decide(CALM, knobs, step=step):
            knobs.apply(action, step)
    assert np.pi <= knobs.value("alpha", "layer_1") <= np.pi + 0.6


def test_what_was_set_for_a_bad_layer_is_renewed_before_it_expires(s1_path):
    supervisor, knobs = setup(s1_path, K_BAD)
    for step in range(2_000):
        knobs.begin_step()
        supervisor.observe(np.array([0.97, 1.0 if step < 100 else 0.5]))
        if step % 5 == 0:
            for action in supervisor.decide(CALM, knobs, step=step):
                knobs.apply(action, step)
        assert step < 100 or knobs.value("K", "layer_1") < 0.5


def test_an_offset_that_a_rule_set_ends_when_the_rule_said(s1_path):
    supervisor, knobs = setup(s1_path, K_BAD, LAG_BAD)
    knobs.apply(ControlAction("alpha", "layer_1", 0.3, 1.0, "a rule"), 0)
    for step in range(1, 200):
        knobs.begin_step()
        supervisor.observe(np.array([0.97, 0.5]))
        for action in supervisor.decide(CALM, knobs, step=step):
            knobs.apply(action, step)
        assert (knobs.value("alpha", "layer_1") == 0.3) == (step < 100)


def test_a_disputed_common_lever_rests_instead_of_swinging(s1_path):
    supervisor, knobs = setup(s1_path, K_ALL)
    assert decide(supervisor, knobs, good=0.55, bad=0.83) == []


def test_memory_covers_a_beat_of_the_bad_layer(s1_path):
    spec = load_binding_spec(s1_path)
    layers = [spec.layers[0], replace(spec.layers[1], omegas=[3.0, 1.0])]
    spec = replace(spec, layers=layers, actuators=[K_BAD])
    window = ObjectiveSupervisor(spec, RegimeManager()).window
    for r in [1.0] * 314 + [0.0] * 314:  # a beat of 3.14 s
        window.update(np.array([r, r]))
    assert window.mean_r[1] == pytest.approx(1 / np.e, rel=0.02)


def test_what_was_raised_for_a_good_layer_is_given_back(s1_path):
    supervisor, knobs = setup(s1_path, K_GOOD, K_ALL)
    for step in range(60):
        supervisor.observe(np.array([0.3 if step < 10 else 1.0, 0.0]))
        for action in supervisor.decide(CALM, knobs, step=step):
            knobs.apply(action, step)
        if step == 10:
            assert knobs.value("K", "layer_0") > 1.2
    for step in range(60, 400):
        supervisor.observe(np.array([1.0, 0.0]))
        for action in supervisor.decide(CALM, knobs, step=step):
            knobs.apply(action, step)
    assert knobs.value("K", "layer_0") == pytest.approx(1.0)


def test_what_was_raised_is_given_back_in_small_steps(s1_path):
    supervisor, knobs = setup(s1_path, K_GOOD)
    knobs.apply(ControlAction("K", "layer_0", 1.0, 5.0, "raised"), 0)
    assert decide(supervisor, knobs, good=1.0, bad=0.0) == [("K", "layer_0", -0.05)]


def test_a_hard_violation_makes_it_critical_and_larger(s1_path):
    calm, knobs = setup(s1_path, K_BAD)
    urgent, other = setup(s1_path, K_BAD)
    ((_, _, small),) = decide(calm, knobs, good=0.97, bad=0.7 + 0.1)
    ((_, _, large),) = decide(urgent, other, good=0.97, bad=0.7 + 0.1, boundary=HARD)
    assert large < small < 0
    assert urgent.regime_manager.current_regime is Regime.CRITICAL


@pytest.mark.parametrize(("good", "bad"), [(1.0, 1.0), (0.3, 0.4), (1.0, 0.95)])
def test_never_nominal_while_a_bad_layer_is_locked_or_a_good_one_apart(s1_path, good, bad):
    supervisor, knobs = setup(s1_path, K_BAD, K_GOOD)
    for step in range(50):
        decide(supervisor, knobs, good, bad, step=step)
    assert supervisor.regime_manager.current_regime is not Regime.NOMINAL


def test_one_good_layer_apart_is_not_made_up_for_by_another(s1_path):
    spec = load_binding_spec(s1_path)
    indices = [layer.index for layer in spec.layers]
    spec = replace(spec, actuators=[], objectives=ObjectivePartition(indices, []))
    supervisor = ObjectiveSupervisor(spec, RegimeManager())
    supervisor.observe(np.array([1.0, 0.4]))
    assert supervisor.coherence() == DEGRADED_CAP < 0.7


@pytest.mark.parametrize(
    ("of_net", "coherence", "regime"),
    [("CRITICAL", 1.0, Regime.CRITICAL), ("NOMINAL", 0.0, Regime.CRITICAL), ("NOMINAL", 1.0, Regime.NOMINAL)],
)
def test_a_protocol_net_can_make_the_regime_worse_and_never_better(s1_path, of_net, coherence, regime):
    adapter = PetriNetAdapter(PetriNet([Place("up")], []), Marking({"up": 1}), {"up": of_net}, EventBus())
    spec = load_binding_spec(s1_path)
    spec = replace(spec, actuators=[K_BAD], supervisor=replace(spec.supervisor, strategy="objectives"))
    supervisor = ObjectiveSupervisor(spec, RegimeManager(), petri_adapter=adapter)
    supervisor.observe(np.array([coherence, 1.0 - coherence]))
    supervisor.decide(CALM, KnobLedger.from_spec(spec), {"R": 0.0}, step=0)
    assert supervisor.regime_manager.current_regime is regime


def test_a_failing_protocol_net_is_counted_and_the_coherence_decides(s1_path, caplog):
    net = PetriNet([Place("up")], [Transition("go", [Arc("up")], [], Guard("R", ">", 0.5))])
    adapter = PetriNetAdapter(net, Marking({"up": 1}), {"up": "CRITICAL"}, EventBus())
    spec = load_binding_spec(s1_path)
    spec = replace(spec, actuators=[K_BAD], supervisor=replace(spec.supervisor, strategy="objectives"))
    supervisor = ObjectiveSupervisor(spec, RegimeManager(), petri_adapter=adapter)
    supervisor.observe(np.array([1.0, 0.0]))
    supervisor.decide(CALM, KnobLedger.from_spec(spec), {"R": float("nan")}, step=0)
    assert adapter.failures == 1
    assert "protocol net failed" in caplog.text
    assert supervisor.regime_manager.current_regime is Regime.NOMINAL


def test_not_nominal_after_a_moment_of_freedom_of_a_layer_that_was_locked_for_long(s1_path):
    supervisor, knobs = setup(s1_path, K_BAD, K_GOOD)
    for step in range(400):
        decide(supervisor, knobs, good=1.0, bad=1.0 if step < 300 else 0.0, step=step)
    assert supervisor.window.lock[1] < 0.5 < supervisor.window.plain_lock[1]
    assert supervisor.coherence() < 0.6


def test_limits_that_bound_actions_instead_of_values_are_refused(s1_path):
    spec = load_binding_spec(s1_path)
    with pytest.raises(PolicyError, match=r"coupling_gain.*semantics: value"):
        ObjectiveSupervisor(spec, RegimeManager())


def test_s1_under_objectives_keeps_the_storms_apart_where_the_documented_table_locks_them(s1_path):
    documented = load_binding_spec(s1_path)
    ours = replace(
        documented,
        actuators=[K_ALL, K_GOOD, K_BAD, LAG_BAD],
        supervisor=replace(documented.supervisor, strategy="objectives"),
    )
    for seed in (1, 2, 3):
        before = simulate(documented, steps=1_000, seed=seed)
        after = simulate(ours, steps=1_000, seed=seed)
        assert after.verdict.outcome == "achieved"
        assert after.verdict.better_than(before.verdict)
