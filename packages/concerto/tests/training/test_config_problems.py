"""Every refused file and override is one line that names the place, the value and what was expected."""

from __future__ import annotations

from pathlib import Path

import pytest

from concerto.training.config import environment_warnings, read_config
from ripieno.errors import InputError

CELL = """
seed: 0
env:
  task: mpe_cooperative_push
  agent_uids: [ego, partner]
partner:
  extra: {uid: partner}
happo:
  lr: 3.0e-4
"""
BILLION_LAUGHS = b"a0: &a0 [x, x]\n" + b"".join(
    b"a%d: &a%d [%s]\n" % (n, n, b", ".join([b"*a%d" % (n - 1)] * 9)) for n in range(1, 10)
)


@pytest.fixture
def cell(tmp_path: Path) -> Path:
    path = tmp_path / "cell.yaml"
    path.write_text(CELL)
    return path


def problem(path: Path, *overrides: str) -> str:
    with pytest.raises(InputError) as refusal:
        read_config(path, overrides)
    text = str(refusal.value)
    assert "\n" not in text
    return text


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("happo.lrr=1", "there is no setting 'happo.lrr', did you mean 'happo.lr'?"),
        ("lr=1", "there is no setting 'lr', did you mean 'happo.lr'?"),
        ("+happo.lrr=1", "there is no setting 'happo.lrr', did you mean 'happo.lr'?"),
        ("enabled=true", "did you mean 'wandb.enabled' or 'safety.enabled' or 'rollout_recorder.enabled'?"),
        ("happo.speed=1", "there is no setting 'happo.speed'; those of 'happo' are lr, gamma,"),
        ("zzz=1", "there is no setting 'zzz'; those at the top are algo, seed,"),
        (
            "safety.enabled=true",
            "a setting that the file does not contain, so write it with a plus: +safety.enabled=true",
        ),
        ("partner.extra.k=a", "so write it with a plus: +partner.extra.k=a"),
        ("+happo.lr=1", "the file has 'happo.lr' already, so write it without the plus: happo.lr=1"),
        ("~safety", "there is no 'safety' in the file that could be taken out"),
        ("~env", "env is missing"),
        ("seed=1,2", "gives several values, and a run has one; a list is written seed=[a,b]"),
        ("seed", "cannot be read: expected KEY=VALUE"),
        ("=3", "names no setting: expected KEY=VALUE"),
        ("", "cannot be read: expected KEY=VALUE"),
        ("env.agent_uids=[a,", "cannot be read: expected KEY=VALUE"),
        ("seed=abc", "seed must be a whole number, got 'abc'"),
        ("seed=-1", "seed must be greater than or equal to 0, got -1"),
        ("seed=true", "seed must not be a flag, got true"),
        ("happo.lr=", "happo.lr must be a number, got ''"),
        ("happo=1", "happo must be a mapping of settings, got 1"),
        ("+happo.n_epochs=1.5", "happo.n_epochs must be a whole number, got 1.5"),
        ("+runtime.device=tpu", "runtime.device must be 'auto', 'cpu', 'cuda' or 'mps', got 'tpu'"),
        ("env.agent_uids=[a,a]", "env.agent_uids must be two different uids, got ['a', 'a']"),
        ("env.agent_uids=[a,b,c]", "env.agent_uids must have two entries, got ['a', 'b', 'c']"),
        (
            "+safety.clamp_floor_ratio=0.95",
            "safety.clamp_floor_ratio must be less than saturation_threshold (0.9), got",
        ),
        ("+shaping.settle_alpha=1", "shaping.settle_alpha must be 0 for any task but 'stage1_pickplace', got 1"),
        ("+happo.hidden_dim=1000000000000000000000", "happo.hidden_dim must be less than 9223372036854775808, got"),
        ("partner.extra.uid=8", 'must be text, got the number 8; quote it: uid: "8" in a file,'),
    ],
)
def test_override(cell: Path, override: str, said: str) -> None:
    text = problem(cell, override)
    assert text.startswith(f"override {override!r}")
    assert said in text


@pytest.mark.parametrize("override", ["seed=" + "9" * 5000, "x" * 5000, "algo=" + "[" * 1000])
def test_a_monstrous_override_is_refused_in_a_line_that_can_be_read(cell: Path, override: str) -> None:
    text = problem(cell, override)
    assert text.startswith(f"override '{override[:100]}")
    assert len(text) < 600


def test_the_hints_for_plus_signs_are_right(cell: Path) -> None:
    assert read_config(cell, ["+safety.enabled=true", "happo.lr=1"]).happo.lr == 1.0
    assert read_config(cell, ["+partner.extra.k='8'"]).partner.extra["k"] == "8"


def test_the_culprit_among_several_overrides_is_named(cell: Path) -> None:
    assert problem(cell, "seed=3", "happo.lr=1", "happo.lrr=2", "seed=4").startswith("override 'happo.lrr=2'")
    # What an earlier override put there is there for the later ones.
    assert read_config(cell, ["+safety.enabled=true", "safety.enabled=false"]).safety.enabled is False
    both = problem(cell, "env.task=cocarry")
    assert both.startswith(f"{cell} with its overrides: env.condition_id must name a condition of 'cocarry'")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "env is missing"),
        (b"- 1\n", "must hold a mapping of settings, got a list"),
        (b"env: [1, 2\nseed: 3\n", "line 2: expected ',' or ']', but got ':'"),
        (b"seed: 1\nseed: 2\n", "line 2: found duplicate key seed"),
        (b"\xff\xfe\x00", "is not UTF-8 text (byte 0)"),
        (b"a: " + b"[" * 900, "is nested too deeply"),
        (b"env:\n  task: ${nope}\n", "Interpolation key 'nope' not found"),
        (b"env: {task: t}\nhapo: {lr: 1}\n", "there is no setting 'hapo', did you mean 'happo'?"),
        (b"env: {task: t, nmu_envs: 1}\ntotal_frames: 0\n", "did you mean 'env.num_envs'? (and 1 more)"),
        (b"env: {task: t}\ntotal_frames: ???\n", "Missing mandatory value: total_frames"),
        (b"env: {task: t}\nalgo: ???\n", "Missing mandatory value: algo"),
        (b'env: {task: t}\nlog_dir: "a\\0b"\n', "log_dir must be a path without a null character"),
        (b"env: {task: t}\n" + b"#" * 100_000, "is no configuration: it has more than 100000 characters"),
        (b"a: &a [x" + b", x" * 2_000 + b"]\n", "is no configuration: it has more than 2000 values"),
        (BILLION_LAUGHS, "is no configuration: it has more than 2000 values, aliases written out"),
        (b"a: &a [*a]\n", "is nested too deeply"),
        (b"env: {task: t}\npartner: {extra: {action_dim: 2}}\n", 'quote it: action_dim: "2" in a file'),
    ],
)
def test_file(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "cell.yaml"
    path.write_bytes(content)
    text = problem(path)
    assert text.startswith(f"{path}: ")
    assert said in text


def test_file_that_is_not_there(tmp_path: Path) -> None:
    assert problem(tmp_path / "none.yaml", "seed=1") == f"{tmp_path}/none.yaml: there is no such file"
    assert problem(tmp_path / "gone" / "none.yaml") == f"{tmp_path}/gone/none.yaml: there is no such file"
    (tmp_path / "cell.yml").write_text(CELL)
    (tmp_path / "bare").write_text(CELL)
    for name in ("cell.yml", "bare"):
        assert problem(tmp_path / name) == f"{tmp_path}/{name}: a configuration file must end in .yaml"


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("seed=${oc.env:A_SECRET}", "seed must be a whole number, got something else from the environment"),
        ("seed=${partner.extra.uid}", "seed must be a whole number, got something else from the environment"),
        ("+safety.lambda_safe='${oc.decode:${oc.env:A_SECRET}}'", "comes from the environment, and does not resolve"),
        ("+partner.extra.x='${${oc.env:A_SECRET}}'", "refers to a key that is itself looked up"),
    ],
)
def test_what_the_environment_says_is_in_no_refusal(
    cell: Path, override: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A_SECRET", "hunter2 {")
    text = problem(cell, "partner.extra.uid=${oc.env:A_SECRET}", override)
    assert said in text
    assert "hunter2" not in text


def test_what_the_environment_decided_is_warned_of(cell: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_SECRET", "hunter2")
    overrides = ["+log_dir=${oc.env:A_SECRET}/logs", "+partner.extra.a=${env.task}", "+partner.extra.b=${log_dir}"]
    assert read_config(cell, overrides).partner.extra["b"] == "hunter2/logs"
    assert environment_warnings(cell, overrides) == [
        f"{key} comes from the environment: its value becomes part of the record, as plain text"
        for key in ("partner.extra.b", "log_dir")
    ]
    assert environment_warnings(cell) == []


@pytest.mark.parametrize("twice", ["${.x%d}${.x%d}", "{p: '${..x%d}', q: '${..x%d}'}", "${oc.select:x%d}${.x%d}"])
def test_interpolations_that_double_all_the_way_are_refused_at_once(cell: Path, twice: str) -> None:
    lines = [f"    x{n}: {twice % (n + 1, n + 1)}\n" for n in range(40)]
    cell.write_text(f"{CELL.partition('partner:')[0]}partner:\n  extra:\n{''.join(lines)}    x40: a\n")
    if "select" in twice:
        cell.write_text(cell.read_text().replace("select:", "select:partner.extra."))
    assert problem(cell).endswith("it has more than 2000 values, interpolations written out")


def test_interpolations_in_a_circle_are_refused(cell: Path) -> None:
    assert "Recursive interpolation" in problem(cell, "+partner.extra.a=${.b}", "+partner.extra.b=${.a}")


def test_ordinary_interpolations_are_resolved(cell: Path) -> None:
    overrides = ["+partner.extra.a='${seed}${seed}'", "+partner.extra.b='${env.agent_uids[1]}'", "+log_dir=l/${.seed}"]
    cfg = read_config(cell, overrides)
    assert (cfg.partner.extra["a"], cfg.partner.extra["b"], cfg.log_dir) == ("00", "partner", Path("l/0"))
