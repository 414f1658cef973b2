"""The endpoints of a campaign's slots: what can be seen to be wrong before a first attempt is used up on it."""

from __future__ import annotations

import os

from agentinputlab.backends.llm._keys import named_key
from agentinputlab.contracts.errors import ValidationError
from workers.official_arenas._config_checks import is_loopback
from workers.official_arenas.campaign.plan import ARENA_NAMES, CampaignPlan, ModelSlot

__all__ = ["address_problem", "key_problems", "silent_endpoints"]

_REFUSES_US = frozenset({401, 403})
_HAS_NO_LIST = frozenset({404, 405, 501})
"""What servers answer that do not list their models; it says nothing about completions."""
_TOO_LONG = ("/chat/completions", "/completions", "/models")
_KEYS_OF_ARENAS = {ARENA_NAMES["tau2"]: "OPENAI_API_KEY"}
"""Arenas that send a key of their own: LiteLLM, through which tau2 asks, sends this one."""


def address_problem(slot: ModelSlot) -> str | None:
    """Say what is wrong with an address that ends behind the place where paths are added to it."""
    base = _address(slot)
    ending = None if base is None else next((ending for ending in _TOO_LONG if base.endswith(ending)), None)
    if base is None or ending is None:
        return None
    # Another address may hold a name and a password.
    instead = f" {base.removesuffix(ending)}" if is_loopback(base) else ", say, http://127.0.0.1:8000/v1"
    return f"the address of the agent's endpoint ends where /chat/completions begins: give{instead}"


def key_problems(plan: CampaignPlan) -> list[str]:
    """Say which slots name a variable for their key that holds none."""
    problems: list[str] = []
    for slot in plan.slots:
        try:
            _key(plan, slot)
        except ValidationError as error:
            problems.append(f"slot {slot.name}: {error}")
    return problems


def silent_endpoints(plan: CampaignPlan) -> list[str]:
    """Say at which slots' endpoints nobody answers us: first attempts must not be used up on them.

    Asked is ``GET {api_base}/models``, with the key that calls will send. A server that does not list its models is
    taken as it is, unless it lists them one step further, at ``/v1``.
    """
    problems = key_problems(plan)
    if problems:
        return problems
    asked = [(slot.name, base, _key(plan, slot)) for slot in plan.slots if (base := _address(slot)) is not None]
    return [f"slot {name}: {problem}" for name, base, key in asked if (problem := _problem_at(base, key)) is not None]


def _address(slot: ModelSlot) -> str | None:
    base = slot.agent.args.get("api_base")
    return base.rstrip("/") if slot.agent.backend == "openai" and isinstance(base, str) else None


def _key(plan: CampaignPlan, slot: ModelSlot) -> str | None:
    """Give the key that calls will send, or None.

    Raises:
        ValidationError: the variable that is named for it holds none.
    """
    named = slot.agent.args.get("api_key_env")
    if slot.agent.backend == "openai" and isinstance(named, str):
        return named_key(named, "api_key_env")
    own = _KEYS_OF_ARENAS.get(plan.arena)
    return named_key(own, f"arena {plan.arena}") if own is not None and os.environ.get(own) else None


def _problem_at(base: str, key: str | None) -> str | None:
    import httpx

    from agentinputlab.backends.llm._probe import probe_status

    try:
        status = probe_status(base, key=key)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        return (
            f"nobody answers at the agent's endpoint ({type(error).__name__}); "
            "start the server and give the same command again"
        )
    if status in _HAS_NO_LIST:
        return _problem_without_list(base, key)
    if status in _REFUSES_US:
        what = "a call without a key" if key is None else "the key"
        return (
            f"the agent's endpoint refused {what} (HTTP status {status}): name the variable that holds its key with "
            "--api-key-env, or as api_key_env under args in a plan"
        )
    if httpx.codes.is_client_error(status):
        return f"the agent's endpoint refused to list its models (HTTP status {status}): see what the server says"
    return None


def _problem_without_list(base: str, key: str | None) -> str | None:
    """Only a server that lists its models one step further is surely asked at the wrong place."""
    import httpx

    from agentinputlab.backends.llm._probe import probe_status

    if base.endswith("/v1") or not is_loopback(base):
        return None
    try:
        is_further = probe_status(f"{base}/v1", key=key) == 200
    except (httpx.HTTPError, httpx.InvalidURL):
        return None
    return f"the agent's endpoint is not at {base} but at {base}/v1: give that address" if is_further else None
