"""Whatever bytes a spec file holds: a spec comes out, or an error of our family."""

from __future__ import annotations

import json
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scpn_phase_orchestrator.binding import (
    BindingSpec,
    binding_document,
    binding_warnings,
    format_resolved_binding_config,
    load_binding_spec,
    parse_binding_spec,
    resolved_binding_config,
    validate_binding_spec,
    validate_binding_spec_security,
)
from scpn_phase_orchestrator.exceptions import BindingError

TEXT = (Path(__file__).parent / "full_spec.yaml").read_text(encoding="utf-8")
_PIECES = st.sampled_from(
    [
        *"{}[]:,-#'\"\\\n\t",
        "\n  ",
        "&a ",
        "*a",
        "!!str ",
        "!!python/x ",
        "<<: ",
        "? ",
        "|\n",
        ">\n",
        "---\n",
        "...\n",
        "%YAML 1.1\n",
        ".inf",
        "0x1F",
        "1e-3",
        "null",
        "true",
        "\ud83d",
        "\u2028",
        "\x85",
        "\ufeff",
        "9" * 21,
        "a" * 200,
    ]
)


@st.composite
def _texts(draw: st.DrawFn) -> str:
    """The full spec with up to six places cut, doubled or filled with syntax."""
    text = TEXT
    for _ in range(draw(st.integers(1, 6))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.integers(0, 30)))
        middle = draw(st.just("") | _PIECES | st.just(text[start:end] * 2) | st.text(max_size=4))
        text = text[:start] + middle + text[end:]
    return text


def _use(spec: BindingSpec) -> None:
    """All that looks at a spec copes with whatever the loader lets through."""
    errors = validate_binding_spec(spec)
    validate_binding_spec_security(spec)
    if errors:
        return
    binding_warnings(spec)
    summary = resolved_binding_config(spec)
    json.dumps(summary, allow_nan=False)
    assert format_resolved_binding_config(summary)[0] == "Resolved configuration:"
    assert parse_binding_spec(json.dumps(binding_document(spec)), is_json=True) == spec


@settings(max_examples=200, deadline=None)
@given(_texts())
def test_mutated_text_gives_a_spec_or_a_binding_error(text: str) -> None:
    try:
        spec = parse_binding_spec(text)
    except BindingError:
        return
    _use(spec)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_mutated_bytes_give_a_spec_or_a_binding_error(tmp_path: Path, data: st.DataObject) -> None:
    raw = bytearray(TEXT.encode())
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    file = tmp_path / f"mutated{data.draw(st.sampled_from(['.yaml', '.json']))}"
    file.write_bytes(bytes(raw))
    try:
        spec = load_binding_spec(file)
    except BindingError:
        return
    _use(spec)


@settings(max_examples=200, deadline=None)
@given(st.text() | st.text(st.sampled_from('{}[]",:0123456789.eE+-\\ \ntruefalsn'), max_size=30))
def test_arbitrary_text_gives_a_binding_error_in_both_languages(text: str) -> None:
    for is_json in (False, True):
        try:
            parse_binding_spec(text, is_json=is_json)
        except BindingError:
            continue
        raise AssertionError(f"a spec came out of {text!r}")
