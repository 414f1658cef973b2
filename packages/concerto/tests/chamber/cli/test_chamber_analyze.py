"""``chamber-analyze`` on logs of the real loop, on resumed and torn logs, and on what is no archive."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from chamber.benchmarks.training_runner import build_env, build_partner
from chamber.cli.analyze import analyze, main
from concerto.training.config import EgoAHTConfig
from concerto.training.ego_aht import train

Answer = tuple[int, str, str]
Command = Callable[..., Answer]


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    """Run the command in this process and give its exit code, stdout and stderr."""

    def run(*arguments: str | Path) -> Answer:
        code = main([str(argument) for argument in arguments])
        said = capsys.readouterr()
        assert "Traceback" not in said.err
        return code, said.out, said.err

    return run


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str], list[list[float]]]:
    """Logs of two runs of the loop with a random ego: folder, run ids and curves."""
    root = tmp_path_factory.mktemp("archive")
    run_ids: list[str] = []
    curves: list[list[float]] = []
    for seed in (1, 0):
        cfg = EgoAHTConfig.model_validate(
            {
                "seed": seed,
                "total_frames": 1100,
                "checkpoint_every": 2000,
                "log_dir": root / "logs",
                "artifacts_root": root,
                "env": {"task": "mpe_cooperative_push"},
                "partner": {"extra": {"uid": "partner"}},
                "happo": {"rollout_length": 256},
            }
        )
        env = build_env(cfg.env, root_seed=seed)
        curve = train(cfg, env=env, partner=build_partner(cfg.partner), repo_root=root).curve
        run_ids.append(curve.run_id)
        curves.append(list(curve.per_episode_ego_rewards))
    return root, run_ids, curves


def write_log(path: Path, *events: dict[str, Any], run_id: str = "00000000000000aa", seed: int = 0) -> str:
    context = {"run_id": run_id, "seed": seed, "git_sha": "unknown", "run_kind": "ego_aht_happo", "task": "t"}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps({**context, **event}) + "\n" for event in events))
    return run_id


def start() -> dict[str, Any]:
    return {"event": "training_start", "total_frames": 100}


def episode(number: int, step: int, reward: float | None) -> dict[str, Any]:
    return {"event": "episode_end", "episode": number, "step": step, "reward": reward, "length": 10}


def scalar(step: int, **values: Any) -> dict[str, Any]:
    time = f"2026-05-22T15:54:{step % 60:02d}+00:00"
    return {"event": "scalar", "step": step, "metric_namespace": "train", "wall_time": time} | values


def test_an_archive_below_a_folder_of_the_name_of_recordings_has_its_runs(command: Command, tmp_path: Path) -> None:
    run_id = write_log(tmp_path / "rollouts/logs/a.jsonl", start())
    write_log(tmp_path / "rollouts/logs/rollouts/t/step_000001.jsonl", start(), run_id="00000000000000bb")
    for root in ("rollouts/logs", "rollouts"):
        _, out, _ = command("list-runs", "--archive-root", tmp_path / root, "--json")
        assert [run["run_id"] for run in json.loads(out)] == [run_id]


def test_a_run_without_a_safety_layer_has_no_slack(command: Command, tmp_path: Path) -> None:
    final = {"event": "safety_telemetry_final", "lambda_steady_state": 0.0}
    write_log(tmp_path / "off.jsonl", start(), final | {"safety_enabled": False})
    write_log(tmp_path / "on.jsonl", start(), final | {"safety_enabled": True}, run_id="00000000000000bb")
    _, out, _ = command("list-runs", "--archive-root", tmp_path, "--json")
    assert [run["lambda_steady_state"] for run in json.loads(out)] == [None, 0.0]


# --- what the loop writes --------------------------------------------------------------------------------------------


def test_runs_of_the_loop_are_listed_by_seed(command: Command, archive: Any) -> None:
    root, run_ids, _ = archive
    code, out, err = command("list-runs", "--archive-root", root, "--json")
    runs = json.loads(out)
    assert (code, err) == (0, "")
    assert [(run["seed"], run["run_id"]) for run in runs] == [(0, run_ids[1]), (1, run_ids[0])]
    assert {run["n_steps"] for run in runs} == {1100}
    assert {run["task"] for run in runs} == {"mpe_cooperative_push"}
    code, out, legend = command("list-runs", "--archive-root", root / "logs")
    heading, first, _ = out.splitlines()
    assert [line.split()[0] for line in legend.strip().splitlines()] == [*heading.split(), "-"]
    assert "m/s^2" in legend
    assert heading.split() == ["run_id", "sub_stage", "seed", "n_steps", "success", "reward", "lambda_ss"]
    assert first.split()[:5] == [run_ids[1], "-", "0", "1100", "-"]


def test_the_curve_is_that_of_the_run(command: Command, archive: Any, tmp_path: Path) -> None:
    root, run_ids, curves = archive
    _, out, _ = command("metrics", run_ids[0], "--archive-root", root, "--metric", "reward")
    assert [row["value"] for row in json.loads(out)] == curves[0][:22]
    assert [row["step"] for row in json.loads(out)] == list(range(50, 1101, 50))
    picture = tmp_path / "new" / "curve.png"
    code, out, _ = command("curve", run_ids[0], "--archive-root", root, "--out", picture)
    assert code == 0
    assert out.splitlines()[0].startswith("learning_signal_check slope=")
    assert out.splitlines()[1] == str(picture)
    assert picture.read_bytes().startswith(b"\x89PNG")
    vector = tmp_path / "curve.svg"
    code, out, _ = command(
        "curve", run_ids[0], "--archive-root", root, "--out", vector, "--overlay", "mean", "--window", "5", "--json"
    )
    assert json.loads(out)["report"]["n_episodes"] == 22
    assert "mean of the last 5 episodes" in vector.read_text()


def test_metrics_of_several_runs_in_one_figure(command: Command, archive: Any, tmp_path: Path) -> None:
    root, run_ids, _ = archive
    for name in ("a.svg", "b.svg", "c.png"):
        code, out, _ = command(
            "plot", *run_ids, "--archive-root", root, "--metric", "mean_reward", "--out", tmp_path / name
        )
        assert (code, out) == (0, f"{tmp_path / name}\n")
    text = (tmp_path / "a.svg").read_text()
    assert all(run_id in text for run_id in run_ids)
    assert text == (tmp_path / "b.svg").read_text()
    assert (tmp_path / "c.png").read_bytes()[16:24] == (960).to_bytes(4, "big") + (600).to_bytes(4, "big")


def test_a_figure_of_several_seeds_names_them_and_can_be_smoothed(command: Command, tmp_path: Path) -> None:
    seeds = [
        write_log(
            tmp_path / f"{k}.jsonl", start(), *(episode(n, 10 * n, n) for n in range(20)), run_id=f"run{k}", seed=k
        )
        for k in (3, 4)
    ]
    words = ("plot", *seeds, "--archive-root", tmp_path, "--metric", "reward", "--out", tmp_path / "a.svg")
    assert command(*words, "--window", "5")[0] == 0
    text = (tmp_path / "a.svg").read_text()
    assert all(word in text for word in ("run3, seed 3", "run4, seed 4", "reward, mean of 5 values"))
    code, _, err = command(*words, "--window", "21")
    assert (code, "--window 21 is more than the 20 values of run run3" in err) == (2, True)


def test_the_check_decides_the_exit_code_when_it_is_asked_to(command: Command, tmp_path: Path) -> None:
    falling = write_log(tmp_path / "a.jsonl", start(), *(episode(k, 10 * k, -k) for k in range(20)))
    assert command("curve", falling, "--archive-root", tmp_path, "--check-guarantee")[0] == 3
    assert command("curve", falling, "--archive-root", tmp_path)[0] == 0
    rising = write_log(tmp_path / "a.jsonl", start(), *(episode(k, 10 * k, k) for k in range(20)))
    assert command("curve", rising, "--archive-root", tmp_path, "--check-guarantee")[0] == 0
    broken = [episode(k, 10 * k, None if k == 3 else k) for k in range(20)]
    write_log(tmp_path / "a.jsonl", start(), *broken)
    _, out, _ = command("curve", rising, "--archive-root", tmp_path)
    assert out.endswith("status=INVALID\n")


# --- logs that were torn, went on, or are old ------------------------------------------------------------------------


def test_a_malformed_line_is_skipped_and_csv_has_the_documented_header(command: Command, tmp_path: Path) -> None:
    log = tmp_path / "a.jsonl"
    run_id = write_log(log, start(), scalar(10, loss=0.5), scalar(20, loss=True), scalar(30, loss=None))
    torn = b'\xff\n[1]\n{"event": "scalar", "loss": 1, "ste'
    log.write_bytes(log.read_bytes() + json.dumps(scalar(40, loss=2)).encode() + b"\n" + torn)
    out_file = tmp_path / "new" / "loss.csv"
    arguments = ("metrics", run_id, "--archive-root", tmp_path, "--metric", "loss", "--fmt", "csv")
    _, out, _ = command(*arguments)
    assert out == "step,wall_time,value\n10,2026-05-22T15:54:10+00:00,0.5\n40,2026-05-22T15:54:40+00:00,2\n"
    assert command(*arguments, "--output", out_file)[:2] == (0, "")
    assert out_file.read_text() == out


def test_what_a_resumed_run_played_again_counts_once(command: Command, tmp_path: Path) -> None:
    run_id = write_log(
        tmp_path / "a.jsonl",
        start(),
        *[episode(0, 10, 1.0), episode(1, 20, 2.0), scalar(20, loss=2.0), episode(2, 30, -9.0), episode(3, 40, -9.0)],
        {"event": "training_resumed", "step": 20},
        *[episode(2, 30, 3.0), scalar(20, loss=2.5)],
    )
    _, out, _ = command("metrics", run_id, "--archive-root", tmp_path, "--metric", "reward")
    assert [(row["step"], row["value"]) for row in json.loads(out)] == [(10, 1.0), (20, 2.0), (30, 3.0)]
    _, out, _ = command("metrics", run_id, "--archive-root", tmp_path, "--metric", "loss")
    assert [row["value"] for row in json.loads(out)] == [2.5]
    _, out, _ = command("summary", run_id, "--archive-root", tmp_path, "--json")
    assert json.loads(out)["n_steps"] == 30


def test_episodes_of_several_copies_that_end_together_all_count(command: Command, tmp_path: Path) -> None:
    run_id = write_log(tmp_path / "a.jsonl", start(), *(episode(k, 8 * (k // 4 + 1), k) for k in range(24)))
    _, out, _ = command("curve", run_id, "--archive-root", tmp_path, "--json")
    assert json.loads(out)["report"]["n_episodes"] == 24


def test_summary_fields_and_old_rewards(command: Command, tmp_path: Path) -> None:
    run_id = write_log(
        tmp_path / "a.jsonl",
        start(),
        {"event": "rollout_update", "step": 20, "last_reward": "tensor([-1.5])"},
        {"event": "safety_telemetry_final", "lambda_steady_state": -7.0},
    )
    _, out, _ = command("summary", run_id, "--archive-root", tmp_path, "--json")
    assert json.loads(out) == {
        "run_id": run_id,
        "jsonl_path": str(tmp_path / "a.jsonl"),
        "stage": None,
        "sub_stage": None,
        "condition": None,
        "seed": 0,
        "task": "t",
        "run_kind": "ego_aht_happo",
        "git_sha": "unknown",
        "n_steps": 20,
        "terminal_success_rate": None,
        "mean_reward_final": -1.5,
        "lambda_steady_state": -7.0,
    }
    _, out, _ = command("summary", run_id, "--archive-root", tmp_path)
    assert "  mean_reward_final: -1.5\n" in out
    assert "  stage: -\n" in out


def test_an_envelope_gives_stage_and_the_success_of_the_run_s_own_condition(command: Command, tmp_path: Path) -> None:
    evaluated = {"event": "eval", "step": 9, "condition": "het", "mean_episode_reward": -2.0}
    run_id = write_log(tmp_path / "a.jsonl", start(), evaluated, seed=3)
    episodes = [
        {"seed": seed, "success": success, "metadata": {"condition": condition}}
        for seed, condition, success in [(3, "het", True), (3, "het", False), (3, "hom", True), (4, "het", True)]
    ]
    pair = {"homogeneous_id": "hom", "heterogeneous_id": "het"}
    envelope = {"sub_stage": "1b", "condition_pair": pair, "episode_results": episodes}
    (tmp_path / "spike_a.json").write_text("not JSON")
    (tmp_path / "spike_b.json").write_text(json.dumps(envelope))
    _, out, _ = command("summary", run_id, "--archive-root", tmp_path, "--json")
    found = json.loads(out)
    assert (found["stage"], found["sub_stage"], found["condition"]) == ("1", "1b", "het")
    assert (found["terminal_success_rate"], found["mean_reward_final"]) == (0.5, -2.0)


def test_runs_side_by_side_and_one_that_is_not_there(command: Command, tmp_path: Path) -> None:
    run_id = write_log(tmp_path / "a.jsonl", start(), {"event": "rollout_update", "step": 20, "last_reward": -1.5})
    code, out, _ = command("compare", run_id, "nope", "--archive-root", tmp_path, "--json")
    absent = {"terminal_success_rate": None, "lambda_steady_state": None}
    assert code == 0
    assert json.loads(out) == [
        {"run_id": run_id, "mean_reward_final": -1.5, **absent},
        {"run_id": "nope", "error": "not_found"},
    ]
    _, out, _ = command("compare", run_id, "nope", "--archive-root", tmp_path, "--metrics", "seed,n_steps")
    assert [line.split() for line in out.splitlines()] == [
        ["run_id", "seed", "n_steps"],
        [run_id, "0", "20"],
        ["nope", "error:", "not_found"],
    ]


def test_logs_inside_run_folders_are_found_beside_other_lines(command: Command, tmp_path: Path) -> None:
    (tmp_path / "events.jsonl").write_text('{"event": "of the run folder"}\n')
    run_id = write_log(tmp_path / "first" / "logs" / "a.jsonl", start())
    write_log(tmp_path / "first" / "rollouts" / "c" / "step_000010.jsonl", {"event": "rollout_step"}, run_id="no")
    _, out, _ = command("list-runs", "--archive-root", tmp_path, "--json")
    assert [run["run_id"] for run in json.loads(out)] == [run_id]


def test_recordings_are_those_of_the_run(command: Command, tmp_path: Path) -> None:
    for name, run_id in (("one", "00000000000000aa"), ("two", "00000000000000bb")):
        write_log(tmp_path / name / "a.jsonl", start(), run_id=run_id)
        for step in (10, 20):
            path = tmp_path / name / "rollouts" / "c" / f"step_{step:06d}.jsonl"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps({"reward": step, "of": name}) + "\n")
    frames = ("rollout-frames", "00000000000000bb", "--archive-root", tmp_path)
    assert json.loads(command(*frames)[1]) == [{"reward": 10, "of": "two"}, {"reward": 20, "of": "two"}]
    out_file = tmp_path / "new" / "frames.json"
    assert command(*frames, "--episode", "20", "--field", "reward", "--out", out_file)[:2] == (0, "")
    assert json.loads(out_file.read_text()) == [20]
    assert (
        "nothing was recorded at frame 30; there are step_000010, step_000020" in command(*frames, "--episode", "30")[2]
    )
    assert "no step has a field 'nope'" in command(*frames, "--field", "nope")[2]


# --- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["summary", "00000000000000ab"], "there is no run '00000000000000ab' in ROOT; did you mean 00000000000000aa?"),
        (["metrics", "nope", "--metric", "loss"], "there is no run 'nope'"),
        (["metrics", "ID", "--metric", "los"], "has no metric 'los'; did you mean loss?"),
        (["metrics", "ID", "--metric", "loss", "--namespace", "eval"], "no metric 'loss' in namespace 'eval'"),
        (["plot", "ID", "nope", "--metric", "loss", "--out", "ROOT/a.png"], "there is no run 'nope'"),
        (["plot", "ID", "--metric", "loss", "--out", "ROOT/a.gif"], "must end in .png or .svg, got 'a.gif'"),
        (["plot", "ID", "--metric", "loss", "--out", "ROOT/a.png", "--logy"], "has no value above 0"),
        (
            ["plot", "ID", "--metric", "loss", "--out", "ROOT/a.png", "--ymin", "2", "--ymax", "1"],
            "--ymin must be less",
        ),
        (["curve", "ID"], "has no finished episode"),
        (["compare", "ID", "--metrics", "loss"], "--metrics takes fields of a summary"),
        (["rollout-frames", "ID"], "there is no folder rollouts below ROOT"),
        (["summary", "ID", "--output", "ROOT/a.jsonl/x"], "cannot write ROOT/a.jsonl/x"),
    ],
)
def test_refused_in_one_line(command: Command, tmp_path: Path, arguments: list[str], said: str) -> None:
    run_id = write_log(tmp_path / "a.jsonl", start(), scalar(10, loss=-0.5))
    filled = [argument.replace("ROOT", str(tmp_path)).replace("ID", run_id) for argument in arguments]
    code, out, err = command(*filled, "--archive-root", tmp_path)
    assert (code, out) == (2, "")
    assert err.startswith("chamber-analyze: ")
    assert err.count("\n") == 1
    assert said.replace("ROOT", str(tmp_path)) in err
    assert [path.name for path in tmp_path.iterdir()] == ["a.jsonl"]


def test_two_logs_of_a_run_are_not_mixed(command: Command, tmp_path: Path) -> None:
    for name in "ab":
        run_id = write_log(tmp_path / f"{name}.jsonl", start())
    code, _, err = command("summary", run_id, "--archive-root", tmp_path)
    assert code == 2
    assert f"has 2 logs, choose a narrower --archive-root: {tmp_path}/a.jsonl, {tmp_path}/b.jsonl" in err


def test_the_audit_gate_judges_the_last_record(
    command: Command, archive: tuple[Path, list[str], list[list[float]]], tmp_path: Path
) -> None:
    root, run_ids, _ = archive
    assert command("audit-gate", run_ids[0], "--archive-root", root / "logs")[0] == 0  # there was no safety layer
    lines = (root / "logs" / f"{run_ids[0]}.jsonl").read_text().splitlines()
    final = next(json.loads(line) for line in lines if "safety_telemetry_final" in line)
    judged = {"safety_enabled": True, "cartesian_accel_capacity": 10.0, "lambda_clamp_bound": 7.0}
    for fields, code in (
        ({"lambda_steady_state": -9.0}, 8),
        ({"lambda_steady_state": -5.0, "lambda_mean": -5.0, "lambda_var": 0.0}, 9),
    ):
        (tmp_path / "run.jsonl").write_text(json.dumps({**final, **judged, **fields}) + "\n")
        answer, out, _ = command("audit-gate", run_ids[0], "--archive-root", tmp_path, "--json")
        assert (answer, json.loads(out)["exit_code"]) == (code, code)
    (tmp_path / "run.jsonl").write_text(lines[0] + "\n")
    assert command("audit-gate", run_ids[0], "--archive-root", tmp_path)[0] == 3


def test_usage_errors_and_missing_archives_end_with_2(command: Command, tmp_path: Path) -> None:
    assert command("list-runs")[0] == 2
    assert command("nope")[0] == 2
    assert command()[0] == 2
    assert command("list-runs", "--archive-root", tmp_path / "none")[0] == 2
    code, out, err = command("list-runs", "--archive-root", tmp_path, "--json")
    assert (code, json.loads(out), err.count("\n")) == (0, [], 1)


@pytest.mark.parametrize("name", analyze.commands)
def test_every_command_has_an_example(command: Command, name: str) -> None:
    code, out, _ = command(name, "--help")
    assert code == 0
    assert f"chamber-analyze {name} " in out


def test_the_console_script() -> None:
    script = Path(sys.executable).with_name("chamber-analyze")
    done = subprocess.run([script, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("chamber-analyze, version ")


def test_a_title_is_printable_text_and_a_glyph_that_no_font_has_is_one_line(tmp_path: Path) -> None:
    log = write_log(tmp_path / "a.jsonl", start(), *(episode(k, 10 * k, k) for k in range(20)))
    words = ["plot", log, "--archive-root", str(tmp_path), "--metric", "reward", "--out", str(tmp_path / "a.svg")]
    done = subprocess.run(
        [sys.executable, "-m", "chamber.cli.analyze", *words, "--title", "a\x1b[31mb\n\U00020000"],
        capture_output=True,
        text=True,
        check=True,
    )
    (line,) = done.stderr.splitlines()
    assert line.startswith("chamber-analyze: warning: Glyph 131072 ")
    assert "\x1b" not in (tmp_path / "a.svg").read_text()
