"""``ripieno demo push``: run the planar push cell with and without the safety stack, verify it, say where to look."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import click

from chamber._progress import progress_bar

if TYPE_CHECKING:
    from chamber.cell.config import Cell
    from chamber.cell_report.training import ShortTraining
    from ripieno.report import Section

__all__ = ["TRAINING_FRAMES", "run_demo"]

TRAINING_FRAMES = 40 * 1024
"""Forty rollouts: a few seconds, and long enough for the check of the slope to see what was learned."""

_TRAINING_CONFIG = "mpe_cooperative_push"
_TRAINING_PACKAGES = ("torch", "hydra", "omegaconf", "structlog")
"""What the extra ``train`` brings beyond what the demo itself needs."""


@click.command("push")
@click.option(
    "--cell",
    "cell_path",
    type=click.Path(path_type=Path),
    help="Cell to run (YAML). Default: the preregistered cell of the package.",
)
@click.option(
    "--checkpoint",
    type=click.Path(path_type=Path),
    help="Checkpoint (.pt) of a trained ego, which takes the place of the hand-written one.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Run folder to make; it must not exist. Default: runs/push-<UTC timestamp>.",
)
@click.option(
    "--episodes",
    type=click.IntRange(min=1, max=10_000),
    help="Episodes per partner and condition, instead of the cell's own.",
)
@click.option(
    "--training-frames",
    type=click.IntRange(min=0, max=10_000_000),
    help=f"Frames of the short training. Default: {TRAINING_FRAMES}; none with --cell or --checkpoint.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object.")
@click.option("--debug", is_flag=True, expose_value=False, help="Show the traceback of an error.")
def run_demo(
    cell_path: Path | None,
    checkpoint: Path | None,
    out: Path | None,
    episodes: int | None,
    training_frames: int | None,
    as_json: bool,
) -> None:
    """Run the planar push task with and without the safety stack.

    The partners are three black boxes. Where PyTorch is installed an ego also learns, for a few seconds, and the page
    shows its learning curve. Takes half a minute the first time, because it compiles, and seconds later. It verifies
    its own output and says where to look.

    Example: ripieno demo push --out runs/first
    """
    # Everything is imported late: `ripieno --help` loads this module, and bad input should be answered at once.
    cell, text, checkpoint = _read_cell(cell_path, checkpoint)
    if episodes is not None:
        cell = cell.model_copy(update={"episodes": episodes})
    is_own = cell_path is not None or checkpoint is not None
    learning = _Learning(frames=(0 if is_own else TRAINING_FRAMES) if training_frames is None else training_frames)
    folder = out if out is not None else Path("runs") / f"push-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"

    from chamber.cell.runner import run_cell
    from chamber.cell_report import render_cell_page
    from chamber.cell_report.page import headline
    from chamber.rollout._demo_ending import say_ending

    with progress_bar(cell.n_episodes) as progress, TemporaryDirectory() as scratch:
        result = run_cell(
            cell,
            folder,
            cell_text=text,
            checkpoint=checkpoint,
            more=lambda: learning.files(Path(scratch), lambda words: progress(cell.n_episodes, words)),
            pages={"index.html": lambda record: render_cell_page(record, learning=learning.section())},
            progress=progress,
        )
    learned = learning.headline()
    came_out = headline(result.record)
    say_ending(
        folder,
        result.digest,
        as_json=as_json,
        headlines=[came_out] if learned is None else [came_out, learned],
        summary={"headline": came_out, "learning": learned},
        next_step=f"check again with: ripieno verify {folder} --expect {result.digest}",
    )


def _read_cell(cell_path: Path | None, checkpoint: Path | None) -> tuple[Cell, str, Path | None]:
    """Give the cell, its text, and the checkpoint of its ego, if that is a trained one."""
    from chamber.cell.loading import (
        default_cell_text,
        parse_cell,
        pin_checkpoint,
        read_cell_text,
        trained_cell_text,
    )

    if cell_path is not None:
        text, source = read_cell_text(cell_path), str(cell_path)
    elif checkpoint is not None:
        text, source = trained_cell_text(), "planar_push_trained.yaml"
    else:
        text, source = default_cell_text(), "planar_push.yaml"
    beside = Path() if cell_path is None else cell_path.parent
    cell = parse_cell(text, source=source)
    pinned, path = pin_checkpoint(cell, source=source, folder=beside, checkpoint=checkpoint)
    return pinned, text, path


class _Learning:
    """The short training of the demo: run when its files are asked for, told when the page is made.

    Args:
        frames: how long; 0 for no training and no section.
    """

    def __init__(self, *, frames: int) -> None:
        self._frames = frames
        self._missing = [name for name in _TRAINING_PACKAGES if find_spec(name) is None]
        self._training: ShortTraining | None = None

    def files(self, scratch: Path, say: Callable[[str], None]) -> Mapping[str, str | bytes | Path]:
        """Train, and give log, checkpoint, sidecar and curve by their names in the folder of the demo."""
        if self._frames == 0 or self._missing:
            return {}
        say(f"learning for {self._frames:,} frames")
        self._training, files = _train(self._frames, scratch)
        return files

    def section(self) -> Section | None:
        """Give the section of the page."""
        from chamber.cell_report.training import learning_section, missing_section

        if self._training is not None:
            return learning_section(self._training)
        return missing_section(self._missing) if self._frames > 0 else None

    def headline(self) -> str | None:
        """Say what came out, None without a training."""
        from chamber.cell_report.training import learning_headline

        return None if self._training is None else learning_headline(self._training)


def _train(frames: int, scratch: Path) -> tuple[ShortTraining, Mapping[str, str | bytes | Path]]:
    """Train the shipped configuration for some frames, with everything that it writes in a folder."""
    from chamber.benchmarks.training_runner import run_training
    from chamber.cell_report.training import ShortTraining
    from chamber.configs import shipped_config_path
    from concerto.training.config import load_config, validated_copy
    from concerto.training.learning_signal_check import check_positive_learning_slope, plot_slope_curve

    cfg = validated_copy(
        load_config(config_path=shipped_config_path(_TRAINING_CONFIG)),
        total_frames=frames,
        checkpoint_every=frames,
        log_dir=scratch / "logs",
        artifacts_root=scratch,
    )
    curve, _ = run_training(cfg)
    report = check_positive_learning_slope(curve)
    picture, numbers = plot_slope_curve(curve, report=report, out_dir=scratch)
    payload = curve.checkpoint_paths[-1]
    files = {
        "training/curve.png": picture,
        "training/curve.json": numbers,
        f"training/{curve.run_id}.jsonl": cfg.log_dir / f"{curve.run_id}.jsonl",
        "training/ego.pt": payload,
        "training/ego.pt.json": payload.with_name(f"{payload.name}.json"),
    }
    training = ShortTraining(
        config=_TRAINING_CONFIG,
        frames=frames,
        partner=cfg.partner.class_name,
        seed=cfg.seed,
        curve=curve,
        report=report,
        checkpoint="training/ego.pt",
        log=f"training/{curve.run_id}.jsonl",
    )
    return training, files
