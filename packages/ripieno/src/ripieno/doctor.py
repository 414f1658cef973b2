"""What works on this machine, and how to mend the rest.

Each installed package may add checks: an entry point of the group ``ripieno.doctor`` names a callable without
arguments that gives `CheckResult` rows. A check that fails to run is a failed row, never the end of the others.
"""

from __future__ import annotations

import importlib
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from ripieno._environment import machine
from ripieno.files import create_only

__all__ = ["DOCTOR_GROUP", "CheckResult", "run_checks"]

DOCTOR_GROUP = "ripieno.doctor"

OLDEST_PYTHON = (3, 11)
LEAST_FREE_BYTES = 2 * 2**30
COMMAND_TIMEOUT_S = 20.0
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")


@dataclass(frozen=True)
class CheckResult:
    """One row.

    Attributes:
        name: what was looked at.
        ok: whether it works.
        detail: what was found.
        remedy: one sentence that says what to do when it does not work.
        required: whether the packages need it; False for features that one can do without.
    """

    name: str
    ok: bool
    detail: str
    remedy: str = ""
    required: bool = True


_Check = Callable[[], Iterable[CheckResult]]


def run_checks() -> list[CheckResult]:
    """Run the built-in checks and those of every installed package."""
    results: list[CheckResult] = []
    for name, check in _BUILT_IN.items():
        results += _rows(name, check)
    for entry_point in sorted(metadata.entry_points(group=DOCTOR_GROUP), key=lambda entry: entry.name):
        results += _rows(entry_point.name, lambda entry_point=entry_point: entry_point.load()())
    return results


def _rows(name: str, check: _Check) -> list[CheckResult]:
    try:
        return list(check())
    except Exception as error:  # noqa: BLE001 - whatever stops a check is what the reader must see
        detail = f"the check itself failed: {type(error).__name__}: {error}"
        return [CheckResult(name, ok=False, detail=detail, remedy="Reinstall the package that brings this check.")]


def _python() -> Iterator[CheckResult]:
    oldest = ".".join(map(str, OLDEST_PYTHON))
    yield CheckResult(
        "Python",
        ok=sys.version_info >= OLDEST_PYTHON,
        detail=f"{platform.python_implementation()} {platform.python_version()}",
        remedy=f"Make the environment anew with Python {oldest} or later.",
    )


def _packages() -> Iterator[CheckResult]:
    """Every installed package of ours, with the versions that it asks for and gets."""
    from packaging.requirements import Requirement

    for distribution in sorted(metadata.distributions(), key=lambda found: found.metadata["Name"] or ""):
        name = distribution.metadata["Name"] or ""
        if not name.startswith("ripieno"):
            continue
        wrong: list[str] = []
        for text in distribution.requires or ():
            requirement = Requirement(text)
            if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
                continue
            try:
                found = metadata.version(requirement.name)
            except metadata.PackageNotFoundError:
                wrong.append(f"{requirement.name} is missing")
                continue
            if not requirement.specifier.contains(found, prereleases=True):
                wrong.append(f"{requirement.name} is {found}, needed is {requirement.specifier}")
        yield CheckResult(
            f"package {name}",
            ok=not wrong,
            detail="; ".join(wrong) or f"{distribution.version}, with everything it needs",
            remedy=f"Run: pip install --upgrade {name}",
        )


def _ray() -> Iterator[CheckResult]:
    installed = find_spec("ray") is not None
    yield CheckResult(
        "cluster (Ray)",
        ok=installed,
        detail=f"ray {metadata.version('ray')}" if installed else "not installed; cells run here or on processes",
        remedy="Run: pip install 'ripieno[cluster]'",
        required=False,
    )


def _numba() -> Iterator[CheckResult]:
    """Compiled kernels are kept on disk; without a place for them nothing that is compiled can be imported."""
    try:
        kernels = importlib.import_module("ripieno._resampling")
        ok, detail = True, f"kept in {kernels.iqm_of_counts.stats.cache_path}"
    except RuntimeError as error:
        ok, detail = False, str(error)
    yield CheckResult("compiled kernels (Numba)", ok, detail, "Set NUMBA_CACHE_DIR to a folder that you can write to.")


def _disk_space() -> Iterator[CheckResult]:
    for name, folder in (("current folder", Path.cwd()), ("temporary folder", Path(tempfile.gettempdir()))):
        free = shutil.disk_usage(folder).free
        yield CheckResult(
            f"disk space, {name}",
            ok=free >= LEAST_FREE_BYTES,
            detail=f"{free / 2**30:.1f} GiB free, {LEAST_FREE_BYTES / 2**30:.0f} wanted",
            remedy=f"Free some space on the disk of {folder}, or work on another.",
        )


def _durable_writes() -> Iterator[CheckResult]:
    """Runs rely on create-only files and fsync, which some network and overlay file systems refuse."""
    try:
        with tempfile.TemporaryDirectory() as folder:
            create_only(Path(folder) / "probe", b"probe")
        problem = ""
    except OSError as error:
        problem = str(error)
    yield CheckResult(
        "durable writes",
        ok=not problem,
        detail=problem or f"create-only files and fsync work in {tempfile.gettempdir()}",
        remedy="Set TMPDIR to a folder on a local disk.",
    )


def _clock() -> Iterator[CheckResult]:
    """A clock before the code itself was installed gives runs that seem older than what they ran."""
    now = datetime.now(UTC)
    installed = datetime.fromtimestamp(Path(__file__).stat().st_mtime, UTC)
    yield CheckResult(
        "clock",
        ok=now >= installed,
        detail=f"{now:%Y-%m-%d %H:%M} UTC" + ("" if now >= installed else f", before this package ({installed:%F})"),
        remedy="Set the clock of the machine; runs record when they started.",
    )


def _git() -> Iterator[CheckResult]:
    version = _output("git", "--version")
    yield CheckResult(
        "git",
        ok=version is not None,
        detail=version or "not found; runs cannot record the state of the code",
        remedy="Install git (Debian: apt-get install git).",
        required=False,
    )


def _processor() -> Iterator[CheckResult]:
    """Numeric libraries pick their kernels by these features, so last bits differ between machines without them."""
    found = machine()
    features = set(found["cpu_features"])
    vector_units = [label for flag, label in (("avx2", "AVX2"), ("avx512f", "AVX-512")) if flag in features]
    detail = ", ".join([found["cpu_model"] or "unknown model", found["architecture"], *vector_units])
    if "avx512f" not in features:
        detail += "; last digits can differ from those of machines with AVX-512"
    yield CheckResult("processor", ok=True, detail=detail, remedy="Compare runs made on the same kind of processor.")


def _browser() -> Iterator[CheckResult]:
    program = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    version = _output(program, "--version") if program else None
    yield CheckResult(
        "browser (tests of pages)",
        ok=version is not None,
        detail=version or "no Chromium found; only `make test-slow` needs it",
        remedy="Run scripts/system-packages.sh as root, or install Chromium.",
        required=False,
    )


def _output(program: str, *arguments: str) -> str | None:
    path = shutil.which(program)
    if path is None:
        return None
    try:
        done = subprocess.run(  # noqa: S603 - fixed arguments, no shell
            [path, *arguments], capture_output=True, text=True, timeout=COMMAND_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


_BUILT_IN: dict[str, _Check] = {
    "Python": _python,
    "packages": _packages,
    "cluster (Ray)": _ray,
    "compiled kernels (Numba)": _numba,
    "disk space": _disk_space,
    "durable writes": _durable_writes,
    "clock": _clock,
    "git": _git,
    "processor": _processor,
    "browser (tests of pages)": _browser,
}
