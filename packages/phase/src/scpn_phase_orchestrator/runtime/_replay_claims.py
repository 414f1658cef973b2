"""What a step record claims beside its inputs, held against the record before it and against the executed step."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from scpn_phase_orchestrator._arrays import FloatArray
from scpn_phase_orchestrator._compat import TWO_PI
from scpn_phase_orchestrator.actuation.knobs import KnobLedger
from scpn_phase_orchestrator.actuation.mapper import ControlAction
from scpn_phase_orchestrator.binding.types import ActuatorMapping
from scpn_phase_orchestrator.coupling.modulation import Modulation
from scpn_phase_orchestrator.exceptions import PolicyError

__all__ = ["ActionCheck", "Mismatch", "check_course", "check_header", "check_seen_layers", "initial_phases"]

REGIMES = ("nominal", "degraded", "recovery", "critical")
CLAIM_TOLERANCE = 1e-12
"""Largest deviation of a mean that only the order of an addition can explain."""
KNOB_TOLERANCE = 1e-9
"""Largest deviation of a gain or a lag from what the recorded actions lead to."""


class Mismatch(Exception):  # noqa: N818 - it names what was found
    """A recorded step does not lead to what the log says."""


def check_header(header: Mapping[str, Any]) -> None:
    """Hold the header against the spec that it carries; nothing without one.

    Raises:
        ValueError: they describe different runs.
    """
    n, sizes = header.get("n_oscillators"), header.get("layer_sizes")
    if sizes is not None:
        if not isinstance(sizes, list) or not all(type(size) is int and size >= 0 for size in cast("list[Any]", sizes)):
            raise ValueError(f"layer_sizes must be a list of integers >= 0, got {sizes!r:.60}")
        if sum(cast("list[int]", sizes)) != n:
            raise ValueError(f"layer_sizes must add up to {n}, got {sizes!r:.60}")
    config = _config(header)
    if config is None:
        return
    stated: dict[str, object] = {
        "oscillator_count": n,
        "sample_period_s": header.get("dt"),
        "engine_mode": "stuart_landau" if header.get("amplitude_mode") is True else None,
    }
    for name, value in stated.items():
        if value is not None and name in config and config[name] != value:
            raise ValueError(f"the header says {value!r:.40}, its binding_config has {name} {config[name]!r:.40}")
    layers = config.get("layers")
    if isinstance(layers, list) and sizes is not None:
        declared = [layer.get("oscillator_count") for layer in cast("list[Mapping[str, Any]]", layers)]
        if declared != sizes:
            raise ValueError(f"layer_sizes are {sizes!r:.60}, the layers of binding_config have {declared!r:.60}")


def initial_phases(header: Mapping[str, Any], record: Mapping[str, Any]) -> FloatArray | None:
    """Give the phases that the seed of a run of a spec gives its step 0; ``None`` where it does not say."""
    seed = header.get("seed")
    if _config(header) is None or type(seed) is not int or seed < 0 or record.get("step") != 0:
        return None
    if record.get("phases_overridden") is True:
        return None
    return np.random.default_rng(seed).uniform(0.0, TWO_PI, header["n_oscillators"])


def check_course(record: Mapping[str, Any], before: Mapping[str, Any] | None) -> None:
    """Hold number, regime and stability of a step against its own layers and the step before.

    Raises:
        Mismatch: they do not fit.
    """
    step, regime = record["step"], record["regime"]
    for name in ("regime", "regime_decided"):
        if record.get(name, "nominal") not in REGIMES:
            raise Mismatch(f"step {step!r:.20} has the {name} {record[name]!r:.40}, which is none")
    if before is not None:
        if step != before["step"] + 1:
            raise Mismatch(f"step {before['step']!r:.20} is followed by step {step!r:.20}")
        decided = before.get("regime_decided", regime)
        if decided != regime:
            raise Mismatch(f"step {before['step']!r:.20} decides {decided!r:.40}, step {step!r:.20} has {regime!r:.40}")
    coherences = [float(layer["R"]) for layer in record["layers"]]
    if coherences:
        deviation = abs(sum(coherences) / len(coherences) - record["stability"])
        if not deviation <= CLAIM_TOLERANCE:
            raise Mismatch(f"step {step!r:.20} claims a stability that is off by {deviation:.3g}")


def check_seen_layers(
    record: Mapping[str, Any], raw: Sequence[tuple[float, float]], before: Sequence[tuple[float, float]] | None
) -> None:
    """Hold the layers that a step claims the supervisor saw against what its channels make of the raw ones.

    Args:
        record: a step with ``channel_runtime``.
        raw: R and phase of each layer, as the evidence claims them.
        before: the same of the step before; ``None`` when it is not known.

    Raises:
        Mismatch: they do not follow.
    """
    evidence = cast("list[Mapping[str, Any]]", record["channel_runtime"]["layers"])
    for number, (layer, claim) in enumerate(zip(record["layers"], evidence, strict=True)):
        seen = (float(claim["executed_R"]), float(claim["executed_psi"]))
        source = before if claim["evidence_source"] == "held_previous_tick" else raw
        if source is not None:
            r, psi = source[number]
            confidence = float(claim["confidence_weight"])
            if seen != (r if confidence == 1.0 else r * confidence, psi):
                raise Mismatch(f"step {record['step']!r:.20}: layer {number} is not what its channel makes of it")
        if seen != (float(layer["R"]), float(layer["psi"])):
            raise Mismatch(f"step {record['step']!r:.20}: layer {number} is not the one that its evidence describes")


class ActionCheck:
    """Applies the recorded actions to the knobs of the recorded spec, and holds gains and lags against that.

    Drive strength and phase are not held against actions: a scenario may set them, and no record tells.

    Attributes:
        resets: steps that have no gain and no lag although actions would still hold; a scenario that sets the
            coupling does that.
    """

    def __init__(self, ledger: KnobLedger) -> None:
        self._ledger = ledger
        self.resets = 0

    @classmethod
    def of_run(cls, header: Mapping[str, Any]) -> ActionCheck | None:
        """Make the knobs of the spec in a header; ``None`` when it does not carry one.

        Raises:
            ValueError: it carries something else.
        """
        config, sizes = _config(header), header.get("layer_sizes")
        if config is None or sizes is None or "actuators" not in config or "layers" not in config:
            return None
        try:
            declared = cast("list[dict[str, Any]]", config["actuators"])
            actuators = [ActuatorMapping(**fields) for fields in declared]
            indices = [layer["index"] for layer in config["layers"]]
            return cls(KnobLedger(actuators, dt=header["dt"], layer_indices=indices, layer_sizes=sizes))
        except (KeyError, TypeError, ValueError, PolicyError) as error:
            raise ValueError(f"binding_config describes no actuators: {error}") from error

    def take(self, record: Mapping[str, Any], *, is_base_new: bool) -> None:
        """Let one step pass.

        Args:
            record: the step.
            is_base_new: whether its base matrices are other ones than those of the step before, which ends all gains.

        Raises:
            Mismatch: gains, lags or actions are not what they can be.
        """
        step = record["step"]
        self._ledger.begin_step()
        if is_base_new:
            self._ledger.rebase_coupling()
        recorded = Modulation.from_record(record.get("modulation") or {})
        if not _same(recorded, self._ledger.modulation()):
            if not _same(recorded, Modulation()):
                raise Mismatch(f"step {step!r:.20} has gains or lags to which the actions before it do not lead")
            self._ledger.rebase_coupling()
            self.resets += 1
        for fields in record["actions"]:
            action = ControlAction(**fields)
            try:
                self._ledger.limits(action.knob, action.scope)
                if action.knob not in ("K", "alpha"):
                    continue
                applied = self._ledger.apply(action, step)
            except PolicyError as error:
                raise Mismatch(f"step {step!r:.20} has an action that cannot be: {error}") from error
            if not math.isclose(applied.value, action.value, rel_tol=KNOB_TOLERANCE, abs_tol=KNOB_TOLERANCE):
                raise Mismatch(
                    f"step {step!r:.20} has an action {action.knob}={action.value:g}, which its limits do not allow"
                )


def _same(one: Modulation, other: Modulation) -> bool:
    pairs = [(one.global_gain, other.global_gain)]
    for first, second, rest in (
        (one.layer_gains, other.layer_gains, 1.0),
        (one.layer_lags, other.layer_lags, 0.0),
    ):
        size = max(len(first), len(second))
        pairs += zip(first or (rest,) * size, second or (rest,) * size, strict=True)
    return all(math.isclose(a, b, rel_tol=KNOB_TOLERANCE, abs_tol=KNOB_TOLERANCE) for a, b in pairs)


def _config(header: Mapping[str, Any]) -> Mapping[str, Any] | None:
    config = header.get("binding_config")
    return cast("Mapping[str, Any]", config) if isinstance(config, Mapping) else None
