"""What a run brought: figures computed from its journal, and one self-contained HTML page.

Knows journals and pages. Does not carry a run out (`engine`) or print one (`cli`).
"""

from pike.reporting.fold import require_texts, summarise
from pike.reporting.page import has_results, write
from pike.reporting.summary import ReportedCandidate, RunSummary, State

__all__ = ["ReportedCandidate", "RunSummary", "State", "has_results", "require_texts", "summarise", "write"]
