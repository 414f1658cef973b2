"""Files are written once and whole, and what is read is a plain file or nothing."""

import errno
import hashlib
import os
import socket
import stat
from pathlib import Path

import pytest
from _runs import record_fsync

from ripieno.errors import InputError, IntegrityError
from ripieno.files import (
    FileRecord,
    create_only,
    inventory,
    list_tree,
    open_regular,
    require_private_root,
    sha256_file,
    write_atomic,
)


def test_a_created_file_is_private_and_holds_the_bytes(tmp_path: Path) -> None:
    create_only(tmp_path / "a", b"hello")
    assert (tmp_path / "a").read_bytes() == b"hello"
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o600


def test_an_existing_file_is_never_touched(tmp_path: Path) -> None:
    create_only(tmp_path / "a", b"first")
    with pytest.raises(FileExistsError):
        create_only(tmp_path / "a", b"second")
    assert (tmp_path / "a").read_bytes() == b"first"


def test_a_dangling_link_counts_as_existing(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FileExistsError):
        create_only(tmp_path / "a", b"x")
    assert not (tmp_path / "elsewhere").exists()


def test_a_file_that_cannot_be_made_durable_is_removed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken_disk(descriptor: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    write_atomic(tmp_path / "a", b"old")
    monkeypatch.setattr(os, "fsync", broken_disk)
    for write in (lambda: create_only(tmp_path / "b", b"x"), lambda: write_atomic(tmp_path / "a", b"new")):
        with pytest.raises(OSError, match="Input/output error"):
            write()
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("a", b"old")]


def test_a_replaced_file_has_the_new_bytes_and_leaves_nothing_beside(tmp_path: Path) -> None:
    write_atomic(tmp_path / "a", b"old")
    write_atomic(tmp_path / "a", b"new")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert (tmp_path / "a").read_bytes() == b"new"


def test_a_file_is_durable_before_its_name_and_the_name_before_the_call_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = record_fsync(monkeypatch, lambda path: (path, sorted(file.read_bytes() for file in tmp_path.iterdir())))
    create_only(tmp_path / "a", b"old")
    assert synced == [(tmp_path / "a", [b"old"]), (tmp_path, [b"old"])]
    synced.clear()
    write_atomic(tmp_path / "a", b"new", temporary_name="b")
    assert synced == [(tmp_path / "b", [b"new", b"old"]), (tmp_path, [b"new", b"old"]), (tmp_path, [b"new"])]


def test_a_refused_replacement_leaves_the_old_file_and_nothing_beside(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    with pytest.raises(OSError, match="directory"):
        write_atomic(tmp_path / "a", b"new")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_replacement_does_not_write_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "target").write_bytes(b"mine")
    (tmp_path / "a").symlink_to(tmp_path / "target")
    write_atomic(tmp_path / "a", b"new")
    assert (tmp_path / "target").read_bytes() == b"mine"
    assert not (tmp_path / "a").is_symlink()


def test_hash_of_a_file_larger_than_a_chunk(tmp_path: Path) -> None:
    data = os.urandom(3 * 2**20 + 17)
    (tmp_path / "a").write_bytes(data)
    assert sha256_file(tmp_path / "a") == hashlib.sha256(data).hexdigest()


@pytest.mark.parametrize("kind", ["link", "folder", "pipe", "socket", "device"])
def test_only_plain_files_are_opened(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # the path of a socket must be short
    path = Path("a")
    if kind == "link":
        Path("target").write_bytes(b"x")
        path.symlink_to("target")
    elif kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as server:
            server.bind("a")
    else:
        path = Path("/dev/null")
    with pytest.raises(IntegrityError, match="not a regular file"), open_regular(path):
        pass


def test_inventory_lists_every_file_with_size_and_hash(tmp_path: Path) -> None:
    (tmp_path / "b" / "c").mkdir(parents=True)
    (tmp_path / "b" / "c" / "x").write_bytes(b"1")
    (tmp_path / "a").write_bytes(b"")
    (tmp_path / "empty").mkdir()
    empty, one = hashlib.sha256(b"").hexdigest(), hashlib.sha256(b"1").hexdigest()
    assert inventory(tmp_path) == (FileRecord("a", 0, empty), FileRecord("b/c/x", 1, one))


def test_inventory_refuses_links(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    with pytest.raises(IntegrityError, match="link"):
        inventory(tmp_path)


def test_inventory_takes_names_of_any_bytes_and_files_longer_than_a_chunk_as_they_are(tmp_path: Path) -> None:
    long, name = os.urandom(2**20 + 5), os.fsdecode(b"not-utf-8-\xff")
    (tmp_path / "deep" / Path(*"abcdefgh") / name).mkdir(parents=True)
    (tmp_path / "deep" / Path(*"abcdefgh") / name / name).write_bytes(long)
    record = FileRecord(f"deep/a/b/c/d/e/f/g/h/{name}/{name}", len(long), hashlib.sha256(long).hexdigest())
    assert inventory(tmp_path) == (record,)


def test_paths_are_sorted_as_text_and_not_folder_by_folder(tmp_path: Path) -> None:
    for name in ("b/x", "b.txt", "a/z", "b-/y"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert [record.path for record in inventory(tmp_path)] == ["a/z", "b-/y", "b.txt", "b/x"]
    assert [name for name, _ in list_tree(tmp_path)] == ["a", "b", "b-", "b.txt", "a/z", "b/x", "b-/y"]


@pytest.mark.parametrize("kind", ["link", "folder", "pipe"])
def test_inventory_refuses_what_a_file_becomes_between_look_and_opening(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "target").write_bytes(b"x")
    (tmp_path / "root").mkdir()
    path = tmp_path / "root" / "a"
    path.touch()
    make = {"link": lambda: path.symlink_to("../target"), "folder": path.mkdir, "pipe": lambda: os.mkfifo(path)}
    open_file = os.open

    def exchange_and_open(name: str, flags: int) -> int:
        path.unlink()
        make[kind]()
        monkeypatch.setattr(os, "open", open_file)
        return open_file(name, flags)

    monkeypatch.setattr(os, "open", exchange_and_open)
    with pytest.raises(IntegrityError, match="a is not a regular file"):
        inventory(tmp_path / "root")


def test_inventory_says_which_file_vanished_between_look_and_opening(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").touch()
    open_file = os.open

    def remove_and_open(name: str, flags: int) -> int:
        (tmp_path / "a").unlink(missing_ok=True)
        return open_file(name, flags)

    monkeypatch.setattr(os, "open", remove_and_open)
    with pytest.raises(FileNotFoundError) as caught:
        inventory(tmp_path)
    assert caught.value.filename == str(tmp_path / "a")


def test_a_file_that_says_it_is_empty_is_hashed_to_its_end() -> None:
    assert sha256_file("/proc/version") == hashlib.sha256(Path("/proc/version").read_bytes()).hexdigest()


def test_a_path_of_the_working_directory_is_named_as_it_was_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a").symlink_to("b")
    assert [name for name, _ in list_tree(Path())] == ["a"]
    with pytest.raises(IntegrityError, match=r"^a is a link or a special file"):
        inventory(".")


def test_inventory_of_nothing_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="existing directory"):
        inventory(tmp_path / "absent")


def test_a_tree_is_listed_without_following_links(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "loop").symlink_to(tmp_path)
    assert [name for name, _ in list_tree(tmp_path)] == ["a", "a/b", "a/loop"]


def private(path: Path) -> Path:
    path.mkdir()
    path.chmod(0o700)
    return path


def test_a_private_folder_is_accepted(tmp_path: Path) -> None:
    root = private(tmp_path / "root")
    assert require_private_root(root) == root


@pytest.mark.parametrize("mode", [0o701, 0o710, 0o704, 0o777])
def test_a_folder_open_to_others_is_refused(mode: int, tmp_path: Path) -> None:
    root = private(tmp_path / "root")
    root.chmod(mode)
    with pytest.raises(InputError, match=f"its mode is {mode:o}"):
        require_private_root(root)


def test_links_relative_paths_and_files_are_refused_as_private_root(tmp_path: Path) -> None:
    root = private(tmp_path / "root")
    (tmp_path / "link").symlink_to(root)
    private(root / "inner")
    (tmp_path / "file").write_bytes(b"")
    for path, reason in [
        (tmp_path / "link", "without links"),
        (tmp_path / "link" / "inner", "without links"),
        (tmp_path / "file", "without links"),
        (tmp_path / "absent", "No such file"),
        (tmp_path / "root" / ".." / "root", "absolute path without"),
        (Path("root"), "absolute path"),
    ]:
        with pytest.raises(InputError, match=reason):
            require_private_root(path)


def test_a_folder_of_somebody_else_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    root = private(tmp_path / "root")
    monkeypatch.setattr(os, "getuid", lambda: root.stat().st_uid + 1)
    with pytest.raises(InputError, match="must belong to you"):
        require_private_root(root)
