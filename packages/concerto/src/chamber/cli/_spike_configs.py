"""``chamber-spike list-configs``: the training configurations of the package."""

from __future__ import annotations

import json

import click

__all__ = ["list_configs_command"]


@click.command("list-configs")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list with the path of every file.")
def list_configs_command(as_json: bool) -> None:
    """List the configurations that come with the package.

    A name is what 'chamber-spike train --config' takes; the file is a start for one of your own.

    \b
    Example:
      chamber-spike list-configs
    """
    from chamber.configs import shipped_config_names, shipped_config_path

    files = [(name, shipped_config_path(name)) for name in shipped_config_names()]
    if as_json:
        click.echo(json.dumps([{"name": name, "path": str(path)} for name, path in files]))
        return
    width = max(len(name) for name, _ in files)
    for name, path in files:
        click.echo(f"{name:<{width}}  {path}")
