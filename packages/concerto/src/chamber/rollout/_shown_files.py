"""Which files of a session's folder show results, and what may have made them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from chamber.rollout._album import Album
from chamber.rollout._page_check import FileReplay, compare_episode_table, compare_page
from chamber.rollout.arm_rounds import demo_page, demo_rounds
from chamber.rollout.page import render_session_page
from chamber.rollout.session import Page, SessionRecord, trajectory_name
from ripieno import run as run_folders

__all__ = ["FileReplay", "compare_shown_files"]

_PACKAGES_OF_PAGES = ("jinja2", "markupsafe", "ripieno", "ripieno-concerto")


def compare_shown_files(
    folder: Path,
    record: SessionRecord,
    album: Album,
    *,
    page: Page | None,
    versions: Mapping[str, Any],
    same_machine: bool,
    is_true: bool,
) -> list[FileReplay]:
    """Compare all files but the log, trajectories and checkpoints, by name.

    Args:
        folder: of the session.
        record: what its log says.
        album: pictures that were taken again.
        page: what made the page; None for what this package makes.
        versions: of the packages that made the folder.
        same_machine: see `Replay`.
        is_true: whether the log holds; there is nothing to compare with otherwise.
    """
    pages = _pages(record) if page is None else [page]
    files: list[FileReplay] = []
    for name in _other_files(folder, record):
        if name not in {"episodes.json", "index.html"}:
            files.append(FileReplay(name, None, "was not compared: no replay makes it"))
        elif not is_true:
            files.append(FileReplay(name, None, "was not compared: the log itself does not hold"))
        elif name == "episodes.json":
            files.append(compare_episode_table((folder / name).read_bytes(), record))
        elif not album.is_comparable:
            files.append(FileReplay(name, None, f"was not compared: {album.problem}"))
        else:
            compared = compare_page(
                (folder / name).read_bytes(),
                record,
                album.snapshots,
                pages,
                why_no_pictures=album.problem,
                same_machine=same_machine,
            )
            files.append(_undecided_if_of_other_version(compared, versions))
    return files


def _pages(record: SessionRecord) -> Sequence[Page]:
    """What may have made the page of a session."""
    is_demo = [played.name for played in record.rounds] == list(demo_rounds(1))
    return [render_session_page, demo_page] if is_demo else [render_session_page]


def _other_files(folder: Path, record: SessionRecord) -> list[str]:
    used = {"run.json", "events.jsonl"}
    for played in record.rounds:
        used |= {trajectory_name(played.name, index) for index in range(len(played.episodes))}
        if played.config.ego is not None:
            used |= {played.config.ego.file_name, f"{played.config.ego.file_name}.json"}
    names = (path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    return sorted(name for name in names if name not in used)


def _undecided_if_of_other_version(file: FileReplay, versions: Mapping[str, Any]) -> FileReplay:
    """Leave it open whether a page of another version is right: there it may look different."""
    here = run_folders.environment()["versions"]
    other = [name for name in _PACKAGES_OF_PAGES if here.get(name) != versions.get(name)]
    if file.holds is not False or not other:
        return file
    words = f"{file.words}; it was made with {other[0]} {versions.get(other[0])}, where pages may look different"
    return FileReplay(file.name, None, words)
