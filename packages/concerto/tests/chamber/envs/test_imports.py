"""What can be imported with what installed."""

from __future__ import annotations

import subprocess
import sys

import chamber.envs

BLOCK = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {blocked!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Refuse())
"""


def run(blocked: set[str], code: str) -> str:
    program = BLOCK.format(blocked=blocked) + code
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_environment_module_imports_without_a_simulator():
    run(
        {"mani_skill", "sapien", "mujoco", "torch"},
        "import importlib, pkgutil, chamber.envs\n"
        "for module in pkgutil.iter_modules(chamber.envs.__path__):\n"
        "    importlib.import_module('chamber.envs.' + module.name)\n",
    )


def test_chamber_and_its_partners_import_without_gymnasium():
    code = (
        "import chamber, chamber.partners, chamber.cell.config\n"
        "from chamber.partners import PartnerSpec, load_partner\n"
        "load_partner(PartnerSpec('push_pursuer', 0, None, None))\n"
    )
    run({"gymnasium"}, code)


def test_environments_without_gymnasium_name_the_command_that_installs_it():
    out = run(
        {"gymnasium"},
        "try:\n    import chamber.envs.errors\nexcept ImportError as error:\n    print(error)\n",
    )
    assert 'pip install "ripieno-concerto[chamber]"' in out
    assert len(out.splitlines()) == 1


def test_only_names_that_exist_are_exported():
    documented = {
        "ChamberEnvCompatibilityError", "CommShapingWrapper", "ConditionConfig", "MPECooperativePushEnv",
        "PartnerIdAnnotationWrapper", "PerAgentActionRepeatWrapper", "Stage0StateSynthesizer",
        "Stage1ASStateSynthesizer", "Stage1OMChannelFilter", "TextureFilterObsWrapper",
        "build_control_models_for_condition", "make_stage1_pickplace_env", "resolve_condition",
    }  # fmt: skip
    assert set(chamber.envs.__all__) <= documented
    assert all(hasattr(chamber.envs, name) for name in chamber.envs.__all__)
