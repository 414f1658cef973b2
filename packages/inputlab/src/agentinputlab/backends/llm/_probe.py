"""Whether somebody answers at an endpoint: one question about its models, of which only the status is read."""

from __future__ import annotations

from agentinputlab.backends.llm._deadline import Deadline

__all__ = ["PROBE_SECONDS", "probe_status"]

PROBE_SECONDS = 5.0
"""For the whole question, however the answer drips in."""


def probe_status(base_url: str, seconds: float = PROBE_SECONDS, *, key: str | None = None) -> int:
    """Give the HTTP status with which ``<base_url>/models`` is answered; the body stays unread, it may be endless.

    Args:
        base_url: address up to and without ``/models``.
        seconds: for the whole question.
        key: sent as bearer token; none by default.

    Raises:
        httpx.HTTPError: no answer in time.
        httpx.InvalidURL: this is no address.
    """
    import httpx

    deadline = Deadline(seconds)
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    transport = httpx.HTTPTransport(verify=base_url.startswith("https:"), trust_env=False)
    with (
        deadline,
        httpx.Client(transport=transport, timeout=seconds, follow_redirects=False, trust_env=False) as client,
        client.stream(
            "GET", f"{base_url.rstrip('/')}/models", headers=headers, extensions={"trace": deadline.trace}
        ) as answer,
    ):
        return answer.status_code
