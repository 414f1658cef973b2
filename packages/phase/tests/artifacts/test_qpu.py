"""QPU data artifacts: what they claim, how they are sealed, and every way in which a record may lie."""

import hashlib
import json
from dataclasses import replace

import numpy as np
import pytest

from scpn_phase_orchestrator.artifacts import (
    QPU_SCHEMA,
    QPUDataArtifact,
    compile_domain_to_qpu_artifact,
    emit_qpu_data_artifact,
    validate_qpu_data_artifact,
)
from scpn_phase_orchestrator.binding.loader import load_binding_spec

KNM = np.array([[0.0, 0.4], [0.4, 0.0]])


def artifact(**changed):
    fields = {
        "domain": "pair",
        "source": "bench recording of 3 March",
        "source_mode": "measured",
        "K_nm": KNM,
        "omega": np.array([1.0, 2.0]),
        "theta0": np.array([0.0, 1.5]),
        "layer_assignments": np.array([0, 1]),
    }
    return QPUDataArtifact(**{**fields, **changed})


@pytest.fixture
def s1(s1_path):
    return load_binding_spec(s1_path)


def test_domain_compiles_to_its_coupling_frequencies_and_seeded_start(s1):
    compiled = compile_domain_to_qpu_artifact(s1)
    assert compiled.domain == "s1"
    assert compiled.oscillator_count == 5
    assert compiled.omega.tolist() == [1.0, 1.2, 0.8, 3.0, -2.0]
    assert compiled.layer_assignments.tolist() == [0, 0, 0, 1, 1]
    assert compiled.K_nm[0, 1] == pytest.approx(0.6 * np.exp(-0.25), rel=1e-15)
    assert compiled.theta0.tolist() == np.random.default_rng(42).uniform(0, 2 * np.pi, 5).tolist()


def test_a_domain_with_a_template_compiles_to_what_its_runs_use(s1):
    n = sum(len(layer.oscillator_ids) for layer in s1.layers)
    template = 0.25 * (np.ones((n, n)) - np.eye(n))
    coupling = replace(s1.coupling, templates={"night": template.tolist()}, template="night")
    compiled = compile_domain_to_qpu_artifact(replace(s1, coupling=coupling))
    assert compiled.K_nm.tolist() == template.tolist()


def test_numbers_of_a_spec_are_synthetic_and_not_for_publication(s1):
    compiled = compile_domain_to_qpu_artifact(s1)
    assert compiled.source_mode == "synthetic"
    with pytest.raises(ValueError, match="'s1' must not be published as data: its source is synthetic"):
        compiled.require_publication_safe()


def test_measured_arrays_are_for_publication(s1):
    measured = compile_domain_to_qpu_artifact(
        s1,
        source="field recording",
        source_mode="measured",
        knm=np.zeros((5, 5)),
        omegas=np.ones(5),
        theta0=np.zeros(5),
    )
    measured.require_publication_safe()
    assert measured.source == "field recording"


def test_a_source_cannot_claim_numbers_that_would_be_made_up(s1):
    with pytest.raises(ValueError, match="needs arrays of its own, but omegas, theta0 would be made up"):
        compile_domain_to_qpu_artifact(s1, source="field", source_mode="measured", knm=np.zeros((5, 5)))
    with pytest.raises(ValueError, match="needs a source"):
        compile_domain_to_qpu_artifact(
            s1, source_mode="inferred", knm=np.zeros((5, 5)), omegas=np.ones(5), theta0=np.zeros(5)
        )


def test_arrays_must_fit_the_spec(s1):
    with pytest.raises(ValueError, match=r"omegas must have shape \(5,\)"):
        compile_domain_to_qpu_artifact(s1, omegas=np.ones(4))
    s1.layers.clear()
    with pytest.raises(ValueError, match="no oscillators defined in layers"):
        compile_domain_to_qpu_artifact(s1)


def test_written_artifact_reads_back_to_the_last_bit(s1, tmp_path):
    compiled = compile_domain_to_qpu_artifact(s1, seed=7)
    path = emit_qpu_data_artifact(compiled, tmp_path / "s1.qpu.json")
    read = validate_qpu_data_artifact(path)
    assert read.artifact_sha256 == compiled.artifact_sha256
    for name in ("K_nm", "omega", "theta0", "layer_assignments"):
        assert getattr(read, name).tobytes() == getattr(compiled, name).tobytes()
    assert json.loads(path.read_text())["schema"] == QPU_SCHEMA


def test_an_existing_file_is_never_replaced(tmp_path):
    path = emit_qpu_data_artifact(artifact(), tmp_path / "pair.json")
    before = path.read_bytes()
    with pytest.raises(FileExistsError):
        emit_qpu_data_artifact(artifact(domain="other"), path)
    assert path.read_bytes() == before


def test_array_hash_covers_type_shape_and_little_endian_bytes():
    expected = hashlib.sha256(b'{"dtype":"<f8","shape":[2]}' + np.array([1.0, 2.0], "<f8").tobytes()).hexdigest()
    assert artifact().array_sha256["omega"] == expected
    assert artifact(omega=np.array([1, 2])).array_sha256["omega"] == expected


@pytest.mark.parametrize(
    "changed",
    [
        {"domain": "pairs"},
        {"source": "another"},
        {"source_mode": "inferred"},
        {"K_nm": 2 * KNM},
        {"omega": np.array([1.0, 2.0 + 1e-15 * 4])},
        {"theta0": np.array([-0.0, 1.5])},
        {"layer_assignments": np.array([1, 1])},
    ],
)
def test_seal_covers_every_field(changed):
    assert artifact(**changed).artifact_sha256 != artifact().artifact_sha256


def test_arrays_cannot_be_changed_behind_the_seal():
    mine = np.array([1.0, 2.0])
    sealed = artifact(omega=mine)
    before = sealed.artifact_sha256
    mine[0] = 9.0
    with pytest.raises(ValueError, match="read-only"):
        sealed.omega[0] = 9.0
    assert sealed.artifact_sha256 == before


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"domain": " "}, "domain must be a text"),
        ({"source": ""}, "source must be a text"),
        ({"source_mode": "guessed"}, "source_mode must be one of"),
        ({"K_nm": np.array([[0.0, 0.4], [0.3, 0.0]])}, "must be symmetric"),
        ({"K_nm": -KNM}, "must be non-negative"),
        ({"K_nm": KNM + np.eye(2)}, "zero diagonal"),
        ({"K_nm": np.zeros((0, 0))}, "K_nm must have shape \\(n, n\\) with n >= 1"),
        ({"omega": np.array([1.0])}, r"omega must have shape \(2,\)"),
        ({"theta0": np.array([np.nan, 0.0])}, "theta0 must contain only finite"),
        ({"layer_assignments": np.array([0])}, "layer_assignments must hold 2"),
        ({"layer_assignments": np.array([0, -1])}, r"layer_assignments\[1\] must be an integer >= 0"),
        ({"layer_assignments": np.array([0.0, 1.0])}, r"layer_assignments\[0\] must be an integer"),
    ],
)
def test_artifact_refuses_what_the_format_does_not_allow(changed, named):
    with pytest.raises(ValueError, match=named):
        artifact(**changed)


def test_valid_record_and_artifact_pass():
    assert validate_qpu_data_artifact(artifact()).artifact_sha256 == artifact().artifact_sha256
    assert validate_qpu_data_artifact(artifact().to_record()).domain == "pair"
    assert json.loads(json.dumps(artifact().to_record(), allow_nan=False)) == artifact().to_record()


@pytest.mark.parametrize(
    ("key", "value", "named"),
    [
        ("schema", "scpn-quantum-control.qpu-data-artifact.v2", "schema must be"),
        ("domain", 3, "domain must be text"),
        ("source_mode", "guessed", "source_mode must be one of"),
        ("oscillator_count", 3, "oscillator_count must be 2"),
        ("oscillator_count", True, "oscillator_count must be an integer"),
        ("omega", [1.0, 2.5], "array_sha256.omega must be"),
        ("omega", [1.0, True], "omega must hold real numbers"),
        ("omega", "12", "omega must"),
        ("K_nm", [[0.0, 0.5], [0.5, 0.0]], "array_sha256.K_nm must be"),
        ("layer_assignments", [0, 2], "array_sha256.layer_assignments must be"),
        ("array_sha256", {}, "array_sha256 must hold one hash for each"),
        ("domain", "other", "artifact_sha256 must be"),
        ("artifact_sha256", "0" * 64, "artifact_sha256 must be"),
    ],
)
def test_altered_record_is_refused_by_its_key(key, value, named):
    with pytest.raises(ValueError, match=named):
        validate_qpu_data_artifact({**artifact().to_record(), key: value})


def test_missing_and_unknown_keys_are_named():
    record = {**artifact().to_record(), "note": 1}
    del record["theta0"]
    with pytest.raises(ValueError, match=r"missing \['theta0'\], unknown \['note'\]"):
        validate_qpu_data_artifact(record)


@pytest.mark.parametrize("text", ["", "[]", '{"a": 1, "a": 2}', '{"a": NaN}', '{"schema"'])
def test_file_that_is_no_such_record_is_refused(tmp_path, text):
    path = tmp_path / "artifact.json"
    path.write_text(text)
    with pytest.raises(ValueError):  # noqa: PT011 - one message for each kind of text
        validate_qpu_data_artifact(path)
