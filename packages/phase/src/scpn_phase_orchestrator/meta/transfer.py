"""Transfer between domains: what worked elsewhere in a state that looked like this one.

Nearest neighbours by cosine similarity, nothing more. Everything here is for review; nothing is executed.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ripieno.canonical import INDENTED_LINE
from scpn_phase_orchestrator.exceptions import ValidationError
from scpn_phase_orchestrator.meta.records import MetaPolicyRecord, read_audit_history

__all__ = ["CrossDomainMetaTransfer", "MetaPackageManifest", "MetaProposal"]

PACKAGE_SCHEMA = "scpn_meta_transfer_package_v1"
MANIFEST_SCHEMA = "scpn_meta_package_manifest_v1"
_PACKAGE_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,127}")


@dataclass(frozen=True)
class MetaProposal:
    """What the neighbours suggest.

    Attributes:
        knobs: weighted mean of each knob over the neighbours that set it.
        confidence: mean similarity of the neighbours, 0 to 1.
        neighbours: domains of the neighbours, the most similar one first.
        similarities: their similarities.
    """

    knobs: Mapping[str, float]
    confidence: float
    neighbours: tuple[str, ...]
    similarities: tuple[float, ...]


@dataclass(frozen=True)
class MetaPackageManifest:
    """What a transfer package holds, for whoever reviews it.

    Attributes:
        package_name: name of the package.
        import_target: module that reads it.
        console_script: command that makes it.
        package_sha256: hash of the package text.
        training_summary: counts, domains, keys and rewards of the examples.
        execution_permitted: always ``False``.

    Raises:
        ValidationError: a malformed name, or an execution that is permitted.
    """

    package_name: str
    import_target: str
    console_script: str
    package_sha256: str
    training_summary: Mapping[str, Any]
    execution_permitted: bool = False

    def __post_init__(self) -> None:
        for field in ("package_name", "import_target", "console_script"):
            value = getattr(self, field)
            if not isinstance(value, str) or not _PACKAGE_NAME.fullmatch(value):
                raise ValidationError(f"{field} must match {_PACKAGE_NAME.pattern}, got {value!r:.140}")
        if self.execution_permitted is not False:
            raise ValidationError("execution_permitted must be False: a transfer package is for review only")

    def to_record(self) -> dict[str, Any]:
        """Give the manifest as JSON values."""
        return {"schema": MANIFEST_SCHEMA, **self.__dict__, "training_summary": dict(self.training_summary)}

    def to_json(self) -> str:
        """Give the manifest as indented JSON that ends with a line feed."""
        return INDENTED_LINE.dumps(self.to_record()).decode()


class CrossDomainMetaTransfer:
    """Remembers examples and proposes knobs for a state by its nearest neighbours.

    Examples:
        >>> grid = MetaPolicyRecord("grid", {"R": 0.8}, {"K": 0.2}, 0.5)
        >>> transfer = CrossDomainMetaTransfer().fit([grid])
        >>> dict(transfer.propose({"R": 0.4}).knobs)
        {'K': 0.2}
    """

    def __init__(self) -> None:
        self._records: tuple[MetaPolicyRecord, ...] = ()

    @property
    def records(self) -> tuple[MetaPolicyRecord, ...]:
        """The examples, in the order in which they were given."""
        return self._records

    def fit(self, records: Iterable[MetaPolicyRecord]) -> CrossDomainMetaTransfer:
        """Remember these examples, and only these.

        Raises:
            ValidationError: there are none.
        """
        self._records = _at_least(tuple(records), 1)
        return self

    def fit_audit_history(self, paths: Sequence[Path | str], min_records: int = 1) -> CrossDomainMetaTransfer:
        """Remember the examples of these files (see `read_audit_history`).

        Raises:
            ValidationError: a malformed line, or fewer examples than `min_records`.
            OSError: a file cannot be read.
        """
        if isinstance(min_records, bool) or min_records < 1:
            raise ValidationError("min_records must be at least 1")
        records = [record for path in paths for record in read_audit_history(Path(path))]
        self._records = _at_least(tuple(records), min_records)
        return self

    def fit_audit_directory(
        self, root: Path | str, pattern: str = "**/*.jsonl", min_records: int = 1
    ) -> CrossDomainMetaTransfer:
        """Remember the examples of the files below a directory that match a pattern, in sorted order.

        Raises:
            ValidationError: no directory, no file, a malformed line, or fewer examples than `min_records`.
            OSError: a file cannot be read.
        """
        directory = Path(root)
        if not directory.is_dir():
            raise ValidationError(f"audit directory {root} must be an existing directory")
        paths = sorted(path for path in directory.glob(pattern) if path.is_file())
        if not paths:
            raise ValidationError(f"no file below {root} matches {pattern!r}")
        return self.fit_audit_history(paths, min_records)

    def propose(self, features: Mapping[str, float], k_neighbours: int = 3) -> MetaProposal:
        r"""Propose knobs for a state.

        With the cosine similarity :math:`s_i` over the union of feature names (a missing one is 0), cut to [0, 1],
        the :math:`k` most similar examples vote with weights :math:`s_i \max(r_i, 10^{-12})`, or equally when all
        are 0.

        Args:
            features: what the system looks like; not empty, finite.
            k_neighbours: how many examples vote, at least 1.

        Raises:
            ValidationError: nothing was remembered, or an argument that is not allowed.
        """
        if not self._records:
            raise ValidationError("propose needs examples: call fit first")
        if isinstance(k_neighbours, bool) or k_neighbours < 1:
            raise ValidationError(f"k_neighbours must be an integer >= 1, got {k_neighbours!r}")
        state = MetaPolicyRecord("state", features, {"K": 0.0}).features
        scored = sorted(
            ((_similarity(state, record.features), index) for index, record in enumerate(self._records)),
            key=lambda pair: (-pair[0], pair[1]),
        )[:k_neighbours]
        neighbours = [self._records[index] for _, index in scored]
        similarities = [similarity for similarity, _ in scored]
        weights = [s * max(record.reward, 1e-12) for s, record in zip(similarities, neighbours, strict=True)]
        if not any(weights):
            weights = [1.0] * len(neighbours)
        return MetaProposal(
            knobs=_weighted_knobs(neighbours, weights),
            confidence=sum(similarities) / len(similarities),
            neighbours=tuple(record.domain for record in neighbours),
            similarities=tuple(similarities),
        )

    def to_json_package(self) -> str:
        """Give the examples and their summary as indented JSON that ends with a line feed.

        Raises:
            ValidationError: nothing was remembered.
        """
        package = {
            "schema": PACKAGE_SCHEMA,
            "records": [record.to_record() for record in self._records],
            "training_summary": self.training_summary(),
        }
        return INDENTED_LINE.dumps(package).decode()

    def training_summary(self) -> dict[str, Any]:
        """Give counts, domains, keys and rewards of the examples.

        Raises:
            ValidationError: nothing was remembered.
        """
        records = _at_least(self._records, 1)
        domains = sorted({record.domain for record in records})
        rewards = [record.reward for record in records]
        return {
            "record_count": len(records),
            "domain_count": len(domains),
            "domains": domains,
            "feature_keys": sorted({key for record in records for key in record.features}),
            "knob_keys": sorted({key for record in records for key in record.knobs}),
            "reward_mean": sum(rewards) / len(rewards),
            "reward_min": min(rewards),
            "reward_max": max(rewards),
        }

    def to_package_manifest(
        self,
        package_name: str = "scpn-meta",
        import_target: str = "scpn_phase_orchestrator.meta",
        console_script: str = "scpn-meta",
    ) -> MetaPackageManifest:
        """Describe the package for review.

        Raises:
            ValidationError: nothing was remembered, or a malformed name.
        """
        return MetaPackageManifest(
            package_name=package_name,
            import_target=import_target,
            console_script=console_script,
            package_sha256=hashlib.sha256(self.to_json_package().encode()).hexdigest(),
            training_summary=self.training_summary(),
        )


def _at_least(records: tuple[MetaPolicyRecord, ...], minimum: int) -> tuple[MetaPolicyRecord, ...]:
    if len(records) < minimum:
        raise ValidationError(f"audit history yielded {len(records)} records; min_records={minimum}")
    return records


def _similarity(left: Mapping[str, float], right: Mapping[str, float]) -> float:
    """Cosine over the union of keys, cut to [0, 1]; scaled first, so that huge values do not overflow."""
    left_scale = max(abs(value) for value in left.values())
    right_scale = max(abs(value) for value in right.values())
    if left_scale == 0.0 or right_scale == 0.0:
        return 0.0
    dot = math.fsum((left[key] / left_scale) * (right[key] / right_scale) for key in left if key in right)
    norms = math.hypot(*(value / left_scale for value in left.values())) * math.hypot(
        *(value / right_scale for value in right.values())
    )
    return min(1.0, max(0.0, dot / norms))


def _weighted_knobs(records: Sequence[MetaPolicyRecord], weights: Sequence[float]) -> dict[str, float]:
    knobs: dict[str, float] = {}
    for key in sorted({key for record in records for key in record.knobs}):
        votes = [
            (weight, record.knobs[key]) for weight, record in zip(weights, records, strict=True) if key in record.knobs
        ]
        largest = max(weight for weight, _ in votes)
        # Shares of the largest weight: sums of huge weights overflow, products with tiny ones lose their digits.
        shares = [weight / largest if largest > 0.0 else 1.0 for weight, _ in votes]
        total = sum(shares)
        knobs[key] = sum(share / total * value for share, (_, value) in zip(shares, votes, strict=True))
    return knobs
