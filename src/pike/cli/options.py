"""The options that commands share, with their help texts.

Does not know what they do: `pike.Options` has the same names, `given(locals())` passes them on.
"""

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.models import OptionInfo

from pike.core.verdict import evaluation


def option(metavar: str, help: str, default: bool | str = True, *, name: str = "", **more: Any) -> OptionInfo:
    """An option with a value.

    Args:
        metavar: what stands for the value in the help.
        help: what it means.
        default: how its default is called there, where that is not simply its value.
        name: on the command line, by default that of the parameter.
        more: for `typer.Option`.
    """
    names = (name,) if name else ()
    found: OptionInfo = typer.Option(*names, metavar=metavar, help=help, show_default=default, **more)
    return found


def folder(help: str, default: bool | str = True) -> OptionInfo:
    """An option that takes a folder."""
    return option("FOLDER", help, default, file_okay=False)


def minutes(help: str, default: bool | str = True) -> OptionInfo:
    """An option that takes a time in minutes."""
    return option("M", help, default, min=0.0)


def _model(help: str, default: str) -> OptionInfo:
    return option("MODEL", help, default)


Task = Annotated[
    str, typer.Argument(metavar="TASK", help="A KernelBench-format file, SUITE/ID, or package.module:callable.")
]
Run = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run.")]

Strategy = Annotated[str | None, option("NAME", "A strategy, see pike strategies.", "pike-b; recipes without a model")]
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
    int | None, option("N", "The most calls to models; without a model, the most candidates.", "300", min=0)
]
UsdBudget = Annotated[float | None, option("USD", "The most US dollars.", "no limit", min=0.0)]
MaxMinutes = Annotated[
    float | None,
    minutes("Time of the run, part of it kept for the finalists.", "10 for the strategy recipes, else none"),
]
Concurrency = Annotated[int | None, option("N", "Steps in flight at once.", "20", min=1)]
RunSeed = Annotated[int | None, typer.Option(metavar="N", help="The seed of every random stream.", show_default="0")]
Out = Annotated[Path | None, folder("The folder for the run.", "a new one under runs/")]

Track = Annotated[
    list[str] | None, option("TRACKER", "Follow the run in mlflow, wandb, trackio or tensorboard; may be repeated.")
]

Device = Annotated[str | None, option("auto|cpu|cuda|cuda:N", "Where candidates run.", "auto")]
Devices = Annotated[
    str | None, option("all|cuda:N,...", "GPUs of one model that judge side by side.", "the one of --device")
]
Executor = Annotated[str | None, option("local|ray[:ADDRESS]|http://HOST:PORT", "Where judges work.", "local")]
Tolerance = Annotated[evaluation.Tolerance | None, typer.Option(help="The rule of correctness.", show_default="strict")]
Precision = Annotated[
    evaluation.Precision | None, typer.Option(help="Arithmetic that candidates may use.", show_default="same")
]
Profile = Annotated[bool, typer.Option("--profile", help="Also say where the time of a valid candidate goes.")]

Config = Annotated[Path | None, typer.Option(metavar="FILE", help="A TOML file of settings; options win over it.")]
Set = Annotated[list[str] | None, option("A.B=C", "One setting by its path; may be repeated.", name="--set")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else on stdout.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print the result and nothing else.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Spend money without asking.")]
Host = Annotated[str, typer.Option(metavar="HOST", help="Where to listen.")]
Port = Annotated[int, typer.Option(min=0, max=65535, metavar="PORT", help="Where to listen; 0 for any free port.")]
