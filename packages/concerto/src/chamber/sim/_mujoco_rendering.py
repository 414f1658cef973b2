"""Off-screen pictures of MuJoCo states: colour and metric depth."""

from __future__ import annotations

import os
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chamber.errors import ChamberEnvCompatibilityError
from chamber.sim._mujoco_bindings import MjData, MjModel, mujoco
from chamber.sim._mujoco_looks import MARKER_GROUP
from chamber.sim._mujoco_names import named
from chamber.sim.backend import Picture
from chamber.sim.scene import CameraSpec

__all__ = ["SceneRenderer"]

_MOST_SHAPES = 2000
_SAMPLES_PER_PIXEL = 4
_SHADOW_PIXELS = 2048
_SKY_DISTANCE = 200.0

_SKY_COLOUR = (184, 200, 222)
_LIGHT_AND_SKY = [
    int(flag)
    for flag in (
        mujoco.mjtRndFlag.mjRND_SKYBOX,
        mujoco.mjtRndFlag.mjRND_HAZE,
        mujoco.mjtRndFlag.mjRND_SHADOW,
    )
]


class SceneRenderer:
    """The cameras of a scene. Nothing is allocated before the first picture.

    Args:
        model: with a camera called ``/name`` for each of these.
        cameras: what they are.
    """

    def __init__(self, model: MjModel, cameras: Sequence[CameraSpec]) -> None:
        self._model = model
        self._cameras = {camera.name: camera for camera in cameras}
        self._canvases: dict[bool, _Canvas] = {}

    def render(self, name: str, data: MjData) -> Picture:
        """Give what a camera sees.

        Raises:
            KeyError: there is no such camera.
            ChamberEnvCompatibilityError: there is no off-screen rendering on this machine.
        """
        camera = named("camera", self._cameras, name)
        if camera.is_sensor not in self._canvases:
            alike = [other for other in self._cameras.values() if other.is_sensor == camera.is_sensor]
            self._canvases[camera.is_sensor] = _Canvas(self._model, alike)
        return self._canvases[camera.is_sensor].draw(camera, data)

    def close(self) -> None:
        """Free what was allocated."""
        for canvas in self._canvases.values():
            canvas.free()
        self._canvases.clear()


class _Canvas:
    """An OpenGL context with a frame buffer as large as the largest of its cameras.

    Cameras for people and sensors have one each: smooth edges, shadows and a sky take nine tenths of the time of a
    small picture in software.
    """

    def __init__(self, model: MjModel, cameras: Sequence[CameraSpec]) -> None:
        self._model = model
        self._is_for_people = not cameras[0].is_sensor
        visual = model.vis
        visual.global_.offwidth = max(camera.width for camera in cameras)
        visual.global_.offheight = max(camera.height for camera in cameras)
        visual.quality.offsamples = _SAMPLES_PER_PIXEL if self._is_for_people else 0
        visual.quality.shadowsize = _SHADOW_PIXELS if self._is_for_people else 0  # a map of shadows takes 16 MB
        try:
            context = _context_class()(visual.global_.offwidth, visual.global_.offheight)
            with context.as_current():
                target = mujoco.MjrContext(model, int(mujoco.mjtFontScale.mjFONTSCALE_100))
                mujoco.mjr_setBuffer(int(mujoco.mjtFramebuffer.mjFB_OFFSCREEN), target)
        except Exception as error:
            raise ChamberEnvCompatibilityError(
                "there is no off-screen rendering on this machine "
                f"(MUJOCO_GL={os.environ.get('MUJOCO_GL')!r}, {type(error).__name__}: {error}); leave MUJOCO_GL unset, "
                "and on Debian and Ubuntu install: apt-get install libegl1 libgl1-mesa-dri (ADR-001 §Risks)"
            ) from error
        target.readDepthMap = int(mujoco.mjtDepthMap.mjDEPTH_ZEROFAR)
        self._context = context
        self._target = target
        self._drawing = mujoco.MjvScene(model, maxgeom=_MOST_SHAPES)
        self._option = mujoco.MjvOption()
        self._view = mujoco.MjvCamera()
        self._view.type = int(mujoco.mjtCamera.mjCAMERA_FIXED)
        self.free = weakref.finalize(self, _free, context, target)

    def draw(self, camera: CameraSpec, data: MjData) -> Picture:
        """Give what a camera sees: colours as far as there is something, depths up to the far plane."""
        self._option.geomgroup[MARKER_GROUP] = not camera.is_sensor
        self._view.fixedcamid = self._model.camera(f"/{camera.name}").id
        self._model.vis.map.znear = camera.near
        self._model.vis.map.zfar = far = max(camera.far, _SKY_DISTANCE)
        # The floor is laid out around the camera that the drawing has: without this line, that of the picture before.
        mujoco.mjv_updateCamera(self._model, data, self._view, self._drawing)
        everything = int(mujoco.mjtCatBit.mjCAT_ALL)
        mujoco.mjv_updateScene(self._model, data, self._option, None, self._view, everything, self._drawing)
        with self._context.as_current():  # and of no thread afterwards: the next picture may be taken by another one
            rgb, closeness = self._shoot(camera, with_sky=self._is_for_people)
            if self._is_for_people:
                # The sky is a box around the camera: for depth it must not be there.
                _, closeness = self._shoot(camera, with_sky=False)
        if not self._is_for_people:
            rgb[closeness == 0.0] = _SKY_COLOUR
        # 1 at the near plane, 0 at the far plane, and linear in 1 / depth.
        depth = camera.near * far / (camera.near + closeness * (far - camera.near))
        return Picture(rgb=rgb, depth=np.minimum(depth, camera.far).astype(np.float32))

    def _shoot(self, camera: CameraSpec, *, with_sky: bool) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
        """Give colours and what the depth buffer holds."""
        self._drawing.flags[_LIGHT_AND_SKY] = with_sky
        frame = mujoco.MjrRect(0, 0, camera.width, camera.height)
        rgb = np.empty((camera.height, camera.width, 3), dtype=np.uint8)
        closeness = np.empty((camera.height, camera.width), dtype=np.float32)
        mujoco.mjr_render(frame, self._drawing, self._target)
        mujoco.mjr_readPixels(rgb, closeness, frame, self._target)
        return rgb[::-1].copy(), closeness[::-1]  # the first row of a buffer is the lowest


def _context_class() -> Any:
    """Give what ``MUJOCO_GL`` asks for, also where somebody imported MuJoCo before it was set."""
    if os.environ.get("MUJOCO_GL", "").strip().lower() == "egl":
        from mujoco.egl import GLContext

        return GLContext
    return mujoco.GLContext


def _free(context: Any, target: Any) -> None:
    with context.as_current():
        target.free()
    context.free()
