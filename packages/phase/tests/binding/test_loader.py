"""Files into specs."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import yaml

from scpn_phase_orchestrator.binding import (
    BindingLoadError,
    binding_document,
    binding_yaml,
    load_binding_spec,
    parse_binding_spec,
    validate_binding_spec,
)
from scpn_phase_orchestrator.binding._document import MAX_BYTES
from scpn_phase_orchestrator.binding.types import AmplitudeSpec, ImprintSpec, IntegrationSpec, SupervisorSpec
from scpn_phase_orchestrator.exceptions import BindingError, SPOError


def _write(folder: Path, text: str | bytes, name: str = "spec.yaml") -> Path:
    file = folder / name
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return file


# Acceptance cases


def test_a_duplicate_key_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BindingLoadError, match="duplicate key"):
        load_binding_spec(_write(tmp_path, "a: 1\na: 2\n"))


def test_a_boolean_is_no_number(tmp_path: Path, s1_path: Path) -> None:
    text = s1_path.read_text().replace("base_strength: 0.6", "base_strength: true")
    with pytest.raises(BindingLoadError, match=r"expected number in coupling\.base_strength, got bool"):
        load_binding_spec(_write(tmp_path, text))


def test_another_extension_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BindingLoadError, match="unsupported extension"):
        load_binding_spec(_write(tmp_path, "a: 1", "spec.txt"))


def test_documented_messages_name_path_and_types(s1_path: Path) -> None:
    text = s1_path.read_text()
    with pytest.raises(BindingLoadError, match=r"expected number in coupling\.base_strength, got str"):
        parse_binding_spec(text.replace("base_strength: 0.6", "base_strength: x"))
    with pytest.raises(BindingLoadError, match=r"missing required key 'index' in layers\[\]"):
        parse_binding_spec(text.replace("index: 0, ", ""))


# What a spec holds


def test_the_acceptance_spec_loads_and_is_valid(s1_path: Path) -> None:
    spec = load_binding_spec(s1_path)
    assert validate_binding_spec(spec) == []
    assert spec.get_omegas() == [1.0, 1.2, 0.8, 3.0, -2.0]
    assert spec.integration == IntegrationSpec("euler", 1)
    assert spec.supervisor == SupervisorSpec("mean_coherence", 0.8, 0.5, None)
    assert spec.policy is None
    assert [actuator.resolved_semantics for actuator in spec.actuators] == ["increment", "value"]
    assert spec.origin is not None
    assert spec.origin.path == s1_path
    assert spec.origin.lines["coupling.base_strength"] == 13


def test_the_full_spec_loads_every_part(full_path: Path) -> None:
    spec = load_binding_spec(full_path)
    assert validate_binding_spec(spec) == []
    assert spec.oscillator_families["vibration"].extractor_type == "hilbert"
    assert spec.drivers.extra == {"Weather": {"confidence": 0.8}}
    assert spec.drivers.physical["note"] == "free"
    assert spec.objectives.good_weight == 2.0
    assert spec.amplitude == AmplitudeSpec(1.0, 0.2, 0.1, 0.3)
    assert spec.supervisor == SupervisorSpec("objectives", 0.9, 0.4, 2.0)
    assert spec.protocol_net is not None
    assert spec.protocol_net.transitions[0].inputs == [{"place": "starting"}]
    assert spec.protocol_net.transitions[0].outputs == [{"place": "steady", "weight": 1}]


@pytest.mark.parametrize("suffix", [".yaml", ".yml", ".YAML", ".json"])
def test_all_formats_give_the_same_spec(suffix: str, full_path: Path, tmp_path: Path) -> None:
    spec = load_binding_spec(full_path)
    assert parse_binding_spec(binding_yaml(spec)) == spec
    document = binding_document(spec)
    text = json.dumps(document) if suffix == ".json" else yaml.safe_dump(document, sort_keys=False)
    assert load_binding_spec(_write(tmp_path, text, f"spec{suffix}")) == spec


def test_imprint_is_another_name_of_imprint_model(full_text: str) -> None:
    spec = parse_binding_spec(full_text.replace("imprint_model:", "imprint:"))
    assert spec.imprint_model == ImprintSpec(0.02, 2.0, ["K", "mu"])


def test_optional_sections_may_be_null(full_text: str) -> None:
    spec = parse_binding_spec(
        full_text.replace("geometry_prior: {constraint_type: symmetric_non_negative, params: {}}", "geometry_prior:")
    )
    assert spec.geometry_prior is None


def test_whole_floats_are_integers_as_in_json_schema(full_text: str) -> None:
    spec = parse_binding_spec(full_text.replace("index: 4", "index: 4.0"))
    assert spec.layers[1].index == 4
    assert isinstance(spec.layers[1].index, int)


def test_exponents_without_a_point_are_numbers(full_text: str) -> None:
    assert (
        parse_binding_spec(full_text.replace("sample_period_s: 0.01", "sample_period_s: 1e-2")).sample_period_s == 0.01
    )


def test_json_errors_have_lines_too(full_path: Path, tmp_path: Path) -> None:
    text = json.dumps(binding_document(load_binding_spec(full_path)), indent=1).replace('"index": 4', '"index": "4"')
    line = text.count("\n", 0, text.index('"index": "4"')) + 1
    with pytest.raises(BindingLoadError) as caught:
        load_binding_spec(_write(tmp_path, text, "spec.json"))
    assert [(one.path, one.line) for one in caught.value.violations] == [("layers[1].index", line)]


def test_bounds_that_belong_to_a_range_are_accepted_and_the_others_are_not(full_text: str) -> None:
    text = full_text.replace("good_target: 0.9, bad_ceiling: 0.4", "good_target: 1, bad_ceiling: 0")
    spec = parse_binding_spec(text.replace("base_strength: 0.4", "base_strength: 0"))
    assert (spec.supervisor.good_target, spec.supervisor.bad_ceiling, spec.coupling.base_strength) == (1.0, 0.0, 0.0)


def test_a_line_feed_after_an_identifier_is_seen(full_text: str) -> None:
    for old, new in (("channel: P,", 'channel: "P\\n",'), ("scope: global", 'scope: "global\\n"')):
        with pytest.raises(BindingLoadError, match=r"got '\w+\\n'"):
            parse_binding_spec(full_text.replace(old, new))


def test_text_has_the_limit_of_files() -> None:
    with pytest.raises(BindingLoadError, match="the text has 10485761 characters"):
        parse_binding_spec("#" * (MAX_BYTES + 1))


# Files


def test_a_folder_stands_for_its_spec(s1_path: Path, tmp_path: Path) -> None:
    _write(tmp_path, s1_path.read_bytes(), "binding_spec.yaml")
    assert load_binding_spec(tmp_path) == load_binding_spec(str(s1_path))


def test_a_byte_order_mark_is_skipped(s1_path: Path, tmp_path: Path) -> None:
    assert load_binding_spec(_write(tmp_path, b"\xef\xbb\xbf" + s1_path.read_bytes())).name == "s1"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("missing.yaml", "cannot read spec file"),
        ("empty_folder", "binding_spec.yaml: cannot read spec file"),
        ("dangling.yaml", "cannot read spec file"),
        ("circle.yaml", "cannot read spec file"),
        ("pipe.yaml", "not a regular file"),
        ("large.yaml", "at most 10485760 bytes are read"),
        ("latin.yaml", r"not UTF-8: byte 13 is wrong \(line 2\)"),
        ("utf16.yaml", "not UTF-8"),
        ("empty.yaml", "the file is empty"),
        ("list.yaml", r"expected mapping in spec, got list \(line 1\)"),
        ("text.json", "expected mapping in spec, got str"),
        ("noextension", "unsupported extension"),
        ("nul\0.yaml", "cannot read spec file"),
        ("n" * 300 + ".yaml", "cannot read spec file"),
    ],
    ids=lambda text: text[:20].replace("\0", "NUL"),
)
def test_what_is_no_spec_file_is_refused_in_one_line(name: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "empty_folder").mkdir()
    (tmp_path / "dangling.yaml").symlink_to(tmp_path / "nowhere.yaml")
    (tmp_path / "circle.yaml").symlink_to(tmp_path / "circle.yaml")
    os.mkfifo(tmp_path / "pipe.yaml")
    with (tmp_path / "large.yaml").open("wb") as stream:
        stream.truncate(MAX_BYTES + 1)
    _write(tmp_path, b"a: 1\nb: strea\xdfe", "latin.yaml")
    _write(tmp_path, "name: x".encode("utf-16"), "utf16.yaml")
    _write(tmp_path, "", "empty.yaml")
    _write(tmp_path, "- a\n- b\n", "list.yaml")
    _write(tmp_path, '"text"', "text.json")
    _write(tmp_path, "x", "noextension")
    with pytest.raises(BindingLoadError, match=message) as caught:
        load_binding_spec(tmp_path / name)
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value, BindingError)
    assert isinstance(caught.value, SPOError)
    assert isinstance(caught.value, ValueError)
