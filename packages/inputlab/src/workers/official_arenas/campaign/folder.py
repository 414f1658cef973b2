"""The folder of a campaign: its places, its log, and how it is opened again.

```text
FOLDER/plan.json           what is measured; create-only, its hash names the campaign
FOLDER/command.json        the command that a person gave; scopes refer to it
FOLDER/environment.json    versions and machine, when the campaign was opened; the log names its hash
FOLDER/events.jsonl        hash chain of the steps that are done; closed by the last one
FOLDER/scopes/             per slot: drafts (disabled) and the scopes that were bound
FOLDER/capture/SLOT/       first-capture receipts and the inventory snapshot
FOLDER/requests/SLOT/TREATMENT/  per task a start and, when the intervention gave a result, the envelope of its pair
FOLDER/requests/index.json the pairs that can be played
FOLDER/pairs/SLOT/CELL/    the pair ledger
FOLDER/cells.jsonl         which pairs have an end
FOLDER/results.json        one row per expected pair, derived from the receipts
FOLDER/analysis.json       what the rows say together
FOLDER/index.html          the page
FOLDER/campaign.json       sealed: every file with its hash; written last
```
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ripieno.canonical import INDENTED_UNICODE_LINE, content_hash, strict_loads
from ripieno.chain import ChainWriter, walk_chain
from ripieno.errors import InputError
from ripieno.files import (
    create_only,
    list_tree,
    open_regular,
    require_private_root,
    sha256_file,
    sync_directory,
)
from workers.official_arenas._evidence import is_leftover, partial_name
from workers.official_arenas._reading import written_value
from workers.official_arenas.campaign.environment import ENVIRONMENT, campaign_environment
from workers.official_arenas.campaign.plan import CampaignPlan, parse_plan

__all__ = ["CAMPAIGN", "EVENTS", "PLAN", "CampaignFolder", "read_json", "write_json", "write_new"]

PLAN = "plan.json"
COMMAND = "command.json"
EVENTS = "events.jsonl"
CAMPAIGN = "campaign.json"
MAX_FILE_BYTES = 64 * 2**20
_LEDGERS = frozenset({"capture", "pairs"})
"""Folders whose files other modules write; what an interrupted write leaves there is theirs."""


def read_json(path: Path | str) -> Any:
    """Read a regular JSON file; duplicate keys, deep nesting and trailing bytes are refused."""
    with open_regular(path) as stream:
        # Whole, and with as much memory as it needs: reading 64 MiB takes the memory of 64 MiB first.
        size = os.fstat(stream.fileno()).st_size
        data = stream.read(min(size, MAX_FILE_BYTES) + 1)
        if len(data) != size:  # it grew, or came in parts
            while len(data) <= MAX_FILE_BYTES and (more := stream.read(2**20)):
                data += more
    written = written_value(data, max_bytes=MAX_FILE_BYTES)
    if written is not None:
        return written
    try:
        return strict_loads(data, max_bytes=MAX_FILE_BYTES)
    except InputError as error:
        raise InputError(f"{Path(path).name}: {error}") from error


def write_json(path: Path, value: object, *, durable: bool = True) -> None:
    """Write a JSON file that must not exist yet, see `write_new`."""
    write_new(path, INDENTED_UNICODE_LINE.dumps(value), durable=durable)


def write_new(path: Path, data: bytes, *, durable: bool = True) -> None:
    """Write a file that must not exist yet: whole, or not at all.

    A process that dies in the middle leaves a hidden leftover and no half file, so that the campaign can be gone on
    with; the next start clears it away.

    Raises:
        FileExistsError: something has that name.
        OSError: the write failed; nothing has that name.
    """
    partial = path.with_name(partial_name(path.name))
    create_only(partial, data, durable=durable)
    try:
        os.link(partial, path)
    finally:
        partial.unlink()
    if durable:
        sync_directory(path.parent)


@dataclass(slots=True)
class CampaignFolder:
    """An open campaign folder. Only one process can have it open.

    Attributes:
        root: absolute path of the folder.
        plan: what is measured.
        events: payloads of the steps that were done before it was opened, by name.
    """

    root: Path
    plan: CampaignPlan
    events: dict[str, Mapping[str, Any]]
    _chain: ChainWriter | None = None

    @classmethod
    def open(cls, root: Path, plan: CampaignPlan, command: Sequence[str]) -> CampaignFolder:
        """Make the folder, or open the one that a campaign with the same plan has begun.

        Raises:
            InputError: the folder holds something else or another plan, another process has it open, or others
                could read it.
            IntegrityError: its log was changed.
        """
        root = root.parent.resolve() / root.name
        if not root.exists():
            root.parent.mkdir(parents=True, exist_ok=True)
            root.mkdir(mode=0o700)
        require_private_root(root)
        if not (root / PLAN).exists():
            require_no_strangers(root)
            written = ((COMMAND, {"argv": list(command)}), (ENVIRONMENT, campaign_environment()), (PLAN, plan.record()))
            for name, value in written:
                with suppress(FileExistsError):  # begun before, or another process is quicker: then what it says holds
                    write_json(root / name, value)
        found = parse_plan(read_json(root / PLAN))
        if found.plan_hash != plan.plan_hash:
            raise InputError(
                f"{root} belongs to a campaign with another plan ({_difference(found, plan)}); name another folder"
            )
        log = root / EVENTS
        events = read_events(log) if log.exists() else {}
        if "complete" in events:
            return cls(root, plan, events)
        chain = ChainWriter.resume(log, "always") if log.exists() else ChainWriter(log, "always")
        folder = cls(root, plan, events, chain)
        folder._clear_leftovers()
        if "planned" not in events:
            where = root / ENVIRONMENT  # a folder that was begun before there was such a file has none
            known = {"environment_sha256": sha256_file(where)} if where.exists() else {}
            folder.record("planned", {"plan_hash": plan.plan_hash, **known})
        return folder

    @property
    def is_complete(self) -> bool:
        """Whether every step is done; then nothing is ever run in this folder again."""
        return "complete" in self.events

    def record(self, name: str, payload: Mapping[str, Any]) -> None:
        """Note that a step is done; when this returns it survives a crash."""
        self._open_chain().append({"event": name, **payload})
        self.events[name] = payload

    def finish(self, payload: Mapping[str, Any]) -> None:
        """Close the log."""
        self._open_chain().close({"event": "complete", **payload})
        self._chain = None
        self.events["complete"] = payload

    def _open_chain(self) -> ChainWriter:
        if self._chain is None:
            raise InputError(f"{self.root}: the campaign is complete, or was let go of; nothing more can be recorded")
        return self._chain

    def release(self) -> None:
        """Let go of the folder; the campaign can be gone on with."""
        if self._chain is not None:
            self._chain.abandon()
            self._chain = None

    def _clear_leftovers(self) -> None:
        """Remove what an interrupted write left; nobody else writes here while this process has the log open."""
        for name, _ in list(list_tree(self.root)):
            path = self.root / name
            if is_leftover(path.name) and name.split("/")[0] not in _LEDGERS:
                path.unlink()

    def place(self, *parts: str) -> Path:
        """Give a path below the root, its directories made and closed to others."""
        path = self.root.joinpath(*parts)
        missing = [step for step in (path.parent, *path.parent.parents) if not step.exists()]
        for step in reversed(missing):
            step.mkdir(mode=0o700, exist_ok=True)
        return path

    def directory(self, *parts: str) -> Path:
        """Give a private directory below the root, made when it is missing."""
        path = self.place(*parts)
        path.mkdir(mode=0o700, exist_ok=True)
        return path

    @property
    def command_sha256(self) -> str:
        """Hash of the command that a person gave."""
        return content_hash(read_json(self.root / COMMAND))


def require_no_strangers(root: Path) -> None:
    """Refuse a folder in which something lies that no campaign wrote before its plan.

    Raises:
        InputError: it holds something else.
    """
    names = sorted(entry.name for entry in root.iterdir())
    strangers = [name for name in names if name not in (COMMAND, ENVIRONMENT) and not is_leftover(name)]
    if strangers:
        raise InputError(f"{root} holds {strangers[0]!r} but no campaign; name another folder")


def read_events(log: Path) -> dict[str, Mapping[str, Any]]:
    """Give the payload of every recorded step by its name.

    Raises:
        IntegrityError: the chain was changed.
    """
    events: dict[str, Mapping[str, Any]] = {}
    for entry in walk_chain(log):
        payload = dict(entry.payload)
        events[str(payload.pop("event", ""))] = payload
    return events


def _difference(found: CampaignPlan, wanted: CampaignPlan) -> str:
    """Name the first field that differs; treatments and slots hold texts and keys, so only their names are shown."""
    ours, theirs = wanted.record(), found.record()
    name = next(name for name in {**ours, **theirs} if ours.get(name) != theirs.get(name))
    if name not in ("treatments", "slots"):
        return f"{name} is {json.dumps(theirs.get(name))[:80]}, here it is {json.dumps(ours.get(name))[:80]}"
    names = [", ".join(str(item["name"]) for item in record[name]) for record in (theirs, ours)]
    if names[0] == names[1]:
        changed = next(item["name"] for item, other in zip(ours[name], theirs[name], strict=True) if item != other)
        return f"{name}: {changed} has other settings"
    return f"{name} are {names[0][:80]}, here they are {names[1][:80]}"
