"""Spheres as the shape of a robot: signed distances, their gradients, and capsules made of spheres.

All lengths are metres and all frames are the caller's; distances are signed (negative when two spheres
overlap).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from concerto.safety.api import FloatArray

__all__ = [
    "Sphere",
    "SphereCloud",
    "decompose_capsule",
    "min_pair_distance",
    "pair_distance",
    "pair_distance_with_gradient",
    "transform_cloud",
]


@dataclass(frozen=True, eq=False)
class Sphere:
    """One sphere.

    Attributes:
        center: position of the centre, shape ``(3,)``, metres.
        radius: radius, metres.
    """

    center: FloatArray
    radius: float


@dataclass(frozen=True, eq=False)
class SphereCloud:
    """``N`` spheres that move as one rigid body; ``len`` gives ``N``.

    Attributes:
        centers: positions of the centres, shape ``(N, 3)``, metres.
        radii: radii, shape ``(N,)``, metres.
    """

    centers: FloatArray
    radii: FloatArray

    def __len__(self) -> int:
        return len(self.radii)


def pair_distance(a: Sphere, b: Sphere) -> float:
    """Signed gap between two spheres, ``|c_a - c_b| - (r_a + r_b)``, metres.

    Raises:
        ValueError: a centre or a radius is not finite.
    """
    return pair_distance_with_gradient(a, b)[0]


def pair_distance_with_gradient(
    a: Sphere, b: Sphere, *, coincident_tolerance: float = 1e-12
) -> tuple[float, FloatArray]:
    """Signed gap between two spheres and its gradient with respect to the centre of ``a``.

    The gradient is the unit vector from the centre of ``b`` to the centre of ``a``; with respect to the
    centre of ``b`` it is the opposite vector.

    Args:
        a: first sphere.
        b: second sphere.
        coincident_tolerance: centres closer than this (metres) have no direction; they count as one
            point, with gap ``-(r_a + r_b)`` and gradient ``(1, 0, 0)``.

    Returns:
        The gap in metres and the gradient, shape ``(3,)``.

    Raises:
        ValueError: a centre or a radius is not finite.
    """
    offset = np.asarray(a.center, dtype=np.float64) - np.asarray(b.center, dtype=np.float64)
    center_distance = math.sqrt(offset @ offset)
    reach = float(a.radius) + float(b.radius)
    if not math.isfinite(center_distance - reach):
        for name, sphere in (("a", a), ("b", b)):
            _require_finite(f"{name}.center", sphere.center)
            _require_finite(f"{name}.radius", sphere.radius)
        raise ValueError(f"distance of spheres a and b overflows: centres {a.center} and {b.center}")
    if center_distance < coincident_tolerance:
        return -reach, np.array([1.0, 0.0, 0.0])
    return center_distance - reach, offset / center_distance


def min_pair_distance(cloud_a: SphereCloud, cloud_b: SphereCloud) -> tuple[float, int, int]:
    """Smallest signed gap between a sphere of one cloud and a sphere of the other.

    Returns:
        The gap in metres, the index in ``cloud_a`` and the index in ``cloud_b``; of equal gaps the first
        in row-major order.

    Raises:
        ValueError: a cloud is empty or holds a non-finite centre or radius.
    """
    for name, cloud in (("cloud_a", cloud_a), ("cloud_b", cloud_b)):
        if len(cloud) == 0:
            raise ValueError(f"{name} must hold at least one sphere, got none")
        _require_finite(f"{name}.centers", cloud.centers)
        _require_finite(f"{name}.radii", cloud.radii)
    offsets = cloud_a.centers[:, None, :] - cloud_b.centers[None, :, :]
    gaps = np.linalg.norm(offsets, axis=2) - (cloud_a.radii[:, None] + cloud_b.radii[None, :])
    i, j = np.unravel_index(int(np.argmin(gaps)), gaps.shape)
    return float(gaps[i, j]), int(i), int(j)


def decompose_capsule(
    start: FloatArray, end: FloatArray, radius: float, n_spheres: int, *, inflate: bool = False
) -> SphereCloud:
    """Put ``n_spheres`` equal spheres along a capsule, from one end of its axis to the other.

    Spheres of the capsule's own radius ``r`` leave a waist of ``sqrt(r^2 - s^2/4)`` between two
    neighbours at spacing ``s``: they do not cover the capsule. ``inflate=True`` does: the radius becomes
    ``sqrt(r^2 + s^2/4)``, the distance from a centre to the rim half-way to its neighbour; a single sphere
    moves to the middle of the axis and reaches both tips, ``r + |end - start|/2``.

    Args:
        start: one end of the axis, shape ``(3,)``, metres.
        end: other end of the axis, shape ``(3,)``, metres.
        radius: radius of the capsule, metres, positive.
        n_spheres: number of spheres, at least 1; a single one that is not inflated sits at ``start``.
        inflate: enlarge the spheres until they contain the whole capsule.

    Raises:
        ValueError: ``n_spheres`` or ``radius`` is out of range, or an end is not finite.
    """
    if n_spheres < 1:
        raise ValueError(f"n_spheres must be at least 1, got {n_spheres}")
    if not (math.isfinite(radius) and radius > 0.0):
        raise ValueError(f"radius must be positive and finite, got {radius}")
    start = np.asarray(start, dtype=np.float64)
    end = np.asarray(end, dtype=np.float64)
    _require_finite("start", start)
    _require_finite("end", end)

    length = float(np.linalg.norm(end - start))
    sphere_radius = float(radius)
    fractions = np.linspace(0.0, 1.0, n_spheres)
    if inflate and n_spheres == 1:
        fractions = np.array([0.5])
        sphere_radius += length / 2.0
    elif inflate:
        sphere_radius = math.hypot(radius, length / (n_spheres - 1) / 2.0)
    centers = start + fractions[:, None] * (end - start)
    return SphereCloud(centers=centers, radii=np.full(n_spheres, sphere_radius))


def transform_cloud(cloud: SphereCloud, rotation: FloatArray, translation: FloatArray) -> SphereCloud:
    """Move a cloud rigidly: every centre ``c`` becomes ``rotation @ c + translation``.

    Args:
        cloud: the spheres; their radii array is shared with the result.
        rotation: rotation matrix, shape ``(3, 3)``.
        translation: translation, shape ``(3,)``, metres.

    Raises:
        ValueError: the rotation, the translation or a centre is not finite.
    """
    _require_finite("rotation", rotation)
    _require_finite("translation", translation)
    _require_finite("cloud.centers", cloud.centers)
    return SphereCloud(centers=cloud.centers @ np.asarray(rotation).T + translation, radii=cloud.radii)


def _require_finite(name: str, value: FloatArray | float) -> None:
    if not np.isfinite(value).all():
        raise ValueError(f"{name} must be finite, got {value}")
