"""The nearest pack is found by its words, and the confidence says how much of the sentence it knows."""

from pathlib import Path

import pytest

from scpn_phase_orchestrator.scaffold.catalogue import Pack, all_packs, find_pack
from scpn_phase_orchestrator.scaffold.retrieval import retrieve, words_of

SPEC = find_pack("minimal_domain").spec


def pack(name, readme):
    return Pack(name, Path(name), SPEC, readme)


PACKS = [
    pack("grid", "Power plants and tie lines of a grid."),
    pack("queue_waves", "Retries of clients fill queues."),
    pack("heart", "Cells of the heart beat, paced by power of a node."),
]


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [("tie lines of power plants", "grid"), ("client retries", "queue_waves"), ("a beating heart cell", "heart")],
)
def test_the_pack_that_knows_the_words_comes_first(sentence, expected):
    found = retrieve(sentence, PACKS)
    assert found.matches[0].pack == expected
    assert list(found.matches) == sorted(found.matches, key=lambda match: -match.score)


def test_confidence_is_the_known_share_of_equally_rare_words():
    found = retrieve("queues and retries of zebras and giraffes", PACKS)
    assert found.matches[0].words == ("queue", "retry")
    assert found.confidence == pytest.approx(0.5)
    assert found.unknown_words == ("zebra", "giraffe")


def test_a_rare_word_weighs_more_than_a_common_one():
    """'power' stands in two of three packs, 'tie' in one."""
    assert retrieve("tie zebra", PACKS).confidence > retrieve("power zebra", PACKS).confidence


def test_no_known_word_means_no_match_and_no_confidence():
    found = retrieve("knitting with wool", PACKS)
    assert (found.matches, found.confidence) == ((), 0.0)
    assert found.in_words.startswith("none: no pack knows a word of it")


@pytest.mark.parametrize(
    ("sentence", "word"),
    [
        ("queues and retries", "high"),
        ("queues, retries, zebras and giraffes", "middling"),
        ("queues of zebras, giraffes and elephants", "low"),
    ],
)
def test_confidence_is_said_in_words(sentence, word):
    assert retrieve(sentence, PACKS).in_words.startswith(f"{word}: queue_waves ")


def test_a_word_of_the_name_weighs_more_than_one_of_the_text():
    packs = [pack("zebra", "A herd."), pack("herd", "A zebra, and some text.")]
    assert retrieve("zebra", packs).matches[0].pack == "zebra"


def test_every_pack_with_a_readme_is_found_by_its_own_subject():
    packs = [pack for pack in all_packs() if pack.subject]
    assert packs
    for pack in packs:
        found = retrieve(pack.subject, packs)
        assert pack.name in {match.pack for match in found.matches}


def test_no_pack_is_an_error():
    with pytest.raises(ValueError, match="no pack"):
        retrieve("anything", [])


def test_words_are_lower_case_singular_and_say_something():
    assert words_of("Keep THE Grids, apart: bus, glass & 50 Hz!") == ["grid", "bus", "glass"]
