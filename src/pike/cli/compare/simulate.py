"""`pike simulate`: strategies compared in the simulator.

Knows its options and its table. Does not know how a run is simulated (`api`).
"""

from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from pike.api.simulation import LEVELS, RunComparison, SimulatedPreset, comparable, compare
from pike.cli import options as opt
from pike.cli.terminal import Terminal, table_of
from pike.core import figures

Preset = Annotated[list[str] | None, opt.option("NAME", "A strategy; may be repeated.", "all", name="--preset")]
Repeats = Annotated[int, typer.Option(min=2, metavar="N", help="Repeats of the simulated suite.")]
Queries = Annotated[int, typer.Option(min=1, metavar="N", help="The query budget of a run.")]
Tasks = Annotated[int, typer.Option(min=1, metavar="N", help="Simulated tasks of the suite.")]
Level = Annotated[str, typer.Option(metavar="LEVEL", help=f"The published suite it stands for: {' or '.join(LEVELS)}.")]
Seeds = Annotated[bool, typer.Option("--seed-recipes", help="Start every run from the valid recipes, free of queries.")]

MODEL = (
    "A model, fitted to published figures: what it says is a hypothesis for real runs to test "
    "(docs/reference/strategies.md). The interval of the mean is how well the simulation knows it; "
    "one real run of the suite lies within the last."
)


def simulate(
    preset: Preset = None,
    repeats: Repeats = 10,
    queries: Queries = 300,
    tasks: Tasks = 30,
    level: Level = "level3",
    seed_recipes: Seeds = False,
    as_json: opt.Json = False,
) -> None:
    """Compare strategies in a simulator: no model, no task, no money."""
    terminal = Terminal(as_json)
    found = []
    names, lacking = (preset, ()) if preset else comparable()
    if lacking:
        terminal.note(f"Left out, as they need an extra (pip install 'pike-torch[openevolve]'): {', '.join(lacking)}")
    for each in compare(RunComparison(tuple(names), repeats, queries, tasks, level, seed_recipes)):
        found.append(each)
        terminal.note(f"{each.preset}: {figures.times(each.speedup.mean)}")
    terminal.show(_table(found), Text(MODEL, style="dim"))
    terminal.result({"simulated": found})


def _table(found: list[SimulatedPreset]) -> Table:
    numbers = ("runs", "geomean", "95 % of the mean", "median", "95 % of single runs", "cost of a run", "repaired")
    table = table_of(("strategy",), numbers)
    for each in found:
        table.add_row(
            Text(each.preset, style="bold"),
            figures.count(each.runs),
            figures.times(each.speedup.mean),
            figures.interval(each.speedup.ci95),
            figures.times(each.speedup.median),
            figures.interval(each.speedup.single95),
            figures.usd(each.usd),
            figures.NOTHING if each.repaired is None else f"{each.repaired:.0%}",
        )
    return table
