"""The documentation says what the software does: commands, options and links are checked, not trusted."""

from __future__ import annotations

import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest

from scpn_phase_orchestrator.binding import (
    binding_schema,
    binding_warnings,
    load_binding_spec,
    validate_binding_spec,
)
from scpn_phase_orchestrator.runtime.cli import main as spo
from scpn_phase_orchestrator.runtime.cli._app import COMMANDS, EXIT_INTERNAL, EXIT_REFUSED
from scpn_phase_orchestrator.runtime.cli._run import EXIT_INTERRUPTED
from scpn_phase_orchestrator.runtime.simulation import simulate

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "packages").glob("*/README.md")])


def test_cli_references_are_what_the_commands_say():
    command = [sys.executable, str(ROOT / "scripts" / "cli_reference.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_exit_codes_of_spo_are_those_of_the_page():
    page = (ROOT / "docs/reference/phase-cli.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| (\d+) \|", page, re.MULTILINE) == ["0", "1", "2", "3", "130"]
    assert (EXIT_REFUSED, EXIT_INTERNAL, EXIT_INTERRUPTED) == (1, 3, 130)
    named = re.findall(r"^\| (`.*`) \|", page, re.MULTILINE)
    assert {name for cell in named for name in re.findall(r"`([\w-]+)`", cell)} <= set(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_of_spo_shows_an_example_that_parses(name):
    context = click.Context(spo, info_name="spo")
    command = spo.get_command(context, name)
    examples = re.findall(rf"^ +(?:spo {name}|spo .*&& spo {name})(.*)$", command.help, re.MULTILINE)
    assert examples, f"spo {name} --help has no example"
    options = {option for param in command.params for option in (*param.opts, *param.secondary_opts)}
    for example in examples:
        words = shlex.split(re.split(r" (?:>|\||&&) ", example)[0], comments=True)
        assert {word for word in words if word.startswith("-")} <= options, example
    assert command.help.partition("\n")[0].strip() == COMMANDS[name][2]


def test_the_page_on_specs_is_what_the_loader_reads():
    script = runpy.run_path(str(ROOT / "scripts" / "binding_reference.py"))
    assert (ROOT / "docs/reference/binding-spec.md").read_text(encoding="utf-8") == script["render"](), (
        "run: .venv/bin/python scripts/binding_reference.py"
    )


def test_the_complete_example_of_a_spec_has_every_key_and_runs():
    path = ROOT / "examples/binding_spec_complete.yaml"
    text, keys = path.read_text(encoding="utf-8"), set()
    pending = [binding_schema()]
    while pending:
        node = pending.pop()
        keys |= set(node.get("properties", {})) if isinstance(node, dict) else set()
        pending += node.values() if isinstance(node, dict) else node if isinstance(node, list) else []
    assert len(keys) > 80
    assert {
        key for key in keys - {"imprint"} if not re.search(rf"\b{key}: ", text) and f"{key}:\n" not in text
    } == set()
    spec = load_binding_spec(path)
    assert validate_binding_spec(spec) == []
    warnings = [warning.split(" ")[0] for warning in binding_warnings(spec)]
    assert warnings == ["cross_channel_couplings", "value_alignment"]
    result = simulate(spec, steps=600)
    assert result.verdict is not None
    assert result.verdict.outcome.value == "achieved"


def test_every_public_module_of_phase_is_on_a_page_of_the_reference():
    package = ROOT / "packages/phase/src/scpn_phase_orchestrator"
    shown = set(re.findall(r"^::: scpn_phase_orchestrator\.([\w.]+)$", _all_reference_pages(), re.MULTILINE))
    modules = {
        ".".join(file.relative_to(package).with_suffix("").parts)
        for file in package.rglob("*.py")
        if not any(part.startswith("_") for part in file.relative_to(package).parts)
    }
    # Doors that have a page on commands, and what only these doors use.
    behind_doors = {name for name in modules if name.startswith(("scaffold.", "runtime.demo", "runtime.doctor_checks"))}
    assert modules - behind_doors == shown - {"domainpacks"}


def test_every_public_module_of_chamber_is_on_a_page_of_the_reference():
    package = ROOT / "packages/concerto/src/chamber"
    shown = set(re.findall(r"^::: chamber\.([\w.]+)$", _all_reference_pages(), re.MULTILINE))
    modules = {
        ".".join(file.relative_to(package).with_suffix("").parts)
        for file in package.rglob("*.py")
        if not any(part.startswith("_") for part in file.relative_to(package).parts)
    }
    covered = {name for name in modules if name in shown or name.rpartition(".")[0] in shown}
    doors = {name for name in modules if name.startswith("cli.") or name in {"demo", "arm_demo", "doctor"}}
    assert modules - covered - doors == {name for name in modules if name.startswith("cell_report.")}


def _all_reference_pages():
    return "".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs/reference").glob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_relative_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8")):
        if not target.startswith(("http:", "https:", "mailto:")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_named_make_targets_and_scripts_exist(page):
    text = page.read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert set(re.findall(r"\bmake ([a-z][a-z-]*)\b(?=[`\s;,.]*(?:[`#\n)]|$))", text)) <= targets
    for script in re.findall(r"\b((?:scripts|benchmarks|examples)/[\w./-]+\.(?:sh|py|json|md))\b", text):
        assert (ROOT / script).exists(), f"{page.name} names {script}"


def test_the_damage_of_the_tutorial_is_found(tmp_path):
    tutorial = (ROOT / "docs/tutorials/first-run.md").read_text(encoding="utf-8")
    (damage,) = re.findall(r"^sed -i .*$", tutorial, re.MULTILINE)
    ripieno = [sys.executable, "-m", "ripieno"]
    demo = ["demo", "push", "--out", "runs/push-...", "--episodes", "1"]
    subprocess.run([*ripieno, *demo], cwd=tmp_path, check=True, capture_output=True)
    subprocess.run(["bash", "-c", damage], cwd=tmp_path, check=True)
    verify = [*ripieno, "verify", "runs/push-..."]
    done = subprocess.run(verify, cwd=tmp_path, check=False, capture_output=True, text=True)
    assert done.returncode == 1
    assert "first problem: three_tables.json: changed" in done.stdout


def test_readme_names_the_two_commands():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "make demo" in readme
    assert "make test" in readme


@pytest.mark.parametrize(
    ("folder", "name"),
    [
        ("ripieno", "ripieno"),
        ("concerto", "concerto"),
        ("phase", "scpn_phase_orchestrator"),
        ("inputlab", "agentinputlab"),
    ],
)
def test_every_package_has_a_readme_that_names_its_import(folder, name):
    assert f"`{name}" in (ROOT / "packages" / folder / "README.md").read_text(encoding="utf-8")


def test_nothing_names_a_machine_or_an_index_host():
    pattern = re.compile(r"/(?:home|root|Users)/\w|https?://[^ ]*/simple\b")
    folders = [ROOT / "scripts", ROOT / "benchmarks", ROOT / "examples"]
    files = [*PAGES, *ROOT.glob("*.*"), *(file for folder in folders for file in folder.rglob("*.*"))]
    texts = [file for file in files if file.suffix in {".md", ".toml", ".txt", ".yml", ".cff", ".sh", ".py", ".json"}]
    assert texts
    for file in texts:
        assert pattern.search(file.read_text(encoding="utf-8")) is None, file


@pytest.mark.parametrize(
    "page",
    [ROOT / "README.md", *(ROOT / "packages" / name / "README.md" for name in ("concerto", "phase", "inputlab"))],
    ids=lambda p: p.parent.name,
)
def test_python_blocks_of_the_readmes_run(page, tmp_path):
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    assert blocks
    for block in blocks:
        command = [sys.executable, "-W", "error", "-c", block]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
