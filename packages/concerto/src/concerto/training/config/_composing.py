"""From a YAML file and overrides to plain values, through Hydra."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path

__all__ = ["compose_values", "require_hydra"]

_SUFFIXES = ("", ".yaml")


def require_hydra() -> None:
    """Check that configuration files can be read here.

    Raises:
        ImportError: Hydra is not installed; the message says how to install it.
    """
    if importlib.util.find_spec("hydra") is None:
        raise ImportError(
            "reading a training configuration needs hydra-core: pip install 'ripieno-concerto[train]'", name="hydra"
        )


def compose_values(config_path: Path, overrides: Sequence[str]) -> object:
    """Give what a file holds after the overrides, with its interpolations resolved: a mapping, if all is well.

    Raises:
        ImportError: Hydra is not installed.
        hydra.errors.MissingConfigException: there is no such file.
        hydra.errors.HydraException: an override cannot be read, or does not fit the file.
        omegaconf.errors.OmegaConfBaseException: an interpolation does not resolve.
        yaml.YAMLError: the file is no YAML.
        TypeError: the file holds a list.
    """
    require_hydra()
    from hydra import compose, initialize_config_dir
    from hydra.core.global_hydra import GlobalHydra
    from hydra.errors import ConfigCompositionException, MissingConfigException
    from omegaconf import ListConfig, OmegaConf

    # Hydra looks for `<stem>.yaml`; a file of another kind beside it must not be taken for that one.
    if config_path.suffix not in _SUFFIXES:
        raise MissingConfigException(f"a configuration file must end in .yaml, got {config_path}")
    GlobalHydra.instance().clear()
    folder = config_path.parent.resolve()
    try:
        with initialize_config_dir(config_dir=str(folder), version_base="1.3"):
            composed = compose(config_name=config_path.stem, overrides=list(overrides))
    except ConfigCompositionException:
        path = folder / f"{config_path.stem}.yaml"
        if path.is_file() and isinstance(OmegaConf.load(path), ListConfig):
            raise TypeError(f"{config_path} must hold a mapping of settings, got a list") from None
        raise
    return OmegaConf.to_container(composed, resolve=True)
