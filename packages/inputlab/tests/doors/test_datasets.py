"""Fetching data: only what was named, only its bytes, never more than was allowed, never half of it."""

import hashlib
import http.server
import io
import threading
import warnings
import zipfile

import pytest
from click.testing import CliRunner

from agentinputlab.cli._app import agentinputlab
from agentinputlab.contracts.errors import ArtifactError, ExternalDependencyError, ValidationError
from agentinputlab.datasets import TREC_SAMPLE, fetch, unpack, write_trec_sample


def packed(**members):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in members.items():
            archive.writestr(name.replace("__", "/"), text)
    return buffer.getvalue()


def damaged():
    """An archive whose compressed bytes are no longer ones."""
    data = bytearray(packed(corpus="hello " * 20))
    start = 30 + len("corpus")  # the first local header and its name
    data[start : start + 4] = b"\xff" * 4
    return bytes(data)


def with_members(*names):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in names:
            archive.writestr(name, "x")
    return buffer.getvalue()


FILES = {"/data.zip": packed(corpus="hello", sub__qrels="q1 0 d1 1"), "/plain.tsv": b"a\tb\n"}


@pytest.fixture(scope="module")
def site():
    class Handler(http.server.BaseHTTPRequestHandler):
        asked = 0

        def do_GET(self):
            Handler.asked += 1
            data = FILES.get(self.path)
            self.send_response(200 if data is not None else 404)
            self.end_headers()
            self.wfile.write(data or b"")

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}", Handler
        server.shutdown()


def sha(path):
    return hashlib.sha256(FILES[path]).hexdigest()


def test_a_file_is_fetched_once_and_found_offline(site, tmp_path):
    url, handler = site
    first = fetch(f"{url}/plain.tsv", sha("/plain.tsv"), tmp_path, max_bytes=100)
    asked = handler.asked
    assert fetch(f"{url}/plain.tsv", sha("/plain.tsv"), tmp_path, max_bytes=100, offline=True) == first
    assert handler.asked == asked
    assert first.read_bytes() == FILES["/plain.tsv"]


@pytest.mark.parametrize(
    ("path", "sha256", "limit", "error"),
    [
        ("/plain.tsv", "0" * 64, 100, ArtifactError),
        ("/plain.tsv", None, 2, ArtifactError),
        ("/missing.tsv", "0" * 64, 100, ExternalDependencyError),
        ("/plain.tsv", "abc", 100, ValidationError),
        ("/", "0" * 64, 100, ValidationError),
        ("/.hidden", "0" * 64, 100, ValidationError),
    ],
)
def test_what_is_not_what_was_asked_for_is_not_kept(site, tmp_path, path, sha256, limit, error):
    with pytest.raises(error):
        fetch(site[0] + path, sha256 or sha(path), tmp_path / "cache", max_bytes=limit)
    assert not list((tmp_path / "cache").glob("*")) if (tmp_path / "cache").exists() else True


@pytest.mark.parametrize("url", ["ftp://x/a.zip", "http://user:key@x/a.zip", "file:///a.zip", "a.zip"])
def test_an_address_that_is_none_is_refused(tmp_path, url):
    with pytest.raises(ValidationError, match="url"):
        fetch(url, "0" * 64, tmp_path, max_bytes=1)


def test_a_changed_cache_is_noticed(site, tmp_path):
    path = fetch(f"{site[0]}/plain.tsv", sha("/plain.tsv"), tmp_path, max_bytes=100)
    path.write_bytes(b"changed")
    with pytest.raises(ArtifactError, match="differs from its hash"):
        fetch(f"{site[0]}/plain.tsv", sha("/plain.tsv"), tmp_path, max_bytes=100)


def test_an_archive_is_unpacked_whole(tmp_path):
    (tmp_path / "data.zip").write_bytes(FILES["/data.zip"])
    unpack(tmp_path / "data.zip", tmp_path / "data", max_bytes=100)
    assert (tmp_path / "data/sub/qrels").read_text() == "q1 0 d1 1"


@pytest.mark.parametrize(
    "data",
    [
        packed(**{"..__out": "x"}),
        packed(__root="x"),
        packed(big="x" * 200),
        b"no archive",
        FILES["/data.zip"][:-9],
        damaged(),
        with_members("a", "a"),
        with_members("a", "a/b"),
        with_members("a/b", "a"),
    ],
)
def test_a_bad_archive_leaves_nothing(tmp_path, data):
    (tmp_path / "bad.zip").write_bytes(data)
    with pytest.raises(ArtifactError):
        unpack(tmp_path / "bad.zip", tmp_path / "data", max_bytes=100)
    assert [path.name for path in tmp_path.iterdir()] == ["bad.zip"]


def test_a_link_in_an_archive_is_refused(tmp_path):
    member = zipfile.ZipInfo("link")
    member.external_attr = 0o120777 << 16
    with zipfile.ZipFile(tmp_path / "bad.zip", "w") as archive:
        archive.writestr(member, "/etc/passwd")
    with pytest.raises(ArtifactError):
        unpack(tmp_path / "bad.zip", tmp_path / "data", max_bytes=100)


def test_the_sample_is_written_once(tmp_path):
    assert {path.name for path in write_trec_sample(tmp_path / "t")} == set(TREC_SAMPLE)
    with pytest.raises(ValidationError, match="exists"):
        write_trec_sample(tmp_path / "t")


def test_the_commands_ask_for_the_licence_and_then_prepare(site, tmp_path):
    words = ["datasets", "prepare", "beir.fiqa_2018", "--url", f"{site[0]}/data.zip", "--sha256", sha("/data.zip")]
    words += ["--cache-dir", str(tmp_path)]
    refused = CliRunner().invoke(agentinputlab, words)
    assert refused.exit_code == 2
    assert "licence" in refused.stderr
    for _ in range(2):  # the second time everything is there already
        done = CliRunner().invoke(agentinputlab, [*words, "--accept-license-review"])
        assert done.exit_code == 0, done.output
    assert (tmp_path / f"beir.fiqa_2018-{sha('/data.zip')[:12]}" / "corpus").read_text() == "hello"


def test_the_cells_are_listed_without_a_network():
    listed = CliRunner().invoke(agentinputlab, ["datasets", "list"])
    assert "embedded.retail" in listed.stdout
    assert '"arena": "tau3.retail"' in CliRunner().invoke(agentinputlab, ["datasets", "show", "tau3.retail"]).stdout
