"""Every playable task can be made by Gymnasium, alone, with options, and in its vector environments."""

from __future__ import annotations

from contextlib import closing

import gymnasium
import pytest
from gymnasium.utils.env_checker import check_env

import chamber.gym  # noqa: F401 - registers the names
from chamber import tasks

PLAYABLE = [
    f"chamber/{row['task_id']}-v{row['version']}" for row in tasks.manifest()["tasks"] if row["env_factory"] is not None
]


@pytest.mark.parametrize("name", PLAYABLE)
def test_a_task_is_made_by_its_name(name: str):
    with closing(gymnasium.make(name, disable_env_checker=True)) as env:
        assert env.spec is not None
        assert env.spec.id == name
        _, info = env.reset(seed=0)
        assert isinstance(info, dict)


def test_gymnasium_knows_all_playable_tasks_and_no_other():
    assert sorted(name for name in gymnasium.registry if name.startswith("chamber/")) == sorted(PLAYABLE)


def test_options_reach_the_task_and_pictures_are_checked_too():
    name = "chamber/cocarry-v2"
    with closing(gymnasium.make(name, condition_id="cocarry_single_arm_positive_control").unwrapped) as env:
        assert env.get_wrapper_attr("single_arm")
    with (
        closing(gymnasium.make(name, render_mode="rgb_array").unwrapped) as env,
        pytest.warns(UserWarning, match="Box observation space"),
    ):
        check_env(env)


def test_a_vector_environment_starts_copies_as_single_ones():
    with closing(gymnasium.make_vec("chamber/cocarry-v2", num_envs=2)) as env, closing(tasks.make("cocarry")) as single:
        obs, _ = env.reset(seed=5)
        for copy in range(2):
            expected = single.reset(seed=5 + copy)[0]["extra"]["goal_pos"]
            assert obs["extra"]["goal_pos"][copy].tobytes() == expected.tobytes()
