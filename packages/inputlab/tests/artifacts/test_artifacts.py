"""Pinned files: what is returned is what was hashed, and everything else is refused by name."""

import hashlib
import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentinputlab.artifacts import ArtifactStore, read_pinned, read_pinned_json, read_pinned_text
from agentinputlab.contracts import ArtifactError, ValidationError


def pin(data):
    return hashlib.sha256(data).hexdigest()


@pytest.fixture
def written(tmp_path):
    def written(data):
        path = tmp_path / "artifact"
        path.write_bytes(data)
        return path, pin(data)

    return written


@given(st.binary(max_size=64))
def test_bytes_come_back_as_they_were(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("a") / "artifact"
    path.write_bytes(data)
    assert read_pinned(path, pin(data)) == data


def test_a_file_longer_than_one_read_comes_back_whole(written):
    data = os.urandom(3 * 2**20 + 5)
    assert read_pinned(*written(data)) == data


def test_one_changed_bit_is_refused_with_both_hashes(written):
    path, sha256 = written(b"playbook")
    path.write_bytes(b"playbooK")
    with pytest.raises(ArtifactError, match=f"{pin(b'playbooK')}, pinned is {sha256}"):
        read_pinned(path, sha256)


def test_links_folders_absent_and_large_files_are_refused(written, tmp_path):
    path, sha256 = written(b"12345678")
    link = tmp_path / "link"
    link.symlink_to(path)
    for bad in (link, tmp_path, tmp_path / "absent"):
        with pytest.raises(ArtifactError, match="cannot be read"):
            read_pinned(bad, sha256)
    assert read_pinned(path, sha256, max_bytes=8) == b"12345678"
    with pytest.raises(ArtifactError, match="larger than 7 bytes"):
        read_pinned(path, sha256, max_bytes=7)


@pytest.mark.parametrize("sha256", ["", "abc", "A" * 64, None, 5])
def test_a_pin_must_be_a_hash(sha256, written):
    with pytest.raises(ValidationError, match="64 lowercase hex digits"):
        read_pinned(written(b"x")[0], sha256)


def test_text_is_utf8_and_json_is_strict(written):
    assert read_pinned_text(*written("é".encode())) == "é"
    with pytest.raises(ArtifactError, match="not UTF-8 at byte 1"):
        read_pinned_text(*written(b"a\xff"))
    assert read_pinned_json(*written(json.dumps({"a": [1, None]}).encode())) == {"a": [1, None]}
    for bad in (b'{"a": 1, "a": 2}', b"NaN", b"{} {}", b"\xff"):
        with pytest.raises(ArtifactError, match="not strict JSON"):
            read_pinned_json(*written(bad))


def test_the_store_names_files_by_their_hash_and_notices_changed_ones(tmp_path):
    store = ArtifactStore(tmp_path)
    sha256 = store.put(b"skill")
    assert sha256 == store.put(b"skill") == pin(b"skill")
    assert store.get(sha256) == b"skill"
    (tmp_path / sha256).write_bytes(b"SKILL")
    for touch in (lambda: store.get(sha256), lambda: store.put(b"skill")):
        with pytest.raises(ArtifactError, match="pinned is"):
            touch()
    with pytest.raises(ArtifactError, match="cannot be read"):
        store.get("0" * 64)
    with pytest.raises(ArtifactError, match="must be an existing directory"):
        ArtifactStore(tmp_path / "absent")
