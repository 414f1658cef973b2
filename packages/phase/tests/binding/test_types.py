"""The parts of a spec keep their own promises."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scpn_phase_orchestrator.binding import (
    ActuatorMapping,
    BindingSpec,
    BoundaryDef,
    DriverSpec,
    is_valid_channel_id,
    load_binding_spec,
    resolve_extractor_type,
)
from scpn_phase_orchestrator.exceptions import ValidationError


@pytest.mark.parametrize("bounds", [(1.0, 1.0), (2.0, 1.0), (float("nan"), 1.0)])
def test_a_boundary_without_room_is_refused(bounds: tuple[float, float]) -> None:
    with pytest.raises(ValidationError, match="must be below upper"):
        BoundaryDef("b", "R", *bounds, "hard")


def test_a_boundary_may_be_open_on_both_sides() -> None:
    assert BoundaryDef("b", "R", None, None, "soft").lower is None


@pytest.mark.parametrize(
    ("limits", "rate", "error"),
    [
        ((True, 1.0), None, TypeError),
        (("0", 1.0), None, TypeError),
        ((0.0, 1j), None, TypeError),
        ((0.0,), None, TypeError),
        (1.0, None, TypeError),
        ((0.0, float("inf")), None, ValueError),
        ((float("nan"), 1.0), None, ValueError),
        ((1.0, 0.0), None, ValueError),
        ((0.0, 1.0), -0.1, ValueError),
        ((0.0, 1.0), float("nan"), ValueError),
        ((0.0, 1.0), "fast", TypeError),
        ((0.0, 1.0), True, TypeError),
    ],
)
def test_an_actuator_refuses_limits_that_bound_nothing(limits: Any, rate: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="actuator 'a'"):
        ActuatorMapping("a", "K", "global", limits, rate)


def test_limits_become_two_floats() -> None:
    actuator = ActuatorMapping("a", "K", "global", [np.int64(0), 1], 1)  # type: ignore[arg-type]
    assert actuator.limits == (0.0, 1.0)
    assert all(type(limit) is float for limit in actuator.limits)
    assert type(actuator.rate_limit_per_step) is float


@pytest.mark.parametrize(
    ("knob", "low", "declared", "resolved"),
    [
        ("K", -0.2, None, "increment"),
        ("K", 0.0, None, "value"),
        ("alpha", -1.0, None, "value"),
        ("K", -0.2, "value", "value"),
        ("zeta", 0.0, "increment", "increment"),
    ],
)
def test_semantics_follow_the_declaration_or_the_sign_of_the_lower_limit(
    knob: str, low: float, declared: Any, resolved: str
) -> None:
    assert ActuatorMapping("a", knob, "global", (low, 1.0), None, declared).resolved_semantics == resolved


def test_channel_configs_answer_to_short_and_long_names() -> None:
    drivers = DriverSpec({"zeta": 1}, {}, {"sequence": [0.0]}, {"Weather": {"confidence": 0.5}})
    assert drivers.channel_config("P") == drivers.channel_config("physical") == {"zeta": 1}
    assert drivers.channel_config("S") == drivers.channel_config("symbolic") == {"sequence": [0.0]}
    assert drivers.channel_config("Weather") == {"confidence": 0.5}
    assert drivers.channel_config("extra") == drivers.channel_config("nothing") == {}
    assert list(drivers.all_channel_configs()) == ["P", "I", "S", "Weather"]


@pytest.mark.parametrize(
    ("text", "is_valid"),
    [
        ("P", True),
        ("a-b_9", True),
        ("a" * 64, True),
        ("a" * 65, False),
        ("9a", False),
        ("", False),
        ("a b", False),
        ("a\n", False),
        ("é", False),
        (None, False),
        (3, False),
    ],
)
def test_channel_ids_are_short_and_plain(text: object, is_valid: bool) -> None:
    assert is_valid_channel_id(text) is is_valid


def test_extractor_aliases_resolve() -> None:
    names = ["physical", "informational", "symbolic", "wavelet", "unknown"]
    assert [resolve_extractor_type(name) for name in names] == ["hilbert", "event", "ring", "wavelet", "unknown"]


@pytest.fixture
def spec(full_path: Path) -> BindingSpec:
    return load_binding_spec(full_path)


def test_omegas_default_to_one_rad_per_second(spec: BindingSpec) -> None:
    assert spec.get_omegas() == [6.1, 6.3, 6.2, 1.0, 1.0]


def test_a_wrong_number_of_omegas_is_refused(spec: BindingSpec) -> None:
    spec.layers[0] = replace(spec.layers[0], omegas=[1.0])
    with pytest.raises(ValueError, match="layer 'pumps' declares 1 omegas for 3 oscillators"):
        spec.get_omegas()


def test_used_channels_are_all_that_any_part_names(spec: BindingSpec) -> None:
    assert spec.used_channels() == {"P", "I", "S", "Weather", "Residual"}


def test_specs_from_different_files_compare_by_content(full_path: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.yaml"
    copy.write_text("\n\n" + full_path.read_text())
    assert load_binding_spec(copy) == load_binding_spec(full_path)


def test_the_rule_file_lies_beside_the_spec_under_the_name_that_the_spec_gives(s1_path: Path) -> None:
    spec = load_binding_spec(s1_path)
    assert spec.rule_file(Path("packs/mine/binding_spec.yaml")) == Path("packs/mine/policy.yaml")
    assert replace(spec, policy="night.yml").rule_file(Path("binding_spec.yaml")) == Path("night.yml")
