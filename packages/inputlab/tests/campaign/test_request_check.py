"""What was played must be what the plan, the captured state and the patch say, whatever was sealed again."""

import json
import shutil

import pytest

from ripieno.verify import verify
from workers.official_arenas.campaign.plan import parse_plan
from workers.official_arenas.campaign.run import run_campaign
from workers.official_arenas.protocol import content_hash

TREATMENT = "plan.plan_and_solve.ps_prompt"


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    folder = tmp_path_factory.mktemp("campaign").resolve() / "honest"
    plan = parse_plan({"split": "train", "tasks": 1, "treatments": [TREATMENT], "durable": False})
    run_campaign(plan, folder, command=["test"])
    return folder


def arm_of(envelope, role):
    return next(arm for arm in envelope["atomic_request"]["arms"] if arm["role"] == role)["payload"]


def help_the_baseline_less(envelope):
    state = arm_of(envelope, "baseline")["intervention_execution"]
    state["materialized_state"]["instruction"] = "Do nothing."
    state["output_state_hash"] = content_hash(state["materialized_state"])


def help_the_treatment_more(envelope):
    state = arm_of(envelope, "treatment")["intervention_execution"]
    state["materialized_state"]["instruction"] += " Ask when it is unclear."
    state["output_state_hash"] = content_hash(state["materialized_state"])


def name_another_treatment(envelope):
    arm_of(envelope, "treatment")["arm_parameters"] = {"members": []}


def start_elsewhere(envelope):
    for role in ("baseline", "treatment"):
        arm_of(envelope, role)["visible_state_hash"] = "0" * 64


def begin_from_another_origin(envelope):
    envelope["atomic_request"]["replay_identity"] = "0" * 64


def handicap_the_baseline(envelope):
    arm_of(envelope, "baseline")["intervention_execution"]["usage"]["model_calls"] = 4


def patch_something_else(envelope):
    arm_of(envelope, "treatment")["intervention_execution"]["patch"]["operations"][0]["value"] = "Hurry."


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (help_the_baseline_less, "baseline: what was played is not what its patch makes"),
        (help_the_treatment_more, "treatment: what was played is not what its patch makes"),
        (name_another_treatment, "another pair"),
        (start_elsewhere, "another shape than it should"),
        (begin_from_another_origin, "another pair"),
        (handicap_the_baseline, "baseline: it says that leaving the input alone asked a model"),
        (patch_something_else, "its patch has another hash"),
    ],
)
def test_a_request_that_does_not_follow_from_the_plan_is_found(honest, tmp_path, change, named):
    folder = tmp_path / "forged"
    shutil.copytree(honest, folder)
    (file,) = (folder / "requests" / "scripted" / TREATMENT).glob("0.json")
    (kept,) = (folder / "pairs" / "scripted").glob("*/request.json")
    envelope = json.loads(file.read_bytes())
    change(envelope)
    envelope["request_hash"] = content_hash({name: item for name, item in envelope.items() if name != "request_hash"})
    for path in (file, kept):
        path.write_text(json.dumps(envelope))
    report = verify(folder)
    assert not report.ok
    assert any(named in row.detail for row in report.checks if not row.ok), [row for row in report.checks if not row.ok]


def test_the_honest_folder_holds(honest):
    assert verify(honest).ok
