"""The strategy `agent`: whoever answers decides, one free-form step after another.

Knows the point of the option space that prescribes least: one step at a time, which offers the fastest solution as the
seed and the next fastest ones to look at. Does not know who answers (a coding agent, a person or a model); an answer
may continue any other candidate of the run and say so (ADR 0010).
"""

from __future__ import annotations

from pike.search.choices import Duplicates, InspirationKind, Memory, Pacing, Repair, Seeding, SelectionKind
from pike.search.options import Options
from pike.search.point import Point, point

NAME = "agent"
"""The preset whose steps can be asked and answered in one move, because nothing in their prompt binds the answer."""

AGENT: tuple[Point, ...] = (
    point(
        NAME,
        "a coding agent or a person answers, by MCP or by pike ask and pike tell, and decides what to continue",
        Options(
            pacing=Pacing.STEADY,
            in_flight=1,
            ideas=False,
            memory=Memory.RUN,
            selection=SelectionKind.TOP_K,
            top_k=1,
            seeding=Seeding.SEEDS,
            duplicates=Duplicates.ONCE,
            repair=Repair.NONE,
            inspiration=InspirationKind.TOP,
            shown=2,
        ),
    ),
)
