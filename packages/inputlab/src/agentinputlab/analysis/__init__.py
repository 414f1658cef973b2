"""What paired outcomes say: differences with intervals, exact tests, corrections, power, and cost beforehand.

Pure functions over plain values. `paired` summarises one treatment, `multiplicity` several, `power` plans the number
of tasks, `cost` bounds what a campaign can spend.
"""

from agentinputlab.analysis.cost import CallBound, CostBound, bound_cost
from agentinputlab.analysis.multiplicity import benjamini_hochberg, holm
from agentinputlab.analysis.paired import Outcome, PairedOutcome, PairedSummary, exact_sign_test, summarise_pairs
from agentinputlab.analysis.power import exact_power, required_pairs

__all__ = [
    "CallBound",
    "CostBound",
    "Outcome",
    "PairedOutcome",
    "PairedSummary",
    "benjamini_hochberg",
    "bound_cost",
    "exact_power",
    "exact_sign_test",
    "holm",
    "required_pairs",
    "summarise_pairs",
]
