"""Scoped capture of first user messages, and their projection into inventories.

Start it as a file or with ``python -m workers.official_arenas.retail_capture --scope PATH --scope-sha256 HEX``.
"""

from __future__ import annotations

import sys
from pathlib import Path

if not __package__:  # started as a file: make `workers` importable
    _ROOT = Path(__file__).resolve().parents[2]
    sys.path[:0] = [str(_ROOT / "src"), str(_ROOT)]

import shutil
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from workers.official_arenas import _scopes
from workers.official_arenas._console import NOT_WRITTEN, quiet_console, say
from workers.official_arenas._drafts import (
    arena_entrypoint,
    blank_authorizations,
    draft_config,
    write_draft,
)
from workers.official_arenas._evidence import (
    Directory,
    evidence_bytes,
    open_private_root,
    parse_json,
    partial_name,
    sha256_bytes,
)
from workers.official_arenas._first_capture import (
    BATCH_PROTOCOL,
    CAPTURED,
    RESERVED_UNRESOLVED,
    ROOT_MESSAGE,
    CaptureStatus,
    check_task_id,
    read_receipt,
    receipt_name,
    start_name,
    start_record,
)
from workers.official_arenas._rejections import note_rejection
from workers.official_arenas._snapshot_check import DISPOSITION_PROTOCOL, DISPOSITIONS
from workers.official_arenas.capture_records import (
    _records,  # pyright: ignore[reportPrivateUsage] - the documented name
)
from workers.official_arenas.protocol import (
    CHECKPOINT_INVENTORY_PROTOCOL,
    REPLAY_INVENTORY_PROTOCOL,
    OfficialArenaError,
    OfficialArenaProvider,
    content_hash,
)
from workers.official_arenas.providers import installed_providers, resolve_provider

__all__ = ["DISPOSITION_PROTOCOL", "PROTOCOL", "draft_scope", "main", "project_batch", "run"]

PROTOCOL = _scopes.CAPTURE_SCOPE_PROTOCOL
FAILURE_ENDPOINTS = "capture failures are unresolved environment outcomes, not invented agent zeros"
REJECTED = "Retail capture rejected; inspect owned receipts"
"""All that the console is told; ``--explain`` writes the reason into a private file."""

_SCOPE_DIFFERS = "Retail capture scope fields or checksum differ"


def _source_pins(provider: OfficialArenaProvider) -> dict[str, str]:
    """Give name -> SHA-256 of everything that decides what a capture gives."""
    return _scopes.source_pins(provider)


def _validated_scope(
    path: Path, checksum: str, provider: OfficialArenaProvider, *, data: bytes | None = None
) -> tuple[dict[str, Any], dict[str, Any], Path]:
    """Give the scope, the checked provider config and the output root, after every check passed.

    Args:
        path: scope file.
        checksum: SHA-256 of its bytes.
        provider: the arena that it must be for.
        data: the bytes, when they were read already; they are read once.

    Raises:
        OfficialArenaError: the first check that does not hold.
    """
    raw = _scopes.read_scope(path, _SCOPE_DIFFERS) if data is None else data
    scope = _scopes.parse_scope(raw, checksum, fields=_scopes.CAPTURE_SCOPE_FIELDS, message=_SCOPE_DIFFERS)
    _scopes.require_enabled(
        scope,
        protocol=PROTOCOL,
        source_revision=provider.source_revision,
        message="Retail capture scope is not enabled or valid",
    )
    _scopes.validate_authorizations(scope["authorizations"])
    config = _checked_config(scope, provider)
    if config.get("task_split_name") != _scopes.PHASE_SPLITS[scope["phase"]]:
        raise OfficialArenaError("Retail capture phase and official split differ")
    _require_task_inventory(scope["expected_task_ids"], config)
    slot = scope["model_slot"]
    if not isinstance(slot, str) or not slot.strip():
        raise OfficialArenaError("Retail capture model slot is absent")
    root = scope["output_root"]
    if not isinstance(root, str) or not root:
        raise OfficialArenaError(ROOT_MESSAGE)
    open_private_root(Path(root), message=ROOT_MESSAGE).close()
    return scope, config, Path(root)


def _checked_config(scope: Mapping[str, Any], provider: OfficialArenaProvider) -> dict[str, Any]:
    if not isinstance(scope["provider_config"], Mapping):
        raise OfficialArenaError("Retail capture source or effective config differs")
    config = provider._validate_config(scope["provider_config"])  # pyright: ignore[reportPrivateUsage] - documented hook
    if scope["provider_config_sha256"] != content_hash(config) or scope["source_sha256"] != _source_pins(provider):
        raise OfficialArenaError("Retail capture source or effective config differs")
    return config


def _require_task_inventory(value: object, config: Mapping[str, Any]) -> None:
    message = "Retail capture expected task inventory is invalid"
    if not isinstance(value, list):
        raise OfficialArenaError(message)
    try:
        task_ids = [check_task_id(task_id) for task_id in cast("list[object]", value)]
    except OfficialArenaError as error:
        raise OfficialArenaError(message) from error
    if len(task_ids) != config.get("limit") or len(set(task_ids)) != len(task_ids):
        raise OfficialArenaError(message)


# --- run ----------------------------------------------------------------------------------------------------


def run(
    path: Path | str,
    checksum: str,
    *,
    durable: bool = True,
    provider: OfficialArenaProvider | None = None,
    on_task: Callable[[str, str], None] | None = None,
) -> dict[str, Any]:
    """Capture what an enabled scope allows, and project it; running it again changes nothing and costs nothing.

    Args:
        path: scope file.
        checksum: SHA-256 of its bytes.
        durable: force every file and name to disk before going on.
        provider: the arena; by default the installed one whose source revision the scope names.
        on_task: called with task id and status after each task.

    Returns:
        ``{"snapshot": <directory>, "disposition": <document>}``.

    Raises:
        OfficialArenaError: the first check that does not hold, or a write was refused.
    """
    data = _scopes.read_scope(Path(path), _SCOPE_DIFFERS)
    if sha256_bytes(data) != checksum:
        raise OfficialArenaError(_SCOPE_DIFFERS)
    arena = _provider_of(data) if provider is None else provider
    scope, config, root = _validated_scope(Path(path), checksum, arena, data=data)
    if arena.doctor(config):
        raise OfficialArenaError("Retail native capture preflight did not pass")
    if [str(task_id) for task_id in arena.task_ids(config)] != scope["expected_task_ids"]:
        raise OfficialArenaError("Retail scoped official task order differs")
    progress: dict[str, Any] = {} if on_task is None else {"on_task": on_task}
    batch = arena.capture_batch(config, output_root=root, durable=durable, **progress)
    return project_batch(
        arena,
        config,
        batch,
        root=root,
        phase=scope["phase"],
        model_slot=scope["model_slot"],
        scope_sha256=checksum,
        durable=durable,
    )


def _provider_of(data: bytes) -> OfficialArenaProvider:
    """Give the installed arena whose revision a scope names; a scope of none fails at the check of its revision."""
    value = parse_json(data)
    revision = cast("Mapping[str, object]", value).get("source_revision") if isinstance(value, Mapping) else None
    found: list[OfficialArenaProvider] = []
    for entrypoint in dict.fromkeys(installed_providers().values()):
        try:
            provider = resolve_provider(entrypoint)
        except OfficialArenaError:
            continue  # an arena that cannot be loaded here is not the one; the others still count
        if provider.source_revision == revision:
            found.append(provider)
    if len(found) > 1:
        raise OfficialArenaError("Retail capture scope fits more than one installed arena")
    if not found:
        raise OfficialArenaError("Retail capture scope is not enabled or valid")
    return found[0]


# --- projection ---------------------------------------------------------------------------------------------


class _CapturedRecords:
    """Stands in for a provider whose captures are on disk already."""

    def __init__(self, provider: OfficialArenaProvider, records: Sequence[Mapping[str, Any]]) -> None:
        self.benchmark_id = provider.benchmark_id
        self.source_revision = provider.source_revision
        self._records = records

    def doctor(self, config: Mapping[str, Any]) -> tuple[str, ...]:
        return ()

    def capture(self, config: Mapping[str, Any], *, output_root: Path) -> Sequence[Mapping[str, Any]]:
        return self._records


def project_batch(
    provider: OfficialArenaProvider,
    config: Mapping[str, Any],
    batch: Mapping[str, Any],
    *,
    root: Path,
    phase: str,
    model_slot: str,
    scope_sha256: str,
    durable: bool = True,
) -> dict[str, Any]:
    """Turn receipts into a snapshot of inventories; reads receipts only, generates nothing.

    The snapshot is written beside its final place and renamed, so that a crash never leaves half of one.

    Returns:
        ``{"snapshot": <directory>, "disposition": <document>}``.

    Raises:
        OfficialArenaError: batch, receipts and records contradict each other, or the snapshot exists and differs.
    """
    checked = provider._validate_config(config)  # pyright: ignore[reportPrivateUsage] - documented provider hook
    binding = content_hash(checked)
    dispositions = _checked_dispositions(batch, binding)
    with open_private_root(root, message=ROOT_MESSAGE, durable=durable) as directory:
        records, receipt_files = _checked_records(batch, dispositions, binding=binding, directory=directory)
        is_terminal = all(row["status"] != RESERVED_UNRESOLVED for row in dispositions)
        if batch.get("all_tasks_terminal") is not is_terminal:
            raise OfficialArenaError("Retail batch terminality differs")
        artifacts = (
            _artifacts(provider, checked, records, root=root, model_slot=model_slot) if is_terminal and records else {}
        )
        document = {
            "protocol": DISPOSITION_PROTOCOL,
            "scope_sha256": scope_sha256,
            "phase": phase,
            "benchmark_id": provider.benchmark_id,
            "source_revision": provider.source_revision,
            "model_slot": model_slot,
            "config_binding": binding,
            "expected_task_ids": list(batch["expected_task_ids"]),
            "expected_denominator": len(batch["expected_task_ids"]),
            "captured_task_ids": [record["checkpoint_id"] for record in records],
            "dispositions": dispositions,
            "all_tasks_terminal": is_terminal,
            "retry_permitted": False,
            "receipt_files": receipt_files,
            "failure_endpoints": FAILURE_ENDPOINTS,
            "inventory_content_sha256": {name: content_hash(value) for name, value in artifacts.items()},
        }
        name = f"inventory-{content_hash(document)}"
        files = {**artifacts, DISPOSITIONS: document}
        _publish(directory, name, {file: evidence_bytes(value) for file, value in files.items()})
    return {"snapshot": root / name, "disposition": document}


def _checked_dispositions(batch: Mapping[str, Any], binding: str) -> list[dict[str, Any]]:
    task_ids, rows = batch.get("expected_task_ids"), batch.get("dispositions")
    if not isinstance(task_ids, list) or not isinstance(rows, list):
        raise OfficialArenaError("Retail capture dispositions differ from the expected inventory")
    ids = cast("list[Any]", task_ids)
    dispositions = cast("list[Any]", rows)
    are_as_expected = (
        batch.get("protocol") == BATCH_PROTOCOL
        and batch.get("config_binding") == binding
        and all(isinstance(row, Mapping) for row in dispositions)
        and len(set(map(str, ids))) == len(ids)
        and [row.get("task_id") for row in dispositions] == ids
        and all(row.get("status") in CaptureStatus and row.get("retry_permitted") is False for row in dispositions)
    )
    if not are_as_expected:
        raise OfficialArenaError("Retail capture dispositions differ from the expected inventory")
    for task_id in ids:
        check_task_id(task_id)
    return [dict(row) for row in dispositions]


def _checked_records(
    batch: Mapping[str, Any], dispositions: Sequence[Mapping[str, Any]], *, binding: str, directory: Directory
) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Give the captured records in order, as their receipts say them, and file name -> hash of what was read."""
    given = list(cast("Sequence[Mapping[str, Any]]", batch["records"]))
    by_id = {record["checkpoint_id"]: record for record in given}
    if len(by_id) != len(given):
        raise OfficialArenaError("Retail capture repeats a checkpoint")
    records: list[dict[str, Any]] = []
    receipt_files: dict[str, str] = {}
    for row in dispositions:
        task_id, status = row["task_id"], row["status"]
        if status == RESERVED_UNRESOLVED:
            if task_id in by_id or directory.has(receipt_name(task_id)):
                raise OfficialArenaError("Retail unresolved capture changed during projection")
            receipt_files[start_name(task_id)] = _start_sha256(directory, task_id, binding)
            continue
        receipt, receipt_files[receipt_name(task_id)] = read_receipt(directory, task_id, binding=binding)
        if receipt["terminal"] != status or receipt["receipt_sha256"] != row.get("receipt_sha256"):
            raise OfficialArenaError("Retail capture terminal receipt differs")
        if status != CAPTURED:
            if task_id in by_id:
                raise OfficialArenaError("Retail failed capture cannot have a fabricated checkpoint")
            continue
        if by_id.get(task_id) != receipt["record"]:
            raise OfficialArenaError("Retail projected checkpoint differs from its receipt")
        records.append(receipt["record"])
    if {record["checkpoint_id"] for record in records} != set(by_id):
        raise OfficialArenaError("Retail captured checkpoint inventory differs")
    return records, receipt_files


def _start_sha256(directory: Directory, task_id: str, binding: str) -> str:
    try:
        data = directory.read(start_name(task_id))
    except OSError as error:
        raise OfficialArenaError("Retail unresolved capture changed during projection") from error
    if data != evidence_bytes(start_record(binding, task_id)):
        raise OfficialArenaError("Retail unresolved capture changed during projection")
    return sha256_bytes(data)


def _artifacts(
    provider: OfficialArenaProvider,
    config: Mapping[str, Any],
    records: Sequence[Mapping[str, Any]],
    *,
    root: Path,
    model_slot: str,
) -> dict[str, Any]:
    visible, protected, unit_ids = _records(
        _CapturedRecords(provider, records), config, split=config["task_split_name"], output_root=root
    )
    return {
        "checkpoints.json": {
            "schema_version": 1,
            "protocol": CHECKPOINT_INVENTORY_PROTOCOL,
            "checkpoint_count": len(visible),
            "checkpoints": visible,
        },
        "replays.json": {
            "schema_version": 1,
            "protocol": REPLAY_INVENTORY_PROTOCOL,
            "benchmark_id": provider.benchmark_id,
            "source_revision": provider.source_revision,
            "record_count": len(protected),
            "records": [{**row, "model_slot": model_slot} for row in protected],
        },
        "units.json": unit_ids,
    }


def _publish(root: Directory, name: str, files: Mapping[str, bytes]) -> None:
    """Give a snapshot its name after all of its files are on disk, or find the same one there."""
    root.remove_directory(name)  # only an empty one, which some crash left, can be removed
    if not root.has(name):
        partial = partial_name(name)
        try:
            with root.make_directory(partial) as folder:
                for file, data in files.items():
                    folder.create(file, data)
            root.publish_directory(partial, name)
        except FileExistsError:  # another projection was first
            shutil.rmtree(partial, ignore_errors=True, dir_fd=root.descriptor)
        except OfficialArenaError:
            shutil.rmtree(partial, ignore_errors=True, dir_fd=root.descriptor)
            raise
    try:
        snapshot = root.open_directory(name)
    except OSError as error:
        raise OfficialArenaError("Retail inventory snapshot changed or is interrupted") from error
    with snapshot:
        for file in (DISPOSITIONS, *(file for file in files if file != DISPOSITIONS)):
            if _bytes_or_none(snapshot, file) != files[file]:
                raise OfficialArenaError(
                    "Retail inventory snapshot changed or is interrupted"
                    if file == DISPOSITIONS
                    else "Retail retained inventory artifact differs"
                )
        root.sync()  # a name that an earlier, killed projection gave


def _bytes_or_none(directory: Directory, name: str) -> bytes | None:
    try:
        return directory.read(name)
    except (OSError, OfficialArenaError):
        return None


# --- drafting -----------------------------------------------------------------------------------------------


def draft_scope(
    provider: OfficialArenaProvider, config: Mapping[str, Any], *, output_root: Path, phase: str, model_slot: str
) -> dict[str, Any]:
    """Give a complete capture scope that is not enabled; the references to a human choice are left to a human.

    Args:
        provider: the arena.
        config: its config, with ``task_split_name`` and ``limit``.
        output_root: absolute path of the private directory for receipts.
        phase: ``engineering`` or ``formal``; it fixes the split.
        model_slot: name of the model under test.

    Raises:
        OfficialArenaError: the config is refused, or its split is not that of the phase.
    """
    checked = provider._validate_config(config)  # pyright: ignore[reportPrivateUsage] - documented provider hook
    if phase not in _scopes.PHASE_SPLITS or checked.get("task_split_name") != _scopes.PHASE_SPLITS[phase]:
        raise OfficialArenaError("Retail capture phase and official split differ")
    return {
        "schema_version": 1,
        "protocol": PROTOCOL,
        "source_revision": provider.source_revision,
        "phase": phase,
        "execution_enabled": False,
        "output_root": str(output_root),
        "provider_config": checked,
        "provider_config_sha256": content_hash(checked),
        "source_sha256": _source_pins(provider),
        "authorizations": blank_authorizations(),
        "expected_task_ids": [str(task_id) for task_id in provider.task_ids(checked)],
        "model_slot": model_slot,
    }


# --- command ------------------------------------------------------------------------------------------------


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; exit code 2 when it was refused."""
    import argparse

    parser = argparse.ArgumentParser(
        prog="retail_capture",
        description="Capture the first user message of every task that an enabled scope allows, once.",
        epilog="Example: python -m workers.official_arenas.retail_capture --scope scope.json --scope-sha256 HEX",
    )
    parser.add_argument("--scope", type=Path, help="enabled scope file")
    parser.add_argument("--scope-sha256", help="SHA-256 of the scope file")
    parser.add_argument("--explain", action="store_true", help="write the reason of a refusal into rejection.json")
    parser.add_argument("--draft-scope", type=Path, metavar="OUT", help="write a scope that is not enabled, and stop")
    parser.add_argument("--provider", default="embedded", help="embedded, tau2, or the name of an installed arena")
    parser.add_argument("--config", type=Path, help="provider config, where the arena has no default")
    parser.add_argument("--split", choices=sorted(_scopes.PHASE_SPLITS.values()), default="train")
    parser.add_argument("--limit", type=int, help="number of tasks, from the first")
    parser.add_argument("--model-slot", default="scripted", help="name of the model under test")
    parser.add_argument("--root", type=Path, help="private directory for the receipts")
    options = parser.parse_args(arguments)
    if options.draft_scope is None and (options.scope is None or options.scope_sha256 is None):
        parser.error("--scope and --scope-sha256 are required")
    if options.draft_scope is not None and options.root is None:
        parser.error("--draft-scope needs --root")
    try:
        if options.draft_scope is not None:
            answer = _draft(options)
        else:
            with quiet_console():
                answer = _summary(run(options.scope, options.scope_sha256))
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - the door of the process: no text of an error may reach the console
        return _refuse(error, options)
    if say(sys.stdout, answer):
        return 0
    say(sys.stderr, {"error": "OSError", "message": NOT_WRITTEN})
    return 2


def _summary(result: Mapping[str, Any]) -> dict[str, Any]:
    document = result["disposition"]
    return {
        "snapshot": str(result["snapshot"]),
        "expected": document["expected_denominator"],
        "captured": len(document["captured_task_ids"]),
        "all_tasks_terminal": document["all_tasks_terminal"],
        "formal_inference_started": False,
    }


def _refuse(error: BaseException, options: Any) -> int:
    answer: dict[str, Any] = {"error": type(error).__name__, "message": REJECTED}
    if options.explain:
        folders = [
            *_root_of_scope(options.scope),
            *([] if options.scope is None else [options.scope.absolute().parent]),
        ]
        note = note_rejection(folders, error, command="retail_capture")
        answer["explained_in"] = None if note is None else str(note)
    say(sys.stderr, answer)
    return 2


def _root_of_scope(path: Path | None) -> list[Path]:
    if path is None:
        return []
    try:
        root = cast("Mapping[str, object]", parse_json(_scopes.read_scope(path, _SCOPE_DIFFERS)))["output_root"]
    except (OfficialArenaError, TypeError, KeyError):
        return []
    return [Path(root)] if isinstance(root, str) else []


def _draft(options: Any) -> dict[str, Any]:
    provider = resolve_provider(arena_entrypoint(options.provider))
    config = draft_config(provider, options.config, split=options.split, limit=options.limit)
    phase = next(phase for phase, split in _scopes.PHASE_SPLITS.items() if split == options.split)
    root = options.root.absolute()
    scope = draft_scope(provider, config, output_root=root, phase=phase, model_slot=options.model_slot)
    return write_draft(options.draft_scope, scope)


if __name__ == "__main__":
    raise SystemExit(main())
