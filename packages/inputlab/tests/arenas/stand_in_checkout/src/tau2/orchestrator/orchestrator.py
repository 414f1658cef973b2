"""Stand-in orchestrator: half duplex; limits are looked at only when the next receiver is not the environment."""

from enum import StrEnum
from typing import Any

from tau2.data_model.message import AssistantMessage, MultiToolMessage
from tau2.data_model.simulation import SimulationRun


class Role(StrEnum):
    AGENT = "agent"
    USER = "user"
    ENV = "env"


OPEN: list["Orchestrator"] = []


class Orchestrator:
    def __init__(
        self,
        domain: str,
        agent: Any,
        user: Any,
        environment: Any,
        task: Any,
        max_steps: int = 100,
        max_errors: int = 10,
        seed: int | None = None,
        simulation_id: str | None = None,
        timeout: float | None = None,
    ) -> None:
        self.agent, self.user, self.environment, self.task = agent, user, environment, task
        self.max_steps, self.max_errors, self.seed, self.simulation_id = max_steps, max_errors, seed, simulation_id
        self.trajectory: list[Any] = []
        self.steps = self.errors = 0
        self.done: str | None = None
        OPEN.append(self)

    def initialize(self) -> None:
        history = list(getattr(self.task.initial_state, "message_history", None) or ())
        if not history:
            history = [AssistantMessage(content="Hi! How can I help you today?", cost=0.0)]
        self.trajectory = list(history)
        self.message = history[-1]
        from_user = self.message.role == "user"
        self.to_role = Role.AGENT if from_user else Role.USER
        self.agent_state = self.agent.get_init_state(history[:-1] if from_user else history)
        self.user_state = self.user.get_init_state(history if from_user else history[:-1])
        self.agent.set_seed(self.seed)
        self.user.set_seed(self.seed)

    def step(self) -> None:
        if self.to_role == Role.ENV:
            results = [self.environment.answer(call) for call in self.message.tool_calls]
            self.errors += sum(result.error for result in results)
            self.trajectory.extend(results)
            self.message = results[0] if len(results) == 1 else MultiToolMessage(tool_messages=results)
            self.to_role = Role.AGENT
        elif self.to_role == Role.AGENT:
            self.message, self.agent_state = self.agent.generate_next_message(self.message, self.agent_state)
            self.trajectory.append(self.message)
            if self.agent.is_stop(self.message):
                self.done = "agent_stop"
            self.to_role = Role.ENV if self.message.tool_calls else Role.USER
        else:
            self.message, self.user_state = self.user.generate_next_message(self.message, self.user_state)
            self.trajectory.append(self.message)
            if self.user.is_stop(self.message):
                self.done = "user_stop"
            self.to_role = Role.AGENT
        self.steps += 1

    def run(self) -> SimulationRun:
        self.initialize()
        while self.done is None:
            self.step()
            if self.to_role != Role.ENV:  # whoever stopped in this step: the limit has the last word, as in tau2
                if self.steps >= self.max_steps:
                    self.done = "max_steps"
                if self.errors >= self.max_errors:
                    self.done = "too_many_errors"
        return SimulationRun(
            id=str(self.simulation_id),
            task_id=self.task.id,
            termination_reason=self.done,
            messages=self.trajectory,
            seed=self.seed,
        )
