"""The scan of a folder for constructs that run what data says."""

from __future__ import annotations

from pathlib import Path

import pytest

from scpn_phase_orchestrator.binding import UnsafePatternFinding, scan_unsafe_patterns


@pytest.mark.parametrize(
    ("name", "line", "category"),
    [
        ("a.py", "x = eval(text)", "dynamic-eval"),
        ("a.py", "exec (text)", "dynamic-exec"),
        ("a.py", "pickle.load(stream)", "insecure-deserialization"),
        ("a.py", "pickle.loads(data)", "insecure-deserialization"),
        ("a.py", "os.system('ls')", "shell-exec"),
        ("a.py", "subprocess.run(command, shell=True)", "shell-exec"),
        ("a.py", "yaml.load(stream)", "unsafe-yaml"),
        ("a.py", "yaml.load(stream, Loader=yaml.Loader)", "unsafe-yaml"),
        ("a.py", "yaml.unsafe_load(stream)", "unsafe-yaml"),
        ("a.yaml", "x: !!python/object:os.system ls", "unsafe-yaml-tag"),
        ("a.yml", "!!python/none", "unsafe-yaml-tag"),
    ],
)
def test_every_category_is_found_with_file_and_line(name: str, line: str, category: str, tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    file = tmp_path / "deep" / name
    file.write_text(f"# first\n    {line}\n")
    assert scan_unsafe_patterns(tmp_path) == [UnsafePatternFinding(file, 2, category, line)]
    assert scan_unsafe_patterns(file) == scan_unsafe_patterns(tmp_path)


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("a.py", "model.eval()"),
        ("a.py", "evaluate(x)"),
        ("a.py", "yaml.safe_load(stream)"),
        ("a.py", "yaml.load(stream, Loader=yaml.SafeLoader)"),
        ("a.py", "subprocess.run(command)"),
        ("a.txt", "eval(x)"),
        ("a.yaml", "note: eval(x)"),
    ],
)
def test_harmless_lines_are_left_alone(name: str, line: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(line)
    assert scan_unsafe_patterns(tmp_path) == []


def test_one_line_gives_each_category_once_and_a_short_snippet(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_bytes(b"eval(eval(x)); exec(y)  # \xff" + b"z" * 500)
    findings = scan_unsafe_patterns(tmp_path)
    assert [one.category for one in findings] == ["dynamic-eval", "dynamic-exec"]
    assert all(len(one.snippet) == 160 for one in findings)


def test_links_are_not_followed_and_folders_named_like_code_are_no_files(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "a.py").write_text("eval(x)")
    pack = tmp_path / "pack"
    (pack / "folder.py").mkdir(parents=True)
    (pack / "link.py").symlink_to(outside / "a.py")
    (pack / "linked").symlink_to(outside)
    assert scan_unsafe_patterns(pack) == []


def test_a_missing_root_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="root must be a file or folder"):
        scan_unsafe_patterns(tmp_path / "nothing")
