"""PIKE's own preset: what the simulator and the published ablations say is worth having, as one point of the options.

Knows its option values and why each is there. Does not know how an option is acted on. It is a hypothesis: no real run
has tested it (docs/strategies.md).

- It starts from recipes, which cost no query; the brainstormed first attempts still go to the original model.
- It never forgets its best (`memory`) and improves the best two in turn, no source twice.
- It keeps few samples in flight, so that each knows what the ones before it brought.
- A refused candidate waits for its repair (`deferred`), the least tried first: a stubborn one does not hold up a round,
  and repairs never take more than their share of the queries.
- After a plateau it asks for another approach, after a gain for a local change (`adaptive`).
- Where the user gives several models for a role, a bandit chooses among them; for repairs, name the cheap one first.
- Races are the judge's: it stops timing what is certainly slower than the best, and only finalists are measured again.
"""

from __future__ import annotations

from pike.search.choices import Diversity, Duplicates, FixOrder, Memory, Pacing, Repair, ScopeKind, Seeding
from pike.search.options import Options
from pike.search.point import Point, point

PIKE_X: tuple[Point, ...] = (
    point(
        "pike-x",
        "our own: recipes first, an elitist memory, deferred repairs, adaptive steps; give it a cheap model too",
        Options(
            pacing=Pacing.STEADY,
            in_flight=6,
            first_attempts=10,
            memory=Memory.RUN,
            top_k=2,
            diversity=Diversity.DISTINCT,
            per_branch=2,
            duplicates=Duplicates.ONCE,
            repair=Repair.DEFERRED,
            fix_order=FixOrder.FAIR,
            scope=ScopeKind.ADAPTIVE,
            plateau=5,
            seeding=Seeding.ORIGINAL,
            recipe_seeds=True,
        ),
    ),
)
"""Ours. Its values were chosen in the simulator (`benchmarks/simulate_presets.py ablation`)."""
