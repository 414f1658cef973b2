"""Write docs/reference/inputlab-methods.md from the registry of methods and from their cards.

Run it with `.venv/bin/python scripts/inputlab_reference.py`; with `--check` it only compares.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from agentinputlab.contracts.enums import SemanticFamily
from agentinputlab.registry import AlgorithmRegistry, MethodCard, ReleaseCard

REFERENCE = Path(__file__).parent.parent / "docs" / "reference"
PAGE = REFERENCE / "inputlab-methods.md"
CARDS = "interventions"
"""Folder of the pages on single methods, beside the page."""

FAMILIES: dict[SemanticFamily, str] = {
    SemanticFamily.REFORMULATE: "rewrite the question",
    SemanticFamily.DECOMPOSE: "plan, or split the task",
    SemanticFamily.ACQUIRE: "fetch evidence",
    SemanticFamily.CLARIFY: "ask the user back",
    SemanticFamily.CURATE: "shorten or improve what is there",
}

HEADER = """# Input lab: methods

This page is written by `scripts/inputlab_reference.py` from `agentinputlab/registry/data/algorithms.json` and from the
cards of the methods; a test keeps them equal.

{methods} published methods in {releases} releases, of which {runnable} run. A *release* is one way to run a method; its
card says what it writes, which parameters it has, what it may spend and how it differs from the paper. All prompts are
our own texts under the paper's idea. On the command line, `agentinputlab list --releases` shows the same, and
`agentinputlab show RELEASE --parameters` the parameters.

*Core* methods belong to the roster that a comparison should cover, *optional* ones do not. The kind says how a release
is executed: *runtime* and *component* look at a state when it is there; *artifact_replay* applies texts or numbers that
were made before; *training_recipe* learns from examples offline; *composite* gives a final answer instead of a changed
input.

The words that the commands print:

| Word | Says |
|---|---|
| delivery `must_ship` | promised for this version |
| delivery `stretch`, `blocked_or_post_v1` | there if it is ready; not before a later version |
| status `experimental` | runs; not yet compared with the authors' figures. `supported` would be compared |
| status `planned` | no code yet |
| status `external_only` | needs weights, data or a service that are not part of the package |
| status `retrain_required` | needs training on data that the user has to bring |
| status `native_only`, `source_audited` | only the authors' own program runs it; their code was read, no more |
| status `blocked` | something forbids it |
| availability `runnable`, `gated`, `locked` | code that runs; code that its status holds back; no code |
| profile `controlled_adapter` | it changes the input of an agent that is not its own, within a shared budget |
| profile `official_native`, `factorial_adapter` | as the authors ran it; one factor of it at a time |
"""

OTHERS = """
## Chains

`A+B` as a treatment, and `agentinputlab compose A B`, make one intervention of several. The members run in order, each
on what the ones before it made of the state and with what they left of the budget. Their operations, one after the
other, are one patch against the first state, and one trace says which member did what. A member that fails ends the
chain with its own error, and nothing is left half done.

::: agentinputlab.algorithms.composition

## A text of your own

The release `own.text` belongs to no paper. It adds your text to the instruction or to the context, or puts it in their
place, the same on every task; it asks no model. `agentinputlab retail run --append-instruction FILE` (also
`--replace-instruction`, `--add-context` and `--replace-context`; given together they are one treatment) makes it from
files; a plan names it like any other release:

```yaml
treatments:
  - name: my-prompt
    members:
      - release: own.text
        parameters: { append_instruction: "Check the order before you promise anything." }
```

::: agentinputlab.algorithms.own_text

## Interventions of other packages

An installed package adds releases by entry points of the group `agentinputlab.interventions`: the name of an entry is
the id of the release, its value a class with keyword parameters whose instances have `method_id`, `release_id`,
`family` and `propose(state, context)`.

```toml
[project.entry-points."agentinputlab.interventions"]
"mylab.checklist" = "mylab.interventions:Checklist"
```

`mylab.checklist` then is a treatment of a campaign like any other, alone or in a chain. A release of the registry
cannot be replaced so. What such a class does beside proposing, no software can see: install what you would run anyway.

::: agentinputlab.algorithms.constructors
"""


def render() -> str:
    """Give the text of the page.

    Raises:
        ValueError: a release that runs has no card, or a family has no sentence.
    """
    registry = AlgorithmRegistry.default()
    methods, releases = registry.list_methods(), registry.list_releases()
    unknown = {card.semantic_family for card in methods} - set(FAMILIES)
    if unknown:
        raise ValueError(f"FAMILIES must say what {', '.join(sorted(unknown))} does")
    runnable = sum(release.runnable for release in releases)
    header = HEADER.format(methods=len(methods), releases=len(releases), runnable=runnable)
    sections = [_family(family, [card for card in methods if card.semantic_family is family]) for family in FAMILIES]
    return header + "".join(sections) + _modules(releases) + OTHERS


def needs_of_card(release: ReleaseCard) -> str:
    """Give what the card of a release says that it needs.

    Raises:
        ValueError: the release has no card, or its card does not say it.
    """
    path = REFERENCE / CARDS / f"{release.method_id}.md"
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    section = re.search(rf"^## {re.escape(release.id)}$(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    needs = section and re.search(r"^\| Needs \| (.*) \|$", section[1], re.MULTILINE)
    if not needs:
        raise ValueError(f"{CARDS}/{path.name} must have a heading {release.id} and a row on what it needs")
    return needs[1]


def _family(family: SemanticFamily, cards: list[MethodCard]) -> str:
    head = (
        f"\n## {family}: {FAMILIES[family]}\n\n"
        "| Method | Release | Kind | Runs | Needs, or why it does not run |\n|---|---|---|---|---|\n"
    )
    return head + "".join(_row(card, release) for card in cards for release in card.releases)


def _row(card: MethodCard, release: ReleaseCard) -> str:
    cells = [
        f"{_method(card)}, {card.release_tier}" if release is card.releases[0] else "",
        _linked(release) if release.runnable else f"`{release.id}`",
        str(release.execution_kind),
        "yes" if release.runnable else "no",
        needs_of_card(release) if release.runnable else release.blocker,
    ]
    return "| " + " | ".join(cells) + " |\n"


def _method(card: MethodCard) -> str:
    """Link the paper; the releases link the card."""
    url = card.publication.paper_url
    return card.display_name if url is None else f"[{card.display_name}]({url})"


def _linked(release: ReleaseCard) -> str:
    anchor = re.sub(r"[^\w-]", "", release.id)  # as the site makes it of a heading
    return f"[`{release.id}`]({CARDS}/{release.method_id}.md#{anchor})"


def _modules(releases: tuple[ReleaseCard, ...]) -> str:
    names = dict.fromkeys(release.entrypoint.partition(":")[0] for release in releases if release.entrypoint)
    return "\n## The modules\n\n" + "".join(f"::: {name}\n" for name in names)


if __name__ == "__main__":
    if sys.argv[1:] != ["--check"]:
        PAGE.write_text(render(), encoding="utf-8")
    elif PAGE.read_text(encoding="utf-8") != render():
        sys.exit(f"{PAGE.name} is not what the registry says; run: .venv/bin/python scripts/inputlab_reference.py")
