"""The documentation says what the software does: commands, options and links are checked, not trusted."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "packages").glob("*/README.md")])


def test_cli_reference_is_what_the_commands_say():
    script = runpy.run_path(str(ROOT / "scripts" / "cli_reference.py"))
    assert (ROOT / "docs/reference/cli.md").read_text(encoding="utf-8") == script["render"](), (
        "run: .venv/bin/python scripts/cli_reference.py"
    )


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
    "page", [ROOT / "README.md", ROOT / "packages" / "concerto" / "README.md"], ids=lambda p: p.parent.name
)
def test_python_blocks_of_the_readmes_run(page):
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    assert blocks
    for block in blocks:
        done = subprocess.run([sys.executable, "-W", "error", "-c", block], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
