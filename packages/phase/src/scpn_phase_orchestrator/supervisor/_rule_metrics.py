"""The metrics that rules can read, and how each is read from a state."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Protocol

__all__ = ["METRICS", "MetricReader", "RuleLayer", "RuleState", "metric_reader", "needs_layer"]


class RuleLayer(Protocol):
    """What rules look at in a layer; None stands for what is not known."""

    @property
    def R(self) -> float: ...  # noqa: N802
    @property
    def mean_amplitude(self) -> float | None: ...
    @property
    def amplitude_spread(self) -> float | None: ...


class RuleState(Protocol):
    """What rules look at; an `UPDEState` is one. None stands for what is not known."""

    @property
    def layers(self) -> Sequence[RuleLayer]: ...
    @property
    def stability_proxy(self) -> float | None: ...
    @property
    def mean_amplitude(self) -> float | None: ...
    @property
    def pac_max(self) -> float | None: ...
    @property
    def subcritical_fraction(self) -> float | None: ...
    @property
    def boundary_violation_count(self) -> float | None: ...
    @property
    def imprint_mean(self) -> float | None: ...


MetricReader = Callable[[RuleState, Sequence[int], Sequence[int]], float | None]
"""Takes a state and the positions of the good and of the bad layers; gives the value, None where there is none."""

_WHOLE = frozenset(
    {
        "stability_proxy",
        "pac_max",
        "mean_amplitude",
        "subcritical_fraction",
        "boundary_violation_count",
        "imprint_mean",
    }
)
_OF_LAYER: Mapping[str, Callable[[RuleLayer], float | None]] = {
    "R": lambda layer: layer.R,
    "amplitude_spread": lambda layer: layer.amplitude_spread,
    "mean_amplitude_layer": lambda layer: layer.mean_amplitude,
}

METRICS = frozenset({*_WHOLE, *_OF_LAYER, "R_good", "R_bad"})
"""Every metric that a condition can name."""


def needs_layer(metric: str) -> bool:
    """Whether a condition on this metric must say which layer."""
    return metric in _OF_LAYER


def metric_reader(metric: str, layer: int | None, position_of: Mapping[int, int] | None = None) -> MetricReader | None:
    """Find how a metric is read.

    `R_good` and `R_bad` are the order parameter of the layer at position `layer` of the good or bad list; without
    `layer` the mean over that list.

    Args:
        metric: name of the metric.
        layer: which layer, where the metric has one per layer.
        position_of: position of each declared layer index; indices are positions when None.

    Returns:
        The reader, or None when the metric does not exist or cannot have a value.
    """
    if metric in _WHOLE:
        return _reader_of_whole(attrgetter(metric))
    if metric in {"R_good", "R_bad"}:
        return _reader_of_objective(metric == "R_good", layer)
    if metric not in _OF_LAYER or layer is None:
        return None
    position = layer if position_of is None else position_of.get(layer)
    return None if position is None else _reader_of_layer(_OF_LAYER[metric], position)


def _reader_of_whole(read: Callable[[RuleState], float | None]) -> MetricReader:
    def value(state: RuleState, good: Sequence[int], bad: Sequence[int]) -> float | None:
        return read(state)

    return value


def _reader_of_layer(read: Callable[[RuleLayer], float | None], position: int) -> MetricReader:
    def value(state: RuleState, good: Sequence[int], bad: Sequence[int]) -> float | None:
        return read(state.layers[position]) if position < len(state.layers) else None

    return value


def _reader_of_objective(is_good: bool, place: int | None) -> MetricReader:
    def value(state: RuleState, good: Sequence[int], bad: Sequence[int]) -> float | None:
        listed = good if is_good else bad
        if place is not None:
            if place >= len(listed):
                return None
            listed = listed[place : place + 1]
        layers = state.layers
        known = [layers[position].R for position in listed if 0 <= position < len(layers)]
        return sum(known) / len(known) if known and len(known) == len(listed) else None

    return value
