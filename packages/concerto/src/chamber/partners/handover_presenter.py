"""The presenter of the handover task: it hands a part over, more or less as it should be, and is done."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from chamber.partners._parameters import finite_floats, warn_about_unknown_keys
from chamber.partners.api import PartnerSpec
from chamber.partners.interface import PartnerBase
from chamber.partners.registry import register_partner
from ripieno.randomness import derive_substream

__all__ = ["HANDOVER_PRESENTER_CLASS", "HandoverPresenterPartner", "presenter_spec"]

HANDOVER_PRESENTER_CLASS = "handover_presenter"

_SUBSTREAM = "partner.handover_presenter"
_SIGMAS = ("lateral_sigma_m", "grasp_pose_sigma_deg", "timing_skew_sigma_s")
_MEANS = ("lateral_offset_x_m", "lateral_offset_y_m", "grasp_pose_bias_deg", "timing_skew_bias_s")
_UNITS = {"m": "m", "deg": "degrees", "s": "s"}
"""Last word of a name -> unit."""
_PLACEHOLDERS = {
    "matched": {"lateral_sigma_m": 2e-4, "grasp_pose_sigma_deg": 1.0, "timing_skew_sigma_s": 0.02},
    "mismatched": {
        "lateral_sigma_m": 2e-4,
        "grasp_pose_bias_deg": 25.0,
        "grasp_pose_sigma_deg": 8.0,
        "timing_skew_sigma_s": 0.05,
    },
}


@register_partner(HANDOVER_PRESENTER_CLASS)
class HandoverPresenterPartner(PartnerBase):
    """Leaves a part with a normally distributed offset, grasp-pose error and delay, whatever it observes.

    An action is float64 ``[offset_x, offset_y, error_deg, delay_s]``: means plus deviations drawn in this order, the
    delay cut off at 0. A deviation of 0 still takes its draw, so that parameters can be compared on the same noise.
    Every call of `act` draws anew: one call per episode.

    Args:
        spec: ``extra`` may hold ``variant`` (``"matched"``; it names the random stream, and partners of one variant
            share it) and any of ``lateral_offset_x_m``, ``lateral_offset_y_m``, ``lateral_sigma_m``,
            ``grasp_pose_bias_deg``, ``grasp_pose_sigma_deg``, ``timing_skew_bias_s``, ``timing_skew_sigma_s``; absent
            ones are 0. An unknown key has no effect and gives a ``UserWarning``.

    Raises:
        ValueError: a parameter is not a finite number, or a sigma is negative.
    """

    defaults: ClassVar[Mapping[str, str]] = {"variant": "matched", **dict.fromkeys((*_MEANS, *_SIGMAS), "0")}
    units: ClassVar[Mapping[str, str]] = {name: _UNITS[name.rpartition("_")[2]] for name in (*_MEANS, *_SIGMAS)}

    def __init__(self, spec: PartnerSpec) -> None:
        super().__init__(spec)
        warn_about_unknown_keys(spec, self.defaults.keys())
        given = {**self.defaults, **spec.extra}
        values = {name: float(finite_floats(name, given[name], count=1)[0]) for name in (*_MEANS, *_SIGMAS)}
        for name in _SIGMAS:
            if values[name] < 0.0:
                raise ValueError(f"{name} must be >= 0; got {spec.extra[name]!r}")
        self.variant = given["variant"]
        self._mean = np.array([values[name] for name in _MEANS])
        lateral, grasp, timing = (values[name] for name in _SIGMAS)
        self._sigma = np.array([lateral, lateral, grasp, timing])
        self._rng: np.random.Generator | None = None

    def reset(self, *, seed: int | None = None) -> None:
        """Start the random stream of an episode; without a seed that of episode 0."""
        name = f"{_SUBSTREAM}.{self.variant}"
        self._rng = derive_substream(name, root_seed=seed or 0).default_rng()

    def act(self, obs: Mapping[str, object], *, deterministic: bool = True) -> NDArray[np.float64]:
        """Give how the part is left, shape ``(4,)``.

        Raises:
            RuntimeError: there was no reset.
        """
        if self._rng is None:
            raise RuntimeError("call reset() before act(): the presenter draws from the stream of an episode")
        presentation = self._rng.normal(self._mean, self._sigma)
        presentation[3] = max(0.0, presentation[3])
        return presentation


def presenter_spec(variant: str, *, seed: int = 0, **parameters: float) -> PartnerSpec:
    """Give the specification of a presenter with placeholder numbers; real ones come from a pre-registration.

    Args:
        variant: ``"matched"`` or ``"mismatched"``.
        seed: of the specification.
        **parameters: numbers that replace placeholders, see `HandoverPresenterPartner`.

    Raises:
        ValueError: the variant or a parameter is unknown.
    """
    if variant not in _PLACEHOLDERS:
        raise ValueError(f"variant must be one of {', '.join(_PLACEHOLDERS)}; got {variant!r}")
    known = (*_MEANS, *_SIGMAS)
    unknown = sorted(parameters.keys() - set(known))
    if unknown:
        raise ValueError(f"a presenter has no parameter {unknown[0]!r}; it has {', '.join(known)}")
    numbers = {name: float(parameters.get(name, _PLACEHOLDERS[variant].get(name, 0.0))) for name in known}
    return PartnerSpec(
        class_name=HANDOVER_PRESENTER_CLASS,
        seed=seed,
        checkpoint_step=None,
        weights_uri=None,
        extra={"variant": variant, **{name: repr(number) for name, number in numbers.items()}},
    )
