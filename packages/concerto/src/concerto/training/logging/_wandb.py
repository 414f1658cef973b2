"""The copy of a log in Weights & Biases: it can fail at any time without the run noticing."""

from __future__ import annotations

import importlib
import logging
import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from concerto.training.logging._identity import RunContext

_MODES_WITHOUT_KEY = ("offline", "dryrun", "disabled")
_LOGGER = logging.getLogger("concerto.training.logging")


class WandbSink(Protocol):
    """Where a copy of every event goes."""

    def log(self, data: Mapping[str, object], *, step: int | None = None) -> None:
        """Take the fields of one event."""
        ...

    def set_config(self, config: Mapping[str, object]) -> None:
        """Take what the run is."""
        ...

    def add_tags(self, tags: Iterable[str]) -> None:
        """Add labels such as ``stage:1`` or ``condition:as-hetero``; those that are there already change nothing."""
        ...

    def close(self) -> None:
        """End the copy."""
        ...


class WandbSettings(Protocol):
    """What `make_wandb_run_sink` reads from the configuration."""

    @property
    def enabled(self) -> bool:
        """Whether a copy is wanted at all."""
        ...

    @property
    def project(self) -> str:
        """Project of the copy."""
        ...


def make_wandb_run_sink(
    cfg: WandbSettings,
    ctx: RunContext,
    *,
    tags: Sequence[str] = (),
    config_extras: Mapping[str, object] | None = None,
    resume: bool = False,
) -> WandbSink | None:
    """Start the copy of a run in Weights & Biases; never raises.

    Args:
        cfg: whether, and into which project. The mode comes from ``WANDB_MODE``; ``offline`` and ``disabled`` need no
            ``WANDB_API_KEY``.
        ctx: the run.
        tags: labels; none is invented.
        config_extras: more to record about the run; wins over the fields of ``ctx``.
        resume: go on with a copy of this id, where there is one; otherwise a second one is refused by W&B.

    Returns:
        None when no copy is wanted, or, with one `UserWarning`, when there can be none.
    """
    if not cfg.enabled:
        return None
    mode = os.environ.get("WANDB_MODE", "online")
    if mode not in _MODES_WITHOUT_KEY and not os.environ.get("WANDB_API_KEY"):
        return _without_wandb("WANDB_API_KEY is not set (WANDB_MODE=offline needs none)")
    try:
        run = importlib.import_module("wandb").init(
            id=ctx.run_id,
            name=ctx.run_id,
            project=cfg.project,
            tags=tuple(tags) or None,
            config={**ctx.fields(), **(config_extras or {})},
            resume="allow" if resume else "never",
            reinit=True,  # several cells per process
        )
    except ImportError as error:
        return _without_wandb(f"wandb cannot be imported ({_short(error)}); pip install 'ripieno-concerto[wandb]'")
    except Exception as error:  # noqa: BLE001 - whatever W&B raises, the run goes on without it
        return _without_wandb(f"wandb.init failed ({_short(error)})")
    return _WandbRunSink(run)


def _without_wandb(reason: str) -> None:
    warnings.warn(f"no copy in Weights & Biases, the JSONL log goes on: {reason}", UserWarning, stacklevel=3)


def _short(error: BaseException) -> str:
    return f"{type(error).__name__}: {str(error)[:200]}"


class _WandbRunSink:
    """The sink of one W&B run."""

    def __init__(self, run: Any) -> None:
        self._run = run

    def log(self, data: Mapping[str, object], *, step: int | None = None) -> None:
        self._run.log(dict(data), step=step)

    def set_config(self, config: Mapping[str, object]) -> None:
        self._run.config.update(dict(config))

    def add_tags(self, tags: Iterable[str]) -> None:
        self._run.tags = tuple(dict.fromkeys((*(self._run.tags or ()), *tags)))

    def close(self) -> None:
        try:
            self._run.finish()
        except Exception as error:  # noqa: BLE001 - the log is complete, whatever W&B says
            _LOGGER.warning("Weights & Biases could not end its copy of the run: %s", _short(error))


class UnfailingSink:
    """Passes everything on to a sink until the sink fails to take an event; the run never notices."""

    def __init__(self, sink: WandbSink) -> None:
        self._sink = sink
        self._takes_events = True

    def log(self, data: Mapping[str, object], *, step: int | None) -> None:
        if self._takes_events:
            self._takes_events = self._try("take an event", lambda: self._sink.log(data, step=step))

    def set_config(self, config: Mapping[str, object]) -> None:
        self._try("take the configuration", lambda: self._sink.set_config(config))

    def close(self) -> None:
        self._try("end its copy", self._sink.close)

    @staticmethod
    def _try(what: str, act: Callable[[], None]) -> bool:
        try:
            act()
        except Exception as error:  # noqa: BLE001 - the log is the record; a copy may fail in any way it likes
            _LOGGER.warning("Weights & Biases could not %s, the JSONL log goes on: %s", what, _short(error))
            return False
        return True
