"""A spec proposed from somebody's CSV: a file, an https address, or the recording that comes with this package."""

from __future__ import annotations

import http.client
import ssl
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import IO, TYPE_CHECKING

from ripieno.errors import IntegrityError
from ripieno.files import open_regular
from scpn_phase_orchestrator.exceptions import BindingError
from scpn_phase_orchestrator.scaffold.folder import MAX_NAME

if TYPE_CHECKING:
    from scpn_phase_orchestrator.autotune import Proposal

__all__ = ["ALIAS", "MAX_DATASET_BYTES", "fetch_https", "propose_from_dataset", "read_dataset"]

ALIAS = "heartbeat.csv"
"""Stands for the bundled recording, where no file has that name."""
MAX_DATASET_BYTES = 512 * 1024
TIMEOUT_S = 30.0

_EXAMPLES = Path(__file__).parent.parent / "examples"


class _HttpsOnly(urllib.request.HTTPRedirectHandler):
    """Follows redirects to https addresses only."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        if urllib.parse.urlsplit(newurl).scheme != "https":
            raise BindingError(f"{req.full_url} redirects to {newurl!r:.200}, which is no https address")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def fetch_https(url: str, *, context: ssl.SSLContext | None = None) -> bytes:
    """Fetch a data set of at most `MAX_DATASET_BYTES`.

    Args:
        url: an https address.
        context: whom to trust; by default the authorities of the system.

    Raises:
        BindingError: another scheme, no answer, or too long a one.
    """
    if urllib.parse.urlsplit(url).scheme != "https":
        raise BindingError(f"a data set is fetched over https only, got {url!r:.200}")
    opener = urllib.request.build_opener(_HttpsOnly, urllib.request.HTTPSHandler(context=context))
    try:
        with opener.open(url, timeout=TIMEOUT_S) as response:
            data: bytes = response.read(MAX_DATASET_BYTES + 1)
    except urllib.error.HTTPError as error:
        with error:
            raise BindingError(f"{url} answered {error.code} {error.reason}") from error
    except (OSError, http.client.HTTPException) as error:
        reason: object = error.reason if isinstance(error, urllib.error.URLError) else error
        raise BindingError(f"cannot fetch {url}: {reason}") from error
    return _within_limit(url, data)


def read_dataset(source: str) -> tuple[str, bytes]:
    """Give name and bytes of a data set.

    Args:
        source: path of a file, https address, or `ALIAS`.

    Raises:
        BindingError: there is none, it cannot be read, or it has more than `MAX_DATASET_BYTES`.
    """
    if "://" in source:
        return PurePosixPath(urllib.parse.urlsplit(source).path).name or "dataset.csv", fetch_https(source)
    path = Path(source)
    if source == ALIAS and not path.exists():
        path = _EXAMPLES / ALIAS
    try:
        with open_regular(path) as stream:
            data = stream.read(MAX_DATASET_BYTES + 1)
    except (OSError, ValueError, IntegrityError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or error
        raise BindingError(f"cannot read the data set {source!r:.200}: {reason}") from error
    return path.name, _within_limit(source, data)


def _within_limit(source: str, data: bytes) -> bytes:
    if len(data) > MAX_DATASET_BYTES:
        raise BindingError(f"{source}: a data set may have at most {MAX_DATASET_BYTES} bytes; this one has more")
    return data


def propose_from_dataset(source: str) -> Proposal:
    """Propose a spec from a CSV, with all layers good: the target is coherence.

    Raises:
        BindingError: as `read_dataset`, or the data give no phases or no valid spec.
    """
    from scpn_phase_orchestrator.autotune import bind_time_series

    file, data = read_dataset(source)
    stem = "".join(c if c.isascii() and (c.isalnum() or c in "_-") else "_" for c in Path(file).stem)[:MAX_NAME]
    with TemporaryDirectory(prefix="spo-dataset-") as scratch:
        path = Path(scratch) / f"{stem or 'dataset'}.csv"
        path.write_bytes(data)
        return bind_time_series(path, stem or "dataset")
