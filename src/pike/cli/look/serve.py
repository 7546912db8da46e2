"""`pike serve`: the dashboard of a folder of runs.

Knows how a server is asked for. Does not know what it shows (`server`).
"""

import asyncio
import os
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from pike import server
from pike.cli.terminal import Terminal
from pike.core.errors import UserError

Runs = Annotated[Path, typer.Argument(metavar="RUNS_FOLDER", help="The folder in which runs are.", file_okay=False)]
Host = Annotated[str, typer.Option(metavar="HOST", help="Where to listen.")]
Port = Annotated[int, typer.Option(min=0, max=65535, metavar="PORT", help="Where to listen; 0 for any free port.")]
AllowHost = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME",
        help="A name or address under which others reach the server; needed for any host but loopback.",
        show_default=False,
    ),
]


def serve(runs: Runs = Path("runs"), host: Host = "127.0.0.1", port: Port = 8766, allow_host: AllowHost = None) -> None:
    """Show all runs and campaigns of a folder live in a browser.

    Reading is free on this machine. To stop or resume a run takes the token that is printed; on
    any other address everything does.
    """
    terminal = Terminal()
    alone = server.is_loopback(host)
    names = tuple(name.lower() for name in allow_host or ())
    if not alone and not names:
        raise UserError(f"A server on {host} can be reached by others: name the hosts it answers to with --allow-host")
    token = server.token_from(os.environ.get(server.TOKEN), server.TOKEN)
    access = server.DashboardAccess(token, (*server.LOOPBACK, *names), look_freely=alone and not names)

    def started(url: str) -> None:
        terminal.note(Text(f"Serving '{runs}' at {url}/; Ctrl-C ends it."))
        terminal.note(Text(f"To stop and resume runs, open  {url}/#token={token}", style="bold"))

    asyncio.run(server.serve_dashboard(runs, host, port, access, started))
