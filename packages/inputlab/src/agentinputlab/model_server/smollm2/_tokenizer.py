"""Text to token numbers and back, with the chat template of SmolLM2-Instruct."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from agentinputlab.contracts.errors import ArtifactError, ExternalDependencyError
from agentinputlab.model_server.smollm2._weights import INSTALL

__all__ = ["ChatTokenizer"]

_START, _END = "<|im_start|>", "<|im_end|>"
_DEFAULT_SYSTEM = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"
"""What the model's own template says when a conversation starts without a system message."""


class ChatTokenizer:
    """Byte-level BPE, digits one by one.

    The marks between messages are put in as token numbers. A message that spells such a mark is read as ordinary text,
    so nobody can end a message from inside.

    Args:
        tokens: the vocabulary.
        merges: pairs of tokens, best first.
    """

    def __init__(self, tokens: Sequence[str], merges: Sequence[str]) -> None:
        try:
            from tokenizers import Tokenizer
            from tokenizers.decoders import ByteLevel as ByteLevelDecoder
            from tokenizers.models import BPE
            from tokenizers.pre_tokenizers import ByteLevel, Digits
            from tokenizers.pre_tokenizers import Sequence as Steps
        except ImportError as error:
            raise ExternalDependencyError(f"SmolLM2 needs the library tokenizers: {INSTALL}") from error
        numbers = {token: number for number, token in enumerate(tokens)}
        for mark in (_START, _END):
            if mark not in numbers:
                raise ArtifactError(f"the vocabulary lacks {mark}")
        self.start, self.end = numbers[_START], numbers[_END]
        pairs: list[tuple[str, str]] = [(left, right) for left, _, right in (merge.partition(" ") for merge in merges)]
        self._tokenizer: Any = Tokenizer(BPE(vocab=numbers, merges=pairs))
        self._tokenizer.pre_tokenizer = Steps(
            [Digits(individual_digits=True), ByteLevel(add_prefix_space=False, use_regex=True)]
        )
        self._tokenizer.decoder = ByteLevelDecoder()

    def encode(self, text: str) -> list[int]:
        """Give the token numbers of a text."""
        return list(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def decode(self, numbers: Sequence[int]) -> str:
        """Give the text of token numbers; bytes that are no whole character become U+FFFD."""
        return str(self._tokenizer.decode(list(numbers), skip_special_tokens=False))

    def chat(self, messages: Iterable[Mapping[str, Any]]) -> list[int]:
        """Give the token numbers of a conversation that the assistant has to continue."""
        conversation = [(str(message["role"]), str(message["content"])) for message in messages]
        if conversation[0][0] != "system":
            conversation.insert(0, ("system", _DEFAULT_SYSTEM))
        newline = self.encode("\n")
        numbers: list[int] = []
        for role, content in conversation:
            numbers += [self.start, *self.encode(f"{role}\n{content}"), self.end, *newline]
        return [*numbers, self.start, *self.encode("assistant\n")]
