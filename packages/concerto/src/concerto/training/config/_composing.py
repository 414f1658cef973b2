"""From a YAML file and overrides to plain values, through Hydra."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from concerto.training.config._interpolations import Interpolations
from ripieno.errors import InputError

if TYPE_CHECKING:
    from omegaconf import DictConfig
    from yaml import Node

__all__ = ["compose_values", "environment_keys", "require_hydra"]

_SUFFIXES = ("", ".yaml")
_MOST_BYTES = 100_000
_MOST_NODES = 2_000
"""Of a file, aliases written out: a short file can name billions."""


def require_hydra() -> None:
    """Check that configuration files can be read here.

    Raises:
        ImportError: Hydra is not installed; the message says how to install it.
    """
    if importlib.util.find_spec("hydra") is None:
        raise ImportError(
            "reading a training configuration needs hydra-core: pip install 'ripieno-concerto[train]'", name="hydra"
        )


def compose_values(config_path: Path, overrides: Sequence[str]) -> dict[Any, Any]:
    """Give what a file holds after the overrides, with its interpolations resolved.

    Raises:
        ImportError: Hydra is not installed.
        hydra.errors.MissingConfigException: there is no such file.
        hydra.errors.HydraException: an override cannot be read, or does not fit the file.
        omegaconf.errors.OmegaConfBaseException: an interpolation does not resolve.
        yaml.YAMLError: the file is no YAML.
        TypeError: the file holds a list.
        InputError: (a ValueError) the file is far larger than any configuration, aliases and interpolations written
            out, or what the environment says does not resolve.
    """
    require_hydra()
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    composed = _composed(config_path, overrides)
    interpolations = Interpolations(OmegaConf.to_container(composed))
    if interpolations.count(most=_MOST_NODES) > _MOST_NODES:
        raise InputError(f"is no configuration: it has more than {_MOST_NODES} values, interpolations written out")
    try:
        values = OmegaConf.to_container(composed, resolve=True, throw_on_missing=True)
    except OmegaConfBaseException as error:
        if error.full_key in interpolations.environment_keys() and "Environment variable" not in str(error):
            # The resolver's own message would show the value, which may be nobody's business.
            raise InputError(f"{error.full_key} comes from the environment, and does not resolve") from None
        raise
    return cast("dict[Any, Any]", values)


def environment_keys(config_path: Path, overrides: Sequence[str]) -> list[str]:
    """Give the dotted keys whose values depend on an environment variable; raises what `compose_values` does."""
    require_hydra()
    from omegaconf import OmegaConf

    return Interpolations(OmegaConf.to_container(_composed(config_path, overrides))).environment_keys()


def _composed(config_path: Path, overrides: Sequence[str]) -> DictConfig:
    from hydra import compose, initialize_config_dir
    from hydra.core.global_hydra import GlobalHydra
    from hydra.errors import ConfigCompositionException, MissingConfigException
    from omegaconf import ListConfig, OmegaConf

    # Hydra looks for `<stem>.yaml`; a file of another kind beside it must not be taken for that one.
    if config_path.suffix not in _SUFFIXES:
        raise MissingConfigException(f"a configuration file must end in .yaml, got {config_path}")
    GlobalHydra.instance().clear()
    folder = config_path.parent.resolve()
    path = folder / f"{config_path.stem}.yaml"
    if path.is_file():
        _refuse_a_flood(path)
    try:
        with initialize_config_dir(config_dir=str(folder), version_base="1.3"):
            return compose(config_name=config_path.stem, overrides=list(overrides))
    except ConfigCompositionException:
        if path.is_file() and isinstance(OmegaConf.load(path), ListConfig):
            raise TypeError(f"{config_path} must hold a mapping of settings, got a list") from None
        raise


def _refuse_a_flood(path: Path) -> None:
    """Refuse a file that would take minutes to read, or never be read at all."""
    import yaml

    with path.open(encoding="utf-8") as file:
        text = file.read(_MOST_BYTES + 1)
    if len(text) > _MOST_BYTES:
        raise InputError(f"is no configuration: it has more than {_MOST_BYTES} characters")
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    if root is not None and _count_nodes(root, {}) > _MOST_NODES:
        raise InputError(f"is no configuration: it has more than {_MOST_NODES} values, aliases written out")


def _count_nodes(node: Node, known: dict[int, int]) -> int:
    """Count a tree's nodes, an alias as often as it is used, but look at what it stands for only once.

    Raises:
        RecursionError: an alias stands for something that contains it, or the tree is very deep.
    """
    from yaml import MappingNode, SequenceNode

    if id(node) not in known:
        children: list[Node] = []
        if isinstance(node, MappingNode):
            children = [child for pair in node.value for child in pair]
        elif isinstance(node, SequenceNode):
            children = node.value
        known[id(node)] = 1 + sum(_count_nodes(child, known) for child in children)
    return known[id(node)]
