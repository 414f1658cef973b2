"""States that the supervisor looks at."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from scpn_phase_orchestrator.upde.metrics import LayerState, UPDEState


@pytest.fixture(scope="session")
def state_of() -> Callable[..., UPDEState]:
    """Makes a state from the order parameters of its layers; keywords set further fields."""

    def make(*coherences: float, **fields: Any) -> UPDEState:
        layers = tuple(LayerState(R=coherence, psi=0.0) for coherence in coherences)
        count = len(coherences)
        return UPDEState(
            layers=fields.pop("layers", layers),
            cross_layer_alignment=np.zeros((count, count)),
            stability_proxy=fields.pop("stability_proxy", float(np.mean(coherences)) if coherences else 0.0),
            regime_id="nominal",
            **fields,
        )

    return make
