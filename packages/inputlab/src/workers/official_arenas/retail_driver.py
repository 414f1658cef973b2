"""Durable paired worker: JSON request on stdin, JSON response on stdout, every attempt kept in a ledger.

Start it as a file or with ``python -m workers.official_arenas.retail_driver``. A pair runs once: a repeated request
is answered from its ledger, and an attempt that did not end is never run again.
"""

from __future__ import annotations

import sys
from pathlib import Path

if not __package__:  # started as a file: make `workers` importable
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self, cast

from ripieno.canonical import canonical_json, plain_json
from ripieno.errors import InputError
from ripieno.receipts import seal
from workers.official_arenas import _pair_ledger, _scopes
from workers.official_arenas import driver as shared
from workers.official_arenas._console import NOT_WRITTEN, quiet_console, say
from workers.official_arenas._drafts import arena_entrypoint, blank_authorizations, write_draft
from workers.official_arenas._evidence import (
    MAX_EVIDENCE_BYTES,
    Directory,
    evidence_bytes,
    parse_json,
    parse_object,
    plain_evidence_bytes,
    plain_hash,
    read_regular,
    read_tree,
    reject_duplicate_keys,
    sha256_bytes,
)
from workers.official_arenas._first_capture import SEED
from workers.official_arenas._pair_ledger import PairBinding, RetailAttemptUnavailable
from workers.official_arenas._pair_play import Pair, arms_by_role, play
from workers.official_arenas._payloads import build_envelope, build_payload, build_request
from workers.official_arenas._rejections import note_rejection
from workers.official_arenas.protocol import (
    REQUEST_PROTOCOL,
    WORKER_PROTOCOL,
    OfficialArenaError,
    OfficialArenaProvider,
    content_hash,
    materialized_state,
    resolve_shared_budget_config,
)
from workers.official_arenas.providers import PROVIDERS, provider_entrypoint, resolve_provider

__all__ = [
    "PROVIDER_ENTRYPOINT",
    "SCOPE_PATH_ENV",
    "SCOPE_PROTOCOL",
    "SCOPE_SHA256_ENV",
    "PairSession",
    "RetailAttemptUnavailable",
    "build_envelope",
    "build_payload",
    "build_request",
    "cell_id",
    "cell_identity",
    "draft_scope",
    "main",
    "quiet_console",
    "run",
    "verify_cell",
]

SCOPE_PROTOCOL = _scopes.EXECUTION_SCOPE_PROTOCOL
SCOPE_PATH_ENV = _scopes.SCOPE_PATH_ENV
SCOPE_SHA256_ENV = _scopes.SCOPE_SHA256_ENV
PROVIDER_ENTRYPOINT = PROVIDERS["tau3.retail"]
REJECTED = "Retail rejected or retained an unscored attempt; inspect owned ledger"
"""All that the console is told; ``--explain`` writes the reason into a private file."""

_FOREIGN = "Retail cannot run another provider, domain, source or seed"

_reject_duplicate_keys = reject_duplicate_keys
_sealed = seal
_validate_authorizations = _scopes.validate_authorizations
_cached = _pair_ledger._cached  # pyright: ignore[reportPrivateUsage] - documented name


def _read(path: Path) -> dict[str, Any]:
    """Give the JSON object in a bound file, read once."""
    try:
        data = read_regular(path)
    except (OSError, ValueError) as error:
        raise OfficialArenaError("Retail bound file is absent or symlinked") from error
    return parse_object(data)


def cell_files(root: Path) -> dict[str, str]:
    """Give relative path -> SHA-256 of every file below a cell, without its terminal."""
    with Directory.open(root) as directory:
        return _pair_ledger.evidence_files(read_tree(directory))


_files = cell_files  # the documented name


# --- identity -----------------------------------------------------------------------------------------------


def cell_identity(request: Mapping[str, Any]) -> dict[str, Any]:
    """Give what makes a pair the pair that it is; generated text is left out on purpose.

    A changed payload takes the same cell and then conflicts by its request hash, instead of becoming a new trial.

    Args:
        request: an atomic request, or the envelope around one.
    """
    return _identity_with(cast("Mapping[str, Any]", request.get("atomic_request", request)), materialized_state)


def _identity_with(
    atomic: Mapping[str, Any], state_of: Callable[[Mapping[str, Any]], Mapping[str, Any]]
) -> dict[str, Any]:
    names = (
        "benchmark_id",
        "checkpoint_id",
        "source_revision",
        "origin_state_hash",
        "replay_identity",
        "seed",
        "locked_dependency_hashes",
    )
    arms = [_arm_identity(arm, state_of) for arm in arms_by_role(atomic)]
    return {**{name: atomic[name] for name in names}, "arms": arms}


def _arm_identity(arm: Mapping[str, Any], state_of: Callable[[Mapping[str, Any]], Mapping[str, Any]]) -> dict[str, Any]:
    payload = arm["payload"]
    return {
        "role": arm["role"],
        "arm_id": arm["arm_id"],
        **{name: payload.get(name) for name in ("release_id", "profile_kind", "model_slot", "arm_parameters")},
        "budget": state_of(payload).get("budget"),
    }


def _checked_state(payload: Mapping[str, Any]) -> Mapping[str, Any]:
    """Give the materialized state of a payload whose hashes were checked with its request."""
    return cast("Mapping[str, Any]", payload["intervention_execution"]["materialized_state"])


def cell_id(request: Mapping[str, Any]) -> str:
    """Give the name of a pair's ledger directory: the hash of its `cell_identity`."""
    return content_hash(cell_identity(request))


# --- validation ---------------------------------------------------------------------------------------------


def _envelope(value: object) -> tuple[Mapping[str, Any], str, bool]:
    """Give the envelope of a request, its hash, both checked, and whether it is plain."""
    is_object = type(value) is dict or isinstance(value, Mapping)
    fields = frozenset(cast("Mapping[str, Any]", value)) if is_object else frozenset[str]()
    if fields != shared._ROOT_FIELDS:  # pyright: ignore[reportPrivateUsage] - documented name
        raise OfficialArenaError("Retail atomic envelope fields differ")
    root = cast("Mapping[str, Any]", value)
    if type(root["schema_version"]) is not int or root["schema_version"] != 1 or root["protocol"] != REQUEST_PROTOCOL:
        raise OfficialArenaError("Retail atomic envelope protocol differs")
    content = {name: item for name, item in root.items() if name != "request_hash"}
    plain = plain_json(content)
    try:
        expected = sha256_bytes(canonical_json(content) if plain is None else plain)
    except InputError as error:
        raise OfficialArenaError("Retail full request hash differs") from error
    if root["request_hash"] != expected:
        raise OfficialArenaError("Retail full request hash differs")
    return root, expected, plain is not None


def _require_own(request: object, provider: OfficialArenaProvider) -> None:
    """Refuse another domain, source or seed before anything is said about payloads that are bound to them."""
    atomic = cast("Mapping[str, Any]", request) if isinstance(request, Mapping) else {}
    own = {"benchmark_id": provider.benchmark_id, "source_revision": provider.source_revision, "seed": SEED}
    for name, expected in own.items():
        if name in atomic and (type(atomic[name]) is not type(expected) or atomic[name] != expected):
            raise OfficialArenaError(_FOREIGN)


class PairSession:
    """Runs pairs; scope, sources and inventory are read and checked once, and those bytes are used for all of them.

    Examples:
        ``with PairSession(os.environ) as session: responses = [session.run(envelope) for envelope in envelopes]``
    """

    def __init__(self, environment: Mapping[str, str] | None = None, *, durable: bool = True) -> None:
        """Remember the environment; nothing is read before the first pair.

        Args:
            environment: where scope, inventory and budget are looked up; ``os.environ`` by default.
            durable: force every file and name to disk before going on.
        """
        self._environment: Mapping[str, str] = dict(os.environ if environment is None else environment)
        self._durable = durable
        self._identities: dict[str, OfficialArenaProvider] = {}
        self._providers: dict[str, OfficialArenaProvider] = {}
        self._scopes: dict[str, _scopes.BoundScope] = {}
        self._inventories: dict[tuple[str, ...], Any] = {}
        self._configs: dict[str, tuple[dict[str, Any], str]] = {}
        self._preflights: set[tuple[str, str]] = set()
        self._root: Directory | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the ledger root."""
        if self._root is not None:
            self._root.close()
            self._root = None

    def run(self, value: object) -> dict[str, Any]:
        """Play both arms of a request, or give the response of the same request from its ledger.

        Returns:
            ``schema_version, protocol, request_hash, receipt, arms``.

        Raises:
            RetailAttemptUnavailable: the attempt is live, interrupted or failed; it is never run again.
            OfficialArenaError: the first check that does not hold, or the disk refused a write.
        """
        pair = self._validated(value)
        root = cast("Directory", self._root)
        try:
            cell = _pair_ledger.open_cell(
                root, pair.cell_id, pair.binding, envelope=pair.envelope, bytes_of=pair.bytes_of
            )
        except FileExistsError:
            return _pair_ledger.retained_response(
                root,
                pair.cell_id,
                request_hash=pair.binding.request_hash,
                scope_sha256=pair.binding.scope_sha256,
            )
        with cell:
            return play(pair, cell)

    def _validated(self, value: object) -> Pair:
        root, request_hash, plain = _envelope(value)
        hash_of = plain_hash if plain else content_hash
        parameters = shared._parameters(root["worker_parameters"])  # pyright: ignore[reportPrivateUsage] - documented
        entrypoint = parameters["provider_entrypoint"]
        identity = self._identity(entrypoint)
        _require_own(root["atomic_request"], identity)
        request = shared._atomic_request(root["atomic_request"], hash_of=hash_of)  # pyright: ignore[reportPrivateUsage] - documented
        _require_own(request, identity)
        record = self._replay_record(parameters, request)
        config, config_sha256 = self._config(parameters["provider_config"], hash_of)
        shared._validate_dependency_binding(config, record, request)  # pyright: ignore[reportPrivateUsage] - documented
        shared._validate_arm_binding(record, request)  # pyright: ignore[reportPrivateUsage] - documented
        _require_one_model_slot(request)
        scope = self._scope_of(entrypoint, identity)
        _scopes.require_frozen_config(scope, config_sha256)
        identity_of_cell = _identity_with(request, _checked_state)  # the request was checked above
        cell = hash_of(identity_of_cell)
        scope.require_cell(cell)
        self._open_root(scope)
        provider = self._provider_of(parameters, config, config_sha256)
        binding = PairBinding(request_hash, scope.sha256, identity_of_cell)
        bytes_of = plain_evidence_bytes if plain else evidence_bytes
        return Pair(root, parameters, request, record, config, provider, binding, cell, bytes_of)

    def _identity(self, entrypoint: str) -> OfficialArenaProvider:
        """Give the installed arena as the table has it: for its names, revision and files."""
        if entrypoint not in self._identities:
            try:
                self._identities[entrypoint] = resolve_provider(entrypoint)
            except OfficialArenaError as error:
                raise OfficialArenaError(_FOREIGN) from error
        return self._identities[entrypoint]

    def _replay_record(self, parameters: Mapping[str, Any], request: Mapping[str, Any]) -> dict[str, Any]:
        names = ("replay_inventory_environment", "replay_inventory_sha256_environment")
        key = (*(str(self._environment.get(parameters[name])) for name in names), parameters[_EXPECTED_INVENTORY])
        if key not in self._inventories:
            inventory = shared._inventory(parameters, environment=self._environment)  # pyright: ignore[reportPrivateUsage] - documented
            self._inventories[key] = inventory
        identity, records = self._inventories[key]
        record = records.get(request["checkpoint_id"])
        if (
            identity != {name: request[name] for name in ("benchmark_id", "source_revision")}
            or record is None
            or any(record[name] != request[name] for name in ("origin_state_hash", "replay_identity"))
        ):
            raise OfficialArenaError("Retail protected replay identity differs")
        return record

    def _config(self, given: Mapping[str, Any], hash_of: Callable[[object], str]) -> tuple[dict[str, Any], str]:
        key = hash_of(given)
        if key not in self._configs:
            resolved = resolve_shared_budget_config(given, environment=self._environment)
            self._configs[key] = resolved, content_hash(resolved)
        return self._configs[key]

    def _scope_of(self, entrypoint: str, identity: OfficialArenaProvider) -> _scopes.BoundScope:
        if entrypoint not in self._scopes:
            self._scopes[entrypoint] = _scopes.bind_execution_scope(
                self._environment, provider=identity, entrypoint=entrypoint
            )
        return self._scopes[entrypoint]

    def _open_root(self, scope: _scopes.BoundScope) -> None:
        if self._root is not None and self._root.is_in_place():
            return
        self.close()
        self._root = _scopes.open_ledger_root(scope.scope, durable=self._durable)

    def _provider_of(
        self, parameters: Mapping[str, Any], config: Mapping[str, Any], config_sha256: str
    ) -> OfficialArenaProvider:
        entrypoint = parameters["provider_entrypoint"]
        if entrypoint not in self._providers:
            self._providers[entrypoint] = shared._provider(parameters)  # pyright: ignore[reportPrivateUsage] - documented
        provider = self._providers[entrypoint]
        identity = self._identities[entrypoint]
        if (
            provider.benchmark_id != identity.benchmark_id
            or provider.source_revision != identity.source_revision
            or provider.scorer_id != parameters["scorer_id"]
            or provider.scorer_revision != parameters["scorer_revision"]
        ):
            raise OfficialArenaError("Retail provider identity differs from the worker lock")
        if (entrypoint, config_sha256) not in self._preflights:
            if provider.doctor(config):
                raise OfficialArenaError("Retail native preflight did not pass")
            self._preflights.add((entrypoint, config_sha256))
        return provider


_EXPECTED_INVENTORY = "expected_replay_inventory_sha256"


def _require_one_model_slot(request: Mapping[str, Any]) -> None:
    slots = {str(arm["payload"].get("model_slot")) for arm in request["arms"]}
    if len(slots) != 1:
        raise OfficialArenaError("Retail paired arms have different model slots")


def bound_scope(
    parameters: Mapping[str, Any], request: Mapping[str, Any], *, environment: Mapping[str, str] | None = None
) -> tuple[dict[str, Any], str, Path, dict[str, Any]]:
    """Give the scope, its hash, the directory of the cell and its identity, after every check passed."""
    variables = os.environ if environment is None else environment
    entrypoint = parameters["provider_entrypoint"]
    bound = _scopes.bind_execution_scope(variables, provider=resolve_provider(entrypoint), entrypoint=entrypoint)
    config = resolve_shared_budget_config(parameters["provider_config"], environment=variables)
    _scopes.require_frozen_config(bound, content_hash(config))
    identity = cell_identity(request)
    cell = content_hash(identity)
    bound.require_cell(cell)
    with _scopes.open_ledger_root(bound.scope, durable=False) as root:
        return dict(bound.scope), bound.sha256, root.path / cell, identity


_scope = bound_scope  # the documented name


def run(value: object, *, environment: Mapping[str, str] | None = None, durable: bool = True) -> dict[str, Any]:
    """Play both arms of one request, or give the response of the same request from its ledger.

    Args:
        value: request envelope.
        environment: where scope, inventory and budget are looked up; ``os.environ`` by default.
        durable: force every file and name to disk before going on.

    Raises:
        RetailAttemptUnavailable: the attempt is live, interrupted or failed; it is never run again.
        OfficialArenaError: the first check that does not hold, or the disk refused a write.
    """
    with PairSession(environment, durable=durable) as session:
        return session.run(value)


# --- drafting and verifying ---------------------------------------------------------------------------------


def draft_scope(
    provider: OfficialArenaProvider,
    config: Mapping[str, Any],
    *,
    output_root: Path,
    phase: str,
    cell_ids: Sequence[str],
    entrypoint: str | None = None,
) -> dict[str, Any]:
    """Give a complete execution scope that is not enabled; the references to a human choice are left to a human.

    Args:
        provider: the arena.
        config: its config.
        output_root: absolute path of the private directory of the ledger.
        phase: ``engineering`` or ``formal``.
        cell_ids: pairs that may run; see `cell_id`.
        entrypoint: of the arena; by default that of the installed arena with the provider's benchmark id.

    Raises:
        OfficialArenaError: an unknown phase, no cell, or a source file is absent.
    """
    if not cell_ids or phase not in _scopes.PHASE_SPLITS:
        raise OfficialArenaError(f"Draft needs at least one cell and a phase out of {sorted(_scopes.PHASE_SPLITS)}")
    accepted = entrypoint or provider_entrypoint(provider.benchmark_id)
    return {
        "schema_version": 1,
        "protocol": SCOPE_PROTOCOL,
        "source_revision": provider.source_revision,
        "phase": phase,
        "execution_enabled": False,
        "output_root": str(output_root),
        "provider_config_sha256": content_hash(resolve_shared_budget_config(config)),
        **_scopes.execution_source_hashes(provider, accepted),
        "authorizations": blank_authorizations(),
        "allowed_cell_ids": list(dict.fromkeys(cell_ids)),
    }


def verify_cell(cell_dir: Path) -> Any:
    """Give the report on one cell; see `workers.official_arenas.verification.verify_cell`."""
    from workers.official_arenas import verification

    return verification.verify_cell(cell_dir)


# --- command ------------------------------------------------------------------------------------------------


def main(arguments: Sequence[str] | None = None) -> int:
    """Answer one request from stdin on stdout, or run a helper; exit code 2 when it was refused."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given == ["--doctor"]:
        doctor = {"worker_available": True, "scientific_ready": False, "requires_bound_execution_scope": True}
        return _answer({"protocol": WORKER_PROTOCOL, **doctor})
    options = _options(given) if given else None
    try:
        if options is not None and options.verify is not None:
            report = verify_cell(options.verify)
            return _answer(report.to_json()) or (0 if report.ok else 1)
        if options is not None and options.draft_scope is not None:
            return _answer(_draft(options))
        if options is not None and options.build_request is not None:
            return _answer(_build(options))
        with quiet_console():
            response = run(parse_json(sys.stdin.buffer.read(MAX_EVIDENCE_BYTES + 1)))
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - the door of the process: no text of an error may reach the console
        return _refuse(error, explain=options is not None and options.explain)
    return _answer(response)


def _answer(value: Mapping[str, Any]) -> int:
    if say(sys.stdout, value):
        return 0
    say(sys.stderr, {"error": "OSError", "message": NOT_WRITTEN})
    return 2


def _refuse(error: BaseException, *, explain: bool) -> int:
    answer: dict[str, Any] = {"error": type(error).__name__, "message": REJECTED}
    if explain:
        note = note_rejection(_private_folders(os.environ), error, command="retail_driver")
        answer["explained_in"] = None if note is None else str(note)
    say(sys.stderr, answer)
    return 2


def _private_folders(environment: Mapping[str, str]) -> list[Path]:
    """Where a refusal may be explained: beside the ledger, else beside the scope."""
    path = environment.get(SCOPE_PATH_ENV)
    if not path:
        return []
    folders = [Path(path).absolute().parent]
    try:
        root = _read(Path(path)).get("output_root")
    except OfficialArenaError:
        return folders
    return [Path(root), *folders] if isinstance(root, str) else folders


def _options(arguments: Sequence[str]) -> Any:
    import argparse

    parser = argparse.ArgumentParser(
        prog="retail_driver",
        description="Play one pair: a request on stdin, the response on stdout, every attempt kept in its ledger.",
        epilog="Example: python -m workers.official_arenas.retail_driver < request.json",
    )
    parser.add_argument("--doctor", action="store_true", help="say what this worker is, and stop")
    parser.add_argument("--explain", action="store_true", help="write the reason of a refusal into rejection.json")
    parser.add_argument(
        "--verify", type=Path, metavar="CELL_DIR", help="check a ledger; exit code 1 when it was changed"
    )
    parser.add_argument("--draft-scope", type=Path, metavar="OUT", help="write a scope that is not enabled, and stop")
    parser.add_argument("--request", type=Path, nargs="+", default=[], help="requests that the drafted scope allows")
    parser.add_argument("--root", type=Path, help="private directory of the ledger, for --draft-scope")
    parser.add_argument("--phase", choices=sorted(_scopes.PHASE_SPLITS), default="engineering")
    parser.add_argument(
        "--build-request", type=Path, nargs=2, metavar=("CHECKPOINTS", "REPLAYS"), help="print a request, and stop"
    )
    parser.add_argument("--checkpoint", help="id of the checkpoint")
    parser.add_argument("--treatment", help="release id of the intervention")
    parser.add_argument("--provider", default="embedded", help="embedded, tau2, or the name of an installed arena")
    parser.add_argument("--config", type=Path, help="provider config, where the arena has no default")
    parser.add_argument("--model-slot", help="name of the model under test; by default that of the capture")
    options = parser.parse_args(list(arguments))
    if options.draft_scope is not None and (options.root is None or not options.request):
        parser.error("--draft-scope needs --request and --root")
    if options.build_request is not None and (options.checkpoint is None or options.treatment is None):
        parser.error("--build-request needs --checkpoint and --treatment")
    return options


def _draft(options: Any) -> dict[str, Any]:
    requests = [_read(path) for path in options.request]
    parameters = [shared._parameters(_envelope(value)[0]["worker_parameters"]) for value in requests]  # pyright: ignore[reportPrivateUsage] - documented
    entrypoint, config = parameters[0]["provider_entrypoint"], parameters[0]["provider_config"]
    if any(row["provider_entrypoint"] != entrypoint or row["provider_config"] != config for row in parameters):
        raise OfficialArenaError("Draft needs requests of one provider and one config")
    scope = draft_scope(
        resolve_provider(entrypoint),
        config,
        output_root=options.root.absolute(),
        phase=options.phase,
        cell_ids=[cell_id(value) for value in requests],
        entrypoint=entrypoint,
    )
    return write_draft(options.draft_scope, scope)


def _build(options: Any) -> dict[str, Any]:
    checkpoints, replays = options.build_request
    return build_request(
        checkpoints,
        replays,
        checkpoint_id=options.checkpoint,
        treatment=options.treatment,
        entrypoint=arena_entrypoint(options.provider),
        config_path=options.config,
        model_slot=options.model_slot,
    )


if __name__ == "__main__":
    raise SystemExit(main())
