"""``agentinputlab serve-model``: a model on this machine, behind the API that every client speaks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from agentinputlab.backends.chat import Responder

__all__ = ["serve_model"]

_FILE = click.Path(path_type=Path)


@click.command("serve-model")
@click.option(
    "--scripted",
    "rules",
    type=_FILE,
    metavar="RULES",
    help="Answer by the rules of a YAML or JSON script; `pydoc agentinputlab.backends.scripted` lists their fields.",
)
@click.option("--replay", "recording", type=_FILE, metavar="FILE", help="Give recorded answers (JSON), in order.")
@click.option("--smollm2", is_flag=True, help="Run SmolLM2-135M-Instruct, a real small language model.")
@click.option("--gguf", type=_FILE, metavar="PATH", help="Weights for --smollm2 instead of the installed package's.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, show_default="a free one", help="Port on 127.0.0.1.")
@click.option("--token-env", metavar="NAME", help="Environment variable with the bearer token that clients must send.")
@click.option(
    "--max-connections",
    type=click.IntRange(min=1),
    default=32,
    show_default=True,
    help="Open at once; one more is answered 503.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
def serve_model(
    rules: Path | None,
    recording: Path | None,
    smollm2: bool,
    gguf: Path | None,
    port: int,
    token_env: str | None,
    max_connections: int,
    as_json: bool,
) -> None:
    """Serve a model over the OpenAI chat API on this machine.

    Prints the base URL once the server answers; Ctrl-C ends it with a line of counts. Nothing of a request or an
    answer is ever printed or logged. A request that does not arrive within 30 seconds is answered 408.

    \b
    Examples:
      agentinputlab serve-model --scripted rules.yaml
      agentinputlab serve-model --smollm2 --port 8080
    """
    if sum((rules is not None, recording is not None, smollm2)) != 1:
        raise click.UsageError("Give exactly one of --scripted, --replay and --smollm2.")
    if gguf is not None and not smollm2:
        raise click.UsageError("--gguf needs --smollm2.")
    token = _token(token_env)
    model, responder = _model(rules, recording, gguf)
    _serve(model, responder, port=port, token=token, max_connections=max_connections, as_json=as_json)


def _token(name: str | None) -> str | None:
    import os

    if name is None:
        return None
    token = os.environ.get(name, "")
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise click.UsageError(f"--token-env: {name} must be set to a token of visible ASCII characters.")
    return token


def _model(rules: Path | None, recording: Path | None, gguf: Path | None) -> tuple[str, Responder]:
    if rules is not None:
        from agentinputlab.backends.scripted import load_rules

        script = load_rules(rules)
        return script.model, script.respond
    if recording is not None:
        from agentinputlab.backends.recorded import load_recording

        recorded = load_recording(recording)
        return recorded.model, recorded.respond
    import os

    # One token is a row times matrices: a second BLAS thread gains little and loses all when the machine is busy.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from agentinputlab.model_server.smollm2 import MODEL_NAME, load

    click.echo("Loading SmolLM2, a few seconds ...", err=True)
    return MODEL_NAME, load(gguf).respond


def _serve(
    model: str, responder: Responder, *, port: int, token: str | None, max_connections: int, as_json: bool
) -> None:
    import json
    import signal
    import threading

    from agentinputlab.model_server import ChatServer

    ended = threading.Event()

    def end(number: int, frame: object) -> None:
        ended.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)
    try:
        server = ChatServer(responder, port=port, models=(model,), token=token, max_connections=max_connections)
    except OSError as error:
        raise click.UsageError(f"Cannot listen on port {port}: {error.strerror}. Choose another --port.") from error
    with server:
        ready = {"base_url": server.base_url, "model": model}
        click.echo(json.dumps(ready) if as_json else f"{model} answers at {server.base_url} (Ctrl-C ends it)")
        ended.wait()
    counts = server.counts.as_dict()
    if as_json:
        click.echo(json.dumps(counts))
        return
    click.echo(
        "{requests} requests: {answered} answered, {refused} refused, {faults} injected faults, {failed} failed; "
        "{input_tokens} tokens read, {output_tokens} written.".format(**counts)
    )
