"""The doctor finds what is broken, says how to mend it, and is never broken by what it looks at."""

import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path

import pytest

import ripieno
from ripieno import doctor
from ripieno.doctor import CheckResult, run_checks


def by_name() -> dict[str, CheckResult]:
    return {result.name: result for result in run_checks()}


def install(folder: Path, name: str, *, entry_points: str = "", requires: tuple[str, ...] = (), code: str = "") -> None:
    """Put a distribution with metadata and one module into a folder, as an installer would."""
    information = folder / f"{name.replace('-', '_')}-1.0.dist-info"
    information.mkdir(parents=True)
    lines = ["Metadata-Version: 2.1", f"Name: {name}", "Version: 1.0", *(f"Requires-Dist: {r}" for r in requires)]
    (information / "METADATA").write_text("\n".join(lines) + "\n")
    (information / "entry_points.txt").write_text(entry_points)
    (folder / f"{name.replace('-', '_')}.py").write_text(textwrap.dedent(code))


def test_built_in_checks_look_at_what_the_packages_need() -> None:
    results = by_name()
    for name in (
        "Python",
        "package ripieno",
        "cluster (Ray)",
        "compiled kernels (Numba)",
        "disk space, current folder",
        "disk space, temporary folder",
        "durable writes",
        "clock",
        "git",
        "processor",
        "browser (tests of pages)",
    ):
        assert name in results, name
    assert all(result.detail and result.remedy for result in results.values())
    for name in ("Python", "package ripieno", "compiled kernels (Numba)", "durable writes", "clock", "processor"):
        assert results[name].ok, results[name]


def test_features_that_one_can_do_without_are_not_required() -> None:
    optional = {name for name, result in by_name().items() if not result.required}
    assert {"cluster (Ray)", "git", "browser (tests of pages)"} <= optional
    assert "durable writes" not in optional


def test_installed_package_adds_its_checks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(
        tmp_path,
        "orchestra",
        entry_points="[ripieno.doctor]\norchestra = orchestra:checks\n",
        code="""
            from ripieno.doctor import CheckResult

            def checks():
                yield CheckResult("strings", ok=True, detail="in tune")
                yield CheckResult("brass", ok=False, detail="too loud", remedy="Use a mute.")
        """,
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    results = by_name()
    assert results["strings"].ok
    assert (results["brass"].ok, results["brass"].remedy) == (False, "Use a mute.")


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("def checks(): raise RuntimeError('out of rosin')", "RuntimeError: out of rosin"),
        ("def checks():\n    yield 1 / 0", "ZeroDivisionError"),
        ("import no_such_module_anywhere", "ModuleNotFoundError"),
        ("", "AttributeError"),
        ("checks = 5", "TypeError"),
    ],
)
def test_check_that_raises_is_one_failed_row(
    code: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = f"orchestra_{tmp_path.name}"  # a name that no other case has imported
    install(tmp_path, module, entry_points=f"[ripieno.doctor]\nbroken = {module}:checks\n", code=code)
    monkeypatch.syspath_prepend(str(tmp_path))
    before = len(run_checks_without(monkeypatch, tmp_path))
    results = run_checks()
    (broken,) = (result for result in results if result.name == "broken")
    assert not broken.ok
    assert message in broken.detail
    assert len(results) == before + 1


def run_checks_without(monkeypatch: pytest.MonkeyPatch, folder: Path) -> list[CheckResult]:
    with monkeypatch.context() as patch:
        patch.setattr(sys, "path", [entry for entry in sys.path if entry != str(folder)])
        return run_checks()


def test_missing_and_too_old_requirements_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    requires = ("numpy>=99", "no-such-distribution", "click", "never-asked-for; extra == 'all'")
    install(tmp_path, "ripieno-orchestra", requires=requires)
    monkeypatch.syspath_prepend(str(tmp_path))
    row = by_name()["package ripieno-orchestra"]
    assert not row.ok
    assert "numpy is " in row.detail
    assert ", needed is >=99" in row.detail
    assert "no-such-distribution is missing" in row.detail
    assert "click" not in row.detail
    assert "never-asked-for" not in row.detail
    assert row.remedy == "Run: pip install --upgrade ripieno-orchestra"


def test_temporary_folder_that_cannot_be_written_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    results = by_name()
    assert not results["durable writes"].ok
    assert "missing" in results["durable writes"].detail
    assert results["durable writes"].remedy == "Set TMPDIR to a folder on a local disk."
    assert results["Python"].ok


def test_programs_that_are_missing_or_broken_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    results = by_name()
    assert not results["git"].ok
    assert not results["browser (tests of pages)"].ok
    broken = tmp_path / "git"
    broken.write_text("#!/bin/sh\nexit 3\n")
    broken.chmod(0o755)
    assert not by_name()["git"].ok
    broken.write_text("#!/bin/sh\necho git version 9.9\n")
    assert by_name()["git"] == CheckResult("git", True, "git version 9.9", results["git"].remedy, required=False)


def test_missing_ray_full_disk_and_slow_clock_are_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.setattr(doctor, "LEAST_FREE_BYTES", 2**80)
    installed_tomorrow = tmp_path / "doctor.py"
    installed_tomorrow.touch()
    os.utime(installed_tomorrow, times=(time.time() + 86_400,) * 2)
    monkeypatch.setattr(doctor, "__file__", str(installed_tomorrow))
    results = by_name()
    assert results["cluster (Ray)"].remedy == "Run: pip install 'ripieno[cluster]'"
    for name in ("cluster (Ray)", "disk space, current folder", "disk space, temporary folder", "clock"):
        assert not results[name].ok, name


def test_kernels_that_cannot_be_kept_anywhere_are_found(tmp_path: Path) -> None:
    package = tmp_path / "ripieno"
    shutil.copytree(Path(ripieno.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    (package / "__pycache__").touch()  # a file where the folder would be
    no_folder = tmp_path / "file"
    no_folder.touch()
    code = (
        "from importlib import metadata\n"
        "metadata.entry_points = lambda **_: ()\n"  # other packages are not asked: theirs would compile for a minute
        "from ripieno.doctor import run_checks\n"
        "row = next(row for row in run_checks() if row.name == 'compiled kernels (Numba)')\n"
        "print(row.ok, row.detail, row.remedy, sep='|')\n"
    )

    def row(**variables: str) -> list[str]:
        environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(tmp_path), "HOME": str(no_folder), **variables}
        command = [sys.executable, "-c", code]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.split("|")

    ok, detail, remedy = row()
    assert ok == "False"
    assert "cannot cache" in detail
    assert "NUMBA_CACHE_DIR" in remedy
    ok, detail, _ = row(NUMBA_CACHE_DIR=str(tmp_path / "kept"))  # the remedy mends it
    assert ok == "True"
    assert detail.startswith(f"kept in {tmp_path / 'kept'}")
