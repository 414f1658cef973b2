"""The command that describes, for review, what audit histories could teach another domain; it acts on nothing."""

from __future__ import annotations

from pathlib import Path

import click

from ripieno.errors import RipienoError
from scpn_phase_orchestrator.runtime.cli._json_input import INPUT_FILE, OUTPUT_FILE, write_output

__all__ = ["meta_transfer_manifest"]


# Also called alone, as scpn-meta: the options for help are those of spo.
@click.command("meta-transfer-manifest", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("audit_paths", nargs=-1, type=INPUT_FILE)
@click.option(
    "--audit-directory",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=None,
    help="Read every matching file below this directory instead.",
)
@click.option("--pattern", default="**/*.jsonl", show_default=True, help="Which files below the directory.")
@click.option("--min-records", type=int, default=1, show_default=True, help="Fewest examples that must be found.")
@click.option("--package-name", default="scpn-meta", show_default=True, help="Name of the package in the manifest.")
@click.option(
    "--import-target", default="scpn_phase_orchestrator.meta", show_default=True, help="Module in the manifest."
)
@click.option("--console-script", default="scpn-meta", show_default=True, help="Command in the manifest.")
@click.option("--output", "-o", type=OUTPUT_FILE, default=None, help="Write the manifest here as well.")
def meta_transfer_manifest(
    audit_paths: tuple[Path, ...],
    audit_directory: Path | None,
    pattern: str,
    min_records: int,
    package_name: str,
    import_target: str,
    console_script: str,
    output: Path | None,
) -> None:
    """Describe, for review, what audit histories could teach another domain.

    AUDIT_PATHS are audit logs of `spo run --audit` (one example per log: mean order parameters, mean of the actions by
    knob, mean stability as reward) or JSONL files with one example a line: domain, features, knobs, reward.

    \b
    Examples:
      spo meta-transfer-manifest grid.jsonl eeg.jsonl
      spo meta-transfer-manifest --audit-directory runs --min-records 10 -o manifest.json
    """
    if min_records < 1:
        raise click.ClickException("--min-records must be at least 1")
    if not audit_paths and audit_directory is None:
        raise click.ClickException("provide one or more audit JSONL files or --audit-directory")
    if audit_paths and audit_directory is not None:
        raise click.ClickException("audit JSONL files and --audit-directory are mutually exclusive")
    from scpn_phase_orchestrator.meta import CrossDomainMetaTransfer

    try:
        if audit_directory is not None:
            transfer = CrossDomainMetaTransfer().fit_audit_directory(audit_directory, pattern, min_records)
        else:
            transfer = CrossDomainMetaTransfer().fit_audit_history(audit_paths, min_records)
        text = transfer.to_package_manifest(package_name, import_target, console_script).to_json()
        if output is not None:
            write_output(output, text.encode(), artifact="package manifest")
    except (OSError, TypeError, ValueError, RipienoError) as error:
        raise click.ClickException(str(error)) from error
    click.echo(text, nl=False)
    if output is not None:
        click.echo(f"Meta-transfer package manifest written: {output}", err=True)
