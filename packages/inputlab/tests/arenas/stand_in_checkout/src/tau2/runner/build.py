"""Stand-in builders."""

from typing import Any

from tau2.domains.retail.environment import Environment, get_environment
from tau2.user.user_simulator import UserSimulator


def build_environment(domain: str) -> Environment:
    if domain != "retail":
        raise ValueError(domain)
    return get_environment()


def build_user(name: str, environment: Any, task: Any, *, llm: str, llm_args: dict[str, Any]) -> UserSimulator:
    if name != "user_simulator":
        raise ValueError(name)
    return UserSimulator(llm, llm_args)
