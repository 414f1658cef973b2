"""The driver of a safety stack, which always answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

from numpy.typing import NDArray

from concerto.safety.api import FloatArray, LambdaDict
from concerto.training._safety_drivers.reading import SnapshotBuilder, layers_of, require_builder_reads
from concerto.training._safety_drivers.slack import state_from_plain, state_to_plain
from concerto.training.protocols import SafetyDecision

if TYPE_CHECKING:
    from concerto.safety.stack import SafetyStack

__all__ = ["StackDriver"]

_new_tuple = tuple.__new__
"""Makes a named tuple in half the time that its own constructor takes."""


class StackDriver:
    """Drives a `SafetyStack`, which always answers; its action stays float64, as certified.

    An environment may have a method ``executable_action(uid, action)``. What the stack answers passes through it,
    because the certificate holds only for an action that is carried out in full: a wall must not cut it short.

    Args:
        stack: the stack of the ego.
        snapshot_builder: reads the environment that it is called with.
        partner_id: identity of the partner, if known; another one restarts the slack.
    """

    def __init__(self, stack: SafetyStack, snapshot_builder: SnapshotBuilder, *, partner_id: str | None = None) -> None:
        from concerto.safety.stack import SafetySource

        self._braking, self._fallback = SafetySource.BRAKING, SafetySource.FALLBACK
        self._pass_through = SafetySource.PASS_THROUGH
        self._stack = stack
        self._ego_uid = stack.ego_uid
        self._builder = snapshot_builder
        self._partner_id = partner_id
        self._lambda: LambdaDict = {}
        self._env: Any = None
        self._executable: Callable[[str, FloatArray], FloatArray] | None = None

    @property
    def lambda_(self) -> LambdaDict:
        """Slack per ego pair that the last decision used, m/s^2; empty before the first one."""
        return self._lambda

    @property
    def capacity(self) -> float:
        """Acceleration capacity of the ego, m/s^2."""
        return self._stack.capacity

    @property
    def lambda_bound(self) -> float | None:
        """Clamp of the slack, m/s^2."""
        return self._stack.lambda_bound

    def bind(self, env: Any) -> None:
        """Check that the snapshot builder reads the environment that is stepped, and look for its hook."""
        require_builder_reads(env, self._builder)
        hooks = (getattr(layer, "executable_action", None) for layer in layers_of(env))
        self._env = env
        self._executable = cast("Any", next((hook for hook in hooks if callable(hook)), None))

    def start_run(self, seed: int) -> None:
        """Forget everything, the slack too: a run starts without a past."""
        self._stack.reset(seed=seed)

    def start_episode(self) -> None:
        """Forget the last step, keep the slack."""
        self._stack.start_episode()

    def decide(self, env: Any, ego_action: NDArray[Any], partner_action: Any) -> SafetyDecision:
        """Decide the ego's action, float64; what the partner wants does not matter, only what it could do."""
        if env is not self._env:
            self.bind(env)
        answer = self._stack.step(ego_action, self._builder(env), partner_id=self._partner_id)
        self._lambda = answer.lambda_
        action, source = answer.action, answer.source
        is_overridden = source is not self._pass_through
        if self._executable is not None:
            executable = self._executable(self._ego_uid, action)
            is_overridden = is_overridden or executable is not action
            action = executable
        has_fallen_back = source is self._fallback
        has_braked = source is self._braking
        return _new_tuple(SafetyDecision, (action, has_braked, has_fallen_back, has_fallen_back, is_overridden))

    def state(self) -> dict[str, Any]:
        """Give the slack and its warm-up."""
        return state_to_plain(self._stack.state)

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Take the slack and its warm-up."""
        loaded = state_from_plain(state)
        self._stack.restore(loaded, partner_id=self._partner_id)
        self._lambda = loaded.lambda_
