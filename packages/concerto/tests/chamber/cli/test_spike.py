"""``chamber-spike``: what it prints, how it ends, and what it refuses."""

from __future__ import annotations

import contextlib
import io
import json
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from chamber.cli._spike_page import _MEANINGS
from chamber.cli._spike_train import Request, _say_interrupted
from chamber.cli.spike import COMMANDS, main
from chamber.configs import shipped_config_names, shipped_config_path
from concerto.training.checkpoints import load_checkpoint_file, save_checkpoint
from concerto.training.protocols import TrainingInterrupted
from ripieno.run import read_manifest
from ripieno.verify import verify

SMALL = (
    "total_frames=600",
    "checkpoint_every=200",
    "happo.rollout_length=200",
    "happo.batch_size=100",
    "happo.hidden_dim=16",
    "env.episode_length=25",
)


def arguments(*more: str, config: str = "mpe_cooperative_push", overrides: tuple[str, ...] = SMALL) -> list[str]:
    words = ["train", "--config", config]
    for override in overrides:
        words += ["--override", override]
    return [*words, *more]


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def refused(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Run the command, and give the one line in which it refuses."""

    def run(*words: str) -> str:
        capsys.readouterr()
        assert main(words) == 2
        out, err = capsys.readouterr()
        assert out == ""
        lines = [line for line in err.splitlines() if "warning:" not in line]
        assert len(lines) == 1, err
        assert lines[0].startswith("chamber-spike: ")
        assert "internal error" not in lines[0]
        return lines[0].removeprefix("chamber-spike: ")

    return run


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which a small run has finished: ``logs`` and ``artifacts/artifacts``."""
    folder = tmp_path_factory.mktemp("trained")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert main(arguments()) == 0
    return folder


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A run folder of a small run with the safety stack, and what the command said of it."""
    folder = tmp_path_factory.mktemp("sealed")
    said = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(said):
        patch.chdir(folder)
        overrides = (*SMALL, "seed=5", "+safety.enabled=true")
        assert main(arguments("--out", "run", "--json", overrides=overrides)) == 0
    return folder / "run", json.loads(said.getvalue())


def checkpoint_of(folder: Path, step: int) -> Path:
    (path,) = folder.glob(f"artifacts/artifacts/*_step{step}.pt")
    return path


# --- what it prints -------------------------------------------------------------------------------------------


def test_without_a_command_it_says_its_name_and_helps(capsys: pytest.CaptureFixture[str]):
    assert main([]) == 0
    out = capsys.readouterr().out
    assert out.startswith("chamber-spike  (CHAMBER ")
    assert out.index("\n  train ") < out.index("\n  list-configs ")


def test_the_table_of_commands_says_what_the_commands_say(capsys: pytest.CaptureFixture[str]):
    for name, (_, _, line) in COMMANDS.items():
        assert main([name, "--help"]) == 0
        assert line in capsys.readouterr().out


def test_the_shipped_configurations_are_listed(capsys: pytest.CaptureFixture[str]):
    assert main(["list-configs", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [entry["name"] for entry in listed] == shipped_config_names()
    assert all(Path(entry["path"]).is_file() for entry in listed)
    assert main(["list-configs"]) == 0
    assert "mpe_cooperative_push  " in capsys.readouterr().out


def test_a_run_prints_the_documented_line(capsys: pytest.CaptureFixture[str]):
    assert main(arguments()) == 0
    out, _ = capsys.readouterr()
    words = dict(word.split("=") for word in out.split())
    assert list(words) == ["run_id", "n_episodes", "n_checkpoints", "mean_reward_last_10"]
    assert (len(words["run_id"]), words["n_episodes"], words["n_checkpoints"]) == (16, "24", "3")
    assert words["mean_reward_last_10"] == f"{float(words['mean_reward_last_10']):.4f}"
    assert Path("logs", f"{words['run_id']}.jsonl").is_file()


def test_without_a_run_folder_it_says_where_log_and_checkpoint_are(capsys: pytest.CaptureFixture[str]):
    assert main(arguments()) == 0
    checkpoint, log = capsys.readouterr().err.splitlines()
    assert Path(checkpoint.removeprefix("chamber-spike: checkpoint ")) == checkpoint_of(Path.cwd(), 600)
    (path,) = Path("logs").glob("*.jsonl")
    assert log == (
        f"chamber-spike: log {path}; draw the curve with: "
        f"chamber-analyze curve {path.stem} --archive-root logs --out curve.png"
    )


def test_another_partner_is_an_override_away(capsys: pytest.CaptureFixture[str]):
    overrides = ("partner.class_name=push_cooperative", "~partner.extra.target_xy", "~partner.extra.action_dim")
    assert main(arguments(overrides=(*SMALL, *overrides))) == 0
    assert "run_id=" in capsys.readouterr().out


def test_a_partner_whose_action_is_none_of_its_robot_is_refused(refused: Callable[..., str]):
    said = refused(*arguments(overrides=(*SMALL, "partner.extra.action_dim='3'")))
    assert said == (
        "the partner 'scripted_heuristic' does not fit mpe_cooperative_push: an action of the robot 'partner' has "
        "shape (2,), what the partner gives has (3,)"
    )


def test_k_is_the_number_of_episodes_when_there_are_fewer_than_ten(capsys: pytest.CaptureFixture[str]):
    assert main(arguments("--override", "total_frames=75", "--override", "happo.rollout_length=50")) == 0
    assert " n_episodes=3 n_checkpoints=1 mean_reward_last_3=" in capsys.readouterr().out


def test_a_check_that_does_not_pass_is_exit_3_and_a_second_line(capsys: pytest.CaptureFixture[str]):
    assert main(arguments("--override", "total_frames=100", "--check-guarantee")) == 3
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("run_id=")
    assert second == (
        "learning_signal_check slope=0.000000 p_value=1.00e+00 alpha=0.05 n_episodes=4 status=INSUFFICIENT_DATA"
    )


def test_json_is_one_object_on_stdout(capsys: pytest.CaptureFixture[str]):
    assert main(arguments("--json")) == 0
    out, _ = capsys.readouterr()
    result = json.loads(out)
    assert out.count("\n") == 1
    assert (result["status"], result["n_episodes"], result["frames"], result["safety"]) == ("complete", 24, 600, None)
    assert result["learning_signal_check"]["n_episodes"] == 24
    assert [Path(path).is_file() for path in result["checkpoints"]] == [True] * 3
    assert Path(result["log"]).is_file()


def test_what_is_wasteful_is_said_and_done(capsys: pytest.CaptureFixture[str]):
    assert main(arguments("--override", "total_frames=250")) == 0
    assert "chamber-spike: warning: the 250 frames of the run are no multiple" in capsys.readouterr().err


def test_the_safety_stack_is_one_override_away(capsys: pytest.CaptureFixture[str]):
    assert main(arguments("--override", "+safety.enabled=true", "--json")) == 0
    safety = json.loads(capsys.readouterr().out)["safety"]
    assert (safety["n_filter_calls"], safety["lambda_clamp_bound"]) == (600, 7.0)


def test_help_and_listing_load_nothing_heavy():
    heavy = ["torch", "hydra", "matplotlib", "numba", "gymnasium", "pydantic", "wandb"]
    code = f"""
import sys
from chamber.cli.spike import main
assert main(["--help"]) == 0 and main(["list-configs"]) == 0 and main(["train", "--help"]) == 0
print([name for name in {heavy} if name in sys.modules], file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"


# --- the run folder -------------------------------------------------------------------------------------------


def test_a_run_folder_verifies_and_holds_everything(sealed: tuple[Path, dict[str, Any]]):
    run, result = sealed
    report = verify(run, expect=result["digest"])
    assert report.ok, report.first_problem
    files = {path.relative_to(run).as_posix() for path in run.rglob("*") if path.is_file()}
    checkpoints = {f"artifacts/{result['run_id']}_step{step}.pt" for step in (200, 400, 600)}
    sidecars = {f"{name}.json" for name in checkpoints}
    log = f"logs/{result['run_id']}.jsonl"
    expected = {"config.yaml", log, "curve.json", "curve.png", "curve.svg", "index.html"}
    assert files == {"run.json", "events.jsonl"} | expected | checkpoints | sidecars
    manifest = read_manifest(run)
    assert (manifest["system"], manifest["kind"], manifest["seeds"]) == ("chamber", "training", {"seed": 5})
    assert manifest["summary"]["n_episodes"] == 24
    assert set(manifest["inputs"]) == {"config"}
    assert [path.name for path in run.parent.iterdir()] == ["run"], "log and checkpoints go nowhere else"
    for name in checkpoints:
        assert load_checkpoint_file(run / name)[1].run_id == result["run_id"]


def test_the_page_shows_curve_check_throughput_and_safety(sealed: tuple[Path, dict[str, Any]]):
    page = (sealed[0] / "index.html").read_text()
    for words in ("Learning curve", "The check of the slope", "Frames per second", "Telemetry of the safety stack"):
        assert words in page
    (log,) = (sealed[0] / "logs").iterdir()
    rates = [json.loads(line).get("override_rate") for line in log.read_text().splitlines()]
    told = [100.0 * rate for rate in rates if rate is not None]
    assert max(told) > 0.5
    assert f"It overrode {sum(told) / len(told):.1f} % of the ego's actions" in page.replace("\n", " ").replace(
        "&#39;", "'"
    )
    assert page.count("<svg") == 2
    logged = {name for line in log.read_text().splitlines() for name in json.loads(line) if '"train"' in line}
    context = {"event", "level", "metric_namespace", "run_id", "run_kind", "seed", "step", "wall_time"}
    unsaid = logged - context - set(_MEANINGS) - {"config_hash", "git_sha", "pyproject_hash", "partner_class", "task"}
    assert not unsaid, "metrics whose meaning the page does not say"
    assert "http://" not in page.replace("http://www.w3.org/", "")
    assert "<script" not in page


def test_the_page_of_a_run_that_does_not_learn_says_what_next():
    assert main(arguments("--override", "happo.lr=1e-9", "--check-guarantee", "--out", "run")) == 3
    assert "Next: a slow rise shows with more frames" in Path("run/index.html").read_text()


def test_the_stored_configuration_runs_the_same_again(
    sealed: tuple[Path, dict[str, Any]], capsys: pytest.CaptureFixture[str]
):
    run, result = sealed
    assert main(["train", "--config", str(run / "config.yaml"), "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert again["run_id"] == result["run_id"]
    for path in map(Path, again["checkpoints"]):
        assert (run / "artifacts" / path.name).read_bytes() == path.read_bytes()


def test_a_folder_that_exists_is_not_touched(refused: Callable[..., str]):
    Path("run").mkdir()
    Path("run/notes.txt").write_text("mine")
    assert "run exists already; choose another --out" in refused(*arguments("--out", "run"))
    assert [path.name for path in Path().iterdir()] == ["run"]
    assert Path("run/notes.txt").read_text() == "mine"


@pytest.mark.parametrize("words", [(), ("--resume", "run/artifacts/none.pt")])
def test_a_run_does_not_go_into_the_folder_of_another(
    words: tuple[str, ...], sealed: tuple[Path, dict[str, Any]], refused: Callable[..., str]
):
    shutil.copytree(sealed[0], "run")
    assert "would lie in the run folder" in refused(*arguments("--out", "run/artifacts/mine", *words))
    assert verify(Path("run")).ok


@pytest.mark.parametrize(
    "override",
    ["partner.class_name=nobody", "env.task=nope", 'partner.extra.action_dim="none"', "runtime.device=cuda"],
)
def test_a_run_that_is_refused_leaves_no_folder(override: str, refused: Callable[..., str]):
    refused(*arguments("--out", "run", "--override", override))
    assert list(Path().iterdir()) == []


def test_a_run_resumed_into_a_folder_brings_along_what_came_before(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    shutil.copytree(trained, tmp_path, dirs_exist_ok=True)
    checkpoint = checkpoint_of(tmp_path, 400)
    original = checkpoint_of(tmp_path, 600).read_bytes()
    for path in Path("artifacts/artifacts").glob("*_step600.pt*"):
        path.unlink()
    assert main(arguments("--resume", str(checkpoint), "--out", "run", "--json")) == 0
    result = json.loads(capsys.readouterr().out)
    assert verify(Path("run"), expect=result["digest"]).ok
    (last,) = Path("run/artifacts").glob("*_step600.pt")
    assert last.read_bytes() == original
    assert len(list(Path("run/artifacts").glob("*.pt"))) == 3
    log = Path("run/logs", f"{result['run_id']}.jsonl").read_text()
    events = [json.loads(line)["event"] for line in log.splitlines()]
    assert events.index("training_start") < events.index("training_resumed")
    assert set(read_manifest(Path("run"))["inputs"]) == {"config", "resumed_from"}


def test_the_page_of_a_resumed_run_tells_of_every_update_once(trained: Path, tmp_path: Path):
    """The log holds the last update twice: it was made before the run went back to its checkpoint, and again after."""
    shutil.copytree(trained, tmp_path, dirs_exist_ok=True)
    assert main(arguments("--resume", str(checkpoint_of(tmp_path, 400)), "--out", "run")) == 0
    assert "What the 3 updates of actor and critic report" in Path("run/index.html").read_text()


def test_a_run_that_goes_on_in_another_folder_takes_its_log_along(trained: Path, tmp_path: Path):
    place = tmp_path / "first.unfinished"
    shutil.copytree(trained / "artifacts/artifacts", place / "artifacts")
    shutil.copytree(trained / "logs", place / "logs")
    checkpoint = next((place / "artifacts").glob("*_step400.pt"))
    assert main(arguments("--resume", str(checkpoint), "--out", "second")) == 0
    (log,) = Path("second/logs").iterdir()
    assert json.loads(log.read_text().splitlines()[0])["event"] == "training_start"


# --- what it refuses ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--config", "missing.yaml"], "missing.yaml: there is no such file"),
        (["--config", "mpe_cooperative_pusch"], "mpe_cooperative_pusch: there is no such file, and no such conf"),
        (["--config", "."], ".: is a folder"),
        (["--config", ".."], "..: is a folder"),
        (["--config", "/"], "/: is a folder"),
        (["--config", ""], ": is a folder"),
        (["--config", "mpe_cooperative_push", "--override", "+env.num_envs=2"], "num_envs must be 1"),
        (["--config", "stage0_smoke", "--override", "+env.num_envs=2", "--override", "runtime.device=cpu"], "num_envs"),
        (["--config", "mpe_cooperative_push", "--override", "happo.learning_rate=1"], "happo.learning_rate"),
        (["--config", "mpe_cooperative_push", "--override", "happo.lr"], "cannot be read"),
        (["--config", "mpe_cooperative_push", "--override", "total_frames=0"], "total_frames"),
        (["--config", "mpe_cooperative_push", "--override", "seed=-1"], "seed"),
        (["--config", "mpe_cooperative_push", "--override", "safety.enabled=true"], "+safety.enabled=true"),
        (["--config", "mpe_cooperative_push", "--override", "env.task=nope"], "known: mpe_cooperative_push, stage0"),
        (["--config", "mpe_cooperative_push", "--override", "partner.class_name=nobody"], "nobody"),
        (["--config", "mpe_cooperative_push", "--override", "+env.mask_partner_obs=true"], "mask_partner_obs"),
        (["--config", "stage1_pickplace", "--override", "env.condition_id=null"], "condition_id"),
        (["--config", "cocarry_matched", "--override", "env.num_envs=2"], "num_envs"),
        (["--config", "mpe_cooperative_push", "--override", "runtime.device=cuda"], "runtime.device=cuda"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_bad_configuration_is_one_line_and_writes_nothing(words: list[str], said: str, refused: Callable[..., str]):
    assert said in refused("train", *words)
    assert list(Path().iterdir()) == []


def test_a_file_comes_before_a_name_and_a_name_before_a_folder(capsys: pytest.CaptureFixture[str]):
    Path("mpe_cooperative_push").mkdir()
    assert main(arguments("--json")) == 0
    by_name = json.loads(capsys.readouterr().out)["run_id"]
    Path("mpe_cooperative_push.yaml").write_text(
        shipped_config_path("mpe_cooperative_push").read_text().replace("seed: 0\n", "seed: 9\n", 1)
    )
    assert main(arguments("--json")) == 0
    assert json.loads(capsys.readouterr().out)["run_id"] != by_name


def test_an_unknown_command_or_option_is_a_usage_error(capsys: pytest.CaptureFixture[str]):
    assert main(["trian"]) == 2
    assert "No such command 'trian'" in capsys.readouterr().err
    assert main(["train"]) == 2
    assert "--config" in capsys.readouterr().err


def test_debug_shows_where_an_error_comes_from():
    with pytest.raises(ValueError, match="nobody"):
        main(arguments("--debug", "--override", "partner.class_name=nobody"))


def test_debug_shows_where_a_module_of_ones_own_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "fails_on_import.py").write_text("raise RuntimeError('fails here')\n")
    assert main(arguments("--import", "fails_on_import")) == 2
    with pytest.raises(RuntimeError, match="fails here"):
        main(arguments("--import", "fails_on_import", "--debug"))


def _flip(path: Path, at: float) -> None:
    data = bytearray(path.read_bytes())
    data[int(at * (len(data) - 1))] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda path: path.unlink(), "_step400.pt"),
        (lambda path: path.with_name(f"{path.name}.json").unlink(), "_step400.pt"),
        (lambda path: _flip(path, 0.0), "SHA-256"),
        (lambda path: _flip(path, 0.5), "SHA-256"),
        (lambda path: _flip(path, 1.0), "SHA-256"),
        (lambda path: path.write_bytes(b""), "SHA-256"),
        (lambda path: _flip(path.with_name(f"{path.name}.json"), 0.3), "_step400.pt"),
    ],
    ids=["missing", "no sidecar", "first byte", "middle", "last byte", "empty", "sidecar"],
)
def test_a_missing_or_corrupt_checkpoint_is_one_line_and_changes_nothing(
    spoil: Callable[[Path], Any], said: str, trained: Path, tmp_path: Path, refused: Callable[..., str]
):
    shutil.copytree(trained, tmp_path, dirs_exist_ok=True)
    checkpoint = checkpoint_of(tmp_path, 400)
    spoil(checkpoint)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert said in refused(*arguments("--resume", str(checkpoint)))
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_a_checkpoint_of_another_architecture_is_refused(trained: Path, refused: Callable[..., str]):
    checkpoint = str(checkpoint_of(trained, 400))
    said = refused(*arguments("--override", "happo.hidden_dim=32", "--resume", checkpoint, "--out", "run"))
    assert "another configuration" in said
    assert list(Path().iterdir()) == []


def test_a_policy_without_its_run_cannot_be_resumed(tmp_path: Path, trained: Path, refused: Callable[..., str]):
    state, metadata = load_checkpoint_file(checkpoint_of(trained, 400))
    del state["resume"]
    path = save_checkpoint(state_dict=state, uri="local://policy.pt", metadata=metadata, artifacts_root=tmp_path)
    assert "not the state of its run" in refused(*arguments("--resume", str(path)))


def test_a_checkpoint_that_cannot_be_kept_ends_the_run_and_earlier_ones_stay(
    trained: Path, tmp_path: Path, refused: Callable[..., str]
):
    """A limit of the file size stands in for a full disk: the log still fits, a checkpoint does not."""
    shutil.copytree(trained, tmp_path, dirs_exist_ok=True)
    checkpoint = checkpoint_of(tmp_path, 400)
    for path in Path("artifacts/artifacts").glob("*_step600.pt*"):
        path.unlink()
    before = {path.name: path.read_bytes() for path in Path("artifacts/artifacts").iterdir()}
    log = next(Path("logs").iterdir())
    limit = log.stat().st_size + 20_000
    assert limit < checkpoint.stat().st_size
    before_limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before_limit[1]))
    try:
        said = refused(*arguments("--resume", str(checkpoint)))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before_limit)
    assert said.startswith("cannot save")
    assert {path.name: path.read_bytes() for path in Path("artifacts/artifacts").iterdir()} == before
    assert json.loads(log.read_text().splitlines()[-1])["event"] == "training_aborted"
    assert main(arguments("--resume", str(checkpoint))) == 0


# --- what goes wrong on the way -------------------------------------------------------------------------------


def test_a_learner_that_diverged_is_told_from_an_environment_that_refuses(refused: Callable[..., str]):
    for more in ((), ("--override", "+safety.enabled=true")):
        assert refused(*arguments("--override", "happo.lr=1e308", *more)) == (
            "the learner diverged: after 200 frames the action of the robot 'ego' is not finite; "
            "a smaller happo.lr may help"
        )


@pytest.mark.parametrize("root", ["file/root", "/proc/none"])
def test_a_place_that_holds_no_checkpoints_is_refused_before_anything_is_written(
    root: str, refused: Callable[..., str]
):
    Path("file").write_text("mine")
    said = refused(*arguments("--override", f"artifacts_root={root}"))
    assert said.startswith(f"cannot write checkpoints into {Path(root).absolute()}/artifacts: ")
    assert [path.name for path in Path().iterdir()] == ["file"]


def test_a_log_that_cannot_be_opened_leaves_no_folder_for_checkpoints(refused: Callable[..., str]):
    Path("file").write_text("mine")
    refused(*arguments("--override", "log_dir=file/logs", "--override", "artifacts_root=deep/root"))
    assert [path.name for path in Path().iterdir()] == ["file"]


@pytest.mark.parametrize("out", ["/", ".", "..", "none/.."])
def test_a_run_folder_without_a_name_of_its_own_is_refused(out: str, refused: Callable[..., str]):
    assert "choose another --out" in refused(*arguments("--out", out))
    assert list(Path().iterdir()) == []


@pytest.mark.parametrize("as_json", [True, False])
def test_a_run_that_cannot_go_on_gets_no_command_that_goes_on(as_json: bool, capsys: pytest.CaptureFixture[str]):
    asked = Request("mpe_cooperative_push", (), None, None, check=False, as_json=as_json, arguments=("train",))
    _say_interrupted(asked, TrainingInterrupted(Path("a.pt"), can_resume=False))
    out, err = capsys.readouterr()
    if as_json:
        assert json.loads(out) == {"status": "interrupted", "checkpoint": "a.pt", "resume": None}
    else:
        assert "the policy is in a.pt, but this run cannot go on" in err
    assert "--resume" not in out + err


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("happo.clip_eps=1e308", "happo.clip_eps must be less than or equal to 1000000000, got 1e+308"),
        ("+happo.value_clip=1e39", "happo.value_clip must be less than or equal to 1000000000, got 1e+39"),
        ("+safety.lambda_safe=-1e308", "safety.lambda_safe must be greater than or equal to -1000000000, got -1e+308"),
        ("partner.extra.action_dim='1000000000000'", "there is not enough memory for the run: Unable to allocate 3.64"),
    ],
)
def test_numbers_that_nothing_can_compute_with_are_refused(override: str, said: str, refused: Callable[..., str]):
    assert said in refused(*arguments("--override", override))
