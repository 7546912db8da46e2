"""The verbs of PIKE for other programs: an MCP server for coding agents.

Knows the protocol and who may speak it. Does not know how anything is done (`api`). What an agent
sends is trusted as little as a model's answer (ADR 0010). Starting a server loads the extra `mcp`.
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
