"""What to put into the configuration of a coding agent so that it starts or reaches this server.

Knows the formats of the common clients, as documented in November 2026. Does not write any file,
and never prints a token: clients read it from the environment.
"""

import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from pike.core.errors import UserError
from pike.core.settings.merging import nearest
from pike.server.serve import TOKEN_VARIABLE

NAME = "pike"


def client_config(client: str, command: Sequence[str], url: str = "") -> str:
    """Write the configuration of a client, with a first line that says where it goes.

    Args:
        client: one of `CLIENTS`.
        command: the program that serves on standard streams, with its arguments.
        url: the address of a running server, empty for `command`.

    Raises:
        UserError: the client is not known, or cannot reach servers by address.
    """
    if client not in _KNOWN:
        raise UserError(f"There is no configuration for '{client}'{nearest(client, _KNOWN)}")
    place, text = _KNOWN[client]
    return f"{place}\n\n{text(command, url)}"


def _json(table: str, command: Sequence[str], url: str, *, kind: bool, token: str) -> str:
    entry: dict[str, Any]
    if url:
        entry = {"type": "http"} if kind else {}
        entry |= {"url": url, "headers": {"Authorization": f"Bearer {token}"}}
    else:
        entry = {"type": "stdio"} if kind else {}
        entry |= {"command": command[0], "args": list(command[1:])}
    return json.dumps({table: {NAME: entry}}, indent=2)


def _claude_desktop(command: Sequence[str], url: str) -> str:
    if url:
        raise UserError("Claude Desktop reads only servers that it starts itself from this file: leave out --http")
    return _json("mcpServers", command, "", kind=False, token="")


_claude_code = partial(_json, "mcpServers", kind=True, token=f"${{{TOKEN_VARIABLE}}}")
_cursor = partial(_json, "mcpServers", kind=False, token=f"${{env:{TOKEN_VARIABLE}}}")


def _vscode(command: Sequence[str], url: str) -> str:
    text = _json("servers", command, url, kind=True, token="${input:pike-token}")
    if not url:
        return text
    asked = {"type": "promptString", "id": "pike-token", "description": TOKEN_VARIABLE, "password": True}
    return json.dumps({"inputs": [asked], **json.loads(text)}, indent=2)


def _codex(command: Sequence[str], url: str) -> str:
    # Strings and lists of strings are written alike in JSON and TOML.
    if url:
        lines = [f"url = {json.dumps(url)}", f"bearer_token_env_var = {json.dumps(TOKEN_VARIABLE)}"]
    else:
        lines = [f"command = {json.dumps(command[0])}", f"args = {json.dumps(list(command[1:]))}"]
    return "\n".join([f"[mcp_servers.{NAME}]", *lines])


# Where the configuration of each client lives, and its text for a command or an address.
_KNOWN: dict[str, tuple[str, Callable[[Sequence[str], str], str]]] = {
    "claude-code": ("Claude Code: in .mcp.json of the project", _claude_code),
    "claude-desktop": ("Claude Desktop: in claude_desktop_config.json", _claude_desktop),
    "cursor": ("Cursor: in .cursor/mcp.json of the project, or ~/.cursor/mcp.json", _cursor),
    "vscode": ("Visual Studio Code: in .vscode/mcp.json of the workspace", _vscode),
    "codex": ("Codex: in ~/.codex/config.toml", _codex),
}
CLIENTS = tuple(_KNOWN)
"""The clients that have a configuration here."""
