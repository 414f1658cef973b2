"""What the whole roster must be: the counts and names that the document itself expects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentinputlab.contracts._checks import Record, exact_fields, frozen, put, texts, whole
from agentinputlab.contracts.enums import ReleaseTier, SemanticFamily
from agentinputlab.contracts.errors import RegistryError
from agentinputlab.registry.cards import DeliveryTier, MethodCard

__all__ = ["ExpectedRoster", "roster_problems", "validate_roster"]


@dataclass(frozen=True, slots=True)
class ExpectedRoster(Record):
    """The ``expected`` block of a registry document.

    Attributes:
        method_count: number of methods.
        core_count: number of core methods.
        optional_count: number of optional methods.
        core_per_family: family to number of core methods.
        must_ship: ids of exactly the releases that are promised.
    """

    method_count: int
    core_count: int
    optional_count: int
    core_per_family: Mapping[str, int]
    must_ship: tuple[str, ...]

    def __post_init__(self) -> None:
        for name in ("method_count", "core_count", "optional_count"):
            whole(getattr(self, name), f"expected.{name}")
        families = frozen(self.core_per_family, "expected.core_per_family")
        for family, count in families.items():
            SemanticFamily(family)
            whole(count, f"expected.core_per_family.{family}")
        put(self, core_per_family=families, must_ship=texts(self.must_ship, "expected.must_ship"))

    @classmethod
    def from_dict(cls, value: object) -> ExpectedRoster:
        """Give the block that a document has."""
        return cls(**exact_fields(value, "expected", allowed=cls.__slots__, required=cls.__slots__))


def roster_problems(methods: Sequence[MethodCard], expected: ExpectedRoster) -> list[str]:
    """Give what is wrong with a roster, one sentence each; an empty list when nothing is."""
    problems: list[str] = []
    releases = [release for method in methods for release in method.releases]
    for what, names in (
        ("method", [method.method_id for method in methods]),
        ("release", [release.id for release in releases]),
    ):
        problems += [f"{what} id {name} is used {count} times" for name, count in Counter(names).items() if count > 1]
    both = {method.method_id for method in methods} & {release.id for release in releases}
    problems += [f"{name} names a method and a release" for name in sorted(both)]

    core = Counter(m.semantic_family.value for m in methods if m.release_tier is ReleaseTier.CORE)
    counts: dict[str, tuple[Any, Any]] = {
        "methods": (len(methods), expected.method_count),
        "core methods": (core.total(), expected.core_count),
        "optional methods": (len(methods) - core.total(), expected.optional_count),
        **{
            f"core methods of {family}": (core[family], expected.core_per_family.get(family, 0))
            for family in sorted({*core, *expected.core_per_family})
        },
    }
    problems += [f"{found} {name}, expected {wanted}" for name, (found, wanted) in counts.items() if found != wanted]

    promised = {release.id for release in releases if release.delivery_tier is DeliveryTier.MUST_SHIP}
    problems += [f"release {name} must ship and does not" for name in sorted(set(expected.must_ship) - promised)]
    problems += [f"release {name} is promised but not expected" for name in sorted(promised - set(expected.must_ship))]
    return problems


def validate_roster(methods: Sequence[MethodCard], expected: ExpectedRoster) -> None:
    """Check a roster against what its document expects.

    Raises:
        RegistryError: counts, names or promised releases differ; every difference is in the text.
    """
    problems = roster_problems(methods, expected)
    if problems:
        raise RegistryError(f"the roster is not the expected one: {'; '.join(problems)}")
