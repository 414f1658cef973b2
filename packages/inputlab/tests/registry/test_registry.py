"""The registry: cards, roster, looking up, resolving, documents."""

import copy
import functools
import inspect
import json
import threading

import pytest

from agentinputlab.contracts import (
    AlgorithmUnavailableError,
    ProfileKind,
    RegistryError,
    ReleaseTier,
    SemanticFamily,
    SupportStatus,
    ValidationError,
)
from agentinputlab.registry import (
    AlgorithmRegistry,
    MethodCard,
    ReleaseCard,
    find_repository_registry,
    load_packaged_registry,
    load_registry_file,
    load_registry_text,
    registry_documents_equal,
    validate_snapshot_sync,
)

REGISTRY = AlgorithmRegistry.default()
MUST_SHIP = {
    "rewrite.query2doc.official_cached",
    "rewrite.query2doc.querygym_live",
    "plan.plan_and_solve.ps_prompt",
    "plan.decomp.full",
    "plan.self_ask.full_loop",
    "plan.plan_and_budget.native_cached_soft_budget",
    "acquire.hyde.paper_reimplementation",
    "acquire.ircot.controlled",
    "clarify.udcs.repo_native_prompt_route",
    "curate.longllmlingua.official",
    "curate.llmlingua2.xlm_roberta_official",
    "recipe.ace.offline",
}
RUNNABLE = [release.id for release in REGISTRY.list_releases() if release.runnable]


@pytest.fixture
def document() -> dict:
    return load_packaged_registry()


def method(document: dict, method_id: str) -> dict:
    return next(card for card in document["algorithms"] if card["method_id"] == method_id)


# --- the packaged roster ------------------------------------------------------------------------------------


def test_the_roster_is_27_methods_20_core_7_optional_12_must_ship_and_healthy():
    REGISTRY.validate_roster()
    report = REGISTRY.doctor()
    assert (report.ok, report.errors) == (True, ())
    assert (report.method_count, report.core_count, report.optional_count) == (27, 20, 7)
    assert report.must_ship_count == 12
    assert report.release_count == len(REGISTRY.list_releases())
    assert report.entrypoint_count + report.locked_count == report.release_count


def test_core_methods_per_family_are_4_5_5_2_4():
    families = ("reformulate", "decompose", "acquire", "clarify", "curate")
    assert [len(REGISTRY.list_methods(family, "core")) for family in families] == [4, 5, 5, 2, 4]


def test_the_promised_releases_are_exactly_the_documented_twelve():
    assert {release.id for release in REGISTRY.list_releases(delivery_tier="must_ship")} == MUST_SHIP


def test_what_has_no_code_says_why_and_what_cannot_be_verified_is_explained():
    for card in REGISTRY.list_methods():
        if None in (card.paper_title, card.publication.paper_url, card.upstream.commit, card.upstream.repo_url):
            assert card.notes
        for release in card.releases:
            assert release.runnable != bool(release.blocker)


@pytest.mark.parametrize("release_id", RUNNABLE)
def test_every_runnable_release_resolves_to_a_class_that_says_the_same(release_id):
    card = REGISTRY.get_release(release_id)
    constructor = REGISTRY.resolve_entrypoint(release_id)
    assert constructor.release_id == release_id
    assert constructor.method_id == card.method_id
    assert SemanticFamily(constructor.family) is REGISTRY.get_method(card.method_id).semantic_family
    assert any(hasattr(constructor, door) for door in ("propose", "run", "fit"))
    parameters = list(inspect.signature(constructor).parameters.values())
    assert all(parameter.kind is inspect.Parameter.KEYWORD_ONLY for parameter in parameters)


@pytest.mark.parametrize("release_id", RUNNABLE)
def test_profile_modes_of_a_card_contain_what_the_code_reports(release_id):
    constructor = REGISTRY.resolve_entrypoint(release_id)
    kind = getattr(constructor, "profile_kind", None)
    if isinstance(kind, ProfileKind):
        assert kind in REGISTRY.get_release(release_id).profile_modes


def test_the_plan_prompt_has_no_parameters():
    assert not inspect.signature(REGISTRY.resolve_entrypoint("plan.plan_and_solve.ps_prompt")).parameters


# --- looking up ---------------------------------------------------------------------------------------------


def test_an_unknown_id_far_from_all_points_at_the_list():
    with pytest.raises(
        RegistryError, match=r"^unknown algorithm or release ID: nope; use agentinputlab list --releases$"
    ):
        REGISTRY.get("nope")


def test_an_unknown_id_suggests_up_to_three_near_matches():
    with pytest.raises(RegistryError, match=r"did you mean plan\.self_ask") as caught:
        REGISTRY.get_release("plan.self_aks")
    assert 1 <= len(str(caught.value).split("did you mean ")[1].split(", ")) <= 3


def test_a_method_given_as_release_is_answered_with_its_releases():
    with pytest.raises(RegistryError, match=r"plan\.decomp is a method; its releases are: plan\.decomp\.full, "):
        REGISTRY.get_release("plan.decomp")


def test_get_gives_the_card_of_a_method_or_of_a_release():
    assert isinstance(REGISTRY.get("plan.decomp"), MethodCard)
    card = REGISTRY.get("plan.decomp.full")
    assert isinstance(card, ReleaseCard)
    assert card.method_id == "plan.decomp"


def test_filters_select_and_unknown_words_are_refused():
    assert all(m.release_tier is ReleaseTier.OPTIONAL for m in REGISTRY.list_methods(tier=ReleaseTier.OPTIONAL))
    assert {r.status for r in REGISTRY.list_releases(status="external_only")} == {SupportStatus.EXTERNAL_ONLY}
    recipes = REGISTRY.list_releases(SemanticFamily.CURATE, "optional", delivery_tier="must_ship")
    assert [release.id for release in recipes] == ["recipe.ace.offline"]
    with pytest.raises(ValidationError, match="SemanticFamily must be one of"):
        REGISTRY.list_methods("magic")


def test_a_release_without_code_is_unavailable_with_its_reason():
    with pytest.raises(AlgorithmUnavailableError, match="weights"):
        REGISTRY.resolve_entrypoint("curate.longllmlingua.official")


def test_code_that_cannot_be_imported_is_unavailable_and_the_doctor_says_so(document):
    method(document, "plan.decomp")["releases"][0]["entrypoint"] = "agentinputlab.no_such_module:Thing"
    method(document, "plan.decomp")["releases"][1]["entrypoint"] = "agentinputlab.contracts:NoSuchThing"
    registry = AlgorithmRegistry(document)
    for release in ("plan.decomp.full", "plan.decomp.common_support"):
        with pytest.raises(AlgorithmUnavailableError, match="cannot be imported"):
            registry.resolve_entrypoint(release)
    report = registry.doctor()
    assert not report.ok
    assert report.errors == ("plan.decomp.full: there is no module agentinputlab.no_such_module",)


def test_a_release_that_is_held_back_is_gated(document):
    release = method(document, "plan.decomp")["releases"][0]
    release.update(status="blocked", blocking_reasons=["Held back."])
    card = AlgorithmRegistry(document).get_release("plan.decomp.full")
    assert (card.availability, card.blocker, card.runnable) == ("gated", "Held back.", False)
    with pytest.raises(AlgorithmUnavailableError, match=r"Held back\."):
        AlgorithmRegistry(document).resolve_entrypoint("plan.decomp.full")


def test_many_threads_resolve_the_same_code():
    found: list[object] = []
    threads = [
        threading.Thread(target=lambda: found.append(REGISTRY.resolve_entrypoint("plan.decomp.full"))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(map(id, found))) == 1


# --- bad documents ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda d: d.update(schema_version=True), "schema_version"),
        (lambda d: d.update(registry_id="other"), "registry_id"),
        (lambda d: d.update(extra=1), "unknown field 'extra'"),
        (lambda d: d.pop("expected"), "lacks the field 'expected'"),
        (lambda d: d["expected"].pop("must_ship"), "lacks the field 'must_ship'"),
        (lambda d: d["algorithms"][0].update(method_id="Bad Id"), "method_id must match"),
        (lambda d: d["algorithms"][0].update(semantic_family="magic"), "'rewrite.query2doc'.*SemanticFamily"),
        (lambda d: d["algorithms"][0].pop("upstream"), "lacks the field 'upstream'"),
        (lambda d: d["algorithms"][0].pop("notes"), r"notes must say why upstream\.repo_url"),
        (lambda d: d["algorithms"][0]["publication"].update(year=1999), "year must be an integer >= 2000"),
        (lambda d: d["algorithms"][0]["publication"].update(paper_url="ftp://x"), "https address"),
        (lambda d: d["algorithms"][0]["upstream"].update(commit="abc"), "40 lowercase hex"),
        (lambda d: d["algorithms"][0]["upstream"].update(commit="a" * 40), r"needs an upstream\.repo_url"),
        (lambda d: d["algorithms"][0]["upstream"].update(vendoring_allowed=True), "NOASSERTION"),
        (lambda d: d["algorithms"][0].update(releases=[]), "at least one release"),
        (lambda d: d["algorithms"][0]["releases"][0].update(entrypoint=None), "needs an entrypoint"),
        (lambda d: d["algorithms"][0]["releases"][0].update(entrypoint="os.system"), "'module:attribute'"),
        (lambda d: d["algorithms"][0]["releases"][0].update(status="blocked"), "must say why"),
        (lambda d: d["algorithms"][0]["releases"][0].update(status="planned", entrypoint=None), "must say why"),
        (lambda d: d["algorithms"][0]["releases"][0].update(profile_modes=[]), "at least one mode"),
        (lambda d: d["algorithms"][0]["releases"][0].update(extra=1), "unknown field 'extra'"),
        (lambda d: d.update(algorithms=functools.reduce(lambda inner, _: [inner], range(200), [])), "levels deep"),
    ],
)
def test_a_wrong_document_is_refused_with_card_and_field(document, change, named):
    change(document)
    with pytest.raises(RegistryError, match=named):
        AlgorithmRegistry(document)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda d: d["algorithms"].pop(), "26 methods, expected 27"),
        (lambda d: d["algorithms"].append(d["algorithms"][0]), "method id rewrite.query2doc is used 2 times"),
        (lambda d: d["algorithms"][0].update(release_tier="optional"), "3 core methods of reformulate, expected 4"),
        (
            lambda d: d["algorithms"][0]["releases"][0].update(delivery_tier="stretch"),
            r"rewrite\.query2doc\.official_cached must ship and does not",
        ),
        (
            lambda d: method(d, "rewrite.rrr")["releases"][0].update(delivery_tier="must_ship"),
            "is promised but not expected",
        ),
        (lambda d: d["algorithms"][0]["releases"][0].update(id="plan.decomp"), "names a method and a release"),
    ],
)
def test_a_roster_that_is_not_the_expected_one_is_refused_and_fails_the_doctor(document, change, named):
    change(document)
    registry = AlgorithmRegistry(document)
    with pytest.raises(RegistryError, match=named):
        registry.validate_roster()
    assert not registry.doctor().ok


def test_a_card_read_and_written_is_the_card(document):
    assert [card.as_dict() for card in REGISTRY.list_methods()] == document["algorithms"]


def test_changing_the_document_afterwards_changes_nothing(document):
    registry = AlgorithmRegistry(document)
    before = registry.document_hash
    document["algorithms"].clear()
    assert registry.document_hash == before
    assert len(registry.list_methods()) == 27


# --- files --------------------------------------------------------------------------------------------------


def test_a_file_is_read_strictly(tmp_path, document):
    path = tmp_path / "registry.json"
    path.write_text(json.dumps(document))
    assert registry_documents_equal(load_registry_file(path), document)
    for data, named in (
        (b'{"a":1,"a":2}', "twice"),
        (b"[]", "must be an object"),
        (b'{"a":NaN}', "NaN"),
        (b"\xff", "UTF-8"),
        (b"[" * 5000, "nested"),
    ):
        path.write_bytes(data)
        with pytest.raises(RegistryError, match=named):
            load_registry_file(path)
    with pytest.raises(RegistryError, match="cannot read the registry"):
        load_registry_file(tmp_path / "absent.json")
    (tmp_path / "link.json").symlink_to(path)
    with pytest.raises(RegistryError, match="no regular file"):
        load_registry_file(tmp_path / "link.json")


def test_a_repository_registry_is_found_from_below_and_compared(tmp_path, document):
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    assert find_repository_registry(below) is None
    path = tmp_path / "manifests" / "algorithms" / "registry.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(document, indent=4))
    assert find_repository_registry(below) == path
    validate_snapshot_sync(load_registry_file(path))
    changed = copy.deepcopy(document)
    changed["algorithms"][3]["display_name"] = "Other"
    with pytest.raises(RegistryError, match=r"differs from the packaged one in method rewrite\.infocqr"):
        validate_snapshot_sync(changed)
    with pytest.raises(RegistryError, match="'audit_date'"):
        validate_snapshot_sync({**document, "audit_date": "2000-01-01"})


def test_text_may_be_bytes_or_str():
    assert load_registry_text('{"a": 1}') == load_registry_text(b'{"a": 1}') == {"a": 1}
