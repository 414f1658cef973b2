"""A trained policy as the ego of a cell: pinned by its hash, kept in the folder, judged like any other."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from chamber.cell.config import Cell, Condition
from chamber.cell.loading import default_cell_text, parse_cell, pin_checkpoint, trained_cell_text
from chamber.cell.runner import RunResult, run_cell
from chamber.cell_report import render_cell_page
from chamber.learning import load_policy
from ripieno._portable import to_portable
from ripieno.canonical import content_hash
from ripieno.errors import InputError
from ripieno.files import sha256_file
from ripieno.run import read_events, read_manifest
from ripieno.verify import verify


def small(cell: Cell, *, episodes: int = 3) -> Cell:
    return cell.model_copy(update={"episodes": episodes})


def trained_cell(checkpoint: Path, text: str | None = None) -> tuple[Cell, Path]:
    cell = parse_cell(text or trained_cell_text(), source="trained.yaml")
    pinned, path = pin_checkpoint(cell, source="trained.yaml", folder=Path(), checkpoint=checkpoint)
    assert path is not None
    return small(pinned), path


@pytest.fixture(scope="module")
def run(push_checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, RunResult]:
    cell, path = trained_cell(push_checkpoint)
    folder = tmp_path_factory.mktemp("trained") / "run"
    pages = {"index.html": render_cell_page}
    return folder, run_cell(cell, folder, cell_text=trained_cell_text(), checkpoint=path, pages=pages)


def test_the_checkpoint_lies_in_the_folder_and_its_hash_in_the_configuration(run, push_checkpoint: Path):
    folder, result = run
    assert verify(folder, expect=result.digest).ok
    digest = sha256_file(push_checkpoint)
    assert sha256_file(folder / "ego.pt") == digest
    assert load_policy(folder / "ego.pt", ego_uid="ego").checkpoint_sha256 == digest
    ego = read_manifest(folder)["config"]["ego"]
    assert ego == {
        "policy": "trained",
        "speed_limit_m_s": 1.0,
        "checkpoint": "ego.pt",
        "checkpoint_sha256": digest,
    }
    page = (folder / "index.html").read_text()
    assert digest in page
    assert "--checkpoint FOLDER/ego.pt" in page


def test_the_ego_does_what_its_policy_says(run, push_checkpoint: Path):
    _, result = run
    policy = load_policy(push_checkpoint, ego_uid="ego")
    trace = result.record.outcomes[0].trace
    assert trace.condition is Condition.WITHOUT_STACK
    offsets = trace.landmarks_m - trace.ego_positions_m[0]
    state = [
        *trace.ego_positions_m[0],
        0.0,
        0.0,
        *offsets.ravel(),
        *(trace.partner_positions_m - trace.ego_positions_m)[0],
    ]
    wanted = policy.act({"agent": {"ego": {"state": np.array(state, np.float32)}}})
    np.testing.assert_array_equal(trace.nominal_commands_m_s[0], np.clip(wanted.astype(np.float64), -1.0, 1.0))
    commands = {tuple(command) for outcome in result.record.outcomes for command in outcome.trace.nominal_commands_m_s}
    assert len(commands) > 100


def test_with_the_stack_an_untrained_policy_causes_no_contact_and_without_it_does(run):
    _, result = run
    faults = dict.fromkeys(Condition, 0)
    for outcome in result.record.outcomes:
        faults[outcome.trace.condition] += outcome.n_at_fault
    assert faults[Condition.WITH_STACK] == 0
    assert faults[Condition.WITHOUT_STACK] > 0


def test_the_folder_alone_gives_the_same_run_again(run, tmp_path: Path):
    folder, _ = run
    cell, path = trained_cell(folder / "ego.pt", (folder / "cell.yaml").read_text())
    run_cell(cell, tmp_path / "again", cell_text=(folder / "cell.yaml").read_text(), checkpoint=path)
    assert list(read_events(tmp_path / "again")) == list(read_events(folder))


def test_the_speed_limit_bounds_what_the_policy_wants(push_checkpoint: Path, tmp_path: Path):
    cell, path = trained_cell(
        push_checkpoint, trained_cell_text().replace("speed_limit_m_s: 1.0", "speed_limit_m_s: 0.25")
    )
    result = run_cell(small(cell, episodes=1), tmp_path / "slow", cell_text="", checkpoint=path)
    fastest = max(np.abs(outcome.trace.nominal_commands_m_s).max() for outcome in result.record.outcomes)
    assert fastest == 0.25


def test_a_cell_may_name_and_pin_its_checkpoint_itself(push_checkpoint: Path, tmp_path: Path):
    for name in ("mine.pt", "mine.pt.json"):
        shutil.copy(push_checkpoint.with_name(name.replace("mine.pt", push_checkpoint.name)), tmp_path / name)
    digest = sha256_file(push_checkpoint)
    line = f"policy: trained\n  checkpoint: mine.pt\n  checkpoint_sha256: {digest}\n"
    cell = parse_cell(trained_cell_text().replace("policy: trained ", line), source="mine.yaml")
    pinned, path = pin_checkpoint(cell, source="mine.yaml", folder=tmp_path)
    assert path == tmp_path / "mine.pt"
    assert pinned.ego.checkpoint_sha256 == digest
    with (tmp_path / "mine.pt").open("ab") as file:
        file.write(b"x")
    with pytest.raises(InputError, match=rf"mine\.yaml: ego\.checkpoint_sha256 is {digest}, but .*: another file"):
        pin_checkpoint(cell, source="mine.yaml", folder=tmp_path)


def test_other_cells_have_the_hash_they_had_before_there_were_trained_egos():
    cell = parse_cell(default_cell_text(), source="planar_push.yaml")
    digest = content_hash(to_portable(cell.model_dump(mode="json")))
    assert digest == "30f4577a0036a9fe963f5972ffdddd548cc2a975dcb7f1c2e6bc498727f33e82"
    with pytest.raises(InputError, match="no use for a checkpoint"):
        pin_checkpoint(cell, source="planar_push.yaml", folder=Path(), checkpoint=Path("a.pt"))


@pytest.mark.parametrize("spoil", ["missing", "folder", "payload", "sidecar", "widths"])
def test_a_bad_checkpoint_is_refused_in_one_line_and_nothing_is_written(
    save_policy, push_checkpoint: Path, tmp_path: Path, spoil: str
):
    shutil.copytree(push_checkpoint.parent, tmp_path / "a")
    path = tmp_path / "a" / push_checkpoint.name
    sidecar = path.with_name(f"{path.name}.json")
    if spoil == "missing":
        path.unlink()
    elif spoil == "folder":
        path = path.parent
    elif spoil == "payload":
        path.write_bytes(path.read_bytes()[:-1])
    elif spoil == "sidecar":
        sidecar.write_text(json.dumps({"run_id": "a"}))
    else:
        path = save_policy(tmp_path / "b", obs_dim=46, action_dim=8)

    def play() -> None:
        cell, checkpoint = trained_cell(path)
        run_cell(cell, tmp_path / "run", cell_text="", checkpoint=checkpoint)

    with pytest.raises(InputError) as caught:
        play()
    assert "\n" not in str(caught.value)
    if spoil == "widths":
        assert "its policy takes 46 numbers and gives 8, 'ego' observes 10 and acts with 2" in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_a_trained_ego_needs_a_checkpoint():
    cell = parse_cell(trained_cell_text(), source="trained.yaml")
    with pytest.raises(InputError, match=r"trained\.yaml: ego\.policy is 'trained': name its file"):
        pin_checkpoint(cell, source="trained.yaml", folder=Path())
