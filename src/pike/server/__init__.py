"""What PIKE serves: an MCP server for coding agents, a live dashboard for people, and the judge itself.

Knows the protocols and who may speak them. Does not know how anything is done (`api`). What an
agent sends is trusted as little as a model's answer (ADR 0010). Starting a server loads the extra
`mcp` or `serve`.
"""

from pike.api.service.desk import DeskTerms
from pike.server.clients import CLIENTS, client_config
from pike.server.dashboard import LOOPBACK, TOKEN, DashboardAccess, serve_dashboard
from pike.server.evaluation.access import ServiceTokens, administrator, read_tokens
from pike.server.evaluation.serving import ServicePlace, serve_evaluations
from pike.server.runs import Offer
from pike.server.serve import (
    PATH,
    TOKEN_VARIABLE,
    check_token,
    is_loopback,
    serve_http,
    serve_stdio,
    token_from,
)

__all__ = [
    "CLIENTS",
    "LOOPBACK",
    "PATH",
    "TOKEN",
    "TOKEN_VARIABLE",
    "DashboardAccess",
    "DeskTerms",
    "Offer",
    "ServicePlace",
    "ServiceTokens",
    "administrator",
    "check_token",
    "client_config",
    "is_loopback",
    "read_tokens",
    "serve_dashboard",
    "serve_evaluations",
    "serve_http",
    "serve_stdio",
    "token_from",
]
