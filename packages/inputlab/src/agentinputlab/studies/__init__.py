"""Small paired studies in this process: two interventions on the same states, one score, no files.

For quick looks while writing a method. They leave no ledger and prove nothing to others; for that there are the arenas.
"""

from agentinputlab.studies.paired import ArmOutcome, PairedStudy, PairedStudyResult, StudyPair

__all__ = ["ArmOutcome", "PairedStudy", "PairedStudyResult", "StudyPair"]
