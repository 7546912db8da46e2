"""What a run brought, for people: figures computed from its journal, and one self-contained HTML page.

Knows journals and pages. Does not know how a run is carried out (`engine`) or how a terminal shows it (`cli`).
"""

from pike.report.fold import summarise
from pike.report.page import write
from pike.report.summary import Entrant, Point, RoleSpend, RunSummary, State

__all__ = ["Entrant", "Point", "RoleSpend", "RunSummary", "State", "summarise", "write"]
