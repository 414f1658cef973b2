"""Run many independent cells: one after the other, on worker processes, or on a Ray cluster.

A *cell* is one input of a function; an *outcome* is what came of it, in the order of the input. A cell that raises,
or whose worker dies, is an outcome with an error and never the end of the others. A *ledger* makes a run resumable:
an append-only hash-chained file of the cells that are finished.
"""

from ripieno.parallel._cells import Executor, run_cells
from ripieno.parallel._outcome import CellOutcome, CellStatus

__all__ = ["CellOutcome", "CellStatus", "Executor", "run_cells"]
