"""Pages are self-contained, safe, accessible and the same every time; run pages say first whether the run holds."""

import html
import math
import os
import re
import shutil
import subprocess
import sys
import warnings
from html.parser import HTMLParser
from importlib import resources
from pathlib import Path
from xml.etree import ElementTree

import matplotlib as mpl
import pytest
from _runs import reseal_manifest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.figure import Figure as MatplotlibFigure
from rich.console import Console

from ripieno.canonical import canonical_json, content_hash
from ripieno.errors import InputError
from ripieno.receipts import seal
from ripieno.report import (
    FIGURE_STYLE,
    PALETTE,
    Figure,
    Section,
    Table,
    figure_to_svg,
    print_table,
    render_page,
    render_run,
    render_runs,
)
from ripieno.report._nested import tables_of
from ripieno.report._run_page import BINS, _Log
from ripieno.report._text import cell_text
from ripieno.run import RunWriter
from ripieno.verify import verify

DRAWING = """
import matplotlib as mpl
from matplotlib.figure import Figure
from ripieno.report import FIGURE_STYLE, figure_to_svg
with mpl.rc_context(FIGURE_STYLE):
    figure = Figure()
    axes = figure.add_subplot()
    axes.plot([0, 1, 2], [1.0, 0.2, 0.7], marker="o", label="distance")
    axes.fill_between([0, 1, 2], [0, 0, 0], [0.1, 0.2, 0.1], alpha=0.3)
    axes.axhline(0.5, color="black")
    axes.set_title("Distance λ")
    axes.legend(frameon=True)
    svg = figure_to_svg(figure)
"""


def draw() -> str:
    names: dict[str, str] = {}
    exec(DRAWING, names)
    return names["svg"]


class Page(HTMLParser):
    """What a browser would see: elements in order, ids, references, visible text."""

    VOID = frozenset({"meta", "link", "br", "img", "input", "hr"})

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.open: list[str] = []
        self.texts: list[tuple[str, str]] = []
        self.feed(html)
        self.close()
        assert not self.open, f"elements left open: {self.open}"

    def handle_starttag(self, tag, attrs) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append((self.open[-1] if self.open else "", data))

    def all(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.elements if name == tag]

    def text_of(self, tag: str) -> list[str]:
        return [text for name, text in self.texts if name == tag]

    def visible(self) -> str:
        return " ".join(text for tag, text in self.texts if tag not in ("style", "script"))


def contrast(first: str, second: str) -> float:
    """WCAG 2 contrast ratio of two ``#rrggbb`` colours."""

    def luminance(colour: str) -> float:
        channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    bright, dark = sorted((luminance(first), luminance(second)), reverse=True)
    return (bright + 0.05) / (dark + 0.05)


def themes() -> dict[str, dict[str, str]]:
    """The colour variables of the light, dark and printed page."""
    css = (resources.files("ripieno") / "templates" / "page.css").read_text()
    blocks = re.findall(r":root \{([^}]*)\}", css)
    assert len(blocks) == 3
    return {
        name: dict(re.findall(r"--([a-z]+): (#[0-9a-f]{6});", block))
        for name, block in zip(("light", "dark", "print"), blocks, strict=True)
    }


# Figures


def test_figure_has_the_same_bytes_in_every_process() -> None:
    svg = draw()
    assert draw() == svg
    for hash_seed in ("0", "1234"):
        result = subprocess.run(
            [sys.executable, "-c", DRAWING + "\nprint(svg, end='')"],
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "TZ": "Asia/Tokyo"},
            capture_output=True,
            text=True,
            check=True,
        )
        assert result.stdout == svg


def test_figure_is_one_well_formed_element_with_real_text_and_page_colours() -> None:
    svg = draw()
    root = ElementTree.fromstring(svg)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    texts = ["".join(node.itertext()) for node in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "distance" in texts
    assert "Distance λ" in texts
    assert "currentColor" in svg
    assert "var(--paper, #ffffff)" in svg  # the legend's box
    for absent in ("#000000", "<style", "<metadata", "<?xml", "<!DOCTYPE", "font: 9.5px 'DejaVu Sans'"):
        assert absent not in svg
    assert "system-ui" in svg


def test_figure_keeps_its_own_settings_after_saving() -> None:
    figure = MatplotlibFigure(facecolor="red")
    figure.add_subplot().plot([0, 1])
    before = figure.get_facecolor()
    assert figure_to_svg(figure) == figure_to_svg(figure)
    assert figure.get_facecolor() == before


def test_letters_of_formulas_keep_the_font_they_were_measured_with() -> None:
    figure = MatplotlibFigure()
    figure.add_subplot().set_title(r"$\lambda$")
    root = ElementTree.fromstring(figure_to_svg(figure))
    (letter,) = (node for node in root.iter("{http://www.w3.org/2000/svg}tspan") if node.text == "λ")
    assert "font-family: 'DejaVu Sans'" in letter.get("style", "")


@pytest.mark.parametrize("theme", ["light", "dark", "print"])
def test_colours_can_be_told_from_the_paper(theme: str) -> None:
    colours = themes()[theme]
    for name in ("ink", "quiet", "link", "good", "warning", "bad"):
        assert contrast(colours[name], colours["paper"]) >= 4.5, name
        assert contrast(colours[name], colours["tint"]) >= 4.5, name
    for colour in PALETTE:
        assert contrast(colour, colours["paper"]) >= 3.0, colour
    assert contrast("#ffffff", "#000000") == pytest.approx(21.0)  # the measure itself


def test_figure_style_is_accepted_by_matplotlib() -> None:
    with mpl.rc_context(FIGURE_STYLE):
        cycle = mpl.rcParams["axes.prop_cycle"].by_key()["color"]
    assert tuple(cycle) == PALETTE


# Pages


def example_page() -> str:
    svg = draw()
    return render_page(
        title="Distances",
        lead="Two sentences. Or one.",
        sections=[
            Section("First", "One paragraph.\n\nAnother one.", figures=[Figure(svg, "Falls, then rises.", "A curve.")]),
            Section(
                "Second",
                figures=[Figure(svg, "Again.", "The same curve.")],
                tables=[
                    Table(
                        ("Partner", "Episodes", "Distance (m)"),
                        [("kind", 20, 0.1234567), ("rude", None, math.nan)],
                        "By partner",
                    )
                ],
            ),
            Section("Third"),
            Section("Fourth"),
        ],
        footer="Small print.",
    )


def test_page_loads_nothing_and_runs_nothing() -> None:
    page = Page(example_page())
    tags = {tag for tag, _ in page.elements}
    assert tags.isdisjoint({"script", "link", "img", "iframe", "object", "embed", "form", "base"})
    for tag, attributes in page.elements:
        assert not any(name.startswith("on") for name in attributes), tag
        for name in ("src", "href", "xlink:href", "action", "data", "srcset"):
            assert attributes.get(name, "#").startswith("#"), (tag, attributes[name])
    assert "url(" not in (resources.files("ripieno") / "templates" / "page.css").read_text()
    policy = next(a["content"] for a in page.all("meta") if a.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline';")


def test_every_id_is_unique_and_every_reference_has_a_target() -> None:
    html = example_page()
    page = Page(html)
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    references = {a[name][1:] for _, a in page.elements for name in ("href", "xlink:href") if name in a}
    references |= set(re.findall(r"url\(#([^)]+)\)", html))
    references |= {a["aria-labelledby"] for a in page.all("section")}
    assert references <= set(ids)
    assert any(reference.startswith("f2-") for reference in references)


def test_page_can_be_used_without_seeing_it() -> None:
    page = Page(example_page())
    assert page.all("html")[0]["lang"] == "en"
    assert [text for text in page.text_of("title") if text.strip()] == ["Distances"]
    assert [a["aria-label"] for a in page.all("div") if a.get("role") == "img"] == ["A curve.", "The same curve."]
    assert len(page.all("table")) == len(page.all("caption")) == 1
    assert {a["scope"] for a in page.all("th")} == {"col"}
    assert page.text_of("h1") == ["Distances"]
    assert page.text_of("h2") == ["First", "Second", "Third", "Fourth"]
    assert page.all("main")
    assert page.all("nav")
    assert any(a.get("href") == "#content" for a in page.all("a"))
    assert any("width=device-width" in a.get("content", "") for a in page.all("meta"))


def test_page_is_the_same_every_time_and_ends_with_a_newline() -> None:
    assert example_page() == example_page()
    assert example_page().endswith("</html>\n")


def test_paragraphs_and_table_cells_read_as_documented() -> None:
    page = Page(example_page())
    assert [text for text in page.text_of("p") if text.strip()][1:3] == ["One paragraph.", "Another one."]
    assert page.text_of("td") == ["kind", "20", "0.1235", "rude", "–", "–"]
    assert [a.get("class") for a in page.all("td")] == [None, "number", "number"] * 2
    assert [a.get("class") for a in page.all("th")] == [None, "number", "number"]


hostile = st.text(st.characters(codec="utf-8", categories=["L", "N", "P", "S", "Zs"]), min_size=1, max_size=30).map(
    lambda text: f"x{text}</p></td><script>alert('{text}')</script>{{{{ title }}}}&amp;\"x"
)


@settings(max_examples=40, deadline=None)
@given(hostile)
def test_any_text_is_shown_and_never_becomes_markup(text: str) -> None:
    svg = "<svg><title>t</title></svg>"
    page = Page(
        render_page(
            title=text,
            lead=text,
            sections=[Section(text, text, [Figure(svg, text, text)], [Table((text,), [(text,)], text)])],
            footer=text,
        )
    )
    assert not page.all("script")
    assert page.visible().count(text.strip()) >= 8
    assert page.text_of("td") == [text]
    assert next(a for a in page.all("div") if a.get("role") == "img")["aria-label"] == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (math.nan, "–"),
        (True, "yes"),
        (False, "no"),
        (3, "3"),
        (2026, "2026"),
        (12345, "12,345"),
        (-12345, "-12,345"),
        (1.0, "1"),
        (0.123456, "0.1235"),
        (1234.56, "1,234.6"),
        (2e-9, "2e-09"),
        (math.inf, "inf"),
        ("as it is", "as it is"),
    ],
)
def test_values_read_the_same_everywhere(value: object, text: str) -> None:
    assert cell_text(value) == text


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(InputError, match="row 1 of table 'Runs' has 1 cells, expected 2"):
        Table(("a", "b"), [(1, 2), (3,)], "Runs")
    with pytest.raises(InputError, match=r"svg must be one <svg> element, got 'a\.png'"):
        Figure("a.png", "caption", "alt")
    with pytest.raises(InputError, match="alt must describe the figure 'caption'"):
        Figure("<svg/>", "caption", " ")


# Terminal


def printed(table: Table, **settings) -> str:
    console = Console(width=60, **settings)
    with console.capture() as capture:
        print_table(table, console)
    return capture.get()


def test_printed_table_aligns_numbers_and_takes_brackets_as_text() -> None:
    text = printed(Table(("Name", "[n]"), [("a[red]b", 1), ("c", 20000)], "All [things]"))
    lines = [line.rstrip() for line in text.splitlines()]
    assert "All [things]" in text
    assert "a[red]b" in text
    assert "[n]" in text
    one, many = (next(line for line in lines if line.endswith(end)) for end in (" 1", "20,000"))
    assert len(one) == len(many)


def test_printed_table_cannot_command_the_terminal() -> None:
    text = printed(Table(("h\x1b[1m",), [("v\x1b[2J\u202e",)], "c\x1b[31m"))
    assert all(character.isprintable() or character == "\n" for character in text)
    assert "v\\x1b[2J\\u202e" in text


def test_printed_table_has_colour_only_for_a_terminal_that_wants_it(monkeypatch: pytest.MonkeyPatch) -> None:
    table = Table(("a",), [("b",)], "c")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[" in printed(table, force_terminal=True, color_system="standard")
    assert "\x1b[" not in printed(table, force_terminal=False)
    monkeypatch.setenv("NO_COLOR", "1")
    assert not re.search(r"\x1b\[[0-9;]*3[0-7]m", printed(table, force_terminal=True))


def test_printed_table_goes_to_standard_output_by_default(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(Table(("Name",), [("value",)]))
    captured = capsys.readouterr()
    assert "value" in captured.out
    assert captured.err == ""


# Run pages


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    source = tmp_path / "cell.yaml"
    source.write_text("task: push\n")
    folder = tmp_path / "run"
    with RunWriter(
        folder,
        system="chamber",
        kind="cell",
        config={"task": "push", "safety": {"cbf_gamma": 5.0, "partners": ["kind", "rude"]}, "grid": [{"x": 1}]},
        seeds={"root": 20261129},
        inputs={"cell.yaml": source},
    ) as run:
        for step in range(300):
            run.event("step", reward=step / 7)
            if step % 50 == 0:
                run.event("braking", margin=0.25)
        run.artifact("tables/table.json", "{}\n")
        run.finish(summary={"success_rate": 0.9375, "contacts": 0})
    return folder


def test_run_page_shows_verdict_results_settings_files_and_machine(run_folder: Path) -> None:
    html = render_run(run_folder)
    page = Page(html)
    visible = page.visible()
    order = ["Complete.", "Results", "What ran", "Configuration", "Events", "Inputs and artifacts", "Verification"]
    positions = [visible.index(word) for word in order]
    assert positions == sorted(positions)
    report = verify(run_folder)
    cells = page.text_of("td")
    for expected in (
        *("success_rate", "0.9375", "contacts", "safety.cbf_gamma", "5.0", "kind, rude", "grid[0].x"),
        *("root", "20261129", "cell.yaml", "tables/table.json", "step", "300", "braking", "6", "cpu model", "python"),
        *(report.digest, *(check.name for check in report.checks)),
    ):
        assert expected in cells, expected
    assert f"ripieno verify run --expect {report.digest}" in visible
    assert "Timeline of 307 events by kind: step 300, braking 6, artifact written 1." in html


def test_records_of_one_shape_become_tables_and_the_rest_names_and_values() -> None:
    few, many = {"rate": 0.5, "deep": {"n": 2}}, {f"field_{index}": index for index in range(9)}
    tables = tables_of(
        {
            "plain": 10**400,
            "by_partner": {"kind": few, "rude": {"rate": 0.25, "deep": {"n": 3}}},
            "as_list": [few, few],
            "wide": {"a": many, "b": many},
            "alone": {"only": few},
            "mixed": {"a": few, "b": many},
            "half": {"a": few, "b": 3},
        },
        "All",
    )
    first, by_partner, as_list, wide = tables
    assert first.rows[0] == ("plain", "1" + "0" * 398 + "…")
    assert [name for name, _ in first.rows[:3]] == ["plain", "alone.only.rate", "alone.only.deep.n"]
    assert ("half.b", "3") in first.rows
    assert ("mixed.b.field_8", "8") in first.rows
    assert by_partner == Table(("", "rate", "deep.n"), [("kind", "0.5", "2"), ("rude", "0.25", "3")], "by partner")
    assert [row[0] for row in as_list.rows] == ["0", "1"]
    assert wide.headers == ("", "a", "b")
    assert wide.rows[8] == ("field 8", "8", "8")


@pytest.mark.parametrize(
    ("partners", "headers"),
    [(("kind", None), ("", "kind", "–")), (("kind", "kind"), ("", "0", "1")), (("1", "2"), ("", "0", "1"))],
)
def test_columns_are_called_by_the_text_that_tells_records_apart(
    partners: tuple[object, ...], headers: tuple[str, ...]
) -> None:
    numbers = {f"field_{index}": index for index in range(9)}
    (table,) = tables_of({"pairs": [{**numbers, "partner": partner} for partner in partners]}, "All")
    assert table.headers == headers
    assert ("partner" in [row[0] for row in table.rows]) == (headers == ("", "0", "1"))


def test_run_page_is_the_same_every_time_and_changes_nothing(run_folder: Path) -> None:
    before = verify(run_folder)
    assert render_run(run_folder) == render_run(run_folder)
    assert verify(run_folder) == before
    assert before.ok


def test_page_of_a_changed_run_says_so_first(run_folder: Path) -> None:
    (run_folder / "tables" / "table.json").write_text("[]\n")
    page = Page(render_run(run_folder))
    assert page.text_of("strong") == ["Tampered."]
    assert "First problem: tables/table.json" in page.visible()
    assert "does not hold" in page.text_of("td")


@pytest.mark.parametrize("name", ["run.json", "events.jsonl"])
def test_page_of_a_run_with_a_broken_record_is_still_a_page(run_folder: Path, name: str) -> None:
    path = run_folder / name
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    page = Page(render_run(run_folder))
    assert page.text_of("strong") == ["Tampered."]
    if name == "events.jsonl":
        assert "The log cannot be read to its end: line" in page.visible()
        assert "success_rate" in page.text_of("td")
    else:
        assert "success_rate" not in page.visible()  # nothing of a broken manifest is repeated as fact


def test_page_of_a_failed_run_shows_its_error_as_text(tmp_path: Path) -> None:
    def fail() -> None:
        with RunWriter(tmp_path / "run", system="chamber", kind="cell", config={}) as run:
            run.event("started")
            raise ValueError("no partner <script>alert(1)</script>")

    with pytest.raises(ValueError, match="partner"):
        fail()
    page = Page(render_run(tmp_path / "run"))
    assert page.text_of("strong") == ["Failed."]
    assert "ValueError: no partner <script>alert(1)</script>" in page.text_of("td")
    assert not page.all("script")


def test_page_of_a_run_that_still_goes_is_marked_as_interrupted(tmp_path: Path) -> None:
    with RunWriter(tmp_path / "run", system="chamber", kind="cell", config={}) as run:
        run.event("started")
        run.artifact("half.csv", "a,b\n")
        shutil.copytree(tmp_path / "run", tmp_path / "killed")  # what a SIGKILL would leave
        run.finish()
    page = Page(render_run(tmp_path / "killed"))
    assert page.text_of("strong") == ["Interrupted."]
    assert {"half.csv", "started", "running"} <= set(page.text_of("td"))


def test_well_sealed_nonsense_in_a_manifest_is_shown_as_text(tmp_path: Path) -> None:
    import json

    with RunWriter(tmp_path / "run", system="chamber", kind="cell", config={}) as run:
        run.finish()
    path = tmp_path / "run" / "run.json"
    manifest = json.loads(path.read_text())
    del manifest["receipt_sha256"]
    manifest |= {"started_at": "<b>soon</b>", "machine": {"cpu_model": {"a": [1]}}, "inputs": {"x": {"size": "big"}}}
    manifest |= {"git": {"sha": 5}, "artifacts": {"y": {}}, "versions": {"numpy": None}}
    path.write_bytes(canonical_json(seal(manifest)) + b"\n")
    page = Page(render_run(tmp_path / "run"))
    assert page.text_of("strong") == ["Tampered."]
    assert "<b>soon</b>" in page.text_of("td")


@pytest.mark.parametrize("kind", ["$\\foo$", "a $\\frac{$", "costs $5 or $6", "日本語 🙂", "</text><script>x</script>"])
def test_any_kind_of_event_is_drawn_as_it_is_called(kind: str, tmp_path: Path) -> None:
    with RunWriter(tmp_path / "run", system="s", kind="k", config={}) as run:
        run.event(kind)
        run.finish()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        page = render_run(tmp_path / "run")
    figure = page[page.index("<svg") : page.index("</svg>")]
    assert html.escape(kind, quote=False) in figure


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("started_at", "0001-01-01T00:00:00+23:59"),
        ("started_at", "9999-12-31T23:59:59-23:59"),
        ("artifacts", {"table.csv": "no record"}),
        ("inputs", {"data": 7}),
        ("config", {"$float": "1.0"}),
        ("summary", {"$int": "9007199254740993"}),
        ("summary", {"$float": "x"}),
    ],
)
def test_page_of_a_forged_manifest_is_still_a_page(member: str, value: object, small_run: Path) -> None:
    reseal_manifest(small_run, {member: value} | ({"config_sha256": content_hash(value)} if member == "config" else {}))
    assert "Tampered." in render_run(small_run)
    assert "Not all hold." in render_runs([small_run])


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is no run"):
        render_run(tmp_path)
    with pytest.raises(InputError, match="no such file or folder"):
        render_run(tmp_path / "missing")
    with pytest.raises(InputError, match="at least one run folder"):
        render_runs([])


def test_page_of_several_runs_names_the_one_that_does_not_hold(run_folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(run_folder, other)
    assert Page(render_runs([run_folder, other])).text_of("strong") == ["All hold."]
    (other / "added").touch()
    page = Page(render_runs([run_folder, other]))
    assert page.text_of("strong") == ["Not all hold."]
    assert "other: added" in page.visible()
    assert "other (does not hold)" in page.text_of("th")
    assert page.text_of("td").count("0.9375") == 2


def test_runs_of_one_name_are_told_apart_by_their_parents(run_folder: Path, tmp_path: Path) -> None:
    other = shutil.copytree(run_folder, tmp_path / "second" / "run")
    cells = Page(render_runs([run_folder, other])).text_of("td")
    assert {f"{tmp_path.name}/run", "second/run"} <= set(cells)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=3 * BINS), st.integers(1, 5))
def test_timeline_counts_every_event_in_the_stretch_where_it_was_recorded(kinds: list[str], repeat: int) -> None:
    log = _Log()
    lines = kinds * repeat
    for kind in lines:
        log.add(kind)
    assert log.lines == len(lines)
    for kind, counts in log.counts.items():
        expected = [
            lines[start : start + log.bin_lines].count(kind) for start in range(0, BINS * log.bin_lines, log.bin_lines)
        ]
        assert counts == expected


def test_importing_the_report_does_not_import_heavy_packages() -> None:
    code = (
        "import sys, ripieno.report; print([m for m in ('matplotlib', 'numba', 'rich', 'jinja2') if m in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
