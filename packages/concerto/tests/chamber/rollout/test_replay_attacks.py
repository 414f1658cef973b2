"""What a liar writes with the real writer verifies; the replay is what sees through it. One test per attack."""

from __future__ import annotations

import base64
import io
import json
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

from chamber.cli._replay import replay_command
from chamber.rollout._page_check import compare_page
from chamber.rollout.config import SessionConfig
from chamber.rollout.episode import MAX_BYTES, Trajectory
from chamber.rollout.page import render_session_page
from chamber.rollout.replay import replay_session
from chamber.rollout.session import read_session, run_session
from chamber.rollout.snapshots import SessionPictures
from ripieno.errors import InputError, IntegrityError
from ripieno.run import RunWriter, environment, read_events, read_manifest
from ripieno.verify import verify

Fields = dict[str, Any]


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("session") / "run"
    run_session({"push": SessionConfig.of("mpe_cooperative_push", episodes=2)}, folder)
    return folder


def forge(
    honest: Path,
    folder: Path,
    *,
    episode: Callable[[Fields], Fields | None] = lambda fields: fields,
    config: Callable[[Fields], Fields] = lambda settings: settings,
    data: Callable[[bytes], bytes | None] = lambda data: data,
    team: Fields | None = None,
    summary: Fields | None = None,
    seeds: Fields | None = None,
    is_finished: bool = True,
    files: Mapping[str, bytes] = MappingProxyType({}),
) -> Path:
    """Write the session again with the real writer, with one thing changed, so that the folder verifies."""
    manifest = read_manifest(honest)
    settings = {"rounds": [config(dict(round_)) for round_ in manifest["config"]["rounds"]]}
    run = RunWriter(folder, system="chamber", kind="session", config=settings, seeds=seeds or manifest["seeds"])
    for event in read_events(honest):
        fields = json.loads(json.dumps(dict(event.fields)))
        if event.kind == "team":
            run.event("team", **({**fields, "team": team} if team else fields))
            continue
        name = f"trajectories/push/{fields['episode_idx']:04d}.npz"
        content, changed = data((honest / name).read_bytes()), episode(fields)
        if content is not None:
            run.artifact(name, content)
        if changed is not None:
            run.event("episode", **changed)
    for name, content in files.items():
        run.artifact(name, content)
    if is_finished:
        run.finish(summary=manifest["summary"] if summary is None else summary)
    assert verify(folder).ok, "no verification of bytes can see it"
    return folder


def test_written_again_without_a_lie_it_holds(honest: Path, tmp_path: Path):
    assert replay_session(forge(honest, tmp_path / "same")).holds


@pytest.mark.parametrize(
    ("lie", "where"),
    [
        ({"success": True}, "outcome/success"),
        ({"n_steps": 3}, "outcome/n_steps"),
        ({"total_reward": 0.0}, "outcome/mean_reward"),
        ({"total_reward": "none"}, "outcome/mean_reward"),
        ({"truncated": False}, "outcome/truncated"),
        ({"metrics": {"peak_force_n": 0.0}}, "outcome/metrics/peak_force_n"),
    ],
)
def test_a_changed_outcome_is_seen(honest: Path, tmp_path: Path, lie: Fields, where: str):
    summary = {"push": {"episodes": 2, "successes": 2 * lie.get("success", False)}}
    folder = forge(honest, tmp_path / "lie", episode=lambda fields: {**fields, **lie}, summary=summary)
    replay = replay_session(folder)
    assert not replay.holds
    assert not any(row.is_identical for row in replay.episodes)
    assert replay.episodes[0].where == where


@pytest.mark.parametrize(
    ("lie", "said"),
    [
        ({"initial_state_seed": 7}, "initial_state_seed of push, episode 1 is 7, not 0"),
        ({"initial_state_seed": "abc"}, "is 'abc', not 0"),
        ({"episode_idx": 1}, "episode_idx of push, episode 1 is 1, not 0"),
        ({"episode_idx": -3}, "is -3, not 0"),
        ({"round": "../../elsewhere"}, "a line of no round: '../../elsewhere'"),
        ({"trajectory_sha256": "0" * 64}, "is not the trajectory that the log names"),
    ],
)
def test_an_episode_that_the_configuration_does_not_give_is_refused(
    honest: Path, tmp_path: Path, lie: Fields, said: str
):
    folder = forge(honest, tmp_path / "lie", episode=lambda fields: {**fields, **lie})
    with pytest.raises(IntegrityError, match=said):
        replay_session(folder)


@pytest.mark.parametrize("name", ["episode_idx", "initial_state_seed", "trajectory_sha256"])
def test_an_episode_that_keeps_something_back_is_refused(honest: Path, tmp_path: Path, name: str):
    def without(fields: Fields) -> Fields:
        return {key: value for key, value in fields.items() if key != name}

    with pytest.raises(IntegrityError):
        replay_session(forge(honest, tmp_path / "lie", episode=without))


def test_a_finished_session_with_an_episode_left_out_is_refused(honest: Path, tmp_path: Path):
    folder = forge(honest, tmp_path / "lie", episode=lambda fields: None if fields["episode_idx"] == 1 else fields)
    with pytest.raises(IntegrityError, match="push has 1 episodes, its configuration 2"):
        replay_session(folder)


def test_a_finished_session_without_episodes_is_refused(honest: Path, tmp_path: Path):
    with pytest.raises(IntegrityError, match="push has 0 episodes"):
        replay_session(forge(honest, tmp_path / "lie", episode=lambda _: None))


def test_an_interrupted_session_holds_with_the_episodes_it_has(honest: Path, tmp_path: Path):
    first = forge(
        honest, tmp_path / "cut", episode=lambda fields: fields if fields["episode_idx"] == 0 else None,
        data=lambda data: data, is_finished=False,
    )  # fmt: skip
    replay = replay_session(first)
    assert replay.holds
    assert (len(replay.episodes), replay.n_planned) == (1, 2)
    with pytest.raises(InputError, match="no episode to play again"):
        replay_session(forge(honest, tmp_path / "empty", episode=lambda _: None, is_finished=False))


def test_another_team_than_the_configuration_gives_is_refused(honest: Path, tmp_path: Path):
    with pytest.raises(IntegrityError, match="names another team"):
        replay_session(forge(honest, tmp_path / "lie", team={"ego": {"name": "brilliant", "parameters": {}}}))


def test_another_team_is_refused_also_where_another_machine_is_claimed(
    honest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    there = environment()
    versions = {**there["versions"], "numpy": "1.0"}
    monkeypatch.setattr("ripieno.run.environment", lambda: {**there, "versions": versions})
    held = forge(honest, tmp_path / "held")
    lie = forge(honest, tmp_path / "lie", team={"ego": {"name": "brilliant", "parameters": {}}})
    monkeypatch.undo()
    assert not replay_session(held).same_machine
    with pytest.raises(IntegrityError, match="names another team"):
        replay_session(lie)


def test_other_seeds_than_the_configuration_has_are_refused(honest: Path, tmp_path: Path):
    with pytest.raises(IntegrityError, match=r"the seeds in run\.json are not those of the configuration"):
        replay_session(forge(honest, tmp_path / "lie", seeds={"seed of push": 99}))


def test_a_summary_that_does_not_fit_the_log_is_refused(honest: Path, tmp_path: Path):
    with pytest.raises(IntegrityError, match="summary"):
        replay_session(forge(honest, tmp_path / "lie", summary={"push": {"episodes": 2, "successes": 2}}))


def test_a_round_named_like_a_way_out_of_the_folder_is_refused(honest: Path, tmp_path: Path):
    name = "../../elsewhere"
    folder = forge(
        honest, tmp_path / "lie", summary={name: {"episodes": 2, "successes": 0}},
        episode=lambda fields: {**fields, "round": name}, config=lambda settings: {**settings, "name": name},
    )  # fmt: skip
    with pytest.raises((InputError, IntegrityError)):
        replay_session(folder)


@pytest.mark.parametrize("change", [{"version": 77}, {"task_id": "nothing"}])
def test_a_task_that_is_not_here_is_named(honest: Path, tmp_path: Path, change: Fields):
    folder = forge(honest, tmp_path / "lie", config=lambda settings: {**settings, **change})
    with pytest.raises(InputError, match=r"cannot be played again here: .*known: "):
        replay_session(folder)


def _zip(header: bytes, *, n_bytes: int) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("reward.npy", "w") as member:
        member.write(header)
        for _ in range(n_bytes >> 20):
            member.write(bytes(1 << 20))
    return buffer.getvalue()


def _header(shape: int) -> bytes:
    text = f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({shape},), }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()


def _npz(**arrays: Any) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def _with_flags(data: bytes, offset_local: int, offset_central: int, value: int) -> bytes:
    changed = bytearray(data)
    for magic, offset in ((b"PK\x03\x04", offset_local), (b"PK\x01\x02", offset_central)):
        at = data.find(magic)
        while at >= 0:
            changed[at + offset] = value
            at = data.find(magic, at + 1)
    return bytes(changed)


ONE = Trajectory({"reward": np.arange(500.0)}).to_bytes()


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(lambda: _zip(_header(MAX_BYTES // 8), n_bytes=MAX_BYTES), id="bomb"),
        pytest.param(lambda: _zip(_header(10**12), n_bytes=0), id="header of a giant"),
        pytest.param(lambda: _npz(reward=np.array([{"a": 1}], dtype=object)), id="pickle"),
        pytest.param(lambda: _npz(reward=np.array(["a"])), id="text"),
        pytest.param(lambda: _with_flags(ONE, 6, 8, 1), id="encrypted"),
        pytest.param(lambda: _with_flags(ONE, 8, 10, 99), id="unknown compression"),
        pytest.param(lambda: ONE[:200] + b"\xff" * 20 + ONE[220:], id="flipped bits"),
        pytest.param(lambda: ONE[:-30], id="cut"),
        pytest.param(lambda: b"", id="empty"),
        pytest.param(lambda: None, id="missing"),
    ],
)
def test_a_file_that_is_no_trajectory_is_named(honest: Path, tmp_path: Path, data: Callable[[], bytes | None]):
    content = data()
    folder = forge(honest, tmp_path / "lie", data=lambda _: content)
    with pytest.raises(IntegrityError, match=r"trajectories/push/0000\.npz"):
        replay_session(folder)


# --- what a folder shows besides its log ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A session with a page that has pictures."""
    folder = tmp_path_factory.mktemp("shown") / "run"
    pictures = SessionPictures(take=lambda env: env.unwrapped.picture())
    rounds = {"push": SessionConfig.of("mpe_cooperative_push", episodes=2)}
    run_session(rounds, folder, page=render_session_page, pictures=pictures)
    return folder


def files_of(folder: Path, **changed: bytes) -> dict[str, bytes]:
    names = {"episodes": "episodes.json", "index": "index.html"}
    return {name: changed.get(key, (folder / name).read_bytes()) for key, name in names.items()}


def verdicts(folder: Path) -> dict[str, tuple[bool | None, str]]:
    return {file.name: (file.holds, file.words) for file in replay_session(folder).files}


def test_a_page_and_a_table_that_say_what_the_log_says_hold(shown: Path, tmp_path: Path):
    same = forge(shown, tmp_path / "same", files=files_of(shown))
    assert replay_session(same).holds
    assert verdicts(same) == {
        "episodes.json": (True, "says what the log says"),
        "index.html": (True, "says what the log says; its 1 strip of pictures came out again, to the bit"),
    }


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"mean reward is", b"least reward is"),
        (b"<td>", b"<td><b>1</b>"),
        (b"</body>", b"<script>alert(1)</script></body>"),
        (b"push_cooperative", b"my_own_partner"),
        (b"Control step 25", b"Control step 24"),
    ],
)
def test_a_page_whose_words_were_changed_and_sealed_is_found(shown: Path, tmp_path: Path, old: bytes, new: bytes):
    page = (shown / "index.html").read_bytes()
    assert old in page
    folder = forge(shown, tmp_path / "lie", files=files_of(shown, index=page.replace(old, new, 1)))
    replay = replay_session(folder)
    assert all(row.is_identical for row in replay.episodes)
    assert not replay.holds
    holds, words = verdicts(folder)["index.html"]
    assert holds is False
    assert "is not the page that the log gives: line " in words


def _repainted(page: bytes, change: Callable[[Any], Any]) -> bytes:
    """Exchange the picture of a page for a changed one."""
    return _saved_again(page, lambda picture: _png(change(picture)))


def _saved_again(page: bytes, save: Callable[[Any], bytes]) -> bytes:
    """Exchange the picture of a page for what is made of it."""
    start = page.index(b"base64,") + len(b"base64,")
    end = page.index(b'"', start)
    content = save(Image.open(io.BytesIO(base64.b64decode(page[start:end]))))
    return page[:start] + base64.b64encode(content) + page[end:]


def _png(picture: Any, **settings: Any) -> bytes:
    buffer = io.BytesIO()
    picture.save(buffer, format="PNG", **settings)
    return buffer.getvalue()


def _red(picture: Any) -> Any:
    return Image.new("RGB", picture.size, (255, 0, 0))


def _chunk(name: bytes, content: bytes) -> bytes:
    return len(content).to_bytes(4) + name + content + zlib.crc32(name + content).to_bytes(4)


def _with_chunk(picture: Any, name: bytes, content: bytes, *, before: bytes) -> bytes:
    """Add a part before the first of a kind."""
    data = _png(picture)
    at = data.index(before) - 4
    return data[:at] + _chunk(name, content) + data[at:]


def _with_a_spot(picture: Any) -> Any:
    """Paint over a square of the size of a robot, in another brightness than there is."""
    picture = picture.convert("RGB")
    is_bright = sum(picture.getpixel((110, 110))) > 384
    picture.paste((0, 0, 0) if is_bright else (255, 255, 255), (100, 100, 120, 120))
    return picture


def _empty(picture: Any) -> Any:
    return Image.new("RGB", picture.size)


def _of_another_size(picture: Any) -> Any:
    return picture.resize((picture.width // 2, picture.height // 2))


def _invisible(picture: Any) -> Any:
    """Keep every colour, and let nothing of it be seen."""
    picture = picture.convert("RGBA")
    picture.putalpha(0)
    return picture


@pytest.mark.parametrize("change", [_with_a_spot, _empty, _of_another_size, _invisible])
def test_a_picture_that_the_episode_does_not_give_is_found(shown: Path, tmp_path: Path, change: Callable[[Any], Any]):
    page = _repainted((shown / "index.html").read_bytes(), change)
    folder = forge(shown, tmp_path / "lie", files=files_of(shown, index=page))
    assert not replay_session(folder).holds
    holds, words = verdicts(folder)["index.html"]
    assert (holds, words.partition(":")[0]) == (False, "has a picture that the episode does not give")


HIDES = {
    "animation": lambda picture: _png(picture, save_all=True, default_image=True, append_images=[_red(picture)]),
    "one colour transparent": lambda picture: _png(picture, transparency=(255, 255, 255)),
    "profile": lambda picture: _png(picture, icc_profile=b"any"),
    "gamma": lambda picture: _with_chunk(picture, b"gAMA", (9_000_000).to_bytes(4), before=b"IDAT"),
    "coding of colours": lambda picture: _with_chunk(picture, b"cICP", bytes([9, 16, 0, 1]), before=b"IDAT"),
    "turned, said at the end": lambda picture: _with_chunk(
        picture, b"eXIf", b"II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x03\0\0\0\0\0\0\0", before=b"IEND"
    ),
    "no end": lambda picture: _png(picture)[:-12],
}
"""Ways to keep every pixel and to make a browser show something else."""


@pytest.mark.parametrize("way", HIDES)
def test_a_picture_with_the_right_pixels_that_is_shown_otherwise_is_found(shown: Path, tmp_path: Path, way: str):
    page = (shown / "index.html").read_bytes()
    plain = forge(shown, tmp_path / "plain", files=files_of(shown, index=_saved_again(page, _png)))
    assert replay_session(plain).holds, "saved again without a trick it is the same picture"
    folder = forge(shown, tmp_path / "lie", files=files_of(shown, index=_saved_again(page, HIDES[way])))
    assert not replay_session(folder).holds
    assert verdicts(folder)["index.html"][1].startswith("has a picture that the episode does not give")


def test_a_picture_that_differs_like_two_graphics_drivers_holds(shown: Path, tmp_path: Path):
    page = _repainted(
        (shown / "index.html").read_bytes(), lambda old: old.convert("RGB").point(lambda value: value // 2 * 2)
    )
    folder = forge(shown, tmp_path / "driver", files=files_of(shown, index=page))
    assert replay_session(folder).holds
    assert verdicts(folder)["index.html"][1].endswith("1 strip of pictures came out again")


@pytest.mark.parametrize("picture", [b"", b"AAAA", b"!!!", base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(40))])
def test_something_in_the_place_of_a_picture_is_found(shown: Path, tmp_path: Path, picture: bytes):
    page = (shown / "index.html").read_bytes()
    start = page.index(b"base64,") + len(b"base64,")
    lie = page[:start] + picture + page[page.index(b'"', start) :]
    assert not replay_session(forge(shown, tmp_path / "lie", files=files_of(shown, index=lie))).holds


def test_a_page_without_its_pictures_says_nothing_that_is_not_so(honest: Path, shown: Path, tmp_path: Path):
    plain = render_session_page(read_session(honest)).encode()
    folder = forge(honest, tmp_path / "plain", files={"index.html": plain})
    assert verdicts(folder) == {"index.html": (True, "says what the log says; it has no pictures")}


def test_a_table_of_episodes_that_was_changed_and_sealed_is_found(shown: Path, tmp_path: Path):
    table = (shown / "episodes.json").read_bytes()
    lie = table.replace(b'"success": null', b'"success": true', 1)
    assert lie != table
    folder = forge(shown, tmp_path / "lie", files=files_of(shown, episodes=lie))
    assert not replay_session(folder).holds
    assert verdicts(folder)["episodes.json"] == (False, "does not say what the log says")


def test_what_nobody_can_make_again_is_said(shown: Path, tmp_path: Path):
    folder = forge(shown, tmp_path / "more", files={**files_of(shown), "results.html": b"<p>All succeed</p>"})
    assert replay_session(folder).holds
    assert verdicts(folder)["results.html"] == (None, "was not compared: no replay makes it")


def test_a_page_of_ones_own_is_compared_with_what_makes_it(honest: Path, tmp_path: Path):
    def own(record: Any, _snapshots: Any) -> str:
        return f"{record.n_episodes} episodes\n"

    folder = forge(honest, tmp_path / "own", files={"index.html": b"2 episodes\n"})
    assert not replay_session(folder).holds
    assert replay_session(folder, page=own).holds
    lie = forge(honest, tmp_path / "lie", files={"index.html": b"3 episodes\n"})
    assert not replay_session(lie, page=own).holds


def test_a_page_of_another_version_is_left_open_and_that_is_said(
    honest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    there = environment()
    monkeypatch.setattr(
        "ripieno.run.environment", lambda: {**there, "versions": {**there["versions"], "jinja2": "1.0"}}
    )
    folder = forge(honest, tmp_path / "old", files={"index.html": b"as it looked once"})
    monkeypatch.undo()
    replay = replay_session(folder)
    assert replay.holds
    (file,) = replay.files
    assert file.holds is None
    assert file.words.endswith("it was made with jinja2 1.0, where pages may look different")
    done = CliRunner().invoke(replay_command, [str(folder)])
    assert done.exit_code == 0
    assert done.stdout.splitlines()[-1] == "The session holds, but for what was not compared: index.html."


def test_the_last_word_is_short_when_all_was_compared(shown: Path):
    done = CliRunner().invoke(replay_command, [str(shown)])
    assert done.stdout.splitlines()[-1] == "The session holds."


def test_of_several_pages_the_difference_to_the_nearest_is_named(honest: Path):
    pages = [lambda *_: "other\n", lambda *_: f"first\nsecond\n{'a long line ' * 9}\n"]
    compared = compare_page(
        b"first\nsecond\nforged\n", read_session(honest), [], pages, why_no_pictures="", same_machine=True
    )
    assert compared.holds is False
    assert "line 3 has 'forged', not 'a long line" in compared.words
    is_there = compare_page(b"other\n", read_session(honest), [], pages[::-1], why_no_pictures="", same_machine=True)
    assert is_there.holds


def test_nothing_is_compared_with_a_log_that_does_not_hold(shown: Path, tmp_path: Path):
    folder = forge(
        shown, tmp_path / "lie", episode=lambda fields: {**fields, "total_reward": "none"}, files=files_of(shown)
    )
    assert not replay_session(folder).holds
    assert {holds for holds, _ in verdicts(folder).values()} == {None}
