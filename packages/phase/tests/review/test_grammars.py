"""Mutation grammars: what they list, what they block, and that they neither select nor apply."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scpn_phase_orchestrator.supervisor._grammar_review import scores_as_evaluator
from scpn_phase_orchestrator.supervisor.evolutionary_petri_grammar import (
    read_net,
    run_offline_evolutionary_petri_mutation_grammar,
)
from scpn_phase_orchestrator.supervisor.evolutionary_policy_dsl import (
    format_policy_dsl,
    parse_policy_dsl,
    run_offline_evolutionary_policy_dsl_search,
)
from scpn_phase_orchestrator.supervisor.evolutionary_topology_grammar import (
    run_offline_evolutionary_topology_mutation_search,
)

POLICY = (
    "rule calm: if R < 0.4 and stability_proxy >= 0.2 then set K += 0.95\n"
    "rule drive: if pac_max > 0.9 then set zeta = 0.1\n"
)
NET: dict[str, Any] = {
    "places": ["idle", {"name": "busy", "token_bound": 127}],
    "transitions": [{"name": "go", "guard_weights": {"R": 0.5}}],
    "arcs": [
        {"place": "idle", "transition": "go", "direction": "input"},
        ["busy", "go", "output"],
    ],
}
NODES = [{"id": 1, "community": "a"}, {"node_id": 2, "community": "a"}, {"id": 3, "community": "b"}]
EDGES = [{"nodes": [2, 1], "weight": 0.5}]
FLAGS = {
    "operator_review_required": True,
    "execution_disabled": True,
    "live_merge_permitted": False,
    "hot_patch_permitted": False,
    "actuation_permitted": False,
    "non_actuating": True,
}


def reports() -> list[dict[str, Any]]:
    return [
        run_offline_evolutionary_policy_dsl_search(POLICY).to_audit_record(),
        run_offline_evolutionary_petri_mutation_grammar(NET).to_audit_record(),
        run_offline_evolutionary_topology_mutation_search(NODES, EDGES).to_audit_record(),
    ]


@pytest.mark.parametrize("report", reports(), ids=["policy", "petri", "topology"])
def test_every_report_forbids_execution(report: dict[str, Any]) -> None:
    assert {key: report[key] for key in FLAGS} == FLAGS


def test_equal_input_gives_equal_reports() -> None:
    assert reports() == reports()


# --- policy ---------------------------------------------------------------------------------------------------


def test_documented_policy_candidates() -> None:
    report = run_offline_evolutionary_policy_dsl_search(POLICY, generation_count=1, population_size=5)
    values = [candidate.plan.mutated_value for candidate in report.candidates]
    assert values == pytest.approx([0.45, 0.14, 1.02, 0.82, 0.19], abs=1e-12)
    assert [candidate.status for candidate in report.candidates] == ["accepted"] * 2 + ["rejected"] + ["accepted"] * 2
    assert report.accepted_count == 4
    assert report.candidates[2].blocked_reasons == ("action_value_outside_0_to_1",)
    assert report.candidates[0].candidate_id == "g01-c001"


def test_a_candidate_changes_one_constant_of_the_text() -> None:
    report = run_offline_evolutionary_policy_dsl_search(POLICY, generation_count=1, population_size=5)
    source = POLICY.split()
    for candidate in report.candidates:
        words = candidate.policy_dsl.split()
        changed = [(old, new) for old, new in zip(source, words, strict=True) if old != new]
        assert changed == [(f"{candidate.plan.original_value:.12g}", f"{candidate.plan.mutated_value:.12g}")]


def test_keywords_are_read_in_any_case_and_comments_are_not() -> None:
    text = "# all of it\nRULE a: IF R_0 != -1e-3 AND x == .5 THEN SET K -= 2.  # why\n"
    (rule,) = parse_policy_dsl(text)
    assert (rule.operator, rule.value, [item.threshold for item in rule.conditions]) == ("-=", 2.0, [-1e-3, 0.5])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "policy_dsl must be a non-empty string"),
        ("  \n", "policy_dsl must be a non-empty string"),
        ("if R < 1 then set K = 1", "Malformed rule line: if R < 1"),
        ("rule a: if R then set K = 1", "Malformed condition: R"),
        ("rule a: if R < 1e999 then set K = 1", "threshold of rule a must be a finite number"),
        ("rule a: if R < 1 then set K * 2", r"Malformed action: K \* 2"),
        ("rule a: if R < 1 then set K = 1\nrule a: if R < 1 then set K = 1", "Duplicate rule name: a"),
        ("# nothing", "at least one rule"),
    ],
)
def test_a_malformed_policy_is_refused_with_its_line(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_policy_dsl(text)


names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_-]{0,8}", fullmatch=True)
constants = st.floats(-1e6, 1e6).map(lambda value: float(f"{value:.12g}"))


@given(
    st.lists(
        st.tuples(names, st.lists(st.tuples(names, st.sampled_from([">=", "<=", "==", "!=", ">", "<"]), constants),
                                  min_size=1, max_size=3), names, st.sampled_from(["=", "+=", "-="]), constants),
        min_size=1, max_size=4, unique_by=lambda rule: rule[0],
    )
)  # fmt: skip
def test_a_policy_that_was_written_reads_back(rules: list[Any]) -> None:
    text = "\n".join(
        f"rule {name}: if {' and '.join(f'{m} {op} {c!r}' for m, op, c in conditions)} then set {target} {op} {value!r}"
        for name, conditions, target, op, value in rules
    )
    parsed = parse_policy_dsl(text)
    assert parse_policy_dsl(format_policy_dsl(parsed)) == parsed


@given(st.integers(1, 3), st.integers(1, 8), st.floats(0.001, 0.5))
def test_accepted_policy_constants_stay_in_the_unit_interval(generations: int, population: int, step: float) -> None:
    report = run_offline_evolutionary_policy_dsl_search(
        POLICY, generation_count=generations, population_size=population, mutation_step=step
    )
    assert len(report.candidates) == generations * population
    for candidate in report.candidates:
        assert (candidate.status == "accepted") == (0.0 <= candidate.plan.mutated_value <= 1.0)


# --- Petri nets -----------------------------------------------------------------------------------------------


def test_documented_petri_candidates() -> None:
    plan = run_offline_evolutionary_petri_mutation_grammar(NET, generation_count=2, candidates_per_generation=4)
    assert [candidate.mutation_type for candidate in plan.candidates] == [
        "add_arc", "guard_weight", "token_bound", "add_arc", "token_bound", "add_arc", "guard_weight", "token_bound",
    ]  # fmt: skip
    third = plan.candidates[2]
    assert (third.status, third.blocked_reason) == ("blocked", "token_bound_exceeds_policy_max")
    assert third.after["token_bound"] == 140
    assert plan.best_candidate_id == "g001-c002"


def test_the_record_of_a_probed_arc_names_the_arc_that_was_found() -> None:
    plan = run_offline_evolutionary_petri_mutation_grammar(NET, generation_count=1, candidates_per_generation=4)
    taken = {("idle", "go", "input"), ("busy", "go", "output")}
    arcs = [candidate.after["arc"] for candidate in plan.candidates if candidate.mutation_type == "add_arc"]
    assert all((arc["place"], arc["transition"], arc["direction"]) not in taken for arc in arcs)


def test_a_full_net_has_no_room_for_an_arc() -> None:
    net = {**NET, "arcs": [[place, "go", direction] for place in ("idle", "busy") for direction in ("input", "output")]}
    plan = run_offline_evolutionary_petri_mutation_grammar(net, generation_count=1, candidates_per_generation=1)
    assert plan.candidates[0].blocked_reason == "add_arc_no_available_target"


def test_an_empty_net_blocks_everything() -> None:
    plan = run_offline_evolutionary_petri_mutation_grammar({})
    assert {candidate.blocked_reason for candidate in plan.candidates} == {"net_missing_places_or_transitions"}
    assert plan.best_candidate_id == ""


def test_a_guard_change_keeps_the_other_guards() -> None:
    net = {
        **NET,
        "transitions": [
            {"name": "go", "guard_weights": [{"metric": "R", "weight": 0.5}, {"metric": "x", "weight": 1.0}]}
        ],
    }
    plan = run_offline_evolutionary_petri_mutation_grammar(net, generation_count=1, candidates_per_generation=2)
    guards = plan.candidates[1].after["guard_weights"]
    assert [guard["metric"] for guard in guards] == ["R", "x"]
    assert guards[0]["weight"] == 0.5


def test_mapping_and_records_describe_the_same_net() -> None:
    records = [
        {"kind": "place", "name": "busy", "token_bound": 127},
        {"kind": "place", "name": "idle"},
        {"kind": "transition", "name": "go", "guard_weights": {"R": 0.5}},
        {"kind": "arc", "place": "busy", "transition": "go", "direction": "output"},
        {"kind": "arc", "place": "idle", "transition": "go", "direction": "input"},
    ]
    assert read_net(records) == read_net(NET)
    assert read_net({"kind": "place", "name": "p"}).places[0].name == "p"


@pytest.mark.parametrize(
    ("net", "message"),
    [
        ("net", "a net must be a mapping or a list"),
        ({"place": []}, r"unknown keys of the net: \['place'\]"),
        ({"places": ["a", "a"]}, "the place 'a' is there twice"),
        ({"places": ["a"], "arcs": [["a", "t", "input"]]}, "unknown transition 't'"),
        ({"transitions": ["t"], "arcs": [["a", "t", "input"]]}, "unknown place 'a'"),
        ({"places": ["a"], "transitions": ["t"], "arcs": [["a", "t", "in"]]}, "direction of an arc must be"),
        (
            {"places": ["a"], "transitions": ["t"], "arcs": [["a", "t", "input", 0]]},
            "weight of an arc must be at least 1",
        ),
        ({"places": [{"name": "a", "token_bound": True}]}, "token_bound of place 'a' must be an integer"),
        ({"transitions": [{"name": "t", "guard_weights": {"R": "x"}}]}, "weight of 'R' must be a number"),
        ([{"kind": "hub"}], "must have kind place, transition or arc"),
    ],
)
def test_a_malformed_net_is_refused_with_the_place(net: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_net(net)


@given(st.integers(1, 4), st.integers(1, 7), st.floats(0.01, 2.0), st.integers(1, 5), st.integers(1, 200))
def test_accepted_petri_candidates_respect_the_limits(
    generations: int, count: int, step: float, max_weight: int, max_bound: int
) -> None:
    plan = run_offline_evolutionary_petri_mutation_grammar(
        NET, generation_count=generations, candidates_per_generation=count, mutation_step=step,
        max_arc_weight=max_weight, max_token_bound=max_bound,
    )  # fmt: skip
    for candidate in plan.candidates:
        if candidate.status != "accepted":
            continue
        if candidate.mutation_type == "token_bound":
            assert 0 <= candidate.after["token_bound"] <= max_bound
        if candidate.mutation_type == "add_arc":
            assert 1 <= candidate.after["arc"]["weight"] <= max_weight


# --- topology -------------------------------------------------------------------------------------------------


def test_a_weight_on_the_limit_is_accepted() -> None:
    def weights(**limits: float) -> list[float]:
        report = run_offline_evolutionary_topology_mutation_search(NODES, EDGES, **limits)  # type: ignore[arg-type]
        accepted = [one for one in report.candidates if one.status == "accepted"]
        return [one.mutated_weight for one in accepted if one.mutated_weight is not None]

    low, high = min(weights()), max(weights())
    assert weights(min_edge_weight=low, max_edge_weight=high) == weights()


def test_documented_topology_candidates() -> None:
    report = run_offline_evolutionary_topology_mutation_search(NODES, EDGES, generation_count=1, population_size=6)
    found = [(c.operation, c.source, c.target, c.mutated_weight) for c in report.candidates]
    assert found == [
        ("edge_add", 1, 3, pytest.approx(0.425, abs=1e-15)),
        ("edge_add", 2, 3, 0.42794117647058827),
        ("edge_remove", 1, 2, None),
        ("edge_reweight", 1, 2, 0.4661764705882353),
        ("community_bridge", 1, 3, 0.4720588235294118),
        ("edge_add", 1, 3, pytest.approx(0.425, abs=1e-15)),
    ]
    assert report.candidates[5].candidate_id == "g001-c006-x006"


def test_weights_outside_the_limits_are_blocked() -> None:
    report = run_offline_evolutionary_topology_mutation_search(
        NODES, [{"source": 1, "target": 2, "weight": 0.0}], min_edge_weight=0.45, max_edge_weight=0.5,
        generation_count=1, population_size=5,
    )  # fmt: skip
    reasons = [candidate.blocked_reasons for candidate in report.candidates]
    assert reasons[0] == ("edge_add_below_min_weight",)
    assert reasons[2] == ("edge_remove_from_zero_weight",)
    assert reasons[3] == ("edge_reweight_below_min_weight",)
    assert reasons[4] == ()


def test_the_cap_limits_additions() -> None:
    report = run_offline_evolutionary_topology_mutation_search(NODES, EDGES, max_add_candidates=0)
    assert "edge_add" not in {candidate.operation for candidate in report.candidates}


@pytest.mark.parametrize(
    ("nodes", "edges", "message"),
    [
        ([{"id": 1}, {"id": 1}], [], "node_id must be unique, 1 is there twice"),
        ([{"id": True}], [], "node_id must be an integer"),
        ([{"id": 1}], [{"nodes": [1, 1]}], "must join two nodes"),
        ([{"id": 1}], [{"nodes": [1, 2]}], r"unknown nodes \[2\]"),
        ([{"id": 1}, {"id": 2}], [{"nodes": [1, 2]}, {"source": 2, "target": 1}], r"\[1, 2\] is there twice"),
        ([{"id": 1}, {"id": 2}], [{"nodes": [1, 2], "weight": -1}], "must be non-negative"),
        ([{"id": 1}, {"id": 2}], [{"nodes": [1]}], "must be a pair of node ids"),
        ([{"id": 1}], [], "no edge to change"),
    ],
)
def test_a_malformed_topology_is_refused_with_the_place(nodes: Any, edges: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        run_offline_evolutionary_topology_mutation_search(nodes, edges)


# --- ranking --------------------------------------------------------------------------------------------------


def test_an_evaluator_ranks_accepted_candidates_without_touching_the_hash() -> None:
    plain = run_offline_evolutionary_policy_dsl_search(POLICY, generation_count=1, population_size=5)
    ranked = run_offline_evolutionary_policy_dsl_search(
        POLICY, generation_count=1, population_size=5,
        evaluator=lambda candidate: candidate.plan.mutated_value, shortlist_size=2,
    )  # fmt: skip
    assert [(place.rank, place.candidate_id) for place in ranked.shortlist] == [(1, "g01-c004"), (2, "g01-c001")]
    assert ranked.report_hash == plain.report_hash
    assert plain.shortlist == ()


def test_scores_must_cover_exactly_the_candidates() -> None:
    candidates = run_offline_evolutionary_policy_dsl_search(POLICY, generation_count=1, population_size=2).candidates
    with pytest.raises(ValueError, match=r"lack the accepted candidates \['g01-c002'\]"):
        scores_as_evaluator({"g01-c001": 1.0}, candidates)
    with pytest.raises(ValueError, match=r"unknown candidates \['g09-c001'\]"):
        scores_as_evaluator({"g01-c001": 1.0, "g01-c002": 2.0, "g09-c001": 3.0}, candidates)


def test_a_score_that_is_no_number_is_refused() -> None:
    with pytest.raises(ValueError, match="score of g01-c001 must be a finite number"):
        run_offline_evolutionary_policy_dsl_search(POLICY, evaluator=lambda _: float("nan"))


@pytest.mark.parametrize("argument", ["generation_count", "population_size", "mutation_step"])
def test_counts_and_steps_below_their_least_value_are_refused_by_name(argument: str) -> None:
    with pytest.raises(ValueError, match=argument):
        run_offline_evolutionary_policy_dsl_search(POLICY, **{argument: 0})
