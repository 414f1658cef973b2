"""A chain names the first line that does not hold, and tells half a line from a changed one."""

import errno
import json
import os
import tracemalloc
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import pytest
from _runs import record_fsync
from hypothesis import given, settings
from hypothesis import strategies as st

from ripieno.canonical import canonical_json, content_hash
from ripieno.chain import (
    GENESIS,
    MAX_LINE_BYTES,
    ChainBroken,
    ChainWriter,
    Entry,
    LineFormat,
    verify_chain,
    walk_chain,
)
from ripieno.errors import InputError, IntegrityError, RipienoError, StorageError


@pytest.fixture
def chain(tmp_path: Path) -> Path:
    """Four records and a closing record."""
    writer = ChainWriter(tmp_path / "chain")
    for number in range(4):
        writer.append({"n": number})
    writer.close({"end": True})
    return tmp_path / "chain"


@pytest.fixture
def open_chain(tmp_path: Path) -> Path:
    """Four records of a writer that died."""
    writer = ChainWriter(tmp_path / "chain")
    for number in range(4):
        writer.append({"n": number})
    writer.abandon()
    return tmp_path / "chain"


def lines(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines(keepends=True)


def broken(path: Path) -> ChainBroken:
    with pytest.raises(ChainBroken) as caught:
        verify_chain(path)
    return caught.value


def test_lines_are_what_the_documentation_says(chain: Path) -> None:
    previous = GENESIS
    for number, line in enumerate(lines(chain)):
        value = json.loads(line)
        digest = value.pop("hash")
        member = {"closing": {"end": True}} if number == 4 else {"payload": {"n": number}}
        assert value == {**member, "previous": previous, "sequence": number}
        assert digest == content_hash(value)
        assert line == canonical_json({**value, "hash": digest}) + b"\n"
        previous = digest


def test_a_whole_chain_verifies(chain: Path) -> None:
    report = verify_chain(chain)
    assert (report.entries, report.closing, report.torn_bytes) == (5, {"end": True}, 0)
    assert report.head == json.loads(lines(chain)[-1])["hash"]
    assert report.size == chain.stat().st_size
    assert [dict(entry.payload) for entry in walk_chain(chain)][:4] == [{"n": n} for n in range(4)]


def test_an_empty_chain_is_open(tmp_path: Path) -> None:
    ChainWriter(tmp_path / "chain").abandon()
    report = verify_chain(tmp_path / "chain")
    assert (report.entries, report.head, report.closing, report.size) == (0, GENESIS, None, 0)


def test_every_flipped_byte_is_found_in_its_line(chain: Path) -> None:
    data = chain.read_bytes()
    starts = [0]
    for line in lines(chain):
        starts.append(starts[-1] + len(line))
    for place in range(len(data)):
        chain.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        found = broken(chain)
        assert found.start <= place <= found.end, place
        assert found.start == starts[found.line - 1]


def test_every_flipped_byte_of_whole_lines_of_an_open_chain_is_found(open_chain: Path) -> None:
    data = open_chain.read_bytes()
    for place in range(len(data)):
        for mask in (1, 0x20, 0x80):
            open_chain.write_bytes(data[:place] + bytes([data[place] ^ mask]) + data[place + 1 :])
            broken(open_chain)


@pytest.mark.parametrize("closed", [True, False])
def test_a_cut_is_half_a_line_or_an_open_chain(closed: bool, chain: Path) -> None:
    data, whole = chain.read_bytes(), lines(chain)
    if not closed:
        data = b"".join(whole[:-1])
    for length in range(len(data)):
        chain.write_bytes(data[:length])
        report = verify_chain(chain)
        assert report.closing is None
        n_whole = data[:length].count(b"\n")
        assert report.entries == n_whole
        assert report.torn_bytes == length - sum(map(len, whole[:n_whole]))


@pytest.mark.parametrize(
    ("name", "attack", "line"),
    [
        ("removed first line", lambda x: x[1:], 1),
        ("removed line", lambda x: x[:1] + x[2:], 2),
        ("swapped lines", lambda x: [x[0], x[2], x[1], *x[3:]], 2),
        ("doubled line", lambda x: [*x[:2], x[1], *x[2:]], 3),
        ("line after the closing record", lambda x: [*x, x[0]], 6),
        ("half a line after the closing record", lambda x: [*x, x[0][:20]], 6),
        ("closing record in the middle", lambda x: [x[0], x[4], *x[1:4]], 2),
        ("blank line", lambda x: [x[0], b"\n", *x[1:]], 2),
        ("carriage return", lambda x: [x[0][:-1] + b"\r\n", *x[1:]], 1),
        ("space", lambda x: [x[0].replace(b":", b": ", 1), *x[1:]], 1),
        ("garbage at the end of an open chain", lambda x: [*x[:4], b"garbage"], 5),
        ("lost line feed and more", lambda x: [*x[:3], x[3][:-1] + b"x"], 4),
        ("joined lines", lambda x: [x[0], x[1][:-1] + x[2], *x[3:]], 2),
        ("deep nesting", lambda x: [x[0], b"[" * 10**5 + b"\n", *x[1:]], 2),
        ("deep nesting in half a line", lambda x: [*x[:4], b'{"hash":"' + b'","a":[' + b"[" * 10**5], 5),
        ("not an object", lambda x: [b"[1]\n", *x[1:]], 1),
        ("bad UTF-8", lambda x: [x[0].replace(b"n", b"\xff", 1), *x[1:]], 1),
    ],
)
def test_an_edited_chain_is_refused_at_the_line(
    name: str, attack: Callable[[list[bytes]], list[bytes]], line: int, chain: Path
) -> None:
    chain.write_bytes(b"".join(attack(lines(chain))))
    assert broken(chain).line == line, name


def forge(line: bytes, **changes: object) -> bytes:
    value = {key: item for key, item in json.loads(line).items() if key != "hash"} | changes
    return canonical_json({**value, "hash": content_hash(value)}) + b"\n"


@pytest.mark.parametrize(
    "changes",
    [{"sequence": 5}, {"sequence": True}, {"previous": "0" * 64}, {"extra": 1}, {"payload": [1]}, {"closing": {}}],
)
def test_a_line_with_a_fitting_hash_but_another_place_or_form_is_refused(
    changes: dict[str, object], chain: Path
) -> None:
    whole = lines(chain)
    chain.write_bytes(whole[0] + forge(whole[1], **changes) + b"".join(whole[2:]))
    assert broken(chain).line == 2


def test_a_rewritten_line_breaks_the_next_one(chain: Path) -> None:
    whole = lines(chain)
    chain.write_bytes(whole[0] + forge(whole[1], payload={"n": 99}) + b"".join(whole[2:]))
    assert broken(chain).line == 3


def test_a_chain_of_another_owner_is_refused_at_line_1(tmp_path: Path) -> None:
    writer = ChainWriter(tmp_path / "chain", genesis="a" * 64)
    writer.append({})
    writer.close()
    assert verify_chain(tmp_path / "chain", genesis="a" * 64).entries == 2
    assert broken(tmp_path / "chain").line == 1


def test_a_line_without_end_is_refused_without_reading_it_all(tmp_path: Path) -> None:
    with (tmp_path / "chain").open("wb") as stream:
        stream.write(b'{"hash":"')
        stream.truncate(2**31)
    tracemalloc.start()
    found = broken(tmp_path / "chain")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (found.line, found.end) == (1, MAX_LINE_BYTES + 1)
    assert peak < 3 * MAX_LINE_BYTES


def test_zero_bytes_at_the_end_are_what_a_power_failure_leaves(open_chain: Path) -> None:
    whole = lines(open_chain)
    open_chain.write_bytes(b"".join(whole[:3]) + b"\0" * 100)
    assert (verify_chain(open_chain).entries, verify_chain(open_chain).torn_bytes) == (3, 100)
    open_chain.write_bytes(b"".join(whole[:2]) + whole[2][:30] + b"\0" * 100)
    assert verify_chain(open_chain).entries == 2


def test_memory_does_not_grow_with_the_chain(tmp_path: Path) -> None:
    def peak(n_lines: int) -> int:
        path = tmp_path / str(n_lines)
        writer = ChainWriter(path, "never")
        for number in range(n_lines):
            writer.append({"number": number, "text": "x" * 100})
        writer.close()
        tracemalloc.start()
        verify_chain(path)
        result = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return result

    assert peak(8000) < 1.1 * peak(500)


# Writing


def test_a_refused_payload_changes_nothing(tmp_path: Path) -> None:
    writer = ChainWriter(tmp_path / "chain")
    writer.append({"n": 1})
    for payload in ({"x": float("nan")}, {"x": object()}, {"x": "y" * MAX_LINE_BYTES}):
        with pytest.raises(InputError):
            writer.append(payload)
    writer.append({"n": 2})
    writer.close()
    assert [dict(entry.payload) for entry in walk_chain(tmp_path / "chain")] == [{"n": 1}, {"n": 2}, {}]


def test_a_line_that_cannot_be_made_durable_is_not_in_the_chain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken_disk(descriptor: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    writer = ChainWriter(tmp_path / "chain", "always")
    writer.append({"n": 1})
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", broken_disk)
        for act in (lambda: writer.append({"n": 2}), writer.close, writer.sync):
            with pytest.raises(StorageError, match="Input/output error"):
                act()
    assert verify_chain(tmp_path / "chain").entries == 1
    writer.append({"n": 3})
    writer.close()
    assert [dict(entry.payload) for entry in walk_chain(tmp_path / "chain")] == [{"n": 1}, {"n": 3}, {}]


def test_a_closed_chain_takes_nothing_more(chain: Path, tmp_path: Path) -> None:
    writer = ChainWriter(tmp_path / "other")
    writer.close()
    for act in (lambda: writer.append({}), writer.close):
        with pytest.raises(RipienoError, match="closed"):
            act()
    with pytest.raises(RipienoError, match="closed"):
        ChainWriter.resume(chain)


def test_an_existing_file_is_not_overwritten(chain: Path) -> None:
    before = chain.read_bytes()
    with pytest.raises(FileExistsError):
        ChainWriter(chain)
    assert chain.read_bytes() == before


def test_an_unknown_policy_is_refused_before_a_file_is_made(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="'sometimes'"):
        ChainWriter(tmp_path / "chain", "sometimes")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="'sometimes'"):
        ChainWriter.resume(tmp_path / "chain", "sometimes")  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("policy", ["always", "batch", "never"])
def test_every_policy_hands_each_line_to_the_system_at_once(policy, tmp_path: Path) -> None:
    writer = ChainWriter(tmp_path / "chain", policy)
    for number in range(70):
        writer.append({"n": number})
        assert (tmp_path / "chain").read_bytes().count(b"\n") == number + 1
    writer.close()
    assert verify_chain(tmp_path / "chain").entries == 71


@pytest.mark.parametrize(("policy", "syncs"), [("always", 70), ("batch", 2), ("never", 0)])
def test_lines_are_made_durable_as_often_as_the_policy_says(
    policy, syncs: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = ChainWriter(tmp_path / "chain", policy)
    synced = record_fsync(monkeypatch)
    for number in range(70):
        writer.append({"n": number})
    assert [path.name for path in synced] == ["chain"] * syncs
    writer.close()
    assert len(synced) == syncs + 1


@settings(max_examples=30, deadline=None)
@given(cut=st.integers(0, 10**6))
def test_a_torn_chain_is_continued_behind_its_last_whole_line(cut: int, tmp_path_factory) -> None:
    path = tmp_path_factory.mktemp("chain") / "chain"
    writer = ChainWriter(path)
    for number in range(4):
        writer.append({"n": number})
    writer.abandon()
    whole = path.read_bytes()
    cut %= len(whole) + 1
    os.truncate(path, cut)
    writer = ChainWriter.resume(path)
    assert writer.sequence == whole[:cut].count(b"\n")
    writer.append({"more": True})
    writer.close()
    payloads = [dict(entry.payload) for entry in walk_chain(path)]
    assert payloads == [{"n": n} for n in range(whole[:cut].count(b"\n"))] + [{"more": True}, {}]


def test_a_changed_chain_is_not_continued(open_chain: Path) -> None:
    data = bytearray(open_chain.read_bytes())
    data[30] ^= 1
    open_chain.write_bytes(data)
    with pytest.raises(ChainBroken):
        ChainWriter.resume(open_chain)
    assert open_chain.read_bytes() == data


def test_one_writer_at_a_time(open_chain: Path) -> None:
    first = ChainWriter.resume(open_chain)
    with pytest.raises(InputError, match="another writer"):
        ChainWriter.resume(open_chain)
    first.append({})
    first.abandon()
    ChainWriter.resume(open_chain).close()
    assert verify_chain(open_chain).entries == 6


# Other formats of lines


class Numbers(LineFormat):
    """Records of one decimal number after a preamble, each a byte of length, the digits, and a checksum."""

    preamble = b"NUM\n"
    max_line_bytes = 20

    def read(self, stream: BinaryIO) -> bytes:
        length = stream.read(1)
        return length + stream.read(length[0] + 1 if length else 0)

    def encode(self, payload: Mapping[str, Any], previous: str, sequence: int, *, closing: bool) -> tuple[bytes, str]:
        text = b"end" if closing else str(payload["n"]).encode()
        digest = content_hash([previous, text.decode()])
        return bytes([len(text)]) + text + digest[:1].encode(), digest

    def check(self, line: bytes, previous: str | None, sequence: int) -> Entry | None:
        if len(line) < line[0] + 2:
            return None
        text = line[1:-1].decode()
        digest = content_hash([previous, text])
        if digest[:1].encode() != line[-1:]:
            raise IntegrityError("the checksum does not fit")
        is_end = text == "end"
        return Entry(sequence, {} if is_end else {"n": int(text)}, digest, closing=is_end)


NUMBERS = Numbers()


def write_numbers(path: Path, count: int = 3) -> ChainWriter:
    writer = ChainWriter(path, line_format=NUMBERS)
    for number in range(count):
        writer.append({"n": number})
    return writer


def test_a_chain_of_another_format_is_written_walked_and_closed(tmp_path: Path) -> None:
    writer = write_numbers(tmp_path / "chain")
    assert writer.is_open
    writer.close()
    assert not writer.is_open
    assert (tmp_path / "chain").read_bytes().startswith(b"NUM\n\x010")
    report = verify_chain(tmp_path / "chain", line_format=NUMBERS)
    assert (report.entries, report.closing, report.torn_bytes) == (4, {}, 0)
    assert report.size == (tmp_path / "chain").stat().st_size


def test_a_chain_of_another_format_is_continued_behind_its_last_whole_record(tmp_path: Path) -> None:
    write_numbers(tmp_path / "chain").abandon()
    data = (tmp_path / "chain").read_bytes()
    (tmp_path / "chain").write_bytes(data[:-1])
    seen: list[int] = []
    writer = ChainWriter.resume(
        tmp_path / "chain", line_format=NUMBERS, visit=lambda entry: seen.append(entry.payload["n"])
    )
    writer.append({"n": 7})
    writer.abandon()
    assert seen == [0, 1]
    assert [entry.payload["n"] for entry in walk_chain(tmp_path / "chain", line_format=NUMBERS)] == [0, 1, 7]


@pytest.mark.parametrize("length", range(4))
def test_a_file_that_has_not_all_of_its_preamble_is_an_empty_chain(length: int, tmp_path: Path) -> None:
    (tmp_path / "chain").write_bytes(b"NUM\n"[:length])
    report = verify_chain(tmp_path / "chain", line_format=NUMBERS)
    assert (report.entries, report.size, report.torn_bytes) == (0, length, length)
    ChainWriter.resume(tmp_path / "chain", line_format=NUMBERS).abandon()
    assert (tmp_path / "chain").read_bytes() == b"NUM\n"


def test_a_new_chain_begins_with_the_preamble(tmp_path: Path) -> None:
    ChainWriter(tmp_path / "chain", line_format=NUMBERS).abandon()
    assert (tmp_path / "chain").read_bytes() == b"NUM\n"


def test_another_preamble_is_refused(tmp_path: Path) -> None:
    (tmp_path / "chain").write_bytes(b"NUX\n")
    with pytest.raises(ChainBroken, match=r"line 1 \(bytes 0 to 4\): the file does not begin with"):
        verify_chain(tmp_path / "chain", line_format=NUMBERS)


def test_a_changed_record_of_another_format_is_named(tmp_path: Path) -> None:
    write_numbers(tmp_path / "chain").close()
    data = bytearray((tmp_path / "chain").read_bytes())
    data[4 + 3 + 1] = ord("9")
    (tmp_path / "chain").write_bytes(bytes(data))
    with pytest.raises(ChainBroken, match=r"line 2 \(bytes 7 to 10\): the checksum"):
        verify_chain(tmp_path / "chain", line_format=NUMBERS)


def test_a_format_says_how_long_a_record_may_be(tmp_path: Path) -> None:
    writer = write_numbers(tmp_path / "chain")
    with pytest.raises(InputError, match="at most 20 bytes"):
        writer.append({"n": 10**30})
    writer.append({"n": 3})
    writer.close()
    assert verify_chain(tmp_path / "chain", line_format=NUMBERS).entries == 5


def test_a_preamble_that_cannot_be_written_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(StorageError, match="No space"):
        ChainWriter(tmp_path / "chain", line_format=NUMBERS)
    monkeypatch.undo()
    ChainWriter.resume(tmp_path / "chain", line_format=NUMBERS).close()
