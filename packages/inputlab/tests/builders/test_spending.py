"""A worker that lies about what an arm used."""

from dataclasses import replace

import pytest

from agentinputlab.benchmarks.paired_replay import (
    ArmRole,
    AtomicArmResult,
    AtomicExternalReplayRunner,
    AtomicPairResult,
    AtomicReplayReceipt,
    AtomicReplayRequest,
)
from agentinputlab.contracts import ValidationError, to_jsonable
from agentinputlab.observability.usage import ResourceUsage

SPENT = {"model_calls": 2, "output_tokens": 40}


class Bridge:
    """Answers as asked, with the usage that it is told to report for both arms."""

    bridge_id, bridge_revision, scorer_id, scorer_revision = "a", "b", "c", "d"

    def __init__(self, **usage: float) -> None:
        self.usage = to_jsonable(ResourceUsage(**usage))

    def execute(self, request: AtomicReplayRequest) -> AtomicPairResult:
        asked = {name: item for name, item in request.as_dict().items() if name != "arms"}
        origin = {
            name: asked[name] for name in ("origin_state_hash", "replay_identity", "seed", "locked_dependency_hashes")
        }
        arms = [
            {
                "role": arm.role.value,
                "arm_id": arm.arm_id,
                **origin,
                "runtime_instance_id": arm.arm_id * 64,
                "completed": True,
            }
            for arm in request.arms
        ]
        names = ("bridge_id", "bridge_revision", "scorer_id", "scorer_revision")
        receipt = {**asked, **{name: getattr(self, name) for name in names}, "arms": arms}
        results = [AtomicArmResult(arm.role, arm.arm_id, {"score": 1.0}, "e" * 64, self.usage) for arm in request.arms]
        return AtomicPairResult(AtomicReplayReceipt.from_dict(receipt), tuple(results))


@pytest.fixture
def request_of_pair(fixture_pair):
    """The treatment's intervention used two model calls and forty tokens."""
    value = fixture_pair[0].as_dict()
    for arm in value["arms"]:
        arm["arm_id"] = arm["payload"]["arm_id"] = "1" if arm["role"] == "baseline" else "2"
        arm["payload"]["intervention_execution"]["usage"] = SPENT if arm["role"] == ArmRole.TREATMENT else {}
    return AtomicReplayRequest.from_dict(value)


@pytest.mark.parametrize("used", [{"model_calls": 2, "output_tokens": 40}, {"model_calls": 4, "output_tokens": 128}])
def test_usage_between_intervention_and_budget_is_believed(request_of_pair, used):
    record = AtomicExternalReplayRunner().run(Bridge(**used), request_of_pair)
    assert record.treatment.usage["model_calls"] == used["model_calls"]


@pytest.mark.parametrize(
    ("used", "named"),
    [
        ({}, "result of treatment: usage.model_calls is less than its intervention alone used"),
        ({"model_calls": 2, "output_tokens": 39}, "usage.output_tokens is less than its intervention"),
        ({"model_calls": 5, "output_tokens": 40}, "usage.model_calls is 5, its max_model_calls is 4"),
        ({"model_calls": 2, "output_tokens": 40, "tool_calls": 5}, "usage.tool_calls is 5, its max_tool_calls is 4"),
        ({"model_calls": 2, "output_tokens": 4097}, "usage.output_tokens is 4097"),
    ],
)
def test_usage_that_cannot_be_true_is_refused(request_of_pair, used, named):
    with pytest.raises(ValidationError, match=named):
        AtomicExternalReplayRunner().run(Bridge(**used), request_of_pair)


def test_an_arm_with_a_cap_on_money_cannot_cost_more(request_of_pair):
    value = request_of_pair.as_dict()
    for arm in value["arms"]:
        arm["payload"]["intervention_execution"]["materialized_state"]["budget"]["max_cost_usd"] = 0.5
    bounded = replace(request_of_pair, arms=AtomicReplayRequest.from_dict(value).arms)
    assert AtomicExternalReplayRunner().run(Bridge(**SPENT, cost_usd=0.5), bounded)
    with pytest.raises(ValidationError, match="its cost is more than its max_cost_usd"):
        AtomicExternalReplayRunner().run(Bridge(**SPENT, cost_usd=0.4, compute_cost_usd=0.2), bounded)
