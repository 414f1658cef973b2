"""From a file to a checked configuration."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pydantic import ValidationError

from concerto.training.config._composing import compose_values, require_hydra
from concerto.training.config._models import EgoAHTConfig
from concerto.training.config._problems import config_problem
from ripieno.errors import InputError

__all__ = ["load_config", "read_config"]


def load_config(*, config_path: Path, overrides: list[str] | None = None) -> EgoAHTConfig:
    """Read a configuration; neither the working folder nor the process's arguments matter.

    Args:
        config_path: a YAML file; only the folder in its path is looked into.
        overrides: in Hydra's grammar: ``a.b=value`` for a key of the file, ``+a.b=value`` for one it does not have,
            ``++a.b=value`` for either.

    Raises:
        ImportError: Hydra is not installed: ``pip install 'ripieno-concerto[train]'``.
        hydra.errors.MissingConfigException: there is no such file.
        hydra.errors.HydraException: an override cannot be read, or does not fit the file.
        TypeError: the file does not hold a mapping.
        pydantic.ValidationError: a value is refused.

    `read_config` gives every one of these but the first as one line.
    """
    return EgoAHTConfig.model_validate(compose_values(Path(config_path), overrides or []))


def read_config(config_path: Path, overrides: Sequence[str] = ()) -> EgoAHTConfig:
    """Read a configuration like `load_config`, and refuse it in one line.

    Raises:
        ImportError: Hydra is not installed.
        InputError: what is wrong, where it was said, and what was expected.
    """
    require_hydra()
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException
    from yaml import YAMLError

    refusals = (
        ValidationError,
        HydraException,
        OmegaConfBaseException,
        YAMLError,
        OSError,
        RecursionError,
        TypeError,
        ValueError,  # of Hydra, for an override such as `=3`, and of Python, for bytes that are no text
    )
    try:
        return load_config(config_path=config_path, overrides=list(overrides))
    except refusals as error:
        raise InputError(config_problem(error, config_path=config_path, overrides=overrides)) from error
