"""``chamber-spike train``: train an ego, say what came out, leave what is needed to check it and to go on."""

from __future__ import annotations

import json
import math
import shlex
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from chamber.cli._options import importing

if TYPE_CHECKING:
    from chamber.cli._spike_folder import TrainingFolder
    from chamber.cli._spike_page import FinishedRun
    from chamber.cli._spike_progress import StopRequest
    from concerto.training.config import EgoAHTConfig
    from concerto.training.protocols import RewardCurve, TrainingInterrupted, TrainingProgress

__all__ = ["train_command"]

_PATH = click.Path(path_type=Path)


@dataclass(frozen=True)
class Request:
    """What was asked for.

    Attributes:
        config: path or name of a configuration.
        overrides: of single settings.
        resume: checkpoint to go on from.
        out: run folder.
        check: whether the learning-signal check decides about the exit code.
        as_json: whether the result is one JSON object.
        arguments: all of this as it was typed.
    """

    config: str
    overrides: tuple[str, ...]
    resume: Path | None
    out: Path | None
    check: bool
    as_json: bool
    arguments: tuple[str, ...]

    @property
    def config_path(self) -> Path:
        """The file of the configuration: a path when there is such a file, else one of the package's by name.

        Raises:
            InputError: there is neither.
        """
        from chamber.configs import shipped_config_names, shipped_config_path

        path, names = Path(self.config), shipped_config_names()
        is_file = path.is_file() or Path(f"{self.config}.yaml").is_file()
        if self.config in names and not is_file:
            return shipped_config_path(self.config)
        if is_file or path.exists():
            return path
        from ripieno.errors import InputError

        raise InputError(
            f"{self.config}: there is no such file, and no such configuration in the package, which has "
            f"{', '.join(names)}"
        )

    def command_that_goes_on(self, checkpoint: Path) -> str:
        """Give the command that continues this run from a checkpoint: the one that was given, but for ``--resume``."""
        kept: list[str] = []
        words = iter(self.arguments)
        for word in words:
            if word == "--resume":
                next(words, None)
            elif not word.startswith("--resume="):
                kept.append(word)
        return shlex.join(["chamber-spike", *kept, "--resume", str(checkpoint)])


@dataclass(frozen=True)
class SealedFolder:
    """A complete run folder, and the digest that pins it."""

    folder: Path
    digest: str

    @property
    def values(self) -> dict[str, str]:
        """Give it as JSON values."""
        return {"folder": str(self.folder), "page": str(self.folder / "index.html"), "digest": self.digest}


def _show_traceback(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
    if value:
        ctx.meta["debug"] = True  # which a context shares with those around it


@click.command("train")
@click.option(
    "--config",
    required=True,
    metavar="PATH|NAME",
    help="Configuration file, or a name of 'chamber-spike list-configs'.",
)
@click.option(
    "--override",
    "overrides",
    multiple=True,
    metavar="KEY=VALUE",
    help="Setting in place of the file's, such as happo.lr=1e-4; +KEY=VALUE when the file does not have it, ~KEY to "
    "leave one out.",
)
@click.option(
    "--check-guarantee", "check", is_flag=True, help="Exit with 3 unless the reward per episode grows significantly."
)
@click.option("--resume", type=_PATH, metavar="FILE", help="Go on from this checkpoint (.pt) of the same run.")
@click.option(
    "--out",
    type=_PATH,
    metavar="DIR",
    help="Also leave a sealed run folder with log, checkpoints, curve and page; log and checkpoints of the running "
    "training are in DIR.unfinished.",
)
@importing
@click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object.")
@click.option(
    "--debug", is_flag=True, is_eager=True, expose_value=False, callback=_show_traceback, help="Show tracebacks."
)
@click.pass_context
def train_command(ctx: click.Context, **options: Any) -> None:
    """Train an ego beside a frozen partner.

    Ctrl-C saves a checkpoint, prints the command that goes on exactly there, and exits with 130.

    \b
    Examples:
      chamber-spike train --config mpe_cooperative_push --out runs/first
      chamber-spike train --config mpe_cooperative_push --override seed=3 --override +safety.enabled=true
      chamber-spike train --config mpe_cooperative_push --import mine --override partner.class_name=my_partner
      chamber-spike train --config my.yaml --resume artifacts/artifacts/0123456789abcdef_step50000.pt
    """
    from chamber.cli._spike_progress import StopRequest
    from concerto.training.protocols import TrainingInterrupted

    request = Request(**options, arguments=tuple(ctx.obj))
    stop = StopRequest()
    try:
        with stop:
            finished, sealed = _train(request, stop)
    except TrainingInterrupted as interruption:
        _say_interrupted(request, interruption)
        ctx.exit(stop.exit_code)
    _say_finished(request, finished, sealed)
    if request.check and finished.report.status.name != "PASSED":
        from chamber.cli._groups import EXIT_NOT_LEARNING

        ctx.exit(EXIT_NOT_LEARNING)


def _train(request: Request, stop: StopRequest) -> tuple[FinishedRun, SealedFolder | None]:
    from concerto.training.config import configuration_warnings, environment_warnings, read_config

    config_path = request.config_path
    cfg = read_config(config_path, request.overrides)
    for warning in (*environment_warnings(config_path, request.overrides), *configuration_warnings(cfg)):
        click.echo(f"chamber-spike: warning: {warning}", err=True)
    _require_device(cfg.runtime.device)
    if request.out is None:
        return _run(cfg, request, stop), None
    from chamber.cli._spike_folder import TrainingFolder
    from chamber.cli._spike_page import result_files

    place = TrainingFolder(request.out, cfg=cfg, config_path=config_path, resume_from=request.resume)
    with place as folder, _noting_where_it_is(folder, request):
        finished = _run(folder.cfg, request, stop)
        digest = folder.seal(finished.curve.run_id, summary=_result(finished), files=lambda: result_files(finished))
    return finished, SealedFolder(request.out, digest)


def _require_device(device: str) -> None:
    """Find a missing device out before anything is written."""
    from chamber.benchmarks.ego_ppo_trainer import _resolve_device
    from ripieno.errors import InputError

    try:
        _resolve_device(device)
    except RuntimeError as error:
        raise InputError(str(error)) from error


@contextmanager
def _noting_where_it_is(folder: TrainingFolder, request: Request) -> Generator[None]:
    """Let an error say how the run can go on, if it can."""
    try:
        yield
    except Exception as error:
        checkpoint = folder.latest_checkpoint()
        if checkpoint is not None:
            error.add_note(f"what was trained is in {folder.unfinished}")
            error.add_note(f"go on with: {request.command_that_goes_on(checkpoint)}")
        raise


def _run(cfg: EgoAHTConfig, request: Request, stop: StopRequest) -> FinishedRun:
    from chamber.benchmarks.training_runner import run_training
    from chamber.cli._analyze_archive import run_log
    from chamber.cli._spike_page import FinishedRun
    from chamber.cli._spike_progress import training_bar
    from concerto.training.learning_signal_check import check_positive_learning_slope
    from ripieno.errors import InputError

    rate = 0.0
    with training_bar(cfg.total_frames) as show:

        def hear(now: TrainingProgress) -> None:
            nonlocal rate
            rate = now.frames_per_second
            show(now)

        started = time.perf_counter()
        try:
            result = run_training(cfg, resume_from=request.resume, progress=hear, should_stop=stop)
        except SystemExit as end:  # of foreign code: it must not look like the end of this command
            raise InputError(f"partner, trainer or environment called for the end of the process: {end!r}") from end
        seconds = time.perf_counter() - started
    curve = result.curve
    log = run_log(cfg.log_dir / f"{curve.run_id}.jsonl")
    return FinishedRun(
        cfg=cfg,
        curve=curve,
        report=check_positive_learning_slope(curve),
        log=[] if log is None else list(log.events()),
        frames=len(curve.per_step_ego_rewards) * cfg.env.num_envs,
        seconds=seconds,
        frames_per_second=rate,
    )


# --- what is said --------------------------------------------------------------------------------------------


def _result(run: FinishedRun) -> dict[str, Any]:
    """Give what came out as JSON values."""
    from concerto.training.learning_signal_check import slope_report_values

    mean = _mean_of_last(run.curve)[1]
    return {
        "run_id": run.curve.run_id,
        "n_episodes": len(run.curve.per_episode_ego_rewards),
        "n_checkpoints": len(run.curve.checkpoint_paths),
        "mean_reward_last_10": mean if math.isfinite(mean) else None,
        "frames": run.frames,
        "seconds": round(run.seconds, 3),
        "frames_per_second": round(run.frames_per_second, 1),
        "learning_signal_check": slope_report_values(run.report),
        "safety": run.safety_summary,
    }


def _say_finished(request: Request, run: FinishedRun, sealed: SealedFolder | None) -> None:
    if request.as_json:
        places = {
            "log": str(run.cfg.log_dir / f"{run.curve.run_id}.jsonl"),
            "checkpoints": [str(path) for path in run.curve.checkpoint_paths],
        }
        click.echo(json.dumps({"status": "complete", **_result(run), **(places if sealed is None else sealed.values)}))
        return
    from concerto.training.learning_signal_check import slope_report_line

    k, mean = _mean_of_last(run.curve)
    click.echo(
        f"run_id={run.curve.run_id} n_episodes={len(run.curve.per_episode_ego_rewards)} "
        f"n_checkpoints={len(run.curve.checkpoint_paths)} mean_reward_last_{k}={mean:.4f}"
    )
    if request.check:
        click.echo(slope_report_line(run.report))
    if sealed is not None:
        where, digest = sealed.folder, sealed.digest
        click.echo(f"Look at {where / 'index.html'}; check with: ripieno verify {where} --expect {digest}")
        return
    curve = shlex.join(["chamber-analyze", "curve", run.curve.run_id, "--archive-root", str(run.cfg.log_dir)])
    if run.curve.checkpoint_paths:
        click.echo(f"chamber-spike: checkpoint {run.curve.checkpoint_paths[-1]}", err=True)
    log = run.cfg.log_dir / f"{run.curve.run_id}.jsonl"
    click.echo(f"chamber-spike: log {log}; draw the curve with: {curve} --out curve.png", err=True)


def _say_interrupted(request: Request, interruption: TrainingInterrupted) -> None:
    path = interruption.checkpoint_path
    command = request.command_that_goes_on(path) if interruption.can_resume else None
    if request.as_json:
        click.echo(json.dumps({"status": "interrupted", "checkpoint": str(path), "resume": command}))
    elif command is None:
        click.echo(
            f"chamber-spike: stopped; the policy is in {path}, but this run cannot go on: "
            "its learner or its environment cannot be saved",
            err=True,
        )
    else:
        click.echo(f"chamber-spike: stopped; go on with:\n{command}", err=True)


def _mean_of_last(curve: RewardCurve) -> tuple[int, float]:
    """Give k <= 10 and the mean reward of the last k episodes."""
    last = list(curve.per_episode_ego_rewards)[-10:]
    return len(last), sum(last) / len(last) if last else math.nan
