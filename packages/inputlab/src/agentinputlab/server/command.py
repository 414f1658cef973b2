"""``agentinputlab-serve``."""

from __future__ import annotations

import os

import click

from agentinputlab.model_server._connections import MAX_CONNECTIONS

__all__ = ["TOKEN_ENV", "serve"]

TOKEN_ENV = "AGENTINPUTLAB_API_TOKEN"  # noqa: S105 - the name of a variable, not a token


@click.command("agentinputlab-serve", context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--port", type=click.IntRange(0, 65535), default=8765, show_default=True, help="0 takes a free one.")
@click.option("--waiting", type=click.IntRange(min=0), default=0, show_default=True, help="Requests that may wait.")
@click.option(
    "--max-connections",
    type=click.IntRange(min=1),
    default=MAX_CONNECTIONS,
    show_default=True,
    help="Open at once; one more is answered 503.",
)
def serve(port: int, waiting: int, max_connections: int) -> None:
    """Serve the interventions that need no model, on this machine only.

    The token that clients must present comes from AGENTINPUTLAB_API_TOKEN (24 characters or more). Nothing is logged.
    A request that does not arrive within 30 seconds is answered 408.

    \b
    Example:
      export AGENTINPUTLAB_API_TOKEN=$(openssl rand -hex 24)
      agentinputlab-serve &
      curl -H "Authorization: Bearer $AGENTINPUTLAB_API_TOKEN" http://127.0.0.1:8765/v1/health
    """
    import threading

    from agentinputlab.server import LoopbackServer, default_service

    try:
        server = LoopbackServer(
            default_service(waiting=waiting),
            token=os.environ.get(TOKEN_ENV, ""),
            port=port,
            max_connections=max_connections,
        )
    except (ValueError, OSError) as error:
        reason = error.strerror if isinstance(error, OSError) else f"{TOKEN_ENV}: {error}"
        click.echo(f"agentinputlab-serve: {reason}", err=True)
        raise SystemExit(2) from error
    with server:
        click.echo(f"Serving on {server.url}; Ctrl-C ends it.")
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            click.echo("Stopped.")
