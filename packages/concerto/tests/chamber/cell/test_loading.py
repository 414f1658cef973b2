"""A cell file: what it may say, and the one line that every mistake gets."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chamber.cell.config import Cell, Condition
from chamber.cell.loading import default_cell_text, parse_cell, read_cell_text
from ripieno.errors import InputError

TEXT = default_cell_text()


def test_the_cell_of_the_package_is_the_one_that_was_promised():
    cell = parse_cell(TEXT, source="planar_push.yaml")
    assert [entry.label for entry in cell.partners] == ["cooperative", "stubborn", "pursuer"]
    assert set(cell.conditions) == set(Condition)
    assert cell.episodes == 20
    assert any(
        rule.number == "contacts_at_fault" and rule.condition == "with_stack" and rule.at_most == 0
        for rule in cell.decision_rules
    )


def test_a_cell_survives_its_own_json():
    cell = parse_cell(TEXT, source="x")
    assert Cell.model_validate_json(cell.model_dump_json()) == cell


NO_PARTNERS = TEXT[TEXT.index("partners:") : TEXT.index("episodes:")]

MISTAKES = [
    ("episodes: 20", "episode: 20", "unknown key 'episode', did you mean 'episodes'?"),
    ("at_most: 0", "at_mots: 0", "unknown key 'decision_rules[0].at_mots', did you mean 'at_most'?"),
    ("label: pursuer", "lable: pursuer", "unknown key 'partners[2].lable', did you mean 'label'?"),
    (
        "policy: farthest_landmark",
        "zzz: 1",
        "unknown key 'ego.zzz'; known: checkpoint, checkpoint_sha256, policy, speed_limit_m_s",
    ),
    ("root_seed: 20261129", "", "key 'root_seed' is missing"),
    ("episodes: 20", "episodes: '20'", "episodes must be a valid integer, got '20'"),
    ("episodes: 20", "episodes: 20.0", "episodes must be a valid integer, got 20.0"),
    ("episodes: 20", "episodes: true", "episodes must be a valid integer, got True"),
    ("episodes: 20", "episodes: 0", "episodes must be greater than or equal to 1, got 0"),
    ("root_seed: 20261129", "root_seed: -1", "root_seed must be greater than or equal to 0, got -1"),
    ("speed_limit_m_s: 1.0", "speed_limit_m_s: .nan", "ego.speed_limit_m_s must be a finite number, got nan"),
    ("speed_limit_m_s: 1.0", "speed_limit_m_s: .inf", "ego.speed_limit_m_s must be a finite number, got inf"),
    ("cbf_gamma_per_s: 5.0", "cbf_gamma_per_s: -1", "safety.cbf_gamma_per_s must be greater than 0, got -1"),
    ("farthest_landmark ", "fly ", "must be 'nearest_landmark', 'farthest_landmark' or 'trained', got 'fly'"),
    ("farthest_landmark ", "nearest_landmark\n  checkpoint: a.pt ", "a checkpoint belongs to the policy 'trained'"),
    ("farthest_landmark ", "trained\n  checkpoint_sha256: abc ", "ego.checkpoint_sha256 "),
    (NO_PARTNERS, "partners: []\n", "partners must have at least 1 item"),
    ("class_name: push_stubborn", "class_name: push_stuborn", "partners[1].class_name: unknown partner 'push_stuborn'"),
    ('landmark: "0"', 'landmark: "7"', "partners[1].extra: landmark must be 0 or 1; got '7'"),
    (
        'landmark: "0"',
        'lndmark: "0"',
        "partners[1].extra: unknown parameter 'lndmark'; known: dt, landmark, speed_limit",
    ),
    ('landmark: "0"', "landmark: 0", "partners[1].extra.landmark must be a valid string, got 0"),
    ("label: pursuer", "label: stubborn", "partner label 'stubborn' appears more than once"),
    ("[without_stack, with_stack]", "[with_stack]", "looks at 'without_stack', which is not among the conditions"),
    ("partner: cooperative", "partner: friend", "looks at partner 'friend'"),
    ("    at_least: 0.8", "", "a decision rule needs at_least, at_most or both"),
    ("start_separation_m: 0.5", "start_separation_m: 0.2", "task: start_separation_m must be more than two radii"),
    ("episodes: 20", "episodes: 20\nepisodes: 3", "line 29: key 'episodes' appears twice"),
    ("episodes: 20", "episodes: *other", "aliases are not allowed"),
    ("episodes: 20", "3: 4", "key 3 is not text"),
    ("episodes: 20", "episodes: !!python/object:os.system 1", "could not determine a constructor"),
    ("episodes: 20", "episodes: [", "line 30: "),
    ("episodes: 20", "episodes: " + "[" * 3000, "the YAML is nested too deeply"),
    (TEXT, "- a\n- b\n", "a cell must be a mapping of settings, got list"),
    (TEXT, "", "a cell must be a mapping of settings, got NoneType"),
]


@pytest.mark.parametrize(("find", "replace", "message"), MISTAKES)
def test_each_mistake_gets_one_line_that_names_it(find: str, replace: str, message: str):
    assert find in TEXT
    with pytest.raises(InputError) as caught:
        parse_cell(TEXT.replace(find, replace), source="my.yaml")
    assert str(caught.value).startswith("my.yaml: ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@given(st.text(max_size=200))
def test_any_text_gives_a_cell_or_one_line(text: str):
    with pytest.raises(InputError, match=r"^x: [^\n]+$"):
        parse_cell(text, source="x")


def test_files_that_cannot_be_read_are_named(tmp_path: Path):
    with pytest.raises(InputError, match=r"missing\.yaml: cannot read the cell file: No such file"):
        read_cell_text(tmp_path / "missing.yaml")
    with pytest.raises(InputError, match="Is a directory"):
        read_cell_text(tmp_path)
    (tmp_path / "latin").write_bytes(b"name: caf\xe9")
    with pytest.raises(InputError, match=r"not UTF-8 text \(byte 9\)"):
        read_cell_text(tmp_path / "latin")
    (tmp_path / "huge").write_bytes(b"#" * 1_000_001)
    with pytest.raises(InputError, match="at most 1000000 bytes"):
        read_cell_text(tmp_path / "huge")
