"""Latency, jitter and loss, and the warning about links that no filter can keep up with."""

from __future__ import annotations

import math
import time
import warnings
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chamber.comm import (
    URLLC_3GPP_R17,
    ChamberCommError,
    ChamberCommQPSaturationWarning,
    CommChannel,
    CommDegradationStats,
    CommDegradationWrapper,
    CommPacket,
    DegradationProfile,
    FixedFormatCommChannel,
    saturation_guard,
)
from chamber.comm.profiles import get_profile

UPRIGHT = (1.0, 0.0, 0.0, 0.0)


def degraded(profile: DegradationProfile, **options: Any) -> CommDegradationWrapper:
    return CommDegradationWrapper(FixedFormatCommChannel(), profile, **options)


def stamped_state(tick: int) -> dict[str, Any]:
    """A state whose pose tells in which tick it was sent."""
    return {"pose": {"a": {"xyz": (float(tick), 0.0, 0.0), "quat_wxyz": UPRIGHT}}}


def send_tick(packet: CommPacket) -> int | None:
    return int(packet["pose"]["a"]["xyz"][0]) if packet["pose"] else None


def trace(channel: CommDegradationWrapper, ticks: int) -> list[CommPacket]:
    return [channel.encode(stamped_state(tick)) for tick in range(1, ticks + 1)]


def lost_ticks(channel: CommDegradationWrapper, ticks: int) -> list[int]:
    lost = []
    for tick in range(1, ticks + 1):
        before = channel.stats.dropped
        channel.encode(stamped_state(tick))
        if channel.stats.dropped > before:
            lost.append(tick)
    return lost


def test_the_profiles_are_the_published_ones() -> None:
    rows = {name: (p.latency_mean_ms, p.latency_std_ms, p.drop_rate) for name, p in URLLC_3GPP_R17.items()}
    assert list(rows.items()) == [
        ("ideal", (0.0, 0.0, 0.0)),
        ("urllc", (1.0, 0.0, 1e-6)),
        ("factory", (5.0, 0.1, 1e-4)),
        ("wifi", (10.0, 1.0, 1e-2)),
        ("lossy", (30.0, 5.0, 1e-2)),
        ("saturation", (100.0, 10.0, 1e-1)),
    ]


def test_an_ideal_link_delivers_everything_at_once() -> None:
    channel = degraded(URLLC_3GPP_R17["ideal"])
    packets = trace(channel, 1000)
    assert channel.stats == CommDegradationStats(dropped=0, delivered=1000, latency_ticks=(0,) * 1000)
    assert all(packet["aoi"] == {"a": 0.0} for packet in packets)


def test_a_constant_delay_shows_the_packet_of_that_many_ticks_ago() -> None:
    channel = degraded(DegradationProfile(5.0, 0.0, 0.0))
    packets = trace(channel, 12)
    assert [send_tick(packet) for packet in packets] == [None] * 5 + [1, 2, 3, 4, 5, 6, 7]
    assert [packet["aoi"] for packet in packets] == [{}] * 5 + [{"a": 5.0}] * 7
    assert channel.stats == CommDegradationStats(dropped=0, delivered=7, latency_ticks=(5,) * 7)


def test_wifi_loses_and_delays_as_the_order_of_draws_says() -> None:
    expected = [166, 236, 334, 353, 400, 414, 416, 602, 687, 721, 734, 786, 841, 918]
    assert lost_ticks(degraded(URLLC_3GPP_R17["wifi"]), 1000) == expected
    channel = degraded(URLLC_3GPP_R17["wifi"])
    packets = trace(channel, 1000)
    stats = channel.stats
    assert (stats.dropped, stats.delivered, 1000 - stats.dropped - stats.delivered) == (14, 977, 9)
    assert stats.latency_ticks[:8] == (8, 12, 11, 10, 10, 11, 10, 10)
    assert max(stats.latency_ticks) == 13
    visible = [tick for tick, packet in enumerate(packets, start=1) if packet["pose"]]
    assert visible[0] == 9
    assert packets[8]["aoi"] == {"a": 8.0}


def test_saturated_and_lossy_links_lose_and_delay_as_the_order_of_draws_says() -> None:
    saturated, lossy = degraded(URLLC_3GPP_R17["saturation"]), degraded(URLLC_3GPP_R17["lossy"])
    trace(saturated, 1000)
    stats = saturated.stats
    assert (stats.dropped, stats.delivered, 1000 - stats.dropped - stats.delivered) == (104, 806, 90)
    assert max(stats.latency_ticks) == 126
    assert round(sum(stats.latency_ticks) / stats.delivered, 2) == 99.71
    lost = lost_ticks(lossy, 1000)
    assert lost == lost_ticks(degraded(URLLC_3GPP_R17["wifi"]), 1000)
    assert (lossy.stats.delivered, 1000 - len(lost) - lossy.stats.delivered) == (957, 29)


@pytest.mark.parametrize(("mean_ms", "delay"), [(5.0, 2), (3.0, 2), (1.0, 0), (4.0, 2)])
def test_delays_round_half_to_even_ticks(mean_ms: float, delay: int) -> None:
    channel = degraded(DegradationProfile(mean_ms, 0.0, 0.0), tick_period_ms=2.0)
    trace(channel, 10)
    assert set(channel.stats.latency_ticks) == {delay}


profiles = st.builds(
    DegradationProfile,
    latency_mean_ms=st.floats(0.0, 20.0),
    latency_std_ms=st.floats(0.0, 10.0),
    drop_rate=st.floats(0.0, 1.0),
)


@given(profile=profiles, seed=st.integers(0, 2**31))
def test_the_age_is_always_the_time_since_sending_and_news_never_gets_older(
    profile: DegradationProfile, seed: int
) -> None:
    channel = degraded(profile, root_seed=seed)
    newest = 0
    for tick, packet in enumerate(trace(channel, 60), start=1):
        sent = send_tick(packet)
        if sent is None:
            assert newest == 0
            assert packet["aoi"] == {}
            continue
        assert sent >= newest
        assert packet["aoi"] == {"a": float(tick - sent)}
        newest = sent
    stats = channel.stats
    assert stats.delivered == len(stats.latency_ticks) <= 60 - stats.dropped
    assert all(0 <= latency <= math.ceil(2 * profile.latency_mean_ms) for latency in stats.latency_ticks)


def test_a_late_packet_does_not_hide_a_newer_one_but_counts_as_delivered() -> None:
    channel = degraded(DegradationProfile(5.0, 5.0, 0.0))
    packets = trace(channel, 400)
    shown = [tick for packet in packets if (tick := send_tick(packet)) is not None]
    assert shown == sorted(shown)
    assert channel.stats.delivered > len(set(shown)) + 50


def test_a_lost_packet_delays_no_other() -> None:
    channel = degraded(DegradationProfile(3.0, 0.0, 0.3))
    lost = set(lost_ticks(degraded(DegradationProfile(3.0, 0.0, 0.3)), 300))
    for tick, packet in enumerate(trace(channel, 300), start=1):
        arrived = [sent for sent in range(1, tick - 2) if sent not in lost]
        assert send_tick(packet) == (arrived[-1] if arrived else None)
    assert set(channel.stats.latency_ticks) == {3}


def test_the_age_of_who_went_silent_counts_on_through_the_link() -> None:
    channel = degraded(DegradationProfile(2.0, 0.0, 0.0))
    packets = [channel.encode(stamped_state(1)), *(channel.encode({}) for _ in range(5))]
    assert [packet["aoi"].get("a") for packet in packets] == [None, None, 2.0, 3.0, 4.0, 5.0]


def test_nothing_mutable_is_shared_with_what_is_shown_next() -> None:
    lossy = DegradationProfile(0.0, 0.0, 0.5)
    lost = lost_ticks(degraded(lossy), 50)
    tick = next(tick for tick in lost if tick > 1 and tick - 1 not in lost)
    channel = degraded(lossy)
    trace(channel, tick - 2)
    state = {**stamped_state(tick - 1), "task_state": {"a": {"grasp_side": "left"}}}
    shown = channel.encode(state)
    for packet in (state, shown):
        packet["pose"]["a"]["xyz"] = (99.0, 0.0, 0.0)
        packet["task_state"]["a"]["grasp_side"] = "right"
    shown["aoi"]["a"] = 99.0
    still_shown = channel.encode(stamped_state(tick))
    assert send_tick(still_shown) == tick - 1
    assert still_shown["task_state"] == {"a": {"grasp_side": "left"}}
    assert still_shown["aoi"] == {"a": 1.0}


def test_an_unseeded_reset_repeats_the_episode_and_a_seed_changes_it() -> None:
    channel = degraded(URLLC_3GPP_R17["wifi"])
    traces = []
    for seed in (None, None, 1):
        channel.reset(seed=seed)
        traces.append(trace(channel, 1000))
    assert traces[0] == traces[1] != traces[2]
    channel.reset()
    assert trace(channel, 1000) == traces[2]
    assert channel.stats.delivered < 1000


def test_episodes_can_vary_and_are_still_repeatable() -> None:
    def episodes() -> list[list[int]]:
        channel = degraded(URLLC_3GPP_R17["saturation"], vary_episodes=True)
        lost = [lost_ticks(channel, 200)]
        for _ in range(2):
            channel.reset()
            lost.append(lost_ticks(channel, 200))
        channel.reset(seed=0)
        lost.append(lost_ticks(channel, 200))
        return lost

    first, second, third, again = episodes()
    assert [first, second, third, again] == episodes()
    assert again == first
    assert first != second != third != first


def test_the_inner_channel_gets_the_seed_at_once_and_its_version_counts() -> None:
    class RecordingChannel(FixedFormatCommChannel):
        def __init__(self) -> None:
            super().__init__(schema_version=2)
            self.seeds: list[int | None] = []

        def reset(self, *, seed: int | None = None) -> None:
            self.seeds.append(seed)
            super().reset(seed=seed)

    inner = RecordingChannel()
    channel = CommDegradationWrapper(inner, DegradationProfile(5.0, 0.0, 0.0), root_seed=7)
    first = channel.encode({})
    assert channel.decode(first) == {"pose": {}, "task_state": {}, "aoi": {}, "learned_overlay": None}
    channel.reset()
    channel.reset(seed=9)
    assert inner.seeds == [7, 7, 9]
    assert channel.schema_version == 2


def test_a_degraded_channel_is_a_channel_and_can_be_degraded_again() -> None:
    once = degraded(DegradationProfile(1.0, 0.0, 0.0))
    twice = CommDegradationWrapper(once, DegradationProfile(2.0, 0.0, 0.0))
    assert isinstance(twice, CommChannel)
    packets = trace(twice, 6)
    assert [send_tick(packet) for packet in packets] == [None, None, None, 1, 2, 3]
    assert packets[-1]["aoi"] == {"a": 3.0}


@pytest.mark.parametrize("period", [0.0, -1.0, float("nan")])
def test_a_tick_needs_a_length(period: float) -> None:
    with pytest.raises(ValueError, match=f"tick_period_ms must be finite and > 0, got {period}"):
        degraded(URLLC_3GPP_R17["ideal"], tick_period_ms=period)


@pytest.mark.parametrize(
    ("numbers", "name"),
    [
        ((-1.0, 0.0, 0.0), "latency_mean_ms"),
        ((0.0, float("nan"), 0.0), "latency_std_ms"),
        ((float("inf"), 0.0, 0.0), "latency_mean_ms"),
        ((0.0, 0.0, 1.5), "drop_rate"),
        ((0.0, 0.0, -0.1), "drop_rate"),
    ],
)
def test_an_impossible_profile_is_refused(numbers: tuple[float, float, float], name: str) -> None:
    with pytest.raises(ValueError, match=name):
        DegradationProfile(*numbers)


def test_an_unknown_profile_is_refused_with_the_known_names() -> None:
    assert get_profile("wifi") is URLLC_3GPP_R17["wifi"]
    with pytest.raises(ChamberCommError, match="unknown profile 'wlan'; known: ideal, urllc, factory, wifi, lossy"):
        get_profile("wlan")


def warned(profile: DegradationProfile, solver: Any) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        saturation_guard(profile, solver)
    assert all(entry.category is ChamberCommQPSaturationWarning for entry in caught)
    assert all(entry.filename == __file__ for entry in caught)
    return [str(entry.message) for entry in caught]


def test_only_a_saturated_link_warns_beside_a_fast_solver() -> None:
    texts = {name: warned(profile, lambda: None) for name, profile in URLLC_3GPP_R17.items()}
    saturated = (
        "ChamberCommQPSaturationWarning: profile in ADR-006 R5 saturation regime (drop_rate=0.1, latency_mean_ms=100.0)"
    )
    assert texts.pop("saturation") == [saturated]
    assert set(map(tuple, texts.values())) == {()}


@pytest.mark.parametrize(
    ("numbers", "warns"),
    [((0.0, 0.0, 0.1), True), ((100.0, 0.0, 0.0), True), ((99.9, 0.0, 0.0999), False)],
)
def test_saturation_begins_at_its_limits(numbers: tuple[float, float, float], warns: bool) -> None:
    assert bool(warned(DegradationProfile(*numbers), lambda: None)) == warns


def test_a_slow_solver_warns_and_gives_only_that_reason() -> None:
    [text] = warned(URLLC_3GPP_R17["ideal"], lambda: time.sleep(0.005))
    assert text.startswith("ChamberCommQPSaturationWarning: QP solve ")
    assert text.endswith(" ms exceeds 1.0000 ms budget")


def test_both_reasons_are_given_in_order() -> None:
    [text] = warned(URLLC_3GPP_R17["saturation"], lambda: (0.0, 0.25))
    assert text.startswith("ChamberCommQPSaturationWarning: QP solve 250.0000 ms exceeds 1.0000 ms budget; profile in")


def test_the_time_that_a_solver_reports_of_itself_counts() -> None:
    def solves_fast_beside_other_work() -> tuple[float, float]:
        time.sleep(0.005)
        return 0.2, 1e-6

    assert warned(URLLC_3GPP_R17["ideal"], solves_fast_beside_other_work) == []


def test_a_slow_first_call_and_two_interruptions_do_not_warn() -> None:
    times = iter([0.5, 0.5, 1e-6, 0.5, 1e-6, 1e-6])
    assert warned(URLLC_3GPP_R17["ideal"], lambda: (0.0, next(times))) == []
    assert next(times, None) is None


def test_the_default_solver_is_the_one_of_the_safety_layer() -> None:
    with pytest.warns(ChamberCommQPSaturationWarning, match="QP solve"):
        saturation_guard(URLLC_3GPP_R17["ideal"], qp_time_budget_ms=0.0)
