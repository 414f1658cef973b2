"""A spec proposed by a language model: asked for over HTTP or read from a file, checked, and recorded.

The endpoint speaks the chat interface of OpenAI. What comes back is text from outside: it is read as strict JSON, has
to pass loader, validator and security scan, and nothing of it is written when it does not.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import socket
import time
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass, field
from typing import IO, Any, cast

import yaml

from ripieno.canonical import content_hash, strict_loads
from ripieno.errors import InputError
from scpn_phase_orchestrator.binding.loader import SPEC_FILE_NAME, parse_binding_spec
from scpn_phase_orchestrator.binding.types import BindingSpec
from scpn_phase_orchestrator.binding.validator import (
    binding_warnings,
    validate_binding_spec,
    validate_binding_spec_security,
)
from scpn_phase_orchestrator.binding.writer import binding_yaml
from scpn_phase_orchestrator.domainpacks import resolve_spec_path
from scpn_phase_orchestrator.exceptions import BindingError
from scpn_phase_orchestrator.scaffold.folder import check_name

__all__ = ["ChatEndpoint", "LlmProposal", "messages_for", "read_proposal"]

ENDPOINT_VARIABLE = "SPO_LLM_ENDPOINT"
MODEL_VARIABLE = "SPO_LLM_MODEL"
KEY_VARIABLE = "SPO_LLM_API_KEY"
TIMEOUT_S = 60.0
MAX_RESPONSE_BYTES = 2**20
MAX_RATIONALE = 4000
MAX_DESCRIPTION = 4000

_INSTRUCTIONS = """You propose specifications of networks of coupled phase oscillators for a supervisor that holds good
layers together and bad layers apart. Answer with one JSON object and nothing else:
{"binding_spec": {...}, "rationale": "why these layers, frequencies and coupling, in at most 200 words"}
Rules: the name is the one given; version "0.1.0"; safety_tier "research"; frequencies in rad/s; every layer has at
least two oscillators and a family; every actuator has semantics "value"; every bad layer has a K actuator of scope
layer_<index> with limits [0.0, 1.0]; dt (max |omega| + sum of couplings) stays below pi; no other keys than those of
this example:
"""


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Refuses redirects: the request carries a key and the answer is trusted to come from where it was asked for."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        raise urllib.error.HTTPError(req.full_url, code, "redirects are not followed", headers, fp)


@dataclass(frozen=True)
class ChatEndpoint:
    """Where a language model answers.

    Attributes:
        url: of the chat completions.
        model: name of the model.
        key: sent as bearer token when set; never shown or recorded.
        timeout_s: longest wait for the answer to begin, and for its end.
    """

    url: str
    model: str
    key: str | None = field(default=None, repr=False)
    timeout_s: float = TIMEOUT_S

    def __post_init__(self) -> None:
        try:
            parts = urllib.parse.urlsplit(self.url)
            is_usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            parts, is_usable = None, False
        if parts is None or not is_usable:
            raise BindingError(f"{ENDPOINT_VARIABLE} must be an http or https URL, got {self.url!r:.200}")
        if parts.username is not None or parts.query or parts.fragment:
            raise BindingError(
                f"{ENDPOINT_VARIABLE} must hold no user name, query or fragment; a key belongs in {KEY_VARIABLE}"
            )

    @classmethod
    def from_environment(cls) -> ChatEndpoint:
        """Read ``SPO_LLM_ENDPOINT``, ``SPO_LLM_MODEL`` and, when the endpoint wants one, ``SPO_LLM_API_KEY``.

        The endpoint may be the base URL or that of the chat completions.

        Raises:
            BindingError: one is missing or unusable.
        """
        base, model = os.environ.get(ENDPOINT_VARIABLE, "").strip(), os.environ.get(MODEL_VARIABLE, "").strip()
        for name, value in ((ENDPOINT_VARIABLE, base), (MODEL_VARIABLE, model)):
            if not value:
                raise BindingError(f"{name} is not set; set it, or give a saved answer with --llm-response-json")
        path = base.rstrip("/")
        url = path if path.endswith("/chat/completions") else f"{path}/chat/completions"
        return cls(url, model, os.environ.get(KEY_VARIABLE) or None)

    def ask(self, messages: list[dict[str, str]]) -> str:
        """Send messages and give the text of the answer.

        Raises:
            BindingError: no answer in time, one that is too long, or none of the chat interface.
        """
        body = json.dumps(
            {
                "model": self.model,
                "messages": messages,
                "temperature": 0,
                "response_format": {"type": "json_object"},
            }
        ).encode()
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if self.key is not None:
            headers["Authorization"] = f"Bearer {self.key}"
        request = urllib.request.Request(self.url, data=body, headers=headers, method="POST")  # noqa: S310 - checked
        opener = urllib.request.build_opener(_NoRedirects)
        deadline = time.monotonic() + self.timeout_s
        try:
            with opener.open(request, timeout=self.timeout_s) as response:
                data = _read_until(response, deadline)
        except urllib.error.HTTPError as error:
            with error:
                raise BindingError(f"{self.url} answered {error.code} {error.reason}") from error
        except (OSError, http.client.HTTPException, ValueError) as error:
            reason: object = error.reason if isinstance(error, urllib.error.URLError) else error
            late = isinstance(reason, TimeoutError | socket.timeout)
            words = f"no answer within {self.timeout_s:g} s" if late else str(reason) or type(error).__name__
            raise BindingError(f"{self.url}: {words}") from error
        return _content(data, self.url)


def _read_until(response: http.client.HTTPResponse, deadline: float) -> bytes:
    data = bytearray()
    while chunk := response.read1(2**16):
        data += chunk
        if len(data) > MAX_RESPONSE_BYTES:
            raise ValueError(f"the answer is longer than {MAX_RESPONSE_BYTES} bytes")
        if time.monotonic() > deadline:
            raise TimeoutError
    return bytes(data)


def _content(data: bytes, url: str) -> str:
    try:
        answer: Any = strict_loads(data)
        content: Any = answer["choices"][0]["message"]["content"]
    except InputError as error:
        raise BindingError(f"{url} answered no JSON: {error}") from error
    except (KeyError, IndexError, TypeError) as error:
        raise BindingError(f"{url} answered without choices[0].message.content") from error
    if not isinstance(content, str):
        raise BindingError(f"{url} answered without text")
    return content


def messages_for(name: str, description: str) -> list[dict[str, str]]:
    """Give the messages that ask for a proposal.

    Raises:
        BindingError: the name has other characters than ``[a-zA-Z0-9_-]``, or the description is blank or too long.
    """
    check_name(name)
    if not description.strip() or len(description) > MAX_DESCRIPTION:
        raise BindingError(f"the description must have 1 to {MAX_DESCRIPTION} characters, got {len(description)}")
    example = yaml.safe_load(resolve_spec_path("minimal_domain").read_text(encoding="utf-8"))
    return [
        {"role": "system", "content": _INSTRUCTIONS + json.dumps({"binding_spec": example, "rationale": "..."})},
        {"role": "user", "content": json.dumps({"name": name, "description": description.strip()})},
    ]


@dataclass(frozen=True)
class LlmProposal:
    """A proposal that was accepted.

    Attributes:
        name: of the pack.
        description: what was asked for.
        spec: what was proposed.
        rationale: why, in the words of the model.
        origin: where the answer came from: ``{"kind": "endpoint", "url": ..., "model": ...}`` or ``{"kind": "file"}``.
        prompt_sha256: hash of the messages, as canonical JSON.
        response_sha256: hash of the text of the answer.
    """

    name: str
    description: str
    spec: BindingSpec
    rationale: str
    origin: dict[str, str]
    prompt_sha256: str
    response_sha256: str

    def files(self) -> dict[str, str]:
        """Give spec, README and audit record, by file name."""
        header = (
            f"# {self.name}: proposed by a language model, for review: check every value before it means anything.\n"
        )
        spec = header + binding_yaml(self.spec)
        warnings = binding_warnings(self.spec)
        readme = _readme(self, warnings)
        audit = {
            "record": "llm_scaffold",
            "name": self.name,
            "description": self.description,
            "origin": self.origin,
            "prompt_sha256": self.prompt_sha256,
            "response_sha256": self.response_sha256,
            "schema_valid": True,
            "warnings": warnings,
            "files": {
                SPEC_FILE_NAME: hashlib.sha256(spec.encode()).hexdigest(),
                "README.md": hashlib.sha256(readme.encode()).hexdigest(),
            },
            "review_required": True,
            "execution_permitted": False,
        }
        return {
            SPEC_FILE_NAME: spec,
            "README.md": readme,
            "llm_scaffold_audit.json": json.dumps(audit, indent=2, sort_keys=True) + "\n",
        }


def read_proposal(
    name: str, description: str, messages: list[dict[str, str]], response: str, origin: dict[str, str]
) -> LlmProposal:
    """Judge an answer.

    Args:
        name: the name that was asked for.
        description: what was asked for.
        messages: the prompt.
        response: ``{"binding_spec": {...}, "rationale": text}``, or the spec alone.
        origin: where the answer came from.

    Raises:
        BindingError: the proposal is refused; says why.
    """
    try:
        value: Any = strict_loads(response)
    except InputError as error:
        raise _refusal(f"no strict JSON: {error}") from error
    if not isinstance(value, dict):
        raise _refusal("must be a JSON object")
    proposal = cast("dict[str, Any]", value)
    document: Any = proposal.get("binding_spec", proposal)
    rationale: Any = ""
    if document is not proposal:
        rationale = proposal.get("rationale", "")
        unknown = sorted(set(proposal) - {"binding_spec", "rationale"})
        if unknown:
            raise _refusal(f"unknown key {unknown[0]!r:.60}")
    if not isinstance(rationale, str) or len(rationale) > MAX_RATIONALE:
        raise _refusal(f"rationale must be a text of at most {MAX_RATIONALE} characters")
    try:
        spec = parse_binding_spec(json.dumps(document), source="binding_spec", is_json=True)
    except BindingError as error:
        raise _refusal(str(error)) from error
    problems = validate_binding_spec(spec) + validate_binding_spec_security(spec)
    if spec.name != name:
        problems.insert(0, f"name must be {name!r}, got {spec.name!r:.100}")
    if spec.safety_tier != "research":
        problems.insert(0, f"safety_tier must be 'research', got {spec.safety_tier!r}")
    if problems:
        raise _refusal("; ".join(problems))
    return LlmProposal(
        name=name,
        description=description.strip(),
        spec=spec,
        rationale=" ".join(rationale.split()),
        origin=origin,
        prompt_sha256=content_hash(messages),
        response_sha256=hashlib.sha256(response.encode()).hexdigest(),
    )


def _refusal(reason: str) -> BindingError:
    return BindingError(f"proposal refused, nothing is written: {reason}")


def _readme(proposal: LlmProposal, warnings: list[str]) -> str:
    origin = proposal.origin
    source = f"the model `{origin['model']}`" if origin["kind"] == "endpoint" else "a language model (saved answer)"
    lines = [
        f"# {proposal.name}",
        "",
        f"Proposed by {source} and accepted by loader, validator and security scan. That makes it a valid spec, not a",
        "true one: review every value. `llm_scaffold_audit.json` holds the hashes of prompt and answer.",
        "",
        "## What was asked for",
        "",
        f"> {' '.join(proposal.description.split())}",
        "",
        "## What the model says about it",
        "",
        f"> {proposal.rationale or '(nothing)'}",
    ]
    if warnings:
        lines += ["", "## Warnings of the validator", "", *[f"* {warning}" for warning in warnings]]
    return "\n".join(lines) + "\n"
