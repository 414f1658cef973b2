"""A checkpoint loads whole and as it was saved, or not at all, whatever happened to it or while it was written."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from concerto.training.checkpoints import (
    CheckpointError,
    CheckpointMetadata,
    load_checkpoint,
    load_checkpoint_file,
    resolve_uri,
    save_checkpoint,
)
from ripieno.errors import InputError

URI = "local://artifacts/happo_seed7_step50k.pt"
METADATA = CheckpointMetadata("0123456789abcdef", 7, 50_000, "unknown", "e3b0", "")
STATE: dict[str, Any] = {
    "actor.weight": torch.arange(6, dtype=torch.float32).reshape(2, 3),
    "optimizer": {"state": {0: {"step": torch.tensor(3.0)}}, "param_groups": [{"lr": 3e-4, "betas": (0.9, 0.999)}]},
    "resume": {"format": 1, "is_done": False, "obs": None, "name": "é", "generator": torch.get_rng_state()},
}


@pytest.fixture
def memory() -> Iterator[Path]:
    """A folder in memory where there is one: for what does not depend on the disk, because it is quick."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as name:
        yield Path(name)


def save(root: Path, state: dict[str, Any] = STATE, metadata: CheckpointMetadata = METADATA) -> Path:
    return save_checkpoint(state_dict=state, uri=URI, metadata=metadata, artifacts_root=root)


def sidecar_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.json")


def assert_equal(loaded: Any, wanted: Any) -> None:
    assert type(loaded) is type(wanted)
    if isinstance(wanted, torch.Tensor):
        assert loaded.dtype == wanted.dtype
        assert torch.equal(loaded, wanted)
    elif isinstance(wanted, dict):
        assert loaded.keys() == wanted.keys()
        for key, value in wanted.items():
            assert_equal(loaded[key], value)
    elif isinstance(wanted, (list, tuple)):
        assert len(loaded) == len(wanted)
        for one, other in zip(loaded, wanted, strict=True):
            assert_equal(one, other)
    else:
        assert loaded == wanted


# --- URIs ---------------------------------------------------------------------------------------------------


def test_acceptance_9_a_uri_names_a_place_below_the_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert resolve_uri("local://artifacts/foo.pt", artifacts_root=Path("/data")) == Path("/data/artifacts/foo.pt")
    monkeypatch.chdir(tmp_path)
    assert resolve_uri("local://foo.pt", artifacts_root=Path("here")) == tmp_path / "here" / "foo.pt"
    with pytest.raises(CheckpointError, match="hf://x"):
        resolve_uri("hf://x", artifacts_root=Path("/data"))


@pytest.mark.parametrize(
    "uri",
    [
        "local://",
        "local://.",
        "local:///etc/passwd",
        "local://..",
        "local://artifacts/../../x.pt",
        "local://a\0b",
        "s3://bucket/x.pt",
        "LOCAL://x.pt",
        "local:/x.pt",
        "x.pt",
        "",
    ],
)
def test_a_uri_that_leaves_the_root_or_names_nothing_is_refused(tmp_path: Path, uri: str) -> None:
    with pytest.raises(CheckpointError, match="a checkpoint's URI must"):
        resolve_uri(uri, artifacts_root=tmp_path)
    with pytest.raises(CheckpointError):
        save_checkpoint(state_dict=STATE, uri=uri, metadata=METADATA, artifacts_root=tmp_path)
    with pytest.raises(CheckpointError):
        load_checkpoint(uri=uri, artifacts_root=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_error_is_of_both_families() -> None:
    assert issubclass(CheckpointError, (RuntimeError))
    assert issubclass(CheckpointError, InputError)


# --- what is saved is loaded --------------------------------------------------------------------------------


def test_acceptance_10_what_was_saved_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = save(Path("data"))
    assert path == tmp_path / "data" / "artifacts" / "happo_seed7_step50k.pt"
    state, metadata = load_checkpoint(uri=URI, artifacts_root=Path("data"))
    assert_equal(state, STATE)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert metadata == replace(METADATA, sha256=digest)
    text = sidecar_of(path).read_text(encoding="utf-8")
    fields = json.loads(text)
    assert asdict(metadata).items() <= fields.items()
    assert text == json.dumps(fields, sort_keys=True, indent=2)
    assert sorted(entry.name for entry in path.parent.iterdir()) == [path.name, sidecar_of(path).name]
    assert load_checkpoint_file(path)[1] == load_checkpoint_file(Path("data/artifacts") / path.name)[1] == metadata


def test_equal_states_give_equal_bytes(tmp_path: Path) -> None:
    first, second = (save(tmp_path / name).read_bytes() for name in ("a", "b"))
    assert first == second


def test_a_checkpoint_can_be_copied_and_linked(tmp_path: Path) -> None:
    path = save(tmp_path)
    copy, link = tmp_path / "copy.pt", tmp_path / "link.pt"
    for source, to, alias in ((path, copy, link), (sidecar_of(path), sidecar_of(copy), sidecar_of(link))):
        shutil.copy(source, to)
        alias.symlink_to(source)
    for other in (copy, link):
        assert_equal(load_checkpoint_file(other)[0], STATE)


def test_a_view_is_saved_without_the_rest_of_its_storage_and_parameters_without_their_graph(tmp_path: Path) -> None:
    buffer = torch.randn(100_000)
    parameter = torch.nn.Parameter(torch.ones(3))
    path = save(tmp_path, {"row": buffer[10:14], "every_other": buffer[:8:2], "parameter": parameter})
    state, _ = load_checkpoint_file(path)
    assert path.stat().st_size < 10_000
    assert_equal(state, {"row": buffer[10:14], "every_other": buffer[:8:2], "parameter": torch.ones(3)})
    assert not state["parameter"].requires_grad


def test_saving_again_replaces_both_files(tmp_path: Path) -> None:
    save(tmp_path)
    save(tmp_path, {"x": torch.zeros(2)}, replace(METADATA, step=60_000))
    state, metadata = load_checkpoint(uri=URI, artifacts_root=tmp_path)
    assert_equal(state, {"x": torch.zeros(2)})
    assert metadata.step == 60_000


@pytest.mark.parametrize(
    ("state", "place"),
    [
        ({"a": np.zeros(2)}, "a must be a tensor.*numpy.ndarray"),
        ({"a": {"b": [1, np.float64(1.0)]}}, r"a\.b\[1\] must be.*numpy.float64"),
        ({"a": {3: object()}}, r"a\.3 must be.*builtins.object"),
        ({"a": {1.5: 1}}, "keys of a checkpoint must be text or integers, got 1.5 in 'a'"),
        ({"a": {1, 2}}, "a must be.*builtins.set"),
    ],
)
def test_what_could_not_be_loaded_again_is_not_saved(tmp_path: Path, state: dict[str, Any], place: str) -> None:
    path = save(tmp_path)
    with pytest.raises(CheckpointError, match=place):
        save(tmp_path, state)
    assert_equal(load_checkpoint_file(path)[0], STATE)


@pytest.mark.parametrize("field", ["seed", "step"])
@pytest.mark.parametrize("value", [5.7, True, "5.5", "abc", None, float("nan")])
def test_a_save_with_a_seed_or_step_that_is_no_whole_number_is_refused(tmp_path: Path, field: str, value: Any) -> None:
    path = save(tmp_path)
    with pytest.raises(CheckpointError, match=f"{field} of a checkpoint must be a whole number"):
        save(tmp_path, metadata=replace(METADATA, **{field: value}))
    assert load_checkpoint_file(path)[1].step == 50_000
    assert len(list(path.parent.iterdir())) == 2


def test_without_pytorch_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    for call in (lambda: save(tmp_path), lambda: load_checkpoint_file(tmp_path / "x.pt")):
        with pytest.raises(ImportError, match=r"pip install 'ripieno-concerto\[train\]'"):
            call()


# --- metadata -----------------------------------------------------------------------------------------------


RAW: dict[str, object] = {**asdict(METADATA), "unknown key": [1]}


def test_metadata_is_read_from_numbers_and_from_their_text() -> None:
    assert CheckpointMetadata.from_dict(RAW) == METADATA
    assert CheckpointMetadata.from_dict({**RAW, "seed": "7", "step": 50_000.0}) == METADATA
    assert CheckpointMetadata.from_dict({**RAW, "seed": np.int64(7)}) == METADATA
    assert CheckpointMetadata.from_dict({**RAW, "git_sha": 12}).git_sha == "12"


def test_missing_metadata_is_named() -> None:
    with pytest.raises(CheckpointError, match="must have seed, step, sha256"):
        CheckpointMetadata.from_dict({name: RAW[name] for name in ("run_id", "git_sha", "pyproject_hash")})


@pytest.mark.parametrize("value", [5.7, True, False, "5.7", "abc", "", None, [], float("inf")])
def test_a_step_that_is_no_whole_number_is_refused(value: object) -> None:
    with pytest.raises(CheckpointError, match="step of a checkpoint must be a whole number") as caught:
        CheckpointMetadata.from_dict({**RAW, "step": value})
    assert isinstance(caught.value.__cause__, ValueError) is isinstance(value, str)


# --- what is not whole is not loaded ------------------------------------------------------------------------


def refusal(path: Path) -> str:
    with pytest.raises(CheckpointError) as caught:
        load_checkpoint_file(path)
    return str(caught.value)


def test_acceptance_10_a_checkpoint_that_is_not_whole_is_refused_in_the_documented_order(tmp_path: Path) -> None:
    path = save(tmp_path)
    sidecar, payload = sidecar_of(path), path.read_bytes()
    fields = json.loads(sidecar.read_text())
    path.write_bytes(payload[:-1] + bytes([payload[-1] ^ 1]))
    digests = (hashlib.sha256(path.read_bytes()).hexdigest(), fields["sha256"])
    assert all(digest in refusal(path) for digest in digests)
    for changed in ({"step": None}, {"step": "abc"}, {"step": 5.7}):
        sidecar.write_text(json.dumps({**fields, **changed}))
        assert "step of a checkpoint must be a whole number" in refusal(path)
    sidecar.write_text(json.dumps({name: value for name, value in fields.items() if name != "step"}))
    assert "must have step" in refusal(path)
    for text in ("", "{", "[]", '"text"', '{"a": 1, "a": 2}', '{"a": NaN}', "\xff"):
        sidecar.write_text(text, encoding="latin-1")
        assert f"the sidecar {sidecar}" in refusal(path)
    sidecar.unlink()
    assert refusal(path) == f"there is no sidecar {sidecar}"
    path.unlink()
    assert refusal(path) == f"there is no payload {path}"


def test_a_sidecar_of_the_six_documented_fields_is_enough(tmp_path: Path) -> None:
    path = save(tmp_path)
    fields = json.loads(sidecar_of(path).read_text())
    sidecar_of(path).write_text(json.dumps({name: fields[name] for name in asdict(METADATA)} | {"more": 1}))
    assert load_checkpoint_file(path)[1].step == 50_000


def test_no_changed_byte_of_the_payload_is_loaded(memory: Path) -> None:
    path = save(memory, {"x": torch.arange(3.0), "note": "text"})
    payload = path.read_bytes()
    for index in range(len(payload)):
        path.write_bytes(payload[:index] + bytes([payload[index] ^ (1 << index % 8)]) + payload[index + 1 :])
        assert "is not the payload that its sidecar vouches for" in refusal(path)
    path.write_bytes(payload)
    assert load_checkpoint_file(path)[0]["note"] == "text"


def test_no_changed_byte_of_the_sidecar_changes_what_is_loaded(memory: Path) -> None:
    path = save(memory, {"x": torch.arange(3.0)})
    wanted = load_checkpoint_file(path)[1]
    text = sidecar_of(path).read_bytes()
    loaded: set[int] = set()
    for index in range(len(text)):
        for bit in (0, 1, 5):  # another digit, another letter, the other case
            sidecar_of(path).write_bytes(text[:index] + bytes([text[index] ^ (1 << bit)]) + text[index + 1 :])
            try:
                _, metadata = load_checkpoint_file(path)
            except CheckpointError:
                continue
            assert metadata == wanted
            loaded.add(index)
    start = text.index(b"metadata_sha256")
    assert loaded <= set(range(start, start + len(b"metadata_sha256"))), "only a key that readers ignore may change"


@pytest.mark.parametrize("which", ["payload", "sidecar"])
def test_no_truncated_file_is_loaded(memory: Path, which: str) -> None:
    path = save(memory, {"x": torch.arange(3.0)})
    file = path if which == "payload" else sidecar_of(path)
    content = file.read_bytes()
    for length in range(0, len(content), 7 if which == "payload" else 1):
        file.write_bytes(content[:length])
        refusal(path)


class Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, ("broken-in",)


def test_a_payload_that_is_no_checkpoint_is_refused_and_runs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = save(tmp_path)
    torch.save([1, 2], tmp_path / "list")
    torch.save({"x": Evil()}, tmp_path / "evil")
    payloads = {
        b"": "is no checkpoint",
        b"text": "is no checkpoint",
        pickle.dumps(Evil()): "is no checkpoint",
        (tmp_path / "evil").read_bytes(): "is no checkpoint",
        (tmp_path / "list").read_bytes(): "must hold a dictionary, it holds a list",
    }
    for payload, words in payloads.items():
        path.write_bytes(payload)
        digest = hashlib.sha256(payload).hexdigest()
        sidecar_of(path).write_text(json.dumps(asdict(replace(METADATA, sha256=digest))))
        assert words in refusal(path)
    assert not (tmp_path / "broken-in").exists()


def test_places_that_are_no_files_are_named(tmp_path: Path) -> None:
    path = save(tmp_path)
    assert "is not a regular file" in refusal(path.parent)
    path.unlink()
    os.mkfifo(path)
    assert f"the payload {path} is not a regular file" in refusal(path)
    path.unlink()
    path.mkdir()
    with pytest.raises(CheckpointError, match="it is a folder"):
        save(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(CheckpointError, match=r"cannot save the checkpoint .*; earlier checkpoints still load"):
        save(tmp_path / "file")


# --- what goes wrong while a checkpoint is saved ------------------------------------------------------------


def test_whatever_happens_to_a_save_the_old_or_the_new_checkpoint_loads(memory: Path) -> None:
    script = Path(__file__).with_name("faulty_saves.py")
    done = subprocess.run([sys.executable, script, memory], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    steps_left: dict[bool, set[int | None]] = {True: set(), False: set()}
    kinds: Counter[str] = Counter()
    for attempt in json.loads(done.stdout):
        kinds[attempt["kind"]] += 1
        steps_left[attempt["has_earlier"]].add(judge(memory / attempt["name"], attempt))
    assert steps_left == {True: {1, 2}, False: {None, 2}}
    assert kinds["killed before"] == kinds["killed after"] >= 40
    assert min(kinds["full"], kinds["torn"], kinds["short"]) >= 3
    assert "No space left on device; earlier checkpoints still load" in done.stderr
    assert "File too large; earlier checkpoints still load" in done.stderr


def judge(folder: Path, attempt: dict[str, Any]) -> int | None:
    """Say which checkpoint an attempt left, after checking that it is whole and that the next save succeeds."""
    uri, case = "local://artifacts/policy.pt", attempt["name"]
    payload = folder / "artifacts" / "policy.pt"
    step: int | None = None
    if not payload.exists():
        assert not attempt["has_earlier"], f"{case}: the earlier checkpoint is lost"
        assert "there is no payload" in refusal(payload), case
    else:
        state, metadata = load_checkpoint_file(payload)
        step = metadata.step
        assert torch.equal(state["actor"]["weight"], torch.full((300_000,), float(step))), case
        assert state["resume"] == {"format": 1, "step": step, "note": None}, case
    kind, code = attempt["kind"], attempt["code"]
    if kind == "short":
        assert (code, step) == (0, 2), case
    elif kind == "full":
        assert code in {0, 3}, case  # 0: a file that could not be tidied away, say
        assert code == 3 or step == 2, case
        if attempt["operation"] == "write":
            assert (code, step) == (3, 1), case
            hidden = [entry.name for entry in folder.glob("artifacts/.*")]
            assert hidden == [], f"{case}: a refused save tidies up"
    else:
        assert code == -signal.SIGKILL, case
    save_checkpoint(state_dict={"x": torch.ones(2)}, uri=uri, metadata=METADATA, artifacts_root=folder)
    assert load_checkpoint(uri=uri, artifacts_root=folder)[1].step == METADATA.step, case
    assert len(list(folder.glob("artifacts/*"))) == 2, f"{case}: the next save tidies up"
    return step


def test_a_sidecar_left_by_a_dead_process_vouches_for_its_own_payload_only(tmp_path: Path) -> None:
    path = save(tmp_path)
    upcoming = path.with_name(f".{path.name}.json.next")
    sidecar_of(path).rename(upcoming)
    assert load_checkpoint_file(path)[1].step == 50_000
    upcoming.write_text(upcoming.read_text().replace("50000", "50001"))
    assert refusal(path) == f"there is no sidecar {sidecar_of(path)}"
