"""`pagelab claims`: what two documents state about paging, and what this project finds."""

from collections import Counter

import click
import orjson
from rich.console import Console
from rich.table import Table

from app.claims import Claim, Verdict, examine

STYLES = {
    Verdict.HOLDS: "green",
    Verdict.CONDITIONAL: "yellow",
    Verdict.WRONG: "red",
    Verdict.NOT_CHECKABLE: "dim",
}


@click.command()
@click.argument("ids", nargs=-1, metavar="[CLAIM]...")
@click.option("--verdict", type=click.Choice([str(v) for v in Verdict]), help="only claims with this verdict")
@click.option("--json", "as_json", is_flag=True, help="one JSON document on standard output, nothing else")
def claims(ids: tuple[str, ...], verdict: str | None, as_json: bool) -> None:
    """Compute or measure each CLAIM (all of them if none is named) and say whether it holds."""
    found = [claim for claim in examine(ids) if verdict in (None, str(claim.finding.verdict))]
    if as_json:
        click.echo(orjson.dumps({"claims": [claim.as_json() for claim in found]}, option=orjson.OPT_INDENT_2))
    elif ids:
        click.echo("\n\n".join(map(explain, found)))
    else:
        show(found)


def explain(claim: Claim) -> str:
    """One claim with its reason."""
    finding = claim.finding
    lines = [
        f"{claim.id}: {claim.text}",
        f"  claimed   {claim.claimed} ({claim.source})",
        f"  computed  {finding.computed or 'nothing'}",
        f"  verdict   {finding.verdict}",
        f"  why       {finding.why}",
        f"  command   {claim.command}",
    ]
    return "\n".join(lines)


def show(found: list[Claim]) -> None:
    """A table of all, and the count of each verdict."""
    table = Table("claim", "states", "claimed", "computed", "verdict")
    for claim in found:
        finding = claim.finding
        style = STYLES[finding.verdict]
        table.add_row(claim.id, claim.text, claim.claimed, finding.computed, f"[{style}]{finding.verdict}[/]")
    Console().print(table)
    counts = Counter(str(claim.finding.verdict) for claim in found)
    click.echo(
        f"{len(found)} claims: " + ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
    )
