"""A model behind an OpenAI-compatible endpoint: one attempt, nothing trusted, nothing leaked."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from agentinputlab.backends.answered import note_answer
from agentinputlab.backends.llm._completion import MalformedCompletionError, parse_completion
from agentinputlab.backends.llm._deadline import Deadline
from agentinputlab.backends.llm._echo import echoes
from agentinputlab.backends.llm._errors import (
    ContextLengthExceededError,
    OpenAICompatibleError,
    OpenAICompatibleResponseError,
    OpenAICompatibleTransportError,
    status_text,
)
from agentinputlab.backends.llm._keys import check_key
from agentinputlab.backends.llm._protocol import CAPABILITIES, Capability, capability_set, require_capabilities
from agentinputlab.backends.llm._types import GenerationRequest, GenerationResponse
from agentinputlab.contracts._checks import finite, frozen, text
from agentinputlab.contracts.errors import ValidationError
from agentinputlab.contracts.serialization import canonical_json, content_hash, to_jsonable
from ripieno.canonical import strict_loads
from ripieno.errors import InputError

if TYPE_CHECKING:
    import httpx

__all__ = [
    "MAX_RESPONSE_BYTES",
    "ContextLengthExceededError",
    "OpenAICompatibleBackend",
    "OpenAICompatibleError",
    "OpenAICompatibleResponseError",
    "OpenAICompatibleTransportError",
]

MAX_RESPONSE_BYTES = 16 * 2**20
"""Longest answer that is read."""
_MAX_REFUSAL_BYTES = 64 * 2**10
_STATUSES_OF_LONG_REQUESTS = (400, 413)
_CODES_OF_LONG_REQUESTS = ("context_length_exceeded", "exceed_context_size_error")
_SECRET_HEADER_WORDS = ("auth", "cookie", "key", "secret", "token", "password", "credential")
_OWN_HEADERS = (
    "accept",
    "accept-encoding",
    "connection",
    "content-length",
    "content-type",
    "host",
    "transfer-encoding",
)
_OWN_BODY_FIELDS = (
    "model", "messages", "temperature", "max_tokens", "seed", "stop", "logprobs", "top_logprobs", "response_format",
    "tools", "stream", "stream_options", "n",
)  # fmt: skip


class OpenAICompatibleBackend:
    """Ask a chat model over HTTP; servers on loopback are the intended deployment.

    One call sends one request: no retry, no redirect, no proxy and no ``.netrc`` from the environment. The whole call
    ends with the timeout, and at most `MAX_RESPONSE_BYTES` of the answer are read.

    Args:
        model_id: name of the model at the endpoint.
        base_url: absolute http or https address up to and without ``/chat/completions``.
        deployment_identity: what exactly is deployed there; needs a ``revision``. It stands for the endpoint in the
            fingerprint, so that a new port does not look like a new model.
        api_key: sent as bearer token; by default taken from the environment when a call is made.
        api_key_env: name of the environment variable; an unset or empty one sends no key.
        timeout_seconds: for the whole call.
        extra_headers: further headers; none that carries a secret.
        extra_body: further fields of the request body; none that a request sets itself.
        capabilities: what the endpoint can do.
        transport: an httpx transport to use instead of a connection.

    Attributes:
        token_counter: who counts the tokens: the endpoint.

    Raises:
        ValidationError: an argument is wrong; a secret is never quoted.
    """

    def __init__(
        self,
        model_id: str,
        base_url: str,
        deployment_identity: Mapping[str, Any],
        *,
        api_key: str | None = None,
        api_key_env: str | None = "OPENAI_API_KEY",
        timeout_seconds: float = 120,
        extra_headers: Mapping[str, str] | None = None,
        extra_body: Mapping[str, Any] | None = None,
        capabilities: Iterable[str] = CAPABILITIES - {Capability.STREAMING},
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self.model_id = text(model_id, "model_id")
        self.base_url = _base_url(base_url)
        self.deployment_identity = frozen(deployment_identity, "deployment_identity")
        text(self.deployment_identity.get("revision"), "deployment_identity.revision")
        if api_key is not None:
            check_key(api_key, "api_key")
        if api_key_env is not None:
            text(api_key_env, "api_key_env")
        self.timeout_seconds = finite(timeout_seconds, "timeout_seconds")
        if self.timeout_seconds <= 0:
            raise ValidationError(f"timeout_seconds must be positive, got {timeout_seconds!r}")
        self.extra_headers = _headers(extra_headers or {})
        self.extra_body = frozen(extra_body or {}, "extra_body")
        for name in self.extra_body:
            if name in _OWN_BODY_FIELDS:
                raise ValidationError(f"extra_body must not set {name}, which the request sets")
        self.capabilities = capability_set(capabilities, "capabilities")
        self.token_counter = f"endpoint:{self.model_id}"
        self._api_key = api_key
        self._api_key_env = api_key_env
        self._transport = transport

    def __repr__(self) -> str:
        """Name the model; the address and the key stay out."""
        return f"OpenAICompatibleBackend(model_id={self.model_id!r})"

    def generate(self, request: GenerationRequest) -> GenerationResponse:
        """Send one request.

        Raises:
            CapabilityError: the request needs something that the endpoint is not said to do; nothing is sent.
            ContextLengthExceededError: the endpoint says that the request is longer than what the model can read.
            OpenAICompatibleTransportError: no answer, or a status other than 200.
            OpenAICompatibleResponseError: the answer is too long, no strict JSON, lacks a field such as its usage, or
                repeats the key.
        """
        require_capabilities(self, request.required_capabilities)
        body = to_jsonable(self.extra_body) | request.chat_body(self.model_id)
        key = self._key()
        data = self._post(_encoded(body), key)
        answer, problem = _parsed(data)
        # The error is raised here, not while another one is handled: nothing of the answer hangs on its context.
        if key is not None and echoes(key, data, answer):
            raise OpenAICompatibleResponseError("model endpoint repeated the key in its answer")
        if problem is None:
            response, problem = _completed(answer, self.model_id)
            if response is not None:
                note_answer(self.model_id, response.raw)
                return response
        raise OpenAICompatibleResponseError(f"model endpoint gave an unusable answer: {problem}")

    def fingerprint(self) -> str:
        """Give the content hash of model, deployment and everything that is sent with each request."""
        return content_hash(
            {
                "backend": "openai_compatible",
                "model_id": self.model_id,
                "deployment_identity": self.deployment_identity,
                "extra_headers": self.extra_headers,
                "extra_body": self.extra_body,
                "capabilities": sorted(self.capabilities),
            }
        )

    def _key(self) -> str | None:
        if self._api_key is not None or self._api_key_env is None:
            return self._api_key
        key = os.environ.get(self._api_key_env) or None
        if key is not None:
            check_key(key, f"the key in {self._api_key_env}")
        return key

    def _post(self, content: bytes, key: str | None) -> bytes:
        """Send once and read at most `MAX_RESPONSE_BYTES`; httpx errors, which know the request, do not get out."""
        import httpx

        headers = {**self.extra_headers, "Content-Type": "application/json", "Accept": "application/json"}
        headers["Accept-Encoding"] = "identity"  # a compressed answer could grow without bound
        if key is not None:
            headers["Authorization"] = f"Bearer {key}"
        address = f"{self.base_url}/chat/completions"
        deadline = Deadline(self.timeout_seconds)
        extensions = {"trace": deadline.trace}
        problem: OpenAICompatibleError | None = None
        data = b""
        try:
            with (
                deadline,
                self._client() as client,
                client.stream("POST", address, content=content, headers=headers, extensions=extensions) as answer,
            ):
                problem = _refused(answer)
                if problem is None:
                    data, problem = _read(answer)
        except (httpx.HTTPError, httpx.StreamError, httpx.InvalidURL) as error:
            is_late = deadline.has_passed or isinstance(error, httpx.TimeoutException)
            problem = OpenAICompatibleTransportError(f"model endpoint did not answer{' in time' if is_late else ''}")
        if deadline.has_passed and problem is None:  # an answer without a length looks whole when it is cut off
            problem = OpenAICompatibleTransportError("model endpoint did not answer in time")
        if problem is not None:
            raise problem
        return data

    def _client(self) -> httpx.Client:
        import httpx

        # A new connection per call: a kept one could have died unseen, and a call is tried once only.
        transport = self._transport or httpx.HTTPTransport(
            verify=self.base_url.startswith("https:"),  # no certificates are loaded for plain http
            trust_env=False,
            retries=0,
        )
        return httpx.Client(
            transport=transport,
            timeout=self.timeout_seconds,
            follow_redirects=False,
            trust_env=False,
        )


def _encoded(body: Mapping[str, Any]) -> bytes:
    content: bytes | None = None
    try:
        content = canonical_json(body).encode()
    except ValueError:  # its text quotes the value
        content = None
    if content is None:
        raise ValidationError("the request holds a text that UTF-8 cannot say, or is nested too deep")
    return content


def _refused(answer: httpx.Response) -> OpenAICompatibleError | None:
    status = answer.status_code
    if status in _STATUSES_OF_LONG_REQUESTS and _says_too_long(answer):
        return ContextLengthExceededError(
            f"model endpoint cannot read so long a request (HTTP status {status})", http_status=status
        )
    if status != 200:
        return OpenAICompatibleTransportError(status_text(status), http_status=status)
    if answer.headers.get("Content-Encoding", "identity") != "identity":
        return OpenAICompatibleResponseError("model endpoint gave an unusable answer: it is compressed")
    return None


def _says_too_long(answer: httpx.Response) -> bool:
    """Tell whether a refusal is about the length of the request; nothing else of it is kept.

    Known are the code of OpenAI's API, the type of llama.cpp and the sentence of vLLM.
    """
    import httpx

    data = b""
    try:
        for part in answer.iter_raw():
            data += part
            if len(data) > _MAX_REFUSAL_BYTES:
                return False
        body = strict_loads(data)
    except (httpx.HTTPError, httpx.StreamError, InputError):
        return False  # a refusal without a readable reason is a refusal all the same
    error: Any = body.get("error", body) if isinstance(body, dict) else None
    if not isinstance(error, dict):
        return False
    is_named = any(error.get(name) in _CODES_OF_LONG_REQUESTS for name in ("code", "type"))
    return is_named or "maximum context length" in str(error.get("message"))


def _read(answer: httpx.Response) -> tuple[bytes, OpenAICompatibleError | None]:
    parts: list[bytes] = []
    size = 0
    for part in answer.iter_raw():
        size += len(part)
        if size > MAX_RESPONSE_BYTES:
            return b"", OpenAICompatibleResponseError(
                f"model endpoint gave an unusable answer: longer than {MAX_RESPONSE_BYTES} bytes"
            )
        parts.append(part)
    return b"".join(parts), None


def _parsed(data: bytes) -> tuple[object, str | None]:
    try:
        return strict_loads(data), None
    except InputError:
        return None, "it is not strict JSON"


def _completed(answer: object, model_id: str) -> tuple[GenerationResponse | None, str | None]:
    try:
        return parse_completion(answer, model_id=model_id), None
    except MalformedCompletionError as error:
        return None, str(error)


def _base_url(value: object) -> str:
    address = text(value, "base_url").rstrip("/")
    try:
        parts = urlsplit(address)
        host, _ = parts.hostname, parts.port  # the port is checked when it is read
    except ValueError:
        host, parts = None, urlsplit("")
    if parts.scheme not in {"http", "https"} or not host:
        raise ValidationError("base_url must be an absolute http or https address")
    if "@" in parts.netloc:
        raise ValidationError("base_url must not hold credentials; use api_key or api_key_env")
    if "?" in address or "#" in address:
        raise ValidationError("base_url must have neither query nor fragment")
    if parts.path.endswith("/chat/completions"):
        raise ValidationError("base_url must end before /chat/completions, which is added to it")
    if any(character.isspace() or not character.isprintable() for character in address):
        raise ValidationError("base_url must hold neither blanks nor control characters")
    return address


def _headers(value: Mapping[str, str]) -> Mapping[str, Any]:
    headers = frozen(value, "extra_headers")
    for name, item in headers.items():
        lowered = name.lower()
        if not name or not all(character.isalnum() or character in "-_" for character in name) or not name.isascii():
            raise ValidationError(f"extra_headers has the name {name!r:.80}, which is no header name")
        if lowered in _OWN_HEADERS:
            raise ValidationError(f"extra_headers must not set {name}, which the request sets")
        if any(word in lowered for word in _SECRET_HEADER_WORDS):
            raise ValidationError(f"extra_headers must not hold {name}: secrets go through api_key or api_key_env")
        if not isinstance(item, str) or not item.isascii() or not item.isprintable():
            raise ValidationError(f"extra_headers.{name} must be a string of printable ASCII characters")
    return headers
