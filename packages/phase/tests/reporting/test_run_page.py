"""Pages about runs: the answer first, in words that agree with the verdict."""

import re
from pathlib import Path

import pytest

from scpn_phase_orchestrator.binding import load_binding_spec
from scpn_phase_orchestrator.binding.types import BindingSpec
from scpn_phase_orchestrator.domainpacks import resolve_spec_path
from scpn_phase_orchestrator.reporting import run_page
from scpn_phase_orchestrator.runtime.simulation import SimulationResult, simulate

Grid = tuple[BindingSpec, SimulationResult, SimulationResult]


@pytest.fixture(scope="module")
def grid() -> Grid:
    """The power grid: its spec, open loop and supervised."""
    path = resolve_spec_path("power_grid")
    spec = load_binding_spec(path)
    open_loop, supervised = (
        simulate(spec, steps=400, policy_enabled=enabled, binding_spec_path=path) for enabled in (False, True)
    )
    return spec, open_loop, supervised


def lead_of(page: str) -> str:
    found = re.search(r'<p class="lead">(.*?)</p>', page)
    assert found is not None
    return found[1]


def test_a_comparison_opens_with_the_answer_and_explains_its_measures(grid: Grid):
    spec, open_loop, supervised = grid
    assert open_loop.verdict is not None
    assert supervised.verdict is not None
    page = run_page.render_comparison_page(open_loop, supervised, spec)
    assert lead_of(page) == (
        f"Supervision helped. Open loop: {open_loop.verdict.sentence} Supervised: {supervised.verdict.sentence}"
    )
    text = page[page.index("What supervision changed</h2>") : page.index("<figure>")]
    assert "order parameter R, which is 1 when all its phases agree" in text
    assert "coherence beyond what unrelated phases show by chance" in text
    assert "The score is the weighted mean" in text


def test_the_roles_turned_round_supervision_did_harm_and_equal_runs_differ_in_nothing(grid: Grid):
    spec, open_loop, supervised = grid
    assert lead_of(run_page.render_comparison_page(supervised, open_loop, spec)).startswith("Supervision did harm.")
    same = run_page.render_comparison_page(supervised, supervised, spec)
    assert lead_of(same).startswith("Supervision changed nothing clearly.")


def test_no_regime_is_claimed_for_an_open_loop(grid: Grid):
    spec, open_loop, supervised = grid
    row = re.search(r"<tr><td>open loop</td>.*?</tr>", run_page.render_comparison_page(open_loop, supervised, spec))
    assert row is not None
    assert "not judged" in row[0]
    assert open_loop.final_regime not in row[0]
    assert "Regime: not judged." in run_page.render_run_page(open_loop, spec)
    assert f"Regime: {supervised.final_regime}." in run_page.render_run_page(supervised, spec)


def test_the_page_of_a_run_opens_with_its_verdict(grid: Grid):
    spec, _, supervised = grid
    assert supervised.verdict is not None
    assert lead_of(run_page.render_run_page(supervised, spec)).startswith(supervised.verdict.sentence)


def test_actions_are_listed_and_the_rest_is_counted(grid: Grid, monkeypatch: pytest.MonkeyPatch):
    spec, _, supervised = grid
    assert supervised.history is not None
    total = len(supervised.history.actions)
    assert 5 < total <= run_page.MAX_ACTIONS
    assert "Every action." in run_page.render_run_page(supervised, spec)
    monkeypatch.setattr(run_page, "MAX_ACTIONS", 5)
    assert f"The first 5 actions; {total - 5} more are left out." in run_page.render_run_page(supervised, spec)


def test_captions_want_nothing_of_a_momentary_r(grid: Grid):
    spec, open_loop, supervised = grid
    page = run_page.render_comparison_page(open_loop, supervised, spec)
    assert "low of the bad" not in page
    alts = re.findall(r'role="img" aria-label="([^"]*)"', page)
    assert sum("coherence beyond chance" in alt for alt in alts) == 2


def test_a_run_without_a_step_says_so(s1_path: Path):
    spec = load_binding_spec(s1_path)
    result = simulate(spec, steps=0)
    assert "nothing to judge" in run_page.render_run_page(result, spec)
    with pytest.raises(ValueError, match="runs without a step cannot be compared"):
        run_page.render_comparison_page(result, result, spec)
