"""The pages on Input lab say what it does: files and hashes, modules, commands, exit codes, entry points."""

from __future__ import annotations

import hashlib
import json
import re
import runpy
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from agentinputlab.backends.answered import note_answer, noting_answers
from agentinputlab.cli._app import EXIT_REFUSED, agentinputlab
from agentinputlab.registry import AlgorithmRegistry
from agentinputlab.registry.cards import Needs
from ripieno.verify import verify
from workers.official_arenas import _pair_play, _rejections, protocol
from workers.official_arenas._first_capture import capture_batch
from workers.official_arenas.campaign.plan import InterventionModel
from workers.official_arenas.campaign.results import PairStatus
from workers.official_arenas.cli._errors import answered
from workers.official_arenas.cli._show import EXIT_FAILURES, EXIT_NOT_READY
from workers.official_arenas.protocol import OfficialArenaError
from workers.official_arenas.providers.fixture import FixtureProvider

ROOT = Path(__file__).parent.parent
REFERENCE = ROOT / "docs" / "reference"
SOURCES = ROOT / "packages" / "inputlab" / "src"
FILES = (REFERENCE / "inputlab-files.md").read_text(encoding="utf-8")
(PROGRAM,) = re.findall(r"```python\n(.*?)```", FILES, re.DOTALL)
TREATMENT = "plan.plan_and_solve.ps_prompt"

# --- files of a campaign ------------------------------------------------------------------------------------


def run_campaign(arena: str, folder: Path) -> Path:
    words = ["retail", "run", "--arena", arena, "--treatment", TREATMENT, "--tasks", "2", "--no-fsync"]
    done = CliRunner().invoke(agentinputlab, [*words, "--out", str(folder)])
    assert done.exit_code == 0, done.output
    return folder


@pytest.fixture(scope="module")
def fixture_campaign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run_campaign("fixture", tmp_path_factory.mktemp("fixture") / "campaign")


@pytest.fixture(scope="module")
def embedded_campaign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run_campaign("embedded", tmp_path_factory.mktemp("embedded") / "campaign")


def only(paths: Any) -> Path:
    """The first of the paths, in order."""
    return min(paths)


def read(path: Path) -> Any:
    return json.loads(path.read_bytes())


def content_hash(value: object) -> str:
    """As the page says, without our own code."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def file_hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def without(value: Mapping[str, Any], *members: str) -> dict[str, Any]:
    return {name: item for name, item in value.items() if name not in members}


def tables_of_the_page() -> dict[str, set[str]]:
    """Head of a table's first column -> the members that the column names."""
    tables: dict[str, set[str]] = {}
    for head, rows in re.findall(r"^\| (.+?) \| Value \|\n\|---\|---\|\n((?:\|.*\n)+)", FILES, re.MULTILINE):
        assert head not in tables, head
        names = [name for row in rows.splitlines() for name in re.findall(r"`(\w+)`", row.split(" | ")[0])]
        assert len(set(names)) == len(names), head
        tables[head] = set(names)
    return tables


def who_answered() -> dict[str, Any]:
    with noting_answers() as answered:
        note_answer("small", {"model": "small-2"})
    return answered.record()


def recorded(folder: Path, failed_capture: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """What a real campaign wrote, by the names that the page gives it."""
    capture, pair = folder / "capture/scripted", only((folder / "pairs/scripted").iterdir())
    snapshot = only(capture.glob("inventory-*"))
    start, receipt = only(capture.glob("*-start.json")), only(capture.glob("first-capture-*[0-9].json"))
    request = read(pair / "request.json")
    payload = request["atomic_request"]["arms"][1]["payload"]
    plan, scopes = read(folder / "plan.json"), folder / "scopes"
    analysis, response = read(folder / "analysis.json"), read(pair / "response.json")
    capture_scope, execution_scope = read(scopes / "capture-scripted.json"), read(scopes / "execution-scripted.json")
    common = {name: item for name, item in capture_scope.items() if name in execution_scope}
    dispositions, outcome = read(snapshot / "dispositions.json"), read(pair / "baseline/arm-outcome.json")
    failed_arm = {**_pair_play._failed(ValueError("text")), "runtime_nonce": "", "receipt_sha256": ""}
    return {
        "command.json": read(folder / "command.json"),
        "environment.json": read(folder / "environment.json"),
        "answered-by.json": (answered := who_answered()),
        "a row of answered-by.json": answered["answers"][0],
        "plan.json": plan,
        "a treatment": plan["treatments"][0],
        "a slot": plan["slots"][0],
        "campaign.json": read(folder / "campaign.json"),
        "a result": (result := read(folder / "results.json")[0]),
        "a side of a result": result["treated"],
        "analysis.json": analysis,
        "a comparison": analysis["comparisons"][0],
        "every scope": common,
        "only a capture scope": without(capture_scope, *common),
        "only an execution scope": without(execution_scope, *common),
        "first-capture-ID-start.json": read(start),
        "further members of a receipt": without(read(receipt), *read(start)),
        "further members of a failed one": without(failed_capture, *read(start)),
        "record": read(receipt)["record"],
        "dispositions.json": dispositions,
        "a disposition": dispositions["dispositions"][0],
        "checkpoints.json": (checkpoints := read(snapshot / "checkpoints.json")),
        "a checkpoint": checkpoints["checkpoints"][0],
        "replays.json": (replays := read(snapshot / "replays.json")),
        "a replay": replays["records"][0],
        "rejection.json": _rejections._note(ValueError("text"), "retail_capture"),
        "ID-start.json": read(only((folder / "requests/scripted" / TREATMENT).glob("*-start.json"))),
        "a row of index.json": read(folder / "requests/index.json")[0],
        "a request": request,
        "atomic_request": request["atomic_request"],
        "worker_parameters": request["worker_parameters"],
        "a payload": payload,
        "intervention_execution": payload["intervention_execution"],
        "pair-start.json": (pair_start := read(pair / "pair-start.json")),
        "cell_identity": pair_start["cell_identity"],
        "an arm of cell_identity": pair_start["cell_identity"]["arms"][0],
        "attempt-start.json": read(pair / "baseline/attempt-start.json"),
        "arm-outcome.json": outcome,
        "arm-outcome.json of a failed arm": failed_arm,
        "result": without(outcome["result"], "usage") | {"usage": 0} | outcome["result"]["usage"],
        "response.json": response,
        "receipt": response["receipt"],
        "an arm of receipt": response["receipt"]["arms"][0],
        "terminal.json": read(pair / "terminal.json"),
    }


def failed_capture(root: Path) -> dict[str, Any]:
    """The receipt of a task whose simulated user broke."""

    class Broken(FixtureProvider):
        def _first_turn(self, config: Mapping[str, Any], task_id: str) -> Any:
            raise OfficialArenaError("no first message")

    root.mkdir(mode=0o700)
    arena = Broken()
    config = arena.campaign_config(split="test", limit=1, agent={"backend": "scripted"}, budget=None)
    capture_batch(arena, config, output_root=root)
    return read(only(root.glob("first-capture-*[0-9].json")))


def test_the_tables_name_every_member_of_every_file(embedded_campaign: Path, tmp_path: Path) -> None:
    found = recorded(embedded_campaign, failed_capture(tmp_path / "capture"))
    tables = tables_of_the_page()
    tables["result"] |= set(
        re.findall(r"`(\w+)`", next(line for line in FILES.splitlines() if "| `usage` | `" in line))
    )
    assert {name: set(value) for name, value in found.items()} == tables


def test_every_place_of_a_campaign_is_in_the_table_of_the_folder(embedded_campaign: Path) -> None:
    section = FILES.split("\n## The folder\n")[1].split("\n## ")[0]
    rest = FILES.split("\n## A capture root\n")[1]
    places = re.findall(r"^\| (`.+?) \| ", section + rest, re.MULTILINE)
    named = {place for row in places for place in re.findall(r"`([\w./-]+)`", row)}
    words = {"scripted": "SLOT", TREATMENT: "TREATMENT", "baseline": "ROLE", "treatment": "ROLE"}
    for path in sorted(embedded_campaign.rglob("*")):
        if path.is_dir():
            continue
        parts = [words.get(part, part) for part in path.relative_to(embedded_campaign).parts]
        place = "/".join(re.sub(r"(?<![0-9a-f])[0-9]+(?![0-9a-f])", "ID", part) for part in parts)
        place = re.sub(r"^(capture|pairs)/SLOT/([0-9a-f]{64}/)?(inventory-[0-9a-f]{64}/)?", "", place)
        place = place.replace("-scripted.", "-SLOT.")
        assert place in named or f"`{place.rsplit('/', 1)[-1]}`" in rest, place


def test_bytes_and_modes_are_what_the_page_says(embedded_campaign: Path) -> None:
    for path in embedded_campaign.rglob("*"):
        assert not path.is_symlink()
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path
        if path.suffix == ".json":
            text = json.dumps(read(path), sort_keys=True, indent=2, ensure_ascii=False) + "\n"
            assert path.read_bytes() == text.encode(), path


def test_hashes_are_made_as_the_page_says(embedded_campaign: Path) -> None:
    folder, found = embedded_campaign, recorded(embedded_campaign, {})
    sealed, plan = found["campaign.json"], found["plan.json"]
    assert sealed["plan_hash"] == found["analysis.json"]["plan_hash"] == content_hash(plan)
    assert sealed["command_sha256"] == content_hash(found["command.json"])
    assert sealed["results_sha256"] == content_hash(read(folder / "results.json"))
    assert sealed["analysis_sha256"] == content_hash(found["analysis.json"])
    paths = [path for path in folder.rglob("*") if path.is_file() and path.name != "events.jsonl"]
    files = {path.relative_to(folder).as_posix(): file_hash(path) for path in paths}
    assert without(files, "campaign.json") == sealed["files"]
    for name in ("campaign.json", "terminal.json", "arm-outcome.json"):
        assert found[name]["receipt_sha256"] == content_hash(without(found[name], "receipt_sha256"))

    reference = {"source_kind": "human_message", "thread_id": "agentinputlab.command.v1"}
    reference["message_sha256"] = sealed["command_sha256"]
    assert found["every scope"]["authorizations"] == {"scope": reference, "environment_models": reference}
    scope = found["only a capture scope"]
    binding = content_hash(scope["provider_config"])
    assert {found["every scope"]["provider_config_sha256"], found["dispositions.json"]["config_binding"]} == {binding}
    assert found["first-capture-ID-start.json"]["config_binding"] == binding
    assert scope["source_sha256"]["workers/official_arenas/retail_capture.py"] == file_hash(
        SOURCES / "workers/official_arenas/retail_capture.py"
    )
    execution = found["only an execution scope"]
    for field, name in (
        ("worker_support", "driver"),
        ("worker_source", "retail_driver"),
        ("protocol_source", "protocol"),
    ):
        assert execution[f"{field}_sha256"] == file_hash(SOURCES / f"workers/official_arenas/{name}.py")


def test_hashes_of_a_snapshot_are_made_as_the_page_says(embedded_campaign: Path) -> None:
    found = recorded(embedded_campaign, {})
    snapshot = only((embedded_campaign / "capture/scripted").glob("inventory-*"))
    document, row, replay = found["dispositions.json"], found["a checkpoint"], found["a replay"]
    assert snapshot.name == f"inventory-{content_hash(document)}"
    assert document["inventory_content_sha256"] == {
        name: content_hash(read(snapshot / name)) for name in ("checkpoints.json", "replays.json", "units.json")
    }
    assert document["receipt_files"] == {name: file_hash(snapshot.parent / name) for name in document["receipt_files"]}
    assert document["scope_sha256"] == file_hash(embedded_campaign / "scopes/capture-scripted.json")
    identity = {name: row[name] for name in ("benchmark_id", "source_revision", "checkpoint_id")}
    group = {"benchmark_id": row["benchmark_id"], "group_key": found["record"]["group_key"]}
    assert row["group_id"] == f"group_{content_hash(group)}"
    assert row["origin_state_hash"] == content_hash({**identity, "protected": replay["protected"]})
    origin = {"protocol": found["replays.json"]["protocol"], "origin_state_hash": row["origin_state_hash"]}
    assert row["replay_identity"] == content_hash({**identity, **origin})
    assert row["visible_state_hash"] == content_hash(row["visible_state"])
    assert replay["protected"] == found["record"]["protected"]


def test_hashes_of_a_pair_are_made_as_the_page_says(embedded_campaign: Path) -> None:
    found = recorded(embedded_campaign, {})
    payload, execution = found["a payload"], found["intervention_execution"]
    request, start = found["a request"], found["pair-start.json"]
    names = ("benchmark_id", "checkpoint_id", "source_revision", "origin_state_hash", "replay_identity")
    assert payload["checkpoint_identity_hash"] == content_hash(
        {name: request["atomic_request"][name] for name in names}
    )
    assert execution["patch_hash"] == content_hash(execution["patch"])
    product = {"patch_hash": execution["patch_hash"], "state": execution["materialized_state"]}
    assert execution["runtime_product_sha256"] == content_hash(product)
    assert execution["intervention_builder_sha256"] == file_hash(SOURCES / "workers/official_arenas/_payloads.py")
    assert start["scope_sha256"] == file_hash(embedded_campaign / "scopes/execution-scripted.json")
    snapshot = only((embedded_campaign / "capture/scripted").glob("inventory-*"))
    expected = found["worker_parameters"]["expected_replay_inventory_sha256"]
    assert expected == file_hash(snapshot / "replays.json")
    (named,) = re.findall(r"content hash of the trace without the members (.*?), at every depth", FILES)
    dropped = set(re.findall(r"`(\w+)`", named))

    def normalised(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: normalised(item) for name, item in value.items() if name not in dropped}
        return [normalised(item) for item in value] if isinstance(value, list) else value

    pair = only((embedded_campaign / "pairs/scripted").iterdir())
    trace = read(pair / "baseline/trace.json")
    assert found["arm-outcome.json"]["normalized_trace_hash"] == content_hash(normalised(trace))
    assert dropped == protocol._WALL_CLOCK_FIELDS


@pytest.mark.parametrize("name", ["events.jsonl", "cells.jsonl"])
def test_lines_are_chained_as_the_page_says(name: str, embedded_campaign: Path) -> None:
    previous, lines = "0" * 64, (embedded_campaign / name).read_bytes().splitlines(keepends=True)
    for sequence, line in enumerate(lines):
        record = json.loads(line)
        text = json.dumps(record, sort_keys=True, separators=(",", ":"), ensure_ascii=False) + "\n"
        assert line == text.encode()
        assert (record["sequence"], record["previous"]) == (sequence, previous)
        assert record["hash"] == content_hash(without(record, "hash"))
        assert ("closing" in record) == (sequence == len(lines) - 1)
        previous = record["hash"]


def test_the_steps_in_the_log_are_those_of_the_page(embedded_campaign: Path) -> None:
    rows = re.findall(r'^\| `\{"event":"([\w:]+)"\}`.*? \| (.*) \|$', FILES, re.MULTILINE)
    said = {event.replace("SLOT", "scripted"): set(re.findall(r"`(\w+)`", cell)) for event, cell in rows}
    lines = [json.loads(line) for line in (embedded_campaign / "events.jsonl").read_bytes().splitlines()]
    payloads = [line.get("payload") or line["closing"] for line in lines]
    assert {payload["event"]: set(payload) - {"event"} for payload in payloads} == said


def test_the_statuses_of_pairs_are_those_of_the_page() -> None:
    (row,) = re.findall(r"^\| `status` \| (`paired_scored`.*) \|$", FILES, re.MULTILINE)
    assert re.findall(r"`(\w+)`", row) == [status.value for status in PairStatus]


def test_the_kinds_of_intervention_models_are_those_of_the_page() -> None:
    (row,) = re.findall(r"^\| `intervention_model` \| .*`(\{.*\})` \|$", FILES, re.MULTILINE)
    (kinds,) = re.findall(r'"kind": (.*), "rules"', row.replace('"rules" or', '"rules",'))
    known = InterventionModel.model_json_schema()["properties"]
    assert set(re.findall(r'"(\w+)"', kinds)) == set(known["kind"]["enum"])
    assert {"kind", *re.findall(r'"(rules\w*)":', row)} == set(known)


def by_the_page(cell: Path) -> subprocess.CompletedProcess[str]:
    """Run the page's program without any installed package."""
    command = [sys.executable, "-I", "-S", "-c", PROGRAM, str(cell)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("arena", ["fixture", "embedded"])
def test_the_program_of_the_page_accepts_a_pair(arena: str, request: pytest.FixtureRequest) -> None:
    folder: Path = request.getfixturevalue(f"{arena}_campaign")
    for cell in (folder / "pairs/scripted").iterdir():
        done = by_the_page(cell)
        seal = read(cell / "terminal.json")["receipt_sha256"]
        assert (done.stdout, done.stderr) == (f"paired_scored {seal}\n", "")


def test_the_program_of_the_page_refuses_what_the_verifier_refuses(tmp_path: Path) -> None:
    cell = only((run_campaign("fixture", tmp_path / "campaign") / "pairs/scripted").iterdir())
    for path in sorted(path for path in cell.rglob("*") if path.is_file()):
        data = path.read_bytes()
        for place in (0, len(data) // 2, len(data) - 1):
            path.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
            assert not verify(cell).ok
            assert by_the_page(cell).returncode == 1, (path.name, place)
        path.write_bytes(data)
    for change in ("added", "baseline/added"):
        (cell / change).touch(mode=0o600)
        assert by_the_page(cell).returncode == 1
        (cell / change).unlink()
    renamed = cell.rename(cell.with_name("0" * 64))
    assert by_the_page(renamed).returncode == 1
    assert by_the_page(renamed.rename(cell)).returncode == 0


# --- methods ------------------------------------------------------------------------------------------------


def test_the_page_on_methods_is_what_the_registry_says() -> None:
    command = [sys.executable, str(ROOT / "scripts/inputlab_reference.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_cards_and_registry_agree_on_what_needs_nothing() -> None:
    needs_of_card = runpy.run_path(str(ROOT / "scripts/inputlab_reference.py"))["needs_of_card"]
    for release in AlgorithmRegistry.default().list_releases():
        if release.runnable:
            assert (release.needs is Needs.NOTHING) == (needs_of_card(release) == "nothing"), release.id


def test_cards_are_of_registered_releases_that_run() -> None:
    releases = {release.id: release for release in AlgorithmRegistry.default().list_releases()}
    for page in (REFERENCE / "interventions").glob("*.md"):
        headings = re.findall(r"^## (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
        assert headings, page.name
        for heading in headings:
            assert releases[heading].method_id == page.stem
            assert releases[heading].runnable, heading


# --- modules, commands, entry points ------------------------------------------------------------------------


def modules_of(package: str) -> set[str]:
    """Public modules, and packages that have no public module of their own."""
    names = {
        path.relative_to(SOURCES).with_suffix("").parts
        for path in (SOURCES / package).rglob("*.py")
        if not any(part.startswith("_") and part != "__init__" for part in path.relative_to(SOURCES).parts[:-1])
    }
    public = {parts for parts in names if not parts[-1].startswith("_")}
    packages = {parts[:-1] for parts in names if parts[-1] == "__init__"}
    leaves = {parts for parts in packages if not any(other[: len(parts)] == parts for other in public)}
    return {".".join(parts) for parts in public | leaves}


def reference_pages() -> str:
    return "".join(page.read_text(encoding="utf-8") for page in REFERENCE.rglob("*.md"))


@pytest.mark.parametrize("package", ["agentinputlab", "workers"])
def test_every_public_module_is_on_a_page_of_the_reference(package: str) -> None:
    shown = re.findall(rf"^::: ({package}[\w.]*)$", reference_pages(), re.MULTILINE)
    assert len(set(shown)) == len(shown)
    # Doors that have a page on commands, the older name of `contracts`, and what only `ripieno doctor` calls.
    doors = ("agentinputlab.cli.", "workers.official_arenas.cli.")
    elsewhere = {"agentinputlab.server.command", "agentinputlab.core", "agentinputlab.doctor_checks"}
    modules = {name for name in modules_of(package) if not name.startswith(doors)} - elsewhere
    assert modules == set(shown) - {"workers.official_arenas.providers"}  # names of its own beside public modules


def commands() -> list[tuple[str, click.Command]]:
    found: list[tuple[str, click.Command]] = []
    pending: list[tuple[str, click.Command]] = [("agentinputlab", agentinputlab)]
    while pending:
        path, command = pending.pop()
        found.append((path, command))
        if isinstance(command, click.Group):
            context = click.Context(command, info_name=path)
            for name in command.list_commands(context):
                child = command.get_command(context, name)
                assert child is not None
                pending.append((f"{path} {name}", child))
    return found


@pytest.mark.parametrize(("path", "command"), commands(), ids=lambda item: item if isinstance(item, str) else "")
def test_every_command_is_on_the_page_and_its_examples_parse(path: str, command: click.Command) -> None:
    page = (REFERENCE / "inputlab-cli.md").read_text(encoding="utf-8")
    assert f"\n## {path}\n" in page
    text = re.sub(r"\\\n *", " ", command.help or "")
    options = {option for param in command.params for option in (*param.opts, *param.secondary_opts)}
    for example in re.findall(rf"(?:^ +|Example: ){path} (.*)$", text, re.MULTILINE):
        if not isinstance(command, click.Group):
            words = shlex.split(re.split(r" (?:>|\||&&) ", example)[0], comments=True)
            assert {word for word in words if word.startswith("--")} <= options, example


def test_the_exit_codes_are_those_of_the_page() -> None:
    page = (REFERENCE / "inputlab-cli.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| (\d+) \|", page, re.MULTILINE) == ["0", "1", "2", "3", "130"]
    assert (EXIT_REFUSED, EXIT_NOT_READY, EXIT_FAILURES) == (2, 2, 3)
    (row,) = re.findall(r"^\| 1 \| (.*) \|$", page, re.MULTILINE)
    for name in re.findall(r"`([\w -]+)`", row):
        assert f"\n## agentinputlab {name}\n" in page, name


def test_exit_codes_of_the_page_are_what_the_commands_give(tmp_path: Path) -> None:
    def code(*words: str) -> int:
        return CliRunner().invoke(agentinputlab, words).exit_code

    (tmp_path / "broken.json").write_text("{}")
    assert code("list") == 0
    assert code("validate-registry", str(tmp_path / "broken.json")) == 1
    assert code("show", "nope") == 2
    assert code("retail", "run", "--out", str(tmp_path / "run")) == 2
    needs_a_model = ["--treatment", "plan.plan_and_solve.plan_call", "--tasks", "1", "--no-fsync"]
    assert code("retail", "run", "--arena", "fixture", *needs_a_model, "--out", str(tmp_path / "failures")) == 3
    with pytest.raises(click.exceptions.Exit) as stopped, answered(click.Context(agentinputlab)):
        raise KeyboardInterrupt
    assert stopped.value.exit_code == 130


def test_every_entry_point_group_is_documented() -> None:
    project = tomllib.loads((ROOT / "packages/inputlab/pyproject.toml").read_text(encoding="utf-8"))["project"]
    pages = reference_pages()
    code = "".join(path.read_text(encoding="utf-8") for path in SOURCES.rglob("*.py"))
    groups = {*project["entry-points"], *re.findall(r'"(agentinputlab\.(?:arenas|commands|interventions))"', code)}
    assert {"agentinputlab.arenas", "agentinputlab.commands", "agentinputlab.interventions"} <= groups
    for group in groups:
        if group.startswith("agentinputlab."):
            assert f"`{group}`" in pages, group
    for name in project["scripts"]:
        assert f"`{name}" in pages, name
    for name in project["entry-points"]["agentinputlab.arenas"]:
        assert f"`{name}`" in pages, name
