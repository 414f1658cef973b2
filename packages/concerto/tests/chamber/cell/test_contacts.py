"""The judge of contacts: what it must see, whom it must blame, and what it must not blame anybody for."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from chamber.cell.contacts import closest_approach, find_contacts, step_distances

D = 0.2
paths = arrays(np.float64, (6, 2), elements=st.floats(-1.0, 1.0))


def path(*points: tuple[float, float]) -> np.ndarray:
    return np.array(points, dtype=np.float64)


def test_an_ego_that_drives_into_a_standing_partner_is_at_fault():
    ego = path((0.0, 0.0), (0.1, 0.0), (0.2, 0.0), (0.3, 0.0))
    partner = path(*[(0.45, 0.0)] * 4)
    (contact,) = find_contacts(ego, partner, safety_distance_m=D)
    assert (contact.step, contact.at_fault) == (2, True)
    assert contact.ego_displacement_m == pytest.approx(0.1)


def test_an_ego_that_stands_when_the_partner_drives_into_it_is_not_at_fault():
    ego = path(*[(0.0, 0.0)] * 4)
    partner = path((0.4, 0.0), (0.3, 0.0), (0.15, 0.0), (0.0, 0.0))
    (contact,) = find_contacts(ego, partner, safety_distance_m=D)
    assert (contact.step, contact.at_fault) == (1, False)


def test_an_ego_that_flees_and_is_caught_was_moving_and_is_at_fault():
    ego = path((0.0, 0.0), (-0.05, 0.0), (-0.1, 0.0))
    partner = path((0.3, 0.0), (0.2, 0.0), (0.05, 0.0))
    (contact,) = find_contacts(ego, partner, safety_distance_m=D)
    assert contact.at_fault


def test_stopping_one_step_earlier_clears_the_ego():
    partner = path((0.5, 0.0), (0.4, 0.0), (0.25, 0.0), (0.1, 0.0))
    late = path((0.0, 0.0), (0.05, 0.0), (0.1, 0.0), (0.1, 0.0))
    in_time = path((0.0, 0.0), (0.05, 0.0), (0.05, 0.0), (0.05, 0.0))
    assert [c.at_fault for c in find_contacts(late, partner, safety_distance_m=D)] == [True]
    assert [c.at_fault for c in find_contacts(in_time, partner, safety_distance_m=D)] == [False]


def test_a_contact_between_samples_is_seen():
    ego = path((-1.0, 0.0), (1.0, 0.0))
    partner = path((0.0, 0.1), (0.0, 0.1))
    assert step_distances(ego, partner)[0] == pytest.approx(0.1)
    approach = closest_approach(ego, partner)
    np.testing.assert_allclose(approach.ego, [0.0, 0.0], atol=1e-12)
    assert len(find_contacts(ego, partner, safety_distance_m=D)) == 1


def test_a_contact_that_lasts_is_one_contact_and_a_second_touch_another():
    ego = path(*[(0.0, 0.0)] * 7)
    partner = path((0.5, 0.0), (0.1, 0.0), (0.1, 0.0), (0.0, 0.0), (0.5, 0.0), (0.5, 0.0), (0.1, 0.0))
    assert [contact.step for contact in find_contacts(ego, partner, safety_distance_m=D)] == [0, 5]


def test_discs_that_just_touch_are_no_contact():
    ego = path((0.0, 0.0), (0.1, 0.0))
    partner = path((0.3, 0.0), (0.3, 0.0))
    assert find_contacts(ego, partner, safety_distance_m=D) == ()


@given(ego=paths, partner=paths)
def test_no_sampled_moment_is_nearer_than_the_closest_approach(ego: np.ndarray, partner: np.ndarray):
    fractions = np.linspace(0.0, 1.0, 41)[:, None, None]
    between = [(1.0 - fractions) * robot[:-1] + fractions * robot[1:] for robot in (ego, partner)]
    sampled = np.linalg.norm(between[0] - between[1], axis=2).min(axis=0)
    exact = step_distances(ego, partner)
    assert (exact <= sampled + 1e-12).all()
    approach = closest_approach(ego, partner)
    assert approach.distance_m == exact.min()
    assert np.linalg.norm(approach.ego - approach.partner) == pytest.approx(approach.distance_m, abs=1e-12)


@given(ego=paths, partner=paths, angle=st.floats(0.0, 6.3), shift=st.tuples(st.floats(-1, 1), st.floats(-1, 1)))
def test_the_verdict_does_not_depend_on_the_frame(
    ego: np.ndarray, partner: np.ndarray, angle: float, shift: tuple[float, float]
):
    distances = step_distances(ego, partner)
    at_samples = np.linalg.norm(ego - partner, axis=1)
    assume(min(np.abs(distances - D).min(), np.abs(at_samples - D).min()) > 1e-6)
    moves = np.linalg.norm(np.diff(ego, axis=0), axis=1)
    assume(((moves == 0.0) | (moves > 1e-6)).all())
    rotation = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])

    def verdicts(*robots: np.ndarray) -> list[tuple[int, bool]]:
        return [(c.step, c.at_fault) for c in find_contacts(*robots, safety_distance_m=D)]

    assert verdicts(ego, partner) == verdicts(ego @ rotation.T + shift, partner @ rotation.T + shift)


@given(ego=paths, partner=paths)
def test_an_ego_at_rest_is_never_at_fault(ego: np.ndarray, partner: np.ndarray):
    standing = np.repeat(ego[:1], 6, axis=0)
    assert not any(contact.at_fault for contact in find_contacts(standing, partner, safety_distance_m=D))
