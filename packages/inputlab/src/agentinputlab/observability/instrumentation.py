"""Everything executable of a context behind meters: no call without a reservation, none without a charge."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from types import MappingProxyType
from typing import Any, TypeVar, cast

from agentinputlab.contracts.errors import BudgetExceededError, ExternalDependencyError, ValidationError
from agentinputlab.contracts.lifecycle import InterventionContext
from agentinputlab.observability.ledger import BudgetLedger, PendingReservation
from agentinputlab.observability.monitor import RunMonitor
from agentinputlab.observability.pricing import PricingCatalog
from agentinputlab.observability.resources import ResourceReceipt
from agentinputlab.observability.usage import (
    UNREPORTED_TOKEN_COUNTER,
    ResourceUsage,
    external_token_counter,
    normalize_external_usage,
)

__all__ = ["CallMeter", "has_meter", "instrument_context", "is_metered", "priced_call"]

T = TypeVar("T")
_RUNTIME_CALLS = ("call", "handle", "select")
_PLAIN = (str, int, float, bool, type(None), tuple, frozenset, Mapping, Enum)


@dataclass(frozen=True, slots=True)
class CallMeter:
    """Where the calls of one run are reserved and charged.

    Attributes:
        ledger: the account of the run.
        monitor: who hears of every call.
        run_id: the run.
        pricing: prices of models and of machine time.
    """

    ledger: BudgetLedger
    monitor: RunMonitor
    run_id: str
    pricing: PricingCatalog

    def count(self, usage: ResourceUsage, source: str) -> None:
        """Reserve and record a call whose usage is known before it is made; a failed one counts too.

        Raises:
            BudgetExceededError: it does not fit; the call must not be made.
        """
        self.ledger.reserve(usage)
        self._tell(usage, source, UNREPORTED_TOKEN_COUNTER)

    def charge(self, usage: ResourceUsage, *, source: str) -> None:
        """Record what was used without a reservation.

        Raises:
            BudgetExceededError: more than is allowed; it is recorded.
        """
        try:
            self.ledger.charge_actual(usage)
        finally:
            self._tell(usage, source, UNREPORTED_TOKEN_COUNTER)

    def settle(self, promise: PendingReservation, usage: ResourceUsage, *, source: str, token_counter: str) -> None:
        """Record what a call used.

        Raises:
            BudgetExceededError: more than is allowed; it is recorded.
        """
        try:
            self.ledger.commit_pending(promise, usage)
        finally:
            self._tell(usage, source, token_counter)

    def settle_failed(self, promise: PendingReservation, usage: ResourceUsage, *, source: str) -> None:
        """Record what a failed call used, for a caller who is about to raise the call's own error."""
        try:
            self.settle(promise, usage, source=source, token_counter=UNREPORTED_TOKEN_COUNTER)
        except BudgetExceededError:
            # The ledger remembers it and refuses everything from now on; the error that the caller raises came first.
            return

    def _tell(self, usage: ResourceUsage, source: str, token_counter: str) -> None:
        outer = (ledger.owner_run_id for ledger in self.ledger.lineage[1:])
        for run_id in (self.run_id, *(run_id for run_id in outer if run_id is not None)):
            self.monitor.record_usage(run_id, usage, source=source, token_counter=token_counter)


class _Metered:
    """A stand-in that shows plain attributes and the fingerprint of what it wraps, and no other way to it."""

    __slots__ = ("_meter", "_wrapped")

    def __init__(self, wrapped: Any, meter: CallMeter) -> None:
        self._wrapped = wrapped
        self._meter = meter

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._wrapped, name)  # AttributeError names the wrapped class, which helps
        if isinstance(value, _PLAIN):
            return value
        raise AttributeError(f"{name} of {type(self._wrapped).__name__} cannot be reached past the budget of a run")

    def fingerprint(self) -> Any:
        """Give the identity of what is wrapped."""
        return self._wrapped.fingerprint()


class _MeteredBackend(_Metered):
    __slots__ = ()

    def generate(self, request: Any) -> Any:
        model_id = str(self._wrapped.model_id)
        price = self._meter.pricing.cost_usd(model_id, input_tokens=1, output_tokens=1) or 0.0
        # No call makes sense without a token to read and one to write, or, under a cost cap, the price of those.
        minimum = ResourceUsage(model_calls=1, input_tokens=1, output_tokens=1, cost_usd=price)
        promise = self._meter.ledger.reserve_pending(minimum)
        try:
            response = self._wrapped.generate(request)
            usage = priced_call(self._meter.pricing, model_id, response.usage)
        except BaseException:
            unknown = ResourceUsage(model_calls=1, unpriced_model_calls=1)
            self._meter.settle_failed(promise, unknown, source="backend")
            raise
        self._meter.settle(promise, usage, source="backend", token_counter=_token_counter(response, self._wrapped))
        return response


class _MeteredRetriever(_Metered):
    __slots__ = ()

    def retrieve(self, *args: Any, **kwargs: Any) -> Any:
        self._meter.count(ResourceUsage(retrieval_calls=1), "retriever")
        return self._wrapped.retrieve(*args, **kwargs)


class _MeteredSearcher(_Metered):
    __slots__ = ()

    def search(self, *args: Any, **kwargs: Any) -> Any:
        self._meter.count(ResourceUsage(retrieval_calls=1), "vector_searcher")
        return self._wrapped.search(*args, **kwargs)


class _MeteredEmbedder(_Metered):
    __slots__ = ()

    def embed(self, *args: Any, **kwargs: Any) -> Any:
        self._meter.count(ResourceUsage(embedding_calls=1), "dense_embedder")
        response = self._wrapped.embed(*args, **kwargs)
        # Tokens of an embedder are not read by the model under test; what they cost is money like any other.
        cost = getattr(_field(response, "usage"), "cost_usd", None)
        if cost:
            self._meter.charge(ResourceUsage(cost_usd=cost), source="dense_embedder")
        return response


class _MeteredTool(_Metered):
    __slots__ = ("__name__",)

    def __init__(self, wrapped: Any, meter: CallMeter, name: str) -> None:
        super().__init__(wrapped, meter)
        self.__name__ = name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self._meter.count(ResourceUsage(tool_calls=1), f"tool:{self.__name__}")
        return self._wrapped(*args, **kwargs)


class _MeteredTools(Mapping[str, _MeteredTool]):
    """Tools behind a meter; every metered context has one, which is how it is recognised."""

    __slots__ = ("_meter", "_tools")

    def __init__(self, tools: Mapping[str, Any], meter: CallMeter) -> None:
        self._meter = meter
        self._tools = {name: _MeteredTool(_innermost(tool, meter.ledger), meter, name) for name, tool in tools.items()}

    def __getitem__(self, name: str) -> _MeteredTool:
        return self._tools[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tools)

    def __len__(self) -> int:
        return len(self._tools)


class _MeteredRuntime(_Metered):
    """A worker outside: its own report says what it used, never less than what was reserved for it."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        if name not in _RUNTIME_CALLS:
            return super().__getattr__(name)
        call = getattr(self._wrapped, name)  # AttributeError: this runtime is called by another name
        return partial(self._metered, call)

    def _metered(self, call: Callable[[Any], T], request: Any) -> T:
        minimum = _field(request, "minimum_reservation") or ResourceUsage()
        if isinstance(minimum, Mapping):
            minimum = ResourceUsage(**cast("Mapping[str, Any]", minimum))
        promise = self._meter.ledger.reserve_pending(minimum)
        unknown = replace(minimum, unpriced_model_calls=minimum.model_calls)
        try:
            response = call(request)
            usage, counter = self._reported(response, unknown)
        except BaseException:
            self._meter.settle_failed(promise, unknown, source="external_runtime")
            raise
        self._meter.settle(promise, usage, source="external_runtime", token_counter=counter)
        short = _calls_below(usage, minimum)
        if short and _field(response, "status") != "error":
            raise ExternalDependencyError(f"the worker reports fewer {short} than it was asked to make at the least")
        return response

    def _reported(self, response: object, unknown: ResourceUsage) -> tuple[ResourceUsage, str]:
        receipt = _field(response, "resource_receipt")
        if isinstance(receipt, ResourceReceipt):
            self._meter.monitor.record_resource_receipt(self._meter.run_id, receipt)
        envelope = _field(response, "usage")
        if isinstance(envelope, Mapping):
            try:
                usage, counter = normalize_external_usage(envelope), external_token_counter(envelope)
            except ValidationError as error:
                raise ExternalDependencyError("the worker's report of what it used is wrong") from error
        elif _field(response, "status") == "error" and _field(response, "consumed") is False:
            usage, counter = ResourceUsage(), UNREPORTED_TOKEN_COUNTER
        else:
            usage, counter = unknown, UNREPORTED_TOKEN_COUNTER
        if isinstance(receipt, ResourceReceipt) and not usage.cpu_seconds:
            usage += receipt.usage
        compute = self._meter.pricing.compute
        if compute is not None and not usage.compute_cost_usd:
            cost = compute.cost_usd(cpu_seconds=usage.cpu_seconds, accelerator_seconds=usage.accelerator_seconds)
            usage += ResourceUsage(compute_cost_usd=cost)
        return usage, counter


def instrument_context(
    context: InterventionContext, *, ledger: BudgetLedger, monitor: RunMonitor, run_id: str
) -> InterventionContext:
    """Give a context whose every call is reserved in a ledger before it is made and charged after.

    What is already behind the meter of this ledger, or of one around it, is not metered twice; behind the meter of an
    unrelated ledger it stays, so that both accounts see the call.

    Args:
        context: what the intervention would get.
        ledger: account of the run.
        monitor: who hears of every call.
        run_id: the run.

    Raises:
        ValidationError: `InterventionContext.pricing_catalog` is something else than a `PricingCatalog`.
    """
    return put_behind(meter_of(context, ledger=ledger, monitor=monitor, run_id=run_id), context)


def meter_of(context: InterventionContext, *, ledger: BudgetLedger, monitor: RunMonitor, run_id: str) -> CallMeter:
    """Give the meter of a run, with the prices of a context.

    Raises:
        ValidationError: as `instrument_context`.
    """
    pricing = PricingCatalog() if context.pricing_catalog is None else context.pricing_catalog
    if not isinstance(pricing, PricingCatalog):
        raise ValidationError(
            f"InterventionContext.pricing_catalog must be a PricingCatalog, got {type(pricing).__name__}"
        )
    return CallMeter(ledger, monitor, run_id, pricing)


def put_behind(meter: CallMeter, context: InterventionContext) -> InterventionContext:
    """Give a context whose every call goes through a meter, see `instrument_context`."""
    ledger = meter.ledger

    def wrapped(kind: Callable[[Any, CallMeter], Any], value: Any) -> Any:
        return None if value is None else kind(_innermost(value, ledger), meter)

    runtime = context.external_runtime
    if isinstance(runtime, Mapping):
        workers = cast("Mapping[str, Any]", runtime)
        runtime = MappingProxyType({name: wrapped(_MeteredRuntime, worker) for name, worker in workers.items()})
    else:
        runtime = wrapped(_MeteredRuntime, runtime)
    return context.with_services(
        backend=wrapped(_MeteredBackend, context.backend),
        dense_embedder=wrapped(_MeteredEmbedder, context.dense_embedder),
        retriever=wrapped(_MeteredRetriever, context.retriever),
        vector_searcher=wrapped(_MeteredSearcher, context.vector_searcher),
        tools=_MeteredTools(context.tools, meter),
        external_runtime=runtime,
        budget_ledger=ledger,
        monitor=meter.monitor,
    )


def is_metered(context: InterventionContext) -> bool:
    """Tell whether a context is one of a run: its calls are charged to its ledger."""
    tools = context.tools
    return isinstance(tools, _MeteredTools) and tools._meter.ledger is context.budget_ledger


def has_meter(dependency: object) -> bool:
    """Tell whether every call of a dependency is charged to the ledger of a run already."""
    return isinstance(dependency, _Metered)


def priced_call(pricing: PricingCatalog, model_id: str, reported: Any) -> ResourceUsage:
    """Give what one model call used: tokens as reported, and its price from the report, else from the catalogue.

    Args:
        pricing: prices by model id.
        model_id: the model that was asked.
        reported: the backend's own report (``input_tokens``, ``output_tokens``, ``cost_usd`` or None).
    """
    tokens = {"input_tokens": reported.input_tokens, "output_tokens": reported.output_tokens}
    cost = reported.cost_usd
    if cost is None:
        cost = pricing.cost_usd(model_id, **tokens)
    if cost is None:
        return ResourceUsage(model_calls=1, unpriced_model_calls=1, **tokens)
    return ResourceUsage(model_calls=1, cost_usd=cost, **tokens)


def _innermost(value: Any, ledger: BudgetLedger) -> Any:
    """Take off the meters whose ledgers hear of every charge on this one anyway."""
    while isinstance(value, _Metered) and value._meter.ledger in ledger.lineage:
        value = value._wrapped
    return value


def _token_counter(response: Any, backend: Any) -> str:
    for holder in (response.usage, response, backend):
        identity = getattr(holder, "token_counter", None)
        if isinstance(identity, str) and identity:
            return identity
    return UNREPORTED_TOKEN_COUNTER


def _field(holder: object, name: str) -> Any:
    if isinstance(holder, Mapping):
        return cast("Mapping[str, Any]", holder).get(name)
    return getattr(holder, name, None)


def _calls_below(usage: ResourceUsage, minimum: ResourceUsage) -> str:
    names = ("model_calls", "retrieval_calls", "tool_calls", "embedding_calls")
    return ", ".join(name for name in names if getattr(usage, name) < getattr(minimum, name))
