"""Plans: what is refused names its field, nothing private is quoted, and a file cannot grow without bound."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from campaign_lab import TREATMENT, invoke

from agentinputlab.contracts.errors import ValidationError
from workers.official_arenas.campaign.plan import load_plan, parse_plan, treatment_from_text
from workers.official_arenas.campaign.preflight import pin_rules

TOP = {"treatments": [TREATMENT]}
SECRET = "sk-aVerySecretKey0123456789"


def slot(**fields: Any) -> dict[str, Any]:
    return {**TOP, "slots": [{"name": "small", **fields}]}


def prices(**fields: Any) -> dict[str, Any]:
    return slot(prices={"input_per_million": 1.0, "output_per_million": 2.0, **fields})


BAD: list[tuple[dict[str, Any], str]] = [
    ({}, "treatments"),
    ({"treatments": []}, "treatments"),
    ({"treatments": TREATMENT}, "treatments"),
    ({"treatments": [7]}, "treatments.0"),
    ({"treatments": [{"name": "a", "members": []}]}, "treatments.0.members"),
    ({"treatments": [{"name": "A b", "members": [{"release": "x"}]}]}, "treatments.0.name"),
    ({"treatments": [{"name": "a", "members": [{"release": "../x"}]}]}, "treatments.0.members.0.release"),
    ({"treatments": [{"name": "a", "members": [{"release": "x", "parameters": []}]}]}, "parameters"),
    ({"treatments": [TREATMENT, TREATMENT]}, "treatments must have distinct names"),
    ({**TOP, "protocol": "agentinputlab.campaign-plan.v2"}, "protocol"),
    ({**TOP, "arena": ""}, "arena"),
    ({**TOP, "arena": "../../etc"}, "arena"),
    ({**TOP, "arena": 3}, "arena"),
    ({**TOP, "split": "dev"}, "split"),
    ({**TOP, "tasks": 0}, "tasks"),
    ({**TOP, "tasks": -3}, "tasks"),
    ({**TOP, "tasks": 2.5}, "tasks"),
    ({**TOP, "tasks": True}, "tasks"),
    ({**TOP, "tasks": "3"}, "tasks"),
    ({**TOP, "slots": []}, "slots"),
    ({**TOP, "slots": [{"name": "a"}, {"name": "a"}]}, "slots must have distinct names"),
    (slot(name="Small Model"), "slots.0.name"),
    (slot(agent={"backend": "http"}), "slots.0.agent.backend"),
    (slot(agent={"model": ""}), "slots.0.agent.model"),
    (slot(agent={"args": "x"}), "slots.0.agent.args"),
    (slot(intervention_model={"kind": "llm"}), "slots.0.intervention_model.kind"),
    (slot(intervention_model={"kind": "rules"}), "rules must name a file"),
    (slot(intervention_model={"kind": "none", "rules": "a.yaml"}), "rules must name a file"),
    (prices(input_per_million=-1.0), "slots.0.prices.input_per_million"),
    (prices(output_per_million="2"), "slots.0.prices.output_per_million"),
    (slot(prices={"input_per_million": 1.0}), "slots.0.prices.output_per_million"),
    ({**TOP, "alpha": 0.0}, "alpha"),
    ({**TOP, "alpha": 1.0}, "alpha"),
    ({**TOP, "alpha": "small"}, "alpha"),
    ({**TOP, "bootstrap_seed": -1}, "bootstrap_seed"),
    ({**TOP, "budget_multiplier": 0.0}, "budget_multiplier"),
    ({**TOP, "budget_multiplier": 1001.0}, "budget_multiplier"),
    ({**TOP, "durable": "yes"}, "durable"),
    ({**TOP, "treatmnets": []}, "treatmnets"),
]


@pytest.mark.parametrize(("value", "field"), BAD, ids=[f"{number}-{field}" for number, (_, field) in enumerate(BAD)])
def test_a_wrong_field_is_named(value: dict[str, Any], field: str) -> None:
    with pytest.raises(ValidationError) as refusal:
        parse_plan(value)
    assert field in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_every_field_of_a_plan_has_a_bad_value_above() -> None:
    fields = set(parse_plan(TOP).record())
    assert fields <= {field.split(" ")[0].split(".")[0] for _, field in BAD}


@pytest.mark.parametrize("value", [None, [], "text", 3, True])
def test_a_plan_that_is_no_mapping_is_refused(value: object) -> None:
    with pytest.raises(ValidationError, match="must be a mapping"):
        parse_plan(value)


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_numbers_that_json_cannot_say_are_refused(number: float) -> None:
    with pytest.raises(ValidationError):
        parse_plan({**TOP, "alpha": number})


@pytest.mark.parametrize(
    "value",
    [
        slot(agent={"api_key": SECRET}),
        slot(agent={"args": SECRET}),
        slot(api_key=SECRET),
        slot(intervention_model={"kind": "rules", "api_key": SECRET}),
        slot(agent={"backend": "openai", "args": {"api_key": SECRET}}, intervention_model={"kind": "rules"}),
        {**TOP, "slots": [{"name": "a", "agent": {"args": {"k": SECRET}}}, {"name": "a"}]},
        {**TOP, "openai_key": SECRET},
        {"treatments": [{"name": "a", "members": [{"release": "own.text", "parameters": SECRET}]}]},
        {"treatments": [{"name": "a", "text": SECRET, "members": [{"release": "own.text"}]}]},
    ],
)
def test_a_key_or_prompt_in_the_wrong_place_is_refused_and_not_quoted(value: dict[str, Any]) -> None:
    with pytest.raises(ValidationError) as refusal:
        parse_plan(value)
    assert SECRET[:8] not in str(refusal.value)


def test_equal_plans_have_equal_hashes_and_defaults_are_part_of_them() -> None:
    short = parse_plan({"arena": "embedded", "treatments": [TREATMENT]})
    assert short.plan_hash == parse_plan(short.record()).plan_hash
    assert short.plan_hash != parse_plan({**short.record(), "alpha": 0.01}).plan_hash
    assert (short.arena, short.split, short.phase, short.tasks) == ("embedded.retail", "test", "formal", None)


# --- treatments as text -------------------------------------------------------------------------------------


def test_a_release_alone_is_a_treatment_of_its_name() -> None:
    treatment = treatment_from_text(TREATMENT)
    assert treatment.name == TREATMENT
    assert [member.model_dump() for member in treatment.members] == [{"release": TREATMENT, "parameters": {}}]


def test_values_are_json_where_they_parse_as_json() -> None:
    text = 'some.release:count=3,share=0.5,on=true,word=plain,quoted="true",none=null'
    parameters = treatment_from_text(text).members[0].parameters
    assert parameters == {"count": 3, "share": 0.5, "on": True, "word": "plain", "quoted": "true", "none": None}


def test_a_file_stands_for_its_text(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("Think, then act; a=b, c+d.\n")
    treatment = treatment_from_text(f"own.text:append_instruction=@{tmp_path}/mine.txt")
    assert treatment.members[0].parameters == {"append_instruction": "Think, then act; a=b, c+d.\n"}


def test_other_parameters_are_another_treatment() -> None:
    names = {treatment_from_text(f"a.b:n={number}").name for number in range(5)}
    assert len(names) == 5
    assert all(name.startswith("a.b-") for name in names)


def test_a_chain_keeps_its_order() -> None:
    treatment = treatment_from_text("b.second+a.first:n=1")
    assert [member.release for member in treatment.members] == ["b.second", "a.first"]
    assert treatment.name.startswith("b.second+a.first-")


@pytest.mark.parametrize(
    "text", ["", "+", "a.b+", "a.b:novalue", "a.b:=3", "a.b:9x=3", "a.b:x-y=1", "A.B", "a b", ":x=1"]
)
def test_a_malformed_treatment_is_refused(text: str) -> None:
    with pytest.raises(ValidationError):
        treatment_from_text(text)


def test_a_text_file_that_cannot_be_read_whole_is_refused(tmp_path: Path) -> None:
    with (tmp_path / "long.txt").open("wb") as stream:
        stream.truncate(16 * 2**20 + 1)
    (tmp_path / "binary.txt").write_bytes(b"\xff\xfe")
    (tmp_path / "link.txt").symlink_to(tmp_path / "binary.txt")
    for name, reason in (
        ("long.txt", "is larger than 16777216 bytes"),
        ("binary.txt", "is not UTF-8 at byte 0"),
        ("link.txt", "is not a regular file"),
        ("missing.txt", "missing.txt: No such file or directory"),
        (".", "is not a regular file"),
    ):
        treatment = f"own.text:add_context=@{tmp_path / name}"
        result = invoke("retail", "run", "--arena", "fixture", "--treatment", treatment, "--out", tmp_path / "out")
        assert (result.exit_code, result.stdout) == (2, "")
        assert reason in result.stderr
        assert len(result.stderr.splitlines()) == 1
        assert not (tmp_path / "out").exists()


# --- plan files ---------------------------------------------------------------------------------------------


def written(tmp_path: Path, text: str | bytes) -> Path:
    path = tmp_path / "plan.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{name}: &{name} [{','.join(9 * [f'*{before}'])}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("treatments: [a.b]\ntreatments: [c.d]\n", "a key is given twice"),
        ("slots: [{name: a, name: b}]\ntreatments: [a.b]\n", "a key is given twice"),
        ("treatments: &t [a.b]\nslots: *t\n", "aliases are not allowed"),
        (BOMB, "aliases are not allowed"),
        ("base: &b {alpha: 0.1}\n<<: *b\ntreatments: [a.b]\n", "aliases are not allowed"),
        ("treatments: !!python/object/apply:os.system [id]\n", "not valid YAML"),
        ("1: 2\n", "keys must be text"),
        ("treatments: [a.b\n", "not valid YAML"),
        ("a: 1\n---\nb: 2\n", "not valid YAML"),
        (b"\xff\xfe\x00", "not valid YAML"),
        ("[" * 100_000, "not valid YAML"),
        ("", "must be a mapping"),
        ("- a.b\n", "must be a mapping"),
        ("treatments: [2024-01-01]\n", "treatments"),
        ("treatments: [a.b]\nalpha: .nan\n", "campaign plan"),
        ("x" * (1024 * 1024 + 1), "longer than 1 MiB"),
    ],
    ids=range(16),
)
def test_a_plan_file_that_is_no_plan_is_refused(tmp_path: Path, text: str | bytes, reason: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(ValidationError, match=reason):
        load_plan(path)
    result = invoke("campaign", "doctor", path)
    assert (result.exit_code, result.stdout) == (2, "")
    assert len(result.stderr.splitlines()) == 1


def test_yaml_and_json_say_the_same_plan(tmp_path: Path) -> None:
    yaml = load_plan(written(tmp_path, f"arena: fixture\ntasks: 3\ntreatments:\n  - {TREATMENT}\n"))
    path = tmp_path / "plan.json"
    path.write_text(json.dumps({"arena": "fixture", "tasks": 3, "treatments": [TREATMENT]}))
    assert yaml == load_plan(path)


def test_a_rules_file_is_looked_for_beside_the_plan_and_becomes_part_of_it(tmp_path: Path) -> None:
    text = f"treatments: [{TREATMENT}]\nslots: [{{intervention_model: {{kind: rules, rules: replies.yaml}}}}]\n"
    (tmp_path / "replies.yaml").write_text("rules: [{reply: hello}]\n")
    first = pin_rules(load_plan(written(tmp_path, text)))
    assert first.slots[0].intervention_model.rules == str(tmp_path / "replies.yaml")
    (tmp_path / "replies.yaml").write_text("rules: [{reply: goodbye}]\n")
    second = pin_rules(load_plan(written(tmp_path, text)))
    assert first.plan_hash != second.plan_hash
    with pytest.raises(ValidationError, match=r"slot scripted: rules file .* differs from rules_sha256 of the plan"):
        pin_rules(first)
    (tmp_path / "replies.yaml").unlink()
    with pytest.raises(ValidationError, match=r"slot scripted: rules file .* cannot be read"):
        pin_rules(load_plan(written(tmp_path, text)))


def test_the_plan_that_prepare_writes_is_a_plan(tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    assert invoke("campaign", "prepare", path).exit_code == 0
    assert [treatment.name for treatment in load_plan(path).treatments] == [
        TREATMENT,
        "plan.plan_and_solve.ps_plus_prompt",
    ]
    before = path.read_bytes()
    again = invoke("campaign", "prepare", path)
    assert (again.exit_code, path.read_bytes()) == (2, before)
    assert "exists; name another file" in again.stderr
