"""What a partner declares is what it reads: every declared parameter is taken, and nothing else is."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from chamber.partners import PartnerSpec, list_registered, load_partner
from chamber.partners._cocarry_servo import ServoGains
from chamber.partners.registry import describe_partner, partner_parameters

BUILT_IN = [
    name for name in list_registered() if name.startswith(("cocarry", "coinsert", "handover", "push", "scripted"))
]


@pytest.mark.parametrize("name", BUILT_IN)
def test_a_partner_given_its_own_defaults_is_the_partner_given_nothing(name: str) -> None:
    given = {parameter.name: parameter.default for parameter in partner_parameters(name)}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        explicit = load_partner(PartnerSpec(name, 0, None, None, given))
    plain = load_partner(PartnerSpec(name, 0, None, None, {}))
    for attribute, value in vars(plain).items():
        if isinstance(value, bool | int | float | str | ServoGains):
            assert getattr(explicit, attribute) == value, attribute
        elif isinstance(value, np.ndarray):
            np.testing.assert_array_equal(getattr(explicit, attribute), value, attribute)


class _Reads(dict[str, str]):
    """Remembers which parameters were looked for by name."""

    def __init__(self, given: Mapping[str, str]) -> None:
        super().__init__(given)
        self.names: set[str] = set()

    def __getitem__(self, name: str) -> str:
        self.names.add(name)
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        self.names.add(name)
        return super().get(name, default)


@pytest.mark.parametrize("name", BUILT_IN)
def test_nothing_is_read_that_is_not_declared(name: str) -> None:
    spec, reads = PartnerSpec(name, 0, None, None, {}), _Reads({})
    object.__setattr__(spec, "extra", reads)
    load_partner(spec)
    assert reads.names <= {parameter.name for parameter in partner_parameters(name)}


@pytest.mark.parametrize("name", BUILT_IN)
def test_everything_that_is_declared_is_read(name: str) -> None:
    for parameter in partner_parameters(name):
        if parameter.name not in {"uid", "variant"}:
            error = FileNotFoundError if parameter.name == "urdf_path" else ValueError
            with pytest.raises(error, match=parameter.name):
                load_partner(PartnerSpec(name, 0, None, None, {parameter.name: "no number"}))


def test_units_are_those_of_declared_parameters() -> None:
    assert {parameter.name: parameter.unit for parameter in partner_parameters("push_stubborn")} == {
        "uid": "",
        "speed_limit": "m/s per component",
        "dt": "s per step",
        "landmark": "",
    }
    assert describe_partner("push_stubborn") == "Goes for one landmark, whoever stands in the way."


def test_a_partner_that_is_not_there_is_named() -> None:
    with pytest.raises(KeyError, match="Unknown partner class 'nobody'"):
        partner_parameters("nobody")
