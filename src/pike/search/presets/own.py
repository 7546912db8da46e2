"""PIKE's own strategies: `pike-x`, and `agent` for coding agents and people.

Knows their option values. Does not know how an option acts. `pike-x` takes the parts that the
simulator and the published ablations recommend; docs/reference/strategies.md gives the reason for
each. Two campaigns have tested it, the latest docs/experiments/2026-11-27-h100-strategies-beside.md.
`agent` prescribes least: one step at a time, which offers the fastest solution as the seed and shows the
next fastest ones. Its answers may continue any other candidate of the run and name it (ADR 0010).
"""

from pike.search.options.library import Duplicates, Memory, Pool
from pike.search.options.pacing import Steady
from pike.search.options.prompting import Adaptive, Fastest, Wording
from pike.search.options.repair import Deferred, FixOrder, NoRepair
from pike.search.options.search import SearchOptions
from pike.search.options.selection import Seeding, TopK
from pike.search.presets.preset import Point, point

PIKE_X: tuple[Point, ...] = (
    point(
        "pike-x",
        "our own: recipes first, an elitist memory, deferred repairs, adaptive steps; give it a cheap model too",
        SearchOptions(
            pacing=Steady(in_flight=6, first_attempts=10),
            library=Pool(Memory.RUN, duplicates=Duplicates.ONCE),
            selection=TopK(2, distinct=2, seeding=Seeding.ORIGINAL),
            repair=Deferred(5, FixOrder.FAIR),
            scope=Adaptive(plateau=5),
            wording=Wording.DARING,
            failures=3,
            profile=True,
            recipe_seeds=True,
        ),
    ),
)
"""Ours. Its values were chosen in the simulator (`benchmarks/simulate_presets.py ablation`)."""

FREE_FORM = "agent"
"""The preset whose steps can be asked and answered in one move: its prompts bind no answer."""

AGENT: tuple[Point, ...] = (
    point(
        FREE_FORM,
        "a coding agent or a person answers, by MCP or by pike ask and pike tell, and decides what to continue",
        SearchOptions(
            pacing=Steady(in_flight=1),
            library=Pool(Memory.RUN, duplicates=Duplicates.ONCE),
            selection=TopK(1, seeding=Seeding.SEEDS),
            inspiration=Fastest(2),
            repair=NoRepair(),
            ideas=False,
        ),
    ),
)
