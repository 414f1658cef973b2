"""Agentic context engineering: apply a frozen playbook, or learn one from examples."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, cast

from agentinputlab.algorithms._shared import InterventionBase, MethodRun
from agentinputlab.algorithms.recipes._artifact_text import artifact_sha256, check_artifact, require_artifact
from agentinputlab.algorithms.recipes._playbook import Playbook, PlaybookEntry
from agentinputlab.contracts._checks import Record, exact_fields, text, whole
from agentinputlab.contracts.enums import PatchOp, SemanticFamily
from agentinputlab.contracts.errors import ValidationError
from agentinputlab.contracts.lifecycle import InterventionContext
from agentinputlab.contracts.patch import InputPatch, PatchOperation
from agentinputlab.contracts.serialization import content_hash
from agentinputlab.contracts.state import ExecutionBudget, FrozenAgentState
from agentinputlab.contracts.trace import ExecutionTrace

__all__ = [
    "PLAYBOOK_INSTRUCTION",
    "LearnedPlaybook",
    "Playbook",
    "PlaybookApplication",
    "PlaybookEntry",
    "PlaybookExample",
    "PlaybookLearning",
]

PLAYBOOK_INSTRUCTION = (
    "Here is a playbook of advice from earlier tasks. Read it before you act, use what fits this task, and leave the "
    "rest aside.\n\n{playbook}"
)
"""How a playbook is introduced to the agent."""

_ANSWER = "You solve tasks with the help of a playbook. Reply with one JSON object only."
_ANSWER_PROMPT = (
    "Playbook:\n{playbook}\n\nTask:\n{task}\n\nSolve the task. Name the ids of the playbook entries you used.\n\n"
    'Reply: {{"answer": "<short answer>", "used": ["<entry id>"]}}'
)
_REFLECT = "You find out why an attempt at a task went right or wrong. Reply with one JSON object only."
_REFLECT_PROMPT = (
    "Playbook:\n{playbook}\n\nTask:\n{task}\n\nAttempt: {answer}\nReference: {reference}\nThe attempt is {verdict}. "
    "Entries used: {used}\n\nSay in one or two sentences what a solver should know to get such tasks right. Name the "
    "used entries that helped and those that misled.\n\n"
    'Reply: {{"insight": "<text>", "helpful": ["<entry id>"], "harmful": ["<entry id>"]}}'
)
_CURATE = "You keep a playbook short, true and general. Reply with one JSON object only."
_CURATE_PROMPT = (
    "Playbook:\n{playbook}\n\nNew insight:\n{insight}\n\nGive the edits, at most {most}, that bring the insight into "
    "the playbook; none if it is there already. Write advice that holds for tasks of this kind and does not give away "
    'the answer of one. "add" needs section and advice, "revise" needs id and advice, "remove" needs id; the other '
    'fields are "".\n\n'
    'Reply: {{"edits": [{{"edit": "add" | "revise" | "remove", "id": "", "section": "", "advice": ""}}]}}'
)
_EMPTY = "(empty)"
_EDITS = ("add", "revise", "remove")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaybookApplication(InterventionBase):
    """Appends a finished playbook to the instruction.

    Paper: Zhang et al., *Agentic Context Engineering: Evolving Contexts for Self-Improving Language Models*, 2025.
    Needs no model. Changes the instruction only. The playbook is frozen: what this task teaches is not written back.

    Attributes:
        playbook: the text, such as `LearnedPlaybook.text`.
        sha256: SHA-256 of the text as UTF-8 that it must have; empty for any.
    """

    method_id: ClassVar[str] = "recipe.ace"
    release_id: ClassVar[str] = "recipe.ace.apply"
    family: ClassVar[SemanticFamily] = SemanticFamily.CURATE
    prompts: ClassVar[tuple[str, ...]] = (PLAYBOOK_INSTRUCTION,)

    playbook: str = ""
    sha256: str = ""

    def __post_init__(self) -> None:
        check_artifact(self.playbook, self.sha256, name="playbook")

    def propose(self, state: FrozenAgentState, context: InterventionContext) -> InputPatch:
        """Give the patch that appends the playbook to the instruction.

        Raises:
            ArtifactError: there is no playbook.
        """
        run = MethodRun(self, state, context)
        playbook = require_artifact(self, self.playbook, name="playbook")
        run.decide("artifact", sha256=artifact_sha256(self.playbook), characters=len(playbook))
        operation = PatchOperation(
            PatchOp.APPEND_INSTRUCTION,
            PLAYBOOK_INSTRUCTION.format(playbook=playbook),
            rationale="playbook learned beforehand",
        )
        return run.patch(operation, metadata={"artifact_sha256": artifact_sha256(self.playbook)})


@dataclass(frozen=True, slots=True)
class PlaybookExample(Record):
    """One solved task to learn from.

    Attributes:
        task: what was asked.
        reference: the right answer.
    """

    task: str
    reference: str

    def __post_init__(self) -> None:
        text(self.task, "PlaybookExample.task")
        text(self.reference, "PlaybookExample.reference")


@dataclass(frozen=True, slots=True)
class LearnedPlaybook(Record):
    """What learning gives.

    Attributes:
        playbook: the entries with their record.
        train_correct: attempts of the training examples that were right, by epoch, each before its own lesson.
        validation_correct: right answers on the validation examples with the empty playbook and after each epoch;
            empty without validation examples.
        trace: what was done, and what it used.
        implementation_identity: which code and parameters made it.
        examples_hash: content hash of the examples, training and validation.
    """

    playbook: Playbook
    train_correct: tuple[int, ...]
    validation_correct: tuple[int, ...]
    trace: ExecutionTrace
    implementation_identity: str
    examples_hash: str

    @property
    def text(self) -> str:
        """The playbook as `PlaybookApplication` takes it; empty when nothing was learned."""
        return self.playbook.text

    @property
    def sha256(self) -> str:
        """SHA-256 of `text` as UTF-8."""
        return artifact_sha256(self.text)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaybookLearning(InterventionBase):
    """Learns a playbook: try each example, reflect on the attempt, and edit the playbook a little.

    Paper: as `PlaybookApplication` (its offline setting: generator, reflector, curator, small edits instead of
    rewriting). Needs a language model: at most 3 calls for each training example and epoch, and one call for each
    validation example and round. An attempt is right when its words are the reference's words. With validation
    examples, the best playbook of all rounds wins (the earlier one of equals, so possibly the empty one).

    Attributes:
        epochs: passes over the training examples.
        max_entries: most entries; those that misled most go first.
        max_edits: most edits per example.
        max_model_calls: most calls of the whole learning.
        max_output_tokens: most generated tokens of the whole learning.
        max_tokens: longest reply.
    """

    method_id: ClassVar[str] = "recipe.ace"
    release_id: ClassVar[str] = "recipe.ace.offline"
    family: ClassVar[SemanticFamily] = SemanticFamily.CURATE
    prompts: ClassVar[tuple[str, ...]] = (_ANSWER, _ANSWER_PROMPT, _REFLECT, _REFLECT_PROMPT, _CURATE, _CURATE_PROMPT)

    epochs: int = 1
    max_entries: int = 40
    max_edits: int = 3
    max_model_calls: int = 1_000
    max_output_tokens: int = 500_000
    max_tokens: int = 512

    def __post_init__(self) -> None:
        for name in ("epochs", "max_entries", "max_edits", "max_model_calls", "max_output_tokens", "max_tokens"):
            whole(getattr(self, name), name, minimum=1)

    def fit(
        self,
        train_examples: Sequence[Any],
        *,
        validation_examples: Sequence[Any] = (),
        context: InterventionContext,
    ) -> LearnedPlaybook:
        """Give the playbook learned from examples.

        Args:
            train_examples: `PlaybookExample` or mappings with ``task`` and ``reference``; at least one.
            validation_examples: the same; used to choose between rounds, never shown to the reflector or curator.
            context: holds the language model.

        Raises:
            ValidationError: an example is wrong; it is named by its place.
            ExternalDependencyError: the context has no language model.
            BudgetExceededError: the learning wants more calls or tokens than it may use.
            AlgorithmOutputError: a reply is not in the form asked for.
        """
        train = _examples(train_examples, "train_examples")
        validation = _examples(validation_examples, "validation_examples")
        if not train:
            raise ValidationError("train_examples must hold at least one example")
        run = self._run(context)
        run.require(backend="a language model")
        playbook = best = Playbook()
        train_correct: list[int] = []
        validation_correct = [self._correct(run, playbook, validation)] if validation else []
        for epoch in range(1, self.epochs + 1):
            right = 0
            for example in train:
                playbook, was_right = self._lesson(run, playbook, example)
                right += was_right
            train_correct.append(right)
            run.decide("epoch", number=epoch, entries=len(playbook.entries), playbook_hash=playbook.playbook_hash)
            if not validation:
                best = playbook
                continue
            score = self._correct(run, playbook, validation)
            if score > max(validation_correct):
                best = playbook
            validation_correct.append(score)
        return LearnedPlaybook(
            playbook=best,
            train_correct=tuple(train_correct),
            validation_correct=tuple(validation_correct),
            trace=run.no_op("learning changes no state").trace,
            implementation_identity=self.implementation_identity,
            examples_hash=content_hash({"train": train, "validation": validation}),
        )

    def _run(self, context: InterventionContext) -> MethodRun:
        """Give the run whose budget is that of the whole learning; no part of the state is shown to a model."""
        budget = ExecutionBudget(max_model_calls=self.max_model_calls, max_output_tokens=self.max_output_tokens)
        return MethodRun(self, FrozenAgentState(query="learn a playbook", budget=budget), context)

    def _lesson(self, run: MethodRun, playbook: Playbook, example: PlaybookExample) -> tuple[Playbook, bool]:
        """Give the playbook after one example, and whether the attempt was right."""
        answer, used = self._attempt(run, playbook, example)
        is_right = _same_words(answer, example.reference)
        shown = playbook.text or _EMPTY
        prompt = _REFLECT_PROMPT.format(
            playbook=shown,
            task=example.task,
            answer=answer,
            reference=example.reference,
            verdict="right" if is_right else "wrong",
            used=", ".join(used) or "none",
        )
        reply = run.ask("reflect", prompt, system=_REFLECT, max_tokens=self.max_tokens)
        reflection = reply.json_object().only("insight", "helpful", "harmful")
        insight = reflection.text("insight")
        most = len(playbook.entries)
        helpful = reflection.texts("helpful", at_least=0, at_most=most)
        harmful = reflection.texts("harmful", at_least=0, at_most=most)
        for entry_id in (*helpful, *harmful):
            if entry_id not in used:
                reply.fail("must judge entries only that the attempt used")
        playbook = playbook.mark(helpful=helpful, harmful=harmful)
        playbook = self._edited(run, playbook, insight)
        run.decide("lesson", is_right=is_right, used=list(used), entries=len(playbook.entries))
        return playbook, is_right

    def _attempt(self, run: MethodRun, playbook: Playbook, example: PlaybookExample) -> tuple[str, tuple[str, ...]]:
        """Give the answer to a task and the entries it used."""
        prompt = _ANSWER_PROMPT.format(playbook=playbook.text or _EMPTY, task=example.task)
        reply = run.ask("answer", prompt, system=_ANSWER, max_tokens=self.max_tokens)
        attempt = reply.json_object().only("answer", "used")
        used = attempt.texts("used", at_least=0, at_most=len(playbook.entries))
        if not set(used) <= set(playbook.ids):
            reply.fail("must name entries of the playbook in used")
        return attempt.text("answer"), tuple(dict.fromkeys(used))

    def _edited(self, run: MethodRun, playbook: Playbook, insight: str) -> Playbook:
        """Give the playbook after the curator's edits, pruned."""
        prompt = _CURATE_PROMPT.format(playbook=playbook.text or _EMPTY, insight=insight, most=self.max_edits)
        reply = run.ask("curate", prompt, system=_CURATE, max_tokens=self.max_tokens)
        for edit in reply.json_object().only("edits").objects("edits", at_least=0, at_most=self.max_edits):
            kind = edit.only("edit", "id", "section", "advice").choice("edit", _EDITS)
            if kind == "add":
                playbook = playbook.add(edit.text("section", max_characters=80), edit.text("advice"))
            elif kind == "revise":
                playbook = playbook.revise(edit.choice("id", playbook.ids), edit.text("advice"))
            else:
                playbook = playbook.remove(edit.choice("id", playbook.ids))
        return playbook.prune(self.max_entries)

    def _correct(self, run: MethodRun, playbook: Playbook, examples: Sequence[PlaybookExample]) -> int:
        """Give how many examples are answered rightly with a playbook."""
        answers = [self._attempt(run, playbook, example)[0] for example in examples]
        return sum(_same_words(answer, example.reference) for answer, example in zip(answers, examples, strict=True))


def _examples(rows: object, name: str) -> tuple[PlaybookExample, ...]:
    if not isinstance(rows, list | tuple):
        raise ValidationError(f"{name} must be a list or tuple, got {type(rows).__name__}")
    examples: list[PlaybookExample] = []
    for index, row in enumerate(cast("Sequence[object]", rows)):
        if isinstance(row, PlaybookExample):
            examples.append(row)
            continue
        names = ("task", "reference")
        fields: Mapping[str, Any] = exact_fields(row, f"{name}[{index}]", allowed=names, required=names)
        try:
            examples.append(PlaybookExample(**fields))
        except ValidationError as error:
            raise ValidationError(f"{name}[{index}]: {error}") from error
    return tuple(examples)


def _same_words(answer: str, reference: str) -> bool:
    def words(value: str) -> list[str]:
        return re.findall(r"\w+", value.casefold()) or value.split()

    return words(answer) == words(reference)
