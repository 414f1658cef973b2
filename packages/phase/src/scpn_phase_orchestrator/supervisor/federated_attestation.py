"""Who vouches for a transport batch: a keyed attestation beside the digests that have no key.

The attested message names the batch, the number of its envelopes and the replay hash, which covers every byte of every
envelope. An HMAC convinces those who share the secret; an ML-DSA signature (FIPS 204) convinces everybody who has
the public key. The documented fields and hashes of the batch stay as they are.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from ripieno.canonical import canonical_json
from ripieno.errors import IntegrityError
from ripieno.signing import PrivateKey, PublicKey, algorithm_of, check_signature, key_id, sign
from scpn_phase_orchestrator.exceptions import ValidationError
from scpn_phase_orchestrator.supervisor.federated_transport import (
    FederatedTransportEnvelope,
    FederatedTransportReplayLedger,
    replay_federated_transport_batch,
)

__all__ = [
    "HMAC_ALGORITHM",
    "FederatedTransportAttestation",
    "attest_transport_batch_with_secret",
    "sign_transport_batch",
    "verify_transport_batch_secret",
    "verify_transport_batch_signature",
]

HMAC_ALGORITHM = "HMAC-SHA256"
MIN_SECRET_BYTES = 16
_CONTEXT = b"spo-federated-transport-attestation-v1"


@dataclass(frozen=True)
class FederatedTransportAttestation:
    """A statement about one batch that only the owner of a key can make.

    Attributes:
        algorithm: `HMAC_ALGORITHM` or the name of an ML-DSA parameter set.
        key_id: short name of the key; it helps to find the key and proves nothing.
        batch_id: the batch.
        envelope_count: number of its envelopes.
        replay_hash: hash over all of them.
        attestation: the code or signature, in hex.
    """

    algorithm: str
    key_id: str
    batch_id: str
    envelope_count: int
    replay_hash: str
    attestation: str

    def to_audit_record(self) -> dict[str, str | int]:
        """Give the statement as JSON values."""
        return asdict(self)


def _message(ledger: FederatedTransportReplayLedger) -> bytes:
    statement = {
        "batch_id": ledger.batch_id,
        "envelope_count": ledger.envelope_count,
        "replay_hash": ledger.replay_hash,
    }
    return _CONTEXT + b"\n" + canonical_json(statement)


def _secret(secret: bytes) -> bytes:
    if len(secret) < MIN_SECRET_BYTES:
        raise ValidationError(f"the secret must have at least {MIN_SECRET_BYTES} bytes, got {len(secret)}")
    return secret


def _statement(
    ledger: FederatedTransportReplayLedger, algorithm: str, name: str, attestation: bytes
) -> FederatedTransportAttestation:
    return FederatedTransportAttestation(
        algorithm=algorithm,
        key_id=name,
        batch_id=ledger.batch_id,
        envelope_count=ledger.envelope_count,
        replay_hash=ledger.replay_hash,
        attestation=attestation.hex(),
    )


def _secret_id(secret: bytes) -> str:
    return hashlib.sha256(secret).hexdigest()[:16]


def attest_transport_batch_with_secret(
    envelopes: Sequence[FederatedTransportEnvelope], secret: bytes
) -> FederatedTransportAttestation:
    """Vouch for a batch with a shared secret of at least 16 bytes (HMAC-SHA256).

    Raises:
        ValidationError: the batch is not valid, or the secret is too short.
    """
    ledger = replay_federated_transport_batch(envelopes)
    code = hmac.digest(_secret(secret), _message(ledger), "sha256")
    return _statement(ledger, HMAC_ALGORITHM, _secret_id(secret), code)


def sign_transport_batch(
    envelopes: Sequence[FederatedTransportEnvelope], private_key: PrivateKey
) -> FederatedTransportAttestation:
    """Vouch for a batch with an ML-DSA key.

    Raises:
        ValidationError: the batch is not valid.
    """
    ledger = replay_federated_transport_batch(envelopes)
    public_key = private_key.public_key()
    signature = sign(private_key, _message(ledger), context=_CONTEXT)
    return _statement(ledger, algorithm_of(public_key).value, key_id(public_key), signature)


def _require_same_batch(
    attestation: FederatedTransportAttestation, ledger: FederatedTransportReplayLedger, algorithm: str
) -> bytes:
    if attestation.algorithm != algorithm:
        raise IntegrityError(f"the attestation is by {attestation.algorithm!r:.40}, the key is for {algorithm}")
    for field in ("batch_id", "envelope_count", "replay_hash"):
        if getattr(attestation, field) != getattr(ledger, field):
            raise IntegrityError(f"the attestation is about another batch: {field} differs")
    try:
        return bytes.fromhex(attestation.attestation)
    except ValueError as error:
        raise IntegrityError("the attestation is not hex") from error


def verify_transport_batch_secret(
    attestation: FederatedTransportAttestation, envelopes: Sequence[FederatedTransportEnvelope], secret: bytes
) -> None:
    """Check that somebody with the secret vouched for exactly this batch.

    Raises:
        IntegrityError: they did not.
        ValidationError: the batch itself is not valid, or the secret is too short.
    """
    ledger = replay_federated_transport_batch(envelopes)
    code = _require_same_batch(attestation, ledger, HMAC_ALGORITHM)
    if not hmac.compare_digest(code, hmac.digest(_secret(secret), _message(ledger), "sha256")):
        raise IntegrityError("the attestation was not made with this secret")


def verify_transport_batch_signature(
    attestation: FederatedTransportAttestation, envelopes: Sequence[FederatedTransportEnvelope], public_key: PublicKey
) -> None:
    """Check that the owner of the key signed exactly this batch.

    Raises:
        IntegrityError: they did not.
        ValidationError: the batch itself is not valid.
    """
    ledger = replay_federated_transport_batch(envelopes)
    signature = _require_same_batch(attestation, ledger, algorithm_of(public_key).value)
    check_signature(public_key, signature, _message(ledger), context=_CONTEXT)
