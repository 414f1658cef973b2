"""An arena of your own from a list of tasks and a `play` function; the rest of the arena interface is here.

Write a subclass of `OwnArena` in a package of yours, name a function that gives one under the entry-point group
``agentinputlab.arenas``, and judge it with `workers.official_arenas.testing.check_arena`.
"""

from __future__ import annotations

import re
import secrets
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from agentinputlab.backends.tokens import TOKEN_COUNTER, count_tokens, first_tokens
from agentinputlab.contracts.serialization import to_jsonable
from agentinputlab.contracts.state import FrozenAgentState
from workers.official_arenas._agent_allowance import AgentAllowance, remaining_budget
from workers.official_arenas._first_capture import SEED, capture_batch, create_receipt
from workers.official_arenas._own_config import check_agent, check_config
from workers.official_arenas._own_play import BudgetedAgent, BudgetUsedUpError, Played, Task
from workers.official_arenas._source_files import package_files, worker_base_files
from workers.official_arenas.protocol import (
    OfficialArenaError,
    ProviderArmResult,
    content_hash,
    intervention_usage,
    materialized_state,
    merge_usage,
    require_materialized_budget,
    sha256_file,
    shared_budget,
    standard_shared_budget,
    visible_shared_budget,
)

if TYPE_CHECKING:
    from agentinputlab.backends.llm import GenerationRequest, LLMBackend

__all__ = ["BudgetUsedUpError", "BudgetedAgent", "OwnArena", "Played", "Task"]

_HERE = "workers/official_arenas"
_NO_SCRIPTED_AGENT = "This arena has no scripted agent; give a model with --model-url and --model"
_USED_UP_BEFORE = "shared_budget_exhausted_before_agent"
_ZERO_SCORE = "predeclared_terminal_zero_not_fabricated_official_reward"


class OwnArena(ABC):
    """An arena of your own. A subclass sets the names, and gives `tasks` and `play`.

    Everything that is read while an arm plays must be in the module of the subclass, or be named in ``other_files``:
    the hash of those files is the revision of the arena, so that no result can be taken for one of other rules.
    """

    benchmark_id: str
    """Name of the arena, the same as that of its entry point (``example.units``)."""
    scorer_id: str
    """Name of the scorer (``example.units.scorer.v1``)."""
    other_files: tuple[str, ...] = ()
    """Data and helper modules beside the module, relative to its folder."""
    extra_metrics: tuple[str, ...] = ()
    """Names of further numbers that `play` gives."""
    eligible_families: tuple[str, ...] = ("reformulate", "decompose", "curate")
    """Families of interventions that make sense here."""
    environment_calls: tuple[int, int] = (0, 0)
    """Model calls of the simulated user and of the judge per played conversation, at most."""
    seed: int = SEED

    # --- what you write -------------------------------------------------------------------------------------

    @abstractmethod
    def tasks(self) -> Sequence[Task]:
        """Give all tasks, each split in its official order; the same whenever it is called."""

    @abstractmethod
    def play(self, task: Task, state: FrozenAgentState, agent: BudgetedAgent) -> Played:
        """Play one arm to its end and score it.

        Args:
            task: the task, with what only the scorer may see.
            state: what the agent sees: ``query``, ``instruction``, ``context``, as the arm's intervention left them.
                Take them from here and never from the task, or no treatment can have an effect.
            agent: the model under test.
        """

    def scripted_agent(self, request: GenerationRequest) -> str:
        """Answer for the model under test, offline and repeatable, by a function of the messages alone.

        Raises:
            OfficialArenaError: the arena has no such agent.
        """
        raise OfficialArenaError(_NO_SCRIPTED_AGENT)

    def first_message(self, task: Task, config: Mapping[str, Any]) -> tuple[str, dict[str, Any] | None]:
        """Give the user's first message and the tokens of its one generation (None: unknown); `Task.query` here."""
        return task.query, {"input_tokens": 0, "output_tokens": count_tokens(task.query)}

    def problems(self, config: Mapping[str, Any]) -> Sequence[str]:
        """Give what stops the arena here beside its config (a missing service, a wrong version); nothing here."""
        return ()

    # --- identities -----------------------------------------------------------------------------------------

    @cached_property
    def _own_files(self) -> Mapping[str, Path]:
        files: dict[str, Path] = {}
        for kind in type(self).__mro__:
            if kind is OwnArena or not issubclass(kind, OwnArena):
                continue
            path = Path(str(sys.modules[kind.__module__].__file__)).resolve()
            package, _, _ = kind.__module__.rpartition(".") if path.name != "__init__.py" else (kind.__module__, "", "")
            prefix = f"{package.replace('.', '/')}/" if package else ""
            names = (path.name, *kind.__dict__.get("other_files", ()))
            files |= {prefix + name: path.parent / name for name in names}
        return MappingProxyType(files)

    @cached_property
    def _file_hashes(self) -> Mapping[str, str]:
        try:
            return {name: sha256_file(path) for name, path in self._own_files.items()}
        except OSError as error:
            raise OfficialArenaError(f"Arena file {Path(str(error.filename)).name} cannot be read") from error

    @property
    def source_revision(self) -> str:
        """First 40 hex digits of the content hash of the arena's own files."""
        return content_hash(self._file_hashes)[:40]

    @property
    def scorer_revision(self) -> str:
        """Content hash of scorer name and own files."""
        return content_hash({"scorer_id": self.scorer_id, "files": self._file_hashes})

    @property
    def split_sizes(self) -> Mapping[str, int]:
        """Number of tasks per split, ``train`` before ``test``; a split without tasks is left out."""
        splits = [task.split for task in self._tasks.values()]
        return {split: splits.count(split) for split in ("train", "test") if split in splits}

    def source_files(self) -> Mapping[str, Path]:
        """Give everything that decides an arm's outcome."""
        ours = (
            "own_arena.py",
            "_agent_allowance.py",
            "_config_checks.py",
            "_own_config.py",
            "_own_play.py",
        )
        backends = ("tokens.py", "llm/_completion.py", "llm/_http.py", "llm/_local.py", "llm/_types.py")
        names = [f"{_HERE}/{name}" for name in ours] + [f"agentinputlab/backends/{name}" for name in backends]
        return {**worker_base_files(), **package_files(*names), **self._own_files}

    def helper_files(self) -> Mapping[str, Path]:
        """Give the arena's own files."""
        return self._own_files

    @cached_property
    def _tasks(self) -> Mapping[str, Task]:
        tasks: dict[str, Task] = {}
        for task in self.tasks():
            if not re.fullmatch(r"[0-9]{1,64}", task.task_id) or task.task_id in tasks:
                raise OfficialArenaError("Arena task_id must be ASCII digits, unique over both splits")
            if task.split not in {"train", "test"}:
                raise OfficialArenaError(f"Arena task {task.task_id} split must be train or test")
            tasks[task.task_id] = task
        return tasks

    # --- config ---------------------------------------------------------------------------------------------

    def campaign_config(
        self, *, split: str, limit: int | None, agent: Mapping[str, Any] | None, budget: Mapping[str, Any] | None
    ) -> dict[str, Any]:
        """Give a complete config for one model slot.

        Args:
            split: ``train`` or ``test``.
            limit: first so many tasks; None takes the whole split.
            agent: ``{"backend": "scripted" or "openai", "model": ..., "args": {...}}``; None takes the scripted one.
            budget: shared budget; None takes the standard one.

        Raises:
            OfficialArenaError: a field is wrong; the message names it.
        """
        chosen = {"backend": "scripted", "model": "scripted-agent.v1", "args": {}} if agent is None else dict(agent)
        check_agent(chosen)
        return self._validate_config(
            {
                "task_split_name": split,
                "limit": self.split_sizes.get(split, 0) if limit is None else limit,
                "capture_seed": SEED,
                "agent": chosen,
                "locked_dependency_hashes": self._locks(chosen),
                "budget_override": standard_shared_budget() if budget is None else dict(budget),
            }
        )

    def _locks(self, agent: object) -> dict[str, str]:
        runtime = {"benchmark_id": self.benchmark_id, "source_revision": self.source_revision}
        return {
            "agent_model": content_hash(agent),
            "official_runtime": content_hash(runtime),
            "scorer": self.scorer_revision,
        }

    def _validate_config(self, config: Mapping[str, Any]) -> dict[str, Any]:
        return check_config(config, split_sizes=self.split_sizes, locks=self._locks)

    def environment_calls_bound(self, config: Mapping[str, Any]) -> tuple[int, int]:
        """Give the model calls of user and judge per played conversation, at most."""
        return self.environment_calls

    def task_ids(self, config: Mapping[str, Any]) -> list[str]:
        """Give the ids of the configured split, in official order, as many as the config limits."""
        ids = [task.task_id for task in self._tasks.values() if task.split == config["task_split_name"]]
        return ids[: config["limit"]]

    def doctor(self, config: Mapping[str, Any]) -> tuple[str, ...]:
        """Give what stops this arena here: its config, an agent that it has not, and what `problems` finds."""
        try:
            checked = self._validate_config(config)
            found = tuple(self.problems(checked))
        except OfficialArenaError as error:
            return (f"{type(error).__name__}: {error}",)
        is_missing = checked["agent"]["backend"] == "scripted" and type(self).scripted_agent is OwnArena.scripted_agent
        return (_NO_SCRIPTED_AGENT, *found) if is_missing else found

    # --- capture --------------------------------------------------------------------------------------------

    def _first_turn(self, config: Mapping[str, Any], task_id: str) -> tuple[dict[str, Any], dict[str, Any] | None]:
        task = self._tasks[task_id]
        text, usage = self.first_message(task, config)
        metadata = {"benchmark_id": self.benchmark_id, "checkpoint_phase": "after_initial_user_message"}
        state = {
            "query": text,
            "task_id": task_id,
            "instruction": task.instruction,
            "context": [to_jsonable(block) for block in task.context],
            "messages": [{"role": "user", "content": text, "name": None}],
            "tool_names": list(task.tool_names),
            "metadata": {**metadata, "capture_attempt": 1, "capture_seed": SEED},
            "budget": visible_shared_budget(config["budget_override"]),
        }
        return {
            "checkpoint_id": task_id,
            "group_key": task_id,
            "visible_state": state,
            "eligible_families": list(self.eligible_families),
            "protected": self._protected(config, task),
        }, usage

    def _protected(self, config: Mapping[str, Any], task: Task) -> dict[str, Any]:
        return {
            "task_id": task.task_id,
            "gold": to_jsonable(task.gold),
            "capture_attempt": 1,
            "capture_seed": SEED,
            "locked_dependency_hashes": dict(config["locked_dependency_hashes"]),
        }

    def capture(self, config: Mapping[str, Any], *, output_root: Path) -> list[dict[str, Any]]:
        """Give the record of every task.

        Raises:
            OfficialArenaError: a task was not captured.
        """
        batch = self.capture_batch(config, output_root=output_root)
        records: list[dict[str, Any]] = batch["records"]
        if len(records) != len(batch["expected_task_ids"]):
            raise OfficialArenaError("Arena capture has tasks that were not captured")
        return records

    def capture_batch(
        self,
        config: Mapping[str, Any],
        *,
        output_root: Path,
        durable: bool = True,
        on_task: Callable[[str, str], None] | None = None,
    ) -> dict[str, Any]:
        """Capture every task into the ledger below ``output_root``, each once."""
        return capture_batch(self, config, output_root=output_root, durable=durable, on_task=on_task)

    # --- arms -----------------------------------------------------------------------------------------------

    def run_arm(
        self,
        config: Mapping[str, Any],
        *,
        replay_record: Mapping[str, Any],
        arm_payload: Mapping[str, Any],
        seed: int,
        role: str,
        work_dir: Path,
        durable: bool = True,
    ) -> ProviderArmResult:
        """Play one arm from its captured start and score it; once per work directory.

        Raises:
            FileExistsError: an arm was started in this work directory before.
            OfficialArenaError: seed, role, config or replay are refused before anything is spent.
        """
        if type(seed) is not int or seed != SEED or role not in {"baseline", "treatment"}:
            raise OfficialArenaError("Arena arm must be baseline or treatment at seed 17")
        checked = self._validate_config(config)
        task = self._tasks.get(str(replay_record.get("checkpoint_id")))
        if task is None or replay_record.get("protected") != self._protected(checked, task):
            raise OfficialArenaError("Arena replay is not the first capture of this config and this revision")
        state = FrozenAgentState.from_dict(materialized_state(arm_payload))
        budget = require_materialized_budget(arm_payload, shared_budget(checked))
        allowance = AgentAllowance.of(remaining_budget(budget, intervention_usage(arm_payload)))
        agent = BudgetedAgent(
            self._model(checked), allowance, max_tokens=_max_tokens(checked), first=state.query or state.instruction
        )
        instance = secrets.token_hex(32)  # outside the trace, so that equal trajectories have equal hashes
        start = {"task_id": task.task_id, "role": role, "seed": SEED, "attempt": 1, "retry_permitted": False}
        start |= {"config_binding": content_hash(checked), "runtime_instance_id": instance}
        create_receipt(work_dir / "attempt-start.json", start, durable=durable)
        try:
            if not allowance.can_start():
                allowance.hard_stops = 1
                played = Played(False, agent.transcript, termination=_USED_UP_BEFORE)
                provenance = _ZERO_SCORE
            else:
                played, provenance = self.play(task, state, agent), self.scorer_id
        except BudgetUsedUpError:
            played, provenance = Played(False, agent.transcript, termination="max_steps"), _ZERO_SCORE
        except Exception:
            interrupted = {"messages": agent.transcript, "usage": allowance.used}
            create_receipt(work_dir / "interrupted-trajectory.json", interrupted, durable=durable)
            raise
        result = self._result(checked, played, allowance, provenance, instance)
        if provenance == _ZERO_SCORE:
            zero = {"reason": played.termination, "metrics": dict(result.metrics), "usage": dict(result.usage)}
            zero |= {"score_provenance": provenance, "messages": result.trace["messages"]}
            create_receipt(work_dir / "terminal-zero.json", zero, durable=durable)
        return result

    def _model(self, config: Mapping[str, Any]) -> LLMBackend:
        from agentinputlab.backends.llm import CallableBackend, OpenAICompatibleBackend

        agent = config["agent"]
        if agent["backend"] == "scripted":
            names = {"revision": self.source_revision, "callable_id": self.benchmark_id}

            def answer(request: GenerationRequest) -> str:
                return first_tokens(self.scripted_agent(request), request.max_tokens)

            return CallableBackend(answer, model_id=agent["model"], **names)
        args = agent["args"]
        return OpenAICompatibleBackend(
            agent["model"],
            args["api_base"],
            {"revision": args.get("revision", "unstated")},
            api_key_env=args.get("api_key_env"),
            timeout_seconds=args.get("timeout", 120.0),
        )

    def _result(
        self, config: Mapping[str, Any], played: Played, allowance: AgentAllowance, provenance: str, instance: str
    ) -> ProviderArmResult:
        is_zero = provenance == _ZERO_SCORE
        extra = dict.fromkeys(self.extra_metrics, 0.0) if is_zero else dict(played.metrics)
        if set(extra) != set(self.extra_metrics):
            raise OfficialArenaError(f"Played.metrics must be exactly {sorted(self.extra_metrics)}")
        reward = float(played.success) if played.reward is None else float(played.reward)
        metrics = {
            **extra,
            "official_reward": reward,
            "terminal_success": float(played.success and not allowance.hard_stops),
            "adapter_hard_stops": float(allowance.hard_stops),
        }
        trace = {
            "messages": [dict(message) for message in played.messages],
            "termination": played.termination,
            "hard_stops": allowance.hard_stops,
            "score_provenance": provenance,
            "token_counter": TOKEN_COUNTER,
        }
        unpriced = 0 if config["agent"]["backend"] == "scripted" else allowance.used["model_calls"]
        usage = merge_usage({**allowance.used, "unpriced_model_calls": unpriced})
        return ProviderArmResult(metrics, trace, usage, instance)


def _max_tokens(config: Mapping[str, Any]) -> int:
    cap: int = config["budget_override"]["max_output_tokens_per_call"]
    return min(cap, config["agent"]["args"].get("max_tokens", cap))
