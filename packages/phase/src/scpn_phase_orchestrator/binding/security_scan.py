"""A scan of the code and specs in a folder for constructs that run what data says."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

__all__ = ["UnsafePatternFinding", "scan_unsafe_patterns"]

_SNIPPET_LENGTH = 160

_PYTHON_PATTERNS = (
    ("dynamic-eval", re.compile(r"(?<![\w.])eval\s*\(")),
    ("dynamic-exec", re.compile(r"(?<![\w.])exec\s*\(")),
    (
        "insecure-deserialization",
        re.compile(r"\b(?:c?[Pp]ickle|dill|marshal|shelve)\s*\.\s*(?:loads?|open|Unpickler)\s*\("),
    ),
    ("shell-exec", re.compile(r"\bos\s*\.\s*(?:system|popen)\s*\(")),
    ("shell-exec", re.compile(r"\bsubprocess\b.*\bshell\s*=\s*True")),
    ("unsafe-yaml", re.compile(r"\byaml\s*\.\s*(?:unsafe_load(?:_all)?|full_load(?:_all)?)\s*\(")),
    ("unsafe-yaml", re.compile(r"\byaml\s*\.\s*load(?:_all)?\s*\((?!.*Safe)")),
)
_YAML_PATTERNS = (("unsafe-yaml-tag", re.compile(r"!!python/")),)
_PATTERNS = {".py": _PYTHON_PATTERNS, ".yaml": _YAML_PATTERNS, ".yml": _YAML_PATTERNS}


@dataclass(frozen=True)
class UnsafePatternFinding:
    """One line that runs what data says: file, line from 1, category, and the line itself (shortened)."""

    path: Path
    line: int
    category: str
    snippet: str


def scan_unsafe_patterns(root: str | Path) -> list[UnsafePatternFinding]:
    """Lines of ``.py`` and ``.yaml`` files below a folder (or in one file) that run what data says.

    Categories: dynamic-eval, dynamic-exec, insecure-deserialization, shell-exec, unsafe-yaml, unsafe-yaml-tag. Links
    are not followed. The scan looks at text, line by line: it finds carelessness, not malice.

    Raises:
        ValueError: there is no such file or folder.
        OSError: a file cannot be read.
    """
    start = Path(root)
    if not start.exists():
        raise ValueError(f"root must be a file or folder, got {str(start)!r}")
    candidates = [start] if start.is_file() else sorted(start.rglob("*"))
    findings: list[UnsafePatternFinding] = []
    for path in candidates:
        patterns = _PATTERNS.get(path.suffix.lower())
        if patterns is None or not path.is_file() or (path.is_symlink() and path != start):
            continue
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        for number, line in enumerate(lines, start=1):
            found = dict.fromkeys(category for category, pattern in patterns if pattern.search(line))
            snippet = line.strip()[:_SNIPPET_LENGTH]
            findings.extend(UnsafePatternFinding(path, number, category, snippet) for category in found)
    return findings
