"""Events and their bus."""

from typing import Any

import pytest

from scpn_phase_orchestrator.supervisor.events import EVENT_KINDS, EventBus, RegimeEvent


@pytest.mark.parametrize("kind", sorted(EVENT_KINDS))
def test_every_documented_kind_is_accepted(kind: str):
    assert RegimeEvent(kind, 0).detail == ""


def test_the_documented_kinds_are_all_there_are():
    assert {"boundary_breach", "r_threshold", "regime_transition", "manual", "petri_transition"} == EVENT_KINDS
    with pytest.raises(ValueError, match=r"event kind must be one of .*, got 'surprise'"):
        RegimeEvent("surprise", 0)


@pytest.mark.parametrize("step", [-1, True, 1.0, "3", None])
def test_a_step_that_is_no_count_is_refused(step: Any):
    with pytest.raises(ValueError, match="event step must be an integer >= 0"):
        RegimeEvent("manual", step)


def test_history_keeps_the_newest_and_count_counts_all():
    bus = EventBus(maxlen=3)
    for step in range(5):
        bus.emit("manual", step)
    assert [event.step for event in bus.history] == [2, 3, 4]
    assert bus.count == 5
    bus.clear()
    assert bus.history == []
    assert bus.count == 0


def test_history_holds_200_events_by_default():
    bus = EventBus()
    for step in range(201):
        bus.emit("manual", step)
    assert len(bus.history) == 200
    assert bus.history[0].step == 1


def test_the_history_that_is_handed_out_is_a_copy():
    bus = EventBus()
    bus.history.append(RegimeEvent("manual", 0))
    assert bus.history == []


def test_delivery_is_synchronous_and_in_the_order_of_subscription():
    bus = EventBus()
    heard: list[tuple[str, int]] = []
    bus.subscribe(lambda event: heard.append(("first", event.step)))
    bus.subscribe(lambda event: heard.append(("second", event.step)))
    bus.post(RegimeEvent("manual", 4))
    assert heard == [("first", 4), ("second", 4)]


def test_an_unsubscribed_callback_hears_nothing_and_a_second_subscription_changes_nothing():
    bus = EventBus()
    heard: list[RegimeEvent] = []
    bus.subscribe(heard.append)
    bus.subscribe(heard.append)
    bus.emit("manual", 1)
    bus.unsubscribe(heard.append)
    bus.unsubscribe(heard.append)
    bus.emit("manual", 2)
    assert [event.step for event in heard] == [1]


def test_a_subscriber_may_unsubscribe_while_it_is_called():
    bus = EventBus()
    heard: list[str] = []

    def once(event: RegimeEvent) -> None:
        heard.append("once")
        bus.unsubscribe(once)

    bus.subscribe(once)
    bus.subscribe(lambda _: heard.append("always"))
    bus.emit("manual", 0)
    bus.emit("manual", 1)
    assert heard == ["once", "always", "always"]


def test_an_event_is_in_the_history_even_when_a_subscriber_fails():
    bus = EventBus()

    def fail(event: RegimeEvent) -> None:
        raise RuntimeError("subscriber is broken")

    bus.subscribe(fail)
    with pytest.raises(RuntimeError, match="subscriber is broken"):
        bus.emit("manual", 7)
    assert [event.step for event in bus.history] == [7]


@pytest.mark.parametrize("maxlen", [0, -1, True, 2.0])
def test_a_history_that_holds_nothing_is_refused(maxlen: Any):
    with pytest.raises(ValueError, match="maxlen must be an integer >= 1"):
        EventBus(maxlen=maxlen)
