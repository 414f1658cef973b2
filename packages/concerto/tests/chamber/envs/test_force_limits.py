"""Derived force limits change a task only when they are published on purpose."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[5] / "benchmarks"


@pytest.fixture
def limits_script(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    monkeypatch.delitem(sys.modules, "_limits", raising=False)
    import _limits

    return _limits


def test_a_benchmark_among_others_leaves_the_limits_of_a_task_alone(limits_script: Any, tmp_path: Path) -> None:
    assert not limits_script.publish_if_asked("x.json", {"limits": {}}, arguments=[], folder=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_limits_are_published_on_request_where_the_tasks_read_them(limits_script: Any, tmp_path: Path) -> None:
    assert limits_script.publish_if_asked("x.json", {"limits": {"a": 1.0}}, arguments=["--publish"], folder=tmp_path)
    assert json.loads((tmp_path / "x.json").read_text(encoding="utf-8")) == {"limits": {"a": 1.0}}
    for name in ("cocarry_limits.json", "coinsert_limits.json"):
        assert (limits_script.PACKAGE_DATA / name).is_file()


@pytest.mark.parametrize("script", ["cocarry_limits.py", "coinsert_limits.py"])
def test_the_scripts_have_no_other_way_to_write_limits(script: str) -> None:
    text = (BENCHMARKS / script).read_text(encoding="utf-8")
    assert text.count("publish_if_asked(") == 1
    assert "write_atomic" not in text
    assert "write_text" not in text
