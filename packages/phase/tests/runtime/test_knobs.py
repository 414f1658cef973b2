"""Knobs: what actions do, within which limits, and that they expire exactly to the base."""

from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scpn_phase_orchestrator.actuation.knobs import KnobLedger
from scpn_phase_orchestrator.actuation.mapper import ControlAction
from scpn_phase_orchestrator.binding.types import ActuatorMapping
from scpn_phase_orchestrator.exceptions import PolicyError

DT = 0.01
KNOBS = ("K", "alpha", "zeta", "Psi")
SCOPES = ("global", "layer_7", "layer_3")


def ledger(*actuators: ActuatorMapping, base_zeta: float = 0.0, base_psi: float = 0.0) -> KnobLedger:
    """Two layers of 3 and 2 oscillators with the declared indices 7 and 3."""
    return KnobLedger(
        actuators, dt=DT, layer_indices=[7, 3], layer_sizes=[3, 2], base_zeta=base_zeta, base_psi=base_psi
    )


def act(knob: str, value: float, scope: str = "global", ttl_s: float = 5.0) -> ControlAction:
    return ControlAction(knob, scope, value, ttl_s, "test")


def actuator(knob: str, low: float, high: float, scope: str = "global", **more: object) -> ActuatorMapping:
    return ActuatorMapping(f"{knob} {scope}", knob, scope, (low, high), **more)  # type: ignore[arg-type]


def pass_steps(knobs: KnobLedger, count: int) -> None:
    for _ in range(count):
        knobs.begin_step()


class TestWhatActionsDo:
    def test_k_multiplies_the_gain_and_compounds(self) -> None:
        knobs = ledger()
        knobs.apply(act("K", 0.05), 0)
        knobs.apply(act("K", 0.05), 5)
        assert knobs.value("K", "global") == pytest.approx(1.05**2)
        assert knobs.modulation().global_gain == knobs.value("K", "global")

    def test_zeta_and_alpha_add(self) -> None:
        knobs = ledger(base_zeta=0.1)
        knobs.apply(act("zeta", 0.1), 0)
        knobs.apply(act("alpha", 0.3), 0)
        knobs.apply(act("alpha", 0.2), 5)
        assert knobs.zeta() == pytest.approx(0.2)
        assert knobs.modulation().layer_lags == (0.5, 0.5)

    def test_lags_of_a_layer_add_to_the_common_lag(self) -> None:
        knobs = ledger()
        knobs.apply(act("alpha", 0.25), 0)
        knobs.apply(act("alpha", 0.5, "layer_3"), 0)
        assert knobs.modulation().layer_lags == (0.25, 0.75)

    def test_a_new_base_drive_moves_what_the_rate_of_this_decision_counts_from(self) -> None:
        knobs = ledger(actuator("zeta", 0.0, 2.0, "layer_3", rate_limit_per_step=0.125))
        knobs.apply(act("zeta", 1.0, "layer_3"), 5)
        knobs.rebase_zeta(0.5)
        knobs.apply(act("zeta", 1.0, "layer_3"), 5)
        assert knobs.value("zeta", "layer_3") == 0.625

    def test_psi_sets_and_overrides_what_a_driver_says(self) -> None:
        knobs = ledger(base_psi=0.4)
        knobs.apply(act("Psi", 2.0), 0)
        assert knobs.psi() == 2.0
        assert knobs.psi(base=1.1) == 2.0
        pass_steps(knobs, 500)
        assert knobs.psi(base=1.1) == 1.1

    def test_a_layer_is_named_by_its_declared_index(self) -> None:
        knobs = ledger(base_zeta=0.1)
        knobs.apply(act("zeta", 0.2, "layer_3"), 0)
        knobs.apply(act("K", -0.5, "layer_3"), 0)
        knobs.apply(act("alpha", 0.2, "layer_7"), 0)
        knobs.apply(act("Psi", 1.5, "layer_7"), 0)
        np.testing.assert_allclose(knobs.zeta(), [0.1, 0.1, 0.1, 0.3, 0.3])
        np.testing.assert_array_equal(knobs.psi(), [1.5, 1.5, 1.5, 0.0, 0.0])
        assert knobs.modulation().layer_gains == (1.0, 0.5)
        assert knobs.modulation().layer_lags == (0.2, 0.0)

    def test_negative_drive_is_cut_to_zero(self) -> None:
        knobs = ledger(actuator("zeta", -1.0, 1.0), actuator("zeta", -1.0, 1.0, "layer_3"), base_zeta=0.1)
        knobs.apply(act("zeta", -0.4, "layer_3"), 0)
        np.testing.assert_allclose(knobs.zeta(), [0.1, 0.1, 0.1, 0.0, 0.0])
        knobs.apply(act("zeta", -0.4), 0)
        np.testing.assert_array_equal(knobs.zeta(), np.zeros(5))

    @pytest.mark.parametrize("knob", ["K", "alpha", "zeta"])
    def test_a_value_of_zero_holds_and_renews(self, knob: str) -> None:
        knobs = ledger(actuator(knob, -0.2, 0.4, semantics="increment"), base_zeta=0.1)
        knobs.apply(act(knob, 0.3, ttl_s=0.05), 0)
        before = knobs.value(knob, "global")
        pass_steps(knobs, 3)
        applied = knobs.apply(act(knob, 0.0, ttl_s=0.05), 3)
        pass_steps(knobs, 4)
        assert applied.value == 0.0
        assert knobs.value(knob, "global") == before

    def test_the_given_action_is_left_alone(self) -> None:
        knobs = ledger(actuator("zeta", 0.0, 0.5))
        action = act("zeta", 3.0)
        applied = knobs.apply(action, 0)
        assert action.value == 3.0
        assert applied.value == 0.5


class TestLimits:
    def test_value_limits_bound_the_resulting_gain(self) -> None:
        knobs = ledger(actuator("K", 0.0, 2.0))
        applied = [knobs.apply(act("K", 0.6), step).value for step in range(3)]
        assert knobs.value("K", "global") == 2.0
        assert applied == pytest.approx([0.6, 0.25, 0.0])

    def test_value_rate_bounds_the_change_of_a_decision_however_many_actions_it_has(self) -> None:
        knobs = ledger(actuator("zeta", 0.0, 2.0, rate_limit_per_step=0.1), base_zeta=0.3)
        knobs.apply(act("zeta", 1.0), 0)
        knobs.apply(act("zeta", 1.0), 0)
        assert knobs.value("zeta", "global") == pytest.approx(0.4)
        knobs.apply(act("zeta", 1.0), 1)
        assert knobs.value("zeta", "global") == pytest.approx(0.5)

    def test_increment_limits_bound_the_action_as_documented(self) -> None:
        knobs = ledger(actuator("K", -0.2, 0.4, rate_limit_per_step=0.1))
        assert [knobs.apply(act("K", 0.5), step).value for step in range(5)] == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.4])
        assert ledger(actuator("K", -0.2, 0.4, rate_limit_per_step=0.1)).apply(act("K", -0.5), 0).value == -0.1

    def test_actions_of_one_step_see_the_same_previous_value(self) -> None:
        knobs = ledger(actuator("K", -0.2, 0.4, rate_limit_per_step=0.1))
        values = [knobs.apply(act("K", value), 0).value for value in (0.1, -0.1)]
        assert values == pytest.approx([0.1, -0.1])

    def test_a_layer_without_its_own_actuator_is_bound_by_the_global_one(self) -> None:
        knobs = ledger(actuator("K", 0.5, 2.0), actuator("K", 0.9, 1.1, "layer_3"))
        assert knobs.limits("K", "layer_7") == (0.5, 2.0)
        assert knobs.limits("K", "layer_3") == (0.9, 1.1)
        assert knobs.actuated == {("K", "global"), ("K", "layer_3")}

    def test_a_global_action_is_bound_by_all_actuators_of_layers(self) -> None:
        knobs = ledger(actuator("K", 0.5, 2.0, "layer_7"), actuator("K", 0.2, 1.5, "layer_3", rate_limit_per_step=0.1))
        assert knobs.limits("K", "global") == (0.5, 1.5)
        assert knobs.rate("K", "global") == 0.1

    def test_a_global_knob_does_not_move_where_layers_have_nothing_in_common(self) -> None:
        knobs = ledger(actuator("Psi", 0.0, 1.0, "layer_7"), actuator("Psi", 2.0, 3.0, "layer_3"), base_psi=0.5)
        knobs.apply(act("Psi", 2.5), 0)
        assert knobs.psi() == 0.5

    def test_two_actuators_of_one_knob_and_scope_both_hold(self) -> None:
        knobs = ledger(actuator("K", 0.0, 3.0), actuator("K", 0.5, 4.0))
        assert knobs.limits("K", "global") == (0.5, 3.0)

    def test_two_actuators_that_exclude_each_other_are_refused(self) -> None:
        with pytest.raises(PolicyError, match="conflicting value bounds"):
            ledger(actuator("K", 0.0, 1.0), actuator("K", 2.0, 3.0))

    def test_without_an_actuator_the_documented_defaults_apply(self) -> None:
        knobs = ledger()
        assert knobs.limits("K", "global") == (-inf, inf)
        knobs.apply(act("zeta", 9.0), 0)
        assert knobs.zeta() == 0.5
        strong = ledger(base_zeta=0.8)
        strong.apply(act("zeta", 9.0), 0)
        assert strong.zeta() == 0.8

    @given(
        actions=st.lists(
            st.tuples(
                st.sampled_from(KNOBS),
                st.sampled_from(SCOPES),
                st.floats(-10.0, 10.0),
                st.integers(0, 3),
                st.floats(0.0, 0.2),
            ),
            max_size=25,
        ),
        low=st.floats(-2.0, 1.0),
        width=st.floats(0.0, 3.0),
        rate=st.one_of(st.none(), st.floats(0.0, 1.0)),
    )
    def test_no_knob_leaves_its_limits_under_value_semantics(
        self, actions: list[tuple[str, str, float, int, float]], low: float, width: float, rate: float | None
    ) -> None:
        high = low + width
        knobs = ledger(
            *(
                actuator(knob, low, high, scope, semantics="value", rate_limit_per_step=rate)
                for knob in KNOBS
                for scope in SCOPES
            )
        )
        step = 0
        for knob, scope, value, pause, ttl_s in actions:
            pass_steps(knobs, pause)
            step += pause
            is_hold = value == 0.0 and knob != "Psi"
            knobs.apply(act(knob, value, scope, ttl_s), step)
            if knobs.is_offset(knob, scope) and not is_hold:
                assert low <= knobs.value(knob, scope) <= high


class TestExpiry:
    def test_a_time_to_live_of_five_seconds_acts_for_499_steps(self) -> None:
        """Acceptance case 15: raised in the steps i+1 to i+499, at the base from i+500 on."""
        knobs = ledger(base_zeta=0.1)
        knobs.apply(act("zeta", 0.1, ttl_s=5.0), 0)
        raised = []
        for _ in range(501):
            knobs.begin_step()
            raised.append(knobs.zeta())
        assert raised[:499] == [0.2] * 499
        assert raised[499:] == [0.1, 0.1]

    def test_renewal_starts_the_time_anew(self) -> None:
        knobs = ledger()
        knobs.apply(act("K", 0.1, ttl_s=0.05), 0)
        pass_steps(knobs, 4)
        knobs.apply(act("K", 0.1, ttl_s=0.05), 4)
        assert knobs.ttl_left_s("K", "global") == pytest.approx(0.05)
        pass_steps(knobs, 4)
        assert knobs.value("K", "global") == pytest.approx(1.21)
        pass_steps(knobs, 1)
        assert knobs.value("K", "global") == 1.0
        assert knobs.ttl_left_s("K", "global") == 0.0

    def test_an_action_shorter_than_a_step_does_nothing(self) -> None:
        knobs = ledger()
        knobs.apply(act("K", 0.5, ttl_s=0.009), 0)
        assert knobs.is_at_base
        assert knobs.modulation().is_identity

    @given(
        actions=st.lists(
            st.tuples(st.sampled_from(KNOBS), st.sampled_from(SCOPES), st.floats(-3.0, 3.0), st.floats(0.0, 0.3)),
            min_size=1,
            max_size=12,
        ),
        base_zeta=st.floats(0.0, 2.0),
        base_psi=st.floats(-7.0, 7.0),
    )
    def test_expiry_returns_exactly_to_the_base(
        self, actions: list[tuple[str, str, float, float]], base_zeta: float, base_psi: float
    ) -> None:
        knobs = ledger(base_zeta=base_zeta, base_psi=base_psi)
        for step, (knob, scope, value, ttl_s) in enumerate(actions):
            knobs.begin_step()
            knobs.apply(act(knob, value, scope, ttl_s), step)
        pass_steps(knobs, 30)
        assert knobs.is_at_base
        assert knobs.modulation().is_identity
        assert knobs.zeta() == base_zeta
        assert knobs.psi() == base_psi
        assert all(knobs.offset(knob, scope) == 0.0 for knob in KNOBS for scope in SCOPES)


class TestRebasing:
    def test_a_new_drive_strength_keeps_the_offsets_of_layers(self) -> None:
        knobs = ledger(base_zeta=0.1)
        knobs.apply(act("zeta", 0.1), 0)
        knobs.apply(act("zeta", 0.2, "layer_3"), 0)
        knobs.rebase_zeta(0.3)
        np.testing.assert_allclose(knobs.zeta(), [0.3, 0.3, 0.3, 0.5, 0.5])

    def test_a_new_coupling_ends_gains_and_lags(self) -> None:
        knobs = ledger()
        knobs.apply(act("K", 0.5), 0)
        knobs.apply(act("alpha", 0.5, "layer_3"), 0)
        knobs.rebase_coupling()
        assert knobs.modulation().is_identity


class TestRefusals:
    @pytest.mark.parametrize(
        ("action", "words"),
        [
            (act("kappa", 0.1), "knob must be one of K, Psi, alpha, zeta, got 'kappa'"),
            (act("K", 0.1, "layer_0"), "must be one of global, layer_7, layer_3, got 'layer_0'"),
            (act("K", float("nan")), "value of an action on K must be finite"),
            (act("K", 0.1, ttl_s=inf), "ttl_s of an action on K must be finite"),
            (act("K", 0.1, ttl_s=-1.0), "ttl_s of an action on K must be >= 0"),
        ],
    )
    def test_an_action_that_cannot_be_resolved_is_refused(self, action: ControlAction, words: str) -> None:
        knobs = ledger()
        with pytest.raises(PolicyError, match=words):
            knobs.apply(action, 0)
        assert knobs.is_at_base

    def test_an_actuator_of_an_unknown_layer_is_refused(self) -> None:
        with pytest.raises(PolicyError, match="layer_9"):
            ledger(actuator("K", 0.0, 1.0, "layer_9"))
