"""Named links: URLLC in 3GPP Release 17 and what an industrial trial measured (arXiv 2501.12792)."""

from __future__ import annotations

from chamber.comm.degradation import DegradationProfile
from chamber.comm.errors import ChamberCommError

__all__ = ["URLLC_3GPP_R17", "get_profile"]

URLLC_3GPP_R17: dict[str, DegradationProfile] = {
    "ideal": DegradationProfile(latency_mean_ms=0.0, latency_std_ms=0.0, drop_rate=0.0),
    "urllc": DegradationProfile(latency_mean_ms=1.0, latency_std_ms=0.0, drop_rate=1e-6),
    "factory": DegradationProfile(latency_mean_ms=5.0, latency_std_ms=0.1, drop_rate=1e-4),
    "wifi": DegradationProfile(latency_mean_ms=10.0, latency_std_ms=1.0, drop_rate=1e-2),
    "lossy": DegradationProfile(latency_mean_ms=30.0, latency_std_ms=5.0, drop_rate=1e-2),
    "saturation": DegradationProfile(latency_mean_ms=100.0, latency_std_ms=10.0, drop_rate=1e-1),
}
"""The first five are the sweep of the communication axis, ``ideal`` being its homogeneous condition; ``saturation`` is
there for `chamber.comm.saturation_guard`."""


def get_profile(name: str) -> DegradationProfile:
    """Give a profile by name.

    Raises:
        ChamberCommError: there is none of this name; the message lists those there are.
    """
    try:
        return URLLC_3GPP_R17[name]
    except KeyError:
        raise ChamberCommError(f"unknown profile {name!r}; known: {', '.join(URLLC_3GPP_R17)}") from None
