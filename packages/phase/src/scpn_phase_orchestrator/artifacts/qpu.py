"""The coupling problem of a domain as one sealed file, for programs that map it onto quantum hardware.

The record is plain JSON. Every array has its own SHA-256, over its type, shape and little-endian bytes; the hash of the
artifact covers everything else together with those hashes, so that no reader needs our way of writing numbers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast, get_args

import numpy as np
from numpy.typing import NDArray

from ripieno.canonical import canonical_json, content_hash, strict_loads
from ripieno.files import create_only
from scpn_phase_orchestrator._arrays import FloatArray, real_array, square_coupling, whole_number
from scpn_phase_orchestrator._compat import TWO_PI
from scpn_phase_orchestrator.binding.types import BindingSpec
from scpn_phase_orchestrator.coupling.geometry_constraints import (
    NonNegativeConstraint,
    SymmetryConstraint,
    validate_knm,
)
from scpn_phase_orchestrator.coupling.knm import CouplingBuilder

__all__ = [
    "QPU_SCHEMA",
    "QPUDataArtifact",
    "SourceMode",
    "compile_domain_to_qpu_artifact",
    "emit_qpu_data_artifact",
    "validate_qpu_data_artifact",
]

QPU_SCHEMA = "scpn-quantum-control.qpu-data-artifact.v1"
"""Name and version of the format."""

SourceMode = Literal["measured", "inferred", "synthetic"]
"""Whether the numbers were measured, inferred from measurements, or made up by a model."""

_ARRAYS = ("K_nm", "omega", "theta0", "layer_assignments")
_CONSTRAINTS = (SymmetryConstraint(), NonNegativeConstraint())


@dataclass(frozen=True, slots=True, eq=False)
class QPUDataArtifact:
    """One domain's coupling problem, checked when it is made.

    Attributes:
        domain: name of the domain.
        source: where the numbers come from, in words.
        source_mode: whether they were measured, inferred or made up.
        K_nm: ``(n, n)`` coupling in rad/s, symmetric, not negative, zero diagonal.
        omega: ``(n,)`` natural frequencies in rad/s.
        theta0: ``(n,)`` initial phases in rad.
        layer_assignments: ``(n,)`` index of each oscillator's layer.

    Raises:
        ValueError: a field that breaks one of these claims; the message names it.
    """

    domain: str
    source: str
    source_mode: SourceMode
    K_nm: FloatArray
    omega: FloatArray
    theta0: FloatArray
    layer_assignments: NDArray[np.int64]

    def __post_init__(self) -> None:
        for name, text in (("domain", self.domain), ("source", self.source)):
            if not text.strip():
                raise ValueError(f"{name} must be a text that is not empty, got {text!r}")
        if self.source_mode not in get_args(SourceMode):
            raise ValueError(f"source_mode must be one of {get_args(SourceMode)}, got {self.source_mode!r}")
        knm = validate_knm(square_coupling("K_nm", self.K_nm), _CONSTRAINTS)
        n = len(knm)
        frozen: dict[str, NDArray[Any]] = {
            "K_nm": knm.copy(),
            "omega": real_array("omega", self.omega, (n,)).copy(),
            "theta0": real_array("theta0", self.theta0, (n,)).copy(),
            "layer_assignments": _layers(self.layer_assignments, n),
        }
        for name, array in frozen.items():
            array.flags.writeable = False
            object.__setattr__(self, name, array)

    @property
    def oscillator_count(self) -> int:
        """Number of oscillators."""
        return len(self.omega)

    @property
    def array_sha256(self) -> dict[str, str]:
        """SHA-256 of every array by its name."""
        return {name: _array_hash(getattr(self, name)) for name in _ARRAYS}

    @property
    def artifact_sha256(self) -> str:
        """SHA-256 of everything in the record, arrays by their hashes."""
        return content_hash(self._sealed_part())

    def require_publication_safe(self) -> None:
        """Refuse numbers that nobody measured.

        Raises:
            ValueError: the source is synthetic.
        """
        if self.source_mode == "synthetic":
            raise ValueError(
                f"artifact of domain {self.domain!r} must not be published as data: its source is synthetic "
                f"({self.source}); compile it from measured or inferred arrays"
            )

    def to_record(self) -> dict[str, object]:
        """Give the JSON-safe record."""
        return {
            **self._sealed_part(),
            **{name: getattr(self, name).tolist() for name in _ARRAYS},
            "artifact_sha256": self.artifact_sha256,
        }

    def _sealed_part(self) -> dict[str, object]:
        return {
            "schema": QPU_SCHEMA,
            "domain": self.domain,
            "source": self.source,
            "source_mode": self.source_mode,
            "oscillator_count": self.oscillator_count,
            "array_sha256": self.array_sha256,
        }


def compile_domain_to_qpu_artifact(
    spec: BindingSpec,
    *,
    source: str | None = None,
    source_mode: SourceMode = "synthetic",
    knm: object = None,
    omegas: object = None,
    theta0: object = None,
    seed: int = 42,
) -> QPUDataArtifact:
    """Turn a spec, or arrays measured for it, into an artifact.

    What is not given comes from the spec: the coupling of its template or builder, its natural frequencies, and the
    initial phases that a run with this seed starts from. Such numbers are synthetic.

    Args:
        spec: the domain.
        source: where the numbers come from, in words; by default the name and version of the spec.
        source_mode: ``measured`` and ``inferred`` need all three arrays.
        knm: ``(n, n)`` coupling in rad/s.
        omegas: ``(n,)`` natural frequencies in rad/s.
        theta0: ``(n,)`` initial phases in rad.
        seed: seed of the initial phases.

    Raises:
        ValueError: no oscillators, arrays that do not fit the spec or break the format, or a source that claims more
            than was given.
    """
    layers = [layer.index for layer in spec.layers for _ in layer.oscillator_ids]
    n = len(layers)
    if n == 0:
        raise ValueError("no oscillators defined in layers")
    missing = [name for name, value in (("knm", knm), ("omegas", omegas), ("theta0", theta0)) if value is None]
    if source_mode != "synthetic" and missing:
        raise ValueError(
            f"source_mode {source_mode!r} needs arrays of its own, but {', '.join(missing)} would be made up"
        )
    if source_mode != "synthetic" and source is None:
        raise ValueError(f"source_mode {source_mode!r} needs a source that says where the numbers come from")
    if knm is None:
        knm = _declared_coupling(spec, n)
    if omegas is None:
        omegas = np.array(spec.get_omegas(), dtype=np.float64)
    if theta0 is None:
        theta0 = np.random.default_rng(whole_number("seed", seed)).uniform(0.0, TWO_PI, n)
    return QPUDataArtifact(
        domain=spec.name,
        source=source if source is not None else f"binding spec {spec.name} {spec.version}",
        source_mode=source_mode,
        K_nm=real_array("knm", knm, (n, n)),
        omega=real_array("omegas", omegas, (n,)),
        theta0=real_array("theta0", theta0, (n,)),
        layer_assignments=np.array(layers, dtype=np.int64),
    )


def _declared_coupling(spec: BindingSpec, n: int) -> FloatArray:
    """Give the matrix that a run of the spec starts from: its template, or what the builder makes."""
    coupling, builder = spec.coupling, CouplingBuilder()
    state = builder.build(n, coupling.base_strength, coupling.decay_alpha)
    if coupling.template is not None:
        state = builder.switch_template(state, coupling.template, coupling.templates)
    return state.knm


def emit_qpu_data_artifact(artifact: QPUDataArtifact, path: Path | str) -> Path:
    """Write an artifact to a new file, as canonical JSON and a line feed.

    Returns:
        The path.

    Raises:
        FileExistsError: something has that name already.
        OSError: the file cannot be written; nothing is left of it.
    """
    target = Path(path)
    create_only(target, canonical_json(artifact.to_record()) + b"\n")
    return target


def validate_qpu_data_artifact(source: QPUDataArtifact | Mapping[str, object] | Path | str) -> QPUDataArtifact:
    """Read and check an artifact.

    Args:
        source: a path, a record as in the file, or an artifact (which goes through its record).

    Returns:
        The artifact, equal to the record to the last bit.

    Raises:
        ValueError: no such JSON, missing or unknown keys, another schema, arrays that break the format, or a hash that
            does not match; the message names the key.
        OSError: a file that cannot be read.
    """
    record = _record(source)
    expected = {
        "schema", "domain", "source", "source_mode", "oscillator_count", "array_sha256", "artifact_sha256", *_ARRAYS
    }  # fmt: skip
    if set(record) != expected:
        missing, unknown = sorted(expected - set(record)), sorted(set(record) - expected)
        raise ValueError(f"artifact must hold exactly the documented keys; missing {missing}, unknown {unknown}")
    if record["schema"] != QPU_SCHEMA:
        raise ValueError(f"schema must be {QPU_SCHEMA!r}, got {record['schema']!r}")
    texts = {name: _text(name, record[name]) for name in ("domain", "source", "source_mode")}
    artifact = QPUDataArtifact(
        domain=texts["domain"],
        source=texts["source"],
        source_mode=cast("SourceMode", texts["source_mode"]),
        K_nm=real_array("K_nm", record["K_nm"], (None, None)),
        omega=real_array("omega", record["omega"], (None,)),
        theta0=real_array("theta0", record["theta0"], (None,)),
        layer_assignments=cast("NDArray[np.int64]", record["layer_assignments"]),
    )
    if whole_number("oscillator_count", record["oscillator_count"]) != artifact.oscillator_count:
        raise ValueError(f"oscillator_count must be {artifact.oscillator_count}, got {record['oscillator_count']}")
    claimed = record["array_sha256"]
    if not isinstance(claimed, dict) or set(cast("dict[str, object]", claimed)) != set(_ARRAYS):
        raise ValueError(f"array_sha256 must hold one hash for each of {', '.join(_ARRAYS)}")
    for name, digest in artifact.array_sha256.items():
        if claimed[name] != digest:
            raise ValueError(f"array_sha256.{name} must be {digest} for these values, got {claimed[name]!r}")
    if record["artifact_sha256"] != artifact.artifact_sha256:
        raise ValueError(f"artifact_sha256 must be {artifact.artifact_sha256}, got {record['artifact_sha256']!r}")
    return artifact


def _record(source: QPUDataArtifact | Mapping[str, object] | Path | str) -> Mapping[str, object]:
    if isinstance(source, QPUDataArtifact):
        return source.to_record()
    if isinstance(source, Mapping):
        return source
    document = strict_loads(Path(source).read_bytes())
    if not isinstance(document, dict):
        raise ValueError(f"{source} must hold a JSON object, got {type(document).__name__}")  # noqa: TRY004 - content
    return cast("dict[str, object]", document)


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{name} must be text, got {value!r}")  # noqa: TRY004 - the documented type
    return value


def _layers(value: object, n: int) -> NDArray[np.int64]:
    items = value.tolist() if isinstance(value, np.ndarray) else value
    if not isinstance(items, list) or len(cast("list[object]", items)) != n:
        raise ValueError(f"layer_assignments must hold {n} layer indices")
    checked = [
        whole_number(f"layer_assignments[{place}]", item) for place, item in enumerate(cast("list[object]", items))
    ]
    return np.array(checked, dtype=np.int64)


def _array_hash(array: NDArray[Any]) -> str:
    kind = "<f8" if array.dtype == np.float64 else "<i8"
    head = canonical_json({"dtype": kind, "shape": list(array.shape)})
    return hashlib.sha256(head + np.ascontiguousarray(array, dtype=kind).tobytes()).hexdigest()
