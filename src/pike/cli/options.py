"""The options that commands share, with their help texts.

Knows how options are written on the command line. Does not know what they do; `api.Options` takes their values.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pike.core import evaluation

Task = Annotated[
    str,
    typer.Argument(
        metavar="TASK", help="A KernelBench-format file, SUITE/ID, or package.module:callable.", show_default=False
    ),
]
Run = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run.", show_default=False)]
Strategy = Annotated[
    str | None, typer.Option(metavar="NAME", help="A strategy, see [b]pike strategies[/b].", show_default="pike-b")
]
Llm = Annotated[
    list[str] | None,
    typer.Option(
        metavar="MODEL",
        help="Who writes candidates: openai:MODEL, anthropic:MODEL, google:MODEL, openrouter:MODEL, "
        "openai:MODEL@http://HOST:PORT/v1, command:PROGRAM ARGS, replay:RUN, scripted:FILE, by-hand (see "
        "[b]pike ask[/b]), or none for recipes. Give it several times, like every option for a model, to have "
        "the search choose among several.",
        show_default="none",
    ),
]
EfaLlm = Annotated[
    list[str] | None, typer.Option(metavar="MODEL", help="Who fixes errors.", show_default="same as --llm")
]
IbaLlm = Annotated[
    list[str] | None, typer.Option(metavar="MODEL", help="Who brainstorms ideas.", show_default="same as --llm")
]
PlanLlm = Annotated[
    list[str] | None, typer.Option(metavar="MODEL", help="Who plans, for STARK.", show_default="same as --llm")
]
CodeLlm = Annotated[
    list[str] | None, typer.Option(metavar="MODEL", help="Who carries plans out.", show_default="same as --llm")
]
DebugLlm = Annotated[
    list[str] | None,
    typer.Option(metavar="MODEL", help="Who repairs what was planned.", show_default="same as --efa-llm"),
]
SeedRecipes = Annotated[
    bool | None, typer.Option("--seed-recipes", help="Start from the valid recipes, free of queries.")
]
QueryBudget = Annotated[int | None, typer.Option(min=0, metavar="N", help="The most queries.", show_default="300")]
UsdBudget = Annotated[
    float | None, typer.Option(min=0.0, metavar="USD", help="The most US dollars.", show_default="no limit")
]
MaxMinutes = Annotated[
    float | None,
    typer.Option(
        min=0.0, metavar="M", help="Stop asking after M minutes.", show_default="10 for the strategy recipes, else none"
    ),
]
Device = Annotated[
    str | None, typer.Option(metavar="auto|cpu|cuda|cuda:N", help="Where candidates run.", show_default="auto")
]
Tolerance = Annotated[evaluation.Tolerance | None, typer.Option(help="The rule of correctness.", show_default="strict")]
Precision = Annotated[
    evaluation.Precision | None, typer.Option(help="Arithmetic that candidates may use.", show_default="same")
]
Concurrency = Annotated[
    int | None, typer.Option(min=1, metavar="N", help="Steps in flight at once.", show_default="10")
]
RunSeed = Annotated[int | None, typer.Option(metavar="N", help="The seed of every random stream.", show_default="0")]
Out = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER", help="The folder for the run.", show_default="a new one under runs/", file_okay=False
    ),
]
Config = Annotated[
    Path | None, typer.Option(metavar="FILE", help="A TOML file of settings; options win over it.", show_default=False)
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="A.B=C", help="One setting by its path; may be repeated.", show_default=False),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else on stdout.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Spend money without asking.")]
