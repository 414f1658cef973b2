"""Latency, jitter and loss, added around any channel; and a warning where they are too much for a safety filter."""

from __future__ import annotations

import heapq
import math
import statistics
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass

from chamber.comm._packets import copied_packet, empty_packet
from chamber.comm.aoi import require_tick_period
from chamber.comm.api import SCHEMA_VERSION, CommChannel, CommPacket
from chamber.comm.errors import ChamberCommQPSaturationWarning
from ripieno.randomness import derive_substream

__all__ = ["CommDegradationStats", "CommDegradationWrapper", "DegradationProfile", "saturation_guard"]

_SUBSTREAM_NAME = "comm.degrade"
_SATURATION_DROP_RATE = 0.1
_SATURATION_LATENCY_MS = 100.0
_TIMED_SOLVES = 5


@dataclass(frozen=True)
class DegradationProfile:
    """How bad a link is.

    Attributes:
        latency_mean_ms: mean delay, ms.
        latency_std_ms: standard deviation of the delay, ms; delays are normal, clamped to ``[0, 2 * mean]``.
        drop_rate: probability that a packet is lost, in [0, 1].

    Raises:
        ValueError: a number is negative or not finite, or the rate is above 1.
    """

    latency_mean_ms: float
    latency_std_ms: float
    drop_rate: float

    def __post_init__(self) -> None:
        for name in ("latency_mean_ms", "latency_std_ms", "drop_rate"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0.0):
                raise ValueError(f"{name} must be finite and >= 0, got {value!r}")
        if self.drop_rate > 1.0:
            raise ValueError(f"drop_rate must be at most 1, got {self.drop_rate!r}")


@dataclass(frozen=True)
class CommDegradationStats:
    """What happened to the packets of an episode so far; those still on their way are in no number.

    Attributes:
        dropped: lost packets.
        delivered: arrived packets, also those that came after a newer one.
        latency_ticks: how long each arrived packet was on its way, ticks, in order of arrival.
    """

    dropped: int = 0
    delivered: int = 0
    latency_ticks: tuple[int, ...] = ()


class CommDegradationWrapper:
    """A channel whose packets arrive late or never; one ``encode`` is one tick.

    Every call gives the newest packet that has arrived by now, and its ages count from when each thing was said, also
    in ticks in which nothing arrives. A packet that comes after a newer one is not shown.

    Two wrappers with the same seed and inputs give the same trace. Draws come from the substream ``comm.degrade``: per
    tick one uniform number when packets can be lost, then for a kept packet one normal number when delays vary.

    Args:
        channel: what packets come from; it is given the seed too.
        profile: how bad the link is, for example one of `chamber.comm.profiles.URLLC_3GPP_R17`.
        tick_period_ms: time between two calls of `encode`, that is the control step of the environment, ms.
        root_seed: seed of losses and delays.
        vary_episodes: whether an unseeded reset goes on to other losses and delays; otherwise it repeats the same ones.

    Raises:
        ValueError: ``tick_period_ms`` is not finite and positive.
    """

    def __init__(
        self,
        channel: CommChannel,
        profile: DegradationProfile,
        *,
        tick_period_ms: float = 1.0,
        root_seed: int = 0,
        vary_episodes: bool = False,
    ) -> None:
        require_tick_period(tick_period_ms)
        self.profile = profile
        self.tick_period_ms = tick_period_ms
        self._channel = channel
        self._vary_episodes = vary_episodes
        self._root_seed = root_seed
        self._episode = 0
        self._begin_episode()

    @property
    def schema_version(self) -> int:
        """Version of the packets of the inner channel."""
        return getattr(self._channel, "schema_version", SCHEMA_VERSION)

    @property
    def stats(self) -> CommDegradationStats:
        """What happened in this episode so far."""
        return CommDegradationStats(self._dropped, len(self._latency_ticks), tuple(self._latency_ticks))

    def reset(self, *, seed: int | None = None) -> None:
        """Begin an episode; a seed replaces the stored one."""
        if seed is not None:
            self._root_seed, self._episode = seed, 0
        elif self._vary_episodes:
            self._episode += 1
        self._begin_episode()

    def encode(self, state: object) -> CommPacket:
        """Send the packet of this state and give the newest one that has arrived by now."""
        fresh = self._channel.encode(state)
        self._tick += 1
        if self._is_lost():
            self._dropped += 1
        else:
            heapq.heappush(self._on_their_way, (self._tick + self._delay_ticks(), self._tick, fresh))
        while self._on_their_way and self._on_their_way[0][0] <= self._tick:
            _, sent, packet = heapq.heappop(self._on_their_way)
            self._latency_ticks.append(self._tick - sent)
            if sent > self._visible_sent:
                self._visible, self._visible_sent = packet, sent
        return copied_packet(self._visible, older_by=self._tick - self._visible_sent)

    def decode(self, packet: CommPacket) -> dict[str, object]:
        """Give the packet's contents, as the inner channel does."""
        return dict(self._channel.decode(packet))

    def _begin_episode(self) -> None:
        self._channel.reset(seed=self._root_seed)
        name = _SUBSTREAM_NAME if self._episode == 0 else f"{_SUBSTREAM_NAME}.episode.{self._episode}"
        self._rng = derive_substream(name, root_seed=self._root_seed).default_rng()
        self._tick = 0
        self._on_their_way: list[tuple[int, int, CommPacket]] = []
        self._visible, self._visible_sent = empty_packet(self.schema_version), 0
        self._dropped = 0
        self._latency_ticks: list[int] = []

    def _is_lost(self) -> bool:
        return self.profile.drop_rate > 0.0 and self._rng.random() < self.profile.drop_rate

    def _delay_ticks(self) -> int:
        mean, std = self.profile.latency_mean_ms, self.profile.latency_std_ms
        latency_ms = mean if std == 0.0 else min(max(self._rng.normal(mean, std), 0.0), 2.0 * mean)
        return round(latency_ms / self.tick_period_ms)


def saturation_guard(
    profile: DegradationProfile,
    qp_solve_fn: Callable[[], object] | None = None,
    *,
    qp_time_budget_ms: float = 1.0,
) -> None:
    """Warn when a link is saturated or the quadratic programs of a safety filter are too slow on this machine.

    The solve time is the median of a few calls after one that does not count: a first call may import or compile.

    Args:
        profile: the link; it is saturated from a loss rate of 0.1 or a mean latency of 100 ms on.
        qp_solve_fn: solves one program and may return ``(decision, elapsed_seconds)``, whose time is then taken instead
            of the time around the call; None is `concerto.safety.solve_qp_stub`.
        qp_time_budget_ms: time one solve may take, ms.

    Warns:
        ChamberCommQPSaturationWarning: one or both are the case; the text says which.
    """
    reasons: list[str] = []
    elapsed_ms = _median_solve_time_ms(_default_solver() if qp_solve_fn is None else qp_solve_fn)
    if elapsed_ms > qp_time_budget_ms:
        reasons.append(f"QP solve {elapsed_ms:.4f} ms exceeds {qp_time_budget_ms:.4f} ms budget")
    if profile.drop_rate >= _SATURATION_DROP_RATE or profile.latency_mean_ms >= _SATURATION_LATENCY_MS:
        reasons.append(
            "profile in ADR-006 R5 saturation regime "
            f"(drop_rate={profile.drop_rate}, latency_mean_ms={profile.latency_mean_ms})"
        )
    if reasons:
        message = "ChamberCommQPSaturationWarning: " + "; ".join(reasons)
        warnings.warn(message, ChamberCommQPSaturationWarning, stacklevel=2)


def _default_solver() -> Callable[[], object]:
    from concerto.safety import solve_qp_stub

    return solve_qp_stub


def _median_solve_time_ms(qp_solve_fn: Callable[[], object]) -> float:
    qp_solve_fn()
    times: list[float] = []
    for _ in range(_TIMED_SOLVES):
        start = time.perf_counter()
        result = qp_solve_fn()
        around_the_call = time.perf_counter() - start
        times.append(_reported_seconds(result) or around_the_call)
    return 1000.0 * statistics.median(times)


def _reported_seconds(result: object) -> float | None:
    """The time that a solver reports of itself, when it reports one."""
    match result:
        case (_, float() as seconds) if math.isfinite(seconds) and seconds > 0.0:
            return seconds
        case _:
            return None
