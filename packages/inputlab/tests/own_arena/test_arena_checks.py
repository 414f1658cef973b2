"""Every check of `check_arena` passes on honest arenas and refuses an arena with the fault it is for."""

from __future__ import annotations

import itertools
import secrets
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from unit_arena import UnitArena, factory

from agentinputlab.contracts.state import ContextBlock
from workers.official_arenas import testing
from workers.official_arenas._arena_sources import undeclared_modules
from workers.official_arenas._first_capture import capture_batch
from workers.official_arenas.own_arena import OwnArena, Played
from workers.official_arenas.protocol import OfficialArenaError, ProviderArmResult
from workers.official_arenas.providers import fixture
from workers.official_arenas.testing import check_arena

counter = itertools.count()


class Fault(UnitArena):
    """The example without its data file: the tasks are in memory, so that the file is not read."""

    def tasks(self):
        return list(TASKS)


TASKS = UnitArena().tasks()


def failed(arena_factory, **options: Any) -> dict[str, testing.Finding]:
    findings = check_arena(arena_factory, **{"limit": 2, **options})
    assert len({finding.check for finding in findings}) == len(findings) == 21
    assert all(bool(finding.hint) == bool(finding.problem) == (not finding.ok) for finding in findings)
    return {finding.check: finding for finding in findings if not finding.ok}


def test_example_arena_passes_every_check() -> None:
    assert failed(factory) == {}
    assert failed(factory, split="test", limit=None) == {}


def test_fixture_arena_passes_but_for_its_one_tool_call() -> None:
    # It makes that call whatever the budget says.
    assert failed(fixture.factory).keys() <= {"caps_of_zero_allow_nothing"}


def test_embedded_arena_passes_every_check() -> None:
    embedded = pytest.importorskip("workers.official_arenas.providers.embedded_retail")
    assert failed(embedded.factory) == {}


class OtherScorerEachTime(Fault):
    def __init__(self) -> None:
        self.nonce = secrets.token_hex(32)

    @property
    def scorer_revision(self):
        return self.nonce


class ShortRevision(Fault):
    scorer_revision = "v1"


class LosesTheBudget(Fault):
    def campaign_config(self, *, split, limit, agent, budget):
        return super().campaign_config(split=split, limit=limit, agent=agent, budget=None) | {
            "budget_override": {**testing.standard_shared_budget(), "max_model_calls": 7}
        }


class ChangesItsArgument(Fault):
    def _validate_config(self, config):
        checked = super()._validate_config(config)
        config["limit"] += 1
        return checked


class AcceptsEverything(Fault):
    def _validate_config(self, config):
        return dict(config)


class Blocked(Fault):
    def problems(self, config):
        return ["no licence"]


class LettersAsIds(Fault):
    def task_ids(self, config):
        return [f"task{number}" for number in super().task_ids(config)]


class ArabicDigits(Fault):
    def task_ids(self, config):
        return ["\u0661", "\u0662"][: config["limit"]]


class ShuffledIds(Fault):
    def __init__(self) -> None:
        self.turn = next(counter)

    def task_ids(self, config):
        ids = super().task_ids(config)
        return ids[self.turn % 2 :] + ids[: self.turn % 2]


class TrainsOnTheTest(Fault):
    def task_ids(self, config):
        return list(self._tasks)[: config["limit"]]


class FirstMessageWithNonce(Fault):
    def first_message(self, task, config):
        return f"{task.query} ({secrets.token_hex(4)})", None


class DeafCapture(Fault):
    def capture_batch(self, config, *, output_root, durable=True, on_task=None):
        return capture_batch(self, config, output_root=output_root, durable=durable)


class CaptureWithoutLedger(Fault):
    def capture_batch(self, config, *, output_root, durable=True, on_task=None):
        inner = output_root / "inner"
        inner.mkdir(mode=0o700, exist_ok=True)
        return capture_batch(self, config, output_root=inner, durable=durable, on_task=on_task)


class TwoUserMessages(Fault):
    def _first_turn(self, config, task_id):
        record, tokens = super()._first_turn(config, task_id)
        record["visible_state"]["messages"] *= 2
        return record, tokens


class UncountedTokens(Fault):
    def first_message(self, task, config):
        return task.query, {"input_tokens": 0, "output_tokens": 1.5}


class OtherVisibleBudget(Fault):
    def _first_turn(self, config, task_id):
        record, tokens = super()._first_turn(config, task_id)
        record["visible_state"]["budget"]["max_model_calls"] = 7
        return record, tokens


class SixFields(Fault):
    def _first_turn(self, config, task_id):
        record, tokens = super()._first_turn(config, task_id)
        return {**record, "difficulty": 3}, tokens


def spoiled(task, **changes: Any):
    return type(task)(
        **{name: getattr(task, name) for name in ("task_id", "split", "query", "instruction", "gold")} | changes
    )


class TellsTheAnswer(Fault):
    def tasks(self):
        gold = {"answer": "one hundred and eighty minutes"}
        return [spoiled(task, gold=gold, instruction=f"Say {gold['answer']}.") for task in TASKS]


class TraceWithNonce(Fault):
    def play(self, task, state, agent):
        played = super().play(task, state, agent)
        return Played(played.success, [*played.messages, {"role": "tool", "content": secrets.token_hex(4)}], METRICS)


METRICS = {"look_ups": 0.0}


class Biased(Fault):
    def run_arm(self, config, *, role, **named):
        result = super().run_arm(config, role=role, **named)
        metrics = {**result.metrics, "terminal_success": float(role == "treatment")}
        return ProviderArmResult(metrics, result.trace, result.usage, result.runtime_instance_id)


class OneRuntime(Fault):
    def run_arm(self, config, **named):
        result = super().run_arm(config, **named)
        return ProviderArmResult(result.metrics, result.trace, result.usage, "e" * 64)


class InputFromTheTask(Fault):
    def play(self, task, state, agent):
        answer = agent.ask([{"role": "user", "content": task.query}], system=task.instruction)
        return Played(answer.text == "12", agent.transcript, METRICS)


class InstructionFromTheTask(Fault):
    def play(self, task, state, agent):
        answer = agent.ask([{"role": "user", "content": state.query}], system=task.instruction)
        return Played(answer.text == "12", agent.transcript, METRICS)


class ContextFromTheTask(Fault):
    def tasks(self):
        block = ContextBlock("A yard is three feet.", block_id="yards")
        return [replace(task, context=(block,)) for task in TASKS]

    def play(self, task, state, agent):
        system = "\n".join([state.instruction, *(block.text for block in task.context)])
        answer = agent.ask([{"role": "user", "content": state.query}], system=system)
        return Played(answer.text == "12", agent.transcript, METRICS)


class AnyRole(Fault):
    def run_arm(self, config, *, role, **named):
        return super().run_arm(config, role=role if role == "treatment" else "baseline", **named)


class HalfSuccess(Fault):
    def run_arm(self, config, **named):
        result = super().run_arm(config, **named)
        return ProviderArmResult(
            {**result.metrics, "terminal_success": 0.5}, result.trace, result.usage, result.runtime_instance_id
        )


class NoPrimaryMetric(Fault):
    def run_arm(self, config, **named):
        result = super().run_arm(config, **named)
        metrics = {name: value for name, value in result.metrics.items() if name != "terminal_success"}
        return ProviderArmResult(metrics, result.trace, result.usage, result.runtime_instance_id)


class MetricOnlyOnSuccess(Fault):
    def run_arm(self, config, **named):
        result = super().run_arm(config, **named)
        metrics = {name: value for name, value in result.metrics.items() if name != "look_ups" or value}
        return ProviderArmResult(metrics, result.trace, result.usage, result.runtime_instance_id)


class ToolsForFree(Fault):
    def play(self, task, state, agent):
        agent.allowance.used["tool_calls"] += 1
        return Played(False, [{"role": "user", "content": state.query}], METRICS)


class TwoCallsAtOnce(Fault):
    def play(self, task, state, agent):
        agent.allowance.charge(input_tokens=1, output_tokens=1, model_calls=2)
        return Played(False, [{"role": "user", "content": state.query}], METRICS)


class IgnoresTheIntervention(Fault):
    def run_arm(self, config, *, arm_payload, **named):
        execution = {**arm_payload["intervention_execution"], "usage": {}}
        return super().run_arm(config, arm_payload={**arm_payload, "intervention_execution": execution}, **named)


class RemovesItsStart(Fault):
    def run_arm(self, config, *, work_dir, **named):
        result = super().run_arm(config, work_dir=work_dir, **named)
        (work_dir / "attempt-start.json").unlink()
        return result


class PlaysAgain(Fault):
    def run_arm(self, config, *, work_dir, **named):
        (work_dir / "attempt-start.json").unlink(missing_ok=True)
        return super().run_arm(config, work_dir=work_dir, **named)


class Talkative(Fault):
    def play(self, task, state, agent):
        print(state.query)
        return super().play(task, state, agent)


class UndeclaredData(UnitArena):
    other_files = ()

    def source_files(self):
        files = dict(super().source_files())
        files.pop("unit_arena/tasks.json")
        return files

    def helper_files(self):
        return {name: path for name, path in super().helper_files().items() if not name.endswith("tasks.json")}


class MissingFile(Fault):
    def source_files(self):
        return {**super().source_files(), "gone.py": Path("/nonexistent/gone.py")}


class StrayHelper(Fault):
    def helper_files(self):
        return {"stray.py": Path(__file__)}


FAULTS = [
    (OtherScorerEachTime, "identities_are_fixed"),
    (ShortRevision, "identities_are_fixed"),
    (LosesTheBudget, "config_is_complete_and_stable"),
    (ChangesItsArgument, "config_is_complete_and_stable"),
    (AcceptsEverything, "wrong_configs_are_refused"),
    (Blocked, "doctor_finds_nothing"),
    (LettersAsIds, "task_ids_are_digits_in_order"),
    (ArabicDigits, "task_ids_are_digits_in_order"),
    (ShuffledIds, "task_ids_are_digits_in_order"),
    (TrainsOnTheTest, "splits_are_disjoint"),
    (FirstMessageWithNonce, "capture_is_repeatable"),
    (DeafCapture, "capture_keeps_its_ledger"),
    (CaptureWithoutLedger, "capture_keeps_its_ledger"),
    (TwoUserMessages, "first_turn_is_one_message"),
    (UncountedTokens, "first_turn_is_one_message"),
    (OtherVisibleBudget, "records_have_the_documented_shape"),
    (SixFields, "records_have_the_documented_shape"),
    (TellsTheAnswer, "gold_stays_out_of_sight"),
    (TraceWithNonce, "arms_are_repeatable"),
    (InputFromTheTask, "changes_reach_the_agent"),
    (InstructionFromTheTask, "changes_reach_the_agent"),
    (ContextFromTheTask, "changes_reach_the_agent"),
    (Biased, "roles_are_alike"),
    (OneRuntime, "roles_are_alike"),
    (AnyRole, "roles_are_alike"),
    (HalfSuccess, "metrics_are_comparable"),
    (NoPrimaryMetric, "metrics_are_comparable"),
    (MetricOnlyOnSuccess, "metrics_are_comparable"),
    (ToolsForFree, "caps_of_zero_allow_nothing"),
    (TwoCallsAtOnce, "caps_end_the_arm"),
    (IgnoresTheIntervention, "spent_budget_is_not_spent_again"),
    (RemovesItsStart, "attempts_leave_evidence"),
    (PlaysAgain, "attempts_leave_evidence"),
    (Talkative, "console_stays_quiet"),
    (UndeclaredData, "source_closure_is_complete"),
    (MissingFile, "source_closure_is_complete"),
    (StrayHelper, "source_closure_is_complete"),
]


@pytest.mark.parametrize(("fault", "check"), FAULTS, ids=[fault.__name__ for fault, _ in FAULTS])
def test_planted_fault_is_found(fault: type[UnitArena], check: str) -> None:
    assert check in failed(fault), failed(fault).keys()


def test_every_check_has_a_planted_fault() -> None:
    assert {check for _, check in FAULTS} == {finding.check for finding in check_arena(factory, limit=1)}


def test_fault_that_only_one_check_can_see_is_named_with_what_was_observed() -> None:
    found = failed(UndeclaredData)
    assert found.keys() == {"source_closure_is_complete"}
    assert "tasks.json" in found["source_closure_is_complete"].problem


def write_arena(folder: Path, *, how: str, declared: str) -> None:
    package = folder / "helped_arena"
    package.mkdir()
    (package / "scoring.py").write_text("def is_right(text):\n    return text == 'yes'\n")
    (package / "__init__.py").write_text(
        "from workers.official_arenas.own_arena import OwnArena, Played, Task\n"
        f"{how if how.startswith('from') else ''}\n"
        "class Arena(OwnArena):\n"
        "    benchmark_id = 'helped'\n"
        "    scorer_id = 'helped.v1'\n"
        f"    other_files = {declared}\n"
        "    def tasks(self):\n"
        "        return [Task(task_id=str(n), split='train', query='yes?') for n in range(3)]\n"
        "    def play(self, task, state, agent):\n"
        f"        {'pass' if how.startswith('from') else how}\n"
        "        answer = agent.ask([{'role': 'user', 'content': state.query}])\n"
        "        return Played(answer.text == 'yes', agent.transcript)\n"
        "    def scripted_agent(self, request):\n"
        "        return 'yes'\n"
    )


@pytest.mark.parametrize(
    "how",
    [
        "from helped_arena import scoring",
        "from .scoring import is_right",
        "import helped_arena.scoring",
        "from . import scoring",
    ],
)
@pytest.mark.parametrize("declared", ["()", "('scoring.py',)"])
def test_helper_module_must_be_declared(
    how: str, declared: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_arena(tmp_path, how=how, declared=declared)
    monkeypatch.syspath_prepend(tmp_path)
    for name in [name for name in sys.modules if name.startswith("helped_arena")]:
        monkeypatch.delitem(sys.modules, name)
    import helped_arena

    found = failed(helped_arena.Arena, limit=1)
    if declared == "()":
        assert found.keys() == {"source_closure_is_complete"}
        assert "helped_arena.scoring" in found["source_closure_is_complete"].problem
    else:
        assert found == {}


def test_base_class_declares_all_that_it_imports() -> None:
    inside = type("Inside", (UnitArena,), {"__module__": OwnArena.__module__, "tasks": UnitArena.tasks})
    assert undeclared_modules(inside(), inside) == []
    poorer = type("Poorer", (UnitArena,), {"__module__": OwnArena.__module__, "source_files": lambda _: {}})
    assert "workers.official_arenas._own_play" in undeclared_modules(poorer(), poorer)


def test_arena_that_raises_is_a_finding_and_not_an_error() -> None:
    class Broken(Fault):
        def play(self, task, state, agent):
            raise OfficialArenaError("the table is missing")

    found = failed(Broken)
    assert "arms_are_repeatable" in found
    assert "the table is missing" in found["arms_are_repeatable"].problem


# --- what reaches the agent ---------------------------------------------------------------------------------


def finding_of(check: str, arena_factory, **options: Any) -> testing.Finding:
    return next(finding for finding in check_arena(arena_factory, limit=1, **options) if finding.check == check)


def test_parts_of_the_input_that_come_from_the_task_are_named() -> None:
    assert finding_of("changes_reach_the_agent", factory).note == ""
    for arena, missing, taken in (
        (InputFromTheTask, "instruction and query and context", "instruction and query"),
        (InstructionFromTheTask, "instruction and context", "instruction"),
        (ContextFromTheTask, "context", "context"),
    ):
        assert finding_of("changes_reach_the_agent", arena).problem == (
            f"task 1: changes of {missing} never reach the agent, which is asked with the task's own {taken}"
        )


def test_arena_without_instruction_and_context_passes_with_a_note() -> None:
    class OnlyTheQuery(Fault):
        def play(self, task, state, agent):
            answer = agent.ask([{"role": "user", "content": state.query}])
            return Played(answer.text == "12", agent.transcript, METRICS)

    finding = finding_of("changes_reach_the_agent", OnlyTheQuery)
    assert (finding.ok, finding.problem) == (True, "")
    assert finding.note.startswith("changes of instruction and context do not show")
    assert str(finding) == f"ok  changes_reach_the_agent: {finding.note}"


def test_agent_that_never_sees_the_state_is_refused_though_it_sees_nothing_of_the_task_either() -> None:
    class Deaf(Fault):
        def play(self, task, state, agent):
            answer = agent.ask([{"role": "user", "content": "How many?"}])
            return Played(answer.text == "12", agent.transcript, METRICS)

    problem = finding_of("changes_reach_the_agent", Deaf).problem
    assert problem == "task 1: changes of instruction and query and context never reach the agent"


def test_scripted_agent_that_does_not_understand_a_mark_was_asked_all_the_same() -> None:
    class Strict(Fault):
        def scripted_agent(self, request):
            if not request.messages[0]["content"].endswith("?"):
                raise ValueError("this is no question")
            return super().scripted_agent(request)

    assert failed(Strict, limit=1) == {}


def test_arena_that_asks_its_model_by_itself_is_judged_by_its_trace() -> None:
    class AsksByItself(Fault):
        def play(self, task, state, agent):
            agent.allowance.charge(input_tokens=1, output_tokens=1)
            return Played(False, [{"role": "user", "content": state.query}], METRICS)

    finding = finding_of("changes_reach_the_agent", AsksByItself)
    assert finding.ok
    assert "nothing went through agent.ask" in finding.note


# --- an arena that fails is reported once -------------------------------------------------------------------


class Divides(Fault):
    def play(self, task, state, agent):
        return 1 / 0


class DividesInTasks(Fault):
    def tasks(self):
        return [spoiled(TASKS[0], task_id=str(1 // 0))]


class DividesInFirstMessage(Fault):
    def first_message(self, task, config):
        return str(1 / 0), None


class NamedByLetters(Fault):
    def tasks(self):
        return [spoiled(task, task_id=f"task-{task.task_id}") for task in TASKS]


class WithoutScriptedAgent(Fault):
    scripted_agent = OwnArena.scripted_agent


def broken_factory() -> UnitArena:
    raise KeyError("UNITS_HOME")


ONCE = [
    (Divides, "raised ZeroDivisionError: division by zero at "),
    (DividesInTasks, "raised ZeroDivisionError: integer division or modulo by zero at "),
    (DividesInFirstMessage, "raised ZeroDivisionError: division by zero at "),
    (broken_factory, "raised KeyError: 'UNITS_HOME' at "),
    (NamedByLetters, "Arena task_id must be ASCII digits"),
    (TellsTheAnswer, "Visible state holds a gold text of its record"),
    (Blocked, "doctor says: ('no licence',)"),
    (WithoutScriptedAgent, "doctor says: ('This arena has no scripted agent; "),
]


@pytest.mark.parametrize(("arena", "problem"), ONCE, ids=[arena.__name__ for arena, _ in ONCE])
def test_what_stops_many_checks_is_reported_once(arena: Any, problem: str) -> None:
    found = list(failed(arena, limit=1).values())
    told = [finding for finding in found if not finding.problem.startswith("not reached")]
    assert len(told) == 1, told
    assert problem in told[0].problem
    others = [finding for finding in found if finding is not told[0]]
    assert len(others) > 1
    assert all(told[0].check in finding.problem and finding.hint == f"mend {told[0].check} first" for finding in others)
    assert [str(finding)[:3] for finding in found].count("NOT") == 1
    if problem.endswith(" at "):
        path, _, line = told[0].problem.rpartition(" at ")[2].rpartition(":")
        assert path == __file__
        source = Path(path).read_text(encoding="utf-8").splitlines()[int(line) - 1]
        assert "/ 0" in source or "raise KeyError" in source


def test_exception_that_the_arena_wraps_is_named_with_the_first_line() -> None:
    class Wraps(Fault):
        def play(self, task, state, agent):
            try:
                return {}["units"]
            except KeyError as error:
                raise OfficialArenaError("the table is incomplete") from error

    problem = failed(Wraps, limit=1)["arms_are_repeatable"].problem
    assert "raised OfficialArenaError: the table is incomplete (because of KeyError: 'units') at " in problem
    line = int(problem.rpartition(":")[2])
    assert '{}["units"]' in Path(__file__).read_text(encoding="utf-8").splitlines()[line - 1]
