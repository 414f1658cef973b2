"""Benchmark data on this machine: fetched only when asked, pinned by hash, bounded in size, never half there.

No data set is shipped but a tiny sample, and no address is known by heart: whoever wants one names the address and the
SHA-256 of the file, after reading its licence.
"""

from __future__ import annotations

import hashlib
import io
import os
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from urllib.parse import urlsplit

from agentinputlab.contracts._checks import digest
from agentinputlab.contracts.errors import ArtifactError, ExternalDependencyError, ValidationError
from ripieno.files import create_only, open_regular, sha256_file, sync_directory

__all__ = ["TREC_SAMPLE", "fetch", "unpack", "write_trec_sample"]

TREC_SAMPLE = {
    "corpus.tsv": "fr\tParis is the capital of France.\nde\tBerlin is the capital of Germany.\n",
    "queries.tsv": "q1\tcapital france\nq2\tcapital germany\n",
    "qrels.txt": "q1 0 fr 1\nq2 0 de 1\n",
}
"""Two documents, two queries and their judgements in TREC's formats; ours, for trying retrievers."""
CHUNK_BYTES = 2**20


def fetch(url: str, sha256: str, cache_dir: Path, *, max_bytes: int, offline: bool = False) -> Path:
    """Give the path of a file with exactly these bytes, from the cache or from an address.

    Args:
        url: http or https address; the last part of its path names the file.
        sha256: hash that the file must have.
        cache_dir: where it is kept, as ``SHA256-name``; made when missing.
        max_bytes: a longer file is refused while it is read.
        offline: only look into the cache.

    Raises:
        ValidationError: the address or the hash is no such thing.
        ArtifactError: the cached or the fetched file has other bytes, or is too long; nothing was kept.
        ExternalDependencyError: it is not in the cache and could not be fetched.
    """
    name = _file_name(url)
    digest(sha256, "sha256")
    cache_dir.mkdir(parents=True, exist_ok=True)
    path = cache_dir / f"{sha256}-{name}"
    if path.exists():
        if sha256_file(path) != sha256:
            raise ArtifactError(f"{path} differs from its hash; remove it to fetch it again")
        return path
    if offline:
        raise ExternalDependencyError(f"{name} is not in {cache_dir}, and offline was asked for")
    descriptor, temporary = tempfile.mkstemp(prefix=".fetch-", dir=cache_dir)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            found = _download(url, stream, max_bytes)
        if found != sha256:
            raise ArtifactError(f"{name} has the hash {found}, expected {sha256}; nothing was kept")
        Path(temporary).rename(path)
        sync_directory(cache_dir)
    finally:
        Path(temporary).unlink(missing_ok=True)
    return path


def _file_name(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.password:
        raise ValidationError(f"url must be an http or https address without credentials, got {parts.scheme!r:.20}")
    name = PurePosixPath(parts.path).name
    if not name or not all(letter.isalnum() or letter in "._-" for letter in name) or name.startswith("."):
        raise ValidationError("url must end in a plain file name")
    return name


def _download(url: str, stream: io.BufferedWriter, max_bytes: int) -> str:
    import httpx

    hashed, size = hashlib.sha256(), 0
    try:
        with httpx.stream("GET", url, timeout=60.0, follow_redirects=True, trust_env=True) as answer:
            if not answer.is_success:
                raise ExternalDependencyError(f"the server answered HTTP {answer.status_code}")
            for chunk in answer.iter_bytes(CHUNK_BYTES):
                size += len(chunk)
                if size > max_bytes:
                    raise ArtifactError(f"the file is longer than {max_bytes} bytes; nothing was kept")
                hashed.update(chunk)
                stream.write(chunk)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise ExternalDependencyError(f"the file could not be fetched ({type(error).__name__})") from error
    stream.flush()
    os.fsync(stream.fileno())
    return hashed.hexdigest()


def unpack(archive: Path, target: Path, *, max_bytes: int) -> list[Path]:
    """Unpack a ZIP archive into a new folder, all of it or nothing.

    Raises:
        ValidationError: the target exists.
        ArtifactError: no ZIP or a damaged one, a name that leads out of the folder or stands twice, a link, or more
            than ``max_bytes`` unpacked.
    """
    if target.exists():
        raise ValidationError(f"{target} exists; name a folder that does not")
    with tempfile.TemporaryDirectory(prefix=".unpack-", dir=target.parent) as scratch:
        folder = Path(scratch) / target.name
        folder.mkdir()
        names = [member.relative_to(folder) for member in _members(archive, folder, max_bytes)]
        folder.rename(target)
    return [target / name for name in names]


def _members(archive: Path, folder: Path, max_bytes: int) -> Iterator[Path]:
    left = max_bytes
    try:
        with open_regular(archive) as stream, zipfile.ZipFile(stream) as packed:
            for member in packed.infolist():
                if member.is_dir():
                    continue
                path = PurePosixPath(member.filename)
                is_link = (member.external_attr >> 16) & 0o170000 == 0o120000
                if path.is_absolute() or ".." in path.parts or "\\" in member.filename or is_link:
                    raise ArtifactError(f"{archive.name} holds a name that leads out of the folder")
                with packed.open(member) as content:
                    data = content.read(left + 1)
                left -= len(data)
                if left < 0:
                    raise ArtifactError(f"{archive.name} unpacks to more than {max_bytes} bytes")
                place = folder / path
                place.parent.mkdir(parents=True, exist_ok=True)
                create_only(place, data)
                yield place
    except (FileExistsError, NotADirectoryError) as error:
        raise ArtifactError(f"{archive.name} holds one name twice") from error
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError) as error:
        raise ArtifactError(f"{archive.name} is no readable ZIP archive") from error


def write_trec_sample(target: Path) -> list[Path]:
    """Write `TREC_SAMPLE` into a new folder.

    Raises:
        ValidationError: the folder exists.
    """
    try:
        target.mkdir(parents=True)
    except FileExistsError as error:
        raise ValidationError(f"{target} exists; name a folder that does not") from error
    for name, text in TREC_SAMPLE.items():
        create_only(target / name, text.encode())
    return [target / name for name in TREC_SAMPLE]
