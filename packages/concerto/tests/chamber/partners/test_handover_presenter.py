"""The presenter of the handover task: documented draws, its stream, its parameters."""

from __future__ import annotations

import math

import numpy as np
import pytest

from chamber.partners import FrozenPartner, PartnerSpec, load_partner
from chamber.partners.handover_presenter import (
    HANDOVER_PRESENTER_CLASS,
    HandoverPresenterPartner,
    presenter_spec,
)

MISMATCH_15 = {
    "grasp_pose_bias_deg": "15.0",
    "grasp_pose_sigma_deg": "10.0",
    "lateral_sigma_m": "0.0002",
    "timing_skew_bias_s": "0.2",
    "timing_skew_sigma_s": "0.1",
}


def presenter(**extra: str) -> FrozenPartner:
    return load_partner(PartnerSpec(HANDOVER_PRESENTER_CLASS, 0, None, None, extra))


def first_action(partner: FrozenPartner, seed: int | None) -> np.ndarray:
    partner.reset(seed=seed)
    return partner.act({})


def test_documented_draws():
    action = first_action(presenter(**MISMATCH_15), 1)
    assert action.dtype == np.float64
    np.testing.assert_allclose(action, [6.898e-5, -1.33670e-4, 7.10610996, 0.12544431], atol=5e-9, rtol=2e-4)
    assert action[2:] == pytest.approx([7.10610996, 0.12544431], abs=5e-9)
    mismatched = first_action(presenter(variant="mismatched", **MISMATCH_15), 1)
    assert mismatched[2:] == pytest.approx([17.63493799, 0.3744461088], abs=5e-9)


def test_it_cannot_act_before_a_reset():
    with pytest.raises(RuntimeError, match="reset"):
        presenter(**MISMATCH_15).act({})


def test_an_episode_is_a_function_of_its_seed():
    partner = presenter(**MISMATCH_15)
    first = first_action(partner, 5)
    partner.act({})
    assert first_action(partner, 5).tobytes() == first.tobytes()
    assert first_action(presenter(**MISMATCH_15), 5).tobytes() == first.tobytes()
    assert first_action(partner, 6).tobytes() != first.tobytes()
    assert first_action(partner, None).tobytes() == first_action(partner, 0).tobytes()


def test_every_call_draws_anew_and_ignores_what_is_observed():
    one, other = presenter(**MISMATCH_15), presenter(**MISMATCH_15)
    one.reset(seed=2)
    other.reset(seed=2)
    assert one.act({}).tobytes() == other.act({"lateral_offset": np.ones(2)}, deterministic=False).tobytes()
    assert one.act({}).tobytes() != first_action(other, 2).tobytes()


def test_without_a_sigma_there_is_no_noise_but_the_draw_is_taken():
    quiet = presenter(
        lateral_offset_x_m="0.01", lateral_offset_y_m="-0.02", grasp_pose_bias_deg="7", timing_skew_bias_s="0.5"
    )
    np.testing.assert_array_equal(first_action(quiet, 3), [0.01, -0.02, 7.0, 0.5])
    loud, grasp_only = presenter(**MISMATCH_15), presenter(grasp_pose_bias_deg="15", grasp_pose_sigma_deg="10")
    assert first_action(grasp_only, 3)[2] == first_action(loud, 3)[2]


def test_nobody_is_early():
    early = presenter(timing_skew_bias_s="-5", timing_skew_sigma_s="0.1")
    assert first_action(early, 0)[3] == 0.0


def test_noise_has_the_size_of_its_sigma():
    partner = presenter(**MISMATCH_15)
    actions = np.array([first_action(partner, seed) for seed in range(2000)])
    np.testing.assert_allclose(actions[:, :3].std(axis=0), [2e-4, 2e-4, 10.0], rtol=0.06)
    np.testing.assert_allclose(actions[:, 2].mean(), 15.0, atol=0.7)


@pytest.mark.parametrize(
    "extra",
    [
        {"grasp_pose_sigma_deg": "-1"},
        {"lateral_sigma_m": "x"},
        {"timing_skew_bias_s": "nan"},
        {"grasp_pose_bias_deg": "1,2"},
        {"lateral_offset_x_m": "inf"},
    ],
)
def test_parameters_that_make_no_sense_are_refused_when_it_is_built(extra: dict[str, str]):
    with pytest.raises(ValueError, match=next(iter(extra))):
        presenter(**extra)


class TestSpecification:
    def test_placeholders(self):
        matched, mismatched = presenter_spec("matched"), presenter_spec("mismatched", seed=4)
        assert matched.extra == {
            "variant": "matched",
            "lateral_offset_x_m": "0.0",
            "lateral_offset_y_m": "0.0",
            "lateral_sigma_m": "0.0002",
            "grasp_pose_bias_deg": "0.0",
            "grasp_pose_sigma_deg": "1.0",
            "timing_skew_bias_s": "0.0",
            "timing_skew_sigma_s": "0.02",
        }
        assert mismatched.extra["grasp_pose_bias_deg"] == "25.0"
        assert mismatched.extra["grasp_pose_sigma_deg"] == "8.0"
        assert mismatched.extra["timing_skew_sigma_s"] == "0.05"
        assert (mismatched.seed, mismatched.checkpoint_step, mismatched.weights_uri) == (4, None, None)
        assert matched.class_name == HANDOVER_PRESENTER_CLASS

    def test_numbers_replace_placeholders_and_reach_the_partner(self):
        spec = presenter_spec("mismatched", grasp_pose_bias_deg=45, grasp_pose_sigma_deg=0.0)
        assert spec.extra["grasp_pose_bias_deg"] == "45.0"
        partner = load_partner(spec)
        assert isinstance(partner, HandoverPresenterPartner)
        assert partner.variant == "mismatched"
        assert first_action(partner, 0)[2] == 45.0

    def test_unknown_variants_and_parameters_are_refused(self):
        with pytest.raises(ValueError, match="matched, mismatched"):
            presenter_spec("friendly")
        with pytest.raises(ValueError, match="grasp_bias"):
            presenter_spec("matched", grasp_bias=3.0)

    def test_a_number_that_is_not_finite_is_refused_by_the_partner(self):
        with pytest.raises(ValueError, match="lateral_sigma_m"):
            load_partner(presenter_spec("matched", lateral_sigma_m=math.nan))


@pytest.mark.parametrize("name", ["train", "learn", "update", "fit", "set_weights", "load_state_dict"])
def test_it_is_frozen(name: str):
    assert not hasattr(presenter(), name)


def test_a_misspelt_parameter_is_pointed_out_and_metadata_of_a_seat_is_not() -> None:
    with pytest.warns(UserWarning, match=r"has no parameter 'grasp_bias_deg'; it has grasp_pose_bias_deg"):
        load_partner(PartnerSpec(HANDOVER_PRESENTER_CLASS, 0, None, None, {"grasp_bias_deg": "15"}))
    load_partner(PartnerSpec(HANDOVER_PRESENTER_CLASS, 0, None, None, {"role": "presenter", "task": "handover_place"}))
