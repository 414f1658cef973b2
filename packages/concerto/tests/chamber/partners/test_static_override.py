"""The partner that is there and does nothing."""

from __future__ import annotations

import numpy as np
import pytest

from chamber.partners import PartnerSpec, load_partner
from chamber.partners.exploratory.static_override import ExploratoryStaticPartnerOverride
from chamber.partners.interface import assert_frozen


def partner(action_dim: str = "5") -> ExploratoryStaticPartnerOverride:
    extra = {"uid": "p", "target_xy": "1.0,1.0", "action_dim": action_dim}
    return ExploratoryStaticPartnerOverride(load_partner(PartnerSpec("scripted_heuristic", 0, None, None, extra)))


def obs(n_envs: int | None = None) -> dict[str, object]:
    shape = (10,) if n_envs is None else (n_envs, 10)
    return {"agent": {"p": {"state": np.full(shape, 0.5, np.float32)}}}


@pytest.mark.parametrize(("n_envs", "shape"), [(None, (5,)), (3, (3, 5))])
def test_actions_are_zeros_of_the_shape_and_type_of_the_partner_inside(n_envs: int | None, shape: tuple[int, ...]):
    action = partner().act(obs(n_envs))
    assert (action.shape, action.dtype) == (shape, np.float32)
    assert not action.any()


def test_it_has_the_identity_of_the_partner_inside_and_is_as_frozen():
    override = partner()
    assert override.spec == load_partner(override.spec).spec
    assert_frozen(override)
    with pytest.raises(AttributeError, match="named_parameters"):
        override.named_parameters  # noqa: B018 - the lookup itself is refused


def test_the_partner_inside_is_reset():
    inner = load_partner(PartnerSpec("scripted_heuristic", 0, None, None, {"uid": "p"}))
    override = ExploratoryStaticPartnerOverride(inner)
    override.act({})
    assert inner.n_missing_positions == 1  # type: ignore[attr-defined]
    override.reset(seed=4)
    assert inner.n_missing_positions == 0  # type: ignore[attr-defined]
