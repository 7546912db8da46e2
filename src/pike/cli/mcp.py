"""The command that lets coding agents in: `pike mcp`.

Knows how a server is asked for. Does not know the protocol (`server`).
"""

import asyncio
import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from pike import server
from pike.api.external import check_terms
from pike.api.options import given
from pike.cli import options as opt
from pike.cli.terminal import Terminal
from pike.core.errors import UserError

Tasks = Annotated[
    list[str] | None,
    typer.Argument(metavar="TASK", help="Tasks to offer beside those of the suites: files or package.module:callable."),
]
OnlyRun = Annotated[Path | None, typer.Option("--run", metavar="RUN", help="Offer this run and nothing else.")]
Root = Annotated[
    Path,
    opt.option("FOLDER", "The folder in which runs begin; earlier ones are not shown.", name="--runs", file_okay=False),
]
Strategy = Annotated[str | None, opt.option("NAME", "A strategy, see pike strategies.", "agent")]
Http = Annotated[bool, typer.Option("--http", help="Serve streamable HTTP instead of standard streams.")]
NoToken = Annotated[bool, typer.Option("--no-token", help="Ask for no token (only where nobody else can connect).")]
PrintConfig = Annotated[
    str | None, opt.option("CLIENT", f"Print what to put into a client's configuration: {', '.join(server.CLIENTS)}.")
]


def mcp(
    tasks: Tasks = None,
    run: OnlyRun = None,
    runs: Root = Path("runs"),
    strategy: Strategy = None,
    query_budget: opt.QueryBudget = None,
    device: opt.Device = None,
    tolerance: opt.Tolerance = None,
    precision: opt.Precision = None,
    config: opt.Config = None,
    settings: opt.Set = None,
    http: Http = False,
    host: opt.Host = "127.0.0.1",
    port: opt.Port = 8765,
    no_token: NoToken = False,
    print_config: PrintConfig = None,
) -> None:
    """Serve runs to coding agents (MCP).

    The budget and the terms of runs that an agent begins are given here.
    """
    terms = given(locals())
    if print_config is not None:
        words = _repeated(tasks or (), {"run": run, "runs": None if run else runs, **terms})
        _print_config(print_config, ["mcp", *words], _url(host, port) if http else "")
        return
    terms["strategy"], terms["llm"] = strategy or "agent", "by-hand"
    check_terms(terms)
    offer = server.Offer(runs, tuple(tasks or ()), terms, run)
    if http:
        _serve_http(offer, host, port, no_token)
    else:
        if sys.stdin.isatty():
            Terminal().note("Serving on standard streams, for a client that starts this; Ctrl-C ends it.")
        asyncio.run(server.serve_stdio(offer))


def _serve_http(offer: server.Offer, host: str, port: int, no_token: bool) -> None:
    terminal = Terminal()
    chosen = os.environ.get(server.TOKEN_VARIABLE)
    token = server.check_token(chosen, host, without=no_token)
    if token and not chosen:
        terminal.note(f"Token, shown once: {token}", style="bold")
        terminal.note(f"Clients send it as  Authorization: Bearer TOKEN  (set {server.TOKEN_VARIABLE} to choose it).")

    def started(url: str) -> None:
        terminal.note(f"Serving at {url}; Ctrl-C ends it.")

    asyncio.run(server.serve_http(offer, host, port, token, started))


def _print_config(client: str, arguments: Sequence[str], url: str) -> None:
    program = shutil.which("pike")
    command = [str(Path(program).resolve())] if program else [sys.executable, "-m", "pike"]
    place, _, text = server.client_config(client, [*command, *arguments], url).partition("\n\n")
    terminal = Terminal()
    terminal.note(place, style="bold")
    sys.stdout.write(text + "\n")


def _repeated(tasks: Sequence[str], options: Mapping[str, object]) -> Iterator[str]:
    """The words of this command for a client's configuration, with paths that hold from anywhere."""
    yield from (str(Path(task).resolve()) if Path(task).exists() else task for task in tasks)
    for name, value in options.items():
        flag = "--set" if name == "settings" else f"--{name.replace('_', '-')}"
        for one in value if isinstance(value, list) else () if value is None else (value,):
            yield from (flag, str(one.resolve() if isinstance(one, Path) else one))


def _url(host: str, port: int) -> str:
    if not port:
        raise UserError("A client needs to know the port: give --port")
    return f"http://{f'[{host}]' if ':' in host else host}:{port}{server.PATH}"
