"""`pike serve`: the dashboard of a folder of runs, or the judge as a service.

Knows how a server is asked for. Does not know what it shows or judges (`server`).
"""

import asyncio
import os
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from pike import server
from pike.api.bare.bundles import MOST_JUDGES
from pike.api.options import Options, compose_config, given
from pike.cli import options as opt
from pike.cli.terminal import Terminal
from pike.core.errors import UserError

Runs = Annotated[
    Path | None,
    typer.Argument(
        metavar="FOLDER",
        help="The folder in which runs are, by default `runs`; with --evaluate the one that keeps the queue, by "
        "default `service`.",
        file_okay=False,
    ),
]
AllowHost = Annotated[
    list[str] | None,
    opt.option("NAME", "A name or address under which others reach the server; needed for any host but loopback."),
]
Evaluate = Annotated[bool, typer.Option("--evaluate", help="Serve the judge, not the dashboard.")]
TokensFile = Annotated[
    Path | None, opt.option("FILE", "Who may ask the judge: a TOML table for each.", name="--tokens")
]


def serve(
    runs: Runs = None,
    host: opt.Host = "127.0.0.1",
    port: opt.Port = 8766,
    allow_host: AllowHost = None,
    evaluate: Evaluate = False,
    tokens: TokensFile = None,
    devices: opt.Devices = None,
    settings: opt.Set = None,
) -> None:
    """Show all runs and campaigns of a folder live in a browser, or judge for other machines.

    Reading is free on this machine. To pause, stop or resume a run takes the token that is printed; on
    any other address everything does. With --evaluate, submitting is free on this machine too. To
    bring a task takes a token, because its code runs outside of every sandbox.
    """
    terminal = Terminal()
    alone = server.is_loopback(host)
    names = tuple(name.lower() for name in allow_host or ())
    if not alone and not names:
        raise UserError(f"A server on {host} can be reached by others: name the hosts it answers to with --allow-host")
    hosts, free = (*server.LOOPBACK, *names), alone and not names
    token = server.token_from(os.environ.get(server.TOKEN), server.TOKEN)
    if evaluate:
        place = server.ServicePlace(runs or Path("service"), host, port, hosts)
        known = server.read_tokens(tokens) if tokens else server.administrator(token)
        callers = server.ServiceTokens(known, freely=free and not tokens)
        _judge(place, callers, given({"devices": devices, "settings": settings or ()}), not tokens and token)
        return
    folder = runs or Path("runs")
    access = server.DashboardAccess(token, hosts, look_freely=free)

    def started(url: str) -> None:
        terminal.note(f"Serving '{folder}' at {url}/; Ctrl-C ends it.")
        terminal.note(f"To pause, stop and resume runs, open  {url}/#token={token}", style="bold")

    asyncio.run(server.serve_dashboard(folder, host, port, access, started))


def _judge(place: server.ServicePlace, callers: server.ServiceTokens, options: Options, token: str | bool) -> None:
    terminal, config = Terminal(), compose_config("", options)
    engine = replace(config.engine, concurrency=MOST_JUDGES)

    def started(url: str) -> None:
        terminal.note(f"Judging for others at {url}; the queue is in '{place.folder}'; Ctrl-C ends it.")
        if token:
            terminal.note(f"To bring tasks, clients need  {server.TOKEN}={token}", style="bold")

    terms = server.DeskTerms(sandbox=config.evaluate.sandbox)
    asyncio.run(server.serve_evaluations(place, callers, terms, engine, started))
