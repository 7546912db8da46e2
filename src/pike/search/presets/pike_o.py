"""PIKE-O and the rungs from it to PIKE-B, as points of the option space.

Knows their parameters (arXiv 2511.16964). Does not know how an option acts. Each rung keeps the
changes of the ones before it; the last is PIKE-B without ideas in all but name.
"""

from dataclasses import replace

from pike.search.options.library import Islands
from pike.search.options.pacing import Steady
from pike.search.options.prompting import Drawn, NoInspiration
from pike.search.options.repair import NoRepair
from pike.search.options.search import SearchOptions
from pike.search.options.selection import ByRatio
from pike.search.presets.preset import Point, point

_PIKE_O = SearchOptions(
    pacing=Steady(in_flight=20),
    library=Islands(population=25, archive=12, islands=3),
    selection=ByRatio(exploration=0.2, exploitation=0.7),
    inspiration=Drawn(top=5, others=3),
    ideas=False,
)
_MUT = replace(_PIKE_O, inspiration=NoInspiration())
_NPAR = replace(_MUT, pacing=Steady(in_flight=1))
_ONE_ISLAND = replace(_NPAR, library=Islands(islands=1))
_EXPLOIT = replace(_ONE_ISLAND, selection=ByRatio(exploration=0.0, exploitation=1.0))
_SHORT = replace(_EXPLOIT, library=Islands(islands=1, archive=4))

PIKE_O: tuple[Point, ...] = (
    point("pike-o", "evolution on OpenEvolve's database with error fixing", _PIKE_O),
    point("pike-o:no-efa", "pike-o without error fixing", replace(_PIKE_O, repair=NoRepair())),
    point("pike-o:mut", "pike-o that shows the parent only", _MUT),
    point("pike-o:mut,npar", "the same, one evaluation in flight", _NPAR),
    point("pike-o:mut,npar,1isl", "the same, one island", _ONE_ISLAND),
    point("pike-o:mut,npar,1isl,eo", "the same, seeds from the archive only", _EXPLOIT),
    point("pike-o:mut,npar,1isl,eo,sl", "the same, an archive of 4: pike-b:no-iba in all but name", _SHORT),
)
