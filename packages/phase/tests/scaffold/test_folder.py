"""Pack folders appear whole or not at all, and nothing is overwritten."""

import os

import pytest

from scpn_phase_orchestrator.exceptions import BindingError
from scpn_phase_orchestrator.scaffold.folder import create_folder
from scpn_phase_orchestrator.scaffold.minimal import fill_folder, minimal_pack

FILES = {"one.txt": "eins\n", "two.txt": "zwei\n"}


def tree(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_files_are_written_with_their_parents(tmp_path):
    paths = create_folder(tmp_path / "deep" / "pack", FILES)
    assert [path.read_text() for path in paths] == ["eins\n", "zwei\n"]
    assert tree(tmp_path) == ["deep", "deep/pack", "deep/pack/one.txt", "deep/pack/two.txt"]


@pytest.mark.parametrize("kind", ["folder", "empty folder", "file", "link"])
def test_what_exists_stays_as_it_is(kind, tmp_path):
    target = tmp_path / "pack"
    if kind == "file":
        target.write_text("mine")
    elif kind == "link":
        target.symlink_to(tmp_path / "nowhere")
    else:
        target.mkdir()
    if kind == "folder":
        (target / "mine.txt").write_text("mine")
    before = tree(tmp_path)
    with pytest.raises(BindingError, match="exists already; nothing is overwritten"):
        create_folder(target, FILES)
    assert tree(tmp_path) == before


def test_a_failure_half_way_leaves_nothing(tmp_path):
    with pytest.raises(BindingError, match="cannot create"):
        create_folder(tmp_path / "pack", {"one.txt": "eins\n", "no/such/folder.txt": "zwei\n"})
    assert tree(tmp_path) == []


def test_somebody_who_was_faster_keeps_the_name(tmp_path, monkeypatch):
    """Between the look and the move another process makes the folder."""
    target = tmp_path / "pack"
    real_mkdir = os.mkdir

    def mkdir(path, *arguments, **options):
        real_mkdir(path, *arguments, **options)
        if str(path).endswith(".tmp"):
            real_mkdir(target)
            (target / "theirs.txt").write_text("theirs")

    monkeypatch.setattr(os, "mkdir", mkdir)
    with pytest.raises(BindingError, match="cannot create"):
        create_folder(target, FILES)
    assert tree(tmp_path) == ["pack", "pack/theirs.txt"]


def test_a_folder_that_exists_gets_only_what_it_lacks(tmp_path):
    folder = tmp_path / "pack"
    folder.mkdir()
    (folder / "README.md").write_text("mine")
    filled = fill_folder(folder, minimal_pack("pack"))
    assert filled == (("binding_spec.yaml",), ("README.md",))
    assert (folder / "README.md").read_text() == "mine"
    assert fill_folder(folder, minimal_pack("pack")).written == ()


def test_a_file_in_the_place_of_the_folder_is_refused(tmp_path):
    (tmp_path / "pack").write_text("mine")
    with pytest.raises(BindingError, match="exists already"):
        fill_folder(tmp_path / "pack", minimal_pack("pack"))
    assert (tmp_path / "pack").read_text() == "mine"
