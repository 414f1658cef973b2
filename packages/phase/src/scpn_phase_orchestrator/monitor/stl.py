r"""Signal temporal logic over sampled traces: parsing, and how robustly a formula holds.

A formula is built from comparisons of a metric with a number, ``not``, ``and``, ``or``, ``->``, and the temporal
operators ``always``, ``eventually`` and ``until`` (short: ``G``, ``F``, ``U``) with an optional interval of samples::

    always[0:50] (R_0 > 0.3)
    always (R_0 < 0.2 -> eventually[0:20] R_0 >= 0.4)
    (R_1 < 0.9) until[0:100] (R_0 > 0.8)

Intervals count samples and include both ends; without one the operator looks to the end of the trace. A window that
reaches beyond the end is cut there; an empty one satisfies ``always`` and not ``eventually``.

The *robustness* :math:`\rho(\varphi, x, t)` is positive when the formula holds at sample t, negative when it does not,
and its size says by how much every sample may change before the answer does (Donzé and Maler, FORMATS 2010; Fainekos
and Pappas, TCS 2009):

.. math::

    \rho(x > c) &= x_t - c, \qquad \rho(\neg\varphi) = -\rho(\varphi), \qquad
    \rho(\varphi \wedge \psi) = \min(\rho(\varphi), \rho(\psi)) \\
    \rho(G_{[a,b]} \varphi) &= \min_{t + a \le s \le t + b} \rho(\varphi, s), \qquad
    \rho(F_{[a,b]} \varphi) = \max_{t + a \le s \le t + b} \rho(\varphi, s) \\
    \rho(\varphi\, U_{[a,b]} \psi) &= \max_{t + a \le s \le t + b}
        \min\bigl(\rho(\psi, s), \min_{t \le r < s} \rho(\varphi, r)\bigr)
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scpn_phase_orchestrator.exceptions import PolicyError

__all__ = [
    "Binary",
    "Comparison",
    "Formula",
    "Interval",
    "Not",
    "Temporal",
    "Until",
    "comparisons_of",
    "format_stl",
    "horizon",
    "parse_stl",
    "robustness",
    "robustness_signal",
]

MAX_DEPTH = 64
"""Deepest nesting of a formula."""
MAX_TOKENS = 1000
"""Most words, numbers and signs of a formula."""

FloatSignal: TypeAlias = NDArray[np.float64]
Interval: TypeAlias = tuple[int, int | None]
"""First and last sample of a window, relative to now; ``None`` is the end of the trace."""


@dataclass(frozen=True)
class Comparison:
    """A metric against a number; the operator is one of ``> >= < <= == !=``."""

    metric: str
    op: str
    threshold: float


@dataclass(frozen=True)
class Not:
    """The contrary."""

    operand: Formula


@dataclass(frozen=True)
class Binary:
    """Two formulas joined by ``and``, ``or`` or ``->``."""

    op: Literal["and", "or", "->"]
    left: Formula
    right: Formula


@dataclass(frozen=True)
class Temporal:
    """A formula at every sample of a window (``always``) or at one of them (``eventually``)."""

    op: Literal["always", "eventually"]
    interval: Interval
    operand: Formula


@dataclass(frozen=True)
class Until:
    """The left formula holds until, within a window, the right one does."""

    interval: Interval
    left: Formula
    right: Formula


Formula: TypeAlias = Comparison | Not | Binary | Temporal | Until

# --- reading and writing --------------------------------------------------------------------------------------

_TOKEN = re.compile(
    r"\s*(?:(?P<number>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)|(?P<name>[A-Za-z_][A-Za-z0-9_.]*)"
    r"|(?P<symbol>->|>=|<=|==|!=|&&|\|\||[()\[\],:<>!&|]))",
    re.ASCII,
)
_COMPARISONS = (">", ">=", "<", "<=", "==", "!=")
_WORDS = {
    "G": "always", "globally": "always", "F": "eventually", "finally": "eventually", "U": "until", "!": "not",
    "&": "and", "&&": "and", "|": "or", "||": "or", "implies": "->",
}  # fmt: skip


class _Parser:
    """Recursive descent; ``->`` binds weakest (to the right), then ``or``, ``and``, ``until``, then prefixes."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[tuple[str, str, int]] = []
        position, end = 0, len(text.rstrip())
        while position < end:
            match = _TOKEN.match(text, position)
            if match is None:
                rest = text[position:].strip()
                raise PolicyError(f"malformed STL formula at character {text.index(rest, position) + 1}: {rest[:20]!r}")
            kind = cast("str", match.lastgroup)
            word = match[kind]
            self.tokens.append((kind, _WORDS.get(word, word), match.start(kind)))
            position = match.end()
        if len(self.tokens) > MAX_TOKENS:
            raise PolicyError(
                f"malformed STL formula: {len(self.tokens)} words and signs, at most {MAX_TOKENS} are read"
            )
        self.place = 0
        self.depth = 0

    def peek(self) -> str:
        return self.tokens[self.place][1] if self.place < len(self.tokens) else ""

    def take(self, expected: str) -> None:
        if self.peek() != expected:
            raise self.error(f"expected '{expected}'")
        self.place += 1

    def error(self, what: str) -> PolicyError:
        found = self.tokens[self.place] if self.place < len(self.tokens) else None
        where = "at the end" if found is None else f"at character {found[2] + 1} ('{found[1]}')"
        return PolicyError(f"malformed STL formula: {what} {where}")

    def formula(self) -> Formula:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise PolicyError(f"malformed STL formula: nested more than {MAX_DEPTH} levels deep")
        left = self.disjunction()
        if self.peek() == "->":
            self.place += 1
            left = Binary("->", left, self.formula())
        self.depth -= 1
        return left

    def disjunction(self) -> Formula:
        left = self.conjunction()
        while self.peek() == "or":
            self.place += 1
            left = Binary("or", left, self.conjunction())
        return left

    def conjunction(self) -> Formula:
        left = self.until()
        while self.peek() == "and":
            self.place += 1
            left = Binary("and", left, self.until())
        return left

    def until(self) -> Formula:
        left = self.prefix()
        if self.peek() == "until":
            self.place += 1
            interval = self.interval()
            return Until(interval, left, self.prefix())
        return left

    def prefix(self) -> Formula:
        word = self.peek()
        if word not in ("not", "always", "eventually"):
            return self.atom()
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise PolicyError(f"malformed STL formula: nested more than {MAX_DEPTH} levels deep")
        self.place += 1
        if word == "not":
            result: Formula = Not(self.prefix())
        else:
            interval = self.interval()
            result = Temporal(word, interval, self.prefix())
        self.depth -= 1
        return result

    def interval(self) -> Interval:
        if self.peek() != "[":
            return 0, None
        self.place += 1
        first = self.sample()
        if self.peek() not in (":", ","):
            raise self.error("expected ':' or ','")
        self.place += 1
        last = self.sample()
        self.take("]")
        if last < first:
            raise PolicyError(f"malformed STL formula: the interval [{first}:{last}] is empty")
        return first, last

    def sample(self) -> int:
        kind, word, _ = self.tokens[self.place] if self.place < len(self.tokens) else ("", "", 0)
        if kind != "number" or not word.isdigit() or len(word) > 9:
            raise self.error("expected a number of samples (a whole number below 1e9)")
        self.place += 1
        return int(word)

    def atom(self) -> Formula:
        if self.peek() == "(":
            self.place += 1
            inner = self.formula()
            self.take(")")
            return inner
        kind, metric, _ = self.tokens[self.place] if self.place < len(self.tokens) else ("", "", 0)
        if kind != "name" or metric in ("and", "or", "->", "until", "not", "always", "eventually"):
            raise self.error("expected a comparison")
        self.place += 1
        op = self.peek()
        if op not in _COMPARISONS:
            raise self.error(f"expected one of {' '.join(_COMPARISONS)}")
        self.place += 1
        kind, number, _ = self.tokens[self.place] if self.place < len(self.tokens) else ("", "", 0)
        if kind != "number" or not np.isfinite(float(number)):
            raise self.error("expected a finite number")
        self.place += 1
        return Comparison(metric, op, float(number))


def parse_stl(text: str) -> Formula:
    """Read a formula.

    Raises:
        PolicyError: malformed; the message names the place.

    Examples:
        >>> parse_stl("always[0:5] R_0 > 0.3")
        Temporal(op='always', interval=(0, 5), operand=Comparison(metric='R_0', op='>', threshold=0.3))
    """
    if not isinstance(text, str) or not text.strip():  # pyright: ignore[reportUnnecessaryIsInstance]
        raise PolicyError(f"an STL formula must be a non-empty string, got {text!r:.80}")
    parser = _Parser(text)
    formula = parser.formula()
    if parser.peek():
        raise parser.error("unexpected text")
    return formula


def _interval_text(interval: Interval) -> str:
    return "" if interval == (0, None) else f"[{interval[0]}:{interval[1]}]"


def format_stl(formula: Formula) -> str:
    """Write a formula, with parentheses around every part, so that it reads back as the same."""
    match formula:
        case Comparison(metric, op, threshold):
            return f"({metric} {op} {threshold!r})"
        case Not(operand):
            return f"(not {format_stl(operand)})"
        case Binary(op, left, right):
            return f"({format_stl(left)} {op} {format_stl(right)})"
        case Temporal(op, interval, operand):
            return f"({op}{_interval_text(interval)} {format_stl(operand)})"
        case Until(interval, left, right):
            return f"({format_stl(left)} until{_interval_text(interval)} {format_stl(right)})"


def _parts(formula: Formula) -> tuple[Formula, ...]:
    match formula:
        case Comparison():
            return ()
        case Not(operand) | Temporal(_, _, operand):
            return (operand,)
        case Binary(_, left, right) | Until(_, left, right):
            return left, right


def comparisons_of(formula: Formula) -> tuple[Comparison, ...]:
    """Give every comparison of a formula, from left to right."""
    if isinstance(formula, Comparison):
        return (formula,)
    return tuple(comparison for part in _parts(formula) for comparison in comparisons_of(part))


def horizon(formula: Formula) -> int | None:
    """Give the last sample, relative to now, that the formula looks at; ``None`` is the end of the trace."""
    inner = [horizon(part) for part in _parts(formula)]
    if any(part is None for part in inner):
        return None
    deepest = max(cast("list[int]", inner), default=0)
    if isinstance(formula, Temporal | Until):
        last = formula.interval[1]
        return None if last is None else last + deepest
    return deepest


# --- robustness -----------------------------------------------------------------------------------------------


def robustness_signal(formula: Formula | str, trace: Mapping[str, ArrayLike]) -> FloatSignal:
    """Give the robustness at every sample.

    Args:
        formula: a formula, or its text.
        trace: one array of shape ``(n_samples,)`` per metric, all of one length and finite.

    Returns:
        Shape ``(n_samples,)``. Infinite where only an empty window was looked at.

    Raises:
        PolicyError: a malformed formula, a metric that the trace lacks, or a trace that is empty, ragged or not finite.
    """
    parsed = parse_stl(formula) if isinstance(formula, str) else formula
    metrics = sorted({comparison.metric for comparison in comparisons_of(parsed)})
    signals: dict[str, FloatSignal] = {}
    for metric in metrics:
        if metric not in trace:
            raise PolicyError(f"the trace has no metric {metric!r}; it has {', '.join(sorted(trace)) or 'none'}")
        values = np.asarray(trace[metric])
        if values.ndim != 1 or values.size == 0 or values.dtype.kind not in "iuf":
            raise PolicyError(f"metric {metric!r} of the trace must be a non-empty array of real numbers")
        signals[metric] = values.astype(np.float64)
        if not np.isfinite(signals[metric]).all():
            raise PolicyError(f"metric {metric!r} of the trace must be finite")
    lengths = {metric: values.size for metric, values in signals.items()}
    if len(set(lengths.values())) > 1:
        raise PolicyError(f"the metrics of the trace must have one length, got {lengths}")
    return _signal(parsed, signals)


def robustness(formula: Formula | str, trace: Mapping[str, ArrayLike]) -> float:
    """Give the robustness at the first sample: positive when the trace satisfies the formula.

    Raises:
        PolicyError: as `robustness_signal`.

    Examples:
        >>> robustness("always[0:2] R > 0.3", {"R": [0.5, 0.75, 0.4]}) == 0.4 - 0.3
        True
    """
    return float(robustness_signal(formula, trace)[0])


def _signal(formula: Formula, signals: Mapping[str, FloatSignal]) -> FloatSignal:
    match formula:
        case Comparison(metric, op, threshold):
            return _margin(signals[metric], op, threshold)
        case Not(operand):
            return -_signal(operand, signals)
        case Binary(op, left, right):
            first, second = _signal(left, signals), _signal(right, signals)
            if op == "and":
                return np.minimum(first, second)
            return np.maximum(first if op == "or" else -first, second)
        case Temporal(op, interval, operand):
            values = _signal(operand, signals)
            return -_window_max(-values, interval) if op == "always" else _window_max(values, interval)
        case Until(interval, left, right):
            return _until(_signal(left, signals), _signal(right, signals), interval)


def _margin(values: FloatSignal, op: str, threshold: float) -> FloatSignal:
    if op in (">", ">="):
        return values - threshold
    if op in ("<", "<="):
        return threshold - values
    distance = np.abs(values - threshold)
    return distance if op == "!=" else -distance


def _shifted(values: FloatSignal, by: int, fill: float) -> FloatSignal:
    """Give the values `by` samples later; beyond the end there is `fill`."""
    result = np.full_like(values, fill)
    if by < values.size:
        result[: values.size - by] = values[by:]
    return result


def _window_max(values: FloatSignal, interval: Interval) -> FloatSignal:
    """Give the maximum over a window at every sample, by doubling: the cost grows with the log of its length."""
    first, last = interval
    if last is None:
        best = np.maximum.accumulate(values[::-1])[::-1]
    else:
        width = min(last - first + 1, values.size)
        best, covered = values, 1
        while covered < width:
            step = min(covered, width - covered)
            best = np.maximum(best, _shifted(best, step, -np.inf))
            covered += step
    return _shifted(best, first, -np.inf)


def _until(left: FloatSignal, right: FloatSignal, interval: Interval) -> FloatSignal:
    first, last = interval
    if last is None or last - first >= left.size - 1:
        best = _until_end(left, right)
    else:
        best = right
        held = np.full_like(left, np.inf)  # minimum of the left formula over the samples before the one looked at
        for offset in range(1, last - first + 1):
            held = np.minimum(held, _shifted(left, offset - 1, np.inf))
            best = np.maximum(best, np.minimum(_shifted(right, offset, -np.inf), held))
    if not first:
        return best
    before = -_window_max(-left, (0, first - 1))
    return np.minimum(_shifted(best, first, -np.inf), before)


def _until_end(left: FloatSignal, right: FloatSignal) -> FloatSignal:
    """Give ``until`` without a last sample, by its fixed point ``u(t) = max(right(t), min(left(t), u(t + 1)))``."""
    result = right.copy()
    following = -np.inf
    for place in range(right.size - 1, -1, -1):
        following = max(right[place], min(left[place], following))
        result[place] = following
    return result
