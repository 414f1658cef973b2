"""SMT-LIB 2.6 scripts: which rules can fire, which can fire together, and which formulas can hold or fail."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from itertools import combinations

from scpn_phase_orchestrator.exceptions import PolicyError
from scpn_phase_orchestrator.monitor.stl import (
    Binary,
    Comparison,
    Formula,
    Not,
    Temporal,
    Until,
    comparisons_of,
    format_stl,
    horizon,
    parse_stl,
)
from scpn_phase_orchestrator.supervisor._formal_model import FormalCondition, FormalPolicy, Names, Reading, quoted
from scpn_phase_orchestrator.supervisor.policy_rules import StlMonitor
from scpn_phase_orchestrator.supervisor.regimes import REGIME_RANK

__all__ = ["monitors_as_smt", "policy_as_smt", "smt_real"]

MAX_DEFINITIONS = 50_000
"""Most definitions that formulas may unroll to."""
OPEN_TRACE = 20
"""Samples beyond the last bounded one, where a formula looks to the end of the trace."""


def smt_real(value: float) -> str:
    """Write a number as SMT-LIB does: in decimals, without an exponent, negative ones as ``(- x)``."""
    text = format(Decimal(repr(abs(value))), "f")
    text = text if "." in text else f"{text}.0"
    return f"(- {text})" if value < 0 else text


def _joined(op: str, parts: Iterable[str]) -> str:
    items = list(parts)
    if not items:
        return "true" if op == "and" else "false"
    return items[0] if len(items) == 1 else f"({op} {' '.join(items)})"


def _compared(name: str, op: str, threshold: float) -> str:
    if op == "!=":
        return f"(not (= {name} {smt_real(threshold)}))"
    return f"({'=' if op == '==' else op} {name} {smt_real(threshold)})"


def _question(text: str, assertion: str) -> list[str]:
    return [f'(echo "{text}")', "(push 1)", f"(assert {assertion})", "(check-sat)", "(pop 1)"]


def _bounds(reading: Reading) -> list[str]:
    low, high = reading.bounds
    parts = [f"(<= {smt_real(low)} {reading.identifier})"] if math.isfinite(low) else []
    parts += [f"(<= {reading.identifier} {smt_real(high)})"] if math.isfinite(high) else []
    return [f"(assert {_joined('and', parts)})"] if parts else []


def _condition(condition: FormalCondition) -> str:
    if condition.reading is None:
        return "false"
    return _compared(condition.reading.identifier, condition.condition.op, condition.threshold)


def policy_as_smt(policy: FormalPolicy) -> str:
    """Write rules as formulas over one decision; cooldowns and limits of firings, which need time, are left out.

    Every rule is asked whether it can fire (``unsat``: never), and every two rules that turn the same knob of the same
    scope whether they can fire together (``sat``: they can collide).
    """
    regimes = {rank: f"regime_{regime.value}" for regime, rank in REGIME_RANK.items()}
    lines = ["; Policy rules over one decision, exported for review (cvc5: --incremental).", "(set-logic QF_LRA)"]
    lines += [f"(declare-const {name} Bool)" for name in regimes.values()]
    lines.append(f"(assert {_joined('or', regimes.values())})")
    lines += [f"(assert (not (and {left} {right})))" for left, right in combinations(regimes.values(), 2)]
    for reading in policy.readings:
        lines += [f"; {quoted(reading.metric)}", f"(declare-const {reading.identifier} Real)", *_bounds(reading)]
    for rule in policy.rules:
        joined = f" {rule.rule.logic} ".join(condition.text() for condition in rule.conditions)
        conditions = _joined("and" if rule.rule.logic == "AND" else "or", map(_condition, rule.conditions))
        allowed = _joined("or", (regimes[rank] for rank in rule.regime_ranks))
        lines += [
            f"; rule {quoted(rule.rule.name)}: {quoted(joined)}",
            f"(define-fun fires_{rule.identifier} () Bool (and {allowed} {conditions}))",
        ]
    for rule in policy.rules:
        lines += _question(f"can fire: {rule.identifier}", f"fires_{rule.identifier}")
    for target, counts in policy.targets.items():
        for left, right in combinations(counts, 2):
            lines += _question(f"{target}: {left} with {right}", f"(and fires_{left} fires_{right})")
    return "\n".join(lines) + "\n"


class _Unrolling:
    """Defines the truth of every part of a formula at every sample that it is asked about, once."""

    def __init__(
        self, names: Names, prefix: str, variable: Callable[[str, int], str], length: int, budget: list[int]
    ) -> None:
        self.names = names
        self.prefix = prefix
        self.variable = variable
        self.length = length
        self.budget = budget
        self.lines: list[str] = []
        self.known: dict[tuple[Formula, int], str] = {}

    def at(self, formula: Formula, sample: int) -> str:
        key = (formula, sample)
        if key not in self.known:
            text = self.text(formula, sample)
            self.budget[0] -= 1 + text.count(" ")
            if self.budget[0] < 0:
                raise PolicyError(f"the formulas unroll to more than {MAX_DEFINITIONS} parts; use shorter intervals")
            name = self.names.give(self.prefix, f"{len(self.known)}_at_{sample}")
            self.lines.append(f"(define-fun {name} () Bool {text})")
            self.known[key] = name
        return self.known[key]

    def window(self, interval: tuple[int, int | None], sample: int) -> range:
        first, last = interval
        end = self.length if last is None else min(self.length, sample + last + 1)
        return range(sample + first, end)

    def text(self, formula: Formula, sample: int) -> str:
        match formula:
            case Comparison(metric, op, threshold):
                return _compared(self.variable(metric, sample), op, threshold)
            case Not(operand):
                return f"(not {self.at(operand, sample)})"
            case Binary(op, left, right):
                sign = "=>" if op == "->" else op
                return f"({sign} {self.at(left, sample)} {self.at(right, sample)})"
            case Temporal(op, interval, operand):
                parts = (self.at(operand, one) for one in self.window(interval, sample))
                return _joined("and" if op == "always" else "or", parts)
            case Until(interval, left, right):
                return self.until(interval, left, right, sample)

    def until(self, interval: tuple[int, int | None], left: Formula, right: Formula, sample: int) -> str:
        window = self.window(interval, sample)
        if not window:
            return "false"
        text = self.at(right, window[-1])
        for one in reversed(window[:-1]):
            text = f"(or {self.at(right, one)} (and {self.at(left, one)} {text}))"
        return _joined("and", [*(self.at(left, one) for one in range(sample, window[0])), text])


def _open_horizon(formula: Formula) -> int:
    """Give the last sample that matters, with every open interval cut at its first sample."""
    match formula:
        case Comparison():
            return 0
        case Not(operand):
            return _open_horizon(operand)
        case Binary(_, left, right):
            return max(_open_horizon(left), _open_horizon(right))
        case Temporal(_, interval, operand):
            return (interval[0] if interval[1] is None else interval[1]) + _open_horizon(operand)
        case Until(interval, left, right):
            inner = max(_open_horizon(left), _open_horizon(right))
            return (interval[0] if interval[1] is None else interval[1]) + inner


def _trace_length(formula: Formula) -> int:
    last = horizon(formula)
    return _open_horizon(formula) + OPEN_TRACE if last is None else last + 1


def monitors_as_smt(monitors: Sequence[StlMonitor]) -> str:
    """Write STL monitors, unrolled over a trace that is long enough for their intervals.

    Every monitor is asked whether a trace can satisfy it (``unsat``: it cries always) and whether one can violate it
    (``unsat``: it never does). Formulas that look to the end of the trace get one of 20 samples beyond their bounds.

    Raises:
        PolicyError: no monitor, a malformed formula (with the name of its monitor), or one that unrolls to too much.
    """
    if not monitors:
        raise PolicyError("there are no STL monitors to export")
    names, budget = Names(), [MAX_DEFINITIONS]
    formulas: list[tuple[StlMonitor, str, Formula]] = []
    for monitor in monitors:
        try:
            formulas.append((monitor, names.give("stl", monitor.name), parse_stl(monitor.spec)))
        except PolicyError as error:
            raise PolicyError(f"STL monitor {monitor.name!r}: {error}") from error
    metrics = sorted({comparison.metric for _, _, formula in formulas for comparison in comparisons_of(formula)})
    identifiers = {metric: names.give("x", metric) for metric in metrics}
    lengths = [_trace_length(formula) for _, _, formula in formulas]
    if max(lengths) * len(metrics) > MAX_DEFINITIONS:
        raise PolicyError(f"the formulas unroll to more than {MAX_DEFINITIONS} parts; use shorter intervals")
    lines = ["; STL monitors over a finite trace, exported for review (cvc5: --incremental).", "(set-logic QF_LRA)"]
    lines += [f"; {identifier}_<sample>: {quoted(metric)}" for metric, identifier in identifiers.items()]
    for identifier in identifiers.values():
        lines += [f"(declare-const {identifier}_{sample} Real)" for sample in range(max(lengths))]
    questions: list[str] = []
    for (monitor, identifier, formula), length in zip(formulas, lengths, strict=True):
        unrolling = _Unrolling(
            names, identifier, lambda metric, sample: f"{identifiers[metric]}_{sample}", length, budget
        )
        root = unrolling.at(formula, 0)
        lines += [
            f"; monitor {quoted(monitor.name)} ({monitor.severity}): {quoted(format_stl(formula))}",
            *unrolling.lines,
        ]
        lines.append(f"(define-fun {identifier} () Bool {root})")
        questions += _question(f"can hold: {identifier}", identifier)
        questions += _question(f"can fail: {identifier}", f"(not {identifier})")
    return "\n".join([*lines, *questions]) + "\n"
