"""Selectors: measures of what is visible, rules over them, cards and artifacts."""

import hashlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import agentinputlab.selectors
from agentinputlab import ContextBlock, FrozenAgentState, InterventionContext, Message
from agentinputlab.contracts import ArtifactError, Intervention, RegistryError, ValidationError
from agentinputlab.registry import AlgorithmRegistry
from agentinputlab.selectors import (
    FEATURES,
    NoOpIntervention,
    Rule,
    RuleSelector,
    get_selector,
    inspect_selector,
    list_selectors,
    load_selector,
    visible_features,
)

SELECTOR = load_selector()


def test_doing_nothing_is_an_intervention_with_the_documented_ids():
    no_op = NoOpIntervention()
    state = FrozenAgentState(query="capital france", task_id="tiny-q1")
    patch = no_op.propose(state, InterventionContext())
    assert isinstance(no_op, Intervention)
    assert (no_op.release_id, no_op.method_id) == ("baseline.no_op", "no_op")
    assert patch.patch_hash == "faf4a2c002ad65b64cd70a68e074b37b95b3ca2b6fd782a53d934e97f7be81b4"
    assert patch.apply(state) == state


def test_features_count_what_a_reader_would_count():
    state = FrozenAgentState(
        query="Cancel it, and refund the 2 lamps (12.50 each). If not, then wait! Can you?",
        instruction="Be brief.",
        context=(ContextBlock("one two"), ContextBlock("three")),
        messages=(Message("user", "a b"), Message("assistant", "c")),
        tool_names=("t",),
    )
    features = visible_features(state)
    expected = {
        "query_words": 16,
        "query_sentences": 3,
        "query_questions": 1,
        "query_numbers": 2,
        "query_joining_words": 2,
        "query_conditions": 1,
        "query_contrasts": 1,
        "query_vague_words": 1,
        "instruction_words": 2,
        "context_blocks": 2,
        "context_words": 3,
        "messages": 2,
        "user_messages": 1,
        "message_words": 3,
        "tools": 1,
        "model_calls_left": 8,
    }
    assert {name: features[name] for name in expected} == expected
    assert list(features) == list(FEATURES)


@given(st.text(max_size=200))
def test_features_are_counts_and_the_same_every_time(query):
    state = FrozenAgentState(query=query, instruction="x")
    features = visible_features(state)
    assert all(type(value) is int and value >= 0 for value in features.values())
    assert features == visible_features(state)


def test_metadata_is_not_looked_at():
    plain = FrozenAgentState(query="q")
    hidden = FrozenAgentState(query="q", metadata={"gold": "secret"}, task_id="7")
    assert visible_features(plain) == visible_features(hidden)


@pytest.mark.parametrize(
    ("query", "rule", "release"),
    [
        ("Where is my order?", "default", "baseline.no_op"),
        (
            "Please cancel my order and change the address of the other and also send me the total",
            "several things at once",
            "plan.plan_and_solve.ps_prompt",
        ),
        ("Exchange it unless it is too late", "conditions", "plan.plan_and_solve.ps_prompt"),
    ],
)
def test_the_shipped_rules_choose_by_the_visible_text(query, rule, release):
    selection = SELECTOR.select(FrozenAgentState(query=query))
    assert (selection.rule, selection.release_id) == (rule, release)
    assert selection.selector_hash == SELECTOR.selector_hash


def test_the_first_rule_that_holds_decides():
    rules = [Rule(name, {"query_words": {"at_least": least}}, f"r{least}") for name, least in (("b", 2), ("a", 1))]
    selector = RuleSelector("s", "1", rules)
    assert selector.select(FrozenAgentState(query="x y")).release_id == "r2"
    assert selector.select(FrozenAgentState(query="x")).release_id == "r1"
    assert RuleSelector.from_dict(selector.as_dict()) == selector


def test_all_comparisons_of_a_rule_must_hold():
    rule = Rule("r", {"query_words": {"at_least": 2, "at_most": 3}, "tools": {"equal": 0}}, "x")
    hold = [rule.holds({"query_words": words, "tools": tools}) for words, tools in ((1, 0), (2, 0), (3, 0), (4, 0))]
    assert hold == [False, True, True, False]
    assert not rule.holds({"query_words": 2, "tools": 1})


@pytest.mark.parametrize(
    ("when", "named"),
    [
        ({}, "at least one measure"),
        ({"query_word": {"at_least": 1}}, "unknown measure 'query_word'"),
        ({"query_words": {"more_than": 1}}, "unknown field 'more_than'"),
        ({"query_words": {}}, "at least one of"),
        ({"query_words": {"at_least": True}}, "finite number"),
        ({"query_words": 1}, "must be an object"),
    ],
)
def test_wrong_rules_are_refused(when, named):
    with pytest.raises(ValidationError, match=named):
        Rule("r", when, "x")


def test_rules_of_a_selector_have_different_names_and_known_measures():
    rule = Rule("r", {"tools": {"equal": 0}}, "x")
    with pytest.raises(ValidationError, match="different names"):
        RuleSelector("s", "1", (rule, rule))
    with pytest.raises(ValidationError, match="features_id"):
        RuleSelector("s", "1", (rule,), features_id="other")


def test_the_shipped_selector_chooses_only_what_can_be_run():
    registry = AlgorithmRegistry.default()
    assert all(registry.get_release(rule.release_id).runnable for rule in SELECTOR.rules)
    assert SELECTOR.default_release_id == NoOpIntervention.release_id


def test_cards_say_which_selectors_are_here_and_why_others_are_not():
    cards = list_selectors()
    assert [card.selector_id for card in cards if card.available] == ["rules.visible_state"]
    assert all(card.blocker for card in cards if not card.available)
    assert {card.kind for card in cards} == {"rules", "ridge", "logistic", "gbdt", "knn", "guardrail"}


def test_an_artifact_is_inspected_by_id_revision_and_hash():
    path = Path(agentinputlab.selectors.__file__).parent / "data" / "rules.visible_state.json"
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    found = inspect_selector("rules.visible_state", revision="1", sha256=sha256)
    assert found["sha256"] == sha256
    assert found["artifact"] == SELECTOR.as_dict()
    with pytest.raises(ArtifactError, match=f"sha256 of rules.visible_state must be {'0' * 64}, it is {sha256}"):
        inspect_selector("rules.visible_state", sha256="0" * 64)
    with pytest.raises(ArtifactError, match="revision"):
        inspect_selector("rules.visible_state", revision="2")
    with pytest.raises(ArtifactError, match="no artifact here"):
        inspect_selector("learned.ridge")
    with pytest.raises(RegistryError, match=r"did you mean learned\.ridge"):
        get_selector("learned.rigde")
