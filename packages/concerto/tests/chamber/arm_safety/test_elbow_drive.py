"""A blind ego that drives its elbow at another arm collides without the filter and never with it."""

from __future__ import annotations

import json

import numpy as np
import pytest

from chamber.arm_safety.elbow_drive import (
    PARTNER_MAX_SPEED_MS,
    ElbowDriveResult,
    PartnerMotion,
    render_elbow_drive,
    run_elbow_drive,
)

MOTIONS = list(PartnerMotion)


def _check_collides(result: ElbowDriveResult) -> None:
    assert result.n_collisions == len(result.rows)
    for row in result.rows:
        assert row.max_contact_force_n > 10.0
        assert row.interventions == 0
        assert row.elbow_travel_m > 0.1


def _check_stopped(result: ElbowDriveResult) -> None:
    assert result.n_collisions == 0
    for row in result.rows:
        assert row.max_contact_force_n == 0.0
        assert row.interventions > 20
        assert sum(row.source_counts.values()) == 100
        assert row.elbow_travel_m > 0.03  # the ego is held back, not frozen
        assert row.partner_speed_ms <= PARTNER_MAX_SPEED_MS


@pytest.mark.parametrize("motion", MOTIONS)
def test_without_the_filter_the_arms_collide(motion: PartnerMotion) -> None:
    _check_collides(run_elbow_drive(range(4), partner_motion=motion, with_safety=False))


@pytest.mark.parametrize("motion", MOTIONS)
def test_with_the_filter_the_arms_never_touch(motion: PartnerMotion) -> None:
    result = run_elbow_drive(range(4), partner_motion=motion)
    _check_stopped(result)
    if motion is PartnerMotion.STILL:
        assert result.min_gap_m > 0.05


@pytest.mark.slow
@pytest.mark.parametrize("motion", MOTIONS)
def test_without_the_filter_the_arms_collide_in_every_episode(motion: PartnerMotion) -> None:
    _check_collides(run_elbow_drive(range(40), partner_motion=motion, with_safety=False))


@pytest.mark.slow
@pytest.mark.parametrize("motion", MOTIONS)
def test_with_the_filter_the_arms_never_touch_in_any_episode(motion: PartnerMotion) -> None:
    _check_stopped(run_elbow_drive(range(40), partner_motion=motion))


def test_the_margin_alone_stops_the_ego_before_a_partner_that_is_declared_to_stand() -> None:
    """Nothing but the certificate and the tracking error keep the arms apart here, at millimetres."""
    result = run_elbow_drive(range(4), partner_max_speed=0.0)
    assert result.n_collisions == 0
    for row in result.rows:
        assert 0.0 < row.min_gap_m < 0.02


def test_an_episode_is_a_function_of_its_seed() -> None:
    together = run_elbow_drive((7, 3), partner_motion=PartnerMotion.SWINGING, n_steps=30)
    alone = run_elbow_drive((3,), partner_motion=PartnerMotion.SWINGING, n_steps=30)
    assert together.rows[1] == alone.rows[0]
    assert together.rows[0].min_gap_m != together.rows[1].min_gap_m


def test_a_result_is_json() -> None:
    result = run_elbow_drive((0,), n_steps=5)
    found = json.loads(json.dumps(result.to_jsonable()))
    assert found["partner_motion"] == "still"
    assert found["n_collisions"] == 0
    assert found["rows"][0]["seed"] == 0
    assert sum(found["rows"][0]["source_counts"].values()) == 5


@pytest.mark.egl
def test_pictures_show_two_different_ends_of_one_episode() -> None:
    collision, stopped = render_elbow_drive(0)
    for picture in (collision, stopped):
        assert picture.shape == (480, 640, 3)
        assert picture.dtype == np.uint8
        assert picture.std() > 20.0
    assert (collision != stopped).any(axis=2).mean() > 0.02
