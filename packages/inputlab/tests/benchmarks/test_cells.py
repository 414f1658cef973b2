"""The benchmark cells."""

import json
from pathlib import Path

import pytest

import agentinputlab.benchmarks
from agentinputlab.benchmarks import BenchmarkRegistry, CellOrigin, Runnable, load_benchmark_registry
from agentinputlab.contracts import RegistryError, ValidationError
from workers.official_arenas.providers import provider_entrypoint, resolve_provider

REGISTRY = load_benchmark_registry()
PATH = Path(agentinputlab.benchmarks.__file__).parent / "data" / "registry.json"


@pytest.fixture
def document() -> dict:
    return json.loads(PATH.read_text())


def test_there_are_31_public_cells_and_the_embedded_arena():
    assert len(REGISTRY.list_cells(origin="public")) == 31
    assert [cell.id for cell in REGISTRY.list_cells(origin="embedded")] == ["embedded.retail"]


def test_only_the_embedded_arena_runs_here_and_only_tau3_retail_with_a_checkout():
    assert [cell.id for cell in REGISTRY.list_cells(runnable=Runnable.HERE)] == ["embedded.retail"]
    assert [cell.id for cell in REGISTRY.list_cells(runnable=Runnable.WITH_CHECKOUT)] == ["tau3.retail"]


def test_a_cell_that_can_be_run_names_an_arena_that_exists_and_the_others_say_why():
    for cell in REGISTRY.list_cells():
        if cell.arena is None:
            assert cell.reason
            assert cell.requires
        else:
            assert resolve_provider(provider_entrypoint(cell.arena)).benchmark_id == cell.id


def test_cells_are_found_and_near_matches_named():
    assert REGISTRY.get_cell("hotpotqa").metrics == ("exact_match", "token_f1")
    assert len(REGISTRY.list_cells(task_kind="long_context")) == 7
    assert REGISTRY.list_cells(origin=CellOrigin.PUBLIC, task_kind="clarification")[0].id == "clariq"
    with pytest.raises(RegistryError, match=r"did you mean .*musique"):
        REGISTRY.get_cell("musiqe")
    with pytest.raises(ValidationError, match="TaskKind"):
        REGISTRY.list_cells(task_kind="magic")


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda d: d["cells"].pop(), "there are 30 public cells, expected 31"),
        (lambda d: d["cells"].append(d["cells"][3]), "different ids"),
        (lambda d: d["cells"][0].update(extra=1), "unknown field 'extra'"),
        (lambda d: d["cells"][0].update(metrics=[]), r"embedded\.retail: metrics"),
        (lambda d: d["cells"][1].update(reason=None), "a reason is given when"),
        (lambda d: d["cells"][1].update(runnable="here"), "an arena is named when"),
        (lambda d: d["cells"][1].update(requires=[]), "requires must say"),
        (lambda d: d.update(schema_version=2), "schema_version must be 1"),
        (lambda d: d["expected"].pop("embedded"), "lacks the field 'embedded'"),
    ],
)
def test_a_wrong_document_is_refused(document, change, named):
    change(document)
    with pytest.raises(RegistryError, match=named):
        BenchmarkRegistry(document)
