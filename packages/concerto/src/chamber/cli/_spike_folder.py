"""The run folder of a training: complete and sealed, or not there as a complete one.

    DIR              the run folder (`ripieno.run`), with everything that the finished run leaves
    DIR.unfinished   log and checkpoints while the run goes on; it is removed when DIR is complete

A run that stops early, by Ctrl-C, an error or SIGKILL, leaves DIR as an interrupted or failed run, which
``ripieno verify`` says, and every byte of log and checkpoints in DIR.unfinished. When it is resumed, that DIR moves to
DIR.unfinished/attempts and becomes part of the finished folder: it shows when the run was interrupted. A run that ends
before its first checkpoint cannot be resumed; its log goes into DIR. A run that is refused at the start leaves nothing.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from ripieno.errors import InputError, RipienoError, StorageError
from ripieno.run import RunStatus, RunWriter, read_manifest

if TYPE_CHECKING:
    from concerto.training._resuming import ResumePoint
    from concerto.training.config import EgoAHTConfig

__all__ = ["TrainingFolder"]

_KIND = "training"


class TrainingFolder:
    """Holds a run folder and its working place while a run goes on.

    A context manager: leaving it without `seal` closes the folder as failed, or as interrupted after a Ctrl-C.

    Args:
        folder: the run folder.
        cfg: what is run, as read.
        config_path: the file it was read from.
        resume_from: checkpoint to go on from, if any.

    Attributes:
        cfg: the configuration with log and checkpoints in the working place.
        unfinished: the working place.

    Raises:
        InputError: the folder or its working place belongs to another run, or to one that still goes on.
        CheckpointError: the checkpoint cannot be loaded.
        StorageError: the file system refuses.
    """

    def __init__(self, folder: Path, *, cfg: EgoAHTConfig, config_path: Path, resume_from: Path | None) -> None:
        from concerto.training.config import validated_copy

        self.folder = folder.absolute()
        if self.folder.name in {"", ".."}:  # there is no name that the working place could be called after
            raise InputError(f"{folder} is no name of a new run folder; choose another --out")
        self.unfinished = self.folder.with_name(f"{self.folder.name}.unfinished")
        self.cfg = validated_copy(cfg, log_dir=self.unfinished / "logs", artifacts_root=self.unfinished)
        self._config = cfg.model_dump(mode="json")
        self._require_outside_other_runs()
        point = None if resume_from is None else self._point_of_same_run(cfg, resume_from)
        if point is None:
            self._require_new()
        is_new_place = not self.unfinished.exists()
        self._lock = self._locked()
        try:
            if point is not None:
                self._take_what_came_before(cfg.log_dir, point)
                self._put_attempt_aside()
            inputs = {"config": config_path} | ({} if resume_from is None else {"resumed_from": resume_from})
            self._run = RunWriter(
                self.folder,
                system="chamber",
                kind=_KIND,
                config=self._config,
                seeds={"seed": cfg.seed},
                inputs=inputs,
            )
            self._run.artifact("config.yaml", _as_yaml(self._config))
        except BaseException:
            if is_new_place:
                shutil.rmtree(self.unfinished, ignore_errors=True)
            os.close(self._lock)
            raise

    # --- before the run ---------------------------------------------------------------------------------------

    def _require_outside_other_runs(self) -> None:
        """A run folder that gets something added no longer verifies."""
        around = next((folder for folder in self.folder.resolve().parents if (folder / "run.json").exists()), None)
        if around is not None:
            raise InputError(f"{self.folder} would lie in the run folder {around}; choose another --out")

    def _require_new(self) -> None:
        if self.unfinished.exists():
            last = self.latest_checkpoint()
            go_on = "it has no checkpoint yet: remove it" if last is None else f"go on with --resume {last}"
            raise InputError(f"{self.unfinished} holds a run that was not finished; {go_on}, or choose another --out")
        if os.path.lexists(self.folder):
            raise InputError(f"the run folder {self.folder} exists already; choose another --out")

    def _point_of_same_run(self, cfg: EgoAHTConfig, checkpoint: Path) -> ResumePoint:
        """Read the checkpoint; a run that goes on may replace its own unfinished folder, and nothing else."""
        from concerto.training._resuming import read_resume_point
        from concerto.training.config import config_fingerprint

        point = read_resume_point(checkpoint, config_hash=config_fingerprint(cfg))
        if not os.path.lexists(self.folder):
            return point
        manifest = read_manifest(self.folder)
        if manifest["status"] == RunStatus.COMPLETE.value:
            raise InputError(f"the run folder {self.folder} is complete already; choose another --out")
        if (manifest["system"], manifest["kind"]) != ("chamber", _KIND) or manifest["config"] != self._config:
            raise InputError(f"the run folder {self.folder} belongs to another run; choose another --out")
        return point

    def _locked(self) -> int:
        """Make the working place, and keep a second process out of it."""
        try:
            self.unfinished.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(self.unfinished / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise StorageError(f"cannot make {self.unfinished}: {error.strerror}") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            raise InputError(f"another process is training into {self.folder}") from error
        return descriptor

    def _take_what_came_before(self, log_dir: Path, point: ResumePoint) -> None:
        """Copy log and checkpoints of a run that went elsewhere until now, so that one folder tells all of it."""
        run_id, artifacts = point.metadata.run_id, self.unfinished / "artifacts"
        if point.path.resolve().parent == artifacts.resolve():
            return
        log_name = f"{run_id}.jsonl"
        beside = point.path.parent.parent / "logs"  # where a run folder and its working place have it
        log = next((folder / log_name for folder in (beside, log_dir) if (folder / log_name).is_file()), None)
        copies = {} if log is None else {log: self.cfg.log_dir / log_name}
        for payload in _checkpoints(point.path.parent):
            if payload.name.startswith(f"{run_id}_step"):
                copies |= {path: artifacts / path.name for path in (payload, _sidecar(payload))}
        for source, target in copies.items():
            if source.is_file() and not target.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, target)

    def _put_attempt_aside(self) -> None:
        if not self.folder.exists():
            return
        attempts = self.unfinished / "attempts"
        attempts.mkdir(mode=0o700, exist_ok=True)
        self.folder.rename(attempts / str(1 + sum(1 for _ in attempts.iterdir())))

    # --- after the run ----------------------------------------------------------------------------------------

    def seal(self, run_id: str, *, summary: Mapping[str, Any], files: Callable[[], Mapping[str, bytes | str]]) -> str:
        """Move everything into the run folder, close it as complete, check it, and remove the working place.

        Args:
            run_id: of the finished run.
            summary: for ``run.json``.
            files: makes further files, by name: figures and the page.

        Returns:
            The digest that pins the folder.

        Raises:
            StorageError: the file system refuses; the working place still has everything.
        """
        from ripieno.errors import IntegrityError
        from ripieno.verify import verify

        self._run.artifact(f"logs/{run_id}.jsonl", self.cfg.log_dir / f"{run_id}.jsonl")
        for payload in _checkpoints(self.unfinished / "artifacts"):
            for path in (payload, _sidecar(payload)):
                self._run.artifact(f"artifacts/{path.name}", path)
        for path in sorted((self.unfinished / "attempts").rglob("*")):
            if path.is_file():
                self._run.artifact(path.relative_to(self.unfinished).as_posix(), path)
        for name, content in files().items():
            self._run.artifact(name, content)
        digest = self._run.finish(summary=summary)
        report = verify(self.folder, expect=digest)
        if not report.ok:
            raise IntegrityError(f"the run that was just written does not verify: {report.first_problem}")
        shutil.rmtree(self.unfinished, ignore_errors=True)
        return digest

    def latest_checkpoint(self) -> Path | None:
        """Give the payload of the last checkpoint in the working place; None when there is none."""
        return next(reversed(_checkpoints(self.unfinished / "artifacts")), None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        from concerto.training.protocols import TrainingInterrupted

        if isinstance(error, TrainingInterrupted):  # a wish of the user's, and no failure
            kind, error = KeyboardInterrupt, KeyboardInterrupt(str(error))
        try:
            if error is not None and self._has_nothing_to_resume():
                self._leave(kind, error, trace)
            else:
                self._run.__exit__(kind, error, trace)
        finally:
            os.close(self._lock)

    def _has_nothing_to_resume(self) -> bool:
        return self.latest_checkpoint() is None and not (self.unfinished / "attempts").exists()

    def _leave(self, kind: type[BaseException] | None, error: BaseException, trace: TracebackType | None) -> None:
        """End a run that cannot be resumed: what was logged goes into the folder; without a log, nothing began."""
        logs = sorted(self.cfg.log_dir.glob("*.jsonl"))
        try:
            for log in logs:
                self._run.artifact(f"logs/{log.name}", log)
            shutil.rmtree(self.unfinished, ignore_errors=True)
        except RipienoError as problem:
            error.add_note(f"The log stays in {self.unfinished}: {problem}")
        self._run.__exit__(kind, error, trace)
        if not logs:
            shutil.rmtree(self.folder, ignore_errors=True)


def _checkpoints(folder: Path) -> list[Path]:
    """Payloads that have their sidecar, by number of frames: the names of a run differ in it only."""
    found = (path for path in folder.glob("*.pt") if _sidecar(path).exists())
    return sorted(found, key=lambda path: (len(path.name), path.name))


def _sidecar(payload: Path) -> Path:
    return payload.with_name(f"{payload.name}.json")


def _as_yaml(config: Mapping[str, Any]) -> str:
    import yaml

    return yaml.safe_dump(json.loads(json.dumps(config)), sort_keys=False, allow_unicode=True)
