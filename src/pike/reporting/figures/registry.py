"""All kinds of figures.

A new figure is one file in `kinds` and one line here. Does not know what they draw.
"""

from pike.reporting.figures.drawing import FigureKind
from pike.reporting.figures.kinds.code import code_size, techniques
from pike.reporting.figures.kinds.cost import roofline, where_time
from pike.reporting.figures.kinds.outcome import breakdown, speedups, spread, success, trajectories
from pike.reporting.figures.kinds.search import models, repairs, similarity, steps, tree

KINDS: tuple[FigureKind, ...] = (
    speedups.KIND,
    trajectories.KIND,
    breakdown.KIND,
    repairs.KIND,
    steps.KIND,
    code_size.KIND,
    techniques.KIND,
    similarity.KIND,
    spread.KIND,
    where_time.KIND,
    success.KIND,
    tree.KIND,
    models.KIND,
    roofline.KIND,
)
