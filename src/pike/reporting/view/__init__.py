"""What pages show of a run, a campaign and a folder, as plain values, and the file that holds it.

Knows the words of a page. Does not know how they are laid out (`assets`) or sent (`server`).
"""

from pike.reporting.view.campaign_view import campaign_view
from pike.reporting.view.details import details, original_details, texts_of
from pike.reporting.view.index_view import index_row, index_view
from pike.reporting.view.run_view import run_view
from pike.reporting.view.shell import page, policy

__all__ = [
    "campaign_view",
    "details",
    "index_row",
    "index_view",
    "original_details",
    "page",
    "policy",
    "run_view",
    "texts_of",
]
