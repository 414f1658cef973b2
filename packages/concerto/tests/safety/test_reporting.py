"""The three-table report: fixed bytes, hashes that notice every change, and a Markdown twin."""

import json
import math
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from concerto.safety.reporting import (
    SCHEMA_VERSION,
    AssumptionRow,
    ConditionRow,
    GapRow,
    ThreeTableReport,
    emit_three_tables,
    parse_three_tables,
)
from ripieno.canonical import INDENTED

EMPTY = ThreeTableReport(table_1=(), table_2=(), table_3=())
EMPTY_HASH = "98e998613e8cd8f6091d95fafae68fc3bae4d2c3bb22c2201e6323313ae5c9c8"
SMALL = ThreeTableReport(
    table_1=(AssumptionRow("A1", "bounded partner acceleration", 3, 1000),),
    table_2=(ConditionRow("pred", "Learn", None, 20, 4, 2),),
    table_3=(GapRow("pred/Learn", -0.5, 0.25, 0.0),),
)
SMALL_HASH = "844ddcbc1f91b4b6b4442a38133eaf024070d609a0ae135990505ee7fefb463d"

texts = st.text(st.characters(codec="utf-8"), max_size=12)
counts = st.integers(0, 10**6)
numbers = st.floats(-1e9, 1e9)
positive = st.floats(0.0, 1e9)
reports = st.builds(
    ThreeTableReport,
    table_1=st.lists(
        st.tuples(texts, texts, counts, counts).map(lambda t: AssumptionRow(t[0], t[1], min(t[2:]), max(t[2:]))),
        max_size=3,
    ).map(tuple),
    table_2=st.lists(
        st.builds(ConditionRow, texts, texts, st.none() | texts, counts, counts, counts, positive, positive),
        max_size=3,
    ).map(tuple),
    table_3=st.lists(st.builds(GapRow, texts, numbers, positive, numbers), max_size=3).map(tuple),
)


def write_json(path, payload) -> None:
    path.write_bytes(INDENTED.dumps(payload))


def test_empty_report_has_four_keys_and_the_documented_hash() -> None:
    assert sorted(json.loads(EMPTY.to_canonical_json())) == ["schema_version", "table_1", "table_2", "table_3"]
    assert EMPTY.content_hash() == EMPTY_HASH


def test_small_report_has_the_documented_hash_and_survives_the_file(tmp_path) -> None:
    assert SMALL.content_hash() == SMALL_HASH
    json_path, _ = emit_three_tables(out_dir=tmp_path / "new" / "folder", report=SMALL)
    assert json_path == tmp_path / "new" / "folder" / "three_tables.json"
    assert json.loads(json_path.read_text())["content_hash"] == SMALL_HASH
    assert parse_three_tables(json_path, require_hash=True) == SMALL
    assert not json_path.read_bytes().endswith(b"\n")


@pytest.mark.parametrize(
    ("table", "field"),
    [("table_1", "violations"), ("table_1", "n_steps")]
    + [("table_2", field) for field in ("n_episodes", "violations", "fallback_fires")],
)
def test_changing_any_count_in_the_file_is_noticed(tmp_path, table, field) -> None:
    path, _ = emit_three_tables(out_dir=tmp_path, report=SMALL)
    payload = json.loads(path.read_text())
    payload[table][0][field] += 1
    write_json(path, payload)
    with pytest.raises(ValueError, match=SMALL_HASH):
        parse_three_tables(path)


@given(reports)
def test_any_report_survives_its_json(report) -> None:
    payload = json.loads(report.to_canonical_json())
    rebuilt = ThreeTableReport.from_jsonable(payload)
    assert rebuilt == report
    assert rebuilt.content_hash() == report.content_hash()


def test_numbers_of_numpy_and_whole_numbers_for_slack_hash_like_plain_ones() -> None:
    row = ConditionRow("pred", "Learn", None, np.int64(20), np.int64(4), np.int64(2), max_slack=0, slack_l2=0)
    assert replace(SMALL, table_2=(row,)).content_hash() == SMALL_HASH


def test_file_is_ascii_with_sorted_keys_and_two_spaces(tmp_path) -> None:
    report = replace(EMPTY, table_1=(AssumptionRow("A1", "λ ≥ 0", 0, 1),))
    path, _ = emit_three_tables(out_dir=tmp_path, report=report)
    text = path.read_text(encoding="ascii")
    assert text.startswith('{\n  "content_hash": "')
    assert '"description": "\\u03bb \\u2265 0",\n' in text


def test_markdown_layout_is_exact(tmp_path) -> None:
    _, path = emit_three_tables(out_dir=tmp_path, report=SMALL)
    assert path == tmp_path / "three_tables.md"
    assert path.read_text(encoding="utf-8") == (
        f"<!-- content_hash: {SMALL_HASH} -->\n"
        "<!-- schema_version: 3 -->\n"
        "\n"
        "# Three-table safety report (ADR-014)\n"
        "\n"
        "## Table 1 — Per-assumption violation rates\n"
        "\n"
        "| Assumption | Description | Violations | N steps |\n"
        "| --- | --- | --- | --- |\n"
        "| A1 | bounded partner acceleration | 3 | 1000 |\n"
        "\n"
        "## Table 2 — Per-condition violation rates\n"
        "\n"
        "| Predictor | Conformal mode | Vendor compliance | N episodes | Violations | Fallback fires | Max slack "
        "| Slack L2 |\n"
        "| --- | --- | --- | --- | --- | --- | --- | --- |\n"
        "| pred | Learn | — | 20 | 4 | 2 | 0 | 0 |\n"
        "\n"
        "## Table 3 — Conservativeness gap vs. oracle\n"
        "\n"
        "| Condition | λ mean | λ var | Oracle λ mean |\n"
        "| --- | --- | --- | --- |\n"
        "| pred/Learn | -0.5 | 0.25 | 0 |\n"
    )


def test_rate_columns_are_added_on_request(tmp_path) -> None:
    report = replace(SMALL, table_1=(*SMALL.table_1, AssumptionRow("A2", "never checked", 0, 0)))
    _, path = emit_three_tables(out_dir=tmp_path, report=report, rate_columns=True)
    lines = path.read_text(encoding="utf-8").splitlines()
    assert "| A1 | bounded partner acceleration | 3 | 1000 | 0.003 |" in lines
    assert "| A2 | never checked | 0 | 0 | — |" in lines
    assert "| pred | Learn | — | 20 | 4 | 2 | 0 | 0 | 0.2 | 0.1 |" in lines
    widths = [len(re.findall(r"(?<!\\)\|", line)) - 1 for line in lines if line.startswith("|")]
    assert widths == [5, 5, 5, 5, 10, 10, 10, 4, 4, 4]


def test_pipes_and_line_breaks_do_not_break_a_markdown_row(tmp_path) -> None:
    report = replace(EMPTY, table_1=(AssumptionRow("A1", "|u| <= 1\nalways", 0, 1),))
    _, path = emit_three_tables(out_dir=tmp_path, report=report)
    assert "| A1 | \\|u\\| <= 1 always | 0 | 1 |\n" in path.read_text(encoding="utf-8")


def test_a_hashed_version_1_file_is_read(tmp_path) -> None:
    payload = {
        "schema_version": 1,
        "table_1": [],
        "table_2": [
            {"predictor": "gt", "conformal_mode": "noLearn", "n_episodes": 1, "violations": 0, "fallback_fires": 0}
        ],
        "table_3": [],
    }
    path = tmp_path / "three_tables.json"
    write_json(path, {**payload, "content_hash": INDENTED.hash(payload)})
    report = parse_three_tables(path, require_hash=True)
    assert report.schema_version == 1
    assert report.table_2 == (ConditionRow("gt", "noLearn", None, 1, 0, 0, 0.0, 0.0),)


def test_the_hash_covers_unknown_keys(tmp_path) -> None:
    path, _ = emit_three_tables(out_dir=tmp_path, report=SMALL)
    payload = json.loads(path.read_text())
    payload["table_1"][0]["note"] = "added later"
    write_json(path, payload)
    with pytest.raises(ValueError, match="was changed"):
        parse_three_tables(path)


def test_a_missing_hash_is_refused_only_when_required(tmp_path) -> None:
    path = tmp_path / "three_tables.json"
    write_json(path, SMALL.to_jsonable())
    assert parse_three_tables(path) == SMALL
    with pytest.raises(ValueError, match="has no content_hash"):
        parse_three_tables(path, require_hash=True)


def test_missing_fields_are_named() -> None:
    payload = SMALL.to_jsonable()
    del payload["table_3"][0]["lambda_var"]
    with pytest.raises(KeyError, match="lambda_var"):
        ThreeTableReport.from_jsonable(payload)
    with pytest.raises(KeyError, match="table_2"):
        ThreeTableReport.from_jsonable({"table_1": [], "table_3": []})
    assert ThreeTableReport.from_jsonable({"table_1": [], "table_2": [], "table_3": []}).schema_version == (
        SCHEMA_VERSION
    )


@pytest.mark.parametrize(
    ("rows", "place"),
    [
        ({"table_1": (AssumptionRow("A1", "", 2, 1),)}, r"table_1\[0\]\.violations must be at most n_steps = 1, got 2"),
        ({"table_1": (AssumptionRow("A1", "", -1, 1),)}, r"table_1\[0\]\.violations"),
        ({"table_2": (ConditionRow("pred", "Learn", None, 1, 0, -2),)}, r"table_2\[0\]\.fallback_fires"),
        ({"table_2": (ConditionRow("pred", "Learn", None, 1, 0, 0, math.nan),)}, r"table_2\[0\]\.max_slack"),
        ({"table_3": (GapRow("pred/Learn", math.inf, 0.0, 0.0),)}, r"table_3\[0\]\.lambda_mean"),
        ({"table_3": (GapRow("pred/Learn", 0.0, -1.0, 0.0),)}, r"table_3\[0\]\.lambda_var"),
    ],
)
def test_numbers_that_cannot_be_are_refused_before_anything_is_written(tmp_path, rows, place) -> None:
    folder = tmp_path / "report"
    with pytest.raises(ValueError, match=place):
        emit_three_tables(out_dir=folder, report=replace(EMPTY, **rows))
    assert not folder.exists()


def test_impossible_numbers_are_refused_on_reading_too(tmp_path) -> None:
    path = tmp_path / "three_tables.json"
    write_json(path, {**SMALL.to_jsonable(), "table_1": [AssumptionRow("A1", "", 2, 1).to_jsonable()]})
    with pytest.raises(ValueError, match=r"table_1\[0\]\.violations"):
        parse_three_tables(path)


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "{",
        '{"table_1": {}, "table_2": [], "table_3": []}',
        '{"table_1": [1], "table_2": [], "table_3": []}',
        '{"table_1": [], "table_2": [], "table_3": [], "table_3": []}',
        '{"table_1": [], "table_2": [], "table_3": [{"condition": "a", "lambda_mean": NaN}]}',
        '{"table_1": [{"assumption": "", "description": "", "violations": null, "n_steps": 1}]}',
        '{"table_1":[{"assumption":"","description":"","violations":2.5,"n_steps":3}],"table_2":[],"table_3":[]}',
        '{"table_1": [], "table_2": [], "table_3": [], "schema_version": null}',
        '{"table_1": [], "table_2": [], "table_3": [], "schema_version": "new"}',
    ],
)
def test_files_that_are_no_report_are_refused(tmp_path, text) -> None:
    path = tmp_path / "three_tables.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"."):
        parse_three_tables(path)


@pytest.mark.parametrize(
    ("report", "place"),
    [
        (replace(SMALL, table_1=(AssumptionRow("A9", "", 0, 1),)), r"table_1\[0\]\.assumption"),
        (replace(SMALL, table_2=(ConditionRow("guess", "Learn", None, 1, 0, 0),)), r"table_2\[0\]\.predictor"),
        (replace(SMALL, table_2=(ConditionRow("gt", "learn", None, 1, 0, 0),)), r"table_2\[0\]\.conformal_mode"),
        (replace(SMALL, table_3=(GapRow("gt", 0.0, 0.0, 0.0),)), r"table_3\[0\]\.condition"),
    ],
)
def test_unknown_labels_are_free_by_default_and_refused_when_strict(tmp_path, report, place) -> None:
    path, _ = emit_three_tables(out_dir=tmp_path, report=report)
    assert parse_three_tables(path) == report
    with pytest.raises(ValueError, match=place):
        parse_three_tables(path, strict_labels=True)
    with pytest.raises(ValueError, match=place):
        emit_three_tables(out_dir=tmp_path, report=report, strict_labels=True)


def test_known_labels_pass_the_strict_check(tmp_path) -> None:
    path, _ = emit_three_tables(out_dir=tmp_path, report=SMALL, strict_labels=True)
    assert parse_three_tables(path, strict_labels=True) == SMALL


def test_emitting_again_replaces_the_files_and_leaves_nothing_else(tmp_path) -> None:
    emit_three_tables(out_dir=tmp_path, report=EMPTY)
    path, _ = emit_three_tables(out_dir=tmp_path, report=SMALL)
    assert parse_three_tables(path) == SMALL
    assert sorted(file.name for file in tmp_path.iterdir()) == ["three_tables.json", "three_tables.md"]
