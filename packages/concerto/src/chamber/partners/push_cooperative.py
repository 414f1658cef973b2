"""The helpful partner of the push task."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from chamber._planar import PlanarView
from chamber.partners._push import PushPartner
from chamber.partners.registry import register_partner

__all__ = ["CooperativePushPartner"]


@register_partner("push_cooperative")
class CooperativePushPartner(PushPartner):
    """Covers the landmark that the other robot does not take: the one farther from the other robot."""

    def goal(self, view: PlanarView) -> NDArray[np.float64]:
        """Give the offset of that landmark."""
        distances = np.linalg.norm(view.landmarks - view.other, axis=1)
        return view.landmarks[1 - int(np.argmin(distances))]
