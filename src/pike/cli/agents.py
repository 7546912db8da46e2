"""The command that lets coding agents in: `pike mcp`.

Knows how a server is asked for. Does not know the protocol (`server`).
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from pike import api, server
from pike.api.byhand import check_terms
from pike.cli import options as opt
from pike.cli.terminal import Terminal
from pike.core.errors import UserError

Tasks = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[TASK]...",
        help="Tasks to offer beside those of the suites: files or package.module:callable.",
        show_default=False,
    ),
]
OnlyRun = Annotated[
    Path | None, typer.Option("--run", metavar="RUN", help="Offer this run and nothing else.", show_default=False)
]
Root = Annotated[
    Path, typer.Option("--runs", metavar="FOLDER", help="The folder of the runs on offer.", file_okay=False)
]
Http = Annotated[bool, typer.Option("--http", help="Serve streamable HTTP instead of standard streams.")]
Host = Annotated[str, typer.Option(metavar="HOST", help="Where to listen.")]
Port = Annotated[int, typer.Option(min=0, max=65535, metavar="PORT", help="Where to listen; 0 for any free port.")]
NoToken = Annotated[bool, typer.Option("--no-token", help="Ask for no token (only where nobody else can connect).")]
PrintConfig = Annotated[
    str | None,
    typer.Option(
        metavar="CLIENT",
        help=f"Print what to put into a client's configuration: {', '.join(server.CLIENTS)}.",
        show_default=False,
    ),
]


def mcp(
    tasks: Tasks = None,
    run: OnlyRun = None,
    runs: Root = Path("runs"),
    strategy: opt.Strategy = None,
    query_budget: opt.QueryBudget = None,
    device: opt.Device = None,
    tolerance: opt.Tolerance = None,
    precision: opt.Precision = None,
    config: opt.Config = None,
    settings: opt.Set = None,
    http: Http = False,
    host: Host = "127.0.0.1",
    port: Port = 8765,
    no_token: NoToken = False,
    print_config: PrintConfig = None,
) -> None:
    """Serve runs to coding agents (MCP). The budget and the terms of runs that an agent begins are given here."""
    if print_config is not None:
        options = {
            "--run": run,
            "--runs": None if run else runs,
            "--strategy": strategy,
            "--query-budget": query_budget,
        }
        options |= {"--device": device, "--tolerance": tolerance, "--precision": precision, "--config": config}
        repeated = [word for name, value in options.items() if value is not None for word in (name, _word(value))]
        repeated += [word for setting in settings or () for word in ("--set", setting)]
        known = ["mcp", *(_word(Path(task) if Path(task).exists() else task) for task in tasks or ()), *repeated]
        _print_config(print_config, known, _url(host, port) if http else "")
        return
    given = api.Options(
        strategy=strategy or "agent",
        llm="by-hand",
        query_budget=query_budget,
        device=device,
        tolerance=tolerance,
        precision=precision,
        config=config,
        settings=settings or (),
    )
    check_terms(given)
    offer = server.Offer(runs, tuple(tasks or ()), given, run)
    if http:
        _serve_http(offer, host, port, no_token)
    else:
        if sys.stdin.isatty():
            Terminal().note(Text("Serving on standard streams, for a client that starts this; Ctrl-C ends it."))
        asyncio.run(server.serve_stdio(offer))


def _serve_http(offer: server.Offer, host: str, port: int, no_token: bool) -> None:
    terminal = Terminal()
    given = os.environ.get(server.TOKEN_VARIABLE)
    token = server.check_token(given, host, without=no_token)
    if token and not given:
        terminal.note(Text(f"Token, shown once: {token}", style="bold"))
        terminal.note(
            Text(f"Clients send it as  Authorization: Bearer TOKEN  (set {server.TOKEN_VARIABLE} to choose it).")
        )

    def started(url: str) -> None:
        terminal.note(Text(f"Serving at {url}; Ctrl-C ends it."))

    asyncio.run(server.serve_http(offer, host, port, token, started))


def _print_config(client: str, arguments: Sequence[str], url: str) -> None:
    program = shutil.which("pike")
    command = [str(Path(program).resolve())] if program else [sys.executable, "-m", "pike"]
    place, _, text = server.client_config(client, [*command, *arguments], url).partition("\n\n")
    terminal = Terminal()
    terminal.note(Text(place, style="bold"))
    sys.stdout.write(text + "\n")


def _word(value: object) -> str:
    """A value as the client has to repeat it: paths must hold from anywhere."""
    return str(value.resolve()) if isinstance(value, Path) else str(value)


def _url(host: str, port: int) -> str:
    if not port:
        raise UserError("A client needs to know the port: give --port")
    return f"http://{f'[{host}]' if ':' in host else host}:{port}{server.PATH}"
