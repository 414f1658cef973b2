"""The page of a cell: the answer first, every figure there, nothing loaded from elsewhere."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from chamber.cell.analysis import select, verdicts
from chamber.cell.config import Condition
from chamber.cell.record import CellRecord
from chamber.cell.trace import WALL_STOP
from chamber.cell_report import render_cell_page
from chamber.cell_report.page import headline
from chamber.cell_report.style import SOURCE_STYLES
from chamber.cell_report.trajectories import telling_episode
from concerto.safety.stack import SafetySource
from ripieno.errors import InputError


def test_the_answer_comes_before_the_evidence(small_run):
    page = (small_run.folder / "index.html").read_text()
    answer = "With the safety stack: 0 of 9 episodes with a contact at the ego&#39;s fault"
    assert answer in page
    assert page.index(answer) < page.index("<svg")


def test_page_is_the_same_bytes_every_time(small_run):
    assert render_cell_page(small_run.record) == render_cell_page(small_run.record)


def test_page_loads_nothing_from_elsewhere(small_run):
    page = (small_run.folder / "index.html").read_text()
    loaded = re.findall(r"(?:src|href)\s*=\s*[\"']([^\"']*)[\"']", page)
    assert all(target.startswith("#") for target in loaded)
    assert "<script" not in page
    assert "@import" not in page


def test_every_claim_is_on_the_page_with_its_verdict(small_run):
    page = (small_run.folder / "index.html").read_text()
    for verdict in verdicts(small_run.cell, small_run.record.outcomes):
        claim = verdict.rule.claim.replace("'", "&#39;")
        row = page[page.index(claim) :].split("</tr>")[0]
        assert ("does not hold" if not verdict.holds else "holds") in row


def test_a_claim_that_fails_is_said_to_fail(small_run):
    impossible = small_run.cell.decision_rules[0].model_copy(update={"at_most": -1.0, "claim": "Less than nothing."})
    record = replace(small_run.record, cell=small_run.cell.model_copy(update={"decision_rules": (impossible,)}))
    assert "0 of 1 preregistered claims hold." in headline(record)
    assert "does not hold" in render_cell_page(record)


@pytest.mark.parametrize(
    ("condition", "present", "absent"),
    [
        (Condition.WITH_STACK, "How cautious the stack became", "What safety costs"),
        (Condition.WITHOUT_STACK, "How near they came", "How cautious the stack became"),
    ],
)
def test_a_cell_with_one_condition_has_a_page_too(small_run, condition: Condition, present: str, absent: str):
    rules = tuple(rule for rule in small_run.cell.decision_rules if rule.condition is condition)
    cell = small_run.cell.model_copy(update={"conditions": (condition,), "decision_rules": rules})
    record = CellRecord(cell, small_run.record.config_sha256, tuple(select(small_run.record.outcomes, condition)))
    page = render_cell_page(record)
    assert present in page
    assert absent not in page


def test_every_table_says_what_it_shows(small_run):
    captions = re.findall(r"<caption><div><span[^>]*>Table \d+</span>([^<]*)</div>", render_cell_page(small_run.record))
    assert len(captions) == 7
    assert all(caption.strip() for caption in captions)


def test_every_source_of_a_command_has_words_and_a_colour():
    assert set(SOURCE_STYLES) == {*map(str, SafetySource), WALL_STOP}
    assert len({colour for _, colour in SOURCE_STYLES.values()}) == len(SOURCE_STYLES)


def test_the_episode_that_is_shown_is_chosen_without_looking_at_the_stack(small_run):
    for entry in small_run.cell.partners:
        start = telling_episode(small_run.record.outcomes, entry.label)
        without = select(small_run.record.outcomes, Condition.WITHOUT_STACK, entry.label)
        assert start == telling_episode(without, entry.label)
        at_fault = [outcome.trace.initial_state_seed for outcome in without if outcome.n_at_fault]
        assert not at_fault or start == at_fault[0]


@pytest.mark.slow
@pytest.mark.parametrize(("width", "height"), [(1280, 900), (390, 844)])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_browser_shows_text_and_figures_without_complaint(small_run, width: int, height: int, scheme: str):
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
        complaints: list[str] = []
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: complaints.append(request.url) if request.url[:5] != "file:" else None)
        page.goto((Path(small_run.folder) / "index.html").as_uri())
        assert page.get_by_text("0 of 9 episodes with a contact at the ego's fault").is_visible()
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "the page scrolls sideways"
        ends = page.evaluate(
            "[...document.querySelectorAll('caption')].map(c => c.firstChild.getBoundingClientRect().right)"
        )
        assert ends
        assert max(ends) <= width, "a caption is cut off beside a table that scrolls"
        figures = page.locator("figure svg")
        assert figures.count() == 7
        for index in range(figures.count()):
            box = figures.nth(index).bounding_box()
            assert figures.nth(index).is_visible()
            assert box is not None
            assert min(box["width"], box["height"]) > 100.0
        for text in ("time (s)", "slack λ (m/s²)", "distance (m)", "nominal command, unchanged", "landmark"):
            assert page.locator("svg text", has_text=text).first.is_visible(), text
        ink, paper = page.evaluate(
            "[getComputedStyle(document.querySelector('svg text')).fill,"
            " getComputedStyle(document.body).backgroundColor]"
        )
        assert ink != paper
        assert complaints == []
        browser.close()


def test_a_run_that_was_interrupted_has_no_page(small_run):
    partial = replace(small_run.record, outcomes=small_run.record.outcomes[:5])
    with pytest.raises(InputError, match="only a finished run has a page: this one has 5 of 18 episodes"):
        render_cell_page(partial)
