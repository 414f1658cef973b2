"""Whatever is changed anywhere in a request or an inventory, the answer is a response or one clear refusal."""

import json
import subprocess
import sys

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import workers.official_arenas.driver as worker
from workers.official_arenas._replay_inventory import parse_replay_inventory
from workers.official_arenas.checkpoint_inventory import parse_checkpoint_inventory
from workers.official_arenas.protocol import OfficialArenaError

FUZZ = settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
ODD = st.sampled_from(
    [None, True, False, 0, -1, 1, 2**70, 0.5, "", " ", "PLANTED", "0" * 64, [], {}, [[]], [{}], {"a": []}, {"": 1}]
)


def places(value, path=()):
    """Every path to a part of a JSON value."""
    yield path
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        yield from places(child, (*path, key))


def changed(value, path, replacement, remove):
    """A copy with the part at `path` replaced or removed."""
    if not path:
        return replacement
    copy = json.loads(json.dumps(value))
    parent = copy
    for key in path[:-1]:
        parent = parent[key]
    if remove:
        del parent[path[-1]]
    else:
        parent[path[-1]] = replacement
    return copy


def answer_or_refusal(function, *arguments, **named):
    """The result and "", or None and the text of the refusal; any other error is a defect."""
    try:
        return function(*arguments, **named), ""
    except OfficialArenaError as error:
        return None, str(error)


@FUZZ
@given(data=st.data())
def test_changed_request_is_played_or_refused(data, make_pair, make_envelope):
    pair = make_pair()
    envelope = pair.envelope()
    path = data.draw(st.sampled_from(sorted(places(envelope), key=repr)))
    broken = changed(envelope, path, data.draw(ODD), data.draw(st.booleans()))
    if isinstance(broken, dict) and data.draw(st.booleans()):
        broken = make_envelope(broken.get("atomic_request"), broken.get("worker_parameters"))
    response, refusal = answer_or_refusal(worker.run, broken, environment=pair.environment)
    assert "PLANTED" not in refusal
    assert refusal or len(response["arms"]) == 2


@FUZZ
@given(data=st.data())
def test_changed_replay_inventory_is_read_or_refused(data, make_pair, make_inventory):
    inventory = make_inventory([{**make_pair().record, "model_slot": "slot"}])
    path = data.draw(st.sampled_from(sorted(places(inventory), key=repr)))
    broken = changed(inventory, path, data.draw(ODD), data.draw(st.booleans()))
    parsed, refusal = answer_or_refusal(parse_replay_inventory, json.dumps(broken).encode())
    assert "PLANTED" not in refusal
    assert refusal or all(record["protected"] for record in parsed[1].values())


@FUZZ
@given(data=st.data())
def test_changed_checkpoint_inventory_is_read_or_refused(data, make_pair):
    row = make_pair().row
    inventory = {
        "schema_version": 1,
        "protocol": "agentinputlab.external-checkpoint-inventory.v1",
        "checkpoint_count": 1,
        "checkpoints": [row],
    }
    path = data.draw(st.sampled_from(sorted(places(inventory), key=repr)))
    broken = changed(inventory, path, data.draw(ODD), data.draw(st.booleans()))
    rows, refusal = answer_or_refusal(parse_checkpoint_inventory, json.dumps(broken).encode())
    assert "PLANTED" not in refusal
    assert refusal or [each["visible_state"] for each in rows.values()] == [row["visible_state"]]


@pytest.mark.parametrize("module", ["driver", "capture_records", "checkpoint_inventory", "providers.tau_retail"])
def test_worker_loads_nothing_heavy(module):
    heavy = ("numpy", "scipy", "httpx", "pydantic", "matplotlib", "click", "rich", "yaml", "tau2")
    code = f"import sys, workers.official_arenas.{module}; print([name for name in {heavy!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
