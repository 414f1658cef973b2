"""The information gain of a question, against values computed by hand."""

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentinputlab.algorithms.clarify._information_gain import entropy_bits, expected_information_gain, normalized
from agentinputlab.contracts import ValidationError

WEIGHTS = st.lists(st.floats(0.001, 1000), min_size=1, max_size=8)


@pytest.mark.parametrize(
    ("weights", "answers", "bits"),
    [
        ([1], ["yes"], 0.0),
        ([1, 1], ["yes", "no"], 1.0),
        ([1, 1, 1, 1], ["a", "b", "c", "d"], 2.0),
        ([1, 1, 1, 1], ["a", "a", "b", "b"], 1.0),
        ([1, 1, 1, 1], ["a", "a", "a", "b"], 0.75 * math.log2(4 / 3) + 0.25 * 2),  # 0.811278
        ([3, 1], ["yes", "no"], 0.8112781244591328),
        ([2, 1, 1], ["x", "y", "y"], 1.0),
        ([2, 1, 1], ["x", "y", "z"], 1.5),
        ([5, 3, 2], ["same", "same", "same"], 0.0),
        ([0, 1], ["yes", "no"], 0.0),
    ],
)
def test_the_gain_is_what_one_computes_by_hand(weights, answers, bits):
    assert expected_information_gain(weights, answers) == pytest.approx(bits, abs=1e-12)


def test_case_and_spacing_make_no_other_answer():
    assert expected_information_gain([1, 1], ["Next  week", " next week "]) == 0.0


@given(weights=WEIGHTS, data=st.data())
def test_the_gain_is_prior_entropy_minus_expected_posterior_entropy(weights, data):
    answers = data.draw(st.lists(st.sampled_from("abc"), min_size=len(weights), max_size=len(weights)))
    probabilities = normalized(weights)
    posterior = 0.0
    for answer in set(answers):
        group = [p for p, given_answer in zip(probabilities, answers, strict=True) if given_answer == answer]
        posterior += sum(group) * entropy_bits(normalized(group))
    gain = expected_information_gain(weights, answers)
    assert gain == pytest.approx(entropy_bits(probabilities) - posterior, abs=1e-9)
    assert 0 <= gain <= entropy_bits(probabilities) + 1e-9


@given(weights=WEIGHTS, factor=st.sampled_from([1e-300, 0.5, 1e300]))
def test_only_ratios_of_weights_count(weights, factor):
    answers = [str(index % 2) for index in range(len(weights))]
    scaled = [weight * factor for weight in weights]
    assert expected_information_gain(scaled, answers) == pytest.approx(
        expected_information_gain(weights, answers), abs=1e-9
    )


@given(st.lists(st.integers(1, 50), min_size=1, max_size=8))
def test_probabilities_are_exact_shares(counts):
    shares = [Fraction(count, sum(counts)) for count in counts]
    assert normalized(counts) == pytest.approx([float(share) for share in shares], rel=1e-12)


@pytest.mark.parametrize("weights", [[], [0, 0], [-1, 2], [math.nan], [math.inf, 1]])
def test_weights_that_are_no_weights_are_refused(weights):
    with pytest.raises(ValidationError, match="weights must be finite numbers >= 0"):
        normalized(weights)


def test_every_hypothesis_needs_an_answer():
    with pytest.raises(ValidationError, match="one entry per weight: 2, got 1"):
        expected_information_gain([1, 1], ["yes"])
