"""The second Panda, and what importing the package needs."""

from __future__ import annotations

import dataclasses
import subprocess
import sys

import pytest

import chamber.agents
from chamber.agents import PandaPartner

REFUSE = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"mani_skill", "sapien", "torch", "pytorch_kinematics", "mujoco", "gymnasium"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Refuse())
import chamber.agents, pkgutil, importlib
for module in pkgutil.iter_modules(chamber.agents.__path__):
    importlib.import_module("chamber.agents." + module.name)
assert chamber.agents.PandaPartner.uid == "panda_partner"
"""


def test_every_module_imports_without_simulator_and_torch():
    subprocess.run([sys.executable, "-c", REFUSE], check=True)


def test_importing_the_package_loads_no_compiler():
    code = "import sys, chamber.agents; assert 'numba' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_documented_names():
    assert chamber.agents.__all__ == ["PandaJacobianProvider", "PandaPartner"]
    assert chamber.agents._PANDA_PARTNER_REGISTERED is True


def test_its_uid_cannot_be_mistaken_for_the_ego_and_cannot_be_changed():
    assert PandaPartner.uid == PandaPartner().uid == "panda_partner"
    with pytest.raises(dataclasses.FrozenInstanceError):
        PandaPartner().uid = "panda_wristcam"  # type: ignore[misc]


def test_its_body_is_a_panda_without_wrist_camera():
    model = PandaPartner().model
    assert model.name == "panda_partner"
    assert model.n_joints == 9
    assert "camera_link" not in model.link_names
