"""A sentence becomes five files for review: valid, run once, hashed, honest about what is known."""

import contextlib
import hashlib
import io
import json
from dataclasses import replace

import numpy as np
import pytest

from scpn_phase_orchestrator.binding import load_binding_spec, parse_binding_spec, validate_binding_spec
from scpn_phase_orchestrator.coupling.knm import CouplingBuilder
from scpn_phase_orchestrator.domainpacks import pack_names, resolve_spec_path
from scpn_phase_orchestrator.exceptions import BindingError
from scpn_phase_orchestrator.runtime.simulation import simulate
from scpn_phase_orchestrator.scaffold.folder import create_folder
from scpn_phase_orchestrator.scaffold.intent import adapt_pack, generate_pack

INTENT = "retry storms in the queues of a web shop"
FILES = ["README.md", "audit.json", "binding_spec.yaml", "policy.yaml", "review_notebook.ipynb"]


@pytest.fixture(scope="module")
def draft():
    return generate_pack(INTENT, name="shop", oscillators_per_layer=5, dry_run_steps=20)


@pytest.fixture
def folder(draft, tmp_path):
    create_folder(tmp_path / "shop", draft.files)
    return tmp_path / "shop"


def test_five_files_with_the_structure_of_the_nearest_pack(draft, folder):
    assert sorted(draft.files) == FILES
    assert draft.template == "queuewaves"
    spec = load_binding_spec(folder / "binding_spec.yaml")
    template = load_binding_spec(resolve_spec_path("queuewaves"))
    assert validate_binding_spec(spec) == []
    assert (spec.name, spec.safety_tier) == ("shop", "research")
    assert [layer.name for layer in spec.layers] == [layer.name for layer in template.layers]
    assert [len(layer.oscillator_ids) for layer in spec.layers] == [5] * 3
    assert spec.objectives == template.objectives
    assert spec.actuators == template.actuators


def test_dry_run_is_a_run_of_the_written_files(draft, folder):
    path = folder / "binding_spec.yaml"
    result = simulate(load_binding_spec(path), steps=20, seed=42, binding_spec_path=path)
    assert draft.dry_run_r == pytest.approx(result.history.layer_r[-1].mean(), abs=1e-12)


def test_audit_holds_the_hashes_of_intent_template_and_files(draft, folder):
    audit = json.loads((folder / "audit.json").read_text())
    assert audit["intent_sha256"] == hashlib.sha256(INTENT.encode()).hexdigest()
    template = resolve_spec_path("queuewaves").read_bytes()
    assert audit["template"] == {"pack": "queuewaves", "spec_sha256": hashlib.sha256(template).hexdigest()}
    for name in FILES:
        if name != "audit.json":
            assert audit["files"][name] == hashlib.sha256((folder / name).read_bytes()).hexdigest()
    assert audit["schema_valid"] is True
    assert audit["execution_permitted"] is False
    assert audit["review_required"] is True
    assert audit["retrieval"]["confidence"] == draft.retrieval.confidence
    assert audit["dry_run"] == {"R": draft.dry_run_r, "seed": 42, "steps": 20}


def test_the_same_sentence_gives_the_same_bytes(draft):
    assert generate_pack(INTENT, name="shop", oscillators_per_layer=5, dry_run_steps=20).files == draft.files


def test_notebook_is_nbformat_4_and_its_cells_run(folder, monkeypatch):
    notebook = json.loads((folder / "review_notebook.ipynb").read_text())
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    identifiers = [cell["id"] for cell in notebook["cells"]]
    assert len(set(identifiers)) == len(identifiers)
    for cell in notebook["cells"]:
        keys = {"cell_type", "id", "metadata", "source"}
        assert set(cell) == (keys if cell["cell_type"] == "markdown" else keys | {"execution_count", "outputs"})
    monkeypatch.chdir(folder)
    names = {}
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        for cell in notebook["cells"]:
            if cell["cell_type"] == "code":
                exec("".join(cell["source"]), names)
    text = printed.getvalue()
    assert "template: queuewaves" in text
    assert "errors: []" in text
    assert "2 retries: 5 oscillators, bad" in text
    assert "Supervision " in text


def test_an_unknown_subject_is_said_in_words_in_the_readme():
    draft = generate_pack("knitting with wool")
    assert draft.template == "minimal_domain"
    assert draft.retrieval.confidence == 0.0
    assert "no pack knows a word of it" in draft.files["README.md"]
    assert "no pack knows a word of it" in json.loads(draft.files["audit.json"])["retrieval"]["confidence_in_words"]


@pytest.mark.parametrize("name", pack_names())
@pytest.mark.parametrize("count", [2, 8])
def test_every_pack_can_be_a_template(name, count):
    spec = adapt_pack(load_binding_spec(resolve_spec_path(name)), "draft", count)
    assert validate_binding_spec(spec) == []
    assert [len(layer.oscillator_ids) for layer in spec.layers] == [count] * len(spec.layers)


def test_a_pack_that_couples_by_a_matrix_lends_its_structure_too():
    template = load_binding_spec(resolve_spec_path("power_grid"))
    count = sum(len(layer.oscillator_ids) for layer in template.layers)
    ring = [[float(abs(i - j) in (1, count - 1)) for j in range(count)] for i in range(count)]
    template = replace(template, coupling=replace(template.coupling, templates={"ring": ring}, template="ring"))
    assert validate_binding_spec(template) == []
    spec = adapt_pack(template, "draft", 5)
    assert validate_binding_spec(spec) == []
    assert (spec.coupling.templates, spec.coupling.template) == ({}, None)


def test_coupling_keeps_its_mean_sum_and_frequencies_their_range():
    template = load_binding_spec(resolve_spec_path("power_grid"))
    spec = adapt_pack(template, "draft", 7)
    old, new = (
        CouplingBuilder().build(n, one.coupling.base_strength, one.coupling.decay_alpha).knm.sum() / n
        for one, n in ((template, 12), (spec, 35))
    )
    assert new == pytest.approx(old, rel=1e-3)
    for before, after in zip(template.layers, spec.layers, strict=True):
        assert min(after.omegas) == pytest.approx(min(before.omegas), rel=1e-3)
        assert max(after.omegas) == pytest.approx(max(before.omegas), rel=1e-3)
        assert np.all(np.diff(after.omegas) > 0)


@pytest.mark.parametrize("intent", ["", "   ", "the and of", "42", "x" * 2001])
def test_an_intent_without_a_subject_is_refused(intent):
    with pytest.raises(BindingError, match="must say a subject"):
        generate_pack(intent)


def test_bad_name_and_numbers_are_refused():
    with pytest.raises(BindingError, match="name must match"):
        generate_pack(INTENT, name="../up")
    with pytest.raises(ValueError, match="at least 2 oscillators"):
        generate_pack(INTENT, oscillators_per_layer=1)
    with pytest.raises(ValueError, match="1 step"):
        generate_pack(INTENT, dry_run_steps=0)


def test_hostile_intent_stays_data():
    """Quotes, Markdown and YAML in the sentence change neither the spec nor the notebook."""
    hostile = "queues \"}\n---\nname: evil\n# <script> ' % {x}"
    files = generate_pack(hostile, name="shop").files
    assert parse_binding_spec(files["binding_spec.yaml"]).name == "shop"
    assert json.loads(files["audit.json"])["intent"] == hostile
    code = [
        "".join(c["source"]) for c in json.loads(files["review_notebook.ipynb"])["cells"] if c["cell_type"] == "code"
    ]
    assert not any("evil" in cell for cell in code)
