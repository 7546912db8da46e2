"""The `pike` command: its verbs, and what becomes of an error.

Knows exit codes: 0 done, 1 refused or nothing found, 2 the user's input, 3 the outside world,
130 interrupted. Does not know what any verb does.
"""

import json
import os
import sys
import warnings
from collections.abc import Sequence
from typing import Annotated

import typer

import pike
from pike.cli import mcp
from pike.cli.compare import campaign, simulate, slurm, suite
from pike.cli.look import (
    doctor,
    estimate,
    exchange,
    figures,
    gallery,
    prompts,
    report,
    serve,
    strategies,
    suites,
    tasks,
)
from pike.cli.run import bundle, demo, evaluate, external, optimize, watch
from pike.cli.terminal import PlainHelp
from pike.core.errors import BoundaryError, UserError
from pike.core.text.printable import printable

USER, OUTSIDE, INTERRUPTED = 2, 3, 130

app = typer.Typer(
    name="pike",
    help="Make PyTorch inference faster: search over rewrites of a model, with a judge that trusts none of them.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)
for command in (
    optimize.optimize,
    campaign.campaign,
    slurm.slurm,
    evaluate.evaluate,
    suite.suite,
    optimize.resume,
    watch.watch,
    external.ask,
    external.tell,
    external.finish,
    bundle.bundle,
    bundle.judge,
    mcp.mcp,
    report.report,
    figures.figures,
    exchange.export,
    exchange.import_,
    serve.serve,
    tasks.tasks,
    strategies.strategies,
    estimate.estimate,
    prompts.prompts,
    simulate.simulate,
    doctor.doctor,
    demo.demo,
):
    app.command(command.__name__.rstrip("_"), cls=PlainHelp)(command)
app.add_typer(suites.app)
app.add_typer(gallery.app)


def _show_version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"pike {pike.__version__}\n")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Options of the command itself."""


def main() -> None:
    """Run the command line and exit."""
    if not sys.warnoptions:
        # Warnings of libraries for their developers; python -W shows them.
        warnings.simplefilter("ignore", FutureWarning)
        os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code; a `PikeError` becomes one sentence on stderr."""
    as_json = "--json" in arguments
    command = typer.main.get_command(app)
    try:
        code = command.main(args=list(arguments), prog_name="pike", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except UserError as error:
        return _fail(str(error), "user", USER, as_json)
    except typer.TyperException as error:
        return _fail(error.format_message() or "No command was given; see pike --help", "user", USER, as_json)
    except BoundaryError as error:
        return _fail(str(error), "outside", OUTSIDE, as_json)
    except (KeyboardInterrupt, typer.Abort):
        return _fail("Interrupted", "interrupted", INTERRUPTED, as_json)


def _fail(message: str, kind: str, code: int, as_json: bool) -> int:
    sentence = message if message.rstrip().endswith((".", "!", "?")) else f"{message}."
    sys.stderr.write(f"pike: {printable(sentence)}\n")
    if as_json:
        sys.stdout.write(json.dumps({"error": {"kind": kind, "message": message}}) + "\n")
    return code
