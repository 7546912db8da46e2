"""PIKE-O and the rungs from it to PIKE-B, as points of the option space.

Knows their parameters (arXiv 2511.16964). Does not know how an option is acted on, nor OpenEvolve (`evolution`). A rung
keeps what the ones before it changed; the last is PIKE-B without ideas in all but name.
"""

from __future__ import annotations

from dataclasses import replace

from pike.search.choices import InspirationKind, LibraryKind, Memory, Pacing, SelectionKind
from pike.search.evolution.options import EvolutionOptions
from pike.search.options import Options
from pike.search.point import Point, point

_PIKE_O = Options(
    pacing=Pacing.STEADY,
    in_flight=20,
    ideas=False,
    memory=Memory.RUN,
    library=LibraryKind.EVOLUTION,
    selection=SelectionKind.RATIO,
    exploration=0.2,
    exploitation=0.7,
    inspiration=InspirationKind.LIBRARY,
    evolution=EvolutionOptions(),
)
_MUT = replace(_PIKE_O, inspiration=InspirationKind.NONE)
_NPAR = replace(_MUT, in_flight=1)
_ONE_ISLAND = replace(_NPAR, evolution=EvolutionOptions(islands=1))
_EXPLOIT = replace(_ONE_ISLAND, exploration=0.0, exploitation=1.0)
_SHORT = replace(_EXPLOIT, evolution=EvolutionOptions(islands=1, archive=4))

PIKE_O: tuple[Point, ...] = (
    point("pike-o", "evolution on OpenEvolve's database with error fixing, as published", _PIKE_O),
    point("pike-o:no-efa", "pike-o without error fixing", replace(_PIKE_O, fix_attempts=0)),
    point("pike-o:mut", "pike-o that shows the parent only", _MUT),
    point("pike-o:mut,npar", "the same, one evaluation in flight", _NPAR),
    point("pike-o:mut,npar,1isl", "the same, one island", _ONE_ISLAND),
    point("pike-o:mut,npar,1isl,eo", "the same, seeds from the archive only", _EXPLOIT),
    point("pike-o:mut,npar,1isl,eo,sl", "the same, an archive of 4: pike-b:no-iba in all but name", _SHORT),
)
