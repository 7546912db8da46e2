"""The options that commands share, with their help texts.

Does not know what they do: `pike.Options` has the same names, `given(locals())` passes them on.
"""

from pathlib import Path
from typing import Annotated

import typer

from pike.core.verdict import evaluation


def _model(help: str, default: str) -> typer.models.OptionInfo:
    option: typer.models.OptionInfo = typer.Option(metavar="MODEL", help=help, show_default=default)
    return option


Task = Annotated[
    str, typer.Argument(metavar="TASK", help="A KernelBench-format file, SUITE/ID, or package.module:callable.")
]
Run = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run.")]

Strategy = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="A strategy, see pike strategies.", show_default="pike-b; recipes without a model"
    ),
]
Llm = Annotated[
    list[str] | None,
    _model(
        "Who writes candidates: openai:MODEL, anthropic:MODEL, google:MODEL, openrouter:MODEL, "
        "openai:MODEL@http://HOST:PORT/v1, batch:VENDOR:MODEL (half the price, within a day), "
        "command:PROGRAM ARGS, replay:RUN, scripted:FILE, by-hand (see pike ask), "
        "or none for recipes. Give it several times, like every option for a model, to have the search choose among "
        "several.",
        "none",
    ),
]
EfaLlm = Annotated[list[str] | None, _model("Who fixes errors.", "same as --llm")]
IbaLlm = Annotated[list[str] | None, _model("Who brainstorms ideas.", "same as --llm")]
PlanLlm = Annotated[list[str] | None, _model("Who plans, for STARK.", "same as --llm")]
CodeLlm = Annotated[list[str] | None, _model("Who carries plans out.", "same as --llm")]
DebugLlm = Annotated[list[str] | None, _model("Who repairs what was planned.", "same as --efa-llm")]
SeedRecipes = Annotated[
    bool | None, typer.Option("--seed-recipes", help="Start from the valid recipes, free of queries.")
]
QueryBudget = Annotated[
    int | None,
    typer.Option(
        min=0, metavar="N", help="The most calls to models; without a model, the most candidates.", show_default="300"
    ),
]
UsdBudget = Annotated[
    float | None, typer.Option(min=0.0, metavar="USD", help="The most US dollars.", show_default="no limit")
]
MaxMinutes = Annotated[
    float | None,
    typer.Option(
        min=0.0,
        metavar="M",
        help="Time of the run, part of it kept for the finalists.",
        show_default="10 for the strategy recipes, else none",
    ),
]
Concurrency = Annotated[
    int | None, typer.Option(min=1, metavar="N", help="Steps in flight at once.", show_default="20")
]
RunSeed = Annotated[int | None, typer.Option(metavar="N", help="The seed of every random stream.", show_default="0")]
Out = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER", help="The folder for the run.", show_default="a new one under runs/", file_okay=False
    ),
]

Track = Annotated[
    list[str] | None,
    typer.Option(metavar="TRACKER", help="Follow the run in mlflow, wandb, trackio or tensorboard; may be repeated."),
]

Device = Annotated[
    str | None, typer.Option(metavar="auto|cpu|cuda|cuda:N", help="Where candidates run.", show_default="auto")
]
Devices = Annotated[
    str | None,
    typer.Option(
        metavar="all|cuda:N,...", help="GPUs of one model that judge side by side.", show_default="the one of --device"
    ),
]
Executor = Annotated[
    str | None,
    typer.Option(metavar="local|ray[:ADDRESS]|http://HOST:PORT", help="Where judges work.", show_default="local"),
]
Tolerance = Annotated[evaluation.Tolerance | None, typer.Option(help="The rule of correctness.", show_default="strict")]
Precision = Annotated[
    evaluation.Precision | None, typer.Option(help="Arithmetic that candidates may use.", show_default="same")
]
Profile = Annotated[bool, typer.Option("--profile", help="Also say where the time of a valid candidate goes.")]

Config = Annotated[Path | None, typer.Option(metavar="FILE", help="A TOML file of settings; options win over it.")]
Set = Annotated[
    list[str] | None, typer.Option("--set", metavar="A.B=C", help="One setting by its path; may be repeated.")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else on stdout.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print the result and nothing else.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Spend money without asking.")]
Host = Annotated[str, typer.Option(metavar="HOST", help="Where to listen.")]
Port = Annotated[int, typer.Option(min=0, max=65535, metavar="PORT", help="Where to listen; 0 for any free port.")]
