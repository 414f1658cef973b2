"""The forward pass: Llama-style decoder with grouped heads, rotary positions and a cache of keys and values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from agentinputlab.model_server.smollm2._weights import Configuration, Layer, Weights

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.floating[Any]]  # float32 throughout

__all__ = ["Decoder"]


class Decoder:
    """One sequence being read and written.

    Args:
        weights: the model.
        capacity: longest sequence, prompt and answer together.
    """

    def __init__(self, weights: Weights, capacity: int) -> None:
        self._weights = weights
        size = weights.configuration
        shape = (size.n_layers, size.n_key_heads, capacity, size.head_width)
        self._keys = np.zeros(shape, dtype=np.float32)
        self._values = np.zeros(shape, dtype=np.float32)
        self._cosines, self._sines = _rotations(size, capacity)
        self.length = 0

    def continued(self, length: int, capacity: int) -> Decoder:
        """Give another sequence that has read the first ``length`` tokens of this one."""
        other = Decoder(self._weights, capacity)
        other._keys[:, :, :length] = self._keys[:, :, :length]
        other._values[:, :, :length] = self._values[:, :, :length]
        other.length = length
        return other

    def logits(self, tokens: NDArray[np.intp]) -> Floats:
        """Read tokens and give the scores of the next one, shape ``(vocabulary,)``."""
        size = self._weights.configuration
        hidden = self._weights.embedding[tokens]
        past = slice(self.length, self.length + len(tokens))
        for number, layer in enumerate(self._weights.layers):
            normed = _normed(hidden, layer.attention_norm, size.norm_epsilon)
            hidden = hidden + self._attention(layer, number, normed, past) @ layer.attention_output
            normed = _normed(hidden, layer.feed_norm, size.norm_epsilon)
            hidden = hidden + _feed_forward(layer, normed)
        self.length = past.stop
        last = _normed(hidden[-1:], self._weights.output_norm, size.norm_epsilon)[0]
        return self._weights.embedding @ last

    def _attention(self, layer: Layer, number: int, normed: Floats, past: slice) -> Floats:
        size = self._weights.configuration
        count = len(normed)
        heads = (normed @ layer.query_key_value).reshape(count, -1, size.head_width)
        queries, keys, values = np.split(heads, [size.n_heads, size.n_heads + size.n_key_heads], axis=1)
        cosines, sines = self._cosines[past, None], self._sines[past, None]
        self._keys[number, :, past] = _rotated(keys, cosines, sines).swapaxes(0, 1)
        self._values[number, :, past] = values.swapaxes(0, 1)
        known_keys, known_values = self._keys[number, :, : past.stop], self._values[number, :, : past.stop]
        # Heads that share keys become rows of one product: (key heads, group * count, head width).
        group = size.n_heads // size.n_key_heads
        rows = _rotated(queries, cosines, sines).swapaxes(0, 1).reshape(size.n_key_heads, group * count, -1)
        scores = rows @ known_keys.swapaxes(1, 2) * np.float32(size.head_width**-0.5)
        if count > 1:  # a token sees itself and what came before
            hidden_from = np.arange(past.start, past.stop)[:, None] < np.arange(past.stop)
            scores = np.where(np.tile(hidden_from, (group, 1)), np.float32(-np.inf), scores)
        scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
        mixed = scores @ known_values / scores.sum(axis=-1, keepdims=True)
        return mixed.reshape(size.n_heads, count, size.head_width).swapaxes(0, 1).reshape(count, -1)


def _feed_forward(layer: Layer, normed: Floats) -> Floats:
    """Give ``down(silu(gate(x)) * up(x))`` (Shazeer, *GLU Variants Improve Transformer*, 2020, eq. 6)."""
    gate, up = np.split(normed @ layer.gate_up, 2, axis=1)
    return (gate / (1 + np.exp(-np.maximum(gate, np.float32(-80)))) * up) @ layer.down


def _normed(hidden: Floats, weight: Floats, epsilon: float) -> Floats:
    """Give rows scaled to root mean square 1, then weighted (Zhang and Sennrich 2019, eq. 4)."""
    squares = np.einsum("ij,ij->i", hidden, hidden) / np.float32(hidden.shape[1])
    return hidden / np.sqrt(squares + np.float32(epsilon))[:, None] * weight


def _rotations(size: Configuration, capacity: int) -> tuple[Floats, Floats]:
    """Give cosines and sines of all positions, shape ``(capacity, head_width / 2)`` (Su et al. 2021, eq. 34)."""
    frequencies = size.rotation_base ** (-np.arange(0, size.head_width, 2) / size.head_width)
    angles = np.arange(capacity)[:, None] * frequencies
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


def _rotated(heads: Floats, cosines: Floats, sines: Floats) -> Floats:
    """Turn neighbouring entries, the order in which GGUF files of this family keep them."""
    even, odd = heads[..., ::2], heads[..., 1::2]
    turned = np.empty_like(heads)
    turned[..., ::2] = even * cosines - odd * sines
    turned[..., 1::2] = even * sines + odd * cosines
    return turned
