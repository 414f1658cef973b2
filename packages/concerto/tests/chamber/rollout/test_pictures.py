"""Pictures: what is written is whole, opens as what it claims to be, and bad frames leave nothing behind."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from chamber.rollout.pictures import captioned, png_bytes, write_pictures
from ripieno.errors import InputError

av = pytest.importorskip("av")
Image = pytest.importorskip("PIL.Image")


def frames(n: int = 6, *, height: int = 61, width: int = 81) -> list[np.ndarray]:
    """A white square that moves to the right on blue."""
    made = []
    for index in range(n):
        frame = np.zeros((height, width, 3), dtype=np.uint8)
        frame[..., 2] = 200
        frame[20:30, 10 * index : 10 * index + 10] = 255
        made.append(frame)
    return made


def test_a_png_is_the_last_frame_bit_for_bit(tmp_path: Path):
    assert write_pictures(tmp_path / "a.png", iter(frames())) == 6
    with Image.open(tmp_path / "a.png") as picture:
        assert np.array_equal(np.asarray(picture), frames()[-1])


def test_a_gif_shows_every_frame_at_its_rate(tmp_path: Path):
    write_pictures(tmp_path / "a.gif", frames(), frames_per_second=10.0)
    with Image.open(tmp_path / "a.gif") as picture:
        assert (picture.n_frames, picture.size, picture.info["duration"]) == (6, (81, 61), 100)
        picture.seek(3)
        shown = np.asarray(picture.convert("RGB")).astype(int)
    assert np.abs(shown - frames()[3]).max() < 20


def test_an_mp4_shows_every_frame_at_its_rate(tmp_path: Path):
    write_pictures(tmp_path / "a.mp4", frames(), frames_per_second=20.0)
    with av.open(str(tmp_path / "a.mp4")) as video:
        shown = [frame.to_ndarray(format="rgb24") for frame in video.decode(video=0)]
        assert float(video.streams.video[0].average_rate) == 20.0
    assert len(shown) == 6
    assert shown[0].shape == (60, 80, 3), "H.264 has even sides"
    assert shown[3][25, 35].min() > 180
    assert shown[3][25, 75].max() < 230


def test_equal_frames_give_equal_bytes():
    assert png_bytes(frames()[0]) == png_bytes(frames()[0].copy())


def test_a_caption_is_written_below_the_picture():
    frame = frames()[0]
    shown = captioned(frame, "step 1")
    assert np.array_equal(shown[: frame.shape[0]], frame)
    assert shown.shape[0] > frame.shape[0]
    assert shown[frame.shape[0] :].max() > 200, "there is text"


@pytest.mark.parametrize("suffix", ["png", "gif", "mp4"])
def test_an_error_leaves_no_file(tmp_path: Path, suffix: str):
    def breaks():
        yield frames()[0]
        raise RuntimeError("the simulator stopped")

    with pytest.raises(RuntimeError, match="the simulator stopped"):
        write_pictures(tmp_path / f"a.{suffix}", breaks())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("suffix", ["png", "gif", "mp4"])
def test_ctrl_c_keeps_what_was_shown_until_then(tmp_path: Path, suffix: str):
    path = tmp_path / f"a.{suffix}"

    def until_ctrl_c():
        yield frames()[0]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_pictures(path, until_ctrl_c())
    assert [found.name for found in tmp_path.iterdir()] == [path.name]
    if suffix == "mp4":
        with av.open(str(path)) as video:
            assert len(list(video.decode(video=0))) == 1
    else:
        with Image.open(path) as picture:
            assert picture.size == (81, 61)


def test_an_existing_file_is_kept_unless_it_may_go(tmp_path: Path):
    path = tmp_path / "a.png"
    path.write_text("precious")
    with pytest.raises(InputError, match="exists already"):
        write_pictures(path, frames())
    assert path.read_text() == "precious"
    write_pictures(path, frames(), overwrite=True)
    assert path.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("name", "said"), [("a.jpeg", r"must end in \.gif, \.mp4, \.png"), ("nowhere/a.png", "does not exist")]
)
def test_a_bad_name_is_refused_before_any_work(tmp_path: Path, name: str, said: str):
    def never():
        raise AssertionError("the frames were asked for")
        yield

    with pytest.raises(InputError, match=said):
        write_pictures(tmp_path / name, never())


@pytest.mark.parametrize(
    "bad",
    [
        [],
        [np.zeros((4, 4), dtype=np.uint8)],
        [np.zeros((4, 4, 3))],
        [np.zeros((4, 4, 3), dtype=np.uint8), np.zeros((6, 4, 3), dtype=np.uint8)],
    ],
    ids=["none", "no colours", "no bytes", "another size"],
)
def test_what_is_no_picture_is_refused_and_leaves_nothing(tmp_path: Path, bad: list[np.ndarray]):
    with pytest.raises(InputError, match="frame"):
        write_pictures(tmp_path / "a.mp4", bad)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("rate", [0.0, -1.0, float("nan"), float("inf")])
def test_a_bad_rate_is_refused(tmp_path: Path, rate: float):
    with pytest.raises(InputError, match="frames_per_second"):
        write_pictures(tmp_path / "a.mp4", frames(), frames_per_second=rate)


def test_a_gif_that_would_fill_the_memory_is_refused(tmp_path: Path):
    frame = np.zeros((4, 4, 3), dtype=np.uint8)
    with pytest.raises(InputError, match=r"at most 600 frames; write an \.mp4"):
        write_pictures(tmp_path / "a.gif", [frame] * 601)
    assert list(tmp_path.iterdir()) == []
    assert write_pictures(tmp_path / "a.gif", [frame] * 600) == 600


def test_a_device_is_no_folder(tmp_path: Path):
    path = Path("/dev/full/a.png")
    with pytest.raises(InputError, match="does not exist"):
        write_pictures(path, frames())
