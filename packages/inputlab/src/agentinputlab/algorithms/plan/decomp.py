"""Decomposed prompting: split the request into simpler questions; let a module answer each, or hand over the list."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

from agentinputlab.algorithms._shared import InterventionBase, MethodRun, Reply, state_text
from agentinputlab.contracts._checks import whole
from agentinputlab.contracts.enums import PatchOp, SemanticFamily
from agentinputlab.contracts.lifecycle import InterventionContext
from agentinputlab.contracts.patch import InputPatch, PatchOperation
from agentinputlab.contracts.state import ContextBlock, FrozenAgentState

__all__ = ["MODULES", "DecomposedPrompting", "SubQuestion", "SubQuestionList"]

MODULES = ("look_up", "reason")
"""What can answer a sub-question: documents of the retriever, or the model by itself."""

_SYSTEM = "You split requests into simpler questions. Reply in exactly the form asked for."
_LIST_PROMPT = (
    "Split the request below into at most {max_steps} simpler questions which, answered in this order, settle it. "
    "Reply with the questions only, one a line.\n\n{state}"
)
_STEPS_PROMPT = (
    "Split the request below into at most {max_steps} simpler questions which, answered in this order, settle it. For "
    "each name the module that answers it: look_up (facts that have to be found in documents) or reason (everything "
    "that follows from what is known). Write #1 where a question needs the answer to question 1, and so on.\n\n"
    '{state}\n\nReply with a JSON object {{"steps": [{{"question": "...", "module": "look_up"}}]}}.'
)
_ANSWER_SYSTEM = "You answer one question briefly and truthfully. Reply with the answer only, on one line."
_LOOK_UP_PROMPT = (
    "Answer from these passages only; say unknown if they do not tell.\n\n{passages}\n\nQuestion: {question}"
)
_REASON_PROMPT = "{state}\n\nKnown so far:\n{known}\n\nQuestion: {question}"
_REFERENCE = re.compile(r"#(\d{1,3})\b")


@dataclass(frozen=True, slots=True)
class SubQuestion:
    """One step of a decomposition.

    Attributes:
        question: the question; ``#k`` stands for the answer to step k.
        module: one of `MODULES`.
    """

    question: str
    module: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SubQuestionList(InterventionBase):
    """Adds the list of simpler questions to the context; the caller's model answers them.

    Paper: Khot et al., *Decomposed Prompting: A Modular Approach for Solving Complex Tasks*, ICLR 2023; the
    decomposer alone. Needs a language model; one call. Changes the context only.

    Attributes:
        max_steps: most questions.
        max_tokens: longest reply.
    """

    method_id: ClassVar[str] = "plan.decomp"
    release_id: ClassVar[str] = "plan.decomp.common_support"
    family: ClassVar[SemanticFamily] = SemanticFamily.DECOMPOSE
    prompts: ClassVar[tuple[str, ...]] = (_SYSTEM, _LIST_PROMPT)

    max_steps: int = 4
    max_tokens: int = 256

    def __post_init__(self) -> None:
        whole(self.max_steps, "max_steps", minimum=1)
        whole(self.max_tokens, "max_tokens", minimum=1)

    def propose(self, state: FrozenAgentState, context: InterventionContext) -> InputPatch:
        """Give the patch that adds the questions as a block of context.

        Raises:
            ExternalDependencyError: the context has no language model.
            BudgetExceededError: the budget has no call or token left.
            AlgorithmOutputError: the model did not list one to ``max_steps`` questions.
        """
        run = MethodRun(self, state, context)
        prompt = _LIST_PROMPT.format(max_steps=self.max_steps, state=state_text(state))
        reply = run.ask("decompose", prompt, system=_SYSTEM, max_tokens=self.max_tokens)
        questions = reply.lines(at_most=self.max_steps)
        run.decide("decompose", steps=len(questions))
        numbered = "\n".join(f"{number}. {question}" for number, question in enumerate(questions, start=1))
        return _added_block(run, f"Questions to settle, in this order:\n{numbered}")


@dataclass(frozen=True, slots=True, kw_only=True)
class DecomposedPrompting(InterventionBase):
    """Splits the request, lets a module answer each question with the answers before it, and adds all of it.

    Paper: as `SubQuestionList`, with decomposer and sub-task modules. Needs a language model (one call, and one a
    step) and, when a step is to be looked up, a retriever (one call for each such step). Changes the context only.

    Attributes:
        max_steps: most questions.
        top_k: passages per question that is looked up.
        max_tokens: longest reply to the decomposition.
        max_answer_tokens: longest answer to one question.
    """

    method_id: ClassVar[str] = "plan.decomp"
    release_id: ClassVar[str] = "plan.decomp.full"
    family: ClassVar[SemanticFamily] = SemanticFamily.DECOMPOSE
    prompts: ClassVar[tuple[str, ...]] = (_SYSTEM, _STEPS_PROMPT, _ANSWER_SYSTEM, _LOOK_UP_PROMPT, _REASON_PROMPT)

    max_steps: int = 4
    top_k: int = 3
    max_tokens: int = 384
    max_answer_tokens: int = 128

    def __post_init__(self) -> None:
        for name in ("max_steps", "top_k", "max_tokens", "max_answer_tokens"):
            whole(getattr(self, name), name, minimum=1)

    def propose(self, state: FrozenAgentState, context: InterventionContext) -> InputPatch:
        """Give the patch that adds questions and answers as a block of context.

        Raises:
            ExternalDependencyError: the context has no language model, or no retriever although a step needs one.
            BudgetExceededError: the budget has no call or token left.
            AlgorithmOutputError: the decomposition is not as asked for, or an answer is not one line.
        """
        run = MethodRun(self, state, context)
        prompt = _STEPS_PROMPT.format(max_steps=self.max_steps, state=state_text(state))
        steps = _read_steps(run.ask("decompose", prompt, system=_SYSTEM, max_tokens=self.max_tokens), self.max_steps)
        run.decide("decompose", modules=[step.module for step in steps])
        if any(step.module == "look_up" for step in steps):
            run.require(retriever="a retriever")
        questions: list[str] = []
        answers: list[str] = []
        for number, step in enumerate(steps, start=1):
            question = _with_answers(step.question, answers)
            answers.append(self._answer(run, number, step.module, question, _dialogue(questions, answers)))
            questions.append(question)
        return _added_block(run, f"Questions settled beforehand:\n{_dialogue(questions, answers)}")

    def _answer(self, run: MethodRun, number: int, module: str, question: str, known: str) -> str:
        if module == "look_up":
            found = run.retrieve(f"look_up_{number}", question, top_k=self.top_k)
            passages = "\n\n".join(result.document.text for result in found) or "(nothing was found)"
            prompt = _LOOK_UP_PROMPT.format(passages=passages, question=question)
        else:
            prompt = _REASON_PROMPT.format(state=state_text(run.state), known=known or "(nothing)", question=question)
        reply = run.ask(f"{module}_{number}", prompt, system=_ANSWER_SYSTEM, max_tokens=self.max_answer_tokens)
        return reply.line()


def _read_steps(reply: Reply, max_steps: int) -> tuple[SubQuestion, ...]:
    rows = reply.json_object().only("steps").objects("steps", at_most=max_steps)
    steps: list[SubQuestion] = []
    for number, row in enumerate(rows, start=1):
        row.only("question", "module")
        step = SubQuestion(row.text("question", max_characters=1_000), row.choice("module", MODULES))
        if any(number <= int(reference) <= len(rows) for reference in _REFERENCE.findall(step.question)):
            reply.fail(f"refers in step {number} to an answer that is not there yet")
        steps.append(step)
    return tuple(steps)


def _with_answers(question: str, answers: list[str]) -> str:
    """Put earlier answers in place of their numbers; a number that is no earlier step stays text."""

    def answer(reference: re.Match[str]) -> str:
        number = int(reference[1])
        return answers[number - 1] if 1 <= number <= len(answers) else reference[0]

    return _REFERENCE.sub(answer, question)


def _dialogue(questions: list[str], answers: list[str]) -> str:
    return "\n".join(
        f"{number}. {question} - {answer}"
        for number, (question, answer) in enumerate(zip(questions, answers, strict=True), start=1)
    )


def _added_block(run: MethodRun, text: str) -> InputPatch:
    block = ContextBlock(text, block_id="sub_questions", source=run.method.release_id)
    return run.patch(PatchOperation(PatchOp.ADD_CONTEXT, block, rationale="the request in simpler questions"))
