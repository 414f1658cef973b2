"""Every registered task that can be played passes every check, ours and Gymnasium's, in every condition."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest
from gymnasium.utils.env_checker import check_env

from chamber import tasks
from chamber.rollout.config import SessionConfig, make_environment, make_team
from chamber.rollout.references import reference, reference_tasks
from chamber.testing import check_task


def conditions() -> list[Any]:
    """Every task in every condition; where every step renders four pictures, it takes minutes."""
    return [
        pytest.param(name, condition, marks=[pytest.mark.slow] if name == "stage1_pickplace_om" else [])
        for name in reference_tasks()
        for condition in (*reference(name).conditions, *([None] if not reference(name).conditions else []))
    ]


def test_every_task_with_an_environment_can_be_played():
    with_environment = {row["task_id"] for row in tasks.manifest()["tasks"] if row["env_factory"] is not None}
    assert with_environment == set(reference_tasks())


@pytest.mark.parametrize(("task", "condition"), conditions())
def test_a_registered_task_passes_every_check(task: str, condition: str | None):
    config = SessionConfig.of(task, condition=condition)
    is_solvable = condition in reference(task).solvable
    check_task(
        lambda: make_environment(config), reference=(lambda env: make_team(config, env)) if is_solvable else None
    )


# What it only recommends: observations with bounds, symmetric actions, and arrays where the presenter's turn has None.
@pytest.mark.filterwarnings("ignore:.*(Box (observation|action) space|expecting a numpy array)")
@pytest.mark.parametrize(("task", "condition"), conditions())
def test_a_registered_task_passes_the_checker_of_gymnasium(task: str, condition: str | None):
    with closing(make_environment(SessionConfig.of(task, condition=condition)).unwrapped) as env:
        check_env(env, skip_render_check=True)
