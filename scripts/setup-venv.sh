#!/usr/bin/env bash
# Makes .venv from constraints.txt and the packages of this repository, or does nothing when it is up to date.
# "Up to date" means: same checkout path, same interpreter, same dependency files as when it was made.
set -euo pipefail
cd "$(dirname "$0")/.."

# PYTHON chooses the interpreter; without it, the one that made .venv stays.
python=${PYTHON:-$(.venv/bin/python -c 'import sys; print(sys._base_executable)' 2>/dev/null || echo python3)}

fingerprint() {
  pwd
  "$python" -c 'import sys; print(sys.version, sys.base_prefix)'
  cat constraints.txt requirements-dev.txt packages/*/pyproject.toml
}

# Numba's cache notices a change of the module that holds a kernel, not of the modules that the kernel calls.
"$python" - <<'PY'
import pathlib
newest = max(path.stat().st_mtime for path in pathlib.Path("packages").glob("*/src/**/*.py"))
for cached in pathlib.Path("packages").glob("*/src/**/*.nb[ic]"):
    if cached.stat().st_mtime < newest:
        cached.unlink()
PY

stamp=.venv/.fingerprint
wanted=$(fingerprint | cksum)
if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$wanted" ]; then exit 0; fi

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
  echo "setup: Python 3.11 or newer is needed, $python is $("$python" --version 2>&1). Set PYTHON=/path/to/python3.11." >&2
  exit 2
}
echo "setup: making .venv (one to three minutes, about 3 GB; only when it is missing or stale)" >&2
rm -rf .venv
"$python" -m venv .venv
.venv/bin/python -m pip install --quiet --upgrade --constraint constraints.txt pip
.venv/bin/python -m pip install --quiet --constraint constraints.txt --requirement requirements-dev.txt
echo "$wanted" > "$stamp"
echo "setup: done" >&2
