"""The task registry: what is registered, how it is found, and that the manifest is stable."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from pydantic import ValidationError

from chamber import tasks
from chamber.tasks import AdmissionStatus, AxisValidity, TaskSpec, registry


def spec(**changes) -> TaskSpec:
    fields = {
        "task_id": "own_task",
        "version": 1,
        "tier": 3,
        "title": "A task of somebody else",
        "env_factory": None,
        "sim_backend": "unspecified (spec-only)",
        "n_agents": 2,
        "action_space_summary": "none",
        "observation_summary": "none",
        "stress_channel": None,
        "admission_status": AdmissionStatus.CANDIDATE,
        "notes": "",
    }
    return TaskSpec.model_validate({**fields, **changes})


@pytest.fixture
def own_task():
    """A task of two versions, registered for one test."""
    for version in (1, 2):
        tasks.register_task(lambda version=version: spec(version=version))
    yield "own_task"
    del registry._tasks["own_task"]


def test_the_latest_version_is_the_default(own_task):
    assert tasks.get(own_task).slug == "own_task@v2"
    assert tasks.get(own_task, 1).slug == "own_task@v1"
    assert {"own_task@v1", "own_task@v2"} <= set(tasks.list_registered())


def test_a_version_is_registered_once(own_task):
    with pytest.raises(ValueError, match="task 'own_task@v2' is already registered"):
        tasks.register_task(lambda: spec(version=2))


def test_unknown_names_are_answered_with_the_known_ones(own_task):
    with pytest.raises(KeyError, match=r"unknown task 'carry'; known: amr_handover_dynamic, .*cocarry"):
        tasks.get("carry")
    with pytest.raises(KeyError, match="no version 7; known: 1, 2"):
        tasks.get(own_task, 7)


def test_a_task_without_environment_says_so():
    with pytest.raises(NotImplementedError, match=r"co_hold_secure@v0 \(tier 3\)"):
        tasks.make("co_hold_secure")


def test_make_passes_overrides_on_top_of_the_defaults():
    env = tasks.make("mpe_cooperative_push", root_seed=3, episode_length=7)
    assert (env.root_seed, env.episode_length) == (3, 7)
    with pytest.raises(ValueError, match="no_such_condition"):
        tasks.make("cocarry", condition_id="no_such_condition")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"axes": {"AS": "null"}}, "missing"),
        ({"axes": {**dict.fromkeys(tasks.HETEROGENEITY_AXES, "untested"), "XX": "null"}}, "XX"),
        ({"env_factory": "nodots"}, "dotted path"),
        ({"version": -1}, "version"),
        ({"tier": 4}, "tier"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_a_bad_record_is_refused(change, said):
    with pytest.raises(ValidationError, match=said):
        spec(**change)


def test_a_record_is_frozen():
    with pytest.raises(ValidationError):
        spec().title = "another"  # type: ignore[misc]


def test_the_manifest_is_ordered_and_the_same_in_every_process():
    manifest = tasks.manifest()
    order = [(row["tier"], row["task_id"], row["version"]) for row in manifest["tasks"]]
    assert order == sorted(order)
    assert manifest["suite"] == tasks.SUITE_NAME
    code = "import json; from chamber import tasks; print(json.dumps(tasks.manifest()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == manifest


def test_nothing_is_claimed_that_was_not_run_here():
    for row in tasks.manifest()["tasks"]:
        assert row["admission_status"] != "ADMITTED", row["task_id"]
        assert set(row["axes"].values()) == {AxisValidity.UNTESTED.value}, row["task_id"]
