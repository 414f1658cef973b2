"""Packets, their ages, and what a channel refuses."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import chamber.comm
from chamber.comm import (
    SCHEMA_VERSION,
    AoIClock,
    ChamberCommError,
    CommChannel,
    FixedFormatCommChannel,
    LearnedOverlay,
)
from chamber.comm.aoi import aoi_ms
from chamber.comm.observed_poses import ObservedPoses
from ripieno.randomness import derive_substream

POSE = {"xyz": (1.0, 2.0, 3.0), "quat_wxyz": (1.0, 0.0, 0.0, 0.0)}


def test_a_clock_ages_what_it_knows_and_its_snapshot_is_its_own() -> None:
    clock = AoIClock()
    clock.tick(5.0)
    clock.mark_fresh("panda")
    clock.tick(0.01)
    assert clock.aoi("panda") == 0.01
    clock.snapshot()["panda"] = 9.0
    assert clock.aoi("panda") == 0.01
    clock.reset()
    with pytest.raises(KeyError):
        clock.aoi("panda")


@pytest.mark.parametrize("dt", [-1e-9, float("nan"), float("inf")])
def test_a_clock_refuses_time_that_cannot_pass(dt: float) -> None:
    clock = AoIClock()
    clock.mark_fresh("a")
    with pytest.raises(ValueError, match="tick dt must be non-negative; got"):
        clock.tick(dt)
    assert clock.aoi("a") == 0.0


def test_an_unknown_uid_has_no_age() -> None:
    with pytest.raises(KeyError):
        AoIClock().aoi("x")


def test_ages_count_packets_since_a_uid_was_last_heard_of() -> None:
    channel = FixedFormatCommChannel()
    first = channel.encode({"pose": {"a": POSE}})
    second = channel.encode({})
    third = channel.encode({"task_state": {"b": {}}})
    assert (first["aoi"], second["aoi"], third["aoi"]) == ({"a": 0.0}, {"a": 1.0}, {"a": 2.0, "b": 0.0})
    assert third["pose"] == {}
    assert aoi_ms(third, tick_period_ms=10.0) == {"a": 20.0, "b": 0.0}


@pytest.mark.parametrize("state", [None, 42, "text", [("pose", 1)]])
def test_a_state_that_is_no_mapping_says_nothing(state: object) -> None:
    channel = FixedFormatCommChannel()
    channel.encode({"pose": {"a": POSE}})
    packet = channel.encode(state)
    assert (packet["pose"], packet["task_state"], packet["learned_overlay"]) == ({}, {}, None)
    assert packet["aoi"] == {"a": 1.0}


@pytest.mark.parametrize("nothing", [None, {}, [], (), ""])
def test_an_empty_entry_says_nothing(nothing: object) -> None:
    packet = FixedFormatCommChannel().encode({"pose": nothing, "task_state": nothing, "other": 1})
    assert (packet["pose"], packet["task_state"]) == ({}, {})


def test_a_reset_forgets_ages_and_overlay() -> None:
    overlay = LearnedOverlay()
    channel = FixedFormatCommChannel(overlay=overlay)
    overlay.set([1.0])
    assert channel.encode({"pose": {"a": POSE}})["learned_overlay"] == [1.0]
    channel.reset(seed=3)
    packet = channel.encode({})
    assert packet["aoi"] == {}
    assert packet["learned_overlay"] is None


def test_an_overlay_holds_what_it_is_given() -> None:
    tensor = np.ones(3)
    overlay = LearnedOverlay(tensor)
    assert overlay.tensor is tensor
    assert overlay.encode() is tensor
    assert LearnedOverlay.decode(tensor) is tensor
    overlay.set(None)
    assert overlay.encode() is None
    assert LearnedOverlay.decode(None) is None


def test_the_overlay_of_a_state_goes_through_by_reference_and_comes_first() -> None:
    tensor = np.arange(4.0)
    channel = FixedFormatCommChannel(overlay=LearnedOverlay("held"))
    packet = channel.encode({"learned_overlay": tensor})
    assert packet["learned_overlay"] is tensor
    assert packet["aoi"] == {}


finite = st.floats(-10.0, 10.0)
vectors = st.tuples(finite, finite, finite)
unit_quaternions = st.floats(-3.14, 3.14).map(lambda angle: (float(np.cos(angle)), 0.0, float(np.sin(angle)), 0.0))
poses = st.fixed_dictionaries({"xyz": vectors, "quat_wxyz": unit_quaternions})
predicates = st.fixed_dictionaries(
    {},
    optional={"grasp_side": st.text(max_size=5), "object_class": st.text(max_size=5), "contact_force": finite},
)
states = st.fixed_dictionaries(
    {
        "pose": st.dictionaries(st.text(max_size=3), poses, max_size=3),
        "task_state": st.dictionaries(st.text(max_size=3), predicates, max_size=3),
    }
)


@given(state=states)
def test_a_round_trip_gives_back_what_was_said_and_adds_ages(state: dict[str, Any]) -> None:
    channel = FixedFormatCommChannel()
    decoded = channel.decode(channel.encode(state))
    assert decoded["pose"] == state["pose"]
    assert decoded["task_state"] == state["task_state"]
    assert decoded["aoi"] == dict.fromkeys([*state["pose"], *state["task_state"]], 0.0)
    assert decoded["learned_overlay"] is None


def test_arrays_become_plain_numbers() -> None:
    state = {"pose": {"a": {"xyz": np.array([1, 2, 3]), "quat_wxyz": np.array([1, 0, 0, 0], dtype=np.float32)}}}
    assert FixedFormatCommChannel().encode(state)["pose"] == {"a": POSE}


def test_nothing_mutable_is_shared_between_packets_states_and_channel() -> None:
    channel = FixedFormatCommChannel()
    state = {"pose": {"a": dict(POSE)}, "task_state": {"a": {"grasp_side": "left"}}}
    packet = channel.encode(state)
    decoded = channel.decode(packet)
    packet["pose"]["a"]["xyz"] = (9.0, 9.0, 9.0)
    packet["task_state"]["a"]["grasp_side"] = "right"
    packet["aoi"]["a"] = 9.0
    assert state == {"pose": {"a": POSE}, "task_state": {"a": {"grasp_side": "left"}}}
    assert decoded["pose"] == {"a": POSE}
    assert channel.encode({})["aoi"] == {"a": 1.0}


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({"pose": np.ones(7)}, "pose must be a mapping, got ndarray"),
        ({"pose": {"a": {"xyz": (0.0, 0.0, 0.0)}}}, r"pose of 'a' lacks keys \['quat_wxyz'\]"),
        ({"pose": {"a": {**POSE, "yaw": 1.0}}}, r"unknown keys \['yaw'\]"),
        ({"pose": {"a": {**POSE, "xyz": (0.0, 0.0)}}}, "xyz of the pose of 'a' must be 3 numbers"),
        ({"pose": {"a": {**POSE, "xyz": (0.0, 0.0, float("nan"))}}}, "must be finite"),
        ({"pose": {"a": {**POSE, "xyz": "abc"}}}, "must be 3 numbers, got 'abc'"),
        ({"pose": {"a": {**POSE, "xyz": ["a", "b", "c"]}}}, "must be 3 numbers"),
        ({"pose": {"a": {**POSE, "quat_wxyz": (0.0, 0.0, 0.0, 0.0)}}}, "must have length 1, got 0"),
        ({"pose": {"a": {**POSE, "quat_wxyz": (2.0, 0.0, 0.0, 0.0)}}}, "must have length 1, got 2"),
        ({"pose": {"a": {**POSE, "quat_wxyz": (1.002, 0.0, 0.0, 0.0)}}}, "must have length 1, got 1.002"),
        ({"pose": {1: POSE}}, "pose must have text keys, got 1"),
        ({"task_state": {"a": {"mood": "good"}}}, r"task_state of 'a' has unknown keys \['mood'\]"),
        ({"task_state": {"a": {"grasp_side": 1}}}, "grasp_side of the task_state of 'a' must be text"),
        ({"task_state": {"a": {"contact_force": "hard"}}}, "contact_force of the task_state of 'a' must be a number"),
        ({"task_state": {"a": {"contact_force": float("inf")}}}, "must be finite"),
    ],
)
def test_a_malformed_state_is_refused_and_no_time_passes(state: dict[str, Any], message: str) -> None:
    channel = FixedFormatCommChannel()
    channel.encode({"pose": {"z": POSE}})
    with pytest.raises(ChamberCommError, match=message):
        channel.encode(state)
    assert channel.encode({})["aoi"] == {"z": 1.0}


def test_a_decoder_refuses_another_schema_version() -> None:
    packet = FixedFormatCommChannel(schema_version=2).encode({})
    message = "comm packet schema_version mismatch: channel expects 1, packet carries 2"
    with pytest.raises(ChamberCommError, match=message):
        FixedFormatCommChannel().decode(packet)
    assert SCHEMA_VERSION == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda packet: packet.pop("schema_version"), "has no schema_version"),
        (lambda packet: packet.pop("aoi"), r"lacks keys \['aoi'\]"),
        (lambda packet: packet.update(hop=1), r"unknown keys \['hop'\]"),
        (lambda packet: packet.update(aoi={"a": -1.0}), "aoi of 'a' must be >= 0"),
        (lambda packet: packet.update(aoi={"a": None}), "aoi of 'a' must be a number"),
        (lambda packet: packet.update(pose={"a": 1}), "pose of 'a' must be a mapping"),
    ],
)
def test_a_decoder_refuses_a_malformed_packet(change: Any, message: str) -> None:
    packet: Any = FixedFormatCommChannel().encode({"pose": {"a": POSE}})
    change(packet)
    with pytest.raises(ChamberCommError, match=message):
        FixedFormatCommChannel().decode(packet)


def test_a_decoder_refuses_what_is_no_packet() -> None:
    with pytest.raises(ChamberCommError, match="must be a mapping, got int"):
        FixedFormatCommChannel().decode(3)  # type: ignore[arg-type]


def test_a_channel_is_a_channel() -> None:
    assert isinstance(FixedFormatCommChannel(), CommChannel)
    assert not isinstance(AoIClock(), CommChannel)


def test_poses_are_read_from_an_observation() -> None:
    vector = np.array([[0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0], [1.0, 2.0, 3.0, 1.0, 0.0, 0.0, 0.0]])
    adapter = ObservedPoses({"a": ("extra", "tcp"), "gone": ("extra", "nothing")}, env=1)
    observation = {"extra": {"tcp": vector}, "task_state": {"a": {"grasp_side": "left"}}}
    packet = FixedFormatCommChannel(state_adapter=adapter).encode(observation)
    assert packet["pose"] == {"a": POSE}
    assert packet["task_state"] == {"a": {"grasp_side": "left"}}
    assert packet["aoi"] == {"a": 0.0}
    assert "pose" not in observation
    assert adapter(None) == {}


@pytest.mark.parametrize(("value", "found"), [(np.ones(6), "shape"), (np.ones((1, 7)), "shape"), ("x", "str")])
def test_an_observation_without_a_pose_vector_is_refused(value: object, found: str) -> None:
    adapter = ObservedPoses({"a": ("tcp",)}, env=1)
    with pytest.raises(ChamberCommError, match=rf"pose of 'a' must be 7 numbers at \('tcp',\), got {found}"):
        adapter({"tcp": value})


@pytest.mark.parametrize("period", [0.0, -1.0, float("nan"), float("inf")])
def test_ages_in_milliseconds_need_a_period(period: float) -> None:
    with pytest.raises(ValueError, match="tick_period_ms must be finite and > 0"):
        aoi_ms({"aoi": {}}, tick_period_ms=period)


def test_the_streams_of_the_layer_are_pinned() -> None:
    first = [derive_substream(name, root_seed=0).default_rng().random() for name in ("comm.degrade", "comm.fixed")]
    assert first == [0.7328235191784344, 0.8551906880580058]


def test_the_documented_names_are_exported() -> None:
    assert set(chamber.comm.__all__) >= {
        *("SCHEMA_VERSION", "URLLC_3GPP_R17", "AoIClock", "ChamberCommError", "ChamberCommQPSaturationWarning"),
        *("CommChannel", "CommDegradationStats", "CommDegradationWrapper", "CommPacket", "DegradationProfile"),
        *("FixedFormatCommChannel", "LearnedOverlay", "Pose", "TaskStatePredicate", "saturation_guard"),
    }
    assert all(hasattr(chamber.comm, name) for name in chamber.comm.__all__)


def test_the_layer_needs_neither_a_solver_nor_a_tensor_library_nor_a_simulator() -> None:
    code = (
        "import sys, chamber.comm, chamber.comm.observed_poses\n"
        "heavy = {'torch', 'mujoco', 'gymnasium', 'concerto.safety.cbf_qp', 'concerto.safety.solvers'}\n"
        "assert not heavy & sys.modules.keys(), heavy & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
