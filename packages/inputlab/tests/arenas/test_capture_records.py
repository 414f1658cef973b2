"""Captured records are split so that nothing privileged is ever visible, and the split is bound by hashes."""

import pytest

from workers.official_arenas._screening import PRIVILEGED_KEYS, gold_texts, screen_visible_state
from workers.official_arenas.capture_records import _records
from workers.official_arenas.protocol import OfficialArenaError, content_hash

LOCKS = {"official_runtime": "1" * 64}
RECORD = {
    "checkpoint_id": "7",
    "group_key": "7",
    "visible_state": {"query": "Where is my order?"},
    "eligible_families": ["clarify"],
    "protected": {"task_id": "7", "locked_dependency_hashes": LOCKS},
}


class Source:
    benchmark_id = "some.arena"
    source_revision = "0" * 40

    def __init__(self, *records, blockers=()):
        self.records, self.blockers = records, blockers

    def doctor(self, config):
        return self.blockers

    def capture(self, config, *, output_root):
        return self.records


def split(*records, tmp_path="/unused", **options):
    return _records(Source(*records), {}, split="train", output_root=tmp_path, **options)


def test_visible_state_is_written_in_full_and_its_hash_is_the_state_hash():
    visible, protected, _ = split(RECORD)
    state = visible[0]["visible_state"]
    assert set(state) == {
        "query",
        "task_id",
        "instruction",
        "context",
        "messages",
        "tool_names",
        "metadata",
        "budget",
    }
    assert visible[0]["visible_state_hash"] == protected[0]["visible_state_hash"] == content_hash(state)


def test_origin_is_named_by_protected_content_alone():
    changed = {**RECORD, "visible_state": {"query": "Another opening."}}
    (first,), (second,) = split(RECORD)[0], split(changed)[0]
    assert first["origin_state_hash"] == second["origin_state_hash"]
    assert first["visible_state_hash"] != second["visible_state_hash"]
    protected = {**RECORD["protected"], "history": []}
    (third,) = split({**RECORD, "protected": protected})[0]
    assert third["origin_state_hash"] != first["origin_state_hash"]
    assert third["replay_identity"] != first["replay_identity"]


def test_visible_rows_carry_nothing_protected():
    secret = {**RECORD["protected"], "history": ["PLANTED"]}
    visible, protected, _ = split({**RECORD, "protected": secret})
    assert "PLANTED" not in str(visible)
    assert "PLANTED" in str(protected)


def test_locks_by_model_slot_replace_those_of_the_record():
    slots = {"small": LOCKS, "large": {"official_runtime": "2" * 64}}
    (row,), (protected,), _ = split(RECORD, dependencies_by_model_slot=slots, model_slot="small")
    assert row["locked_dependency_hashes_by_model_slot"] == slots
    assert "locked_dependency_hashes" not in row
    assert protected["model_slot"] == "small"


@pytest.mark.parametrize(
    "change",
    [
        {"checkpoint_id": ""},
        {"checkpoint_id": 7},
        {"group_key": " "},
        {"visible_state": []},
        {"visible_state": {}},
        {"visible_state": {"query": "x", "surplus": 1}},
        {"visible_state": {"query": "x", "budget": {"max_model_calls": True}}},
        {"eligible_families": []},
        {"eligible_families": ["clarify", "clarify"]},
        {"eligible_families": ["telepathy"]},
        {"eligible_families": [["clarify"]]},
        {"protected": {"task_id": "7"}},
        {"protected": {"locked_dependency_hashes": {}}},
        {"surplus": 1},
    ],
)
def test_record_that_is_malformed_is_refused(change):
    with pytest.raises(OfficialArenaError, match="Captured"):
        split({**RECORD, **change})


def test_checkpoint_is_captured_once_and_only_after_the_preflight():
    with pytest.raises(OfficialArenaError, match="repeats a checkpoint"):
        split(RECORD, RECORD)
    with pytest.raises(OfficialArenaError, match="preflight"):
        _records(Source(RECORD, blockers=("no",)), {}, split="train", output_root="/unused")
    for options in ({"dependencies_by_model_slot": {}}, {"model_slot": " "}):
        with pytest.raises(OfficialArenaError, match="slot"):
            split(RECORD, **options)


# --- screening ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", [*sorted(PRIVILEGED_KEYS), "goldAnswer", "Gold-Answer", "GOLD_path", "targetAction"])
def test_privileged_key_is_refused_at_any_depth(key):
    for value in ({key: 1}, {"metadata": {"rows": [{"deep": {key: None}}]}}):
        with pytest.raises(OfficialArenaError, match="privileged key"):
            screen_visible_state(value)


@pytest.mark.parametrize(
    "key", ["labelled_by", "answer_format", "golden_hour", "preference", "rewarding", "evaluators_note"]
)
def test_key_that_only_contains_a_privileged_word_is_allowed(key):
    screen_visible_state({"metadata": {key: 1}})


def test_record_with_a_privileged_key_is_not_split():
    with pytest.raises(OfficialArenaError, match="'gold_answer'"):
        split({**RECORD, "visible_state": {"query": "x", "metadata": {"gold_answer": "42"}}})


def test_gold_text_of_the_record_may_not_turn_up_in_a_value():
    protected = {**RECORD["protected"], "criteria": {"nl_assertions": ["The agent refunds 20 dollars."]}}
    told = {"query": "x", "context": [{"text": "hint: THE agent refunds 20 dollars. really"}]}
    with pytest.raises(OfficialArenaError, match="gold text") as caught:
        split({**RECORD, "protected": protected, "visible_state": told})
    assert "refunds" not in str(caught.value)
    assert split({**RECORD, "protected": protected})[2] == ["7"]


def test_short_gold_texts_and_arguments_of_gold_actions_are_no_secret():
    protected = {
        "answer": "yes",
        "gold_actions": [{"arguments": {"email": "somebody@example.org"}}],
        "task": {"label": "a label long enough"},
    }
    assert gold_texts(protected) == {"a label long enough"}
