"""A text that was learned beforehand, with the hash that pins it."""

from __future__ import annotations

import hashlib

from agentinputlab.algorithms._shared import InterventionBase
from agentinputlab.contracts._checks import digest, text
from agentinputlab.contracts.errors import ArtifactError, ValidationError

__all__ = ["MAX_ARTIFACT_CHARACTERS", "artifact_sha256", "check_artifact", "require_artifact"]

MAX_ARTIFACT_CHARACTERS = 200_000
"""Longest text that is applied."""


def check_artifact(artifact: object, sha256: object, *, name: str) -> None:
    """Check the parameters that hold an artifact and its pin; both may be empty.

    Raises:
        ValidationError: a wrong type, or a text that is too long.
        ArtifactError: the text is not the one that is pinned.
    """
    content = text(artifact, name, blank=True)
    pin = text(sha256, "sha256", blank=True)
    if len(content) > MAX_ARTIFACT_CHARACTERS:
        raise ValidationError(f"{name} has {len(content)} characters, at most {MAX_ARTIFACT_CHARACTERS} are applied")
    if pin and artifact_sha256(content) != digest(pin, "sha256"):
        raise ArtifactError(f"{name} has SHA-256 {artifact_sha256(content)}, pinned is {pin}")


def require_artifact(method: InterventionBase, artifact: str, *, name: str) -> str:
    """Give the artifact of a method, stripped.

    Raises:
        ArtifactError: it is blank.
    """
    if not artifact.strip():
        raise ArtifactError(f"{method.release_id} applies a text that was made before: give {name}=...")
    return artifact.strip()


def artifact_sha256(artifact: str) -> str:
    """Give the SHA-256 of a text as UTF-8, which is that of the file it was read from.

    Raises:
        ValidationError: the text cannot be encoded.
    """
    try:
        return hashlib.sha256(artifact.encode()).hexdigest()
    except UnicodeEncodeError as error:
        raise ValidationError("an artifact must be valid Unicode, it holds a lone surrogate") from error
