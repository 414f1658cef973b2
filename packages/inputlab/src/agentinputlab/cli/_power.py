"""``agentinputlab power``: plan an experiment before it is run."""

from __future__ import annotations

import json

import click

__all__ = ["power"]


@click.command("power")
@click.option(
    "--helps", type=float, required=True, help="Share of tasks that the change turns from failure to success."
)
@click.option("--hurts", type=float, default=0.0, show_default=True, help="Share of tasks it turns the other way.")
@click.option("--tasks", type=int, help="Give the power of this many paired tasks instead of the number needed.")
@click.option(
    "--power", "wanted", type=float, default=0.8, show_default=True, help="Chance wanted of seeing the effect."
)
@click.option("--alpha", type=float, default=0.05, show_default=True, help="Level of the exact two-sided test.")
@click.option(
    "--treatments",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Treatments tested together; the level is divided by their number.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object.")
def power(
    helps: float, hurts: float, tasks: int | None, wanted: float, alpha: float, treatments: int, as_json: bool
) -> None:
    """Plan how many paired tasks an experiment needs.

    The test is the exact sign (McNemar) test of the pairs that differ, and its power is computed without approximation.

    \b
    Examples:
      agentinputlab power --helps 0.25 --hurts 0.05
      agentinputlab power --helps 0.25 --hurts 0.05 --tasks 40 --treatments 3
    """
    from agentinputlab.analysis.power import exact_power, required_pairs

    level = alpha / treatments
    pairs = tasks if tasks is not None else required_pairs(helps=helps, hurts=hurts, power=wanted, alpha=level)
    reached = exact_power(pairs, helps=helps, hurts=hurts, alpha=level)
    if as_json:
        record = {"pairs": pairs, "power": reached, "alpha": level, "helps": helps, "hurts": hurts}
        click.echo(json.dumps({**record, "treatments": treatments}))
        return
    shared = f" for each of {treatments} treatments (level {level:g})" if treatments > 1 else ""
    click.echo(f"{pairs} paired tasks: power {reached:.3f}{shared}.")
    click.echo(
        f"Assumed: the change helps on {100.0 * helps:.4g} % of tasks and hurts on {100.0 * hurts:.4g} %; "
        f"about {pairs * (helps + hurts):.0f} pairs will differ, and only those count."
    )
