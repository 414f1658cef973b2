"""How a scene looks: sky, floor, light, and where its cameras stand."""

from __future__ import annotations

import math

import numpy as np

from chamber.sim._mujoco_bindings import MjSpec, mujoco
from chamber.sim.backend import FloatArray
from chamber.sim.scene import Quaternion, Vector3

__all__ = ["HIDDEN_GROUP", "MARKER_GROUP", "add_surroundings", "camera_quaternion", "mounted_camera_quaternion"]

HIDDEN_GROUP = 4
"""Geom and site group that no camera sees."""

MARKER_GROUP = 5
"""Geom group that cameras for people see, and sensors do not."""

_SHADOW_REACH = 3.0
"""m from the centre of the scene; further out nothing casts a shadow."""

# Columns: axes of a MuJoCo camera (right, up, backwards) in a frame with x forwards, y left, z up.
_FROM_FORWARD_LEFT_UP = np.array([[0.0, 0.0, -1.0], [-1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])


def add_surroundings(spec: MjSpec) -> None:
    """Add what every picture has: a sky, light from above and from the viewer, and the body ``//floor`` to look at."""
    spec.add_texture(
        name="//sky",
        type=mujoco.mjtTexture.mjTEXTURE_SKYBOX,
        builtin=mujoco.mjtBuiltin.mjBUILTIN_GRADIENT,
        rgb1=[0.93, 0.95, 0.98],
        rgb2=[0.55, 0.65, 0.78],
        width=256,
        height=256,
    )
    spec.add_texture(
        name="//floor",
        type=mujoco.mjtTexture.mjTEXTURE_2D,
        builtin=mujoco.mjtBuiltin.mjBUILTIN_CHECKER,
        mark=mujoco.mjtMark.mjMARK_EDGE,
        rgb1=[0.74, 0.77, 0.81],
        rgb2=[0.70, 0.73, 0.77],
        markrgb=[0.64, 0.67, 0.71],
        width=256,
        height=256,
    )
    floor = spec.add_material(name="//floor", texrepeat=[2, 2], texuniform=True)
    floor.textures[mujoco.mjtTextureRole.mjTEXROLE_RGB] = "//floor"
    spec.worldbody.add_body(name="//floor").add_geom(
        name="//floor",
        type=mujoco.mjtGeom.mjGEOM_PLANE,
        size=[0, 0, 1],
        material="//floor",
        contype=0,
        conaffinity=0,
    )
    spec.worldbody.add_light(
        name="//sun",
        type=mujoco.mjtLightType.mjLIGHT_DIRECTIONAL,
        pos=[0.5, 0.9, 2.0],
        dir=[-0.25, -0.45, -1.0],
        diffuse=[0.5, 0.5, 0.5],
        specular=[0.2, 0.2, 0.2],
        castshadow=True,
    )
    headlight = spec.visual.headlight
    headlight.ambient = [0.4, 0.4, 0.4]
    headlight.diffuse = [0.2, 0.2, 0.2]
    headlight.specular = [0.1, 0.1, 0.1]
    spec.visual.rgba.haze = [0.82, 0.87, 0.93, 1.0]
    spec.visual.map.shadowclip = _SHADOW_REACH


def camera_quaternion(position: Vector3, target: Vector3) -> FloatArray:
    """Give the orientation of a camera that looks at its target, world z up.

    Straight up and down have no "z up"; there the top of the picture points along world y.

    Raises:
        ValueError: the camera stands on its target.
    """
    line_of_sight = np.subtract(target, position)
    distance = np.linalg.norm(line_of_sight)
    if distance < 1e-9:
        raise ValueError(f"a camera must not stand on its target, got {position} for both")
    backwards = -line_of_sight / distance
    up = np.array([0.0, 0.0, 1.0])
    if math.hypot(backwards[0], backwards[1]) < 1e-6:
        up = np.array([0.0, 1.0, 0.0])
    right = np.cross(up, backwards)
    right /= np.linalg.norm(right)
    return _quaternion(np.column_stack([right, np.cross(backwards, right), backwards]))


def mounted_camera_quaternion(quaternion: Quaternion) -> FloatArray:
    """Give the orientation of a camera that looks along the x axis of a frame with this orientation, z up."""
    rotation = np.empty(9)
    mujoco.mju_quat2Mat(rotation, np.array(quaternion, dtype=np.float64))
    return _quaternion(rotation.reshape(3, 3) @ _FROM_FORWARD_LEFT_UP)


def _quaternion(rotation: FloatArray) -> FloatArray:
    quaternion = np.empty(4)
    mujoco.mju_mat2Quat(quaternion, np.ascontiguousarray(rotation).reshape(9))
    return quaternion
