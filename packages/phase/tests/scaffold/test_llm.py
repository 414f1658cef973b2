"""What a language model proposes is text from outside: asked for carefully, judged strictly, recorded by its hashes."""

import hashlib
import json

import pytest
import yaml

from ripieno.canonical import content_hash
from scpn_phase_orchestrator.binding import load_binding_spec, parse_binding_spec
from scpn_phase_orchestrator.domainpacks import resolve_spec_path
from scpn_phase_orchestrator.exceptions import BindingError
from scpn_phase_orchestrator.scaffold.llm import MAX_RESPONSE_BYTES, ChatEndpoint, messages_for, read_proposal

DESCRIPTION = "two metronomes that tick together"


def proposed(**changes):
    document = yaml.safe_load(resolve_spec_path("minimal_domain").read_text())
    return document | {"name": "beats"} | changes


def judge(value, name="beats"):
    text = value if isinstance(value, str) else json.dumps(value)
    return read_proposal(name, DESCRIPTION, messages_for(name, DESCRIPTION), text, {"kind": "file"})


class TestProposal:
    def test_a_valid_one_gives_spec_readme_and_audit_with_hashes(self):
        text = json.dumps({"binding_spec": proposed(), "rationale": "Two beats."})
        files = judge(text).files()
        assert sorted(files) == ["README.md", "binding_spec.yaml", "llm_scaffold_audit.json"]
        original = load_binding_spec(resolve_spec_path("minimal_domain"))
        assert parse_binding_spec(files["binding_spec.yaml"]).layers == original.layers
        audit = json.loads(files["llm_scaffold_audit.json"])
        assert audit["prompt_sha256"] == content_hash(messages_for("beats", DESCRIPTION))
        assert audit["response_sha256"] == hashlib.sha256(text.encode()).hexdigest()
        for name in ("binding_spec.yaml", "README.md"):
            assert audit["files"][name] == hashlib.sha256(files[name].encode()).hexdigest()
        assert (audit["schema_valid"], audit["review_required"], audit["execution_permitted"]) == (True, True, False)
        assert "> Two beats." in files["README.md"]
        assert f"> {DESCRIPTION}" in files["README.md"]

    def test_the_spec_alone_is_a_proposal_too(self):
        assert judge(proposed()).spec.name == "beats"

    def test_warnings_are_passed_on_to_the_reviewer(self):
        document = proposed()
        document["supervisor"] = {"strategy": "mean_coherence"}
        files = judge({"binding_spec": document}).files()
        assert "## Warnings of the validator" in files["README.md"]
        assert json.loads(files["llm_scaffold_audit.json"])["warnings"]

    @pytest.mark.parametrize(
        ("value", "reason"),
        [
            ("", "no strict JSON"),
            ("```json\n{}\n```", "no strict JSON"),
            ('{"name": "a", "name": "b"}', "key 'name' twice"),
            ('{"binding_spec": {"sample_period_s": NaN}}', "no NaN"),
            ('{"binding_spec": {}} and more', "no strict JSON"),
            ("[]", "must be a JSON object"),
            ({"binding_spec": 3}, "binding_spec"),
            ({"binding_spec": {}}, "missing required key"),
            ({"binding_spec": proposed(), "shell": "rm"}, "unknown key 'shell'"),
            ({"binding_spec": proposed(), "rationale": 3}, "rationale must be a text"),
            ({"binding_spec": proposed(), "rationale": "x" * 4001}, "rationale must be a text"),
            ({"binding_spec": proposed(name="other")}, "name must be 'beats', got 'other'"),
            ({"binding_spec": proposed(safety_tier="production")}, "safety_tier must be 'research'"),
            ({"binding_spec": proposed(sample_period_s=-1)}, "sample_period_s"),
            ({"binding_spec": proposed(invented=1)}, "invented"),
            ({"binding_spec": proposed(drivers={"physical": {"note": "__import__('os')"}, "informational": {},
              "symbolic": {}})}, "__import__"),
        ],
    )  # fmt: skip
    def test_anything_else_is_refused_with_the_reason(self, value, reason):
        with pytest.raises(BindingError, match="proposal refused, nothing is written") as caught:
            judge(value)
        assert reason in str(caught.value)

    @pytest.mark.parametrize("description", ["", " \n", "x" * 4001])
    def test_a_description_says_something(self, description):
        with pytest.raises(BindingError, match="description must have 1 to 4000"):
            messages_for("beats", description)


class TestEndpoint:
    def ask(self, server, **settings):
        return ChatEndpoint(f"{server.url}/v1/chat/completions", "small", **settings).ask(
            messages_for("beats", DESCRIPTION)
        )

    def test_it_gets_the_prompt_and_gives_the_text(self, chat_server):
        chat_server.answer('{"binding_spec": {}}')
        assert self.ask(chat_server, key="k-123") == '{"binding_spec": {}}'
        ((path, headers, body),) = chat_server.requests
        sent = json.loads(body)
        assert path == "/v1/chat/completions"
        assert headers["Authorization"] == "Bearer k-123"
        assert sent["model"] == "small"
        assert sent["messages"] == messages_for("beats", DESCRIPTION)

    def test_without_a_key_none_is_sent(self, chat_server):
        chat_server.answer("x")
        self.ask(chat_server)
        assert "Authorization" not in chat_server.requests[0][1]

    def test_a_redirect_is_not_followed(self, chat_server):
        chat_server.status, chat_server.headers = 302, {"Location": f"{chat_server.url}/elsewhere"}
        with pytest.raises(BindingError, match="answered 302"):
            self.ask(chat_server, key="k-123")
        assert len(chat_server.requests) == 1

    def test_an_error_status_is_named(self, chat_server):
        chat_server.status = 503
        with pytest.raises(BindingError, match="answered 503"):
            self.ask(chat_server)

    def test_no_answer_in_time_is_an_error(self, chat_server):
        chat_server.delay_s = 30.0
        with pytest.raises(BindingError, match=r"no answer within 0\.2 s"):
            self.ask(chat_server, timeout_s=0.2)

    def test_too_long_an_answer_is_an_error(self, chat_server):
        chat_server.body = b" " * (MAX_RESPONSE_BYTES + 1)
        with pytest.raises(BindingError, match="longer than 1048576 bytes"):
            self.ask(chat_server)

    @pytest.mark.parametrize(
        ("body", "reason"),
        [
            (b"<html>", "no JSON"),
            (b'{"choices": 1, "choices": 2}', "no JSON"),
            (b"{}", "without choices"),
            (b"[1]", "without choices"),
            (b'{"choices": []}', "without choices"),
            (b'{"choices": [{"message": {"content": null}}]}', "without text"),
        ],
    )
    def test_an_answer_of_another_form_is_an_error(self, chat_server, body, reason):
        chat_server.body = body
        with pytest.raises(BindingError, match=reason):
            self.ask(chat_server)

    def test_nobody_there_is_an_error(self, chat_server):
        url = chat_server.url
        chat_server.close()
        with pytest.raises(BindingError, match="refused"):
            ChatEndpoint(f"{url}/v1", "small").ask([])

    @pytest.mark.parametrize("url", ["ftp://host/v1", "file:///etc/passwd", "host/v1", "http://", "http://h:x/v1", ""])
    def test_only_http_and_https_are_endpoints(self, url):
        with pytest.raises(BindingError, match="must be an http or https URL"):
            ChatEndpoint(url, "small")

    @pytest.mark.parametrize("url", ["http://me:secret@host/v1", "http://host/v1?key=secret", "http://host/v1#x"])
    def test_a_key_does_not_belong_in_the_address(self, url):
        with pytest.raises(BindingError, match="no user name, query or fragment") as caught:
            ChatEndpoint(url, "small")
        assert "secret" not in str(caught.value)

    @pytest.mark.parametrize("given", ["http://h/v1", "http://h/v1/", "http://h/v1/chat/completions"])
    def test_environment_may_name_the_base_or_the_whole_address(self, given, monkeypatch):
        monkeypatch.setenv("SPO_LLM_ENDPOINT", given)
        monkeypatch.setenv("SPO_LLM_MODEL", "small")
        monkeypatch.setenv("SPO_LLM_API_KEY", "k-123")
        endpoint = ChatEndpoint.from_environment()
        assert (endpoint.url, endpoint.model, endpoint.key) == ("http://h/v1/chat/completions", "small", "k-123")
        assert "k-123" not in repr(endpoint)

    @pytest.mark.parametrize("missing", ["SPO_LLM_ENDPOINT", "SPO_LLM_MODEL"])
    def test_what_is_not_set_is_named(self, missing, monkeypatch):
        monkeypatch.setenv("SPO_LLM_ENDPOINT", "http://h/v1")
        monkeypatch.setenv("SPO_LLM_MODEL", "small")
        monkeypatch.delenv(missing)
        with pytest.raises(BindingError, match=f"{missing} is not set"):
            ChatEndpoint.from_environment()
