"""The how-to on a task of one's own with arms does what it says, and the base class refuses what it says it refuses."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chamber.envs.rig_task import EpisodeStart, RigTaskEnv
from chamber.rollout.references import reference, register_reference
from chamber.sim.robots import robot_model
from chamber.sim.scene import RobotSpec, SceneSpec

HOW_TO = (Path(__file__).parent.parent / "docs/how-to/bring-your-own-arm-task.md").read_text(encoding="utf-8")
*PARTS, JUDGED = re.findall(r"```python\n(.*?)```", HOW_TO, re.DOTALL)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the file that the how-to builds up."""
    path = tmp_path_factory.mktemp("own")
    (path / "press.py").write_text("\n\n".join(part.strip() + "\n" for part in PARTS), encoding="utf-8")
    return path


def run(*words: str, cwd: Path) -> str:
    done = subprocess.run(words, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
    return done.stdout


def test_the_task_passes_the_checks_alone_and_in_copies(folder: Path) -> None:
    assert run(sys.executable, "-W", "error", "-c", JUDGED, cwd=folder) == ""


def test_every_command_of_the_how_to_runs_in_order(folder: Path) -> None:
    commands = re.findall(r"^((?:chamber|ripieno) .*)$", HOW_TO, re.MULTILINE)
    assert len(commands) == 4
    for command in commands:
        program, *words = command.split()
        out = run(str(Path(sys.executable).parent / program), *words, cwd=folder)
        if words[0] == "run":
            assert HOW_TO.partition("```text\n")[2].partition("```")[0] in out
            page = (folder / "runs/press/index.html").read_text(encoding="utf-8")
            assert "Each hand presses with 5 to 60 N" in page
        if words[0] == "check":
            assert "ok   the reference reaches success" in out


class Standing(RigTaskEnv):
    """The least that a task can be: one arm stands still."""

    def __init__(self, **options: Any) -> None:
        arm = RobotSpec(uid="panda_wristcam", model="panda_wristcam")
        given = {"agent_uids": ("panda_wristcam",), "substream": "env.standing", "episode_length": 3, **options}
        super().__init__(scene=SceneSpec(robots=(arm,)), **given)

    def _draw_start(self, rng: np.random.Generator) -> EpisodeStart:
        return EpisodeStart({"panda_wristcam": robot_model("panda_wristcam").ready_qpos})

    def _extra_sizes(self) -> dict[str, int]:
        return {}

    def _extra_observation(self) -> dict[str, Any]:
        return {}

    def evaluate(self) -> dict[str, Any]:
        return {"success": np.zeros(self.num_envs, dtype=bool)}

    def compute_normalized_dense_reward(self, evaluation: Any) -> Any:
        return np.zeros(self.num_envs)

    def _memory(self) -> dict[str, Any]:
        return {}


def test_the_base_class_knows_ego_partner_and_condition() -> None:
    env = Standing(condition_id="alone")
    assert (env.ego_uid, env.condition_id, Standing().condition_id) == ("panda_wristcam", "alone", None)
    assert not hasattr(env, "partner_uid")
    with pytest.raises(AttributeError, match="single robot"):
        _ = env.partner_uid
    env.reset(seed=0)
    assert env.save_training_state()["condition_id"] == "alone"


@pytest.mark.parametrize("uids", [(), ("stranger",), ("panda_wristcam", "panda_wristcam")])
def test_agents_that_are_no_robots_of_the_scene_are_refused(uids: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match=r"agent_uids must name robots of the scene, \['panda_wristcam'\], each once"):
        Standing(agent_uids=uids)


def test_a_task_without_one_of_its_methods_says_which() -> None:
    unfinished = type("Unfinished", (Standing,), {"_draw_start": RigTaskEnv._draw_start})
    with pytest.raises(TypeError, match="_draw_start"):
        unfinished()


def test_a_task_has_one_reference() -> None:
    with pytest.raises(ValueError, match="'cocarry' has a reference already"):
        register_reference("cocarry", reference("cocarry"))
