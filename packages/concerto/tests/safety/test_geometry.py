"""Distances between spheres: closed forms, gradients, rigid motions, and what a capsule's spheres cover."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from concerto.safety.geometry import (
    Sphere,
    SphereCloud,
    decompose_capsule,
    min_pair_distance,
    pair_distance,
    pair_distance_with_gradient,
    transform_cloud,
)
from ripieno.randomness import derive_substream

points = hnp.arrays(np.float64, 3, elements=st.floats(-5.0, 5.0))
radii = st.floats(0.01, 2.0)
seeds = st.integers(0, 2**32 - 1)


def random_rotation(rng: np.random.Generator) -> np.ndarray:
    rotation, upper = np.linalg.qr(rng.normal(size=(3, 3)))
    rotation = rotation * np.sign(np.diag(upper))
    if np.linalg.det(rotation) < 0.0:
        rotation[:, 0] *= -1.0
    return rotation


def random_cloud(rng: np.random.Generator, size: int) -> SphereCloud:
    return SphereCloud(centers=rng.normal(size=(size, 3)), radii=rng.uniform(0.05, 0.5, size))


def rng_of(seed: int) -> np.random.Generator:
    return derive_substream("test.safety.geometry", root_seed=seed).default_rng()


def test_gap_of_two_spheres_on_an_axis() -> None:
    a, b = Sphere(np.array([0.0, 0.0, 2.0]), 0.5), Sphere(np.zeros(3), 0.25)
    distance, gradient = pair_distance_with_gradient(a, b)
    assert distance == pair_distance(a, b) == 1.25
    np.testing.assert_array_equal(gradient, [0.0, 0.0, 1.0])


def test_overlap_has_a_negative_gap() -> None:
    assert pair_distance(Sphere(np.zeros(3), 1.0), Sphere(np.array([0.5, 0.0, 0.0]), 1.0)) == -1.5


def test_coincident_centres_separate_along_x() -> None:
    distance, gradient = pair_distance_with_gradient(Sphere(np.ones(3), 0.1), Sphere(np.ones(3) + 1e-13, 0.2))
    assert distance == pytest.approx(-0.3, abs=1e-15)
    np.testing.assert_array_equal(gradient, [1.0, 0.0, 0.0])


def test_coincident_tolerance_can_be_widened_to_the_one_of_the_constraint_rows() -> None:
    a, b = Sphere(np.array([0.0, 1e-10, 0.0]), 0.1), Sphere(np.zeros(3), 0.1)
    np.testing.assert_allclose(pair_distance_with_gradient(a, b)[1], [0.0, 1.0, 0.0])
    np.testing.assert_array_equal(pair_distance_with_gradient(a, b, coincident_tolerance=1e-9)[1], [1.0, 0.0, 0.0])


@given(points, points, radii, radii)
def test_gradient_is_the_finite_difference_of_the_distance(ca, cb, ra, rb) -> None:
    if np.linalg.norm(ca - cb) < 0.1:
        ca = cb + np.array([0.3, -0.2, 0.1])
    b = Sphere(cb, rb)
    _, gradient = pair_distance_with_gradient(Sphere(ca, ra), b)
    step = 1e-6
    numeric = [
        (pair_distance(Sphere(ca + step * axis, ra), b) - pair_distance(Sphere(ca - step * axis, ra), b)) / (2 * step)
        for axis in np.eye(3)
    ]
    np.testing.assert_allclose(gradient, numeric, atol=1e-7)


@given(points, points, radii, radii)
def test_distance_is_symmetric_and_the_gradient_antisymmetric(ca, cb, ra, rb) -> None:
    forward, gradient = pair_distance_with_gradient(Sphere(ca, ra), Sphere(cb, rb))
    backward, opposite = pair_distance_with_gradient(Sphere(cb, rb), Sphere(ca, ra))
    assert forward == backward
    if np.linalg.norm(ca - cb) >= 1e-12:
        np.testing.assert_array_equal(gradient, -opposite)


@given(seeds, st.integers(1, 6), st.integers(1, 6))
def test_min_pair_distance_is_the_minimum_over_all_pairs(seed, size_a, size_b) -> None:
    rng = rng_of(seed)
    a, b = random_cloud(rng, size_a), random_cloud(rng, size_b)
    distance, i, j = min_pair_distance(a, b)
    gaps = [
        (pair_distance(Sphere(ca, ra), Sphere(cb, rb)), p, q)
        for p, (ca, ra) in enumerate(zip(a.centers, a.radii, strict=True))
        for q, (cb, rb) in enumerate(zip(b.centers, b.radii, strict=True))
    ]
    assert (i, j) == min(gaps)[1:]
    assert distance == pytest.approx(min(gaps)[0], abs=1e-14)


def test_of_equal_gaps_the_first_in_row_major_order_wins() -> None:
    cloud = SphereCloud(centers=np.zeros((3, 3)), radii=np.ones(3))
    assert min_pair_distance(cloud, cloud) == (-2.0, 0, 0)
    square = SphereCloud(centers=np.array([[5.0, 0, 0], [1.0, 0, 0], [-1.0, 0, 0]]), radii=np.ones(3))
    centre = SphereCloud(centers=np.zeros((2, 3)), radii=np.ones(2))
    assert min_pair_distance(square, centre)[1:] == (1, 0)


@given(seeds)
def test_a_rigid_motion_of_both_clouds_changes_no_distance(seed) -> None:
    rng = rng_of(seed)
    a, b = random_cloud(rng, 4), random_cloud(rng, 5)
    rotation, translation = random_rotation(rng), rng.normal(size=3)
    before = min_pair_distance(a, b)
    after = min_pair_distance(transform_cloud(a, rotation, translation), transform_cloud(b, rotation, translation))
    assert after[1:] == before[1:]
    assert after[0] == pytest.approx(before[0], abs=1e-12)


def test_transform_rotates_then_translates_and_shares_the_radii() -> None:
    quarter_turn = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    cloud = SphereCloud(centers=np.array([[1.0, 0.0, 0.0]]), radii=np.array([0.1]))
    moved = transform_cloud(cloud, quarter_turn, np.array([0.0, 0.0, 3.0]))
    np.testing.assert_array_equal(moved.centers, [[0.0, 1.0, 3.0]])
    assert moved.radii is cloud.radii


def test_capsule_spheres_are_evenly_spaced_with_the_capsules_radius() -> None:
    cloud = decompose_capsule(np.zeros(3), np.array([2.0, 0.0, 0.0]), 0.3, 5)
    np.testing.assert_allclose(cloud.centers[:, 0], [0.0, 0.5, 1.0, 1.5, 2.0])
    np.testing.assert_array_equal(cloud.radii, np.full(5, 0.3))
    assert len(cloud) == 5


def test_a_single_sphere_sits_at_the_start_or_inflated_in_the_middle() -> None:
    start, end = np.zeros(3), np.array([2.0, 0.0, 0.0])
    np.testing.assert_array_equal(decompose_capsule(start, end, 0.3, 1).centers, [start])
    inflated = decompose_capsule(start, end, 0.3, 1, inflate=True)
    np.testing.assert_array_equal(inflated.centers, [[1.0, 0.0, 0.0]])
    np.testing.assert_array_equal(inflated.radii, [1.3])


def capsule_surface(rng: np.random.Generator, start, end, radius: float, count: int) -> np.ndarray:
    """Random points of the capsule's skin: a point of the axis, moved by the radius away from it."""
    axis = end - start
    directions = rng.normal(size=(count, 3))
    directions /= np.linalg.norm(directions, axis=1)[:, None]
    fractions = rng.uniform(-0.2, 1.2, count)
    inside = (fractions > 0.0) & (fractions < 1.0)
    length = np.linalg.norm(axis)
    if length > 0.0:
        unit = axis / length
        sideways = directions - (directions @ unit)[:, None] * unit
        norms = np.linalg.norm(sideways, axis=1)
        keep = inside & (norms > 1e-9)
        directions[keep] = sideways[keep] / norms[keep][:, None]
    return start + np.clip(fractions, 0.0, 1.0)[:, None] * axis + radius * directions


def uncovered_depth(cloud: SphereCloud, skin: np.ndarray) -> float:
    to_centres = np.linalg.norm(skin[:, None, :] - cloud.centers[None], axis=2) - cloud.radii
    return float(to_centres.min(axis=1).max())


@given(seeds, points, points, radii, st.integers(1, 8))
def test_inflated_spheres_cover_the_whole_capsule(seed, start, end, radius, n_spheres) -> None:
    cloud = decompose_capsule(start, end, radius, n_spheres, inflate=True)
    skin = capsule_surface(rng_of(seed), start, end, radius, 400)
    assert uncovered_depth(cloud, skin) <= 1e-9


def test_spheres_of_the_capsules_own_radius_leave_the_waist_bare() -> None:
    start, end, radius = np.zeros(3), np.array([1.0, 0.0, 0.0]), 0.4
    cloud = decompose_capsule(start, end, radius, 3)
    waist = math.sqrt(radius**2 - 0.25**2)
    just_inside, just_outside = np.array([[0.25, waist - 1e-6, 0.0]]), np.array([[0.25, waist + 1e-6, 0.0]])
    assert uncovered_depth(cloud, just_inside) < 0.0 < uncovered_depth(cloud, just_outside)


@pytest.mark.parametrize(("radius", "n_spheres"), [(0.0, 2), (-1.0, 2), (math.nan, 2), (0.1, 0), (0.1, -3)])
def test_a_capsule_needs_a_positive_radius_and_a_sphere(radius, n_spheres) -> None:
    with pytest.raises(ValueError, match=r"radius|n_spheres"):
        decompose_capsule(np.zeros(3), np.ones(3), radius, n_spheres)


def test_empty_clouds_have_no_distance() -> None:
    empty = SphereCloud(centers=np.zeros((0, 3)), radii=np.zeros(0))
    full = SphereCloud(centers=np.zeros((1, 3)), radii=np.ones(1))
    with pytest.raises(ValueError, match="cloud_a"):
        min_pair_distance(empty, full)
    with pytest.raises(ValueError, match="cloud_b"):
        min_pair_distance(full, empty)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_non_finite_input_names_its_field(bad) -> None:
    good = Sphere(np.zeros(3), 1.0)
    with pytest.raises(ValueError, match=r"a\.center must be finite"):
        pair_distance(Sphere(np.array([bad, 0, 0]), 1.0), good)
    with pytest.raises(ValueError, match=r"b\.radius must be finite"):
        pair_distance(good, Sphere(np.ones(3), bad))
    cloud = SphereCloud(centers=np.zeros((1, 3)), radii=np.ones(1))
    with pytest.raises(ValueError, match=r"cloud_b\.radii must be finite"):
        min_pair_distance(cloud, SphereCloud(centers=np.zeros((1, 3)), radii=np.array([bad])))
    with pytest.raises(ValueError, match="end must be finite"):
        decompose_capsule(np.zeros(3), np.array([0.0, bad, 0.0]), 0.1, 2)
    with pytest.raises(ValueError, match="rotation must be finite"):
        transform_cloud(cloud, np.full((3, 3), bad), np.zeros(3))
    with pytest.raises(ValueError, match="translation must be finite"):
        transform_cloud(cloud, np.eye(3), np.array([bad, 0.0, 0.0]))
