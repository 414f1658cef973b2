"""The embedded retail arena as a provider: config, first turns, arms. Runs on any machine without a network."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from workers.official_arenas._agent_allowance import AgentAllowance, remaining_budget
from workers.official_arenas._captured_origin import checked_replay
from workers.official_arenas._first_capture import capture_batch
from workers.official_arenas._source_files import package_files, worker_base_files
from workers.official_arenas.embedded.arena import DATA_FILES, INTERVENTION_RULES, load_arena, package_arena
from workers.official_arenas.embedded.arms import Arm, customer_of, metrics_of_trace
from workers.official_arenas.embedded.config import (
    BENCHMARK_ID,
    SEED,
    build_config,
    expected_locks,
    validate_config,
)
from workers.official_arenas.embedded.errors import EpisodeTimeoutError, MalformedGenerationError
from workers.official_arenas.embedded.judge import COVERAGE_GUARD, JUDGE_ID
from workers.official_arenas.embedded.orchestrator import GREETING, trace_message
from workers.official_arenas.embedded.records import capture_record
from workers.official_arenas.embedded.scorer import SCORER_ID
from workers.official_arenas.embedded.user import MAX_TURNS
from workers.official_arenas.protocol import (
    OfficialArenaError,
    ProviderArmResult,
    content_hash,
    intervention_usage,
    materialized_state,
    require_materialized_budget,
    shared_budget,
)

__all__ = ["EmbeddedRetailProvider", "default_config", "factory"]

_HERE = "workers/official_arenas"
_EMBEDDED = f"{_HERE}/embedded"
_SHARED_MODULES = (
    "_agent_allowance.py",
    "_captured_origin.py",
    "_config_checks.py",
    "_first_capture.py",
    "providers/embedded_retail.py",
)
_MODULES = (
    "__init__.py",
    "agent.py",
    "arena.py",
    "arms.py",
    "arithmetic.py",
    "chat_models.py",
    "config.py",
    "customers.py",
    "data_model.py",
    "errors.py",
    "guidance.py",
    "judge.py",
    "orchestrator.py",
    "records.py",
    "scorer.py",
    "steps.py",
    "task_model.py",
    "tools.py",
    "transcript.py",
    "understanding.py",
    "user.py",
)
_SCORING_MODULES = ("arithmetic.py", "data_model.py", "judge.py", "orchestrator.py", "scorer.py", "tools.py")
_BUDGET_EXHAUSTED = "shared_budget_exhausted_before_agent"
_MALFORMED = "malformed_generated_trajectory"
_TIMEOUT = "episode_timeout"


@lru_cache(maxsize=1)
def _source_revision() -> str:
    return package_arena().content_sha256[:40]


@lru_cache(maxsize=1)
def _scorer_revision() -> str:
    files = package_files(*(f"{_EMBEDDED}/{name}" for name in _SCORING_MODULES))
    hashes = {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in files.items()}
    return content_hash({"files": hashes, "judge": JUDGE_ID, "judge_coverage_guard": COVERAGE_GUARD})


class EmbeddedRetailProvider:
    """Our own retail arena: 24 tasks, sixteen tools, a scripted customer, judge and scorer."""

    benchmark_id = BENCHMARK_ID
    scorer_id = SCORER_ID
    seed = SEED

    @property
    def source_revision(self) -> str:
        """First 40 hex digits of the hash of the four data files."""
        return _source_revision()

    @property
    def scorer_revision(self) -> str:
        """Hash of scorer, tools and judge."""
        return _scorer_revision()

    @property
    def split_sizes(self) -> Mapping[str, int]:
        """Number of own tasks per split."""
        return MappingProxyType({name: len(ids) for name, ids in package_arena().splits.items()})

    def intervention_rules(self) -> Path:
        """Give scripted replies for interventions that ask a model, as `agentinputlab.backends.scripted` reads them."""
        return INTERVENTION_RULES

    def source_files(self) -> Mapping[str, Path]:
        """Give everything that decides an arm's outcome, data files included."""
        own = [f"{_EMBEDDED}/{name}" for name in _MODULES]
        own += [f"{_EMBEDDED}/data/{name}" for name in DATA_FILES]
        own += [f"{_HERE}/{name}" for name in _SHARED_MODULES]
        own += [f"agentinputlab/backends/{name}" for name in ("chat.py", "tokens.py")]
        own += [f"agentinputlab/backends/llm/{name}" for name in ("_completion.py", "_http.py", "_types.py")]
        return {**worker_base_files(), **package_files(*own)}

    def helper_files(self) -> Mapping[str, Path]:
        """Give the modules of the arena and its data files."""
        return package_files(
            *(f"{_EMBEDDED}/{name}" for name in _MODULES), *(f"{_EMBEDDED}/data/{name}" for name in DATA_FILES)
        )

    # --- config ---------------------------------------------------------------------------------------------

    def _validate_config(self, config: Mapping[str, Any]) -> dict[str, Any]:
        return validate_config(config)

    def campaign_config(
        self,
        *,
        split: str,
        limit: int | None,
        agent: Mapping[str, Any] | None = None,
        budget: Mapping[str, Any] | None = None,
        user: Mapping[str, Any] | None = None,
        judge: Mapping[str, Any] | None = None,
        data_dir: str | None = None,
    ) -> dict[str, Any]:
        """Give a complete checked config for one model slot (`config.build_config`)."""
        return build_config(
            split=split,
            limit=limit,
            agent=agent,
            budget=budget,
            source_revision=self.source_revision,
            scorer=self._scorer(),
            user=user,
            judge=judge,
            data_dir=data_dir,
        )

    def _scorer(self) -> dict[str, str]:
        return {"scorer_id": self.scorer_id, "scorer_revision": self.scorer_revision}

    def environment_calls_bound(self, config: Mapping[str, Any]) -> tuple[int, int]:
        """Give the most model calls of customer and judge per conversation; none when they are scripted."""
        budget = shared_budget(config)
        turns = MAX_TURNS if budget is None else budget["max_model_calls"] + 1
        return (
            turns if config["user"]["kind"] == "openai" else 0,
            1 if config["judge"]["kind"] == "openai" else 0,
        )

    def task_ids(self, config: Mapping[str, Any]) -> list[str]:
        """Give the ids of the configured split, in official order, as many as the config limits."""
        checked = validate_config(config)
        return list(load_arena(checked["data_dir"]).splits[checked["task_split_name"]][: checked["limit"]])

    def task_titles(self, config: Mapping[str, Any]) -> dict[str, str]:
        """Give what each task is about, in the words of the arena's author."""
        arena = load_arena(validate_config(config)["data_dir"])
        return {task_id: arena.tasks[task_id].purpose for task_id in self.task_ids(config)}

    def doctor(self, config: Mapping[str, Any]) -> tuple[str, ...]:
        """Give ``()``, or one text ``<Type>: <message>`` of the first thing that is wrong.

        Looked at: the config with its data directory, and that every lock is the one that follows from the config
        and from what is installed here. Whether a configured model endpoint answers is not looked at.
        """
        try:
            self._checked(config)
        except OfficialArenaError as error:
            return (f"{type(error).__name__}: {error}",)
        return ()

    def _checked(self, config: Mapping[str, Any]) -> dict[str, Any]:
        checked = validate_config(config)
        locks = expected_locks(checked, source_revision=self.source_revision, scorer=self._scorer())
        given = checked["locked_dependency_hashes"]
        wrong = sorted(name for name, digest in locks.items() if given[name] != digest)
        if wrong:
            raise OfficialArenaError(f"Embedded retail locks differ from what is installed here: {', '.join(wrong)}")
        return checked

    # --- capture --------------------------------------------------------------------------------------------

    def _first_turn(self, config: Mapping[str, Any], task_id: str) -> tuple[dict[str, Any], dict[str, Any] | None]:
        """Play one task to its first customer message: exactly one generation."""
        checked = validate_config(config)
        arena = load_arena(checked["data_dir"])
        if task_id not in arena.tasks:
            raise OfficialArenaError("Retail task ID is not a safe official identity")
        customer = customer_of(checked, arena.tasks[task_id])
        text = customer.reply([("assistant", GREETING)], seconds=checked["timeout"])
        history = [trace_message("assistant", GREETING, 0), trace_message("user", text, 1)]
        used = customer.usage
        return capture_record(checked, arena, task_id, text, history), {
            "input_tokens": used.input_tokens,
            "output_tokens": used.output_tokens,
        }

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

    def capture(self, config: Mapping[str, Any], *, output_root: Path) -> list[dict[str, Any]]:
        """Give the record of every task.

        Raises:
            OfficialArenaError: a task was not captured.
        """
        batch = self.capture_batch(config, output_root=output_root)
        if any(row["status"] != "captured" for row in batch["dispositions"]):
            raise OfficialArenaError("Retail capture has tasks that were not captured")
        records: list[dict[str, Any]] = batch["records"]
        return records

    def metrics_of_trace(
        self, config: Mapping[str, Any], *, task_id: str, trace: Mapping[str, Any]
    ) -> dict[str, float] | None:
        """Give the metrics that follow from a trace; None when a model or other data had a part in them.

        The config is that of a request that was played: it is not checked again, since that looks at this process.

        Raises:
            OfficialArenaError: the trace does not support the score that it holds.
        """
        return metrics_of_trace(config, task_id, trace)

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
        """Play one arm from the captured first turn to its end and score it.

        Raises:
            OfficialArenaError: seed, role, locks or replay are refused before anything is spent; a model endpoint
                gave no usable answer; or a judge's answer does not cover the assertions.
        """
        if type(seed) is not int or seed != SEED or role not in {"baseline", "treatment"}:
            raise OfficialArenaError("Retail arm must be baseline or treatment at seed 17")
        checked = self._checked(config)
        protected = checked_replay(replay_record, checked)
        state = materialized_state(arm_payload)
        budget = require_materialized_budget(arm_payload, shared_budget(checked))
        left = remaining_budget(budget, intervention_usage(arm_payload))
        arm = Arm(checked, protected, state, AgentAllowance.of(left), work_dir, durable)
        arm.start(role)
        if not arm.allowance.can_start():
            return arm.zero(_BUDGET_EXHAUSTED)
        try:
            return arm.play()
        except MalformedGenerationError:
            return arm.zero(_MALFORMED)
        except EpisodeTimeoutError:
            return arm.zero(_TIMEOUT)
        except Exception:
            arm.write("interrupted-trajectory.json", {"messages": arm.messages})
            raise


def default_config(split: str = "test", limit: int | None = None) -> dict[str, Any]:
    """Give a valid config with scripted agent, customer and judge and the standard shared budget.

    Args:
        split: ``train`` (16 tasks) or ``test`` (8 tasks).
        limit: first so many tasks; None takes the whole split.
    """
    return EmbeddedRetailProvider().campaign_config(split=split, limit=limit)


def factory() -> EmbeddedRetailProvider:
    """Give the provider."""
    return EmbeddedRetailProvider()
