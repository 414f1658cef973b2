"""Hashes, budgets, usage and payload helpers that every arena shares."""

import hashlib
import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentinputlab.contracts import serialization
from workers.official_arenas import protocol
from workers.official_arenas.protocol import (
    BUDGET_OVERRIDE_PATH_ENV,
    BUDGET_OVERRIDE_SHA256_ENV,
    OfficialArenaError,
    ProviderArmResult,
    content_hash,
    helper_sha256,
    intervention_usage,
    merge_usage,
    normalized_trace_hash,
    require_materialized_budget,
    resolve_shared_budget_config,
    shared_budget,
    standard_shared_budget,
    validate_dependency_hashes,
    validate_shared_budget,
    visible_shared_budget,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
).filter(lambda value: "\\ud" not in json.dumps(value))


@given(JSON)
def test_plain_values_hash_as_the_contracts_hash_them(value):
    assert protocol.canonical_json(value) == serialization.canonical_json(value)
    assert content_hash(value) == serialization.content_hash(value)


def test_canonical_text_and_hash_are_the_documented_ones():
    value = {"b": "é", "a": [1, 2.0, True, None]}
    assert protocol.canonical_json(value) == '{"a":[1,2.0,true,null],"b":"é"}'
    assert content_hash(value) == "0177cc367861df7c11009c4b54fdd9948ba35efe620a08517e5efca753bc8baf"


@pytest.mark.parametrize(
    ("value", "error"), [({1}, TypeError), ({1: 2}, TypeError), (object(), TypeError), (math.nan, ValueError)]
)
def test_what_json_cannot_say_has_no_hash(value, error):
    for function in (content_hash, protocol.canonical_json):
        with pytest.raises(error):
            function(value)


def test_errors_about_values_do_not_quote_them():
    with pytest.raises(ValueError, match="finite") as caught:
        content_hash({"PLANTED": [math.inf, "PLANTED\ud800"]})
    assert "PLANTED" not in str(caught.value)


# --- budgets ------------------------------------------------------------------------------------------------


def test_half_of_the_standard_budget():
    assert standard_shared_budget(0.5) == {
        "profile_id": "paper-shared-budget-x0.5",
        "max_model_calls": 4,
        "max_retrieval_calls": 4,
        "max_tool_calls": 4,
        "max_output_tokens": 2048,
        "max_context_tokens": 131072,
        "max_output_tokens_per_call": 256,
    }
    assert standard_shared_budget()["profile_id"] == "paper-shared-budget-x1"


@pytest.mark.parametrize("multiplier", [0, -1, math.nan, math.inf, True])
def test_multiplier_is_positive_and_finite(multiplier):
    with pytest.raises(OfficialArenaError, match="positive and finite"):
        standard_shared_budget(multiplier)


@given(st.floats(min_value=1e-6, max_value=1000))
def test_every_standard_budget_is_valid_and_at_least_one(multiplier):
    budget = standard_shared_budget(multiplier)
    assert validate_shared_budget(budget) == budget
    assert min(value for value in budget.values() if isinstance(value, int)) >= 1


@pytest.mark.parametrize(
    "change",
    [
        {"max_model_calls": -1},
        {"max_model_calls": True},
        {"max_tool_calls": 1.0},
        {"profile_id": " "},
        {"max_output_tokens_per_call": 5000},
        {"surplus": 1},
    ],
)
def test_shared_budget_that_is_none_is_refused(change):
    with pytest.raises(OfficialArenaError, match="Shared budget"):
        validate_shared_budget({**standard_shared_budget(), **change})


def test_shared_budget_may_allow_none_of_something():
    budget = {**standard_shared_budget(), "max_tool_calls": 0}
    assert visible_shared_budget(budget)["max_tool_calls"] == 0


def override_of(path, budget):
    path.write_text(json.dumps(budget))
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return {BUDGET_OVERRIDE_PATH_ENV: str(path), BUDGET_OVERRIDE_SHA256_ENV: digest}


def test_operators_budget_joins_the_config_and_the_config_stays_as_it_was(tmp_path):
    budget = standard_shared_budget(2)
    config = {"limit": 1}
    resolved = resolve_shared_budget_config(config, environment=override_of(tmp_path / "budget.json", budget))
    assert shared_budget(resolved) == budget
    assert config == {"limit": 1}
    assert resolve_shared_budget_config(config, environment={}) == config


def test_operators_budget_and_another_explicit_one_contradict(tmp_path):
    environment = override_of(tmp_path / "budget.json", standard_shared_budget(2))
    same = {"budget_override": standard_shared_budget(2)}
    assert resolve_shared_budget_config(same, environment=environment) == same
    with pytest.raises(OfficialArenaError, match="differs from the budget_override"):
        resolve_shared_budget_config({"budget_override": standard_shared_budget(1)}, environment=environment)


@pytest.mark.parametrize("missing", [BUDGET_OVERRIDE_PATH_ENV, BUDGET_OVERRIDE_SHA256_ENV])
def test_override_variables_come_together(missing, tmp_path):
    environment = override_of(tmp_path / "budget.json", standard_shared_budget())
    del environment[missing]
    with pytest.raises(OfficialArenaError, match="needs both"):
        resolve_shared_budget_config({}, environment=environment)


def test_override_file_is_bound_and_plain(tmp_path):
    path = tmp_path / "budget.json"
    environment = override_of(path, standard_shared_budget())
    path.write_text(path.read_text() + " ")
    with pytest.raises(OfficialArenaError, match="differs from its checksum"):
        resolve_shared_budget_config({}, environment=environment)
    link = tmp_path / "link.json"
    link.symlink_to(path)
    for bad in (link, tmp_path, tmp_path / "absent"):
        with pytest.raises(OfficialArenaError, match="readable regular JSON file"):
            resolve_shared_budget_config({}, environment={**environment, BUDGET_OVERRIDE_PATH_ENV: str(bad)})


def test_arm_budget_is_the_shared_one(make_pair):
    payload = make_pair().request["arms"][0]["payload"]
    assert require_materialized_budget(payload, None)["max_model_calls"] == 8
    with pytest.raises(OfficialArenaError, match="differs from the shared budget"):
        require_materialized_budget(payload, standard_shared_budget())


# --- usage --------------------------------------------------------------------------------------------------

COUNTS = st.fixed_dictionaries(
    {}, optional={"model_calls": st.integers(0, 1000), "cost_usd": st.floats(0, 100), "tool_calls": st.integers(0, 9)}
)


def test_merged_usage_has_eleven_fields():
    merged = merge_usage({"model_calls": 1}, {"cost_usd": 0.5})
    assert len(merged) == 11
    assert {name: value for name, value in merged.items() if value} == {"model_calls": 1, "cost_usd": 0.5}


@given(st.lists(COUNTS, max_size=5))
def test_usage_adds_up(usages):
    merged = merge_usage(*usages)
    for name in ("model_calls", "cost_usd", "tool_calls"):
        assert merged[name] == pytest.approx(sum(usage.get(name, 0) for usage in usages))
    assert merge_usage(merged) == merged


@pytest.mark.parametrize(
    "usage",
    [
        {"model_calls": -1},
        {"model_calls": True},
        {"model_calls": 1.0},
        {"cost_usd": math.nan},
        {"cost_usd": -0.1},
        {"cost_usd": False},
        {"cost_usd": "1"},
        {"cpu_seconds": 10**400},
        {"total": 1},
        [],
        None,
    ],
)
def test_usage_that_is_none_is_refused(usage):
    with pytest.raises(OfficialArenaError, match="Usage"):
        merge_usage({"model_calls": 1}, usage)


def test_sum_of_usage_stays_finite():
    with pytest.raises(OfficialArenaError, match="finite"):
        merge_usage({"cost_usd": 1e308}, {"cost_usd": 1e308})


def test_reported_total_cost_is_not_counted_twice():
    execution = {"usage": {"model_calls": 2, "cost_usd": 1.0, "total_cost_usd": 1.5, "compute_cost_usd": 0.5}}
    usage = intervention_usage({"intervention_execution": execution})
    assert (usage["model_calls"], usage["cost_usd"], usage["compute_cost_usd"]) == (2, 1.0, 0.5)


# --- results, locks, files ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        {"metrics": {}},
        {"metrics": {"a": math.nan}},
        {"metrics": {"a": True}},
        {"metrics": {" ": 1.0}},
        {"trace": []},
        {"trace": "text"},
        {"usage": {"model_calls": -1}},
        {"runtime_instance_id": "short"},
    ],
)
def test_arm_result_that_is_none_is_refused(change):
    good = {"metrics": {"a": 1.0}, "trace": {"messages": []}, "usage": {}, "runtime_instance_id": "0" * 64}
    assert ProviderArmResult(**good).usage == {}
    with pytest.raises(OfficialArenaError):
        ProviderArmResult(**{**good, **change})


@pytest.mark.parametrize("locks", [{}, None, [], {"a": "1"}, {" ": "1" * 64}, {"a": "A" * 64}, {1: "1" * 64}])
def test_locks_are_names_and_digests(locks):
    with pytest.raises(OfficialArenaError, match="locked_dependency_hashes"):
        validate_dependency_hashes(locks)


def test_one_helper_file_is_hashed_alone_and_several_together(tmp_path):
    files = {"a.py": tmp_path / "a.py", "b.py": tmp_path / "b.py"}
    for name, path in files.items():
        path.write_text(name)
    digests = {name: hashlib.sha256(name.encode()).hexdigest() for name in files}
    assert helper_sha256({"a.py": files["a.py"]}) == digests["a.py"]
    assert helper_sha256(files) == content_hash(digests)
    with pytest.raises(OfficialArenaError, match="no helper file"):
        helper_sha256({})


def test_equal_trajectories_hash_equally_whatever_the_clock_said():
    def trace(second):
        return {"messages": [{"content": "hello", "timestamp": f"12:00:{second}"}], "duration": second}

    assert normalized_trace_hash(trace(1)) == normalized_trace_hash(trace(2))
    assert content_hash(trace(1)) != content_hash(trace(2))
    assert normalized_trace_hash(trace(1)) != normalized_trace_hash({"messages": [{"content": "other"}]})
