"""Run a spec over a grid of its own numbers and over seeds, on one machine or a cluster, and keep the results.

A *setting* is the dotted path of a number in a spec (``coupling.base_strength``); a *variation* gives it several
values. Every combination of values with every seed is a cell of `ripieno.parallel`.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from difflib import get_close_matches
from functools import lru_cache
from itertools import product
from math import isfinite, prod
from pathlib import Path
from typing import Any, cast

import numpy as np

from ripieno.files import sha256_file
from ripieno.parallel import CellOutcome, Executor, run_cells
from ripieno.run import RunWriter
from scpn_phase_orchestrator._arrays import real_scalar, whole_number
from scpn_phase_orchestrator.binding.loader import load_binding_spec
from scpn_phase_orchestrator.binding.types import BindingSpec
from scpn_phase_orchestrator.binding.validator import validate_binding_spec
from scpn_phase_orchestrator.exceptions import BindingError, ValidationError
from scpn_phase_orchestrator.runtime.simulation import load_rules_beside, simulate
from scpn_phase_orchestrator.supervisor.policy_rules import PolicyRule, load_policy_rules

__all__ = ["MEASURES", "SweepResult", "Variation", "run_cell", "sweep", "with_setting"]

MEASURES = ("r_good", "r_bad", "mean_r", "score", "outcome", "regime", "actions", "violations", "lock_bad")
"""What a cell gives: means over the steps that the verdict looks at for the first three, then verdict and counts, and
the highest lock level of a bad layer (``None`` without one), by which the verdict judges them."""
MAX_CELLS = 1_000_000
_NEW_DRIVER_KEYS = ("zeta", "psi", "frequency", "amplitude", "cadence_hz")


@dataclass(frozen=True)
class Variation:
    """A setting and the values that it takes.

    Attributes:
        path: dotted path of a number in the spec; list items by position or by their name.
        values: finite numbers, at least one.
    """

    path: str
    values: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.path or not self.values:
            raise ValueError(f"a variation needs a path and at least one value, got {self.path!r} = {self.values}")
        if not all(isfinite(value) for value in self.values):
            raise ValueError(f"values of {self.path} must be finite, got {list(self.values)}")

    @classmethod
    def parse(cls, text: str) -> Variation:
        """Read ``PATH=START:STOP:COUNT`` (both ends included) or ``PATH=V1,V2,...``.

        Raises:
            ValueError: the text is neither.

        Examples:
            >>> Variation.parse("coupling.base_strength=0:2:5").values
            (0.0, 0.5, 1.0, 1.5, 2.0)
            >>> Variation.parse("drivers.physical.zeta=0.1,0.3").values
            (0.1, 0.3)
        """
        path, _, values = text.partition("=")
        try:
            return cls(path.strip(), _values(values))
        except ValueError as error:
            raise ValueError(
                f"a variation reads PATH=START:STOP:COUNT or PATH=VALUE,VALUE,..., got {text!r} ({error})"
            ) from error


@dataclass(frozen=True)
class SweepResult:
    """A sweep that has ended.

    Attributes:
        rows: one per finished cell: ``seed``, every setting by its path, and `MEASURES`.
        failures: label and error of every cell that failed.
        folder: the run folder; ``None`` when a cell failed, because the sweep can then be resumed.
        resumed: cells that an earlier call had finished.
    """

    rows: tuple[dict[str, Any], ...]
    failures: tuple[tuple[str, str], ...]
    folder: Path | None
    resumed: int


def with_setting(spec: BindingSpec, path: str, value: float) -> BindingSpec:
    """Give a copy of the spec with one number replaced.

    Args:
        spec: stays as it is.
        path: dotted path, as in ``coupling.base_strength``, ``layers.storms.omegas.0`` or ``drivers.physical.zeta``.
        value: the number; where the spec holds an integer it must be whole.

    Raises:
        BindingError: no number lies at that path; names the nearest key.
    """
    return cast("BindingSpec", _replaced(spec, path.split("."), value, path))


def sweep(
    spec_path: Path,
    variations: Sequence[Variation],
    *,
    out: Path,
    seeds: Sequence[int] = (42,),
    steps: int = 1000,
    policy_enabled: bool = True,
    policy_path: Path | None = None,
    with_rules: bool = True,
    method: str | None = None,
    substeps: int | None = None,
    executor: Executor = "serial",
    workers: int | None = None,
    progress: bool | None = None,
) -> SweepResult:
    """Run every combination of values with every seed.

    ``out/cells.jsonl`` is the ledger: a later call with the same arguments runs only what is missing. When all cells
    have a value, ``out/run`` is written, a run folder that ``ripieno verify`` checks, with ``results.csv``,
    ``figure.svg`` and a page, ``index.html``.

    Args:
        spec_path: the spec file.
        variations: at least one; several make a grid.
        out: folder for ledger and results; made when missing.
        seeds: of the initial phases.
        steps: steps of every run, at least 1.
        policy_enabled: whether runs are supervised.
        policy_path: rule file in place of the one beside the spec.
        with_rules: whether a rule file is used at all.
        method: integration method in place of the spec's.
        substeps: parts of a step in place of the spec's.
        executor: ``serial``, ``processes`` or ``ray``.
        workers: attempts at a time; by default all cores.
        progress: show a bar; ``None`` shows it on a terminal.

    Raises:
        ValueError: an argument does not fit, or a combination makes the spec invalid; nothing was run.
        InputError: ``out`` belongs to other work, or already holds the results.
    """
    rule_path = _rule_path(spec_path, policy_path) if policy_enabled and with_rules else None
    common = {
        "spec": str(spec_path.resolve()),
        "spec_sha256": sha256_file(spec_path),
        "policy": None if rule_path is None else str(rule_path.resolve()),
        "policy_sha256": None if rule_path is None else sha256_file(rule_path),
        "steps": whole_number("steps", steps, minimum=1),
        "policy_enabled": policy_enabled,
        "method": method,
        "substeps": substeps,
    }
    cells = [{**common, **one} for one in _combinations(load_binding_spec(spec_path), variations, seeds)]
    labels = [_label(cell) for cell in cells]
    folder = out / "run"
    if folder.exists():
        raise ValueError(f"{folder} exists already: this sweep is finished; name another folder")
    out.mkdir(parents=True, exist_ok=True)
    outcomes = run_cells(
        run_cell,
        cells,
        executor=executor,
        workers=workers,
        resume=out / "cells.jsonl",
        labels=labels,
        progress=progress,
    )
    failures = tuple((outcome.label, outcome.error) for outcome in outcomes if not outcome.ok)
    rows = tuple(
        _row(cell, outcome.value) for cell, outcome in zip(cells, outcomes, strict=True) if outcome.value is not None
    )
    if not failures:
        _write_run(folder, spec_path, variations, cells, outcomes, rows)
    resumed = sum(outcome.from_ledger for outcome in outcomes)
    return SweepResult(rows, failures, None if failures else folder, resumed)


def run_cell(cell: Mapping[str, Any]) -> dict[str, Any]:
    """Run one cell; what `sweep` hands to `ripieno.parallel`.

    Raises:
        BindingError: the spec file is no longer the one that the sweep was made for.
    """
    spec, rules = _loaded(cell["spec"], cell["spec_sha256"], cell["policy"], cell["policy_sha256"])
    for path, value in cell["settings"].items():
        spec = with_setting(spec, path, value)
    result = simulate(
        spec,
        steps=cell["steps"],
        seed=cell["seed"],
        policy_enabled=cell["policy_enabled"],
        rules=rules,
        method=cell["method"],
        substeps=cell["substeps"],
    )
    history, verdict = result.history, result.verdict
    if history is None or verdict is None:
        raise ValueError("a cell of a sweep needs at least one step")
    tail = slice(-verdict.judged_steps, None)
    return {
        "r_good": float(history.r_good[tail].mean()),
        "r_bad": float(history.r_bad[tail].mean()),
        "mean_r": float(history.layer_r[tail].mean()),
        "score": verdict.score,
        "outcome": verdict.outcome.value,
        "regime": result.final_regime,
        "actions": result.action_total,
        "violations": result.boundary_violation_total,
        "lock_bad": verdict.bad_lock,
    }


def _values(text: str) -> tuple[float, ...]:
    if ":" not in text:
        return tuple(float(value) for value in text.split(","))
    start, stop, count = text.split(":")
    number = whole_number("COUNT", int(count), minimum=1)
    if number > MAX_CELLS:
        raise ValueError(f"COUNT must be at most {MAX_CELLS}, got {number}")
    ends = real_scalar("START", float(start)), real_scalar("STOP", float(stop))
    return tuple(np.linspace(*ends, number, dtype=np.float64).tolist())


def _combinations(spec: BindingSpec, variations: Sequence[Variation], seeds: Sequence[int]) -> list[dict[str, Any]]:
    """Check every combination of values and give settings and seed of all cells."""
    if not variations or not seeds:
        raise ValueError("a sweep needs at least one variation and one seed")
    paths = [variation.path for variation in variations]
    for path in paths:
        if paths.count(path) > 1:
            raise ValueError(f"{path} is varied twice; give all its values at once")
    count = prod(len(variation.values) for variation in variations) * len(seeds)
    if count > MAX_CELLS:
        raise ValueError(f"a sweep has at most {MAX_CELLS} cells, got {count}")
    cells: list[dict[str, Any]] = []
    for values in product(*(variation.values for variation in variations)):
        settings = dict(zip(paths, values, strict=True))
        varied = spec
        for path, value in settings.items():
            varied = with_setting(varied, path, value)
        problems = validate_binding_spec(varied)
        if problems:
            raise ValidationError(f"with {_words(settings)} the spec is invalid: {'; '.join(problems)}")
        cells.extend({"settings": settings, "seed": whole_number("seed", seed)} for seed in seeds)
    return cells


def _rule_path(spec_path: Path, policy_path: Path | None) -> Path | None:
    """The rule file that applies, after reading it once so that faults show before anything runs."""
    if policy_path is not None:
        load_policy_rules(policy_path)
        return policy_path
    spec = load_binding_spec(spec_path)
    load_rules_beside(spec, spec_path)
    beside = spec_path.parent / (spec.policy or "policy.yaml")
    return beside if beside.is_file() else None


@lru_cache(maxsize=4)
def _loaded(
    spec: str, spec_sha256: str, policy: str | None, policy_sha256: str | None
) -> tuple[BindingSpec, list[PolicyRule]]:
    """Read spec and rules once a process; both must still be the files that the sweep was made for."""
    for path, expected in ((spec, spec_sha256), (policy, policy_sha256)):
        if path is not None and sha256_file(Path(path)) != expected:
            raise BindingError(f"{path} was changed after the sweep began; start another one")
    return load_binding_spec(Path(spec)), [] if policy is None else load_policy_rules(policy)


def _replaced(node: object, parts: list[str], value: float, path: str) -> object:
    """Give the node with the number at the path replaced."""
    if not parts:
        return _leaf(node, value, path)
    head, rest = parts[0], parts[1:]
    if is_dataclass(node) and not isinstance(node, type):
        names = [one.name for one in fields(node)]
        if head not in names:
            raise _unknown(path, head, names)
        return replace(node, **{head: _replaced(getattr(node, head), rest, value, path)})
    if isinstance(node, dict):
        table = cast("dict[str, object]", node)
        if head not in table and not (not rest and head in _NEW_DRIVER_KEYS and path.startswith("drivers.")):
            raise _unknown(path, head, list(table))
        return {**table, head: _replaced(table.get(head), rest, value, path)}
    if isinstance(node, list | tuple):
        items = cast("Sequence[object]", node)
        names = [str(getattr(item, "name", position)) for position, item in enumerate(items)]
        position = names.index(head) if head in names else int(head) if head.isdecimal() else len(items)
        if position >= len(items):
            raise _unknown(path, head, names)
        changed = [_replaced(x, rest, value, path) if k == position else x for k, x in enumerate(items)]
        return tuple(changed) if isinstance(node, tuple) else changed
    raise BindingError(f"no setting {path!r} in the spec: nothing lies below {head!r}")


def _leaf(node: object, value: float, path: str) -> float | int:
    if isinstance(node, bool) or not (node is None or isinstance(node, int | float)):
        raise BindingError(f"setting {path!r} must be a number in the spec, it is {type(node).__name__}")
    if isinstance(node, int) and float(value).is_integer():
        return int(value)
    return value


def _unknown(path: str, head: str, known: list[str]) -> BindingError:
    near = get_close_matches(head, known, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"known here: {', '.join(known) or 'nothing'}"
    return BindingError(f"no setting {path!r} in the spec: {head!r} is unknown; {hint}")


def _row(cell: Mapping[str, Any], value: Mapping[str, Any]) -> dict[str, Any]:
    return {"seed": cell["seed"], **cell["settings"], **{measure: value[measure] for measure in MEASURES}}


def _words(settings: Mapping[str, float]) -> str:
    return ", ".join(f"{path} = {value:g}" for path, value in settings.items())


def _label(cell: Mapping[str, Any]) -> str:
    return f"{_words(cell['settings'])}, seed {cell['seed']}"


def _write_run(
    folder: Path,
    spec_path: Path,
    variations: Sequence[Variation],
    cells: Sequence[Mapping[str, Any]],
    outcomes: Sequence[CellOutcome[dict[str, Any]]],
    rows: Sequence[Mapping[str, Any]],
) -> None:
    """Write the run folder: a row as one event, the table, the figure, the page."""
    from scpn_phase_orchestrator.runtime._sweep_figure import sweep_figure_svg
    from scpn_phase_orchestrator.runtime._sweep_page import render_sweep_page

    first = cells[0]
    settings = {one.path: list(one.values) for one in variations}
    config = {
        **{
            key: first[key] for key in ("steps", "policy_enabled", "method", "substeps", "spec_sha256", "policy_sha256")
        },
        "variations": settings,
        "seeds": sorted({cell["seed"] for cell in cells}),
    }
    with RunWriter(folder, system="phase", kind="sweep", config=config, inputs={"spec": spec_path}) as run:
        for row, outcome in zip(rows, outcomes, strict=True):
            run.event("cell", **row, seconds=outcome.seconds, attempts=outcome.attempts)
        table = io.StringIO()
        writer = csv.DictWriter(table, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        run.artifact("results.csv", table.getvalue())
        picture = sweep_figure_svg(settings, rows)
        run.artifact("figure.svg", picture)
        run.artifact("index.html", render_sweep_page(load_binding_spec(spec_path), config, rows, picture))
        best = max(rows, key=lambda row: row["score"])
        run.finish(summary={"cells": len(rows), "best": dict(best)})
