"""Two campaigns are compared task by task, failures included, and only when they are over the same tasks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from campaign_lab import TREATMENT, copy_of, fixture_plan, invoke, lab_plan, run, state_of

from agentinputlab.analysis.paired import exact_sign_test
from agentinputlab.contracts.errors import ValidationError
from ripieno.errors import InputError, IntegrityError
from workers.official_arenas.campaign.compare import compare_campaigns
from workers.official_arenas.campaign.folder import CampaignFolder
from workers.official_arenas.campaign.plan import parse_plan


def campaign(folder: Path, **behaviour: Any) -> Path:
    folder.mkdir(exist_ok=True, parents=True)
    return run(lab_plan(folder, **behaviour), folder / "out").folder


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Six tasks. A: the treatment solves 3. B: it solves 2, 3, 4, is lost on 5, and 1 has no score."""
    root = tmp_path_factory.mktemp("compared")
    a = campaign(root / "a", tasks=6, solve_treatment=["3"])
    b = campaign(root / "b", tasks=6, solve_treatment=["2", "3", "4"], solve_baseline=["5"], fail_treatment=["1"])
    return a, b


def test_the_differences_are_paired_by_task_with_failures_in_the_denominator(folders: tuple[Path, Path]) -> None:
    compared = compare_campaigns(*folders)
    (row,) = compared["comparisons"]
    assert (row["expected"], row["scored"], row["unresolved"]) == (6, 5, 1)
    assert (row["unresolved_a"], row["unresolved_b"]) == (0, 1)
    assert (row["more_in_b"], row["less_in_b"], row["same"]) == (2, 1, 2)
    assert row["difference_a"] == pytest.approx(1 / 6)
    assert row["difference_b"] == pytest.approx(2 / 6)
    assert row["difference"] == pytest.approx(1 / 6)
    assert row["difference_bounds"] == pytest.approx([(1 - 2) / 6, (1 + 2) / 6])
    assert row["difference_interval"][0] <= row["difference"] <= row["difference_interval"][1]
    assert row["p_value"] == row["p_value_holm"] == exact_sign_test(2, 1).p_value
    assert row["p_value_worst"] >= row["p_value"]
    assert row["verdict"] == "not shown"
    assert (compared["tasks"], compared["split"], compared["settings_that_differ"]) == (6, "train", ["slots"])


def test_the_other_way_round_has_the_other_sign(folders: tuple[Path, Path]) -> None:
    (row,) = compare_campaigns(*folders)["comparisons"]
    (other,) = compare_campaigns(*reversed(folders))["comparisons"]
    assert other["difference"] == -row["difference"]
    assert (other["more_in_b"], other["less_in_b"]) == (row["less_in_b"], row["more_in_b"])
    assert other["p_value"] == row["p_value"]


def test_the_same_two_give_the_same_digits_and_nothing_is_written(folders: tuple[Path, Path]) -> None:
    before = [state_of(folder) for folder in folders]
    assert compare_campaigns(*folders) == compare_campaigns(*folders)
    assert [state_of(folder) for folder in folders] == before


def test_enough_tasks_show_a_difference_that_unscored_ones_can_take_back(tmp_path: Path) -> None:
    tasks = [str(number) for number in range(6)]
    a = campaign(tmp_path / "a", tasks=6)
    b = campaign(tmp_path / "b", tasks=6, solve_treatment=tasks)
    assert compare_campaigns(a, b)["comparisons"][0]["verdict"] == "larger in B"
    assert compare_campaigns(b, a)["comparisons"][0]["verdict"] == "smaller in B"
    assert compare_campaigns(a, b, alpha=0.01)["comparisons"][0]["verdict"] == "not shown"
    c = campaign(tmp_path / "c", tasks=6, solve_treatment=tasks, fail_baseline=["5"])
    (row,) = compare_campaigns(a, c, alpha=0.1)["comparisons"]
    assert (row["more_in_b"], row["unresolved"], row["verdict"]) == (5, 1, "depends on unresolved pairs")
    nothing = campaign(tmp_path / "d", tasks=6, fail_capture=tasks)
    assert compare_campaigns(a, nothing)["comparisons"][0]["verdict"] == "nothing scored"


def test_holm_covers_the_treatments_that_both_have_and_the_others_are_named(tmp_path: Path) -> None:
    first, second = "own.text:append_instruction=one", "own.text:append_instruction=two"
    a = campaign(tmp_path / "a", treatments=[TREATMENT, first], tasks=6)
    b = campaign(
        tmp_path / "b", treatments=[TREATMENT, first, second], tasks=6, solve_treatment=[str(n) for n in range(6)]
    )
    compared = compare_campaigns(a, b)
    assert [row["p_value_holm"] for row in compared["comparisons"]] == [2 * 0.03125] * 2
    assert compared["only_in_a"] == []
    ((slot, name),) = compared["only_in_b"]
    assert slot == "lab"
    assert name.startswith("own.text-")
    with pytest.raises(InputError, match="no treatment in common"):
        compare_campaigns(campaign(tmp_path / "c", treatments=[second], tasks=6), a)


def renamed(folder: Path, name: str, **behaviour: Any) -> Any:
    record = lab_plan(folder, **behaviour).record()
    record["slots"][0]["name"] = name
    return parse_plan(record)


def test_two_models_are_compared_when_each_campaign_has_one(tmp_path: Path) -> None:
    a = run(renamed(tmp_path, "small"), tmp_path / "a").folder
    b = run(renamed(tmp_path, "large"), tmp_path / "b").folder
    (row,) = compare_campaigns(a, b)["comparisons"]
    assert (row["slot_a"], row["slot_b"]) == ("small", "large")
    assert row["same_treatment"]


def test_a_treatment_of_the_same_name_with_another_text_is_told_apart(tmp_path: Path) -> None:
    def own(text: str) -> list[Any]:
        return [{"name": "mine", "members": [{"release": "own.text", "parameters": {"append_instruction": text}}]}]

    a = campaign(tmp_path / "a", treatments=own("be brief"))
    b = campaign(tmp_path / "b", treatments=own("be kind"))
    assert compare_campaigns(a, b)["comparisons"][0]["same_treatment"] is False
    said = invoke("campaign", "compare", a, b).stdout
    assert "mine (lab), which has other parameters in B" in said
    assert "be kind" not in said


def test_what_is_not_over_the_same_tasks_is_refused(tmp_path: Path) -> None:
    a = campaign(tmp_path / "a", tasks=3)
    with pytest.raises(InputError, match=r"other tasks \(3 in A, 2 in B, 2 in both\)"):
        compare_campaigns(a, campaign(tmp_path / "b", tasks=2))
    with pytest.raises(InputError, match="benchmark_id is"):
        compare_campaigns(a, run(fixture_plan(tasks=3), tmp_path / "c").folder)
    one = run(fixture_plan(tasks=1), tmp_path / "train").folder
    other = run(fixture_plan(tasks=1, split="test"), tmp_path / "test").folder
    with pytest.raises(InputError, match="split is train in A and test in B"):
        compare_campaigns(one, other)
    with pytest.raises(InputError, match="the same campaign"):
        compare_campaigns(a, a)
    with pytest.raises(ValidationError, match="alpha"):
        compare_campaigns(a, one, alpha=0.0)


def test_a_folder_that_is_changed_unfinished_or_none_is_refused_by_name(
    folders: tuple[Path, Path], tmp_path: Path
) -> None:
    changed = copy_of(folders[1], tmp_path / "changed")
    (changed / "results.json").write_text("[]\n")
    with pytest.raises(IntegrityError, match=f"{changed} does not verify"):
        compare_campaigns(folders[0], changed)
    begun = tmp_path / "begun"
    CampaignFolder.open(begun, lab_plan(tmp_path), ["a command"]).release()
    with pytest.raises(InputError, match=f"{begun} is not complete"):
        compare_campaigns(begun, folders[0])
    with pytest.raises(InputError, match=f"{tmp_path} is no folder of a campaign"):
        compare_campaigns(tmp_path, folders[0])


def test_the_command_says_it_in_words_and_in_json(folders: tuple[Path, Path], tmp_path: Path) -> None:
    said = invoke("campaign", "compare", *folders)
    assert said.exit_code == 0
    assert f"A: {folders[0]}\nB: {folders[1]}\n" in said.stdout
    assert "did more in B on 2, less on 1, the same on 2; 1 has no score in A or in B" in said.stdout
    assert "+16.7 points in A and +33.3 in B" in said.stdout
    assert "That is not enough to tell a difference." in said.stdout
    assert json.loads(invoke("campaign", "compare", *folders, "--json").stdout) == json.loads(
        json.dumps(compare_campaigns(*folders))
    )
    refused = invoke("campaign", "compare", folders[0], tmp_path)
    assert refused.exit_code == 2
    assert refused.stderr == f"agentinputlab: {tmp_path} is no folder of a campaign\n"


def test_a_folder_that_does_not_verify_ends_the_command_with_1(folders: tuple[Path, Path], tmp_path: Path) -> None:
    changed = copy_of(folders[1], tmp_path / "changed")
    (changed / "results.json").write_text("[]\n")
    done = invoke("campaign", "compare", folders[0], changed)
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.startswith(f"agentinputlab: {changed} does not verify: ")
    assert len(done.stderr.splitlines()) == 1
