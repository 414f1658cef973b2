"""Two Pandas face to face, as most tests here need them."""

from __future__ import annotations

import math

import pytest

from chamber.arm_safety import ArmModel, arm_of_scene
from chamber.sim.scene import RobotSpec, SceneSpec

EGO, PARTNER = "panda_wristcam", "panda_partner"


def two_arms(distance: float = 1.0) -> SceneSpec:
    return SceneSpec(
        robots=(
            RobotSpec(uid=EGO, model=EGO, base_position=(-distance / 2.0, -0.1, 0.2), base_yaw=0.1),
            RobotSpec(uid=PARTNER, model=PARTNER, base_position=(distance / 2.0, 0.1, 0.2), base_yaw=math.pi),
        )
    )


@pytest.fixture(scope="session")
def scene() -> SceneSpec:
    return two_arms()


@pytest.fixture(scope="session")
def ego(scene: SceneSpec) -> ArmModel:
    return arm_of_scene(scene, EGO)


@pytest.fixture(scope="session")
def partner(scene: SceneSpec) -> ArmModel:
    return arm_of_scene(scene, PARTNER)
