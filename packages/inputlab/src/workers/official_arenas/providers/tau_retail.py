"""The official retail arena of tau2-bench: native runtime, native user and scorer, one backbone for all three.

Scores are not leaderboard scores: user and judge run on the evaluated model.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from workers.official_arenas._agent_allowance import AgentAllowance, remaining_budget
from workers.official_arenas._captured_origin import checked_replay
from workers.official_arenas._first_capture import _create_only, _saved_capture
from workers.official_arenas._source_files import package_files, worker_base_files
from workers.official_arenas.protocol import (
    OfficialArenaError,
    ProviderArmResult,
    content_hash,
    intervention_usage,
    materialized_state,
    require_materialized_budget,
    shared_budget,
)
from workers.official_arenas.providers import tau3
from workers.official_arenas.providers._live_history import LiveHistoryTransform
from workers.official_arenas.providers._tau_agent import ArmPlay, budgeted_agent, guarded_user
from workers.official_arenas.providers._tau_audit import audit_retail_source
from workers.official_arenas.providers._tau_config import (
    BENCHMARK_ID,
    SCORER_ID,
    SCORER_REVISION,
    SEED,
    SOURCE_REVISION,
    SPLIT_SIZES,
    build_config,
    validate_config,
)
from workers.official_arenas.providers._tau_judge import RetailJudgeError
from workers.official_arenas.providers._tau_records import capture_record, token_usage
from workers.official_arenas.providers._tau_results import scored_result, terminal_zero_result
from workers.official_arenas.providers.tau3 import MalformedTrajectoryError, Tau2, quiet

__all__ = [
    "SOURCE_REVISION",
    "RetailJudgeError",
    "TauRetailProvider",
    "_create_only",
    "_saved_capture",
    "audit_retail_source",
    "factory",
]

_HERE = "workers/official_arenas/providers"
_BUDGET_EXHAUSTED = "shared_budget_exhausted_before_agent"
_MALFORMED = "malformed_generated_trajectory"
_TIMEOUT = "episode_timeout"
_USER_TURNS_BOUND = 100


class TauRetailProvider:
    """The retail arena over a pinned tau2 checkout.

    Args:
        history_transform: optional hook that may shorten what the agent sees of its conversation.
    """

    benchmark_id = BENCHMARK_ID
    source_revision = SOURCE_REVISION
    scorer_id = SCORER_ID
    scorer_revision = SCORER_REVISION
    seed = SEED
    split_sizes = SPLIT_SIZES
    not_checked = (
        "tau2's dependencies, its files outside the eleven that decide tasks, tools and scores, "
        "and whether the model server answers"
    )
    """What an empty answer of `doctor` says nothing about."""

    def __init__(self, *, history_transform: LiveHistoryTransform | None = None) -> None:
        self._history_transform = history_transform
        self._audited = False

    def source_files(self) -> Mapping[str, Path]:
        """Give the worker's own files that decide an arm; those of tau2 are compared with their commit by `doctor`."""
        own = (
            "_live_history.py",
            "_tau_agent.py",
            "_tau_audit.py",
            "_tau_config.py",
            "_tau_judge.py",
            "_tau_records.py",
            "_tau_results.py",
            "tau3.py",
            "tau_retail.py",
        )
        shared = (
            "workers/official_arenas/_agent_allowance.py",
            "workers/official_arenas/_captured_origin.py",
            "workers/official_arenas/_config_checks.py",
            "agentinputlab/backends/tokens.py",  # its counts decide when a budget is used up
        )
        return {**worker_base_files(), **package_files(*shared, *(f"{_HERE}/{name}" for name in own))}

    def helper_files(self) -> Mapping[str, Path]:
        """Give the one helper module."""
        return package_files(f"{_HERE}/tau3.py")

    def campaign_config(
        self, *, split: str, limit: int | None, agent: Mapping[str, Any], budget: Mapping[str, Any] | None
    ) -> dict[str, Any]:
        """Give a complete config for one model slot (`_tau_config.build_config`)."""
        return build_config(split=split, limit=limit, agent=agent, budget=budget)

    def environment_calls_bound(self, config: Mapping[str, Any]) -> tuple[int, int]:
        """Give the most generations of user and judge per conversation."""
        budget = shared_budget(config)
        calls = _USER_TURNS_BOUND if budget is None else budget["max_model_calls"] + 1
        return (min(calls, config["max_steps"]), 1)

    def _validate_config(self, config: Mapping[str, Any]) -> dict[str, Any]:
        return validate_config(config)

    def task_ids(self, config: Mapping[str, Any]) -> list[str]:
        """Give the official ids of the configured split, in official order.

        Raises:
            ImportError: tau2 is not installed here.
        """
        checked = validate_config(config)
        tau2 = tau3.load_tau2()
        with quiet():
            return tau3.native_task_ids(tau2, checked)

    def doctor(self, config: Mapping[str, Any]) -> tuple[str, ...]:
        """Give ``()``, or one text ``<Type>: <message>`` of the first thing that is wrong.

        Looked at: the config, that tau2 can be imported, that its checkout is the pinned commit byte for byte in the
        eleven files that decide tasks, tools and scores, task ids, split, reward bases, and where the database really
        lies. `not_checked` says what was not looked at.
        """
        try:
            validate_config(config)
            tau3.load_tau2()
            self._audit()
        except (OfficialArenaError, ImportError, OSError) as error:
            return (f"{type(error).__name__}: {error}",)
        return ()

    def _audit(self) -> None:
        if self._audited:
            return
        checkout = tau3.retail_checkout()
        audit_retail_source(checkout, revision=self.source_revision, scorer_revision=self.scorer_revision)
        if not tau3.retail_database_path().is_relative_to(checkout):
            raise OfficialArenaError("tau2 would load its retail database from outside the checkout")
        self._audited = True

    # --- capture --------------------------------------------------------------------------------------------

    def _first_turn(self, config: Mapping[str, Any], task_id: str) -> tuple[dict[str, Any], dict[str, Any] | None]:
        """Play one task to its first user message: exactly one generation, never a second step."""
        checked = validate_config(config)
        tau2 = tau3.load_tau2()
        with quiet():
            task = tau3.native_task(tau2, checked, task_id)
            environment = tau2.build_environment("retail")
            tools = [tool.openai_schema for tool in environment.get_tools()]
            orchestrator = self._native(tau2, checked, task, environment, f"ailab-retail-capture-{task_id}-{SEED}")
            try:
                orchestrator.initialize()
                if _text(orchestrator.to_role) != "user" or orchestrator.user.tools:
                    raise OfficialArenaError("Retail capture must start with a user without tools")
                orchestrator.step()
                history = [tau3.plain_message(message) for message in orchestrator.trajectory]
            finally:
                _close(orchestrator)
        message = history[-1] if history else {}
        text = message.get("content")
        if message.get("role") != "user" or not isinstance(text, str) or not text.strip() or message.get("tool_calls"):
            raise OfficialArenaError("Retail capture must end with a non-empty plain user message")
        usage = message.get("usage")
        record = capture_record(checked, task_id, text, history, policy=environment.get_policy(), tools=tools)
        return record, token_usage(usage)

    def _native(self, tau2: Tau2, config: Mapping[str, Any], task: Any, environment: Any, simulation_id: str) -> Any:
        agent = tau2.agent_class(
            tools=environment.get_tools(),
            domain_policy=environment.get_policy(),
            llm=config["llm_agent"],
            llm_args=dict(config["llm_args_agent"]),
        )
        user = tau2.build_user(
            "user_simulator", environment, task, llm=config["llm_user"], llm_args=dict(config["llm_args_user"])
        )
        return self._orchestrator(tau2, config, task, environment, agent, user, simulation_id, config["max_steps"])

    def _orchestrator(
        self,
        tau2: Tau2,
        config: Mapping[str, Any],
        task: Any,
        environment: Any,
        agent: Any,
        user: Any,
        simulation_id: str,
        max_steps: int,
    ) -> Any:
        return tau2.orchestrator_class(
            domain="retail",
            agent=agent,
            user=user,
            environment=environment,
            task=task,
            max_steps=max_steps,
            max_errors=config["max_errors"],
            seed=SEED,
            simulation_id=simulation_id,
            timeout=config["timeout"],
        )

    def capture_batch(
        self,
        config: Mapping[str, Any],
        *,
        output_root: Path,
        durable: bool = True,
        on_task: Callable[[str, str], None] | None = None,
    ) -> dict[str, Any]:
        """Capture every task into the ledger below ``output_root``, each once."""
        from workers.official_arenas._first_capture import capture_batch

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
        """Play one arm from the captured first turn to its end and score it with the official evaluator.

        Raises:
            OfficialArenaError: seed, role, preflight or replay are refused before anything is spent; or the judge's
                answer does not cover the assertions.
        """
        if type(seed) is not int or seed != SEED or role not in {"baseline", "treatment"}:
            raise OfficialArenaError("Retail arm must be baseline or treatment at seed 17")
        checked = validate_config(config)
        blockers = self.doctor(checked)
        if blockers:
            raise OfficialArenaError("Retail native preflight did not pass")
        protected = checked_replay(replay_record, checked)
        state = materialized_state(arm_payload)
        budget = require_materialized_budget(arm_payload, shared_budget(checked))
        left = remaining_budget(budget, intervention_usage(arm_payload))
        play = ArmPlay(state, AgentAllowance.of(left), hook=self._history_transform)
        instance = secrets.token_hex(32)
        _create_only(
            work_dir / "attempt-start.json",
            {
                "task_id": protected["task_id"],
                "role": role,
                "seed": SEED,
                "attempt": 1,
                "config_binding": content_hash(checked),
                "runtime_instance_id": instance,
                "retry_permitted": False,
            },
            durable=durable,
        )
        if not play.allowance.can_start():
            return terminal_zero_result(_BUDGET_EXHAUSTED, play, instance, work_dir, durable)
        try:
            simulation = self._play(checked, protected, play, role)
        except MalformedTrajectoryError:
            return terminal_zero_result(_MALFORMED, play, instance, work_dir, durable)
        except Exception as error:
            if not _is_timeout(error):
                if play.trajectory:
                    messages = {"messages": play.trajectory}
                    _create_only(work_dir / "interrupted-trajectory.json", messages, durable=durable)
                raise
            return terminal_zero_result(_TIMEOUT, play, instance, work_dir, durable)
        return scored_result(simulation, play, instance, work_dir, durable)

    def _play(
        self, config: Mapping[str, Any], protected: Mapping[str, Any], play: ArmPlay, role: str
    ) -> dict[str, Any]:
        """Restore the captured history, play to the end, score; gives the simulation as JSON values."""
        tau2 = tau3.load_tau2()
        task_id = protected["task_id"]
        task = tau3.native_task(tau2, config, task_id)
        calls = play.allowance.left["model_calls"] or 0
        steps = min(config["max_steps"], 2 * (calls + (1 if play.clarification is not None else 0)))
        assertions = list(getattr(task.evaluation_criteria, "nl_assertions", None) or ())
        with quiet(), tau3.official_judge(config, assertions, play.environment_usage):
            history = [_native_message(tau2, message) for message in protected["initial_message_history"]]
            restored = task.model_copy(update={"initial_state": tau2.message_history(message_history=history)})
            environment = tau2.build_environment("retail")
            agent = budgeted_agent(tau2, environment, config, play)
            user = guarded_user(
                tau2.build_user(
                    "user_simulator",
                    environment,
                    restored,
                    llm=config["llm_user"],
                    llm_args=dict(config["llm_args_user"]),
                ),
                play.environment_usage,
            )
            simulation_id = f"ailab-retail-{role}-{task_id}-{SEED}"
            orchestrator = self._orchestrator(tau2, config, restored, environment, agent, user, simulation_id, steps)
            try:
                simulation = tau2.run_simulation(orchestrator, evaluation_type=tau2.evaluation_type)
            finally:
                play.trajectory = [tau3.plain_message(message) for message in orchestrator.trajectory]
                _close(orchestrator)
            plain: dict[str, Any] = simulation.model_dump(mode="json")
        return plain


def factory() -> TauRetailProvider:
    """Give the official retail arena."""
    return TauRetailProvider()


def _text(role: object) -> str:
    return str(getattr(role, "value", role))


def _close(orchestrator: Any) -> None:
    """Free what the runtime holds; not every version has something to close."""
    for owner in (orchestrator, getattr(orchestrator, "environment", None)):
        close = getattr(owner, "close", None)
        if callable(close):
            close()


def _is_timeout(error: Exception) -> bool:
    """LiteLLM's timeout is no `TimeoutError` in every version; its class is named ``Timeout``."""
    return isinstance(error, TimeoutError) or any(kind.__name__ == "Timeout" for kind in type(error).__mro__)


def _native_message(tau2: Tau2, message: Mapping[str, Any]) -> Any:
    kinds = {"assistant": tau2.assistant_message, "user": tau2.user_message}
    kind = kinds.get(str(message.get("role")))
    if kind is None:
        raise OfficialArenaError("Retail captured history must hold assistant and user messages only")
    return kind.model_validate(dict(message))
