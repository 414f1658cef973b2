"""A command writes nothing into a run that is there, nor into what belongs to somebody else, and says which it is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from agentinputlab.cli._app import agentinputlab
from ripieno.verify import VerifyStatus, verify

TREATMENT = "plan.plan_and_solve.ps_prompt"
PLAN = "arena: fixture\nsplit: train\ntasks: 1\ndurable: false\ntreatments: [plan.plan_and_solve.ps_prompt]\n"
WRITERS = {
    "campaign smoke": ["campaign", "smoke", "--out"],
    "campaign run": ["campaign", "run", "PLAN", "--execute", "--out"],
    "campaign run-all": ["campaign", "run-all", "PLAN", "--execute", "--out"],
    "campaign run-production": ["campaign", "run-production", "REPORT", "--execute", "--out"],
    "campaign bootstrap": ["campaign", "bootstrap", "PLAN", "--out"],
    "campaign prepare": ["campaign", "prepare"],
    "retail run": ["retail", "run", "--arena", "fixture", "--tasks", "1", "--treatment", TREATMENT, "--out"],
    "compose": ["compose", TREATMENT, "--query", "hello", "--out"],
    "datasets prepare-trec-sample": ["datasets", "prepare-trec-sample", "--cache-dir"],
    "datasets prepare": [
        *("datasets", "prepare", "beir.fiqa_2018", "--url", "http://127.0.0.1:9/data.zip", "--sha256", "0" * 64),
        *("--accept-license-review", "--cache-dir"),
    ],
}


def invoke(*words: object) -> Result:
    return CliRunner().invoke(agentinputlab, [str(word) for word in words], prog_name="agentinputlab")


def state_of(root: Path) -> dict[str, tuple[int, bytes]]:
    return {
        str(path.relative_to(root)): (path.lstat().st_mtime_ns, path.read_bytes() if path.is_file() else b"")
        for path in sorted(root.rglob("*"))
    }


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What may already be where somebody wants to write."""
    root = tmp_path_factory.mktemp("places")
    (root / "plan.yaml").write_text(PLAN)
    (root / "report.yaml").write_text(
        "arena: fixture\nsplit: test\ntreatments: [plan.plan_and_solve.ps_prompt]\n",
    )
    done = invoke("campaign", "run", root / "plan.yaml", "--out", root / "sealed", "--execute")
    assert done.exit_code == 0, done.output
    (root / "file").write_text("mine")
    (root / "foreign").mkdir()
    (root / "foreign" / "notes.txt").write_text("mine")
    (root / "dangling").symlink_to("nowhere")
    return root


def words_of(command: str, place: Path) -> list[str]:
    known = {"PLAN": str(place / "plan.yaml"), "REPORT": str(place / "report.yaml")}
    return [known.get(word, word) for word in WRITERS[command]]


NESTED = ("sealed/new", "sealed/capture/new", "sealed/pairs/scripted/new", "sealed/new/deeper")


@pytest.mark.parametrize("where", [*NESTED, "dangling/new", "file/new"])
@pytest.mark.parametrize("command", WRITERS)
def test_nothing_is_written_into_a_run_through_a_link_to_nowhere_or_below_a_file(
    command: str, where: str, place: Path
) -> None:
    before = state_of(place)
    done = invoke(*words_of(command, place), place / where)
    assert done.exit_code == 2, done.output
    problem = done.stderr.splitlines()[-1]
    assert problem.startswith("agentinputlab: ")
    assert str(place / where.split("/", maxsplit=1)[0]) in problem
    assert "Errno" not in problem
    assert state_of(place) == before
    assert verify(place / "sealed").status is VerifyStatus.COMPLETE


@pytest.mark.parametrize("where", ["file", "foreign", "dangling"])
@pytest.mark.parametrize("command", [name for name in WRITERS if not name.startswith("datasets")])
def test_what_is_somebody_else_s_is_left_alone_and_named(command: str, where: str, place: Path) -> None:
    before = state_of(place)
    done = invoke(*words_of(command, place), place / where)
    assert done.exit_code == 2, done.output
    assert f"{place / where}" in done.stderr.splitlines()[-1]
    assert "name another" in done.stderr or "exists" in done.stderr or "name a folder" in done.stderr
    assert state_of(place) == before


@pytest.mark.parametrize("command", ["campaign smoke", "campaign run-production", "retail run", "campaign bootstrap"])
def test_a_sealed_campaign_of_another_plan_is_left_alone(command: str, place: Path) -> None:
    before = state_of(place)
    done = invoke(*words_of(command, place), place / "sealed")
    assert done.exit_code == 2
    assert f"{place / 'sealed'}" in done.stderr.splitlines()[-1]
    assert state_of(place) == before


@pytest.mark.parametrize("where", ["file", "dangling", "sealed"])
@pytest.mark.parametrize("command", ["datasets prepare-trec-sample", "datasets prepare"])
def test_data_are_not_put_into_a_run_or_a_file(command: str, where: str, place: Path) -> None:
    before = state_of(place)
    done = invoke(*words_of(command, place), place / where)
    assert done.exit_code == 2
    assert str(place / where) in done.stderr
    assert state_of(place) == before


def test_a_folder_that_cannot_be_written_to_is_named(place: Path, tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    read_only = next(
        (path for path in (closed, Path("/sys/kernel"), Path("/proc")) if not os.access(path, os.W_OK)), None
    )
    if read_only is None:
        pytest.skip("this user may write everywhere")
    for command in WRITERS:
        done = invoke(*words_of(command, place), read_only / "new")
        assert done.exit_code == 2
        assert f"{read_only} cannot be written to" in done.stderr, command


def test_a_plan_that_cannot_be_drafted_leaves_no_folder(tmp_path: Path) -> None:
    (tmp_path / "plan.yaml").write_text(PLAN.replace("fixture", "embedded").replace("tasks: 1", "tasks: 1000"))
    done = invoke("campaign", "bootstrap", tmp_path / "plan.yaml", "--out", tmp_path / "drafts")
    assert done.exit_code == 2
    assert not (tmp_path / "drafts").exists()


def test_the_same_command_still_goes_on_in_its_own_folder_and_beside_a_run(place: Path) -> None:
    assert invoke(*words_of("campaign run", place), place / "sealed").exit_code == 0
    assert invoke(*words_of("campaign run", place), place / "beside").exit_code == 0
    assert invoke(*words_of("campaign bootstrap", place), place / "new" / "drafts").exit_code == 0
