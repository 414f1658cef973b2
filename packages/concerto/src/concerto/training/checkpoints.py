"""Checkpoints: a payload ``<name>.pt`` of tensors and plain values, and a sidecar ``<name>.pt.json`` beside it.

The sidecar holds the SHA-256 of the payload and the identity of the run. A checkpoint is loaded only when both agree.

A save changes nothing under the two final names until both files lie complete on the disk under other names: the
payload as ``.<name>.pt.partial``, the sidecar as ``.<name>.pt.json.next``. Then the payload is renamed, then the
sidecar. A process that dies at any moment therefore leaves the old checkpoint or the new one: between the two renames
the new payload lies beside the old sidecar, which does not vouch for it, and the sidecar that does is found under its
other name.
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib
import os
import stat
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import FileIO
from numbers import Integral
from pathlib import Path, PurePosixPath
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any, Protocol, cast

from ripieno.canonical import INDENTED, content_hash, strict_loads
from ripieno.errors import InputError
from ripieno.files import sync_directory

if TYPE_CHECKING:
    from torch import Tensor

__all__ = [
    "LOCAL_URI_SCHEME",
    "CheckpointError",
    "CheckpointMetadata",
    "load_checkpoint",
    "load_checkpoint_file",
    "resolve_uri",
    "save_checkpoint",
    "writable_folder",
]

LOCAL_URI_SCHEME = "local://"

_BLOCK_BYTES = 2**20
_MOST_SIDECAR_BYTES = 2**20
_PLAIN_TYPES = frozenset({bool, int, float, str, type(None)})
_METADATA_DIGEST = "metadata_sha256"


class CheckpointError(InputError, RuntimeError):
    """A checkpoint cannot be saved, or is not what it says it is."""


@dataclass(frozen=True)
class CheckpointMetadata:
    """Where a checkpoint comes from.

    Attributes:
        run_id: of the run that saved it.
        seed: root seed of that run.
        step: frames trained.
        git_sha: commit at launch, or ``"unknown"``.
        pyproject_hash: SHA-256 of ``pyproject.toml`` at launch.
        sha256: lowercase hex SHA-256 of the payload; `save_checkpoint` fills it in.
    """

    run_id: str
    seed: int
    step: int
    git_sha: str
    pyproject_hash: str
    sha256: str

    @classmethod
    def from_dict(cls, raw: Mapping[str, object]) -> CheckpointMetadata:
        """Read the fields of a sidecar; more keys than these are ignored.

        Raises:
            CheckpointError: a key is missing, or ``seed`` or ``step`` is no whole number.
        """
        names = [item.name for item in dataclasses.fields(cls)]
        missing = [name for name in names if name not in raw]
        if missing:
            raise CheckpointError(f"the metadata of a checkpoint must have {', '.join(missing)}")
        texts = {name: str(raw[name]) for name in names if name not in {"seed", "step"}}
        return cls(seed=_whole_number(raw, "seed"), step=_whole_number(raw, "step"), **texts)


def _whole_number(raw: Mapping[str, object], name: str) -> int:
    value = raw[name]
    problem = f"{name} of a checkpoint must be a whole number, got {str(value)[:80]!r}"
    if isinstance(value, str):
        try:
            return int(value)
        except ValueError as error:
            raise CheckpointError(problem) from error
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise CheckpointError(problem)
    return int(value)


def resolve_uri(uri: str, *, artifacts_root: Path) -> Path:
    """Give the absolute path that a URI names below a root; nothing needs to exist.

    Args:
        uri: ``local://`` and a relative path, all of which is kept.
        artifacts_root: what the path is relative to.

    Raises:
        CheckpointError: another scheme, or a path that is empty, absolute or has ``..``.

    Examples:
        >>> resolve_uri("local://artifacts/foo.pt", artifacts_root=Path("/data")).as_posix()
        '/data/artifacts/foo.pt'
    """
    if not uri.startswith(LOCAL_URI_SCHEME):
        raise CheckpointError(f"a checkpoint's URI must start with {LOCAL_URI_SCHEME}, got {uri!r}")
    remainder = uri.removeprefix(LOCAL_URI_SCHEME)
    path = PurePosixPath(remainder)
    if not path.parts or path.is_absolute() or ".." in path.parts or "\0" in remainder:
        raise CheckpointError(f"a checkpoint's URI must name a relative path without '..', got {uri!r}")
    return artifacts_root.absolute() / path


# --- saving -------------------------------------------------------------------------------------------------


def save_checkpoint(
    *, state_dict: Mapping[str, Any], uri: str, metadata: CheckpointMetadata, artifacts_root: Path
) -> Path:
    """Save a checkpoint; equal states give equal bytes.

    A tensor that is a view is saved without the rest of its storage. The sidecar has one field beyond the metadata,
    ``metadata_sha256``, so that a changed byte in it is noticed.

    Args:
        state_dict: tensors, booleans, integers, floats, text and None, in dictionaries, lists and tuples.
        uri: where, see `resolve_uri`; the folder is made.
        metadata: its ``sha256`` is replaced by that of the payload.
        artifacts_root: what the URI is relative to.

    Returns:
        Absolute path of the payload.

    Raises:
        ImportError: PyTorch is not installed; the message says how to install it.
        CheckpointError: a bad URI, a value that could not be loaded again, or the file system refuses. An earlier
            checkpoint of this name is still whole then.
    """
    path = resolve_uri(uri, artifacts_root=artifacts_root)
    state = _detached(state_dict, "")
    try:
        _write_checkpoint(path, state, metadata)
    except OSError as error:
        raise CheckpointError(
            f"cannot save the checkpoint {path}: {error.strerror or error}; earlier checkpoints still load"
        ) from error
    return path


def _write_checkpoint(path: Path, state: object, metadata: CheckpointMetadata) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir():
        raise CheckpointError(f"cannot save the checkpoint {path}: it is a folder")
    sidecar = _sidecar_of(path)
    partial = path.with_name(f".{path.name}.partial")
    upcoming = _upcoming_of(path)
    try:
        digest = _write_payload(partial, state)
        with _new_file(upcoming) as descriptor:
            _write_all(descriptor, memoryview(_sidecar_text(metadata, digest)))
        sync_directory(path.parent)
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        upcoming.unlink(missing_ok=True)
        raise
    # From here on the new checkpoint is there; each rename is on the disk before the next step relies on it.
    sync_directory(path.parent)
    upcoming.replace(sidecar)
    sync_directory(path.parent)


def _write_payload(path: Path, state: object) -> str:
    """Write the payload and give its SHA-256."""
    with _new_file(path) as descriptor:
        payload = _PayloadStream(descriptor)
        _torch().save(state, payload)
        payload.flush()
        if payload.error is not None:
            raise payload.error
        return payload.digest.hexdigest()


class _PayloadStream:
    """Takes what PyTorch writes: hashes it, gathers it into blocks, and writes them.

    An error of the file system is kept for later: PyTorch is in the middle of its own writer then.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._block = bytearray()
        self.digest = hashlib.sha256()
        self.error: OSError | None = None

    def write(self, data: memoryview) -> int:
        self.digest.update(data)
        if len(self._block) + len(data) > _BLOCK_BYTES:
            self.flush()
        if len(data) > _BLOCK_BYTES:
            self._write(data)
        else:
            self._block += data
        return len(data)

    def flush(self) -> None:
        self._write(memoryview(self._block))
        self._block = bytearray()

    def _write(self, data: memoryview) -> None:
        try:
            if self.error is None:
                _write_all(self._descriptor, data)
        except OSError as error:
            self.error = error


@contextmanager
def _new_file(path: Path) -> Generator[int]:
    """Write a file anew, durably, through a descriptor; what a killed process left under its name goes."""
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        yield descriptor
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write_all(descriptor: int, data: memoryview) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


def _sidecar_text(metadata: CheckpointMetadata, digest: str) -> bytes:
    fields = {**dataclasses.asdict(metadata), "sha256": digest}
    checked = dataclasses.asdict(CheckpointMetadata.from_dict(fields))
    return INDENTED.dumps({**checked, _METADATA_DIGEST: content_hash(checked)})


def _detached(value: object, place: str) -> object:
    """Give a copy of a state that holds only what a checkpoint can give back.

    Raises:
        CheckpointError: it holds something else; the message names the place.
    """
    if isinstance(value, Mapping):
        mapping = cast("Mapping[object, object]", value)
        bad_keys = [key for key in mapping if type(key) not in {str, int}]
        if bad_keys:
            raise CheckpointError(f"keys of a checkpoint must be text or integers, got {bad_keys[0]!r} in {place!r}")
        return {key: _detached(item, f"{place}.{key}".lstrip(".")) for key, item in mapping.items()}
    if type(value) in {list, tuple}:
        items = [_detached(item, f"{place}[{i}]") for i, item in enumerate(cast("list[object]", value))]
        return items if type(value) is list else tuple(items)
    if isinstance(value, _torch().Tensor):
        return _without_spare_storage(cast("Tensor", value).detach())
    if type(value) not in _PLAIN_TYPES:
        raise CheckpointError(
            f"{place or 'the state'} must be a tensor, number, bool, text, None, or a mapping or list of these; "
            f"it is a {type(value).__module__}.{type(value).__qualname__}"
        )
    return value


def _without_spare_storage(tensor: Tensor) -> Tensor:
    if tensor.layout is not _torch().strided:
        return tensor
    has_spare = tensor.untyped_storage().nbytes() > tensor.numel() * tensor.element_size()
    return tensor.clone() if has_spare else tensor


@contextmanager
def writable_folder(folder: Path) -> Generator[None]:
    """Make a folder and prove that files can be written there; what was made goes again when the block fails.

    Raises:
        CheckpointError: the file system refuses; nothing is left behind.
    """
    missing = [folder, *folder.parents]
    while missing and os.path.lexists(missing[-1]):
        missing.pop()
    try:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with TemporaryFile(dir=folder) as probe:
                probe.write(b"\0")
        except OSError as error:
            raise CheckpointError(f"cannot write checkpoints into {folder}: {error.strerror or error}") from error
        yield
    except BaseException:
        for made in missing:
            with suppress(OSError):  # it was not made, or holds something by now
                made.rmdir()
        raise


# --- loading ------------------------------------------------------------------------------------------------


def load_checkpoint(*, uri: str, artifacts_root: Path) -> tuple[dict[str, Any], CheckpointMetadata]:
    """Load a checkpoint, tensors on the CPU, after checking it against its sidecar.

    Raises:
        ImportError: PyTorch is not installed; the message says how to install it.
        CheckpointError: checked in this order: a bad URI, no payload, no sidecar, a malformed or incomplete sidecar,
            a payload that the sidecar does not vouch for, a payload that is no checkpoint.
    """
    return load_checkpoint_file(resolve_uri(uri, artifacts_root=artifacts_root))


def load_checkpoint_file(path: Path) -> tuple[dict[str, Any], CheckpointMetadata]:
    """Load the checkpoint whose payload is this file; as `load_checkpoint`."""
    torch = _torch()
    path = path.absolute()
    with _opened(path, "payload") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
        metadata = _vouching_metadata(path, digest)
        stream.seek(0)
        try:
            state = torch.load(stream, weights_only=True, map_location="cpu")
        except Exception as error:
            kind = type(error).__name__
            raise CheckpointError(f"{path} is no checkpoint of tensors and plain values ({kind})") from error
    if not isinstance(state, dict):
        raise CheckpointError(f"{path} must hold a dictionary, it holds a {type(state).__name__}")
    return cast("dict[str, Any]", state), metadata


def _vouching_metadata(path: Path, digest: str) -> CheckpointMetadata:
    """Give the metadata of the sidecar that holds the digest of the payload."""
    problem: CheckpointError
    try:
        metadata = _read_sidecar(_sidecar_of(path))
        if metadata.sha256 == digest:
            return metadata
        problem = CheckpointError(
            f"{path} is not the payload that its sidecar vouches for: its SHA-256 is {digest}, "
            f"the sidecar says {metadata.sha256}"
        )
    except CheckpointError as error:
        problem = error
    with suppress(CheckpointError):  # left by a process that died between the two renames
        metadata = _read_sidecar(_upcoming_of(path))
        if metadata.sha256 == digest:
            return metadata
    raise problem


def _read_sidecar(path: Path) -> CheckpointMetadata:
    with _opened(path, "sidecar") as stream:
        text = stream.read(_MOST_SIDECAR_BYTES + 1)
    try:
        raw = strict_loads(text, max_bytes=_MOST_SIDECAR_BYTES)
    except InputError as error:
        raise CheckpointError(f"the sidecar {path} is malformed: {error}") from error
    if not isinstance(raw, dict):
        raise CheckpointError(f"the sidecar {path} must hold an object, it holds a {type(raw).__name__}")
    try:
        metadata = CheckpointMetadata.from_dict(raw)
    except CheckpointError as error:
        raise CheckpointError(f"the sidecar {path} is not complete: {error}") from error
    if raw.get(_METADATA_DIGEST, own := content_hash(dataclasses.asdict(metadata))) != own:
        raise CheckpointError(f"the sidecar {path} was changed: its {_METADATA_DIGEST} is not that of its fields")
    return metadata


@contextmanager
def _opened(path: Path, what: str) -> Generator[FileIO]:
    """Open a regular file, or a link to one; a FIFO is not waited for.

    Raises:
        CheckpointError: there is none, or it cannot be read.
    """
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise CheckpointError(f"the {what} {path} is not a regular file")
        with FileIO(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as stream:
            yield stream
    except FileNotFoundError as error:
        raise CheckpointError(f"there is no {what} {path}") from error
    except OSError as error:
        raise CheckpointError(f"cannot read the {what} {path}: {error.strerror}") from error


def _sidecar_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.json")


def _upcoming_of(path: Path) -> Path:
    return path.with_name(f".{path.name}.json.next")


class _Torch(Protocol):
    Tensor: type
    strided: object

    def save(self, obj: object, f: object) -> None: ...

    def load(self, f: object, *, weights_only: bool, map_location: str) -> object: ...


def _torch() -> _Torch:
    try:
        return cast("_Torch", importlib.import_module("torch"))
    except ImportError as error:
        raise ImportError(
            "PyTorch is not installed, and checkpoints need it; install it with: pip install 'ripieno-concerto[train]'"
        ) from error
