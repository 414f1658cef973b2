"""What the registry says about a method and about a release of it."""

from __future__ import annotations

import re
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from agentinputlab.contracts._checks import Record, entries, exact_fields, flag, put, text, texts, whole
from agentinputlab.contracts.enums import (
    ExecutionKind,
    ImplementationKind,
    ProfileKind,
    ReleaseTier,
    SemanticFamily,
    StrEnum,
    SupportStatus,
)
from agentinputlab.contracts.errors import ValidationError
from agentinputlab.contracts.serialization import to_jsonable

__all__ = ["Availability", "DeliveryTier", "MethodCard", "Needs", "Publication", "ReleaseCard", "Upstream"]

_IDENTIFIER = re.compile(r"[a-z0-9][a-z0-9_.-]*")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_ENTRYPOINT = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*", re.ASCII)
_RUNNABLE = (SupportStatus.EXPERIMENTAL, SupportStatus.SUPPORTED)
_BLOCKED = (
    SupportStatus.BLOCKED,
    SupportStatus.EXTERNAL_ONLY,
    SupportStatus.NATIVE_ONLY,
    SupportStatus.RETRAIN_REQUIRED,
)
NO_LICENCE_STATEMENT = "NOASSERTION"
"""SPDX's word for a licence about which nothing is claimed."""


class DeliveryTier(StrEnum):
    """How firmly a release is promised."""

    MUST_SHIP = "must_ship"
    STRETCH = "stretch"
    BLOCKED_OR_POST_V1 = "blocked_or_post_v1"


class Availability(StrEnum):
    """Whether a release can be run, is held back although code exists, or has no code."""

    RUNNABLE = "runnable"
    GATED = "gated"
    LOCKED = "locked"


class Needs(StrEnum):
    """What a release needs beside Python.

    Nothing; a language model; something to search (a retriever, or an embedder and a vector search), mostly beside a
    model; or what lies outside this process.
    """

    NOTHING = "nothing"
    BACKEND = "backend"
    RETRIEVAL = "retrieval"
    EXTERNAL = "external"


@dataclass(frozen=True, slots=True)
class Publication(Record):
    """Where a method was published; ``None`` is what could not be checked, and the card's notes say so."""

    venue: str | None
    year: int | None
    paper_url: str | None

    def __post_init__(self) -> None:
        if self.venue is not None:
            text(self.venue, "publication.venue")
        if self.year is not None:
            whole(self.year, "publication.year", minimum=2000)
        if self.paper_url is not None:
            _url(self.paper_url, "publication.paper_url")


@dataclass(frozen=True, slots=True)
class Upstream(Record):
    """The authors' code; ``None`` is what could not be checked, and ``license_notes`` or the card's notes say so.

    Attributes:
        repo_url: where it lies.
        commit: the 40 hex digits of the commit that was looked at.
        license_id: SPDX id, or ``NOASSERTION``.
        vendoring_allowed: whether it may be copied into this package; never without a licence.
        source_subdir: folder inside the repository.
        license_notes: what a reader should know about the licence.
    """

    repo_url: str | None
    commit: str | None
    license_id: str
    vendoring_allowed: bool
    source_subdir: str | None = None
    license_notes: str | None = None

    def __post_init__(self) -> None:
        if self.repo_url is not None:
            _url(self.repo_url, "upstream.repo_url")
        if self.commit is not None and not _COMMIT.fullmatch(text(self.commit, "upstream.commit")):
            raise ValidationError(f"upstream.commit must be 40 lowercase hex digits or null, got {self.commit!r:.80}")
        if self.commit is not None and self.repo_url is None:
            raise ValidationError("upstream.commit needs an upstream.repo_url")
        text(self.license_id, "upstream.license_id")
        flag(self.vendoring_allowed, "upstream.vendoring_allowed")
        if self.license_id == NO_LICENCE_STATEMENT and self.vendoring_allowed:
            raise ValidationError("upstream.vendoring_allowed must be false when license_id is NOASSERTION")
        for name in ("source_subdir", "license_notes"):
            if getattr(self, name) is not None:
                text(getattr(self, name), f"upstream.{name}")


@dataclass(frozen=True, slots=True)
class ReleaseCard(Record):
    """One way to run a method.

    Attributes:
        id: its name.
        method_id: the method, which the document says by nesting.
        implementation_kind: where the implementation comes from.
        execution_kind: how it is executed.
        status: how far its support has come.
        delivery_tier: how firmly it is promised.
        profile_modes: how close to its origin it can be run.
        entrypoint: ``module:attribute`` of its constructor, or None.
        blocking_reasons: why it cannot be run; not empty without an entry point.
        needs: what it needs beside Python.
    """

    id: str
    method_id: str
    implementation_kind: ImplementationKind
    execution_kind: ExecutionKind
    status: SupportStatus
    delivery_tier: DeliveryTier
    profile_modes: tuple[ProfileKind, ...]
    entrypoint: str | None
    blocking_reasons: tuple[str, ...]
    needs: Needs

    def __post_init__(self) -> None:
        _identifier(self.id, "release id")
        put(
            self,
            implementation_kind=ImplementationKind(self.implementation_kind),
            execution_kind=ExecutionKind(self.execution_kind),
            status=SupportStatus(self.status),
            delivery_tier=DeliveryTier(self.delivery_tier),
            profile_modes=tuple(ProfileKind(mode) for mode in texts(self.profile_modes, "profile_modes")),
            blocking_reasons=texts(self.blocking_reasons, "blocking_reasons"),
            needs=Needs(self.needs),
        )
        if not self.profile_modes:
            raise ValidationError("profile_modes must name at least one mode")
        if self.entrypoint is not None and not _ENTRYPOINT.fullmatch(text(self.entrypoint, "entrypoint")):
            raise ValidationError(f"entrypoint must be 'module:attribute' or null, got {self.entrypoint!r:.80}")
        if self.status in _RUNNABLE and self.entrypoint is None:
            raise ValidationError(f"status {self.status} needs an entrypoint")
        if (self.entrypoint is None or self.status in _BLOCKED) and not self.blocking_reasons:
            raise ValidationError("blocking_reasons must say why it cannot be run")

    @classmethod
    def from_dict(cls, value: object, method_id: str) -> ReleaseCard:
        """Give the card of a release that a registry document describes."""
        names = tuple(name for name in cls.__slots__ if name != "method_id")
        mapping = exact_fields(value, "release", allowed=names, required=names)
        with _naming(f"release {mapping['id']!r:.80}"):
            return cls(method_id=method_id, **mapping)

    @property
    def runnable(self) -> bool:
        """Whether there is code and its status lets it run."""
        return self.entrypoint is not None and self.status in _RUNNABLE

    @property
    def availability(self) -> Availability:
        """Runnable, held back (gated), or without code (locked)."""
        if self.entrypoint is None:
            return Availability.LOCKED
        return Availability.RUNNABLE if self.runnable else Availability.GATED

    @property
    def blocker(self) -> str:
        """Why it cannot be run; empty when it can."""
        return "" if self.runnable else " ".join(self.blocking_reasons)

    def as_dict(self) -> dict[str, Any]:
        """Give the card as JSON values, as the document has it and without the method's id."""
        return {name: item for name, item in to_jsonable(self).items() if name != "method_id"}


@dataclass(frozen=True, slots=True)
class MethodCard(Record):
    """One published idea.

    Attributes:
        method_id: its name.
        display_name: how people call it.
        paper_title: title of its paper, or None when it could not be checked.
        semantic_family: what it changes about the input.
        release_tier: core roster or optional.
        status: how far its support has come.
        publication: where it was published.
        upstream: the authors' code.
        semantic_tags: words to find it by.
        releases: ways to run it; at least one.
        notes: what a reader should know, such as why something is null.
    """

    method_id: str
    display_name: str
    paper_title: str | None
    semantic_family: SemanticFamily
    release_tier: ReleaseTier
    status: SupportStatus
    publication: Publication
    upstream: Upstream
    semantic_tags: tuple[str, ...]
    releases: tuple[ReleaseCard, ...]
    notes: str | None = None

    def __post_init__(self) -> None:
        _identifier(self.method_id, "method_id")
        text(self.display_name, "display_name")
        if self.paper_title is not None:
            text(self.paper_title, "paper_title")
        if self.notes is not None:
            text(self.notes, "notes")
        put(
            self,
            semantic_family=SemanticFamily(self.semantic_family),
            release_tier=ReleaseTier(self.release_tier),
            status=SupportStatus(self.status),
            semantic_tags=texts(self.semantic_tags, "semantic_tags"),
            releases=entries(self.releases, "releases", ReleaseCard),
        )
        if not self.releases:
            raise ValidationError("releases must hold at least one release")
        if self.status in _RUNNABLE and not any(release.runnable for release in self.releases):
            raise ValidationError(f"status {self.status} needs a release that can be run")
        unknown = self._unknown()
        if unknown and self.notes is None:
            raise ValidationError(f"notes must say why {', '.join(unknown)} is null")

    @classmethod
    def from_dict(cls, value: object) -> MethodCard:
        """Give the card that a registry document describes.

        Raises:
            ValidationError: a field is unknown, missing or wrong; the text names card and field.
        """
        names = tuple(cls.__slots__)
        mapping = dict(exact_fields(value, "method", allowed=names, required=names[:-1]))
        with _naming(f"method {mapping['method_id']!r:.80}"):
            method_id = _identifier(mapping["method_id"], "method_id")
            mapping["publication"] = _part(Publication, mapping["publication"], "publication")
            mapping["upstream"] = _part(Upstream, mapping["upstream"], "upstream")
            rows: tuple[object, ...] = entries(mapping["releases"], "releases", object)
            mapping["releases"] = tuple(ReleaseCard.from_dict(row, method_id) for row in rows)
            return cls(**mapping)

    def _unknown(self) -> list[str]:
        parts = {"publication": ("venue", "year", "paper_url"), "upstream": ("repo_url", "commit")}
        found = ["paper_title"] if self.paper_title is None else []
        for part, names in parts.items():
            found += [f"{part}.{name}" for name in names if getattr(getattr(self, part), name) is None]
        return found

    def as_dict(self) -> dict[str, Any]:
        """Give the card as JSON values, as the document has it."""
        value = to_jsonable(self)
        value["releases"] = [release.as_dict() for release in self.releases]
        optional = ("source_subdir", "license_notes")
        value["upstream"] = {k: v for k, v in value["upstream"].items() if v is not None or k not in optional}
        return {name: item for name, item in value.items() if name != "notes" or item is not None}


@contextmanager
def _naming(name: str) -> Generator[None]:
    """Put the card's name in front of what is wrong with it."""
    try:
        yield
    except ValidationError as error:
        raise ValidationError(f"{name}: {error}") from error


def _part(kind: type[Any], value: object, name: str) -> Any:
    optional = ("source_subdir", "license_notes")
    required = [field for field in kind.__slots__ if field not in optional]
    return kind(**exact_fields(value, name, allowed=kind.__slots__, required=required))


def _identifier(value: object, name: str) -> str:
    if not isinstance(value, str) or not _IDENTIFIER.fullmatch(value):
        raise ValidationError(f"{name} must match {_IDENTIFIER.pattern}, got {value!r:.80}")
    return value


def _url(value: object, name: str) -> str:
    if not text(value, name).startswith("https://"):
        raise ValidationError(f"{name} must be an https address or null, got {value!r:.80}")
    return str(value)
