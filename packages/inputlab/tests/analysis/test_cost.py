"""What is unknown makes the total unknown, never zero."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentinputlab.analysis import CallBound, bound_cost
from agentinputlab.contracts.errors import ValidationError

ROWS = st.builds(
    CallBound,
    purpose=st.just("agent"),
    slot=st.just("a"),
    model_calls=st.integers(0, 100),
    input_tokens=st.none() | st.integers(0, 10**6),
    output_tokens=st.none() | st.integers(0, 10**6),
    input_price=st.none() | st.floats(0.0, 100.0),
    output_price=st.none() | st.floats(0.0, 100.0),
)


@given(st.lists(ROWS, max_size=5))
def test_a_total_is_known_exactly_when_every_part_is(rows):
    total = bound_cost(rows)
    assert total.model_calls == sum(row.model_calls for row in rows)
    assert (total.input_tokens is None) == any(row.input_tokens is None for row in rows)
    assert (total.cost is None) == any(row.cost is None for row in rows)


def test_a_negative_bound_is_refused():
    with pytest.raises(ValidationError, match="output_tokens of 'agent'"):
        CallBound("agent", "a", 1, 1, -1)
