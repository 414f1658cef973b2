"""What the supervisor gets to see of each layer: late channels one tick old, uncertain ones weighted."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from numbers import Real
from typing import Any, NamedTuple

from scpn_phase_orchestrator.binding.channel_algebra import (
    CONFIDENCE_WEIGHTED,
    CURRENT_TICK,
    HOLD_PREVIOUS_TICK,
    UNWEIGHTED,
    build_channel_algebra_report,
)
from scpn_phase_orchestrator.binding.types import BindingSpec
from scpn_phase_orchestrator.upde.metrics import LayerState

__all__ = ["ChannelExecution", "ChannelLayerEvidence", "ChannelRuntimeExecutor"]


@dataclass(frozen=True)
class ChannelLayerEvidence:
    """Where the executed state of one layer came from.

    `evidence_source` is ``current_tick``, ``held_previous_tick``, or ``current_tick_prime`` for a late channel in the
    first tick, when there is nothing to hold.
    """

    layer_index: int
    channel: str
    raw_R: float  # noqa: N815 - the documented name
    executed_R: float  # noqa: N815 - the documented name
    raw_psi: float
    executed_psi: float
    delay_policy: str
    uncertainty_policy: str
    evidence_source: str
    confidence_weight: float


class _LayerChannel(NamedTuple):
    layer_index: int
    channel: str
    is_delayed: bool
    is_uncertain: bool
    confidence: float


class ChannelExecution:
    """The layers as the supervisor sees them, and the evidence for it (made when asked for).

    Attributes:
        layers: executed layer states, in the order of the raw ones.
        is_raw: whether every executed state is the raw one.
    """

    __slots__ = ("_channels", "_is_first", "_raw", "is_raw", "layers")

    def __init__(
        self,
        layers: tuple[LayerState, ...],
        raw: tuple[LayerState, ...],
        channels: tuple[_LayerChannel, ...],
        is_first: bool,
    ) -> None:
        self.layers = layers
        self.is_raw = layers is raw or layers == raw
        self._raw = raw
        self._channels = channels
        self._is_first = is_first

    @property
    def evidence(self) -> tuple[ChannelLayerEvidence, ...]:
        """One entry per layer."""
        return tuple(
            ChannelLayerEvidence(
                layer_index=channel.layer_index,
                channel=channel.channel,
                raw_R=raw.R,
                executed_R=executed.R,
                raw_psi=raw.psi,
                executed_psi=executed.psi,
                delay_policy=HOLD_PREVIOUS_TICK if channel.is_delayed else CURRENT_TICK,
                uncertainty_policy=CONFIDENCE_WEIGHTED if channel.is_uncertain else UNWEIGHTED,
                evidence_source=self._source(channel),
                confidence_weight=channel.confidence,
            )
            for channel, raw, executed in zip(self._channels, self._raw, self.layers, strict=True)
        )

    def to_audit_record(self) -> dict[str, Any]:
        """Give the evidence and the indices of delayed and uncertain layers as a JSON-safe dict."""
        return {
            "layers": [asdict(evidence) for evidence in self.evidence],
            "delayed_layers": [channel.layer_index for channel in self._channels if channel.is_delayed],
            "uncertain_layers": [channel.layer_index for channel in self._channels if channel.is_uncertain],
        }

    def _source(self, channel: _LayerChannel) -> str:
        if not channel.is_delayed:
            return "current_tick"
        return "current_tick_prime" if self._is_first else "held_previous_tick"


class ChannelRuntimeExecutor:
    """Applies the delay and the confidence of its channel to every layer, tick by tick.

    A late channel shows the raw state of the tick before (in the first tick the current one); an uncertain one shows
    its order parameter times the confidence. Made by `from_spec`.
    """

    def __init__(self, channels: Sequence[_LayerChannel]) -> None:
        self._channels = tuple(channels)
        self._special = tuple(
            (position, channel.is_delayed, channel.confidence)
            for position, channel in enumerate(self._channels)
            if channel.is_delayed or channel.is_uncertain
        )
        self._previous: tuple[LayerState, ...] | None = None

    @classmethod
    def from_spec(cls, spec: BindingSpec) -> ChannelRuntimeExecutor:
        """Find the channel of each layer (that of its family, else P) and how it is treated.

        The confidence of an uncertain channel is the `confidence_weight`, else the `confidence` of its driver
        settings, clipped to [0, 1]; 1.0 when there is neither.

        Raises:
            ValueError: a confidence that is not a finite number.
        """
        report = build_channel_algebra_report(spec)
        channels: list[_LayerChannel] = []
        for layer in spec.layers:
            family = spec.oscillator_families.get(layer.family) if layer.family is not None else None
            channel = "P" if family is None else family.channel
            is_uncertain = channel in report.uncertain
            confidence = _confidence(spec.drivers.channel_config(channel), channel) if is_uncertain else 1.0
            channels.append(_LayerChannel(layer.index, channel, channel in report.delayed, is_uncertain, confidence))
        return cls(channels)

    def execute(self, layers: Sequence[LayerState]) -> ChannelExecution:
        """Give the layers of this tick as the supervisor sees them.

        Args:
            layers: raw states in the order of the layers of the spec.

        Raises:
            ValueError: another number of states than of layers.
        """
        if len(layers) != len(self._channels):
            raise ValueError(f"layers must hold {len(self._channels)} states, one per layer, got {len(layers)}")
        raw = tuple(layers)
        previous, self._previous = self._previous, raw
        if not self._special:
            return ChannelExecution(raw, raw, self._channels, previous is None)
        executed = list(raw)
        for position, is_delayed, confidence in self._special:
            seen = previous[position] if is_delayed and previous is not None else raw[position]
            if confidence != 1.0:
                seen = LayerState(
                    R=seen.R * confidence,
                    psi=seen.psi,
                    lock_signatures=seen.lock_signatures,
                    mean_amplitude=seen.mean_amplitude,
                    amplitude_spread=seen.amplitude_spread,
                )
            executed[position] = seen
        return ChannelExecution(tuple(executed), raw, self._channels, previous is None)

    def reset(self) -> None:
        """Forget the previous tick."""
        self._previous = None


def _confidence(config: Mapping[str, Any], channel: str) -> float:
    value = config.get("confidence_weight", config.get("confidence", 1.0))
    if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
        raise ValueError(f"confidence of channel '{channel}' must be a finite number, got {value!r}")
    return min(max(float(value), 0.0), 1.0)
