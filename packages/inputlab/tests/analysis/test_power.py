"""Exact power against counting every outcome, and the search for enough tasks."""

import itertools
import json
import math

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from agentinputlab.analysis import exact_power, exact_sign_test, required_pairs
from agentinputlab.cli._app import agentinputlab
from agentinputlab.contracts.errors import ValidationError


def power_by_counting(pairs, helps, hurts, alpha):
    same = max(0.0, 1.0 - helps - hurts)
    total = 0.0
    for wins, losses in itertools.product(range(pairs + 1), repeat=2):
        if wins + losses <= pairs and exact_sign_test(wins, losses).p_value <= alpha + 1e-12:
            ways = math.comb(pairs, wins) * math.comb(pairs - wins, losses)
            total += ways * helps**wins * hurts**losses * same ** (pairs - wins - losses)
    return total


@settings(max_examples=25, deadline=None)
@given(
    pairs=st.integers(1, 14),
    helps=st.floats(0.0, 0.6),
    hurts=st.floats(0.0, 0.4),
    alpha=st.sampled_from([0.05, 0.01, 0.2]),
)
def test_power_is_the_sum_over_every_way_the_pairs_can_fall(pairs, helps, hurts, alpha):
    assert exact_power(pairs, helps=helps, hurts=hurts, alpha=alpha) == pytest.approx(
        power_by_counting(pairs, helps, hurts, alpha), abs=1e-9
    )


@pytest.mark.parametrize("alpha", [0.05, 0.05 / 3])
def test_without_an_effect_the_test_rejects_no_more_often_than_its_level(alpha):
    for pairs in (5, 20, 60, 200):
        assert exact_power(pairs, helps=0.2, hurts=0.2, alpha=alpha) <= alpha


@pytest.mark.parametrize(("helps", "hurts"), [(0.3, 0.05), (0.5, 0.0), (0.02, 0.2)])
def test_the_number_required_has_the_power_and_keeps_it(helps, hurts):
    pairs = required_pairs(helps=helps, hurts=hurts)
    assert all(exact_power(pairs + more, helps=helps, hurts=hurts) >= 0.8 for more in range(11))
    assert exact_power(pairs - 1, helps=helps, hurts=hurts) < 0.8


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"helps": 0.2, "hurts": 0.2}, "differ"),
        ({"helps": 1.2, "hurts": 0.0}, "helps"),
        ({"helps": 0.7, "hurts": 0.6}, "exceed 1"),
        ({"helps": 0.3, "hurts": 0.1, "power": 1.0}, "power"),
        ({"helps": 0.3, "hurts": 0.1, "alpha": 0.0}, "alpha"),
        ({"helps": 0.1001, "hurts": 0.1}, "20000"),
        ({"helps": math.nan, "hurts": 0.1}, "helps"),
    ],
)
def test_what_cannot_be_planned_is_refused(arguments, named):
    with pytest.raises(ValidationError, match=named):
        required_pairs(**arguments)


@pytest.mark.parametrize("pairs", [0, -1, 20_001, 2.5, True])
def test_power_is_that_of_a_whole_number_of_pairs(pairs):
    with pytest.raises(ValidationError, match="pairs must"):
        exact_power(pairs, helps=0.3, hurts=0.1)


def test_more_treatments_need_more_tasks():
    runner = CliRunner()
    needed = [
        json.loads(runner.invoke(agentinputlab, f"power --helps 0.3 --hurts 0.05 --treatments {n} --json").output)
        for n in (1, 4)
    ]
    assert needed[0]["pairs"] < needed[1]["pairs"]
    assert needed[1]["alpha"] == 0.05 / 4
