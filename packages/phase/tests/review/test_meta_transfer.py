"""Transfer between domains: which examples are read from where, and what the neighbours propose."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scpn_phase_orchestrator.exceptions import ValidationError
from scpn_phase_orchestrator.meta import (
    CrossDomainMetaTransfer,
    MetaPackageManifest,
    MetaPolicyRecord,
    read_audit_history,
)

TWO = (
    '{"domain":"grid","features":{"R":0.8},"knobs":{"K":0.2},"reward":0.5}\n'
    '{"domainpack":"eeg","metrics":{"R":0.4,"psi":0.1},"actions":[{"knob":"K","value":0.1},{"knob":"K","value":0.3},'
    '{"knob":"bogus","value":1}],"R_global":0.7}\n'
)


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def step(index: int, layers: list[float], actions: list[dict[str, Any]]) -> str:
    record = {"step": index, "stability": sum(layers) / len(layers), "layers": [{"R": r, "psi": 0.0} for r in layers]}
    return json.dumps({**record, "regime": "nominal", "actions": actions})


def test_two_lines_give_the_documented_package(tmp_path: Path) -> None:
    transfer = CrossDomainMetaTransfer().fit_audit_history([write(tmp_path / "a.jsonl", TWO)])
    manifest = transfer.to_package_manifest()
    assert manifest.package_sha256 == "9bbcc5ddacbe3f1fcbb215d14aefc736500ecc5e5bc992409b43e66f0799053c"
    assert manifest.training_summary["domains"] == ["eeg", "grid"]
    assert manifest.training_summary["reward_mean"] == 0.6
    assert transfer.records[1].knobs == {"K": 0.2}


def test_the_log_of_a_run_is_one_example(tmp_path: Path) -> None:
    kick = {"knob": "K", "scope": "global", "value": 0.1, "ttl_s": 10, "justification": "x"}
    lines = [
        json.dumps({"header": True, "binding_summary": {"name": "power_grid"}}),
        step(0, [0.2, 0.6], [kick]),
        json.dumps({"event": "boundary_breach", "step": 0, "detail": "x"}),
        step(1, [0.4, 0.8], [{**kick, "value": 0.3}, {**kick, "knob": "zeta", "value": 0.5}]),
        json.dumps({"closing": {"steps": 2}}),
    ]
    (record,) = read_audit_history(write(tmp_path / "run.jsonl", "\n".join(lines) + "\n"))
    assert record.domain == "power_grid"
    assert dict(record.features) == pytest.approx({"R_0": 0.3, "R_1": 0.7, "R": 0.5, "stability": 0.5})
    assert dict(record.knobs) == pytest.approx({"K": 0.2, "zeta": 0.5})
    assert record.reward == pytest.approx(0.5)


def test_a_run_without_actions_teaches_nothing(tmp_path: Path) -> None:
    path = write(tmp_path / "run.jsonl", json.dumps({"header": True}) + "\n" + step(0, [0.5], []) + "\n")
    assert read_audit_history(path) == []
    with pytest.raises(ValueError, match="audit history yielded 0 records; min_records=1"):
        CrossDomainMetaTransfer().fit_audit_history([path])


def test_a_header_without_steps_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="has no step records"):
        read_audit_history(write(tmp_path / "run.jsonl", '{"header": true}\n'))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"features":{},"knobs":{"K":1}}', "features must be non-empty"),
        ('{"features":{"R":1},"knobs":{}}', "knobs must be non-empty"),
        ('{"features":{"R":NaN},"knobs":{"K":1}}', "JSON has no NaN"),
        ('{"features":{"R":1,"R":2},"knobs":{"K":1}}', "the key 'R' twice"),
        ('{"features":{"R":true},"knobs":{"K":1}}', r"features\['R'\] must be a finite number"),
        ('{"features":{"R":1%s},"knobs":{"K":1}}' % ("0" * 400), r"features\['R'\] must be a finite number"),
        ("[]", "a line must be a JSON object"),
        ("{", "not JSON"),
    ],
)
def test_a_malformed_line_is_refused_with_its_number(tmp_path: Path, line: str, message: str) -> None:
    path = write(tmp_path / "a.jsonl", TWO.splitlines()[0] + "\n\n" + line + "\n")
    with pytest.raises(ValueError, match=message) as caught:
        read_audit_history(path)
    assert f"{path}:3:" in str(caught.value)


def test_a_line_without_a_domain_is_unknown_and_counts_one(tmp_path: Path) -> None:
    (record,) = read_audit_history(write(tmp_path / "a.jsonl", '{"features":{"R":1},"knobs":{"K":1}}\n'))
    assert (record.domain, record.reward) == ("unknown", 1.0)


def test_a_directory_is_read_in_sorted_order(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    for name in ("b.jsonl", "a.jsonl", "deep/c.jsonl"):
        write(tmp_path / name, f'{{"domain":"{name}","features":{{"R":1}},"knobs":{{"K":1}}}}\n')
    write(tmp_path / "other.txt", "not read")
    transfer = CrossDomainMetaTransfer().fit_audit_directory(tmp_path)
    assert [record.domain for record in transfer.records] == ["a.jsonl", "b.jsonl", "deep/c.jsonl"]
    with pytest.raises(ValueError, match="no file below"):
        CrossDomainMetaTransfer().fit_audit_directory(tmp_path, "*.none")


def test_the_most_similar_example_wins() -> None:
    near = MetaPolicyRecord("near", {"R": 1.0, "x": 0.1}, {"K": 1.0})
    far = MetaPolicyRecord("far", {"x": 1.0}, {"K": 9.0})
    proposal = CrossDomainMetaTransfer().fit([far, near]).propose({"R": 1.0}, k_neighbours=1)
    assert proposal.neighbours == ("near",)
    assert proposal.knobs == {"K": 1.0}
    assert proposal.confidence == pytest.approx(1 / 1.01**0.5)


def test_votes_are_weighted_by_similarity_and_reward() -> None:
    records = [MetaPolicyRecord("a", {"R": 1.0}, {"K": 1.0}, 3.0), MetaPolicyRecord("b", {"R": 1.0}, {"K": 5.0}, 1.0)]
    assert CrossDomainMetaTransfer().fit(records).propose({"R": 2.0}).knobs == {"K": 2.0}


def test_unlike_examples_vote_equally_without_confidence() -> None:
    records = [MetaPolicyRecord("a", {"R": 1.0}, {"K": 1.0}), MetaPolicyRecord("b", {"R": 1.0}, {"zeta": 5.0})]
    proposal = CrossDomainMetaTransfer().fit(records).propose({"x": 1.0})
    assert proposal.knobs == {"K": 1.0, "zeta": 5.0}
    assert proposal.confidence == 0.0


@given(
    st.lists(
        st.tuples(
            st.dictionaries(st.sampled_from("abc"), st.floats(-1e300, 1e300), min_size=1),
            st.floats(-1e3, 1e3),
            st.floats(-5, 5),
        ),
        min_size=1,
        max_size=6,
    ),
    st.dictionaries(st.sampled_from("abcd"), st.floats(-1e300, 1e300), min_size=1),
)
def test_a_proposal_stays_between_its_neighbours(examples: list[Any], state: dict[str, float]) -> None:
    records = [MetaPolicyRecord("d", features, {"K": knob}, reward) for features, knob, reward in examples]
    proposal = CrossDomainMetaTransfer().fit(records).propose(state, k_neighbours=3)
    knobs = [record.knobs["K"] for record in records]
    assert min(knobs) - 1e-9 <= proposal.knobs["K"] <= max(knobs) + 1e-9
    assert 0.0 <= proposal.confidence <= 1.0


def test_records_are_immutable() -> None:
    features = {"R": 1.0}
    record = MetaPolicyRecord("d", features, {"K": 1.0})
    features["R"] = 2.0
    assert record.features["R"] == 1.0
    with pytest.raises(TypeError):
        record.features["R"] = 3.0  # type: ignore[index]


def test_a_manifest_permits_nothing_and_has_clean_names() -> None:
    arguments: dict[str, Any] = {
        "package_name": "a", "import_target": "b.c", "console_script": "d", "package_sha256": "",
        "training_summary": {},
    }  # fmt: skip
    assert MetaPackageManifest(**arguments).execution_permitted is False
    with pytest.raises(ValueError, match="execution_permitted must be False"):
        MetaPackageManifest(**arguments, execution_permitted=True)
    with pytest.raises(ValueError, match="package_name must match"):
        MetaPackageManifest(**{**arguments, "package_name": "../x"})


@pytest.mark.parametrize("size", [1e-310, 1.0, 1.7e308])
def test_votes_keep_their_digits_however_small_or_large_their_weights_are(size: float) -> None:
    records = [MetaPolicyRecord("a", {"R": 1.0}, {"K": 1.5}, size), MetaPolicyRecord("b", {"R": 1.0}, {"K": 1.5}, size)]
    faint = MetaPolicyRecord("c", {"R": 1e-300, "x": 1.0}, {"zeta": 2.5}, -1.0)
    proposal = CrossDomainMetaTransfer().fit([*records, faint]).propose({"R": 1.0})
    assert proposal.knobs == {"K": 1.5, "zeta": 2.5}


def test_a_line_without_end_is_refused_before_it_fills_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scpn_phase_orchestrator.meta.records.MAX_BYTES", 10)
    with pytest.raises(ValidationError, match="x:1: "):
        read_audit_history(write(tmp_path / "x", '{"domain": "grid", "features": {}}'))
