"""The partner of the push task that never yields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from chamber._planar import PlanarView
from chamber.partners._push import PushPartner
from chamber.partners.api import PartnerSpec
from chamber.partners.registry import register_partner

__all__ = ["StubbornPushPartner"]


@register_partner("push_stubborn")
class StubbornPushPartner(PushPartner):
    """Goes for one landmark, whoever stands in the way.

    Args:
        spec: as for every push partner; ``extra["landmark"]`` is the landmark's number, ``"0"`` (default) or ``"1"``.

    Raises:
        ValueError: the landmark is another one.
    """

    defaults: ClassVar[Mapping[str, str]] = {**PushPartner.defaults, "landmark": "0"}

    def __init__(self, spec: PartnerSpec) -> None:
        super().__init__(spec)
        landmark = spec.extra.get("landmark", self.defaults["landmark"])
        if landmark not in {"0", "1"}:
            raise ValueError(f"landmark must be 0 or 1; got {landmark!r}")
        self._landmark = int(landmark)

    def goal(self, view: PlanarView) -> NDArray[np.float64]:
        """Give the offset of its landmark."""
        return view.landmarks[self._landmark]
