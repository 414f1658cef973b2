"""Whole conversations with scripted agent and customer, played and scored by the embedded arena and by tau2."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any

from tau2_tool_calls import VARIANT, Caller, Tally, is_well_typed

from agentinputlab.backends.chat import ToolCall
from workers.official_arenas._agent_allowance import AgentAllowance
from workers.official_arenas.embedded.chat_models import Generation
from workers.official_arenas.embedded.customers import EnvironmentUsage
from workers.official_arenas.embedded.data_model import Database, RetailData
from workers.official_arenas.embedded.judge import covered_results
from workers.official_arenas.embedded.orchestrator import GREETING, Conversation, Limits, trace_message
from workers.official_arenas.embedded.scorer import Score, gold_database_hash, score_conversation
from workers.official_arenas.embedded.task_model import Task
from workers.official_arenas.embedded.tools import RetailTools
from workers.official_arenas.providers._tau_judge import RetailJudgeError
from workers.official_arenas.providers.tau3 import official_judge

OPENING = "Hello, I need help with an order."
LAST_STEP = "the customer stops in the step that reaches a limit: ended by the customer here, by the limit in tau2"

Turn = str | list[tuple[str, dict[str, Any]]]


@dataclass(frozen=True)
class Script:
    """What both sides say, and the limits.

    Attributes:
        agent: texts, or lists of calls that are made in one message.
        customer: texts after the opening; then the customer stops.
        verdict: what the judge says of every assertion.
        max_steps: messages after the opening.
        max_errors: refused calls.
    """

    agent: Sequence[Turn]
    customer: Sequence[str] = ()
    verdict: bool = True
    max_steps: int = 200
    max_errors: int = 10

    def agent_turn(self, number: int) -> Turn:
        """Give one turn of the agent."""
        return self.agent[number] if number < len(self.agent) else "Is there anything else?"

    def customer_turn(self, number: int) -> str:
        """Give one turn of the customer."""
        return self.customer[number] if number < len(self.customer) else "###STOP###"


@dataclass
class Outcome:
    """How a conversation went: its messages in a common form, how it ended, and its score."""

    messages: list[tuple[Any, ...]]
    termination: str
    reward: float
    parts: Mapping[str, float]


def verdicts(assertions: Sequence[str], met: bool) -> str:
    """Give a judge's answer."""
    rows = [{"expectedOutcome": text, "reasoning": "scripted", "metExpectation": met} for text in assertions]
    return json.dumps({"results": rows})


# --- here ---------------------------------------------------------------------------------------------------


@dataclass
class _Agent:
    script: Script
    said: int = 0

    def generate(self, messages: Any, *, offer_tools: bool, max_tokens: int, seconds: float) -> Generation:
        turn = self.script.agent_turn(self.said)
        self.said += 1
        if isinstance(turn, str):
            return Generation(turn, (), 1, 1)
        calls = [ToolCall(name, json.dumps(arguments), f"{self.said}-{n}") for n, (name, arguments) in enumerate(turn)]
        return Generation("", tuple(calls), 1, 1)


@dataclass
class _Customer:
    script: Script
    usage: EnvironmentUsage = field(default_factory=EnvironmentUsage)
    said: int = 0

    def reply(self, turns: Any, *, seconds: float) -> str:
        self.said += 1
        return self.script.customer_turn(self.said - 1)


@dataclass
class _Judge:
    script: Script
    usage: EnvironmentUsage = field(default_factory=EnvironmentUsage)

    def decide(self, task: Task, turns: Any) -> list[dict[str, Any]]:
        return covered_results(verdicts(task.assertions, self.script.verdict), task.assertions)


def play_here(data: RetailData, task: Task, script: Script) -> Outcome:
    """Play and score with the embedded arena."""
    conversation = Conversation(
        system="",
        query=None,
        agent=_Agent(script),
        customer=_Customer(script),
        tools=RetailTools(Database(data)),
        allowance=AgentAllowance.of(dict.fromkeys(("model_calls", "tool_calls", "output_tokens", "input_tokens"))),
        limits=Limits(script.max_steps, script.max_errors, 512, time.monotonic() + 600),
        messages=[trace_message("assistant", GREETING, 0), trace_message("user", OPENING, 1)],
    )
    termination = conversation.play()
    score: Score = score_conversation(
        data,
        task,
        conversation.messages,
        termination=termination,
        judge=_Judge(script),
        gold_hash=gold_database_hash(data, task),
    )
    messages = [
        (row["role"], row["content"], [(c["id"], c["name"], c["arguments"]) for c in row["tool_calls"] or ()])
        if row["role"] != "tool"
        else (row["role"], row["content"], row["tool_call_id"], row["error"])
        for row in conversation.messages
    ]
    return Outcome(messages, termination, score.reward, score.parts)


# --- in tau2 ------------------------------------------------------------------------------------------------


def play_in_tau2(task: Any, script: Script, environment: Any, *, judge: Any = None) -> Outcome:
    """Play and score with tau2's own orchestrator and evaluators.

    Args:
        task: tau2's task.
        script: what is said.
        environment: tau2's retail environment on a fresh database.
        judge: stands in for the model call of the judge of assertions; scripted by default.
    """
    from tau2.agent.llm_agent import LLMAgent
    from tau2.data_model import message as kinds
    from tau2.data_model.tasks import InitialState
    from tau2.evaluator import evaluator, evaluator_nl_assertions
    from tau2.orchestrator.orchestrator import Orchestrator
    from tau2.user.user_simulator import UserSimulator

    class Agent(LLMAgent):
        said = 0

        def generate_next_message(self, message: Any, state: Any) -> tuple[Any, Any]:
            turn = script.agent_turn(self.said)
            self.said += 1
            if isinstance(turn, str):
                return kinds.AssistantMessage(role="assistant", content=turn, cost=0.0), state
            calls = [
                kinds.ToolCall(id=f"{self.said}-{n}", name=name, arguments=json.loads(json.dumps(arguments)))
                for n, (name, arguments) in enumerate(turn)
            ]
            return kinds.AssistantMessage(role="assistant", tool_calls=calls, cost=0.0), state

    class Customer(UserSimulator):
        said = 0

        def generate_next_message(self, message: Any, state: Any) -> tuple[Any, Any]:
            self.said += 1
            return kinds.UserMessage(role="user", content=script.customer_turn(self.said - 1), cost=0.0), state

    def scripted(**asked: Any) -> Any:
        content = verdicts(task.evaluation_criteria.nl_assertions, script.verdict)
        return kinds.AssistantMessage(role="assistant", content=content, cost=0.0)

    history = [
        kinds.AssistantMessage(role="assistant", content=GREETING, cost=0.0),
        kinds.UserMessage(role="user", content=OPENING, cost=0.0),
    ]
    task = task.model_copy(update={"initial_state": InitialState(message_history=history)})
    orchestrator = Orchestrator(
        domain="retail",
        agent=Agent(tools=environment.get_tools(), domain_policy="", llm="scripted"),
        user=Customer(instructions="", llm="scripted"),
        environment=environment,
        task=task,
        max_steps=script.max_steps,
        max_errors=script.max_errors,
        seed=17,
    )
    simulation = orchestrator.run()
    native = evaluator_nl_assertions.generate
    evaluator_nl_assertions.generate = judge or scripted
    try:
        info = evaluator.evaluate_simulation(
            simulation=simulation,
            task=task,
            evaluation_type=evaluator.EvaluationType.ALL_WITH_NL_ASSERTIONS,
            solo_mode=False,
            domain="retail",
        )
    finally:
        evaluator_nl_assertions.generate = native
    messages = [
        (row.role, row.content or "", [(c.id, c.name, c.arguments) for c in row.tool_calls or ()])
        if row.role != "tool"
        else (row.role, row.content, row.id, row.error)
        for row in simulation.messages
    ]
    parts = {getattr(kind, "value", kind): value for kind, value in (info.reward_breakdown or {}).items()}
    return Outcome(messages, getattr(simulation.termination_reason, "value", ""), info.reward, parts)


# --- scripts and comparison ---------------------------------------------------------------------------------


def gold_script(task: Task, tools: Set[str]) -> Script:
    """Give the conversation of a perfect agent: the gold actions these tools can do, then what is to be told."""
    calls: list[Turn] = [[(action.name, dict(action.arguments))] for action in task.actions if action.name in tools]
    told = " ".join(["Done.", *(task.evaluation_criteria.communicate_info or ())])
    return Script([*calls, told])


def spoiled_script(task: Task, data: RetailData, draw: random.Random, tools: Set[str]) -> Script:
    """Give a conversation that goes wrong somewhere: calls left out, added, grouped; limits; other endings.

    Args:
        task: whose gold actions it starts from.
        data: where surplus calls come from.
        draw: random numbers.
        tools: names of the tools that both sides have.
    """
    gold = [action for action in task.actions if action.name in tools and draw.randrange(12)]
    calls = [(action.name, dict(action.arguments)) for action in gold]
    # Calls whose answer has other words in tau2 are compared one by one already.
    extra = Caller(data, draw).chain(draw.choice((0, 0, 0, 1, 4)))
    same = tools - {"calculate", "modify_pending_order_items"}
    calls += [(name, arguments) for name, arguments in extra if name in same and is_well_typed(name, arguments)]
    if draw.randrange(3) == 0:
        draw.shuffle(calls)
    turns: list[Turn] = []
    while calls:
        size = draw.choice((1, 1, 1, 2, 3))
        turns.append(calls[:size])
        calls = calls[size:]
        if draw.randrange(4) == 0:
            turns.append(draw.choice(("Shall I go on?", "One moment.", "Shall I?", "You may write ###STOP### now.")))
    told = " ".join(["Done.", *(task.evaluation_criteria.communicate_info or ())[draw.randrange(2) :]])
    said = ["Yes."] * draw.randrange(4)
    ending = draw.choice(("###STOP###", "Bye ###TRANSFER###", "###OUT-OF-SCOPE###", "###stop###"))
    script = Script([*turns, told], [*said, ending], verdict=draw.randrange(3) > 0)
    if draw.randrange(3) == 0:
        script = replace(script, max_steps=draw.randint(1, 14))
    if draw.randrange(3) == 0:
        script = replace(script, max_errors=draw.randint(1, 3))
    return script


def compare(what: str, ours: Outcome, theirs: Outcome, tally: Tally) -> None:
    """Compare two outcomes."""
    tally.calls += 1
    if ours == theirs:
        return
    reason = _explained(ours, theirs)
    if reason is not None:
        tally.documented[reason] += 1
        return
    for name in ("messages", "termination", "reward", "parts"):
        here, there = getattr(ours, name), getattr(theirs, name)
        if here != there:
            if name == "messages":
                pairs = [pair for pair in zip(here, there, strict=False) if pair[0] != pair[1]]
                here, there = pairs[0] if pairs else (len(here), len(there))
            tally.differs(f"{what}: {name}", here, there)


def _explained(ours: Outcome, theirs: Outcome) -> str | None:
    changed = _changed_at_once(ours)
    ours, theirs = _without_variants(ours, changed), _without_variants(theirs, changed)
    if ours == theirs:
        return VARIANT
    is_limited = ours.termination == "user_stop" and theirs.termination in {"max_steps", "too_many_errors"}
    is_unscored = theirs.reward == 0.0 and not theirs.parts
    return LAST_STEP if is_limited and is_unscored and ours.messages == theirs.messages else None


def _changed_at_once(outcome: Outcome) -> dict[str, set[str]]:
    """Give by order the new items of every call that asked for several of them."""
    changed: dict[str, set[str]] = {}
    for message in outcome.messages:
        for _, name, arguments in message[2] if message[0] == "assistant" else ():
            if name == "modify_pending_order_items" and is_well_typed(name, arguments):
                new = set(arguments["new_item_ids"])
                if len(new) > 1:
                    changed.setdefault(arguments["order_id"], set()).update(new)
    return changed


def _without_variants(outcome: Outcome, changed: Mapping[str, Set[str]]) -> Outcome:
    """Leave price and options of the items that were changed at once out of the rows of their orders."""
    messages: list[tuple[Any, ...]] = []
    for message in outcome.messages:
        role, content, *rest = message
        if role == "tool" and content.startswith('{"order_id"'):
            order = json.loads(content)
            new = changed.get(order["order_id"], set())
            for item in order["items"]:
                if item["item_id"] in new:
                    item.update(price=None, options=None)
            content = json.dumps(order) if new else content
        messages.append((role, content, *rest))
    return replace(outcome, messages=messages)


def check_judge(task: Any, tally: Tally) -> None:
    """Ask tau2's judge through our guard: what it sends, and what becomes of a good, a bad and an empty answer."""
    from tau2.data_model import message as kinds
    from tau2.evaluator import evaluator_nl_assertions as module

    assertions = list(task.evaluation_criteria.nl_assertions)
    config = {"llm_judge": "openai/scripted", "llm_args_judge": {"temperature": 0, "max_tokens": 99}}
    trajectory = [kinds.AssistantMessage(role="assistant", content=GREETING)]
    asked: list[dict[str, Any]] = []
    answers = [verdicts(assertions, True), verdicts(assertions, False), verdicts([], True)]

    def model(**arguments: Any) -> Any:
        asked.append(arguments)
        return kinds.AssistantMessage(role="assistant", content=answers[len(asked) - 1], usage=None)

    native, rewards, usages = module.generate, [], []
    module.generate = model
    try:
        with official_judge(config, assertions, usages):
            for _ in answers:
                try:
                    rewards.append(module.NLAssertionsEvaluator.calculate_reward(task, trajectory).reward)
                except RetailJudgeError:
                    rewards.append("refused")
    finally:
        module.generate = native
    tally.calls += len(answers)
    if rewards != [1.0, 0.0, "refused"]:
        tally.differs(f"rewards of the judge of task {task.id}", [1.0, 0.0, "refused"], rewards)
    for row in asked:
        roles, shown = [message.role for message in row.pop("messages")], dict(row)
        if roles != ["system", "user"] or shown != {"model": "openai/scripted", "temperature": 0, "max_tokens": 99}:
            tally.differs(f"request of the judge of task {task.id}", config, (roles, shown))
