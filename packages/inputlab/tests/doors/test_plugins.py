"""Packages that bring commands and arenas and break while they are loaded: the rest of the command line stays."""

import json
import os
import subprocess
import sys

import pytest

SECRET = "zq9-said-by-a-plugin"
MODULE = f"""
import sys
print("{SECRET} on stdout")
sys.stderr.write("{SECRET} on stderr\\n")
no_command = 5
def raising(): raise RuntimeError("{SECRET} raised")
def leaving(): sys.exit(7)
def nothing(): return None
"""
ENTRY_POINTS = """
[agentinputlab.arenas]
vandal.raising = vandal_plugin:raising
vandal.leaving = vandal_plugin:leaving
vandal.nothing = vandal_plugin:nothing
vandal.absent = vandal_absent:factory
[agentinputlab.commands]
vandal-raising = vandal_breaks:command
vandal-leaving = vandal_leaves:command
vandal-nothing = vandal_plugin:no_command
vandal-absent = vandal_absent:command
"""
COMMANDS = ("vandal-raising", "vandal-leaving", "vandal-nothing", "vandal-absent")
ARENAS = ("vandal.raising", "vandal.leaving", "vandal.nothing", "vandal.absent")


@pytest.fixture(scope="module")
def plugins(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plugins")
    (folder / "vandal_plugin.py").write_text(MODULE)
    (folder / "vandal_breaks.py").write_text(f"raise RuntimeError('{SECRET}')")
    (folder / "vandal_leaves.py").write_text("raise SystemExit(7)")
    about = folder / "vandal_plugin-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: vandal-plugin\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(ENTRY_POINTS)
    return folder


def said(plugins, module, *arguments):
    path = os.pathsep.join(filter(None, [str(plugins), os.environ.get("PYTHONPATH", "")]))
    done = subprocess.run(
        [sys.executable, "-m", module, *map(str, arguments)],
        capture_output=True,
        check=False,
        env={**os.environ, "PYTHONPATH": path},
        timeout=120,
    )
    assert b"Traceback" not in done.stdout + done.stderr, done.stderr
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def test_help_names_every_command_when_some_cannot_be_loaded(plugins):
    code, stdout, _ = said(plugins, "agentinputlab", "--help")
    assert code == 0
    for name in (*COMMANDS, "retail", "campaign", "smoke"):
        assert name in stdout
    assert "RuntimeError" in stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_that_cannot_be_loaded_is_refused_by_name(plugins, name):
    code, stdout, stderr = said(plugins, "agentinputlab", name)
    assert code == 2
    assert f"agentinputlab: the command '{name}'" in stderr
    if name != "vandal-nothing":  # whose module is loaded, and talks
        assert SECRET not in stdout + stderr


@pytest.mark.parametrize("name", ARENAS)
def test_an_arena_that_cannot_be_loaded_is_refused_in_silence(plugins, name, tmp_path):
    run = ["retail", "run", "--arena", name, "--treatment", "plan.plan_and_solve.ps_prompt", "--json"]
    code, stdout, stderr = said(plugins, "agentinputlab", *run, "--out", tmp_path / "out")
    assert (code, stdout) == (2, "")
    assert stderr.startswith("agentinputlab: Provider entry point vandal_")
    assert len(stderr.splitlines()) == 1
    assert SECRET not in stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ARENAS)
def test_no_worker_says_what_an_arena_says_while_it_is_loaded(plugins, name, tmp_path):
    draft = ["--draft-scope", tmp_path / "scope.json", "--root", tmp_path, "--provider", name]
    code, stdout, stderr = said(plugins, "workers.official_arenas.retail_capture", *draft)
    assert (code, stdout) == (2, "")
    assert json.loads(stderr)["error"] == "OfficialArenaError"


def test_the_doctor_has_a_row_for_every_arena_that_cannot_be_loaded(plugins):
    code, stdout, stderr = said(plugins, "agentinputlab", "doctor", "--offline", "--json")
    assert (code, stderr) == (0, "")
    rows = {row["name"]: row for row in json.loads(stdout)["checks"]}
    for name in ARENAS:
        assert not rows[f"arena {name}"]["ok"]
