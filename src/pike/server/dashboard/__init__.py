"""The live dashboard: the pages of all runs of a folder, kept current by server-sent events.

Knows who may look and who may stop a run. Does not know what a page shows (`reporting`). Starting
it loads the extra `serve`.
"""

from pike.server.dashboard.guard import LOOPBACK, DashboardAccess
from pike.server.dashboard.serving import TOKEN, serve_dashboard

__all__ = ["LOOPBACK", "TOKEN", "DashboardAccess", "serve_dashboard"]
