"""Looking up methods and releases, and getting at their code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from threading import RLock
from typing import Any

from agentinputlab.contracts._checks import Record, entries, exact_fields, text
from agentinputlab.contracts.enums import ReleaseTier, SemanticFamily, SupportStatus
from agentinputlab.contracts.errors import AlgorithmUnavailableError, RegistryError, ValidationError
from agentinputlab.contracts.protocols import REGISTRY_ID
from agentinputlab.contracts.serialization import content_hash, freeze_mapping, to_jsonable
from agentinputlab.registry.cards import Availability, DeliveryTier, MethodCard, ReleaseCard
from agentinputlab.registry.loader import load_packaged_registry
from agentinputlab.registry.roster import ExpectedRoster, roster_problems
from agentinputlab.registry.roster import validate_roster as check_roster

__all__ = ["AlgorithmRegistry", "RegistryDoctorReport"]

SCHEMA_VERSION = 1
"""The version of registry documents."""
_ROOT_FIELDS = ("schema_version", "registry_id", "audit_date", "reserve_pool_status", "expected", "algorithms")
_IMPORT_LOCK = RLock()  # code of releases is imported by one thread at a time


@dataclass(frozen=True, slots=True)
class RegistryDoctorReport(Record):
    """What a look at a registry finds; ``ok`` when there are no errors."""

    ok: bool
    method_count: int
    release_count: int
    core_count: int
    optional_count: int
    must_ship_count: int
    entrypoint_count: int
    locked_count: int
    warnings: tuple[str, ...]
    errors: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """Give the report as JSON values."""
        return to_jsonable(self)


class AlgorithmRegistry:
    """The methods and releases of one registry document.

    Args:
        document: ``{schema_version: 1, registry_id, audit_date, reserve_pool_status, expected, algorithms}``.

    Raises:
        RegistryError: a field is unknown, missing or wrong; the text names card and field.
    """

    def __init__(self, document: Mapping[str, Any]) -> None:
        try:
            root = exact_fields(document, "registry document", allowed=_ROOT_FIELDS, required=_ROOT_FIELDS)
            self._document = freeze_mapping(root)
            _check_head(root)
            self.expected = ExpectedRoster.from_dict(root["expected"])
            rows: tuple[object, ...] = entries(root["algorithms"], "algorithms", object)
            self._methods = tuple(MethodCard.from_dict(row) for row in rows)
        except (TypeError, ValueError) as error:  # a `ValidationError` is a `ValueError`
            raise RegistryError(f"registry document: {error}") from error
        self._by_method = {method.method_id: method for method in self._methods}
        self._by_release = {release.id: release for release in self._releases()}

    @classmethod
    def default(cls) -> AlgorithmRegistry:
        """Give the registry that comes with the package; it is read once."""
        return _packaged()

    @property
    def document(self) -> Mapping[str, Any]:
        """The document, read-only."""
        return self._document

    @property
    def document_hash(self) -> str:
        """The content hash of the document."""
        return content_hash(self._document)

    def list_methods(
        self,
        family: SemanticFamily | str | None = None,
        tier: ReleaseTier | str | None = None,
        status: SupportStatus | str | None = None,
    ) -> tuple[MethodCard, ...]:
        """Give the methods of a family, tier and status, in the order of the document.

        Raises:
            ValidationError: there is no such family, tier or status.
        """
        wanted = _wanted(family, tier, status)
        return tuple(method for method in self._methods if _matches(method, *wanted))

    def list_releases(
        self,
        family: SemanticFamily | str | None = None,
        tier: ReleaseTier | str | None = None,
        status: SupportStatus | str | None = None,
        *,
        delivery_tier: DeliveryTier | str | None = None,
    ) -> tuple[ReleaseCard, ...]:
        """Give the releases of a family and tier (of their methods), status and delivery tier (their own).

        Raises:
            ValidationError: there is no such family, tier, status or delivery tier.
        """
        wanted = _wanted(family, tier, None)
        wanted_status = None if status is None else SupportStatus(status)
        delivery = None if delivery_tier is None else DeliveryTier(delivery_tier)
        return tuple(
            release
            for release in self._releases()
            if _matches(self._by_method[release.method_id], *wanted)
            and wanted_status in (None, release.status)
            and delivery in (None, release.delivery_tier)
        )

    def get_method(self, method_id: str) -> MethodCard:
        """Give the card of a method.

        Raises:
            RegistryError: there is none; the text names near matches.
        """
        if method_id not in self._by_method:
            raise self._unknown(method_id)
        return self._by_method[method_id]

    def has_release(self, release_id: str) -> bool:
        """Tell whether there is a release of that id."""
        return release_id in self._by_release

    def get_release(self, release_id: str) -> ReleaseCard:
        """Give the card of a release.

        Raises:
            RegistryError: there is none, with near matches, or it is a method, with its releases.
        """
        if release_id in self._by_method:
            names = ", ".join(release.id for release in self._by_method[release_id].releases)
            raise RegistryError(f"{release_id} is a method; its releases are: {names}")
        if release_id not in self._by_release:
            raise self._unknown(release_id)
        return self._by_release[release_id]

    def get(self, identifier: str) -> MethodCard | ReleaseCard:
        """Give the card of a method or of a release.

        Raises:
            RegistryError: there is none; the text names near matches.
        """
        return self._by_method.get(identifier) or self.get_release(identifier)

    def resolve_entrypoint(self, release_id: str) -> Any:
        """Import the constructor of a release.

        Raises:
            RegistryError: there is no such release.
            AlgorithmUnavailableError: it has no code, is held back, or its code cannot be imported here.
        """
        release = self.get_release(release_id)
        if not release.runnable or release.entrypoint is None:
            raise AlgorithmUnavailableError(f"{release_id} cannot be run: {release.blocker}")
        module, _, attribute = release.entrypoint.partition(":")
        with _IMPORT_LOCK:
            try:
                return getattr(import_module(module), attribute)
            except (ImportError, AttributeError) as error:
                raise AlgorithmUnavailableError(f"{release_id} cannot be imported: {error}") from error

    def validate_roster(self) -> None:
        """Check the roster against the ``expected`` block of the document.

        Raises:
            RegistryError: it differs; every difference is in the text.
        """
        check_roster(self._methods, self.expected)

    def doctor(self) -> RegistryDoctorReport:
        """Look at the whole registry: the roster, and whether the modules behind the entry points exist."""
        releases = tuple(self._releases())
        core = sum(method.release_tier is ReleaseTier.CORE for method in self._methods)
        errors = roster_problems(self._methods, self.expected)
        errors += [f"{r.id}: there is no module {_module(r)}" for r in releases if r.entrypoint and not _exists(r)]
        must_ship = [release for release in releases if release.delivery_tier is DeliveryTier.MUST_SHIP]
        warnings = [f"{r.id} must ship and cannot be run here: {r.blocker}" for r in must_ship if not r.runnable]
        unpinned = sum(method.upstream.commit is None for method in self._methods)
        if unpinned:
            warnings.append(f"{unpinned} of {len(self._methods)} methods have no pinned upstream commit; notes say why")
        return RegistryDoctorReport(
            ok=not errors,
            method_count=len(self._methods),
            release_count=len(releases),
            core_count=core,
            optional_count=len(self._methods) - core,
            must_ship_count=len(must_ship),
            entrypoint_count=sum(release.entrypoint is not None for release in releases),
            locked_count=sum(release.availability is Availability.LOCKED for release in releases),
            warnings=tuple(warnings),
            errors=tuple(errors),
        )

    def _releases(self) -> Iterator[ReleaseCard]:
        for method in self._methods:
            yield from method.releases

    def _unknown(self, identifier: str) -> RegistryError:
        near = get_close_matches(identifier, [*self._by_method, *self._by_release], n=3)
        hint = f"did you mean {', '.join(near)}?" if near else "use agentinputlab list --releases"
        return RegistryError(f"unknown algorithm or release ID: {identifier}; {hint}")


@cache
def _packaged() -> AlgorithmRegistry:
    return AlgorithmRegistry(load_packaged_registry())


def _check_head(root: Mapping[str, Any]) -> None:
    for name, expected in (("schema_version", SCHEMA_VERSION), ("registry_id", REGISTRY_ID)):
        if type(root[name]) is not type(expected) or root[name] != expected:
            raise ValidationError(f"{name} must be {expected}, got {root[name]!r:.80}")
    for name in ("audit_date", "reserve_pool_status"):
        text(root[name], name)


def _wanted(
    family: SemanticFamily | str | None, tier: ReleaseTier | str | None, status: SupportStatus | str | None
) -> tuple[SemanticFamily | None, ReleaseTier | None, SupportStatus | None]:
    return (
        None if family is None else SemanticFamily(family),
        None if tier is None else ReleaseTier(tier),
        None if status is None else SupportStatus(status),
    )


def _matches(
    method: MethodCard, family: SemanticFamily | None, tier: ReleaseTier | None, status: SupportStatus | None
) -> bool:
    return (
        family in (None, method.semantic_family)
        and tier in (None, method.release_tier)
        and status in (None, method.status)
    )


def _module(release: ReleaseCard) -> str:
    return (release.entrypoint or "").partition(":")[0]


def _exists(release: ReleaseCard) -> bool:
    with _IMPORT_LOCK:
        try:
            return find_spec(_module(release)) is not None
        except ImportError:  # a package on the way is missing
            return False
