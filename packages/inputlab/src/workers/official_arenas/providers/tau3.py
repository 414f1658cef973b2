"""The door to tau2: everything that touches its modules is here, loaded when an arena needs it.

tau2 needs Python 3.12 or newer and a checkout of its repository . Its logger prints simulated
user text, so it is silenced before anything runs, and what tau2 prints goes nowhere.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, cast

from agentinputlab.backends.answered import note_answer
from workers.official_arenas.protocol import OfficialArenaError
from workers.official_arenas.providers._tau_judge import check_judge_answer

__all__ = [
    "MalformedTrajectoryError",
    "Tau2",
    "load_tau2",
    "native_task",
    "native_task_ids",
    "official_judge",
    "plain_message",
    "quiet",
    "retail_checkout",
    "retail_database_path",
]

_GENERATE_PARAMETERS = ("model", "messages", "tools", "tool_choice")
_JUDGE_MODULE = "tau2.evaluator.evaluator_nl_assertions"


class MalformedTrajectoryError(OfficialArenaError):
    """A generation that no trajectory can hold: unreadable tool arguments, or an empty user message."""


@dataclass(frozen=True, slots=True)
class Tau2:
    """The parts of tau2 that the arena uses; their types are tau2's own.

    Attributes:
        agent_class: the native agent, ``LLMAgent(tools, domain_policy, llm, llm_args)``.
        assistant_message: its message type, and so on for the next three.
        user_message: what the user says.
        message_history: task field type ``InitialState``.
        build_environment: ``build_environment("retail")``.
        build_user: ``build_user("user_simulator", environment, task, llm=, llm_args=)``.
        orchestrator_class: half-duplex orchestrator.
        run_simulation: plays an orchestrator to its end and scores it with the official evaluator.
        get_tasks: official tasks of a split.
        evaluation_type: the enumeration member that includes assertions.
    """

    agent_class: Any
    assistant_message: Any
    user_message: Any
    message_history: Any
    build_environment: Callable[..., Any]
    build_user: Callable[..., Any]
    orchestrator_class: Any
    run_simulation: Callable[..., Any]
    get_tasks: Callable[..., Any]
    evaluation_type: Any


def load_tau2() -> Tau2:
    """Import tau2 with its logger silenced.

    Raises:
        ImportError: tau2 is not installed here; the text says what it needs.
    """
    # Without these, importing prints to stderr and LiteLLM asks the network for a price list.
    os.environ.setdefault("LOGURU_AUTOINIT", "False")
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    try:
        with quiet():
            messages = import_module("tau2.data_model.message")
            evaluation = import_module("tau2.evaluator.evaluator").EvaluationType
            found = Tau2(
                agent_class=import_module("tau2.agent.llm_agent").LLMAgent,
                assistant_message=messages.AssistantMessage,
                user_message=messages.UserMessage,
                message_history=import_module("tau2.data_model.tasks").InitialState,
                build_environment=import_module("tau2.runner.build").build_environment,
                build_user=import_module("tau2.runner.build").build_user,
                orchestrator_class=import_module("tau2.orchestrator.orchestrator").Orchestrator,
                run_simulation=import_module("tau2.runner.simulation").run_simulation,
                get_tasks=import_module("tau2.runner.helpers").get_tasks,
                evaluation_type=getattr(evaluation, "ALL_WITH_NL_ASSERTIONS", evaluation.ALL),
            )
    except (ImportError, AttributeError) as error:
        raise ImportError(
            "The arena tau3.retail needs tau2 1.0.1 from its pinned checkout, on Python 3.12 or 3.13: "
            "pip install -e CHECKOUT"
        ) from error
    _silence_loggers()
    return found


def _silence_loggers() -> None:
    """tau2 logs through loguru at DEBUG, LiteLLM through logging: both would print user text."""
    with contextlib.suppress(ImportError):  # a tau2 without loguru has nothing to silence
        import_module("loguru").logger.remove()
    for name in ("LiteLLM", "litellm", "httpx", "openai"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)


@contextlib.contextmanager
def quiet() -> Generator[None]:
    """Send what is printed meanwhile nowhere; standard output is where a worker answers."""
    # Not a file that gets closed: a log handler made meanwhile keeps the stream.
    nowhere = _Nowhere()
    with contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
        yield


class _Nowhere(io.TextIOBase):
    def writable(self) -> bool:
        return True

    def write(self, text: str, /) -> int:
        return len(text)


def retail_checkout() -> Path:
    """Give the checkout from which tau2 is imported (four levels above the retail environment's folder)."""
    return Path(cast("str", import_module("tau2.domains.retail.environment").__file__)).resolve().parents[4]


def retail_database_path() -> Path:
    """Give the database file that the retail environment will really load."""
    return Path(import_module("tau2.domains.retail.utils").RETAIL_DB_PATH).resolve()


def native_task_ids(tau2: Tau2, config: Mapping[str, Any]) -> list[str]:
    """Give the official ids of the configured split, in official order."""
    tasks = tau2.get_tasks("retail", task_split_name=config["task_split_name"], num_tasks=config["limit"])
    return [str(task.id) for task in tasks]


def native_task(tau2: Tau2, config: Mapping[str, Any], task_id: str) -> Any:
    """Give one official task of the configured split.

    Raises:
        OfficialArenaError: it is not in the split.
    """
    with quiet():
        tasks = tau2.get_tasks("retail", task_split_name=config["task_split_name"], num_tasks=None)
    found = [task for task in tasks if str(task.id) == task_id]
    if len(found) != 1:
        raise OfficialArenaError("Retail task is not in the official split")
    return found[0]


def plain_message(message: Any) -> dict[str, Any]:
    """Give a tau2 message as JSON values."""
    value: dict[str, Any] = message.model_dump(mode="json")
    return value


@contextlib.contextmanager
def official_judge(
    config: Mapping[str, Any], assertions: Sequence[str], usages: list[Mapping[str, Any] | None]
) -> Generator[None]:
    """Run the official assertion judge with the configured model and the coverage guard meanwhile.

    Args:
        config: checked config.
        assertions: the assertions of the task.
        usages: gets the token usage of each judge call (None: the server did not say).
    """
    module: Any = import_module(_JUDGE_MODULE)
    native = module.generate

    def guarded(*positional: Any, **named: Any) -> Any:
        # The evaluator passes its own default model and arguments; the configured ones replace them.
        asked = {**dict(zip(_GENERATE_PARAMETERS, positional, strict=False)), **named}
        kept = {name: asked[name] for name in ("messages", "tools", "tool_choice") if name in asked}
        answer = native(**kept, model=config["llm_judge"], **dict(config["llm_args_judge"]))
        usages.append(getattr(answer, "usage", None))
        note_answer(config["llm_judge"], getattr(answer, "raw_data", None))
        check_judge_answer(answer.content, assertions)
        return answer

    module.generate = guarded
    try:
        yield
    finally:
        module.generate = native
