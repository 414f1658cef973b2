"""How an implementation is judged: one named check per clause of the contract, each with its remedy.

A *suite* is a list of such checks for one kind of object. The modules beside this one define the suites; a
caller either wants the first problem as an exception (the ``check_...`` functions) or all of them as rows
(`run_all`).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

__all__ = ["Check", "CheckRow", "ConformanceError", "Suite", "raise_first_problem", "run_all"]

SubjectT = TypeVar("SubjectT")


class ConformanceError(AssertionError):
    """An implementation breaks one clause of the contract.

    Attributes:
        check: name of the check that refused it.
        problem: what was observed.
        remedy: how to mend it.
    """

    def __init__(self, check: str, problem: str, remedy: str) -> None:
        super().__init__(f"{check}: {problem}. How to mend it: {remedy}")
        self.check = check
        self.problem = problem
        self.remedy = remedy


@dataclass(frozen=True)
class Check:
    """One clause of the contract, ready to be tried on one implementation.

    Attributes:
        name: short name, stable across versions.
        claim: what must hold, in one sentence.
        remedy: what to change when it does not.
        trial: tries it; any exception is a refusal.
    """

    name: str
    claim: str
    remedy: str
    trial: Callable[[], None]

    def run(self) -> None:
        """Try the clause.

        Raises:
            ConformanceError: it does not hold.
        """
        try:
            self.trial()
        except Exception as error:
            problem = str(error) if isinstance(error, _Refusal) else f"raised {type(error).__name__}: {error}"
            raise ConformanceError(self.name, problem, self.remedy) from error


@dataclass(frozen=True)
class CheckRow:
    """Outcome of one check in the report of `run_all`.

    Attributes:
        check: name of the check.
        claim: what had to hold.
        passed: whether it held.
        problem: what was observed when it did not, else empty.
        remedy: how to mend it, empty when it held.
    """

    check: str
    claim: str
    passed: bool
    problem: str = ""
    remedy: str = ""


class Suite(Generic[SubjectT]):
    """The checks of one kind of object, in the order of their definition."""

    def __init__(self) -> None:
        self._definitions: list[tuple[Callable[[SubjectT], None], str]] = []

    def check(self, remedy: str) -> Callable[[Callable[[SubjectT], None]], Callable[[SubjectT], None]]:
        """Add the decorated function: its name is the check's name, its docstring the claim.

        The function gets the subject under trial and calls `demand` or lets an exception escape.
        """

        def register(function: Callable[[SubjectT], None]) -> Callable[[SubjectT], None]:
            self._definitions.append((function, remedy))
            return function

        return register

    def bind(self, subject: SubjectT) -> list[Check]:
        """Give the checks, ready to be tried on ``subject``."""
        return [_bind(function, remedy, subject) for function, remedy in self._definitions]


def _bind(function: Callable[[SubjectT], None], remedy: str, subject: SubjectT) -> Check:
    return Check(function.__name__, inspect.getdoc(function) or "", remedy, lambda: function(subject))


def raise_first_problem(checks: Iterable[Check]) -> None:
    """Try the checks in order.

    Raises:
        ConformanceError: one does not hold; later ones were not tried.
    """
    for check in checks:
        check.run()


def run_all(checks: Iterable[Check]) -> list[CheckRow]:
    """Try every check and report; nothing is raised for a problem.

    Examples:
        >>> from concerto.safety.api import DoubleIntegratorControlModel
        >>> from concerto.testing import control_model_checks
        >>> rows = run_all(control_model_checks(DoubleIntegratorControlModel("ego", 2)))
        >>> [row.check for row in rows if not row.passed]
        []
    """
    rows: list[CheckRow] = []
    for check in checks:
        try:
            check.run()
        except ConformanceError as error:
            rows.append(CheckRow(check.name, check.claim, False, error.problem, error.remedy))
        else:
            rows.append(CheckRow(check.name, check.claim, True))
    return rows


class _Refusal(Exception):  # noqa: N818 - never leaves this package
    """Carries the observed problem out of a check."""


def demand(condition: object, problem: str) -> None:
    """Refuse with ``problem`` unless the condition holds."""
    if not condition:
        raise _Refusal(problem)


def demand_members(subject: object, protocol: type) -> None:
    """Refuse a subject that lacks a public member of a runtime-checkable Protocol."""
    if not isinstance(subject, protocol):
        missing = [name for name in dir(protocol) if not name.startswith("_") and not hasattr(subject, name)]
        raise _Refusal(f"{type(subject).__name__} lacks {missing} of {protocol.__name__}")


def demand_raises(expected: type[Exception], call: Callable[[], object], situation: str) -> None:
    """Refuse unless ``call`` raises ``expected``."""
    try:
        call()
    except expected:
        return
    except Exception as error:
        raise _Refusal(
            f"{situation} raised {type(error).__name__} ({error}) where {expected.__name__} is due"
        ) from error
    raise _Refusal(f"{situation} was accepted where {expected.__name__} is due")
