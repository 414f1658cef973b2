"""Workers that misbehave: each fault is one clear error, shows no text of the worker and leaves nothing running."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from agentinputlab.contracts import (
    AgentInputLabError,
    ExternalDependencyError,
    ValidationError,
    WorkerRequest,
)
from agentinputlab.integrations.external_workers import (
    JsonLineSubprocessWorker,
    MethodWorkerRequest,
    minimal_environment,
    run_bounded_process,
)
from agentinputlab.runner import JsonLineWorkerClient

SECRET = "what-the-user-wrote"
REQUEST = WorkerRequest(release_id="r", request_id="one", payload={"text": SECRET})
METHOD_REQUEST = MethodWorkerRequest("m", "r", "c" * 40, "0" * 64, {"text": SECRET})


def python(source: str) -> list[str]:
    return [sys.executable, "-c", source]


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def wait_until_gone(pid: int) -> bool:
    deadline = time.monotonic() + 10
    while is_alive(pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    return not is_alive(pid)


ANSWER = """
import json, sys
request = json.loads(sys.stdin.readline())
answer = {"request_id": request["request_id"], "status": "ok", "payload": {}}
"""
FAULTS = {
    "hangs": ("import time; time.sleep(600)", "did not answer within"),
    "hangs after its answer": (
        ANSWER + "print(json.dumps(answer), flush=True); import time; time.sleep(600)",
        "did not",
    ),
    "floods standard output": ("while True: print('what-the-user-wrote' * 100)", "more than 4096 bytes to stdout"),
    "floods standard error": (
        "import sys\nwhile True: sys.stderr.write('what-the-user-wrote' * 100)",
        "more than 2048 bytes to stderr",
    ),
    "writes two lines": (ANSWER + "print(json.dumps(answer)); print(json.dumps(answer))", "exactly one line"),
    "writes a line and a half": (ANSWER + "print(json.dumps(answer)); sys.stdout.write('{')", "exactly one line"),
    "writes no newline": (ANSWER + "sys.stdout.write(json.dumps(answer))", "exactly one line"),
    "writes nothing": ("pass", "exactly one line"),
    "writes an empty line": ("print()", "exactly one line"),
    "writes bad UTF-8": ('import sys; sys.stdout.buffer.write(b\'{"a": "\\xff"}\\n\')', "not strict JSON"),
    "writes text": ("print('what-the-user-wrote')", "not strict JSON"),
    "writes NaN": ("print('{\"a\": NaN}')", "not strict JSON"),
    "writes a key twice": ('print(\'{"status": "ok", "status": "ok"}\')', "not strict JSON"),
    "nests too deep": ("print('[' * 100 + ']' * 100)", "not strict JSON"),
    "writes a list": ("print('[1]')", "must answer with an object"),
    "writes unknown fields": (
        ANSWER + "answer['what-the-user-wrote'] = 1; print(json.dumps(answer))",
        "not the fields",
    ),
    "writes a wrong status": (ANSWER + "answer['status'] = 'what-the-user-wrote'; print(json.dumps(answer))", "fields"),
    "dies": ("import os; os._exit(3)", "exit code 3"),
    "dies by a signal": ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "exit code -11"),
    "raises": ("raise SystemError('what-the-user-wrote')", "exit code 1"),
    "answers and fails": (ANSWER + "print(json.dumps(answer)); sys.exit(4)", "exit code 4"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_worker_that_misbehaves_is_one_clear_error(fault: str) -> None:
    source, message = FAULTS[fault]
    limits = {"timeout_seconds": 0.5 if "hangs" in fault else 30, "max_response_bytes": 4096, "max_stderr_bytes": 2048}
    client = JsonLineWorkerClient(python(source), **limits)
    with pytest.raises(ExternalDependencyError, match=message) as caught:
        client.call(REQUEST)
    assert SECRET not in str(caught.value)
    worker = JsonLineSubprocessWorker(python(source), revision="1", **limits)
    with pytest.raises(ExternalDependencyError) as caught:
        worker.call(METHOD_REQUEST)
    assert SECRET not in str(caught.value)


def test_an_answer_to_another_request_is_refused() -> None:
    source = ANSWER + "answer['request_id'] = 'other'; print(json.dumps(answer))"
    with pytest.raises(ExternalDependencyError, match="another request"):
        JsonLineWorkerClient(python(source)).call(REQUEST)


def test_a_worker_that_reads_nothing_can_answer_a_request_larger_than_a_pipe() -> None:
    request = WorkerRequest(release_id="r", request_id="one", payload={"text": "x" * 1_000_000})
    source = 'print(\'{"request_id": "one", "status": "ok"}\')'
    assert JsonLineWorkerClient(python(source)).call(request).status == "ok"


def test_a_large_request_arrives_whole_while_the_worker_is_already_writing() -> None:
    request = WorkerRequest(release_id="r", request_id="one", payload={"text": "é" * 500_000})
    source = (
        ANSWER + "answer['payload'] = request['payload']; sys.stderr.write('y' * 500_000); print(json.dumps(answer))"
    )
    assert JsonLineWorkerClient(python(source)).call(request).payload == request.payload


def test_a_request_beyond_its_limit_is_not_sent(tmp_path: Path) -> None:
    mark = tmp_path / "started"
    client = JsonLineWorkerClient(python(f"open({str(mark)!r}, 'w')"), max_request_bytes=100)
    with pytest.raises(ValidationError, match="at most 100"):
        client.call(WorkerRequest(release_id="r", request_id="one", payload={"text": "x" * 200}))
    assert not mark.exists()


def test_an_error_answer_is_an_answer() -> None:
    source = (
        ANSWER + "del answer['payload']; answer |= {'status': 'error', 'error_code': 'BAD'}; print(json.dumps(answer))"
    )
    response = JsonLineWorkerClient(python(source)).call(REQUEST)
    assert (response.status, response.error_code) == ("error", "BAD")


# --- what a program leaves behind ---------------------------------------------------------------------------

LEAVES_A_CHILD = """
import os, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
open(sys.argv[1], "w").write(str(child.pid))
print("done", flush=True)
"""


@pytest.mark.parametrize("ending", ["", "import time; time.sleep(600)", "os._exit(1)"])
def test_a_child_that_would_outlive_its_program_is_killed_and_does_not_hold_up_the_answer(
    tmp_path: Path, ending: str
) -> None:
    mark = tmp_path / "pid"
    argv = [*python(LEAVES_A_CHILD + ending), str(mark)]
    result = run_bounded_process(argv, timeout_seconds=3 if "sleep" in ending else 60)
    assert result.stdout == b"done\n"
    assert result.exceeded == ("time" if "sleep" in ending else None)
    assert wait_until_gone(int(mark.read_text()))


def test_what_was_written_before_the_end_is_read_although_a_child_holds_the_pipe(tmp_path: Path) -> None:
    source = LEAVES_A_CHILD + "sys.stdout.write('x' * 300_000)"
    result = run_bounded_process([*python(source), str(tmp_path / "pid")])
    assert len(result.stdout) == 300_000 + len("done\n")


def test_a_program_that_ignores_polite_signals_is_killed(tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    source = f"""
import os, signal, time
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
open({str(mark)!r}, "w").write(str(os.getpid()))
time.sleep(600)
"""
    assert run_bounded_process(python(source), timeout_seconds=1.5).exceeded == "time"
    assert not is_alive(int(mark.read_text()))


def test_exactly_the_allowed_bytes_are_allowed_and_one_more_is_not() -> None:
    source = "import sys; sys.stdout.write('x' * int(sys.argv[1]))"
    for size, exceeded in ((100, None), (101, "stdout")):
        result = run_bounded_process([*python(source), str(size)], max_stdout_bytes=100)
        assert (result.exceeded, len(result.stdout)) == (exceeded, 100)


def test_processor_time_and_memory_of_a_program_are_measured() -> None:
    result = run_bounded_process(python("x = bytearray(50_000_000); sum(range(3_000_000))"))
    assert result.cpu_seconds > 0.01
    assert result.peak_memory_bytes > 50_000_000
    assert result.wall_seconds >= 0.01


def test_memory_beyond_its_limit_is_refused_to_the_program() -> None:
    source = "import time; time.sleep(0.3); bytearray(2_000_000_000)"
    result = run_bounded_process(python(source), memory_bytes=500_000_000)
    assert result.exit_code == 1
    assert b"MemoryError" in result.stderr


def test_a_program_gets_no_variable_but_the_few_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-secret")
    monkeypatch.setenv("LANG", "C.UTF-8")
    result = run_bounded_process(python("import os; print(sorted(os.environ.items()))"))
    assert b"sk-secret" not in result.stdout
    assert b"('PYTHONIOENCODING', 'utf-8')" in result.stdout
    assert minimal_environment({"EXTRA": "1"})["EXTRA"] == "1"
    assert "OPENAI_API_KEY" not in minimal_environment()


def test_no_shell_reads_the_arguments(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    result = run_bounded_process([*python("import sys; print(sys.argv[1])"), f"; touch {mark} $(id) `id`"])
    assert result.stdout == f"; touch {mark} $(id) `id`\n".encode()
    assert not mark.exists()


@pytest.mark.parametrize("argv", ["echo x", b"echo", [], [""], ["echo", 3], ["echo", "a\0b"], None])
def test_a_command_line_that_is_none_is_refused(argv: Sequence[str]) -> None:
    with pytest.raises(ValidationError, match="argv"):
        run_bounded_process(argv)
    with pytest.raises(ValidationError, match="argv"):
        JsonLineWorkerClient(argv)


def test_a_program_that_is_not_there_is_an_error_of_the_outside() -> None:
    with pytest.raises(ExternalDependencyError, match="no-such-program cannot be started"):
        run_bounded_process(["/nowhere/no-such-program"])
    assert issubclass(ExternalDependencyError, AgentInputLabError)


def test_no_descriptor_is_left_open() -> None:
    run_bounded_process(python("pass"))
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    for source in ("pass", "raise SystemExit(2)", "print('x' * 1000)"):
        run_bounded_process(python(source), max_stdout_bytes=10)
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208
