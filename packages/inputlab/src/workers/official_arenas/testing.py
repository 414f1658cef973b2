"""Is a provider an arena that workers, ledgers and campaigns can rely on? One named check per clause, with a hint.

The checks play the arena for real, in a directory of their own that is removed afterwards, so give an arena whose
models cost something a scripted agent or a loopback server.
"""

from __future__ import annotations

import contextlib
import io
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

from workers.official_arenas._arena_failures import Failure, failure_of, groups_of
from workers.official_arenas._arena_sources import read_but_not_declared, reads_noted, undeclared_modules
from workers.official_arenas._arena_under_test import ArenaUnderTest
from workers.official_arenas._first_capture import check_task_id
from workers.official_arenas.protocol import (
    OfficialArenaError,
    OfficialArenaProvider,
    content_hash,
    intervention_usage,
    is_sha256,
    merge_usage,
    normalized_trace_hash,
    standard_shared_budget,
)
from workers.official_arenas.providers import installed_providers, name_problem

if TYPE_CHECKING:
    from workers.official_arenas._arena_marks import Reach

__all__ = ["ArenaUnderTest", "Finding", "check_arena"]

SCRIPTED_AGENT: Mapping[str, Any] = MappingProxyType({"backend": "scripted", "model": "scripted-agent.v1", "args": {}})
_CAPS = ("max_model_calls", "max_tool_calls", "max_output_tokens", "max_context_tokens")
_PRIMARY = "terminal_success"
_NOT_REACHED = "not reached"


@dataclass(frozen=True, slots=True)
class Finding:
    """Outcome of one check.

    Attributes:
        check: its name, stable across versions.
        ok: whether the clause holds.
        hint: how to mend it; empty when it holds.
        problem: what was observed; empty when it holds. It begins with ``not reached`` where something that another
            check names stopped this one.
        note: what is worth knowing although the clause holds.

    Examples:
        >>> print(Finding("roles_are_alike", True))
        ok  roles_are_alike
    """

    check: str
    ok: bool
    hint: str = ""
    problem: str = ""
    note: str = ""

    def __str__(self) -> str:
        """Give it on one line that begins with ``ok``, ``NOT``, or ``-`` for a check that was not reached."""
        if self.ok:
            return f"ok  {self.check}" + (f": {self.note}" if self.note else "")
        if self.problem.startswith(_NOT_REACHED):
            return f"-   {self.check}: {self.problem}"
        return f"NOT {self.check}: {self.problem}; {self.hint}"


class _Refusal(Exception):  # noqa: N818 - carries an observation out of a check
    pass


def _demand(condition: object, problem: str) -> None:
    if not condition:
        raise _Refusal(problem)


_Check = Callable[[ArenaUnderTest], str | None]
"""Gives a note or None, and raises when its clause does not hold."""
_CHECKS: list[tuple[str, _Check, str]] = []


def _check(hint: str) -> Callable[[_Check], _Check]:
    def register(function: _Check) -> _Check:
        _CHECKS.append((function.__name__.removeprefix("_"), function, hint))
        return function

    return register


def check_arena(
    factory: Callable[[], OfficialArenaProvider],
    *,
    split: str = "train",
    limit: int | None = 3,
    agent: Mapping[str, Any] | None = None,
) -> list[Finding]:
    """Try every clause on an arena and report; nothing is raised for a problem.

    Args:
        factory: the function that the arena's entry point names.
        split: which tasks are played; give one that is not used for figures.
        limit: how many of them, from the first; None plays the whole split.
        agent: the model under test; the arena's scripted one by default.

    Returns:
        One finding per check, in a fixed order.

    Examples:
        >>> from workers.official_arenas.providers.fixture import factory
        >>> findings = check_arena(factory, limit=2)
        >>> findings[0]
        Finding(check='identities_are_fixed', ok=True, hint='', problem='', note='')
    """
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve()
        root.chmod(0o700)
        subject = ArenaUnderTest(factory, root, split, limit, dict(SCRIPTED_AGENT if agent is None else agent))
        tried = {name: _tried(function, subject) for name, function, _ in _CHECKS}
    return _findings(tried)


def _tried(function: _Check, subject: ArenaUnderTest) -> str | Failure:
    """Give the note of a check that holds, and why otherwise."""
    try:
        return function(replace(subject)) or ""
    except _Refusal as refusal:
        return Failure(str(refusal), str(refusal), "", was_observed=True)
    except Exception as error:  # noqa: BLE001 - whatever an arena raises is what was observed
        return failure_of(error, subject.factory)


def _findings(tried: Mapping[str, str | Failure]) -> list[Finding]:
    """Report what stopped several checks once, and the others as not reached."""
    failures = {name: result for name, result in tried.items() if isinstance(result, Failure)}
    made: dict[str, Finding] = {}
    for first, *others in groups_of(list(failures.items())):
        (hint,) = (hint for name, _, hint in _CHECKS if name == first)
        if others and not failures[first].was_observed:
            hint = "mend this first, then check again"
        made[first] = Finding(first, False, hint, failures[first].shown)
        for name in others:
            made[name] = Finding(name, False, f"mend {first} first", f"{_NOT_REACHED}: what {first} names stopped it")
    return [made[name] if name in made else Finding(name, True, note=str(tried[name])) for name, _, _ in _CHECKS]


# --- identities and config ----------------------------------------------------------------------------------


@_check("set benchmark_id and scorer_id, derive the revisions from the content of files, and keep seed at 17")
def _identities_are_fixed(subject: ArenaUnderTest) -> None:
    names = ("benchmark_id", "source_revision", "scorer_id", "scorer_revision", "seed", "split_sizes")
    first, second = (
        dict[str, Any]((name, getattr(provider, name)) for name in names)
        for provider in (subject.factory(), subject.factory())
    )
    for name in ("benchmark_id", "source_revision", "scorer_id", "scorer_revision"):
        _demand(isinstance(first[name], str) and first[name].strip(), f"{name} is not non-blank text")
        _demand(first[name] == second[name], f"{name} differs between two providers of the factory")
    _demand(type(first["seed"]) is int and first["seed"] == 17, f"seed is {first['seed']!r}")
    _demand(is_sha256(first["scorer_revision"]), "scorer_revision is not 64 lowercase hex digits")
    _demand(subject.split in first["split_sizes"], f"split_sizes has no {subject.split!r}")
    for name in _installed_names(subject.factory):
        problem = name_problem(name, first["benchmark_id"])
        _demand(not problem, problem)


def _installed_names(factory: Callable[[], object]) -> list[str]:
    """Give the names of the entry points of this installation that name the factory."""
    found: list[str] = []
    for name, entrypoint in installed_providers().items():
        module, _, attribute = entrypoint.partition(":")
        if getattr(sys.modules.get(module), attribute, None) is factory:
            found.append(name)
    return found


@_check(
    "give campaign_config, whose result _validate_config accepts and gives back unchanged; leave its argument alone"
)
def _config_is_complete_and_stable(subject: ArenaUnderTest) -> None:
    config = subject.config()
    before = content_hash(config)
    checked = subject.provider._validate_config(config)
    _demand(content_hash(checked) == before, "_validate_config changes a config that campaign_config made")
    _demand(content_hash(config) == before, "_validate_config changes its argument")
    _demand(config.get("budget_override") == standard_shared_budget(), "campaign_config loses the given budget")
    _demand(config.get("task_split_name") == subject.split, "task_split_name is not the split that was asked for")
    whole = cast("Any", subject.provider).campaign_config(
        split=subject.split, limit=None, agent=dict(subject.agent), budget=None
    )
    size = subject.provider.split_sizes[subject.split]
    _demand(whole.get("limit") == size, f"limit=None gives {whole.get('limit')!r}, the split has {size} tasks")


@_check("refuse unknown fields and a limit outside 1..size of the split with an OfficialArenaError in _validate_config")
def _wrong_configs_are_refused(subject: ArenaUnderTest) -> None:
    size = subject.provider.split_sizes[subject.split]
    wrong: tuple[dict[str, Any], ...] = (
        {"no_such_field": 1},
        {"limit": 0},
        {"limit": size + 1},
        {"limit": True},
        {"task_split_name": "no such split"},
        {"locked_dependency_hashes": {}},
        {"budget_override": {"max_model_calls": 1}},
    )
    for changes in wrong:
        config = {**subject.config(), **changes}
        try:
            subject.provider._validate_config(config)
        except OfficialArenaError:
            pass
        else:
            raise _Refusal(f"_validate_config accepts {changes}")
        _demand(subject.provider.doctor(config), f"doctor finds nothing wrong with {changes}")


@_check("let doctor give () where the arena can run, and one text for each thing that stops it")
def _doctor_finds_nothing(subject: ArenaUnderTest) -> None:
    found = cast("object", subject.provider.doctor(subject.config()))
    _demand(isinstance(found, tuple), f"doctor gives {type(found).__name__}, not a tuple")
    _demand(not found, f"doctor says: {found}")


@_check("name tasks by ASCII digits, each once, in an order that never changes; a limit takes the first of them")
def _task_ids_are_digits_in_order(subject: ArenaUnderTest) -> None:
    config = subject.config()
    ids = subject.provider.task_ids(config)
    _demand(ids == subject.factory().task_ids(config), "two providers of the factory give other ids or another order")
    _demand(len(ids) == config["limit"], f"{len(ids)} ids for a limit of {config['limit']}")
    for task_id in ids:
        try:
            check_task_id(task_id)
        except OfficialArenaError as error:
            raise _Refusal(str(error)) from error
    _demand(len(set(ids)) == len(ids), "an id is given twice")
    _demand(subject.provider.task_ids(subject.config(limit=1)) == ids[:1], "limit=1 does not give the first task")


@_check("a test task must not be a train task")
def _splits_are_disjoint(subject: ArenaUnderTest) -> None:
    provider = cast("Any", subject.provider)
    seen: set[str] = set()
    for split in provider.split_sizes:
        config = provider.campaign_config(split=split, limit=None, agent=dict(subject.agent), budget=None)
        ids = set(provider.task_ids(config))
        _demand(not seen & ids, f"{len(seen & ids)} tasks of {split} are in another split, too")
        seen |= ids


# --- capture ------------------------------------------------------------------------------------------------


@_check("let _first_turn depend on config and task id only: no clock, no randomness, no state of the provider")
def _capture_is_repeatable(subject: ArenaUnderTest) -> None:
    config = subject.config()
    first, second = subject.captured(config), replace(subject).captured(config)
    for name, one, other in (("visible", first[0], second[0]), ("protected", first[1], second[1])):
        _demand(content_hash(one) == content_hash(other), f"two captures differ in their {name} part")


@_check("let capture_batch be workers.official_arenas._first_capture.capture_batch, and pass durable and on_task on")
def _capture_keeps_its_ledger(subject: ArenaUnderTest) -> None:
    config, root = subject.config(), subject.directory()
    told: list[tuple[str, str]] = []

    def tell(task_id: str, status: str) -> None:
        told.append((task_id, status))

    batch = subject.provider.capture_batch(config, output_root=root, durable=False, on_task=tell)
    ids = subject.provider.task_ids(config)
    lost = [row["task_id"] for row in batch["dispositions"] if row["status"] != "captured"]
    if lost:
        subject.explain_capture(config)
    _demand(not lost, f"tasks {lost} were not captured")
    _demand(told == [(task_id, "captured") for task_id in ids], "on_task was not told every task and its status")
    names = {f"first-capture-{task_id}{end}" for task_id in ids for end in (".json", "-start.json")}
    _demand({path.name for path in root.iterdir()} == names, "the ledger is not one start and one receipt per task")
    before = {path.name: path.read_bytes() for path in root.iterdir()}
    again = subject.provider.capture_batch(config, output_root=root, durable=True)
    _demand(again["records"] == batch["records"], "a second call gives other records")
    _demand({path.name: path.read_bytes() for path in root.iterdir()} == before, "a second call changes the ledger")


@_check("make exactly one user generation in _first_turn, show its text as query, and count its tokens or give None")
def _first_turn_is_one_message(subject: ArenaUnderTest) -> None:
    config = subject.provider._validate_config(subject.config())
    for task_id in subject.provider.task_ids(config):
        record, tokens = subject.provider._first_turn(config, task_id)
        spoken = [row for row in record["visible_state"].get("messages", ()) if row["role"] == "user"]
        _demand(len(spoken) <= 1, f"task {task_id} shows {len(spoken)} user messages")
        if spoken:
            _demand(spoken[0]["content"] == record["visible_state"]["query"], "query is not the user's message")
        counts = tokens is None or all(type(value) is int and value >= 0 for value in tokens.values())
        _demand(counts, "the usage of the user generation is neither None nor counts of tokens")


@_check(
    "give exactly checkpoint_id, group_key, visible_state, eligible_families, protected; a state that parses; locks"
)
def _records_have_the_documented_shape(subject: ArenaUnderTest) -> None:
    config = subject.config()
    visible, protected = subject.captured(config)
    ids = subject.provider.task_ids(config)
    _demand([row["checkpoint_id"] for row in visible] == ids, "checkpoint ids are not the task ids in their order")
    for row, record in zip(visible, protected, strict=True):
        _demand(record["protected"].get("task_id") == row["checkpoint_id"], "protected.task_id is not checkpoint_id")
        locks = record["protected"].get("locked_dependency_hashes")
        _demand(locks == config["locked_dependency_hashes"], "protected locks are not those of the config")
        budget = row["visible_state"]["budget"]
        caps = {name: config["budget_override"][name] for name in _CAPS}
        _demand({name: budget[name] for name in caps} == caps, "the visible budget is not that of the config")


@_check("keep what only the scorer may know below protected['gold'], and out of visible_state, in any wording")
def _gold_stays_out_of_sight(subject: ArenaUnderTest) -> None:
    config = subject.provider._validate_config(subject.config())
    for task_id in subject.provider.task_ids(config):
        record, _ = subject.provider._first_turn(config, task_id)
        try:
            _screen(record)
        except OfficialArenaError as error:
            raise _Refusal(str(error)) from error


def _screen(record: Mapping[str, Any]) -> None:
    from workers.official_arenas._screening import gold_texts, screen_visible_state

    screen_visible_state(record["visible_state"], gold=gold_texts(record["protected"]))


# --- arms ---------------------------------------------------------------------------------------------------


@_check("let an arm depend on config, record and payload only; put times and nonces nowhere into the trace")
def _arms_are_repeatable(subject: ArenaUnderTest) -> None:
    config = subject.config()
    for captured in subject.pairs(config):
        first, second = subject.play(config, captured), subject.play(config, captured)
        same = normalized_trace_hash(first.trace) == normalized_trace_hash(second.trace)
        _demand(same, f"two plays of task {captured[0]['checkpoint_id']} have other traces")
        _demand(dict(first.metrics) == dict(second.metrics), "two plays have other metrics")


@_check("take query, instruction and context from `state`, never from `task`, or no change can have an effect")
def _changes_reach_the_agent(subject: ArenaUnderTest) -> str:
    from workers.official_arenas._arena_marks import PARTS

    config, missing, notes = subject.config(), set(PARTS), set[str]()
    for captured in subject.pairs(config):
        reach, note = _reach(subject, config, captured)
        missing &= set(reach.missing)
        notes |= {note} - {""}
    if missing:
        named = " and ".join(part for part in PARTS if part in missing)
        notes.add(f"changes of {named} do not show in what the agent is asked, so they can have no effect here")
    return "; ".join(sorted(notes))


def _reach(
    subject: ArenaUnderTest, config: Mapping[str, Any], captured: tuple[Mapping[str, Any], Mapping[str, Any]]
) -> tuple[Reach, str]:
    """Play a marked task; an arena that asks its model by itself is judged by its trace."""
    from workers.official_arenas._arena_marks import Marked, reach_of, requests_noted

    trace: Any = ()
    stopped: Exception | None = None
    with requests_noted(subject.provider) as asked:
        try:
            trace = subject.play(config, captured, intervention=Marked()).trace.get("messages", ())
        except Exception as error:  # noqa: BLE001 - a scripted agent may not understand a mark, after it was asked
            stopped = error
    reach = reach_of(captured[0]["visible_state"], asked or trace)
    if stopped is not None and (not asked or reach.missing):
        raise stopped
    if not asked:
        return reach, "nothing went through agent.ask, so the trace was searched"
    problem = f"task {captured[0]['checkpoint_id']}: changes of {' and '.join(reach.missing)} never reach the agent"
    if reach.from_task:
        problem += f", which is asked with the task's own {' and '.join(reach.from_task)}"
    _demand(not reach.from_task and not {"instruction", "query"} <= set(reach.missing), problem)
    return reach, ""


@_check("do not let the role decide anything: with equal input, baseline and treatment must end equally")
def _roles_are_alike(subject: ArenaUnderTest) -> None:
    config = subject.config()
    for captured in subject.pairs(config):
        arms = [subject.play(config, captured, role=role) for role in ("baseline", "treatment")]
        same = normalized_trace_hash(arms[0].trace) == normalized_trace_hash(arms[1].trace)
        _demand(same and dict(arms[0].metrics) == dict(arms[1].metrics), "equal input, other outcome in the other role")
        _demand(arms[0].runtime_instance_id != arms[1].runtime_instance_id, "two arms have one runtime_instance_id")
    try:
        subject.play(config, subject.pairs(config)[0], role="neither")
    except OfficialArenaError:
        return
    raise _Refusal("run_arm accepts a role that is neither baseline nor treatment")


@_check(f"give finite numbers under the same names in every arm, {_PRIMARY} (0 or 1) among them")
def _metrics_are_comparable(subject: ArenaUnderTest) -> None:
    config = subject.config()
    names: set[frozenset[str]] = set()
    for captured in subject.pairs(config):
        spent = {"model_calls": config["budget_override"]["max_model_calls"]}
        for result in (subject.play(config, captured), subject.play(config, captured, spent=spent)):
            names.add(frozenset(result.metrics))
            success = result.metrics.get(_PRIMARY, 1.0)
            _demand(success in {0.0, 1.0}, f"{_PRIMARY} is {success!r}")
    _demand(len(names) == 1, "arms have metrics of different names")
    (only,) = names
    # An arena with a single number has nothing to choose from; a campaign is judged by that one.
    _demand(_PRIMARY in only or len(only) == 1, f"{_PRIMARY} is not among {sorted(only)}")


@_check("count before you spend: BudgetedAgent.ask and .use_tool do; a cap of 0 means none")
def _caps_of_zero_allow_nothing(subject: ArenaUnderTest) -> None:
    for name in _CAPS:
        _within(subject, **{name: 0})


@_check("count before you spend, over the whole arm; stop it, with terminal_success 0, where a cap is reached")
def _caps_end_the_arm(subject: ArenaUnderTest) -> None:
    for name in ("max_model_calls", "max_output_tokens"):
        _within(subject, **{name: 1})


def _within(subject: ArenaUnderTest, **caps: int) -> None:
    from workers.official_arenas._requests import validate_shared_budget_usage

    budget = {**standard_shared_budget(), **caps}
    budget["max_output_tokens_per_call"] = min(budget["max_output_tokens_per_call"], budget["max_output_tokens"])
    config = subject.config(budget=budget)
    for captured in subject.pairs(config):
        result = subject.play(config, captured)
        try:
            validate_shared_budget_usage(config, subject.payload(captured[0]), merge_usage(result.usage))
        except OfficialArenaError as error:
            raise _Refusal(f"raised {type(error).__name__}: {error}") from error


@_check("subtract what the intervention used (protocol.intervention_usage) from the budget before the agent starts")
def _spent_budget_is_not_spent_again(subject: ArenaUnderTest) -> None:
    config = subject.config()
    spent = {"model_calls": config["budget_override"]["max_model_calls"]}
    for captured in subject.pairs(config):
        result = subject.play(config, captured, spent=spent)
        calls = merge_usage(intervention_usage(subject.payload(captured[0], spent=spent)), result.usage)["model_calls"]
        _demand(calls <= spent["model_calls"], f"intervention and agent used {calls} model calls, {spent} were allowed")


@_check("write work_dir/attempt-start.json create-only before anything is spent, and let FileExistsError pass")
def _attempts_leave_evidence(subject: ArenaUnderTest) -> None:
    config = subject.config()
    captured, work_dir = subject.pairs(config)[0], subject.directory()
    result = subject.play(config, captured, work_dir=work_dir, durable=True)
    if not merge_usage(result.usage)["model_calls"]:
        return  # nothing was spent, nothing needs to be remembered
    start = work_dir / "attempt-start.json"
    _demand(start.is_file(), "an arm that asked a model left no attempt-start.json")
    _demand(not start.stat().st_mode & 0o077, "attempt-start.json can be read by others")
    before = {path.name: path.read_bytes() for path in work_dir.iterdir()}
    try:
        subject.play(config, captured, work_dir=work_dir)
    except (FileExistsError, OfficialArenaError):
        _demand({path.name: path.read_bytes() for path in work_dir.iterdir()} == before, "evidence was overwritten")
        return
    raise _Refusal("an arm that was started is played again in the same work directory")


@_check("print nothing: what an arena prints may be a user's text")
def _console_stays_quiet(subject: ArenaUnderTest) -> None:
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        config = subject.config()
        subject.play(config, subject.pairs(config)[0])
    _demand(not out.getvalue(), f"{len(out.getvalue())} characters were printed while capturing and playing")


# --- sources ------------------------------------------------------------------------------------------------


@_check("declare the arena's module, its helper modules and its data files in source_files (OwnArena: other_files)")
def _source_closure_is_complete(subject: ArenaUnderTest) -> None:
    files = subject.provider.source_files()
    missing = sorted(name for name, path in files.items() if not path.is_file() or path.is_symlink())
    _demand(not missing, f"declared, but no regular file: {missing}")
    helpers = {name for name, path in subject.provider.helper_files().items() if files.get(name) != path}
    _demand(not helpers, f"helper_files has what source_files has not: {sorted(helpers)}")
    undeclared = undeclared_modules(subject.provider, subject.factory)
    _demand(not undeclared, f"imported, but not declared: {undeclared}")
    with reads_noted() as reads:
        config = subject.config()
        subject.play(config, subject.pairs(config)[0])
    unread = read_but_not_declared(reads, subject.provider, subject.factory)
    _demand(not unread, f"read while playing, but not declared: {unread}")
