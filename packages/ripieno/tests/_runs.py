"""Small runs, and what hostile and unlucky people do to them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from ripieno._layout import OPENING_MEMBERS
from ripieno.canonical import canonical_json, content_hash
from ripieno.receipts import seal
from ripieno.run import RunWriter

ARTIFACTS = {"table.csv": b"a,b\n1,2\n", "figures/curve.svg": b"<svg/>\n"}


def write_small_run(folder: Path, *, finish: bool = True, rewards: tuple[float, ...] = (0.5, 1.0, -2.25)) -> Path:
    """Write three events and two artifacts; without ``finish`` stop as a killed writer does."""
    config = {"steps": len(rewards), "gain": 0.1}
    run = RunWriter(folder, system="test", kind="small", config=config, seeds={"root": 7})
    for step, reward in enumerate(rewards):
        run.event("step", step=step, reward=reward)
    for name, content in ARTIFACTS.items():
        run.artifact(name, content)
    if finish:
        run.finish(summary={"total_reward": sum(rewards)})
    else:
        run._chain.abandon()
    return folder


def record_fsync(monkeypatch: pytest.MonkeyPatch, note: Callable[[Path], Any] = lambda path: path) -> list[Any]:
    """Give a list that grows by ``note(path)`` whenever a file or folder is made durable."""
    notes: list[Any] = []
    fsync = os.fsync

    def recorded(descriptor: int) -> None:
        fsync(descriptor)
        notes.append(note(Path(f"/proc/self/fd/{descriptor}").readlink()))

    monkeypatch.setattr(os, "fsync", recorded)
    return notes


def files_of(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def read_manifest_json(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "run.json").read_bytes())


def reseal_manifest(folder: Path, changes: Mapping[str, Any]) -> None:
    """Change the manifest as an attacker does who computes a new seal."""
    manifest = {key: item for key, item in read_manifest_json(folder).items() if key != "receipt_sha256"}
    manifest |= changes
    (folder / "run.json").write_bytes(canonical_json(seal(manifest)) + b"\n")


def rewrite_everything(folder: Path, edit: Callable[[list[dict[str, Any]], dict[str, Any]], None]) -> None:
    """Forge a run consistently: edit the bodies of the lines and the manifest, then compute every hash again."""
    bodies = [json.loads(line) for line in (folder / "events.jsonl").read_bytes().splitlines()]
    manifest = read_manifest_json(folder)
    edit(bodies, manifest)
    manifest["config_sha256"] = content_hash(manifest["config"])
    previous = content_hash({name: manifest[name] for name in OPENING_MEMBERS})
    lines: list[bytes] = []
    for number, body in enumerate(bodies):
        member = "closing" if "closing" in body else "payload"
        value = {member: body[member], "previous": previous, "sequence": number}
        previous = content_hash(value)
        lines.append(canonical_json({**value, "hash": previous}) + b"\n")
    data = b"".join(lines)
    (folder / "events.jsonl").write_bytes(data)
    if manifest["status"] != "running":
        payloads = [body["payload"] for body in bodies if "payload" in body]
        manifest["artifacts"] = {
            str(item["artifact"]): {"size": item["size"], "sha256": item["sha256"]}
            for item in payloads
            if "artifact" in item
        }
        manifest["events"] = {"lines": len(lines), "head": previous, "size": len(data)}
        manifest |= bodies[-1]["closing"]
    manifest.pop("receipt_sha256")
    (folder / "run.json").write_bytes(canonical_json(seal(manifest)) + b"\n")
