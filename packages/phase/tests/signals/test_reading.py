"""Files in: what is accepted, what is decided, and what is refused with line and column."""

import struct
import sys
import wave

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.io import wavfile

from scpn_phase_orchestrator.exceptions import ExtractorError
from scpn_phase_orchestrator.signals import read_signals
from scpn_phase_orchestrator.signals.matrix_file import read_matrix


def write(tmp_path, data, name="x.csv"):
    path = tmp_path / name
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


@pytest.mark.parametrize(
    "text",
    [
        "a,b\n1,2\n3,4\n",
        "\ufeffa,b\r\n1,2\r\n3,4\r\n",
        "a;b\n1,0;2,0\n3,0;4,0\n",
        "a\tb\n1\t2\n3\t4",
        "a|b\n1|2\n3|4\n",
        '"a","b"\n"1","2"\n"3","4"\n',
        "# a comment, with commas; and more\na,b\n 1 , 2.0\n3e0,+4\n\n",
    ],
)
def test_common_dialects_read_alike(tmp_path, text):
    table = read_signals(write(tmp_path, text), sample_rate=10.0)
    assert table.names == ("a", "b")
    assert table.values.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert table.sample_rate == 10.0


def test_decimal_comma_is_said(tmp_path):
    assert "decimal comma" in read_signals(write(tmp_path, "a;b\n1,5;2\n"), sample_rate=1.0).notes[0]


def test_a_file_without_header_gets_column_names(tmp_path):
    table = read_signals(write(tmp_path, "1\n2\n3\n"), sample_rate=1.0)
    assert table.names == ("column_1",)
    assert table.values[:, 0].tolist() == [1.0, 2.0, 3.0]


def test_missing_cells_become_nan_and_text_columns_are_left_out_with_the_line(tmp_path):
    table = read_signals(write(tmp_path, "a,b,c\n1,NA,x\n,2,y\nnan,3,z\n"), sample_rate=1.0)
    assert table.names == ("a", "b")
    assert np.isnan(table.values).tolist() == [[False, True], [True, False], [True, False]]
    assert any("column 'c' is left out: line 2" in note for note in table.notes)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "x.csv: is empty"),
        (b" \n\n", "is empty"),
        (b"# only\n", "comments only"),
        (b"a,b\n1,2\n3\n", "line 3 has 1 columns, line 1 has 2"),
        (b"a,b\n1,2\n3,4,5\n", "line 3 has 3 columns"),
        (b"a,a\n1,2\n", "columns 1 and 2 are both called 'a'"),
        (b"a\n1\n1e308\n", "line 3, column 'a': 1e308 is larger than 1e\\+150"),
        (b"a\n1\n2\x003\n", "line 3 holds a NUL byte"),
        (b"a\n1\n\xff\n", "line 3 is not UTF-8"),
        ("a\n1\n".encode("utf-16"), "UTF-16"),
        (b"\x7fELF\x02\x01\x01\x00\x00", "NUL byte"),
        (b"a,b\n", "has a header but no rows"),
        (b"a,b\nx,y\n", "no numeric column"),
        (b'a\n"1\n', "line 2: unexpected end of data"),
        (b'a\n"1"2\n', "line 2"),
        (("a" * 200_000 + "\n1\n").encode(), "line 1: field larger than field limit"),
    ],
)
def test_hostile_files_are_refused_in_one_sentence(tmp_path, data, message):
    with pytest.raises(ExtractorError, match=message) as refusal:
        read_signals(write(tmp_path, data), sample_rate=1.0)
    assert len(str(refusal.value)) < 400


def test_a_million_columns_are_refused(tmp_path):
    with pytest.raises(ExtractorError, match="line 1 has 1000000 columns, at most 10000"):
        read_signals(write(tmp_path, "1," * 999_999 + "1\n"), sample_rate=1.0)


def test_a_named_column_that_holds_text_is_an_error(tmp_path):
    path = write(tmp_path, "a,b\n1,2\noops,3\n")
    with pytest.raises(ExtractorError, match="line 3, column 'a': expected a number, got 'oops'"):
        read_signals(path, columns=["a"], sample_rate=1.0)
    with pytest.raises(ExtractorError, match="no column 'bb'; did you mean 'b'"):
        read_signals(path, columns=["bb"], sample_rate=1.0)


@pytest.mark.parametrize("text", ["inf", "-Infinity", "1_000", "0x10", "1e999"])
def test_what_python_calls_a_number_but_people_do_not_is_refused(tmp_path, text):
    with pytest.raises(ExtractorError, match="line 2"):
        read_signals(write(tmp_path, f"a\n{text}\n"), columns=["a"], sample_rate=1.0)


@given(st.binary(max_size=300))
def test_arbitrary_bytes_give_a_table_or_an_extractor_error(tmp_path_factory, data):
    path = write(tmp_path_factory.mktemp("bytes"), data)
    refusal = ""
    table = None
    try:
        table = read_signals(path, sample_rate=1.0)
    except ExtractorError as error:
        refusal = str(error)
    assert refusal.startswith("x.csv") or table.values.shape[1] == len(table.names)


def test_rate_comes_from_the_time_column_and_a_gap_becomes_missing_samples(tmp_path):
    rows = [k for k in range(20) if k not in (7, 8, 9)]
    text = "time,x\n" + "".join(f"{100 + 0.5 * k},{k}\n" for k in rows)
    table = read_signals(write(tmp_path, text))
    assert table.sample_rate == pytest.approx(2.0)
    assert table.start == 100.0
    assert np.flatnonzero(np.isnan(table.values[:, 0])).tolist() == [7, 8, 9]
    assert np.nanmax(np.abs(table.values[:, 0] - np.arange(20))) == 0.0
    assert any("1 gap(s) in time, the longest 2 s (line 8 is" in note for note in table.notes)


def test_irregular_stamps_are_interpolated_and_said(tmp_path):
    rng = np.random.default_rng(0)
    times = np.cumsum(rng.uniform(0.5, 1.5, 200))
    text = "t,x\n" + "".join(f"{t!r},{3 * t + 1!r}\n" for t in times.tolist())
    table = read_signals(write(tmp_path, text))
    assert np.allclose(table.values[:, 0], 3 * table.times + 1)
    assert any("irregular sampling (steps 0.5" in note for note in table.notes)


def test_rows_of_one_time_are_averaged_and_said(tmp_path):
    table = read_signals(write(tmp_path, "t,x\n0,1\n1,2\n1,4\n2,5\n3,6\n"))
    assert table.values[:, 0].tolist() == [1.0, 3.0, 5.0, 6.0]
    assert any("1 row(s) share the time" in note for note in table.notes)


@pytest.mark.parametrize(
    ("stamps", "message"),
    [
        ("0,1 2,2 1,3", "line 4: time runs backwards"),
        ("0,1 0,2", "all rows have the same time"),
        ("0,1 ,2", "line 3: time column 't' has no finite value"),
        ("0,1 soon,2", "line 2: time column 't' must hold numbers or ISO dates, got '0'"),
        ("0,1 1e-9,2 2e-9,3 1000,4", "samples of 1e-09 s would be needed"),
    ],
)
def test_unusable_stamps_are_refused(tmp_path, stamps, message):
    path = write(tmp_path, "t,x\n" + "\n".join(stamps.split(" ")) + "\n")
    with pytest.raises(ExtractorError, match=message):
        read_signals(path, time_column="t")


def test_dates_and_units(tmp_path):
    days = "".join(f"2020-01-{k:02d},{k}\n" for k in range(1, 21))
    table = read_signals(write(tmp_path, "date,x\n" + days))
    assert table.time_unit == "year"
    assert table.sample_rate == pytest.approx(365.25)
    compact = read_signals(write(tmp_path, "date,x\n" + days.replace("-", "")))
    assert compact.sample_rate == table.sample_rate
    seconds = "".join(f"2020-01-01T00:00:{k:02d}Z,{k}\n" for k in range(20))
    assert read_signals(write(tmp_path, "when,x\n" + seconds), time_column="when").sample_rate == pytest.approx(1.0)
    milliseconds = "".join(f"{5 * k},{k}\n" for k in range(20))
    for header, unit in (("time_ms", None), ("clock", "ms")):
        table = read_signals(write(tmp_path, f"{header},x\n" + milliseconds), time_column=header, time_unit=unit)
        assert (table.sample_rate, table.time_unit) == (pytest.approx(200.0), "s")


def test_a_given_rate_wins_over_stamps_and_says_so(tmp_path):
    table = read_signals(write(tmp_path, "t,x\n0,1\n1,2\n"), sample_rate=50.0)
    assert table.sample_rate == 50.0
    assert "the given sample rate replaces the time stamps" in table.notes


@pytest.mark.parametrize("rate", [0.0, -1.0, float("nan"), True])
def test_rate_must_be_positive(tmp_path, rate):
    with pytest.raises(ValueError, match="sample_rate"):
        read_signals(write(tmp_path, "1\n2\n"), sample_rate=rate)


def test_unknown_unit_and_suffix_are_refused(tmp_path):
    with pytest.raises(ValueError, match="time_unit must be one of"):
        read_signals(write(tmp_path, "1\n"), time_unit="fortnight")
    with pytest.raises(ExtractorError, match=r"expected \.csv"):
        read_signals(write(tmp_path, "1\n", "x.xlsx"))


SINE = np.sin(2 * np.pi * 5.0 * np.arange(800) / 400.0)


@pytest.mark.parametrize(
    ("samples", "tolerance"),
    [
        (np.round(SINE * 127 + 128).astype(np.uint8), 0.012),
        (np.round(SINE * 32767).astype(np.int16), 1e-4),
        (np.round(SINE * (2**31 - 1)).astype(np.int32), 1e-9),
        (SINE.astype(np.float32), 1e-7),
        (SINE, 0.0),
    ],
    ids=["8", "16", "32", "float32", "float64"],
)
def test_wav_of_every_width_has_full_scale_one(tmp_path, samples, tolerance):
    path = tmp_path / "x.wav"
    wavfile.write(path, 400, samples)
    table = read_signals(path)
    assert table.sample_rate == 400.0
    assert np.max(np.abs(table.values[:, 0] - SINE)) <= tolerance


def test_wav_with_24_bits_and_two_channels(tmp_path):
    path = tmp_path / "x.wav"
    with wave.open(str(path), "wb") as file:
        file.setnchannels(2)
        file.setsampwidth(3)
        file.setframerate(400)
        values = np.round(SINE * (2**23 - 1)).astype(int)
        file.writeframes(b"".join(struct.pack("<i", v)[:3] + struct.pack("<i", -v)[:3] for v in values.tolist()))
    table = read_signals(path)
    assert table.names == ("ch1", "ch2")
    assert np.allclose(table.values[:, 0], SINE, atol=2e-7)
    assert np.allclose(table.values[:, 1], -SINE, atol=2e-7)
    assert read_signals(path, columns=["ch2"]).names == ("ch2",)
    with pytest.raises(ExtractorError, match="no column 'ch3'"):
        read_signals(path, columns=["ch3"])


@pytest.mark.parametrize("keep", [0, 3, 12, 30, 44])
def test_a_cut_wav_is_refused(tmp_path, keep):
    path = tmp_path / "x.wav"
    wavfile.write(path, 400, SINE.astype(np.float32))
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(ExtractorError, match=r"x\.wav"):
        read_signals(path)


def test_parquet_reads_numbers_dates_and_missing_values(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    path = tmp_path / "x.parquet"
    table = arrow.table({"t": [0.0, 0.5, 1.0, 1.5], "x": [1.0, None, 3.0, 4.0], "n": [1, 2, 3, 4], "s": list("abcd")})
    pyarrow.parquet.write_table(table, path)
    read = read_signals(path)
    assert read.names == ("x", "n")
    assert read.sample_rate == pytest.approx(2.0)
    assert np.isnan(read.values[1, 0])
    assert "columns left out because they hold no numbers: s" in read.notes
    with pytest.raises(ExtractorError, match="column 's' holds string, not numbers"):
        read_signals(path, columns=["s"])
    path.write_bytes(b"PAR1 nonsense")
    with pytest.raises(ExtractorError, match="no readable Parquet file"):
        read_signals(path)


def test_parquet_without_its_extra_names_the_install_line(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"pip install 'ripieno-phase\[parquet\]'"):
        read_signals(write(tmp_path, b"", "x.parquet"))


def test_matrix_files(tmp_path):
    np.save(tmp_path / "m.npy", np.eye(3))
    assert read_matrix(tmp_path / "m.npy").tolist() == np.eye(3).tolist()
    assert read_matrix(write(tmp_path, "1,2\n3,4\n")).tolist() == [[1.0, 2.0], [3.0, 4.0]]
    with pytest.raises(ExtractorError, match="line 2, column 1 is missing"):
        read_matrix(write(tmp_path, "1,2\n,4\n"))
    np.save(tmp_path / "o.npy", np.array([{}], dtype=object), allow_pickle=True)
    for name in ("o.npy", "v.npy", "n.npy"):
        if name != "o.npy":
            np.save(tmp_path / name, np.ones(3) if name == "v.npy" else np.full((2, 2), np.nan))
        with pytest.raises(ExtractorError, match=name):
            read_matrix(tmp_path / name)
    with pytest.raises(ExtractorError, match=r"expected \.csv or \.npy"):
        read_matrix(write(tmp_path, "1", "m.txt"))


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("more_than_memory", b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000, 3), }"),
        ("nested", b"(" * 110),
        ("negative", b"{'descr': '<f8', 'fortran_order': False, 'shape': (-1, 3), }"),
    ],
)
def test_a_hostile_npy_header_is_refused(tmp_path, name, data):
    header = b"\x93NUMPY\x01\x00v\x00" + data.ljust(117) + b"\n"
    with pytest.raises(ExtractorError, match="no readable NPY file"):
        read_matrix(write(tmp_path, header + b"\0" * 240, f"{name}.npy"))


def test_an_archive_called_npy_is_refused(tmp_path):
    with pytest.raises(ExtractorError, match="no readable NPY file"):
        read_matrix(write(tmp_path, b"PK\x03\x04" + b"\0" * 80, "x.npy"))


def test_a_long_double_beyond_the_doubles_is_refused_without_a_numpy_warning(tmp_path):
    if np.finfo(np.longdouble).max == np.finfo(np.float64).max:
        pytest.skip("no wider type here")
    np.save(tmp_path / "l.npy", np.full((2, 2), np.longdouble("1e4000")))
    with pytest.raises(ExtractorError, match=r"l\.npy: value at row 0, column 0 is inf"):
        read_matrix(tmp_path / "l.npy")


@pytest.mark.parametrize("step", [1e-310, 1e-101, 1e101])
def test_steps_whose_powers_are_no_numbers_are_refused(tmp_path, step):
    rows = "".join(f"{k * step!r},{k % 3}\n" for k in range(30))
    with pytest.raises(ExtractorError, match="the usual step between rows is"):
        read_signals(write(tmp_path, "t,a\n" + rows))


def test_an_endless_axis_is_refused_in_a_short_sentence(tmp_path):
    with pytest.raises(ExtractorError, match="at most 50000000 are made") as caught:
        read_signals(write(tmp_path, "t,a\n0,1\n1e-90,2\n2e-90,1\n1e9,3\n"))
    assert len(str(caught.value)) < 200


def test_parquet_columns_of_one_name_are_refused_by_name(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    values = arrow.array([1.0, 2.0])
    pyarrow.parquet.write_table(arrow.table([values, values], names=["a", "a"]), tmp_path / "x.parquet")
    with pytest.raises(ExtractorError, match="two columns are called 'a'"):
        read_signals(tmp_path / "x.parquet")


def test_a_parquet_file_that_would_fill_the_memory_is_refused_by_its_footer(tmp_path, monkeypatch):
    arrow = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    monkeypatch.setattr("scpn_phase_orchestrator.signals.files.MAX_VALUES", 999)
    pyarrow.parquet.write_table(arrow.table({"a": np.zeros(1000)}), tmp_path / "x.parquet")
    with pytest.raises(ExtractorError, match="1000 rows of 1 columns, at most 999 values"):
        read_signals(tmp_path / "x.parquet")
