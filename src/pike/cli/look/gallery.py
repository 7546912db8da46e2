"""`pike gallery`: winners of searches that come with PIKE, and what they come to here.

Knows what is printed. Does not know how a winner is measured (`api`).
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from pike.api.gallery import GalleryEntry, Verified, chosen, verify_gallery
from pike.cli import options as opt
from pike.cli.terminal import PlainHelp, Terminal
from pike.core import figures
from pike.core.comparison.results import Result

Names = Annotated[
    list[str] | None, typer.Argument(metavar="[NAME]...", help="Winners, by default all.", show_default=False)
]
Recipes = Annotated[
    bool, typer.Option("--recipes", help="Search for the best composition of recipes first, and measure it too.")
]
Out = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Append the results to a file of JSON lines (.jsonl).", show_default=False),
]

app = typer.Typer(
    name="gallery", help="List winners of searches that come with PIKE, and verify them here.",
    invoke_without_command=True,
)  # fmt: skip


@app.callback()
def gallery(context: typer.Context, as_json: opt.Json = False) -> None:
    """List winners of searches that come with PIKE: what they are faster than, and where.

    `pike.gallery("NAME")` loads one in place of its original.
    """
    if context.invoked_subcommand is None:
        terminal, found = Terminal(as_json), chosen(())
        terminal.show(gallery_table(found))
        terminal.show(Text("pike gallery verify NAME measures one here; pike.gallery(NAME) loads it."))
        terminal.result({"gallery": [_flat(entry) for entry in found]})


@app.command(cls=PlainHelp)
def verify(
    names: Names = None,
    device: opt.Device = None,
    recipes: Recipes = False,
    out: Out = None,
    as_json: opt.Json = False,
    quiet: opt.Quiet = False,
) -> None:
    """Measure winners here on fresh data, in the same sessions as eager PyTorch and torch.compile.

    Exit code 1 if one is wrong here, 2 if this machine has no device that it was made for.
    """
    terminal, wanted = Terminal(as_json, quiet), chosen(names or ())
    broken = {entry.name: entry.problem for entry in wanted if entry.problem}
    terminal.note(Text(f"{figures.plural(len(wanted) - len(broken), 'winner')} of {len(wanted)} read well."))
    found: list[Verified] = []
    for entry in wanted:
        note = lambda stage, name=entry.name: terminal.note(Text(f"{name}: {stage}"))  # noqa: E731
        one = verify_gallery(entry, device=device, recipes=recipes, out=out, on_stage=note)
        terminal.show(verified_table(one), *([Text(f"{one.note}.", style="yellow")] if one.note else []))
        found.append(one)
    terminal.result({"verified": [_verified(one) for one in found], "broken": broken})
    valid = [one.results[0].speedup for one in found]
    raise typer.Exit(1 if broken or None in valid else 0)


def gallery_table(found: Iterable[GalleryEntry]) -> Table:
    """Every winner with its speedup and where that was measured."""
    table = Table()
    table.add_column("name", overflow="fold")
    table.add_column("original", overflow="fold")
    for name in ("over eager", "over compile"):
        table.add_column(name, justify="right")
    for name in ("precision", "measured on", "when"):
        table.add_column(name, overflow="fold")
    for entry in found:
        flat = _flat(entry)
        when = f"verified {flat['date'][:10]}" if flat["verified"] else f"in its search, {flat['date'][:10]}"
        speeds = figures.times(flat["speedup"]), figures.times(flat["over_compile"])
        where = f"{flat['device']}, torch {flat['torch']}"
        table.add_row(Text(entry.name, style="bold"), entry.task.id, *speeds, flat["precision"], where, when)
    return table


def verified_table(one: Verified) -> Table:
    """A winner beside what was timed in the same sessions."""
    place = one.results[0].provenance
    title = f"{one.entry.name} on {place.device.name}, {place.options.precision.value}"
    table = Table(title=title, title_justify="left")
    table.add_column("", overflow="fold")
    for name in ("time", "over eager", "95 % interval", "error"):
        table.add_column(name, justify="right")
    table.add_column("verdict", overflow="fold")
    for result in one.results:
        verdict, timing = result.evaluation, result.evaluation.timing if result.evaluation else None
        bounds = figures.interval(timing.speedup_ci95 if timing else None)
        error = figures.error(verdict.error.max_abs if verdict and verdict.error else None)
        cells = figures.ms(timing.candidate_ms if timing else None), figures.times(result.speedup), bounds, error
        words = f"{verdict.status.value} {verdict.reason}".strip() if verdict else result.missing
        table.add_row(Text(" + ".join((result.contender.name, *result.recipes))), *cells, Text(words))
    return table


def _flat(entry: GalleryEntry) -> dict[str, Any]:
    verdict, found = entry.evaluation, entry.found
    result = entry.verified
    return {
        "name": entry.name,
        "original": entry.task.id,
        "verified": result is not None,
        "date": result.provenance.date if result else found.date,
        "device": entry.device.name,
        "torch": verdict.torch_version,
        "precision": verdict.precision.value,
        "over_compile": entry.over_compile,
        "strategy": found.strategy,
        "author": found.author,
        "queries": found.queries,
    } | {name: verdict.flat()[name] for name in ("speedup", "speedup_ci95", "reference_ms", "candidate_ms")}


def _verified(one: Verified) -> dict[str, Any]:
    def flat(result: Result) -> dict[str, Any]:
        verdict = result.evaluation.flat() if result.evaluation else {}
        return {"contender": result.contender.name, "recipes": result.recipes} | verdict

    return {"name": one.entry.name, "note": one.note, "results": [flat(result) for result in one.results]}
