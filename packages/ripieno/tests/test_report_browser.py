"""Pages in a real browser: nothing is loaded, nothing overflows, every theme is the one that was asked for."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from matplotlib.figure import Figure as MatplotlibFigure
from playwright.sync_api import Browser, Page, sync_playwright

from ripieno.report import Figure, Section, Table, figure_to_svg, render_page, render_run
from ripieno.run import RunWriter

pytestmark = pytest.mark.slow

INK = {"light": "rgb(28, 33, 38)", "dark": "rgb(227, 231, 234)"}
PAPER = {"light": "rgb(255, 255, 255)", "dark": "rgb(20, 23, 26)"}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    program = shutil.which("chromium")
    assert program, "these tests need Chromium (scripts/system-packages.sh)"
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture(scope="module", params=["page", "run"])
def file(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pages")
    if request.param == "run":
        with RunWriter(folder / "run", system="chamber", kind="cell", config={"word": "w" * 300}) as run:
            for step in range(50):
                run.event("step", index=step)
            run.artifact("deep/" + "name-" * 20 + ".csv", "a\n")
            run.finish(summary={"success_rate": 0.5})
        html = render_run(run.folder)
    else:
        figure = MatplotlibFigure(figsize=(7.2, 3.0))
        axes = figure.subplots()
        axes.plot([0, 1], [0, 1], label="line")
        axes.set_title("Title λ")
        axes.legend()
        headers = [f"Column {index}" for index in range(12)]
        table = Table(headers, [[1000.0 * index for index in range(12)]] * 3, "A wide one")
        picture = Figure(figure_to_svg(figure), "A line.", "A rising line.")
        section = Section("Heading", "word " * 80 + "\n\n" + "x" * 400, [picture], [table])
        html = render_page(
            title="A page " * 12, lead="Lead.", sections=[section], footer="https://example.org/" + "y" * 300
        )
    path = folder / f"{request.param}.html"
    path.write_text(html)
    return path


def opened(browser: Browser, file: Path, **context) -> tuple[Page, list[str], list[str]]:
    page = browser.new_context(**context).new_page()
    messages: list[str] = []
    requests: list[str] = []
    page.on("console", lambda message: messages.append(message.text))
    page.on("pageerror", lambda error: messages.append(str(error)))
    page.on("request", lambda request: requests.append(request.url))
    page.goto(file.as_uri())
    return page, messages, requests


def test_page_makes_no_request_and_no_complaint(browser: Browser, file: Path) -> None:
    page, messages, requests = opened(browser, file)
    assert requests == [file.as_uri()]
    assert messages == []
    page.context.close()


@pytest.mark.parametrize("width", [320, 375, 800, 1600])
def test_page_never_scrolls_sideways(browser: Browser, file: Path, width: int) -> None:
    page, _, _ = opened(browser, file, viewport={"width": width, "height": 900})
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.context.close()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_figures_and_text_take_the_colours_of_the_theme(browser: Browser, file: Path, theme: str) -> None:
    page, _, _ = opened(browser, file, color_scheme=theme)
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == PAPER[theme]
    assert page.evaluate("getComputedStyle(document.body).color") == INK[theme]
    assert page.evaluate("getComputedStyle(document.querySelector('svg text')).fill") == INK[theme]
    strokes = page.evaluate("[...document.querySelectorAll('svg path')].map(p => getComputedStyle(p).stroke)")
    assert INK[theme] in strokes
    page.context.close()


def test_text_of_figures_stays_inside_them(browser: Browser, file: Path) -> None:
    page, _, _ = opened(browser, file)
    outside = page.evaluate(
        """[...document.querySelectorAll('figure svg')].flatMap(svg => {
            const frame = svg.getBoundingClientRect();
            return [...svg.querySelectorAll('text')]
                .map(text => [text.textContent, text.getBoundingClientRect()])
                .filter(([_, box]) => box.left < frame.left - 1 || box.right > frame.right + 1
                                   || box.top < frame.top - 1 || box.bottom > frame.bottom + 1)
                .map(([text, _]) => text);
        })"""
    )
    assert outside == []
    page.context.close()


def test_keyboard_reaches_the_content_first(browser: Browser, file: Path) -> None:
    page, _, _ = opened(browser, file)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.keyboard.press("Enter")
    assert page.url.endswith("#content")
    page.context.close()


def test_page_prints_dark_on_white_without_its_contents_list(browser: Browser, file: Path, tmp_path: Path) -> None:
    page, _, _ = opened(browser, file, color_scheme="dark")
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).color") == "rgb(0, 0, 0)"
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == PAPER["light"]
    assert page.evaluate("[...document.querySelectorAll('nav')].every(n => getComputedStyle(n).display === 'none')")
    page.pdf(path=tmp_path / "page.pdf")
    assert (tmp_path / "page.pdf").read_bytes().startswith(b"%PDF-")
    page.context.close()
