"""The shipped planar configuration learns, beats chance, and is safe beside strangers with the stack on.

`benchmarks/learning_result.py` measures the same and writes the figures.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chamber.cell.config import Condition
from chamber.configs import shipped_config_path
from concerto.training.config import load_config
from concerto.training.learning_signal_check import CheckStatus

BENCHMARKS = Path(__file__).parents[5] / "benchmarks"


@pytest.fixture(scope="module")
def learning() -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCHMARKS))
        patch.delitem(sys.modules, "_learning", raising=False)
        import _learning

        yield _learning


@pytest.fixture(params=[0, 1, 2], ids=lambda seed: f"seed {seed}", scope="module")
def result(learning: Any, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    return learning.measure(request.param, tmp_path_factory.mktemp("learning"))


def test_each_seed_is_compared_with_random_draws_of_its_own(learning: Any):
    draws = {seed: learning.random_ego("ego", seed=seed).act({}).tolist() for seed in learning.SEEDS}
    assert len({tuple(draw) for draw in draws.values()}) == len(draws)


@pytest.mark.slow
def test_a_trained_ego_earns_more_than_one_at_rest(learning: Any, result: Any):
    cfg = load_config(config_path=shipped_config_path(learning.CONFIG))
    assert result.evaluation.trained > learning.untrained_rewards(cfg)["at rest"]


@pytest.mark.slow
def test_the_check_of_the_learning_curve_passes(result: Any):
    assert result.frames == 100_000
    assert result.report.n_episodes == 2000
    assert result.report.status is CheckStatus.PASSED


@pytest.mark.slow
def test_a_trained_ego_beats_a_random_one_by_three_standard_errors(result: Any):
    assert result.training.margin >= 3.0, "the last 100 episodes of the training"
    assert result.evaluation.margin >= 3.0, "new starts, without exploration"


@pytest.mark.slow
def test_with_the_stack_a_trained_ego_has_no_contact_at_its_own_fault_beside_strangers(result: Any):
    assert result.contacts_at_fault(Condition.WITH_STACK) == {"cooperative": 0, "stubborn": 0, "pursuer": 0}
    assert sum(result.contacts_at_fault(Condition.WITHOUT_STACK).values()) >= 5, "the judge can tell the two apart"
    assert all(result.claims.values()), result.claims
