"""Petri nets: which transitions may fire, and what firing does to the tokens."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scpn_phase_orchestrator.exceptions import PolicyError
from scpn_phase_orchestrator.supervisor.petri_net import (
    Arc,
    Guard,
    Marking,
    PetriNet,
    Place,
    Transition,
    parse_guard,
)


def places(*names: str) -> list[Place]:
    return [Place(name) for name in names]


@pytest.mark.parametrize(
    ("text", "guard"),
    [
        ("R_0 > 0.7", Guard("R_0", ">", 0.7)),
        ("  R <= 1 ", Guard("R", "<=", 1.0)),
        ("pac_max>=-2e-3", Guard("pac_max", ">=", -0.002)),
        ("mean_amplitude == 0", Guard("mean_amplitude", "==", 0.0)),
        ("R_10<.5", Guard("R_10", "<", 0.5)),
    ],
)
def test_a_guard_is_read_from_text(text: str, guard: Guard):
    assert parse_guard(text) == guard


@pytest.mark.parametrize(
    "text",
    ["R_0 >", "", "> 0.7", "R_0 0.7", "R_0 > x", "R_0 => 1", "R_0 != 1", "R_0 > nan", "R_0 > inf", "R > 1 and R < 2"],
)
def test_acceptance_11_text_that_is_no_guard_is_refused(text: str):
    with pytest.raises(PolicyError, match="guard must read '<metric> <op> <number>'"):
        parse_guard(text)


def test_acceptance_11_a_guard_on_a_missing_metric_is_false():
    assert parse_guard("R_0 > 0.7").evaluate({}) is False
    assert parse_guard("R_0 > 0.7").evaluate({"R_0": 0.8}) is True


@pytest.mark.parametrize(
    ("op", "below", "equal", "above"),
    [
        (">", False, False, True),
        (">=", False, True, True),
        ("<", True, False, False),
        ("<=", True, True, False),
        ("==", False, True, False),
    ],
)
def test_every_comparison(op: str, below: bool, equal: bool, above: bool):
    guard = Guard("x", op, 1.0)
    assert [guard.evaluate({"x": value}) for value in (0.5, 1.0, 1.5)] == [below, equal, above]


def test_nothing_compares_with_nan():
    assert not any(Guard("x", op, 1.0).evaluate({"x": float("nan")}) for op in (">", ">=", "<", "<=", "=="))


def test_acceptance_11_an_arc_to_an_unknown_place_is_refused():
    with pytest.raises(PolicyError, match="transition 't' has an arc to the unknown place 'b'"):
        PetriNet(places("a"), [Transition("t", [Arc("a")], [Arc("b")])])
    with pytest.raises(PolicyError, match="unknown place 'c'"):
        PetriNet(places("a"), [Transition("t", [Arc("c")], [])])


def test_names_are_unique():
    with pytest.raises(PolicyError, match="place 'a' is declared twice"):
        PetriNet(places("a", "a"), [])
    with pytest.raises(PolicyError, match="transition 't' is declared twice"):
        PetriNet(places("a"), [Transition("t", [], []), Transition("t", [], [])])


@pytest.mark.parametrize("weight", [0, -1, 1.0, True, "2", None])
def test_a_weight_that_is_no_count_is_refused(weight: Any):
    with pytest.raises(PolicyError, match="weight of the arc to 'a' must be an integer >= 1"):
        Arc("a", weight)


@pytest.mark.parametrize("count", [-1, 1.0, True, "2"])
def test_a_number_of_tokens_that_is_no_count_is_refused(count: Any):
    with pytest.raises(PolicyError, match="tokens of place 'a' must be an integer >= 0"):
        Marking({"a": count})


@pytest.mark.parametrize("name", ["", None, 3])
def test_a_name_that_is_no_text_is_refused(name: Any):
    for make in (Place, Arc, lambda name: Transition(name, [], []), lambda name: Guard(name, ">", 1.0)):
        with pytest.raises(PolicyError, match="must be text that is not empty"):
            make(name)


@pytest.mark.parametrize("threshold", [float("nan"), float("inf"), True, "1", None])
def test_a_threshold_that_is_no_finite_number_is_refused(threshold: Any):
    with pytest.raises(PolicyError, match="threshold of the guard on 'x' must be a finite number"):
        Guard("x", ">", threshold)


def test_an_unknown_comparison_is_refused():
    with pytest.raises(PolicyError, match="comparison of a guard must be one of"):
        Guard("x", "!=", 1.0)


def test_places_without_tokens_are_dropped():
    assert Marking({"a": 0, "b": 2}).tokens == {"b": 2}
    assert Marking({"a": 0, "b": 2}) == Marking({"b": 2})
    assert Marking({"b": 2})["a"] == 0


def test_weights_are_taken_and_put():
    fuse = Transition("fuse", [Arc("atom", 2)], [Arc("molecule"), Arc("photon", 3)])
    net = PetriNet(places("atom", "molecule", "photon"), [fuse])
    assert net.enabled(Marking({"atom": 1}), {}) == []
    marking, fired = net.step(Marking({"atom": 5}), {})
    assert fired == fuse
    assert marking.tokens == {"atom": 3, "molecule": 1, "photon": 3}


def test_arcs_to_one_place_add_up():
    net = PetriNet(places("a", "b"), [Transition("t", [Arc("a"), Arc("a", 2)], [Arc("b"), Arc("b")])])
    assert net.step(Marking({"a": 2}), {})[1] is None
    assert net.step(Marking({"a": 3}), {})[0].tokens == {"b": 2}


def test_the_first_enabled_transition_fires_and_only_that():
    first = Transition("first", [Arc("a")], [Arc("b")], parse_guard("x > 1"))
    second = Transition("second", [Arc("a")], [Arc("b")])
    third = Transition("third", [Arc("a")], [Arc("b")])
    net = PetriNet(places("a", "b"), [first, second, third])
    marking, fired = net.step(Marking({"a": 2}), {"x": 0.0})
    assert fired == second
    assert marking.tokens == {"a": 1, "b": 1}
    assert net.step(marking, {"x": 2.0})[1] == first
    assert net.enabled(Marking({"a": 1}), {"x": 2.0}) == [first, second, third]


def test_a_step_without_an_enabled_transition_changes_nothing():
    net = PetriNet(places("a"), [Transition("t", [Arc("a")], [], parse_guard("x > 1"))])
    marking = Marking({"a": 1})
    assert net.step(marking, {}) == (marking, None)


def test_firing_without_tokens_or_in_another_net_is_refused():
    transition = Transition("t", [Arc("a", 2)], [])
    net = PetriNet(places("a"), [transition])
    with pytest.raises(PolicyError, match="transition 't' needs 2 tokens at 'a', which holds 1"):
        net.fire(Marking({"a": 1}), transition)
    with pytest.raises(PolicyError, match="transition 'u' is not part of this net"):
        net.fire(Marking({"a": 2}), Transition("u", [], []))


def test_firing_leaves_the_old_marking_alone():
    transition = Transition("t", [Arc("a")], [Arc("b")])
    before = Marking({"a": 1})
    PetriNet(places("a", "b"), [transition]).fire(before, transition)
    assert before.tokens == {"a": 1}


NAMES = ("a", "b", "c", "d")
arcs = st.lists(st.builds(Arc, st.sampled_from(NAMES), st.integers(1, 3)), max_size=3)
nets = st.lists(st.tuples(arcs, arcs), min_size=1, max_size=5).map(
    lambda pairs: PetriNet(places(*NAMES), [Transition(f"t{i}", *pair) for i, pair in enumerate(pairs)])
)
markings = st.dictionaries(st.sampled_from(NAMES), st.integers(0, 6)).map(Marking)


@given(net=nets, marking=markings, steps=st.integers(0, 20))
def test_every_firing_follows_the_state_equation_and_tokens_never_run_negative(
    net: PetriNet, marking: Marking, steps: int
):
    for _ in range(steps):
        before = marking
        marking, fired = net.step(marking, {})
        if fired is None:
            assert marking == before
            assert net.enabled(marking, {}) == []
            return
        assert fired == net.enabled(before, {})[0]
        for name in NAMES:
            taken = sum(arc.weight for arc in fired.inputs if arc.place == name)
            put = sum(arc.weight for arc in fired.outputs if arc.place == name)
            assert before[name] >= taken
            assert marking[name] == before[name] - taken + put >= 0


@given(
    moves=st.lists(
        st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES), st.integers(1, 3)), min_size=1, max_size=6
    ),
    marking=markings,
    steps=st.integers(0, 30),
)
def test_a_net_whose_transitions_put_what_they_take_keeps_its_tokens(
    moves: list[tuple[str, str, int]], marking: Marking, steps: int
):
    transitions = [
        Transition(f"t{i}", [Arc(source, weight)], [Arc(target, weight)])
        for i, (source, target, weight) in enumerate(moves)
    ]
    net = PetriNet(places(*NAMES), transitions)
    total = sum(marking.tokens.values())
    for _ in range(steps):
        marking, _ = net.step(marking, {})
        assert sum(marking.tokens.values()) == total
