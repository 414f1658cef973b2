"""Evidence, dependencies, probes, workers' envelopes, composite results, names."""

import inspect
import pickle
import subprocess
import sys

import pytest

import agentinputlab
from agentinputlab import contracts, core
from agentinputlab.contracts import (
    AgentInputLabError,
    AlgorithmOutputError,
    ArmExecutionError,
    CompositeResult,
    DependencyBinding,
    DependencyRole,
    Evidence,
    EvidenceKind,
    ExecutionTrace,
    ExternalDependencyError,
    Intervention,
    InterventionContext,
    ProfileKind,
    RunnerKind,
    RuntimeProbe,
    SemanticFamily,
    TreatmentDefinition,
    ValidationError,
    WorkerRequest,
    WorkerResponse,
)
from agentinputlab.contracts.lifecycle import is_intervention


def test_core_is_the_contracts_by_another_name():
    assert core.__all__ == contracts.__all__
    assert all(getattr(core, name) is getattr(contracts, name) for name in contracts.__all__)


def test_the_package_gives_the_ten_names_a_newcomer_needs():
    assert set(agentinputlab.__all__) == {
        "ContextBlock",
        "ExecutionBudget",
        "FrozenAgentState",
        "InputPatch",
        "InterventionContext",
        "Message",
        "PatchOp",
        "PatchOperation",
        "SemanticFamily",
        "__version__",
    }


@pytest.mark.parametrize(
    "module",
    ["agentinputlab", "agentinputlab.registry", "agentinputlab.experiments.builders", "agentinputlab.selectors"],
)
def test_importing_loads_nothing_heavy(module):
    heavy = ("numpy", "scipy", "httpx", "pydantic", "matplotlib", "yaml", "click", "rich")
    code = f"import sys, {module}; print([m for m in {heavy!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_every_error_is_one_family():
    errors = [value for value in vars(contracts.errors).values() if inspect.isclass(value)]
    assert len(errors) == 13
    assert all(issubclass(error, AgentInputLabError) for error in errors)
    assert issubclass(ValidationError, ValueError)
    assert issubclass(AlgorithmOutputError, ArmExecutionError)
    assert issubclass(ArmExecutionError, ValidationError)
    assert issubclass(ExternalDependencyError, contracts.AlgorithmUnavailableError)


def test_the_words_are_their_own_text():
    assert str(SemanticFamily.NO_OP) == f"{SemanticFamily.NO_OP}" == "no_op"
    assert [family.value for family in SemanticFamily] == [
        "reformulate",
        "decompose",
        "acquire",
        "clarify",
        "curate",
        "composite",
        "no_op",
    ]
    with pytest.raises(ValidationError, match="SemanticFamily must be one of reformulate"):
        SemanticFamily("magic")


def test_evidence_becomes_a_context_block_that_says_its_kind():
    evidence = Evidence(EvidenceKind.RETRIEVED_DOCUMENT, "text", "d1", "corpus", 1.5, {"rank": 1})
    block = evidence.as_block()
    assert (block.text, block.block_id, block.source, block.score) == ("text", "d1", "corpus", 1.5)
    assert block.metadata == {"rank": 1, "evidence_kind": "retrieved_document"}
    with pytest.raises(ValidationError, match="text"):
        Evidence(EvidenceKind.TOOL_OBSERVATION, "")


def test_a_binding_is_named_by_what_fills_the_slot_not_by_its_role():
    one = DependencyBinding("retriever", DependencyRole.NUISANCE, "bm25", "1", {"k1": 1.2})
    same = DependencyBinding("retriever", DependencyRole.CROSSED, "bm25", "1", {"k1": 1.2})
    other = DependencyBinding("retriever", DependencyRole.NUISANCE, "bm25", "1", {"k1": 1.3})
    assert one.resolved_hash == same.resolved_hash != other.resolved_hash


def test_a_treatment_names_each_slot_once():
    with pytest.raises(ValidationError, match="'model', which is in treatment_slots too"):
        TreatmentDefinition("t", ("model",), ("retriever", "model"))
    with pytest.raises(ValidationError, match="at least one"):
        TreatmentDefinition("t", ())
    with pytest.raises(ValidationError, match="crossed_slots"):
        TreatmentDefinition("t", ("model",), (), ("a", "a"))


def test_a_probe_that_says_no_says_why():
    assert RuntimeProbe("r", RunnerKind.CORE, available=True).available
    with pytest.raises(ValidationError, match="why"):
        RuntimeProbe("r", RunnerKind.EXTERNAL_WORKER, available=False)


def test_worker_envelopes_are_strict():
    request = WorkerRequest(release_id="r", request_id="1", dependency_hashes={"model": "a" * 64})
    assert WorkerRequest.from_dict(contracts.to_jsonable(request)) == request == pickle.loads(pickle.dumps(request))
    for change, named in (
        ({"schema_version": True}, "schema_version"),
        ({"schema_version": 2}, "schema_version"),
        ({"extra": 1}, "unknown field 'extra'"),
        ({"dependency_hashes": {"model": "A" * 64}}, "dependency_hashes"),
    ):
        with pytest.raises(ValidationError, match=named):
            WorkerRequest.from_dict({**contracts.to_jsonable(request), **change})


def test_an_answer_is_a_result_or_an_error_but_never_both():
    WorkerResponse(request_id="1", status="ok", payload={"a": 1})
    WorkerResponse(request_id="1", status="error", error_code="X", error_message="why")
    for fields in (
        {"status": "ok", "error_code": "X"},
        {"status": "error"},
        {"status": "error", "error_code": "X", "payload": {"a": 1}},
        {"status": "maybe"},
    ):
        with pytest.raises(ValidationError, match="WorkerResponse"):
            WorkerResponse(request_id="1", **fields)


def test_a_composite_result_is_named_by_its_content():
    def result(answer: str, release: str = "m.r") -> CompositeResult:
        return CompositeResult(
            "m", "m.r", "a" * 64, answer, (), ExecutionTrace("m", release), "test", ProfileKind.CONTROLLED_ADAPTER
        )

    assert result("x").result_hash == result("x").result_hash != result("y").result_hash
    with pytest.raises(ValidationError, match="trace is of m/other"):
        result("x", "other")


def whole(**changes):
    members = {"method_id": "m", "release_id": "m.r", "family": SemanticFamily.ACQUIRE, "propose": lambda *_: None}
    return {name: item for name, item in (members | changes).items() if item is not ...}


@pytest.mark.parametrize(
    "members",
    [whole(), whole(family="own"), whole(release_id=None), whole(propose=None)]
    + [whole(**{name: ...}) for name in whole()],
    ids=lambda members: ",".join(f"{name}={item}" for name, item in members.items() if not callable(item)),
)
def test_an_intervention_is_told_as_the_protocol_tells_it(members):
    of_the_class = type("Members", (), members)
    on_the_object = type("Empty", (), {})()
    vars(on_the_object).update(members)
    for value in (of_the_class(), on_the_object, of_the_class, None):
        assert is_intervention(value) == isinstance(value, Intervention)


def test_a_context_with_other_services_is_a_copy_with_all_its_checks():
    class Own(InterventionContext):
        """A context that adds nothing, so that copying it is left to its class."""

    for kind in (InterventionContext, Own):
        context = kind(backend="b", seed=3, run_config={"a": [1]}, strict_intent=False)
        other = context.with_services(backend=None, monitor="m")
        assert type(other) is kind
        assert (other.backend, other.monitor, other.seed, other.strict_intent) == (None, "m", 3, False)
        assert other.run_config == context.run_config
        assert other.run_config is not context.run_config
        with pytest.raises(ValidationError, match="seed must be an integer"):
            context.with_services(seed="3")
