"""The message layer between robots: packets, the channels they travel through, and what a bad link does to them.

A channel turns state into a packet (`CommChannel.encode`) and a packet into its contents (`CommChannel.decode`).
`CommDegradationWrapper` is a channel around a channel that adds latency, jitter and loss.
`chamber.envs.CommShapingWrapper` puts the packets of a channel into observations.
"""

from chamber.comm.aoi import AoIClock
from chamber.comm.api import SCHEMA_VERSION, CommChannel, CommPacket, Pose, TaskStatePredicate
from chamber.comm.degradation import (
    CommDegradationStats,
    CommDegradationWrapper,
    DegradationProfile,
    saturation_guard,
)
from chamber.comm.errors import ChamberCommError, ChamberCommQPSaturationWarning
from chamber.comm.fixed_format import FixedFormatCommChannel
from chamber.comm.learned_overlay import LearnedOverlay
from chamber.comm.profiles import URLLC_3GPP_R17

__all__ = [
    "SCHEMA_VERSION",
    "URLLC_3GPP_R17",
    "AoIClock",
    "ChamberCommError",
    "ChamberCommQPSaturationWarning",
    "CommChannel",
    "CommDegradationStats",
    "CommDegradationWrapper",
    "CommPacket",
    "DegradationProfile",
    "FixedFormatCommChannel",
    "LearnedOverlay",
    "Pose",
    "TaskStatePredicate",
    "saturation_guard",
]
