"""The page on arenas of one's own does what it says: every block runs, in order, and prints what is shown.

The package is installed into a directory of its own, built by the hatchling that is here, so that no network is needed.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from workers.official_arenas import own_arena
from workers.official_arenas.providers import _tau_audit, _tau_config, _tau_judge, tau3, tau_retail

REPOSITORY = Path(__file__).resolve().parents[4]
HOW_TO = REPOSITORY / "docs" / "how-to"
FOLDER = Path(own_arena.__file__).parent
PATH = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])


def blocks_of(name: str) -> list[tuple[str, str]]:
    page = (HOW_TO / name).read_text(encoding="utf-8")
    return re.findall(r"^```(\w*)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)


def squeezed(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.slow
def test_every_block_of_the_page_runs_and_prints_what_it_shows(tmp_path: Path) -> None:
    site = tmp_path / "site"
    site.mkdir()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AILAB_")}
    environment |= {"PATH": PATH, "PYTHONPATH": str(site), "COLUMNS": "100"}
    output = ""
    blocks = blocks_of("bring-your-own-arena.md")
    assert {kind for kind, _ in blocks} == {"bash", "python", "text", ""}
    for kind, block in blocks:
        if kind == "":
            program, verb, *words = block.split()
            assert (program, verb) == ("pip", "install")
            here = ["--quiet", "--no-build-isolation", "--no-index", "--target", str(site)]
            subprocess.run([sys.executable, "-m", "pip", "install", *here, *words], cwd=tmp_path, check=True)
            continue
        if kind == "text":
            for line in block.splitlines():
                assert squeezed(line) in squeezed(output), (line, output)
            continue
        command = [sys.executable, "-c", block] if kind == "python" else ["bash", "-euc", block]
        done = subprocess.run(
            command,
            cwd=tmp_path,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == 0, (block, done.stdout)
        output = done.stdout
        assert "NOT" not in output
    assert not [line for line in output.splitlines() if "Traceback" in line]


def sources(*names: str) -> str:
    """Source texts with the parts of split string literals joined."""
    texts = ((FOLDER / name).read_text(encoding="utf-8") for name in names)
    return re.sub(r'"\s*\n?\s*f?"', "", "\n".join(texts))


def messages_in(name: str) -> list[str]:
    page = (HOW_TO / name).read_text(encoding="utf-8")
    return re.findall(r"^\| `([^`]*)` \| ", page.split("| Message | Means |")[1], re.MULTILINE)


@pytest.mark.parametrize("name", ["bring-your-own-arena.md", "use-a-tau2-checkout.md"])
def test_messages_of_the_page_are_those_of_the_program(name: str) -> None:
    known = sources(
        "own_arena.py",
        "_own_config.py",
        "_config_checks.py",
        "_captured_origin.py",
        "_screening.py",
        "_budgets.py",
        "capture_records.py",
        "providers/__init__.py",
        "providers/tau3.py",
        "providers/tau_retail.py",
        "providers/_tau_audit.py",
        "providers/_tau_config.py",
        "providers/_tau_judge.py",
        "providers/_tau_records.py",
    )
    messages = messages_in(name)
    assert len(messages) >= 7
    for message in messages:
        for part in message.split("..."):
            assert part.strip() in known, message


def test_pins_of_the_tau2_page_are_those_of_the_program() -> None:
    page = (HOW_TO / "use-a-tau2-checkout.md").read_text(encoding="utf-8")
    assert set(re.findall(r"\b[0-9a-f]{40}\b", page)) == {_tau_config.SOURCE_REVISION}
    for name in _tau_audit.AUDITED_FILES:
        assert name.rpartition("/")[2] in page, name
    assert squeezed(tau_retail.TauRetailProvider.not_checked) in squeezed(page)
    for size in _tau_config.SPLIT_SIZES.values():
        assert f"{size} tasks" in page
    assert tau_retail.RetailJudgeError.__name__ in page
    assert _tau_judge.RetailJudgeError is tau_retail.RetailJudgeError


def test_plan_of_the_tau2_page_is_a_plan_that_the_arena_accepts(tmp_path: Path) -> None:
    from workers.official_arenas.campaign.plan import load_plan
    from workers.official_arenas.campaign.preflight import slot_config

    (plan,) = [block for kind, block in blocks_of("use-a-tau2-checkout.md") if kind == "yaml"]
    (tmp_path / "plan.yaml").write_text(plan)
    loaded = load_plan(tmp_path / "plan.yaml")
    assert loaded.arena == "tau3.retail"
    assert slot_config(loaded, loaded.slots[0])["llm_agent"] == loaded.slots[0].agent.model


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="tau2 may be installed")
def test_without_tau2_the_doctor_says_what_is_needed(tmp_path: Path) -> None:
    (plan,) = [block for kind, block in blocks_of("use-a-tau2-checkout.md") if kind == "yaml"]
    (tmp_path / "tau2.yaml").write_text(plan)
    done = subprocess.run(
        [sys.executable, "-m", "agentinputlab", "campaign", "doctor", "tau2.yaml"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "needs tau2 1.0.1 from its pinned checkout" in done.stderr
    with pytest.raises(ImportError, match=r"Python 3\.12 or 3\.13"):
        tau3.load_tau2()
