"""The verbs of PIKE for other programs: an MCP server for coding agents.

Knows the protocol and who may speak it. Does not know how anything is done (`api`), and trusts what an agent sends no
more than a model's answer (ADR 0010). Needs the extra `mcp`, which is loaded when a server is started and not before.
"""

from pike.server.clients import CLIENTS, client_config
from pike.server.serve import PATH, TOKEN_VARIABLE, Offer, check_token, serve_http, serve_stdio

__all__ = [
    "CLIENTS",
    "PATH",
    "TOKEN_VARIABLE",
    "Offer",
    "check_token",
    "client_config",
    "serve_http",
    "serve_stdio",
]
