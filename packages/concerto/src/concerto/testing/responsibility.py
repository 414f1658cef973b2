"""Whose fault was the contact? A judge of recorded motion that knows nothing about the controller.

The rule follows the idea of Responsibility-Sensitive Safety (Shalev-Shwartz, Shammah, Shashua, "On a Formal Model of
Safe and Scalable Self-driving Cars", 2017, arXiv 1708.06374), carried over to balls in 2-D or 3-D under sampled
control. A contact is the ego's fault unless it

- was at rest, or
- had been braking at its limit since the last moment at which it could still stop.

*Could still stop* means: braking along -v at its limit, with an acceleration that is constant over each control period
and a last, weaker period that ends at rest, the ego stays outside the partner's worst declared motion until it is at
rest. A partner that declared the accelerations ``a`` and the speeds ``s`` it will not exceed is inside the ball with
centre p + v t and radius a t^2/2 and inside the ball with centre p and radius s t; the ego must be outside one of them
at every moment.

A controller acts only at the starts of control periods. So "the last moment at which it could still stop" is the last
period with a *safe action*: one after which, braking, the ego would have stopped in time (limit braking is such an
action whenever braking at once is enough). From the next period on it must have been braking at its limit. While a
partner keeps its word a safe action is never followed by a contact, and after it braking is again a safe action; so for
honest partners the verdict is the rule above to the letter. A partner that breaks its word cannot make the ego guilty
for an action that was safe when it was chosen.

Everything is decided exactly, by the roots of quartics in continuous time (`concerto.testing._worst_case`): between
the samples, too. Tolerances and why they are as they are: see `Tolerances`.

Examples:
    The ego drives at 1 m/s towards a partner that stands still, and never brakes.

    >>> import numpy as np
    >>> times = np.linspace(0.0, 1.0, 11)
    >>> still = np.zeros((11, 2))
    >>> recording = Recording(
    ...     control_period=0.1,
    ...     times=times,
    ...     ego_positions=np.stack([times - 1.2, 0.0 * times], axis=1),
    ...     ego_velocities=np.tile([1.0, 0.0], (11, 1)),
    ...     ego_accelerations=np.zeros((10, 2)),
    ...     ego_radius=0.25,
    ...     braking_limit=BrakingLimit(acceleration=2.0),
    ...     partners={"box": RecordedPartner(still, still, 0.25, DeclaredMotion(max_acceleration=0.0))},
    ... )
    >>> (contact,) = judge_contacts(recording)
    >>> contact.verdict, round(contact.time, 3)
    (<Verdict.AT_FAULT: 'at_fault'>, 0.7)
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from concerto.testing import _worst_case

__all__ = [
    "BrakingLimit",
    "Contact",
    "DeclaredMotion",
    "Lapse",
    "RecordedPartner",
    "Recording",
    "Tolerances",
    "Verdict",
    "can_still_stop",
    "find_lapses",
    "judge_contacts",
    "least_clearance",
]

FloatArray = NDArray[np.float64]


class Verdict(StrEnum):
    """Who answers for a contact."""

    NOT_AT_FAULT_AT_REST = "not_at_fault_at_rest"
    NOT_AT_FAULT_BRAKING = "not_at_fault_braking"
    AT_FAULT = "at_fault"

    @property
    def sentence(self) -> str:
        """Say the verdict in words a person reads."""
        return _SENTENCES[self]


_SENTENCES = {
    Verdict.NOT_AT_FAULT_AT_REST: "The ego was at rest when the partner touched it.",
    Verdict.NOT_AT_FAULT_BRAKING: (
        "The ego had been braking at its limit since the last moment at which it could still stop "
        "before the worst declared motion of the partner."
    ),
    Verdict.AT_FAULT: (
        "The ego was moving and had not been braking at its limit since the last moment at which it could still "
        "stop before the worst declared motion of the partner."
    ),
}


@dataclass(frozen=True)
class BrakingLimit:
    """What the ego's brakes can do.

    Attributes:
        acceleration: largest length of the acceleration, m/s^2, positive.
        component: largest magnitude of each component of the acceleration, m/s^2, positive; infinite for none.
    """

    acceleration: float
    component: float = math.inf

    def __post_init__(self) -> None:
        if not (math.isfinite(self.acceleration) and self.acceleration > 0.0):
            raise ValueError(f"acceleration must be positive and finite, got {self.acceleration}")
        if not self.component > 0.0:
            raise ValueError(f"component must be positive, got {self.component}")


@dataclass(frozen=True)
class DeclaredMotion:
    """The worst motion that a partner declares.

    Attributes:
        max_acceleration: largest length of its acceleration, m/s^2, not negative.
        max_speed: largest length of its velocity, m/s, not negative; infinite for none declared.
    """

    max_acceleration: float
    max_speed: float = math.inf

    def __post_init__(self) -> None:
        if not (math.isfinite(self.max_acceleration) and self.max_acceleration >= 0.0):
            raise ValueError(f"max_acceleration must be finite and >= 0, got {self.max_acceleration}")
        if not self.max_speed >= 0.0:
            raise ValueError(f"max_speed must be >= 0, got {self.max_speed}")


@dataclass(frozen=True)
class Tolerances:
    """What counts as equal.

    Attributes:
        distance_m: a contact is a distance at least this much below the sum of the radii, and the ego could still
            stop when the worst case comes no nearer than that. One number for both: an ego that stops in time by the
            second cannot be in contact by the first. A nanometre is far above the rounding of doubles at distances up
            to 1 km (1e-13 m), and far below anything a robot can measure.
        rest_speed: at rest is slower than this, m/s; within a control period a robot this slow moves less than the
            wavelength of light. Braking with actions sent in single precision leaves less than that.
        braking_fraction: the ego brakes at its limit when its acceleration differs from limit braking by at most this
            share of the limit. Above single precision (6e-8), and far below what a weaker brake could gain from it.
        declared_fraction: a partner breaks its declaration when it exceeds it by more than this share. Accelerations
            are recovered from differences of velocities, which costs some digits.
        motion_m: largest difference (m, and m/s for velocities) between a recorded sample and the one that constant
            acceleration gives; beyond it the recording does not describe the motion between its samples.
    """

    distance_m: float = 1e-9
    rest_speed: float = 1e-6
    braking_fraction: float = 1e-6
    declared_fraction: float = 1e-6
    motion_m: float = 1e-6


DEFAULT_TOLERANCES = Tolerances()


@dataclass(frozen=True)
class RecordedPartner:
    """One partner's part of a recording.

    Attributes:
        positions: at every sample, m, shape (n + 1, d).
        velocities: at every sample, m/s, shape (n + 1, d).
        radius: of its safety ball, m.
        declared: the worst motion it declared.
    """

    positions: FloatArray
    velocities: FloatArray
    radius: float
    declared: DeclaredMotion


@dataclass(frozen=True)
class Recording:
    """The motion of an ego and its partners, sampled at the starts of n control periods and at the end of the last.

    Over each period every acceleration is constant: the ego's is recorded, a partner's follows from its velocities.

    Attributes:
        control_period: duration of every period, s.
        times: of the samples, s, shape (n + 1,), one control period apart.
        ego_positions: m, shape (n + 1, d) with d = 2 or 3.
        ego_velocities: m/s, shape (n + 1, d).
        ego_accelerations: applied over each period, m/s^2, shape (n, d).
        ego_radius: of the ego's safety ball, m.
        braking_limit: what the ego's brakes can do.
        partners: the partners by uid.
        tolerances: what counts as equal.

    Raises:
        ValueError: a shape, a value that is not finite, a period or a motion does not fit; or the recording starts in
            contact, so that what led to the contact is not in it.
    """

    control_period: float
    times: FloatArray
    ego_positions: FloatArray
    ego_velocities: FloatArray
    ego_accelerations: FloatArray
    ego_radius: float
    braking_limit: BrakingLimit
    partners: Mapping[str, RecordedPartner]
    tolerances: Tolerances = field(default=DEFAULT_TOLERANCES)

    def __post_init__(self) -> None:
        self._check_ego()
        for uid, partner in self.partners.items():
            self._check_partner(uid, partner)

    @property
    def n_periods(self) -> int:
        """Number of control periods n."""
        return len(self.times) - 1

    def contact_distance(self, uid: str) -> float:
        """Give the distance of the centres below which the ego is in contact with the partner, tolerance included."""
        radii = self.ego_radius + self.partners[uid].radius
        return max(0.0, radii - self.tolerances.distance_m)

    def partner_accelerations(self, uid: str) -> FloatArray:
        """Give the partner's acceleration over each period, m/s^2, shape (n, d)."""
        return np.diff(self.partners[uid].velocities, axis=0) / self.control_period

    def relative_motion(self, uid: str) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Give position, velocity and acceleration of the ego relative to the partner over each period, (n, d) each."""
        partner = self.partners[uid]
        return (
            self.ego_positions[:-1] - partner.positions[:-1],
            self.ego_velocities[:-1] - partner.velocities[:-1],
            self.ego_accelerations - self.partner_accelerations(uid),
        )

    def _check_ego(self) -> None:
        if not (math.isfinite(self.control_period) and self.control_period > 0.0):
            raise ValueError(f"control_period must be positive and finite, got {self.control_period}")
        if self.times.ndim != 1 or len(self.times) < 2:
            raise ValueError(f"times must hold at least two samples, got shape {self.times.shape}")
        if not np.allclose(np.diff(self.times), self.control_period, rtol=1e-6, atol=0.0):
            raise ValueError(f"times must be one control period ({self.control_period} s) apart")
        dim = self.ego_positions.shape[-1]
        if dim not in (2, 3):
            raise ValueError(f"ego_positions must have 2 or 3 columns, got shape {self.ego_positions.shape}")
        n = self.n_periods
        _check_array("ego_positions", self.ego_positions, (n + 1, dim))
        _check_array("ego_velocities", self.ego_velocities, (n + 1, dim))
        _check_array("ego_accelerations", self.ego_accelerations, (n, dim))
        _check_radius("ego_radius", self.ego_radius)
        self._check_motion("the ego", self.ego_positions, self.ego_velocities, self.ego_accelerations)

    def _check_partner(self, uid: str, partner: RecordedPartner) -> None:
        shape = self.ego_positions.shape
        _check_array(f"positions of partner {uid!r}", partner.positions, shape)
        _check_array(f"velocities of partner {uid!r}", partner.velocities, shape)
        _check_radius(f"radius of partner {uid!r}", partner.radius)
        accelerations = self.partner_accelerations(uid)
        self._check_motion(f"partner {uid!r}", partner.positions, partner.velocities, accelerations)
        start = float(np.linalg.norm(self.ego_positions[0] - partner.positions[0]))
        if start < self.contact_distance(uid):
            raise ValueError(f"the recording must start before contact, got partner {uid!r} at {start} m")

    def _check_motion(self, who: str, positions: FloatArray, velocities: FloatArray, accelerations: FloatArray) -> None:
        dt = self.control_period
        expected_velocities = velocities[:-1] + dt * accelerations
        expected_positions = positions[:-1] + dt * velocities[:-1] + 0.5 * dt * dt * accelerations
        for name, recorded, expected in (
            ("velocities", velocities[1:], expected_velocities),
            ("positions", positions[1:], expected_positions),
        ):
            error = float(np.max(np.abs(recorded - expected)))
            if error > self.tolerances.motion_m:
                raise ValueError(
                    f"{name} of {who} must follow constant acceleration over each period, off by up to {error}"
                )


@dataclass(frozen=True)
class Contact:
    """The first contact of the ego with one partner, judged.

    Attributes:
        partner: uid of the partner.
        time: onset of the contact, s.
        period: index of the control period in which it begins.
        verdict: who answers for it.
        partner_broke_its_word: the partner exceeded its declared motion before the contact.
        last_safe_action: start of the last period whose action left the ego able to stop, s; None when there is none.
        ego_speed: at the onset, m/s.
    """

    partner: str
    time: float
    period: int
    verdict: Verdict
    partner_broke_its_word: bool
    last_safe_action: float | None
    ego_speed: float


@dataclass(frozen=True)
class Lapse:
    """A period at whose start the ego could still stop, and whose action gave that up.

    Attributes:
        partner: uid of the partner it could no longer be sure to stop for.
        period: index of the control period.
    """

    partner: str
    period: int


def can_still_stop(
    position: FloatArray,
    velocity: FloatArray,
    *,
    braking_limit: BrakingLimit,
    control_period: float,
    partner_position: FloatArray,
    partner_velocity: FloatArray,
    radii: float,
    declared: DeclaredMotion,
    first_acceleration: FloatArray | None = None,
    tolerances: Tolerances = DEFAULT_TOLERANCES,
) -> bool:
    """Tell whether the ego, braking at its limit, is at rest before the worst declared motion of a partner meets it.

    Args:
        position: of the ego, m, shape (d,).
        velocity: of the ego, m/s, shape (d,).
        braking_limit: what the ego's brakes can do.
        control_period: s.
        partner_position: m, shape (d,).
        partner_velocity: m/s, shape (d,).
        radii: sum of the two radii, m.
        declared: the worst motion of the partner.
        first_acceleration: when given, the ego first applies it for one control period and brakes after that.
        tolerances: what counts as contact and as rest.
    """
    return _worst_case.stays_clear(
        np.asarray(position, dtype=np.float64),
        np.asarray(velocity, dtype=np.float64),
        np.zeros(len(position)) if first_acceleration is None else np.asarray(first_acceleration, dtype=np.float64),
        0.0 if first_acceleration is None else control_period,
        braking_limit.acceleration,
        braking_limit.component,
        control_period,
        tolerances.rest_speed,
        np.asarray(partner_position, dtype=np.float64),
        np.asarray(partner_velocity, dtype=np.float64),
        max(0.0, radii - tolerances.distance_m),
        declared.max_acceleration,
        declared.max_speed,
    )


def judge_contacts(recording: Recording) -> tuple[Contact, ...]:
    """Judge the first contact with every partner that the ego touched, in order of time."""
    contacts: list[Contact] = []
    for uid in recording.partners:
        offsets, velocities, accelerations = recording.relative_motion(uid)
        period, into = _worst_case.first_contact(
            offsets, velocities, accelerations, recording.control_period, recording.contact_distance(uid)
        )
        if period >= 0:
            contacts.append(_judge(recording, uid, period, into))
    return tuple(sorted(contacts, key=lambda contact: contact.time))


def find_lapses(recording: Recording) -> tuple[Lapse, ...]:
    """Find every period in which the ego gave up being able to stop, whether a contact followed or not.

    An ego without lapses has no contact at fault with a partner that keeps its word, as long as it could stop at the
    start; so this is the sharper instrument when one looks for faults of a controller.
    """
    return tuple(
        Lapse(uid, period)
        for uid in recording.partners
        for period in range(recording.n_periods)
        if _could_stop(recording, uid, period) and not _acts_safely(recording, uid, period)
    )


def least_clearance(recording: Recording, uid: str, *, n_periods: int | None = None) -> float:
    """Give the least distance between the surfaces of the ego and a partner (m, negative in overlap).

    Continuous in time, over the first ``n_periods`` periods (all by default).
    """
    offsets, velocities, accelerations = (array[:n_periods] for array in recording.relative_motion(uid))
    nearest = _worst_case.least_distance(offsets, velocities, accelerations, recording.control_period)
    return nearest - recording.ego_radius - recording.partners[uid].radius


def _judge(recording: Recording, uid: str, period: int, into: float) -> Contact:
    velocity = recording.ego_velocities[period] + into * recording.ego_accelerations[period]
    speed = float(np.linalg.norm(velocity))
    last = next((k for k in range(period, -1, -1) if _acts_safely(recording, uid, k)), None)
    must_brake = range(0 if last is None else last + 1, period + 1)
    if speed <= recording.tolerances.rest_speed:
        verdict = Verdict.NOT_AT_FAULT_AT_REST
    elif all(_brakes_at_its_limit(recording, k) for k in must_brake):
        verdict = Verdict.NOT_AT_FAULT_BRAKING
    else:
        verdict = Verdict.AT_FAULT
    return Contact(
        partner=uid,
        time=float(recording.times[period]) + into,
        period=period,
        verdict=verdict,
        partner_broke_its_word=_broke_its_word(recording, uid, period),
        last_safe_action=None if last is None else float(recording.times[last]),
        ego_speed=speed,
    )


def _acts_safely(recording: Recording, uid: str, period: int) -> bool:
    if _brakes_at_its_limit(recording, period) and _could_stop(recording, uid, period):
        return True
    return _could_stop(recording, uid, period, after_acting=True)


def _could_stop(recording: Recording, uid: str, period: int, *, after_acting: bool = False) -> bool:
    partner = recording.partners[uid]
    return can_still_stop(
        recording.ego_positions[period],
        recording.ego_velocities[period],
        braking_limit=recording.braking_limit,
        control_period=recording.control_period,
        partner_position=partner.positions[period],
        partner_velocity=partner.velocities[period],
        radii=recording.ego_radius + partner.radius,
        declared=partner.declared,
        first_acceleration=recording.ego_accelerations[period] if after_acting else None,
        tolerances=recording.tolerances,
    )


def _brakes_at_its_limit(recording: Recording, period: int) -> bool:
    limit = recording.braking_limit
    expected = _worst_case.braking_acceleration(
        recording.ego_velocities[period], limit.acceleration, limit.component, recording.control_period
    )
    difference = float(np.linalg.norm(recording.ego_accelerations[period] - expected))
    return difference <= recording.tolerances.braking_fraction * min(limit.acceleration, limit.component)


def _broke_its_word(recording: Recording, uid: str, period: int) -> bool:
    partner = recording.partners[uid]
    slack = 1.0 + recording.tolerances.declared_fraction
    accelerations = np.linalg.norm(recording.partner_accelerations(uid)[: period + 1], axis=1)
    speeds = np.linalg.norm(partner.velocities[: period + 2], axis=1)  # the speed is convex within a period
    return bool(
        np.any(accelerations > slack * partner.declared.max_acceleration + _velocity_rounding(partner, recording))
        or np.any(speeds > slack * partner.declared.max_speed)
    )


def _velocity_rounding(partner: RecordedPartner, recording: Recording) -> float:
    """Give the acceleration that the rounding of the recorded velocities alone can show, m/s^2."""
    return float(np.max(np.abs(partner.velocities), initial=1.0)) * 1e-12 / recording.control_period


def _check_array(name: str, array: FloatArray, shape: tuple[int, ...]) -> None:
    if array.shape != shape:
        raise ValueError(f"{name} must have shape {shape}, got {array.shape}")
    if not np.all(np.isfinite(array)):
        raise ValueError(f"{name} must be finite")


def _check_radius(name: str, radius: float) -> None:
    if not (math.isfinite(radius) and radius >= 0.0):
        raise ValueError(f"{name} must be finite and >= 0, got {radius}")
