"""The page of a run folder (or of several): whether it holds, what ran, on what, and what came out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from ripieno._layout import EVENTS
from ripieno.chain import walk_chain
from ripieno.errors import InputError, IntegrityError
from ripieno.report._figures import FIGURE_STYLE, PALETTE, figure_to_svg
from ripieno.report._nested import flat, shortened, tables_of
from ripieno.report._page import Figure, Section, Table, Verdict, render_page
from ripieno.report._text import NOTHING
from ripieno.run import read_manifest
from ripieno.verify import VerifyReport, VerifyStatus, verify

__all__ = ["render_run", "render_runs"]

BINS = 240
"""Resolution of the timeline; memory does not grow with the number of events."""
MAX_KINDS_SHOWN = 12


@dataclass
class _Log:
    """What a pass over the events gives: counts by kind along the log, and the artifacts it records."""

    lines: int = 0
    bin_lines: int = 1
    counts: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    artifacts: dict[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    problem: str = ""

    def add(self, kind: str) -> None:
        if self.lines == BINS * self.bin_lines:
            self.bin_lines *= 2
            for kind_counts in self.counts.values():
                halved = [a + b for a, b in zip(kind_counts[::2], kind_counts[1::2], strict=True)]
                kind_counts[:] = halved + [0] * (BINS - len(halved))
        self.counts.setdefault(kind, [0] * BINS)[self.lines // self.bin_lines] += 1
        self.lines += 1


def render_run(folder: Path | str) -> str:
    """Give the page of one run: verdict, facts, results, events, inputs, artifacts, machine.

    A run that was tampered with gets a page too; its verdict says so, and what cannot be read is left out.

    Args:
        folder: a run folder, or anything that an installed verifier knows (then the page holds the verdict only).

    Raises:
        InputError: there is no run at the path.
    """
    folder = Path(folder)
    report = _verified(folder)
    sections = [_verification(report)]
    title, lead = folder.name, f"Format: {report.format}."
    manifest = _manifest(folder)
    if manifest:
        log = _read_log(folder)
        title = f"{manifest['system']}: {manifest['kind']}"
        lead = f"Run {folder.name}, started {_moment(manifest['started_at'])}."
        sections = [*_what_ran(manifest), *_what_happened(log), *_files(manifest, log), *sections, *_setting(manifest)]
    return render_page(
        title=title,
        lead=lead,
        sections=sections,
        footer=f"Check it yourself: ripieno verify {folder.name}"
        + (f" --expect {report.digest}" if report.digest else ""),
        verdict=_verdict(report),
    )


def render_runs(folders: Sequence[Path | str]) -> str:
    """Give one page that lists several runs with their verdicts and compares their summaries.

    Raises:
        InputError: no folders, or one of them holds no run.
    """
    if not folders:
        raise InputError("there must be at least one run folder")
    paths = [Path(folder) for folder in folders]
    reports = [_verified(path) for path in paths]
    manifests = [_manifest(path) for path in paths]
    names = [path.name for path in paths]
    if len(set(names)) < len(names):
        names = [f"{path.parent.name}/{path.name}" for path in paths]
    overview = [
        (name, report.status.value, m.get("system"), m.get("kind"), _moment(m.get("started_at")), _duration(m))
        for name, report, m in zip(names, reports, manifests, strict=True)
    ]
    problems = [f"{name}: {report.first_problem}" for name, report in zip(names, reports, strict=True) if not report.ok]
    unfinished = sum(report.ok and report.status is not VerifyStatus.COMPLETE for report in reports)
    tone = "bad" if problems else "warning" if unfinished else "good"
    summaries = [dict(flat(m.get("summary") or {})) for m in manifests]
    keys = list(dict.fromkeys(key for summary in summaries for key in summary))
    sections = [
        Section(
            "Runs",
            tables=[
                Table(("Run", "Verdict", "System", "Kind", "Started", "Duration (s)"), overview, "All runs"),
                Table(("Run", "Digest"), [(n, r.digest) for n, r in zip(names, reports, strict=True)], "For pinning"),
            ],
        )
    ]
    if keys:
        rows = [(key, *(summary.get(key) for summary in summaries)) for key in keys]
        headers = [n if r.ok else f"{n} (does not hold)" for n, r in zip(names, reports, strict=True)]
        sections.append(Section("Results", tables=[Table(("Result", *headers), rows, "What each run reports")]))
    verdict = Verdict(
        tone,
        "Not all hold." if problems else "All hold.",
        problems[0] if problems else f"{unfinished} of {len(reports)} did not reach their end." if unfinished else "",
    )
    return render_page(
        title=f"{len(paths)} runs",
        lead="Each was verified when this page was written.",
        sections=sections,
        verdict=verdict,
    )


def _verified(path: Path) -> VerifyReport:
    report = verify(path)
    if report.status is VerifyStatus.NOT_A_RUN:
        raise InputError(report.first_problem)
    return report


def _manifest(folder: Path) -> dict[str, Any]:
    """The manifest, or nothing when it cannot be trusted to say what ran."""
    try:
        return read_manifest(folder)
    except (InputError, IntegrityError):
        return {}


def _read_log(folder: Path) -> _Log:
    log = _Log()
    try:
        for entry in walk_chain(folder / EVENTS, genesis=None):
            payload = entry.payload
            if "artifact" in payload:
                log.artifacts[str(payload["artifact"])] = payload
                log.add("artifact written")
            elif "event" in payload:
                log.add(str(payload["event"]))
    except (OSError, IntegrityError) as error:
        log.problem = str(error)
    return log


def _verdict(report: VerifyReport) -> Verdict:
    tone = "good" if report.status is VerifyStatus.COMPLETE else "warning" if report.ok else "bad"
    text = report.status.meaning + (f" First problem: {report.first_problem}" if report.first_problem else "")
    return Verdict(tone, f"{report.status.value.replace('_', ' ').capitalize()}.", text)


def _verification(report: VerifyReport) -> Section:
    rows = [(check.name, "holds" if check.ok else "does not hold", check.detail) for check in report.checks]
    tables = [Table(("Check", "Result", "Detail"), rows, "Verified when this page was written")]
    if report.digest:
        tables.append(
            Table(("Digest of the run", "Signature"), [(report.digest, report.signature.value)], "Pin it elsewhere")
        )
    return Section("Verification", tables=tables)


def _what_ran(manifest: Mapping[str, Any]) -> list[Section]:
    git = manifest["git"] or {}
    facts = [
        ("System", manifest["system"]),
        ("Kind", manifest["kind"]),
        ("Status", manifest["status"]),
        ("Started", _moment(manifest["started_at"])),
        ("Ended", _moment(manifest.get("ended_at"))),
        ("Duration (s)", _duration(manifest)),
        ("Code (git commit)", git.get("sha")),
        ("Uncommitted changes", git.get("dirty")),
    ]
    error = manifest.get("error")
    if error:
        facts.append(("Error", f"{error.get('type')}: {error.get('message')}"))
    sections = [Section("What ran", tables=[Table(("Fact", "Value"), facts, "The run at a glance")])]
    if manifest.get("summary"):
        sections.insert(0, Section("Results", tables=tables_of(manifest["summary"], "Summary written by the run")))
    tables = [
        *tables_of(manifest["config"], "Settings of the run"),
        *tables_of(manifest["seeds"], "Root seeds of the random streams"),
    ]
    return [*sections, Section("Configuration", tables=tables)] if tables else sections


def _what_happened(log: _Log) -> list[Section]:
    if not log.counts and not log.problem:
        return []
    totals = sorted(((kind, sum(counts)) for kind, counts in log.counts.items()), key=lambda item: -item[1])
    text = f"The log cannot be read to its end: {log.problem}" if log.problem else ""
    figures = [_timeline(log, [kind for kind, _ in totals[:MAX_KINDS_SHOWN]])] if totals else []
    tables = [Table(("Kind", "Count"), totals, "Events by kind")] if totals else []
    return [Section("Events", text=text, figures=figures, tables=tables)]


def _timeline(log: _Log, kinds: Sequence[str]) -> Figure:
    """One band per kind; its height is the share of that kind's busiest stretch of the log."""
    import matplotlib as mpl
    from matplotlib.figure import Figure as MatplotlibFigure

    n_bins = -(-log.lines // log.bin_lines)
    edges = [bin_ * log.bin_lines for bin_ in range(n_bins)] + [log.lines]
    with mpl.rc_context({**FIGURE_STYLE, "text.parse_math": False}):  # a dollar sign in the name of a kind is one
        figure = MatplotlibFigure(figsize=(7.2, 0.9 + 0.32 * len(kinds)))
        axes = figure.add_subplot()
        for row, kind in enumerate(reversed(kinds)):
            counts = log.counts[kind][:n_bins]
            heights = [row + 0.8 * count / max(counts) for count in counts]
            axes.stairs(heights, edges, baseline=row, fill=True, color=PALETTE[(len(kinds) - 1 - row) % len(PALETTE)])
        names = [shortened(kind, 28) for kind in reversed(kinds)]
        axes.set_yticks([row + 0.3 for row in range(len(kinds))], names)
        axes.tick_params(axis="y", length=0)
        axes.set_ylim(-0.15, len(kinds) - 0.05)
        axes.set_xlim(0, log.lines)
        axes.set_xlabel("position in the event log (line)")
        axes.grid(visible=False)
        axes.spines["left"].set_visible(False)
        svg = figure_to_svg(figure)
    listed = ", ".join(f"{kind} {sum(log.counts[kind])}" for kind in kinds)
    return Figure(
        svg,
        "When each kind of event was recorded, in the order of the log. Heights are relative to the busiest "
        "stretch of the same kind.",
        f"Timeline of {log.lines} events by kind: {listed}.",
    )


def _files(manifest: Mapping[str, Any], log: _Log) -> list[Section]:
    tables = [
        Table(
            ("Name", "Size (bytes)", "SHA-256"),
            [(name, *_size_and_hash(record)) for name, record in records],
            caption,
        )
        for records, caption in (
            (sorted(manifest["inputs"].items()), "Files that the run read"),
            (sorted((manifest.get("artifacts") or log.artifacts).items()), "Files that the run wrote"),
        )
        if records
    ]
    return [Section("Inputs and artifacts", tables=tables)] if tables else []


def _size_and_hash(record: object) -> tuple[object, object]:
    facts = cast("Mapping[str, object]", record) if isinstance(record, Mapping) else {}
    return facts.get("size"), facts.get("sha256")


def _setting(manifest: Mapping[str, Any]) -> list[Section]:
    machine = [
        (key.replace("_", " "), " ".join(map(str, value)) if isinstance(value, list) else value)
        for key, value in manifest["machine"].items()
    ]
    versions = sorted(manifest["versions"].items())
    return [
        Section(
            "Machine and versions",
            tables=[
                Table(("Fact", "Value"), machine, "Machine"),
                Table(("Package", "Version"), versions, "Versions"),
            ],
        )
    ]


def _moment(text: str | None) -> str:
    if not text:
        return NOTHING
    moment = _parsed(text)
    return moment.strftime("%Y-%m-%d %H:%M:%S UTC") if moment else text


def _duration(manifest: Mapping[str, Any]) -> float | None:
    started, ended = (_parsed(manifest.get(name) or "") for name in ("started_at", "ended_at"))
    return round((ended - started).total_seconds(), 3) if started and ended else None


def _parsed(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):  # a manifest can be well sealed and say anything
        return None
