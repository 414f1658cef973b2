"""What a verification says, whatever the format: statuses, rows, options, and what a verifier is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import Enum, StrEnum
from pathlib import Path
from typing import Any, Protocol

from ripieno.signing import PublicKey


class VerifyStatus(StrEnum):
    """The verdict; `meaning` is the sentence for the reader."""

    COMPLETE = "complete"
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    TAMPERED = "tampered"
    NOT_A_RUN = "not_a_run"

    @property
    def meaning(self) -> str:
        """What the verdict means, in one sentence."""
        return _MEANINGS[self]

    @property
    def ok(self) -> bool:
        """Whether everything that was recorded still holds."""
        return self in (VerifyStatus.COMPLETE, VerifyStatus.FAILED, VerifyStatus.INTERRUPTED)


_MEANINGS = {
    VerifyStatus.COMPLETE: "The run reached its end; every byte agrees with its record.",
    VerifyStatus.FAILED: "The run ended with an error, which it recorded; every byte agrees with its record.",
    VerifyStatus.INTERRUPTED: (
        "The run was stopped before its end, or is still going; everything it acknowledged agrees with its record."
    ),
    VerifyStatus.TAMPERED: (
        "Something was changed, added, removed, cut, reordered or replaced, or is not what was pinned or signed."
    ),
    VerifyStatus.NOT_A_RUN: "There is nothing here that an installed verifier knows.",
}


class SignatureState(Enum):
    """What is known about a signature."""

    ABSENT = "not signed"
    UNCHECKED = "signature not checked: give --public-key"
    VALID = "signed by the given key"
    INVALID = "signature does not hold"


@dataclass(frozen=True)
class Check:
    """One row of a report: what was looked at, whether it holds, and the detail."""

    name: str
    ok: bool
    detail: str


@dataclass(frozen=True)
class VerifyOptions:
    """What the reader trusts beforehand.

    Attributes:
        expect: digest that the run must have (`verify` compares it for every format).
        public_key: key that must have signed the run; a verifier that cannot check signatures leaves the
            state at ``ABSENT``, and `verify` then refuses.
    """

    expect: str | None = None
    public_key: PublicKey | None = None


@dataclass(frozen=True)
class VerifyReport:
    """The result of a verification.

    Attributes:
        path: what was verified, as it was given.
        format: which verifier spoke (empty when none knew the path).
        status: the verdict.
        digest: what to pin; empty when there is none.
        checks: one row per thing that was looked at.
        first_problem: the first thing that does not hold, naming file, line or bytes; empty when all holds.
        signature: what is known about a signature.
    """

    path: str
    format: str
    status: VerifyStatus
    digest: str
    checks: Sequence[Check]
    first_problem: str = ""
    signature: SignatureState = SignatureState.ABSENT

    @property
    def ok(self) -> bool:
        """Whether everything that was recorded, pinned and signed holds."""
        return self.status.ok

    def to_json(self) -> dict[str, Any]:
        """Give the report as JSON values."""
        return {
            "path": self.path,
            "format": self.format,
            "status": self.status.value,
            "meaning": self.status.meaning,
            "ok": self.ok,
            "digest": self.digest,
            "signature": self.signature.value,
            "first_problem": self.first_problem,
            "checks": [asdict(check) for check in self.checks],
        }


class Verifier(Protocol):
    """One format. Entry points of the group ``ripieno.verifiers`` name such objects."""

    @property
    def name(self) -> str:
        """Name of the format, e.g. ``"run folder"``."""
        ...

    def recognises(self, path: Path) -> bool:
        """Tell, cheaply, whether the path is of this format, even if it was damaged."""
        ...

    def verify(self, path: Path, options: VerifyOptions) -> VerifyReport:
        """Verify it. Damage is a verdict, not an exception."""
        ...
