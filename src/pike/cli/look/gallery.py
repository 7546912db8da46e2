"""`pike gallery`: winners of searches that come with PIKE, and what they come to here.

Knows what is printed. Does not know how a winner is measured (`api`).
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from pike.api.gallery import COMPILE, RECIPES, GalleryEntry, Verified, chosen, keep, verify_gallery
from pike.cli import options as opt
from pike.cli.terminal import PlainHelp, Terminal, table_of
from pike.core import figures

Names = Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", help="Winners, by default all.")]
Recipes = Annotated[
    bool, typer.Option("--recipes", help="Search for the best composition of recipes first, and measure it too.")
]
Out = Annotated[Path | None, typer.Option(metavar="FILE", help="Append the results to a file of JSON lines (.jsonl).")]

app = typer.Typer(
    name="gallery", help="List winners that come with PIKE, and verify them.", invoke_without_command=True
)


@app.callback()
def gallery(context: typer.Context, as_json: opt.Json = False) -> None:
    """List winners of searches that come with PIKE: what they are faster than, and where.

    `pike.gallery("NAME")` loads one in place of its original.
    """
    if context.invoked_subcommand is None:
        terminal, found = Terminal(as_json), chosen(())
        terminal.show(gallery_table(found))
        terminal.show("pike gallery verify NAME measures one here; pike.gallery(NAME) loads it.")
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
    """Measure winners here on fresh data, beside eager PyTorch, a CUDA graph and torch.compile.

    Exit code 1 if one is wrong here, 2 if this machine has no device that it was made for.
    """
    terminal, wanted = Terminal(as_json, quiet), chosen(names or ())
    if out is not None:
        keep(out, ())  # a name that cannot be used is said before minutes are spent
    broken = {entry.name: entry.problem for entry in wanted if entry.problem}
    sound = f"{len(wanted) - len(broken)} of {len(wanted)} winners can be read and define ModelNew"
    terminal.note(f"{sound}{''.join(f'; {name}: {problem}' for name, problem in broken.items())}.")
    found: list[Verified] = []
    for entry in wanted:
        note = lambda stage, name=entry.name: terminal.note(f"{name}: {stage}")  # noqa: E731
        one = verify_gallery(entry, device=device, recipes=recipes, on_stage=note)
        terminal.show(verified_table(one), *([Text(f"{one.note}.", style="yellow")] if one.note else []))
        found.append(one)
        if out is not None:
            keep(out, one.results)  # after it was shown: a full disk loses nothing that was measured
    terminal.result({"verified": [_verified(one) for one in found], "broken": broken})
    valid = [one.results[0].speedup for one in found]
    raise typer.Exit(1 if broken or None in valid else 0)


def gallery_table(found: Iterable[GalleryEntry]) -> Table:
    """Every winner with its speedup and where that was measured."""
    table = table_of(
        ("name", "original", "over eager", "over compile", "over recipes", "precision", "measured on", "when")
    )
    for flat in map(_flat, found):
        when = f"{'verified' if flat['verified'] else 'in its search'}, {flat['date'][:10]}"
        speeds = [figures.times(flat[name]) for name in ("speedup", "over_compile", "over_recipes")]
        where = f"{flat['device']}, torch {flat['torch_version']}"
        table.add_row(Text(flat["name"], style="bold"), flat["original"], *speeds, flat["precision"], where, when)
    return table


def verified_table(one: Verified) -> Table:
    """A winner beside what was timed in the same sessions."""
    rows, terms = _verified(one)["results"], one.entry.found.options
    title = f"{one.entry.name} on {rows[0]['device']}, {terms.precision.value}"
    table = table_of(("", "time", "over eager", "95 % interval", "error", "verdict"), title=title)
    for row in rows:
        speed = figures.times(row["speedup"]), figures.interval(row["speedup_ci95"])
        words = Text(f"{row['status']} {row['reason']}".strip())
        label = Text(" + ".join((row["contender"], *row["recipes"])))
        table.add_row(label, figures.ms(row["candidate_ms"]), *speed, figures.error(row["max_abs_error"]), words)
    return table


def _flat(entry: GalleryEntry) -> dict[str, Any]:
    verdict, result, found = entry.evaluation.flat(), entry.verified, entry.found
    named = ("speedup", "speedup_ci95", "reference_ms", "candidate_ms", "precision", "device", "torch_version")
    return {
        "name": entry.name,
        "original": entry.task.id,
        "verified": result is not None,
        "date": result.provenance.date if result else found.date,
        "over_compile": entry.over(COMPILE),
        "over_recipes": entry.over(RECIPES),
        **{name: verdict[name] for name in named},
        **{name: getattr(found, name) for name in ("strategy", "author", "queries")},
    }


def _verified(one: Verified) -> dict[str, Any]:
    verdicts = [(each, each.evaluation) for each in one.results if each.evaluation]
    rows = [{"contender": each.contender.name, "recipes": each.recipes} | verdict.flat() for each, verdict in verdicts]
    return {"name": one.entry.name, "note": one.note, "results": rows}
