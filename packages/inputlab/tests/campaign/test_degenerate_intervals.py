"""Where every task differs by the same amount, a bootstrap has nothing to draw from: no interval is shown."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from campaign_lab import invoke, lab_plan, run

from agentinputlab.analysis.paired import PairedOutcome, is_known_interval, summarise_pairs
from workers.official_arenas.campaign.figures import difference_figure

SAID = "(no interval: every task differs by the same amount), exact p"


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Two tasks: both won, none different, one won."""
    made: dict[str, Path] = {}
    for name, solved in {"all": ["0", "1"], "none": [], "one": ["1"]}.items():
        root = tmp_path_factory.mktemp(name)
        made[name] = run(lab_plan(root, solve_treatment=solved), root / "out").folder
    return made


@pytest.mark.parametrize(("name", "points"), [("all", "+100.0"), ("none", "+0.0")])
def test_terminal_page_and_table_give_no_interval_of_width_zero(
    folders: dict[str, Path], name: str, points: str
) -> None:
    said = invoke("campaign", "analyze", folders[name]).stdout
    assert f"Difference {points} points {SAID}" in said
    page = re.sub(r"\s+", " ", (folders[name] / "index.html").read_text())
    assert f"{points} to {points}" not in page
    assert "A point without a bar has no interval" in page
    assert "There is no interval: it is found by drawing tasks again" in page


def test_an_interval_that_has_a_width_is_shown(folders: dict[str, Path]) -> None:
    said = invoke("campaign", "analyze", folders["one"]).stdout
    assert "Difference +50.0 points (95 % +0.0 to +100.0)" in said
    assert "no interval" not in (folders["one"] / "index.html").read_text()


def test_the_comparison_of_two_campaigns_says_it_too(folders: dict[str, Path]) -> None:
    said = invoke("campaign", "compare", folders["none"], folders["all"]).stdout
    assert f"task by task, +100.0 {SAID}" in said
    assert "95 %" not in said


def test_the_figure_draws_a_bar_only_where_there_is_an_interval() -> None:
    def row(name: str, interval: list[float]) -> dict[str, Any]:
        return {
            "metric": "terminal_success",
            "treatment": name,
            "slot": "lab",
            "difference": 0.5,
            "difference_interval": interval,
            "difference_bounds": None,
            "unresolved": 0,
            "scored": 2,
        }

    figure = difference_figure([row("known", [0.0, 1.0]), row("unknown", [0.5, 0.5])])
    bars = [line for line in figure.axes[0].lines if line.get_linewidth() == 3.0]
    assert len(bars) == 1
    assert bars[0].get_ydata()[0] == 0


def test_equal_differences_that_are_no_binary_fractions_are_recognised() -> None:
    pairs = [PairedOutcome(str(number), 0.1, 0.8) for number in range(7)]
    assert not is_known_interval(summarise_pairs(pairs).difference_interval)
    assert is_known_interval(summarise_pairs([*pairs, PairedOutcome("x", 0.1, 0.1)]).difference_interval)
