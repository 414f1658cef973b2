"""Every command of `agentinputlab`: its help, its JSON, its refusals, and what it loads to say so."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from agentinputlab.cli._app import COMMANDS, PLUGIN_GROUP, agentinputlab
from agentinputlab.registry import load_packaged_registry

HEAVY = ("numpy", "scipy", "matplotlib", "httpx", "pydantic", "yaml", "rich", "jinja2")
OFFLINE_JSON = [
    ["list"],
    ["list", "--releases"],
    ["list", "--search", "no such thing"],
    ["list", "--releases", "--search", "no such thing"],
    ["doctor", "--offline"],
    ["smoke"],
    ["validate-registry"],
    ["datasets", "list"],
    ["selector", "list"],
    ["selector", "features", "--query", "Return both lamps"],
    ["power", "--helps", "0.3"],
    ["power", "--helps", "0.3", "--tasks", "30"],
    ["compose", "plan.plan_and_solve.ps_prompt", "--query", "Return it"],
    ["campaign", "methods"],
]


def all_commands() -> Iterator[tuple[str, ...]]:
    """Every command and group below the root, by its words."""

    def below(command: click.Command, words: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        yield words
        if isinstance(command, click.Group):
            context = click.Context(command)
            for name in command.list_commands(context):
                sub = command.get_command(context, name)
                assert sub is not None
                yield from below(sub, (*words, name))

    return below(agentinputlab, ())


EVERY = list(all_commands())
LEAVES = [
    words for words in EVERY if words and not any(other[: len(words)] == words and other != words for other in EVERY)
]


def command_of(words: tuple[str, ...]) -> click.Command:
    command: click.Command = agentinputlab
    for word in words:
        assert isinstance(command, click.Group)
        found = command.get_command(click.Context(command), word)
        assert found is not None
        command = found
    return command


def invoke(*arguments: object, **options: Any) -> Result:
    return CliRunner().invoke(agentinputlab, [str(item) for item in arguments], prog_name="agentinputlab", **options)


def process(*arguments: object, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "agentinputlab", *map(str, arguments)],
        capture_output=True,
        check=False,
        text=True,
        env={**os.environ, **variables},
        timeout=120,
    )


def examples(command: click.Command) -> list[list[str]]:
    """The command lines in a help text, continued lines joined, comments, redirections and other programs left out."""
    joined = re.sub(r"\\\n\s+", " ", command.help or "")
    joined = re.sub(r"\n {4,}(?=--)", " ", joined)
    lines = [re.sub(r"^Example: | > \S+$", "", line.strip()) for line in joined.splitlines()]
    return [shlex.split(line, comments=True)[1:] for line in lines if line.startswith("agentinputlab ")]


def parse(arguments: list[str]) -> list[str]:
    """Parse a whole command line without running it; give the words of the command that it names."""
    command: click.Command = agentinputlab
    context = command.make_context("agentinputlab", list(arguments))
    words: list[str] = []
    while isinstance(command, click.Group):
        rest = [*context._protected_args, *context.args]
        name, found, rest = command.resolve_command(context, rest)
        assert name is not None
        assert found is not None
        words.append(name)
        command, context = found, found.make_context(name, rest, parent=context)
    return words


# --- help ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", EVERY, ids=" ".join)
def test_help_has_an_example_that_parses_and_is_about_this_command(words: tuple[str, ...]) -> None:
    found = examples(command_of(words))
    assert found, f"agentinputlab {' '.join(words)} --help shows no example"
    named = [tuple(parse(arguments)) for arguments in found]
    same = command_of(words)
    assert any(name[: len(words)] == words or command_of(name) is same for name in named), named


@pytest.mark.parametrize("name", COMMANDS)
def test_the_line_in_the_table_is_the_first_line_of_the_command(name: str) -> None:
    assert (command_of((name,)).help or "").strip().splitlines()[0] == COMMANDS[name][2]


@pytest.mark.parametrize("words", EVERY, ids=" ".join)
def test_help_answers_on_stdout_to_both_spellings(words: tuple[str, ...]) -> None:
    long, short = invoke(*words, "--help"), invoke(*words, "-h")
    assert (long.exit_code, long.stderr) == (0, "")
    assert long.stdout == short.stdout
    assert long.stdout.startswith(f"Usage: {' '.join(['agentinputlab', *words])}")


@pytest.mark.parametrize("words", LEAVES, ids=" ".join)
def test_every_option_is_explained(words: tuple[str, ...]) -> None:
    silent = [
        parameter.name
        for parameter in command_of(words).params
        if isinstance(parameter, click.Option) and not parameter.help
    ]
    assert silent == []


def test_root_help_lists_every_command_and_every_plugin() -> None:
    shown = invoke("--help").stdout
    plugins = {entry.name for entry in entry_points(group=PLUGIN_GROUP)}
    assert {"retail", "campaign"} <= plugins
    for name in (*COMMANDS, *plugins):
        assert re.search(rf"^  {name}  ", shown, re.MULTILINE), name
    assert "does not load" not in shown


LOADED = """
import sys, json
from agentinputlab.cli.main import main
sys.argv = ["agentinputlab", *sys.argv[1:]]
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
print(json.dumps(sorted(sys.modules)), file=sys.stderr)
"""


def heavy_after(program: str, *arguments: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, check=True, text=True)
    loaded = set(json.loads(done.stderr.splitlines()[-1]))
    assert "agentinputlab" in loaded
    return [name for name in HEAVY if name in loaded]


@pytest.mark.parametrize("words", [words for words in EVERY if len(words) < 2], ids=" ".join)
def test_help_loads_no_heavy_module(words: tuple[str, ...]) -> None:
    assert heavy_after(LOADED, *words, "--help") == []


@pytest.mark.parametrize("module", ["agentinputlab", "agentinputlab.contracts", "agentinputlab.registry", "workers"])
def test_importing_loads_no_heavy_module(module: str) -> None:
    program = f"import sys, json, agentinputlab, {module}\nprint(json.dumps(sorted(sys.modules)), file=sys.stderr)"
    assert heavy_after(program) == []


def test_the_search_for_heavy_modules_can_fail() -> None:
    program = "import sys, json, agentinputlab, numpy\nprint(json.dumps(sorted(sys.modules)), file=sys.stderr)"
    assert heavy_after(program) == ["numpy"]


# --- JSON ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", OFFLINE_JSON, ids=" ".join)
def test_json_is_exactly_one_value_on_stdout(words: list[str]) -> None:
    result = invoke(*words, "--json")
    assert result.exit_code == 0, result.stderr
    json.loads(result.stdout, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert result.stdout.endswith("\n")
    assert result.stderr == ""


def test_every_command_with_json_is_tried_here_or_beside_its_own_tests() -> None:
    with_json = {words for words in LEAVES if any("--json" in parameter.opts for parameter in command_of(words).params)}
    tried = {words for words in LEAVES if any(tuple(other[: len(words)]) == words for other in OFFLINE_JSON)}
    elsewhere = {("serve-model",), ("retail", "run")} | {words for words in LEAVES if words[0] == "campaign"}
    assert with_json <= tried | elsewhere


@pytest.mark.parametrize("words", [["show", "plan.plan_and_solve"], ["datasets", "show", "beir.fiqa_2018"]])
def test_cards_are_one_json_value(words: list[str]) -> None:
    assert isinstance(json.loads(invoke(*words).stdout), dict)


def test_a_retail_run_says_one_json_value(tmp_path: Path) -> None:
    options = ["--arena", "fixture", "--split", "train", "--tasks", "2", "--no-fsync", "--json"]
    done = process("retail", "run", *options, "--treatment", "plan.plan_and_solve.ps_prompt", "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    assert (record["verified"], record["was_complete"]) == (True, False)
    assert record["folder"] == str(tmp_path / "out")


# --- acceptance cases of the toolkit ------------------------------------------------------------------------


def test_smoke_finds_the_right_document() -> None:
    result = invoke("smoke", "--json")
    record = json.loads(result.stdout)
    assert result.exit_code == 0
    assert record.pop("patch_hash")
    assert record == {
        "ok": True,
        "offline": True,
        "profile_kind": "fixture_unverified",
        "release_id": "fixture.query2doc.cached",
        "input_state_hash": "8189b53b726c198fd6b5f100a833987d525773707bd03184fad7277f11189817",
        "top_document_id": "fr",
    }
    assert invoke("smoke").stdout.splitlines()[0] == "offline smoke: OK - fixture.query2doc.cached -> fr"


def test_an_offline_doctor_knows_the_whole_roster() -> None:
    result = invoke("doctor", "--offline", "--json")
    record = json.loads(result.stdout)
    assert result.exit_code == 0
    counts = {name: record[f"{name}_count"] for name in ("method", "core", "optional", "must_ship")}
    assert counts == {"method": 27, "core": 20, "optional": 7, "must_ship": 12}
    assert (record["ok"], record["offline"], record["errors"]) == (True, True, [])
    assert record["snapshot_synchronized"] in (True, None)
    assert {row["state"] for row in record["releases"]} == {
        "ready",
        "needs_model",
        "needs_retrieval",
        "blocked",
    }
    assert len(record["releases"]) == record["release_count"]
    assert all(row["reason"] for row in record["releases"] if row["state"] == "blocked")
    arenas = {check["name"]: check for check in record["checks"] if check["name"].startswith("arena ")}
    assert arenas["arena embedded.retail"]["ok"]
    assert arenas["arena fixture.common_support"]["ok"]


def test_a_doctor_that_finds_an_endpoint_dead_exits_1() -> None:
    result = invoke("doctor", "--endpoint", "http://127.0.0.1:9/v1", "--json")
    record = json.loads(result.stdout)
    assert (result.exit_code, record["ok"]) == (1, False)
    (check,) = [check for check in record["checks"] if check["name"].startswith("endpoint")]
    assert (check["ok"], check["required"]) == (False, True)
    assert record["errors"] == [f"{check['name']}: {check['detail']}"]
    assert invoke("doctor", "--endpoint", "http://127.0.0.1:9/v1", "--offline").exit_code == 0


def test_a_doctor_that_finds_another_registry_says_so(tmp_path: Path) -> None:
    other = load_packaged_registry() | {"audit_date": "another day"}
    (tmp_path / "registry.json").write_text(json.dumps(other))
    words = ("doctor", "--offline", "--source", str(tmp_path / "registry.json"))
    record = json.loads(invoke(*words, "--json").stdout)
    assert (record["ok"], record["snapshot_synchronized"]) == (False, False)
    assert len(record["errors"]) == 1
    result = invoke(*words)
    assert result.exit_code == 1
    assert "registry.json and the packaged one differ" in result.stderr


def test_an_unknown_id_says_where_ids_are_listed() -> None:
    result = invoke("show", "nope")
    assert (result.exit_code, result.stdout) == (2, "")
    wanted = "agentinputlab: unknown algorithm or release ID: nope; use agentinputlab list --releases\n"
    assert result.stderr == wanted


def test_a_release_without_parameters_says_so() -> None:
    result = invoke("show", "plan.plan_and_solve.ps_prompt", "--parameters")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["parameters"] == []


def test_every_runnable_release_can_be_described() -> None:
    releases = json.loads(invoke("list", "--releases", "--json").stdout)
    runnable = [row["RELEASE"] for row in releases if row["RUNNABLE"] == "yes"]
    assert len(runnable) > 20
    for release in runnable:
        record = json.loads(invoke("show", release, "--parameters").stdout)
        for parameter in record["parameters"]:
            assert set(parameter) == {"name", "annotation", "required", "default"}, release
            assert "<factory>" not in str(parameter["default"]), release


# --- bad input ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        ["show", "plan.nothing"],
        ["show", "plan.plan_and_solve", "--parameters"],
        ["--registry", "/nowhere/registry.json", "list"],
        ["--registry", "/", "list"],
        ["doctor", "--offline", "--source", "/nowhere/registry.json"],
        ["datasets", "show", "nothing"],
        [
            "datasets",
            "prepare",
            "beir.fiqa_2018",
            "--url",
            "file:///etc/passwd",
            "--sha256",
            "0" * 64,
            "--cache-dir",
            "x",
        ],
        ["selector", "inspect", "nothing"],
        ["selector", "features"],
        ["power", "--helps", "1.5"],
        ["power", "--helps", "nan"],
        ["power", "--helps", "0.6", "--hurts", "0.6"],
        ["power", "--helps", "0.3", "--tasks", "-1"],
        ["power", "--helps", "0.3", "--alpha", "0"],
        ["power", "--helps", "0.3", "--power", "1.0"],
        ["power", "--helps", "0.0"],
        ["compose", "nothing", "--query", "x"],
        ["compose", "plan.plan_and_solve.ps_prompt", "--state", "/nowhere/state.json"],
        ["serve-model", "--scripted", "/nowhere/rules.yaml"],
        ["campaign", "doctor", "/nowhere/plan.yaml"],
        ["campaign", "doctor", "/"],
        ["campaign", "prepare", "/nowhere/plan.yaml"],
        ["campaign", "run", "/nowhere/plan.yaml", "--out", "/nowhere/out"],
        ["campaign", "bootstrap", "/nowhere/plan.yaml", "--out", "/nowhere/out"],
        ["campaign", "analyze", "/nowhere"],
        ["retail", "run", "--treatment", "plan.nothing", "--arena", "fixture", "--tasks", "1", "--out", "/nowhere/a/b"],
    ],
    ids=lambda arguments: " ".join(arguments)[:60],
)
def test_bad_input_is_one_line_on_stderr_and_exit_2(arguments: list[str]) -> None:
    result = invoke(*arguments)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    lines = result.stderr.splitlines()
    said = [line for line in lines if line.startswith(("agentinputlab: ", "Not ready: "))]
    assert len(said) == 1, lines
    assert "internal error" not in said[0]
    assert "Traceback" not in result.stderr
    assert not Path("/nowhere").exists()


@pytest.mark.parametrize(
    "arguments",
    [["lst"], ["list", "--famly", "x"], ["list", "--family", "x"], ["power"], ["show"], ["campaign", "rn"], ["--nope"]],
    ids=" ".join,
)
def test_a_wrong_word_is_a_usage_error_with_exit_2(arguments: list[str]) -> None:
    result = invoke(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "Error: " in result.stderr
    assert "Traceback" not in result.stderr


def test_a_folder_that_is_no_campaign_is_a_negative_verdict(tmp_path: Path) -> None:
    for folder in (tmp_path / "nowhere", tmp_path):
        result = invoke("campaign", "verify", folder)
        assert result.exit_code == 1
        assert result.stdout.startswith("not_a_run: ")


def test_a_misspelt_command_gets_a_hint() -> None:
    assert "Did you mean 'smoke'?" in invoke("smok").stderr
    assert "Did you mean 'campaign'?" in invoke("campain").stderr


def test_debug_shows_the_traceback_and_only_debug_does() -> None:
    assert "Traceback" in process("--debug", "show", "nope").stderr
    assert "Traceback" not in process("show", "nope").stderr


def test_a_registry_that_is_none_is_found_wrong(tmp_path: Path) -> None:
    path = tmp_path / "registry.json"
    for text in (
        "{",
        "[]",
        "{}",
        '{"schema_version": 1, "schema_version": 1}',
        "[" * 5000,
        "\ud800".encode("utf-8", "surrogatepass").decode("latin-1"),
    ):
        path.write_text(text)
        result = invoke("validate-registry", path, "--json")
        record = json.loads(result.stdout)
        assert (result.exit_code, record["ok"], len(record["errors"])) == (1, False, 1)
        plain = invoke("validate-registry", path)
        assert (plain.exit_code, plain.stdout, len(plain.stderr.splitlines())) == (1, "", 1)


# --- pipes and terminals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words", [["list", "--releases"], ["list", "--releases", "--json"], ["datasets", "list", "--json"]]
)
def test_a_reader_that_leaves_early_gets_no_traceback(words: list[str]) -> None:
    command = f"{shlex.join([sys.executable, '-m', 'agentinputlab', *words])} | head -c 1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, check=True, text=True)
    assert done.stderr == ""
    assert len(done.stdout) == 1


def test_a_reader_that_is_gone_before_the_first_byte_gets_no_traceback() -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    done = subprocess.run(
        [sys.executable, "-m", "agentinputlab", "list", "--releases"],
        stdout=write_end,
        stderr=subprocess.PIPE,
        check=False,
        text=True,
    )
    os.close(write_end)
    assert done.stderr == ""
    assert done.returncode != 0


@pytest.mark.parametrize(
    "words",
    [["--help"], ["list"], ["doctor", "--offline"], ["compose", "plan.plan_and_solve.ps_prompt", "--query", "x"]],
)
def test_no_colour_reaches_a_terminal_that_wants_none(words: list[str]) -> None:
    master, slave = os.openpty()
    running = subprocess.Popen(
        [sys.executable, "-m", "agentinputlab", *words],
        stdout=slave,
        stderr=slave,
        env={**os.environ, "NO_COLOR": "1", "TERM": "xterm-256color"},
    )
    os.close(slave)
    seen = bytearray()
    while True:
        try:
            data = os.read(master, 65536)
        except OSError:
            break
        if not data:
            break
        seen += data
    os.close(master)
    assert running.wait(timeout=60) == 0
    assert seen
    assert re.search(rb"\x1b\[[0-9;]*(3[0-7]|4[0-7]|38|48|9[0-7])[0-9;]*m", bytes(seen)) is None


def test_the_short_name_of_campaigns_is_the_same_command() -> None:
    program = "from agentinputlab.cli.main import experiments; experiments()"
    done = subprocess.run(
        [sys.executable, "-c", program, "methods", "--json"], capture_output=True, check=True, text=True
    )
    assert json.loads(done.stdout) == json.loads(invoke("campaign", "methods", "--json").stdout)


def test_version_is_that_of_the_package() -> None:
    from importlib.metadata import version

    assert invoke("--version").stdout.strip() == f"agentinputlab, version {version('ripieno-inputlab')}"
