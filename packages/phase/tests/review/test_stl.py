"""Signal temporal logic: against its definition, sample by sample."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scpn_phase_orchestrator.monitor.stl import (
    Binary,
    Comparison,
    Formula,
    Not,
    Temporal,
    Until,
    format_stl,
    horizon,
    parse_stl,
    robustness,
    robustness_signal,
)

values = st.floats(-10, 10, allow_nan=False)
intervals = st.one_of(
    st.just((0, None)), st.tuples(st.integers(0, 4), st.integers(0, 4)).map(lambda pair: (pair[0], pair[0] + pair[1]))
)
comparisons = st.builds(
    Comparison, st.sampled_from(["x", "y_1"]), st.sampled_from([">", ">=", "<", "<=", "==", "!="]), values
)
formulas: st.SearchStrategy[Formula] = st.recursive(
    comparisons,
    lambda inner: st.one_of(
        st.builds(Not, inner),
        st.builds(Binary, st.sampled_from(["and", "or", "->"]), inner, inner),
        st.builds(Temporal, st.sampled_from(["always", "eventually"]), intervals, inner),
        st.builds(Until, intervals, inner, inner),
    ),
    max_leaves=6,
)
traces = st.integers(1, 9).flatmap(
    lambda n: st.fixed_dictionaries({name: st.lists(values, min_size=n, max_size=n) for name in ("x", "y_1")})
)


def by_definition(formula: Formula, trace: dict[str, list[float]], t: int) -> float:  # noqa: PLR0911
    """The robustness as the literature writes it, one sample at a time."""
    n = len(trace["x"])

    def window(interval: Any) -> range:
        first, last = interval
        return range(t + first, n if last is None else min(n, t + last + 1))

    match formula:
        case Comparison(metric, op, c):
            x = trace[metric][t]
            return {">": x - c, ">=": x - c, "<": c - x, "<=": c - x, "==": -abs(x - c), "!=": abs(x - c)}[op]
        case Not(operand):
            return -by_definition(operand, trace, t)
        case Binary("and", left, right):
            return min(by_definition(left, trace, t), by_definition(right, trace, t))
        case Binary("or", left, right):
            return max(by_definition(left, trace, t), by_definition(right, trace, t))
        case Binary(_, left, right):
            return max(-by_definition(left, trace, t), by_definition(right, trace, t))
        case Temporal("always", interval, operand):
            return min((by_definition(operand, trace, s) for s in window(interval)), default=math.inf)
        case Temporal(_, interval, operand):
            return max((by_definition(operand, trace, s) for s in window(interval)), default=-math.inf)
        case Until(interval, left, right):
            return max(
                (
                    min([by_definition(right, trace, s), *(by_definition(left, trace, r) for r in range(t, s))])
                    for s in window(interval)
                ),
                default=-math.inf,
            )


def holds(formula: Formula, trace: dict[str, list[float]], t: int) -> bool:  # noqa: PLR0911
    """The Boolean meaning, which knows no numbers."""
    n = len(trace["x"])

    def window(interval: Any) -> range:
        first, last = interval
        return range(t + first, n if last is None else min(n, t + last + 1))

    match formula:
        case Comparison(metric, op, c):
            x = trace[metric][t]
            return {">": x > c, ">=": x >= c, "<": x < c, "<=": x <= c, "==": x == c, "!=": x != c}[op]
        case Not(operand):
            return not holds(operand, trace, t)
        case Binary("and", left, right):
            return holds(left, trace, t) and holds(right, trace, t)
        case Binary("or", left, right):
            return holds(left, trace, t) or holds(right, trace, t)
        case Binary(_, left, right):
            return not holds(left, trace, t) or holds(right, trace, t)
        case Temporal("always", interval, operand):
            return all(holds(operand, trace, s) for s in window(interval))
        case Temporal(_, interval, operand):
            return any(holds(operand, trace, s) for s in window(interval))
        case Until(interval, left, right):
            return any(
                holds(right, trace, s) and all(holds(left, trace, r) for r in range(t, s)) for s in window(interval)
            )


@given(formulas, traces)
def test_robustness_is_what_the_definition_says(formula: Formula, trace: dict[str, list[float]]) -> None:
    expected = [by_definition(formula, trace, t) for t in range(len(trace["x"]))]
    assert robustness_signal(formula, trace).tolist() == expected


@given(formulas, traces)
def test_the_sign_of_robustness_is_the_truth(formula: Formula, trace: dict[str, list[float]]) -> None:
    value = robustness(formula, trace)
    if value > 0:
        assert holds(formula, trace, 0)
    if value < 0:
        assert not holds(formula, trace, 0)


@given(formulas, traces, st.floats(0, 0.999))
def test_a_change_smaller_than_the_robustness_does_not_change_the_truth(
    formula: Formula, trace: dict[str, list[float]], share: float
) -> None:
    margin = robustness(formula, trace)
    if not math.isfinite(margin) or abs(margin) < 1e-6:
        return
    moved = {name: [x + share * abs(margin) for x in xs] for name, xs in trace.items()}
    assert holds(formula, moved, 0) == (margin > 0)


@given(formulas)
def test_a_formula_that_was_written_reads_back(formula: Formula) -> None:
    assert parse_stl(format_stl(formula)) == formula


@pytest.mark.parametrize(
    ("short", "long"),
    [
        ("G[0,5] x > 1", "always[0:5] (x > 1)"),
        ("F x>1", "eventually (x > 1)"),
        ("x > 1 U[2:3] y < 2", "(x > 1) until[2:3] (y < 2)"),
        ("!x > 1 && y < 2 || z == 3", "((not (x > 1)) and (y < 2)) or (z == 3)"),
        ("x > 1 -> y > 1 -> z > 1", "(x > 1) -> ((y > 1) -> (z > 1))"),
        ("always not x > 1 and y > 1", "(always (not (x > 1))) and (y > 1)"),
        ("x > -1e-3", "(x > -.001)"),
    ],
)
def test_operators_bind_as_documented(short: str, long: str) -> None:
    assert parse_stl(short) == parse_stl(long)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "must be a non-empty string"),
        ("x", "expected one of > >= < <= == != at the end"),
        ("x > ", "expected a finite number at the end"),
        ("x > 1 y", r"unexpected text at character 7 \('y'\)"),
        ("(x > 1", r"expected '\)' at the end"),
        ("always[3:1] x > 1", r"the interval \[3:1\] is empty"),
        ("always[0.5:1] x > 1", "expected a number of samples"),
        ("x > 1 ; y > 1", "at character 7: '; y > 1'"),
        ("and > 1", "expected a comparison at character 1"),
        ("x > 1e999", "expected a finite number"),
        ("(" * 100 + "x > 1" + ")" * 100, "nested more than 64"),
        ("not " * 100 + "x > 1", "nested more than 64"),
        (" and ".join(["x > 1"] * 400), "at most 1000 are read"),
    ],
)
def test_a_malformed_formula_is_refused_with_the_place(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_stl(text)


@pytest.mark.parametrize(
    ("trace", "message"),
    [
        ({}, "the trace has no metric 'x'"),
        ({"x": []}, "non-empty array"),
        ({"x": [math.nan]}, "must be finite"),
        ({"x": [[1.0]]}, "non-empty array of real numbers"),
        ({"x": [True]}, "array of real numbers"),
        ({"x": [1.0], "y": [1.0, 2.0]}, "must have one length"),
    ],
)
def test_an_unusable_trace_is_refused_by_metric(trace: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        robustness("x > 0 and y > 0" if "y" in trace else "x > 0", trace)


def test_the_horizon_is_the_last_sample_that_matters() -> None:
    assert horizon(parse_stl("always[0:5] (x > 1 -> eventually[2:7] y > 1)")) == 12
    assert horizon(parse_stl("x > 1")) == 0
    assert horizon(parse_stl("x > 1 until y > 1")) is None


def test_long_windows_over_long_traces_are_exact() -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=2000)
    expected = [x[t : t + 301].min() for t in range(2000)]
    assert robustness_signal("always[0:300] x > 0", {"x": x}).tolist() == expected
