"""What ``ripieno doctor`` is told about Concerto and Chamber."""

from __future__ import annotations

from chamber.doctor import checks
from ripieno.doctor import run_checks


def test_every_row_names_what_was_looked_at_and_how_to_mend_it():
    rows = list(checks())
    assert [row.name for row in rows] == [
        "environments (Gymnasium)", "tasks with arms (MuJoCo)", "pictures (EGL)", "training (PyTorch)",
        "solver daqp", "solver clarabel", "solver osqp", "safety stack (Numba)",
    ]  # fmt: skip
    bad = [row for row in rows if not row.ok and row.name != "pictures (EGL)"]  # a machine may have no EGL
    assert not bad, [row.detail for row in bad]
    assert all(row.remedy for row in rows)


def test_the_rows_are_found_by_the_command():
    assert {row.name for row in checks()} <= {row.name for row in run_checks()}
